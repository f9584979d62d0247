"""Features in a torch tensor, labels as a matrix of -1 (absent), 0 (unknown) and 1 (present).

    python examples/in_memory/torch_tensors.py

A notebook in a script: a comment at the end of a cell shows what it prints.
"""

# %%
import tempfile

import torch
from sklearn.datasets import load_digits

import spml

folder = tempfile.TemporaryDirectory()
digits = load_digits()
X = torch.tensor(digits.data, dtype=torch.float32)
index = torch.tensor(digits.target)
print(tuple(X.shape), X.dtype)
# (1797, 64) torch.float32

# %% Of each sample, its digit is known, and that it is not the next one.
y = torch.zeros(len(X), 10, dtype=torch.int8)
y[torch.arange(len(X)), index] = 1
y[torch.arange(len(X)), (index + 1) % 10] = -1
names = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
print(y[0].tolist())
# [1, -1, 0, 0, 0, 0, 0, 0, 0, 0]

# %%
run = spml.train(
    X[:1500],
    y[:1500],
    classes=names,
    head="ridge",
    mean_labels=1,
    output=f"{folder.name}/run",
    quiet=True,
)
print(run.predict(X[1500:1503], top1_fallback=True).labels)
# [['one'], ['seven'], ['four']]

# %% The network itself, from features to logits.
with torch.inference_mode():
    logits = run.model(X[1500:1503])
print([names[column] for column in logits.argmax(1)])
# ['one', 'seven', 'four']
