"""Images in a uint8 array (N, H, W, 3), labels as a matrix of 0 and 1 in which 0 means unknown.

    python examples/in_memory/image_arrays.py

A notebook in a script: a comment at the end of a cell shows what it prints.
"""

# %%
import tempfile

import numpy as np

import spml

folder = tempfile.TemporaryDirectory()
y = np.tile(np.eye(3, dtype=int), (12, 1))  # one known label per sample
X = np.zeros((len(y), 32, 32, 3), np.uint8)
X[:] = (255 * y)[:, None, None]  # red, green and blue images
print(X.shape, X.dtype)
# (36, 32, 32, 3) uint8

# %%
classes = ["red", "green", "blue"]
settings = {"backbone": "small_cnn", "batch_size": 8, "epochs": 10, "data": {"size": 32}}
run = spml.train(X, y, classes=classes, output=f"{folder.name}/run", quiet=True, **settings)
print(run.predict(X[:3], top_k=1).labels)
# [['red'], ['green'], ['blue']]

# %% A list of arrays may hold images of different sizes.
print(run.predict([X[0], X[1, :20]], top_k=1).labels)
# [['red'], ['green']]
