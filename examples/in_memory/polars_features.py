"""Features in a DataFrame of polars, labels as a table of 1, 0 (absent) and NaN (unknown).

    python examples/in_memory/polars_features.py

A notebook in a script: a comment at the end of a cell shows what it prints.
"""

# %%
import tempfile

import numpy as np
import polars as pl
from sklearn.datasets import load_digits

import spml

folder = tempfile.TemporaryDirectory()
digits = load_digits()
X = pl.DataFrame(digits.data, schema=digits.feature_names)
print(X.shape, X.columns[:2])
# (1797, 64) ['pixel_0_0', 'pixel_0_1']

# %% Half of the samples are judged by their size only, the others by their parity only.
even, large = digits.target % 2 == 0, digits.target > 4
first = np.arange(len(X)) % 2 == 0
y = pl.DataFrame(
    {
        "even": np.where(first, even, np.nan),
        "large": np.where(first, np.nan, large),
    }
)
print(y[:2].rows())
# [(1.0, nan), (nan, 0.0)]

# %%
run = spml.train(X, y, head="ridge", mean_labels=1, output=f"{folder.name}/run", quiet=True)
scores = run.predict(X).scores
print(run.classes, (scores[even].mean(0) > scores[~even].mean(0)).tolist())
# ('even', 'large') [True, False]
