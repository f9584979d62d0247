"""A list of image files and a list of labels for each.

    python examples/in_memory/paths.py

A notebook in a script: a comment at the end of a cell shows what it prints.
"""

# %%
import tempfile
from pathlib import Path

from PIL import Image

import spml

temporary = tempfile.TemporaryDirectory()
folder = Path(temporary.name)
files, labels = [], []
for number in range(12):
    for colour in ("red", "green", "blue"):
        files.append(folder / f"{colour} {number}.png")
        labels.append([colour, "plain"] if number == 0 else [colour])
        Image.new("RGB", (40, 40), colour).save(files[-1])
print(labels[0], labels[3])
# ['red', 'plain'] ['red']

# %% Most samples have one known label, some have two.
run = spml.train(
    files, labels, backbone="small_cnn", batch_size=8, epochs=10, output=folder / "run", quiet=True
)
print(run.classes)
# ('blue', 'green', 'plain', 'red')

# %% A folder is searched; a file that is no image is left out, and a note says so.
(folder / "new").mkdir()
Image.new("RGB", (90, 60), "blue").save(folder / "new" / "sea.png")
(folder / "new" / "broken.png").write_text("not an image")
predictions = run.predict(folder / "new", top_k=1)
print([Path(name).name for name in predictions.ids], predictions.labels, len(predictions.notes))
# ['sea.png'] [['blue']] 1
