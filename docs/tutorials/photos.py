# %% [markdown]
# # Tutorial: photographs in a folder
#
# A folder holds four hundred photographs, and each was tagged once. We train a model that gives every tag, say how
# many tags there are, and measure what the model is worth. The [quick start](../quickstart.md) goes further, on the
# command line: it finds missing tags, and shows the pages that ask questions.
#
# The photographs are [composed](../../examples/scenes/SOURCES.md): one to three of eight things lie on grass, gravel
# or bricks. So all labels of each are known here, which is never so in practice; they only judge in the end.

# %%
import csv
import sys
from pathlib import Path

from PIL import Image

import spml

sys.path.insert(0, "examples/scenes")  # of a clone of the repository, in whose folder this notebook runs
from make_scenes import make_photos

make_photos(Path("photos"), 400)
make_photos(Path("new"), 200, seed=1)
files = sorted(Path("photos").glob("*/*.jpg"), key=lambda file: file.name)
print(*files[:5], sep="\n")

# %% [markdown]
# The folder is the one tag that a photograph has. It says nothing about the others:


# %%
def side_by_side(names, width=180):
    sheet = Image.new("RGB", (width * len(names), width))
    for number, name in enumerate(names):
        with Image.open(name) as photo:
            sheet.paste(photo.resize((width, width)), (width * number, 0))
    return sheet


side_by_side(files[:5])

# %% [markdown]
# ## Train
#
# The default takes a pretrained network from timm, computes features of every photograph once, and solves an ensemble
# of linear models on them. `SETTINGS` is the place for another network, and for its weights where there is no
# connection: `{"model": {"backbone": "resnet50", "weights": "resnet50.safetensors"}}`.

# %%
SETTINGS = {}

# %%
run = spml.train("photos", output="runs/first", **SETTINGS)

# %% [markdown]
# `runs/first/report.html` shows what was learned, class by class. One line of the log says what the
# [parts](../train.md#parts-of-a-photo) of the photographs are worth: a chair in a corner changes what the
# network sees of this corner, and hardly the average of the photograph.
#
# ## Predict

# %%
predictions = run.predict("new", where=True)
some = list(predictions.ids[:5])
for name, labels in zip(some, predictions.labels, strict=False):
    print(f"{name:22} {', '.join(labels)}")
side_by_side(some)

# %% [markdown]
# ## Say how many labels there are
#
# No model can know from single tags how many things a photograph shows, which is the number
# [K](../decisions.md#k-the-mean-number-of-labels-per-sample). Without it thresholds are cautious, and no precision is
# stated. Fifty photographs that somebody has labelled in full tell it: `spml audit sample` draws them, and
# `spml review` shows them on a page. Here, the table of all labels stands in for that person.

# %%
with open("photos.csv", encoding="utf-8") as table:
    all_labels = {row["file"]: row["labels"].split("|") for row in csv.DictReader(table)}
sample = list(all_labels.values())[:50]
K = sum(map(len, sample)) / len(sample)
run.set_thresholds(mean_labels=K)
print(f"K = {K:.2f}")
for name, labels in zip(some, run.predict("new").labels, strict=False):
    print(f"{name:22} {', '.join(labels)}")

# %% [markdown]
# ## Judge
#
# Whoever has full labels for some photographs can measure mAP and F1. `unlisted="negative"` says that a label that is
# not listed is absent.

# %%
result = run.evaluate("new.csv", unlisted="negative")
print(f"mAP {100 * result['mAP']:.1f}, micro F1 {100 * result['thresholded']['micro']['f1']:.1f}")

# %% [markdown]
# Next: [find missing labels and train again](../audit.md), [what moves the result](../choose.md),
# [use the model elsewhere](../export.md).
