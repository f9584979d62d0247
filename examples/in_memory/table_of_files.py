"""A DataFrame with a column of image files and a column of labels, as in a CSV file.

    python examples/in_memory/table_of_files.py

A notebook in a script: a comment at the end of a cell shows what it prints.
"""

# %%
import tempfile
from pathlib import Path

import pandas as pd
from PIL import Image

import spml

temporary = tempfile.TemporaryDirectory()
folder = Path(temporary.name)
rows = []
for number in range(12):
    for colour in ("red", "green", "blue"):
        file = folder / f"{colour} {number}.png"
        Image.new("RGB", (40, 40), colour).save(file)
        rows.append({"file": file, "label": colour})
table = pd.DataFrame(rows)
print(len(table))
# 36

# %% A small network, trained from random weights; `backbone` may be the name of any model of timm.
run = spml.train(table, backbone="small_cnn", batch_size=8, epochs=10, output=folder / "run", quiet=True)
print(run.classes, run.summary["data"]["samples"])
# ('blue', 'green', 'red') {'train': 29, 'val': 7}

# %%
print(run.predict(table["file"][:2], top_k=1).labels)
# [['red'], ['green']]
