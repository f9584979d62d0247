"""Measure whether the window that a model names for a label lies on the thing.

    python benchmarks/where.py digits DATA FOLDER    # scenes of digits, whose places are known
    python benchmarks/where.py coco DATA FOLDER      # COCO photographs with boxes, after `local.py runs`

DATA holds `images/coco128` and `models`. Of the two labels with the highest scores of an image, those count
that are right; their window is right if it covers the centre of one thing of the class. Beside it: a window
of the same size at a random place of the map, and one of the same size around the maximum of Grad-CAM.
Results go to results/where.json and where.md.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from shared import load_results, markdown, save_results, table, today, write_rows

import spml
from spml.analysis.pictures import grad_cam
from spml.common.draws import raw
from spml.data.readers import digits

SCENES, SIZE, ENLARGED = {"train": 2000, "val": 500, "test": 500}, 56, 224
OTHER_NAMES = {
    "sofa": "couch",
    "tvmonitor": "tv",
    "pottedplant": "potted plant",
    "diningtable": "dining table",
}


def write_digits(folder):
    """Write scenes of digits as photographs; returns a table, and the places of digits of test scenes."""
    boxes, place = [], digits._place

    def recorded(candidates, width, size, before):
        if not before:
            boxes.append([])
        boxes[-1].append(place(candidates, width, size, before))
        return boxes[-1][-1]

    digits._place = recorded
    records = digits.make_digits.__wrapped__(*SCENES.values(), size=SIZE)
    digits._place = place
    folder.mkdir(parents=True, exist_ok=True)
    rows, centres, start = [], {}, 0
    present = records.labels.to_ternary() == 1
    for split, count in SCENES.items():
        drawn = raw(count * max(digits.COUNTS), "digits", 0, split, "digit") >> np.uint64(32)
        drawn = np.asarray(drawn, np.int64).reshape(count, -1) % 10
        for number in range(count):
            name, row = f"{split}-{number}.png", start + number
            Image.fromarray(records.inputs.fetch([row], None)[0, 0].numpy()).save(folder / name)
            of_scene = [digits.NAMES[digit] for digit in drawn[number, : len(boxes[row])]]
            assert set(of_scene) == {digits.NAMES[column] for column in np.flatnonzero(present[row])}
            rows.append({"file": name, "labels": " ".join(sorted(set(of_scene))), "split": split})
            centres[name] = defaultdict(list)
            for digit, (x, y, width) in zip(of_scene, boxes[row], strict=True):
                centres[name][digit].append(((x + width / 2) / SIZE, (y + width / 2) / SIZE))
        start += count
    write_rows(folder / "labels.csv", rows)
    return folder / "labels.csv", {name: found for name, found in centres.items() if name.startswith("test")}


def coco_centres(data, classes):
    """Centres of the boxes of COCO's photographs by file and class, of classes that the model knows."""
    centres = {}
    for split in ("train2017", "val2017"):
        folder = Path(data) / "images" / "coco128"
        found = json.loads((folder / "annotations" / f"instances_{split}.json").read_text())
        images = {image["id"]: image for image in found["images"]}
        names = {category["id"]: category["name"] for category in found["categories"]}
        ours = {OTHER_NAMES.get(name, name): name for name in classes}
        for box in found["annotations"]:
            image, name = images[box["image_id"]], names[box["category_id"]]
            if name in ours:
                file = str(next(folder.rglob(image["file_name"])))
                x, y, width, height = box["bbox"]
                centre = (x + width / 2) / image["width"], (y + height / 2) / image["height"]
                centres.setdefault(file, defaultdict(list))[ours[name]].append(centre)
    return centres


def covers(window, centres):
    """Whether a window (left, top, width, height) covers one of these points."""
    left, top, width, height = window
    return any(left <= x <= left + width and top <= y <= top + height for x, y in centres)


def measure(run, centres, root):
    """Shares of right labels whose window is right."""
    windows = run.classifier.top.local.settings.windows
    places, hits, sizes = windows.places(), defaultdict(list), []
    predicted = run.predict([str(Path(root) / name) for name in centres], where=True, top_k=2, workers=2)
    known = {str(Path(root) / name): found for name, found in centres.items()}
    for name, labels, where in zip(predicted.ids, predicted.labels, predicted.where, strict=True):
        path = name if name in known else str(Path(root) / name)
        right = [(label, window) for label, window in zip(labels, where, strict=True) if label in known[path]]
        if not right:
            continue
        pixels = run.transform(Image.open(path))[None]
        columns = torch.tensor([[run.classes.index(label) for label, _ in right]])
        maps = grad_cam(run.classifier, pixels, columns)[0].numpy()
        for (label, window), cam in zip(right, maps, strict=True):
            width, height = window[2:]
            hits["window"].append(covers(window, known[path][label]))
            same = places[np.isclose(places[:, 2], width) & np.isclose(places[:, 3], height)]
            hits["random window of this size"].append(
                np.mean([covers(each, known[path][label]) for each in same])
            )
            row, column = np.unravel_index(cam.argmax(), cam.shape)
            x, y = (column + 0.5) / cam.shape[1], (row + 0.5) / cam.shape[0]
            left = min(max(x - width / 2, 0), 1 - width)
            top = min(max(y - height / 2, 0), 1 - height)
            around = (left, top, width, height)
            hits["window of this size around the maximum of Grad-CAM"].append(
                covers(around, known[path][label])
            )
            sizes.append(width * height)
    shares = {way: round(100 * float(np.mean(each)), 1) for way, each in hits.items()}
    area = round(100 * float(np.mean(sizes)), 1)
    return {"labels": len(sizes), **shares, "mean area of the window": area}


def page(found):
    """The results as a page."""
    parts = ("digits", "coco")
    return markdown(
        f"{found['date']}, {found['machine']}, torch {found['versions']['torch']}. "
        "`python benchmarks/where.py`.",
        "Of the two labels with the highest scores of an image, those that are right: the share, in "
        "percent, whose window covers the centre of one thing of the class. Digits: 500 test scenes, a "
        "head on a frozen MobileNetV2 at 224 pixels.",
        table(("", *parts), [(key, *(f"{found[part][key]:,}" for part in parts)) for key in found[parts[0]]]),
    )


def main(what, data, folder):
    """Measure the part that is named, and write it next to the other."""
    torch.set_num_threads(2)
    data, folder = Path(data), Path(folder)
    if what == "digits":
        listed, centres = write_digits(folder / "scenes")
        run = spml.train(
            str(listed), weights=str(data / "models" / "mobilenetv2_100_tf_bncal.safetensors"), local="on",
            data={"unlisted": "negative", "observe": "single", "size": ENLARGED, "workers": 2,
                  "separator": " "},
            mean_labels=2.3, quiet=True, overwrite=True, output=str(folder / "digits-run"),
        )  # fmt: skip
        part = {"digits": measure(run, centres, folder / "scenes")}
    else:
        run = spml.load(folder / "runs" / "mobilenetv2_100_tf_bncal-0")
        part = {"coco": measure(run, coco_centres(data, run.classes), "/")}
    print(part)
    found = load_results("where") | today() | part
    save_results("where", found, page(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
