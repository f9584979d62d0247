"""Features in a DataFrame of pandas, labels in one of its columns; predictions as a DataFrame.

    python examples/in_memory/pandas_features.py

A notebook in a script: a comment at the end of a cell shows what it prints.
"""

# %%
import tempfile

import pandas as pd
from sklearn.datasets import load_digits

import spml

folder = tempfile.TemporaryDirectory()
digits = load_digits(as_frame=True)
table = digits.data.assign(kind=digits.target.map({0: "round", 8: "round"}).fillna("other"))
table.index = pd.Index([f"scan {row}" for row in range(len(table))], name="scan")
print(table["kind"].value_counts().to_dict())
# {'other': 1445, 'round': 352}

# %% All columns but the labels are features. Samples are named by the index.
run = spml.train(table, y="kind", head="ridge", mean_labels=1, output=f"{folder.name}/run", quiet=True)
predictions = run.predict(digits.data[:2].set_index(pd.Index(["first", "second"])), top1_fallback=True)
print(predictions.to_frame()["labels"].to_dict())
# {'first': ['round'], 'second': ['other']}

# %% What was measured during the training is a DataFrame, too.
print(len(pd.DataFrame(run.history)) > 0)
# True
