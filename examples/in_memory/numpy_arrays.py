"""Features in a NumPy array, labels as class indices.

    python examples/in_memory/numpy_arrays.py

A notebook in a script: a comment at the end of a cell shows what it prints.
"""

# %%
import tempfile

from sklearn.datasets import load_digits

import spml

folder = tempfile.TemporaryDirectory()
X, y = load_digits(return_X_y=True)
print(X.shape, y[:5])
# (1797, 64) [0 1 2 3 4]

# %% One known label per sample. The head `ridge` is solved in a second.
run = spml.train(X[:1500], y[:1500], head="ridge", mean_labels=1, output=f"{folder.name}/run", quiet=True)
print(run.classes)
# ('0', '1', '2', '3', '4', '5', '6', '7', '8', '9')

# %% Labels of new samples: those above the threshold of their class, here at least one.
print(run.predict(X[1500:1505], top1_fallback=True).labels, y[1500:1505])
# [['1'], ['7'], ['4'], ['6'], ['3']] [1 7 4 6 3]

# %% Where every label is known, as a matrix of 0 and 1, the model can be judged by them.
every_label = (y[1500:, None] == range(10)).astype(int)
print(f"{run.evaluate(X[1500:], every_label, unlisted='negative')['mAP']:.2f}")
# 0.91
