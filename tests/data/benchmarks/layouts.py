"""Miniature copies of the official folder layouts of the benchmarks, with tiny images and known labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from spml.data.benchmarks import VOC_CLASSES

TRAIN, TEST = 20, 8


class Expected(NamedTuple):
    """Expected content: files relative to the root and their label columns, in the order of the protocol."""

    classes: tuple[str, ...]
    train: list[tuple[str, list[int]]]
    test: list[tuple[str, list[int]]]


def image(path: Path, columns: list[int]) -> None:
    """Write a JPEG whose colour depends on its labels, so that a model can learn them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    colour = tuple(60 * (sum(columns) * factor % 4) for factor in (1, 2, 3))
    Image.new("RGB", (20, 16), colour).save(path)


def some_columns(row: int, classes: int) -> list[int]:
    """One to three label columns that differ between rows."""
    return sorted({row % classes, row * 3 % classes, row * 7 % classes})


def voc2012(root: Path) -> Expected:
    """Lists as in the official release: two spaces before a 1."""
    base = root / "VOCdevkit/VOC2012"
    (base / "ImageSets/Main").mkdir(parents=True)
    parts = {}
    for phase, count, first in (("train", TRAIN, 0), ("val", TEST, 100)):
        rows = {f"2008_{first + row:06}": some_columns(row, 20) for row in range(count)}
        for column, name in enumerate(VOC_CLASSES):
            lines = []
            for number, (stem, columns) in enumerate(rows.items()):
                value = " 1" if column in columns else " 0" if (number + column) % 5 == 0 else "-1"
                lines.append(f"{stem} {value}\n")
            (base / f"ImageSets/Main/{name}_{phase}.txt").write_text("".join(reversed(lines)))
        for stem, columns in rows.items():
            image(base / f"JPEGImages/{stem}.jpg", columns)
        parts[phase] = [(f"VOCdevkit/VOC2012/JPEGImages/{stem}.jpg", rows[stem]) for stem in sorted(rows)]
    return Expected(VOC_CLASSES, parts["train"], parts["val"])


def coco2014(root: Path) -> Expected:
    """Category ids with gaps and not ascending, image ids of different lengths, an unannotated image."""
    categories = [{"id": number, "name": f"thing {number}"} for number in (7, 1, 90, 13)]
    (root / "annotations").mkdir(parents=True)
    parts = {}
    for phase, count, first in (("train", TRAIN, 1), ("val", TEST, 500)):
        numbers = [first + 9 * row * row for row in range(count)]  # 1 ... 3250: as strings, 10 comes before 2
        rows = {number: some_columns(row, 4) for row, number in enumerate(numbers)}
        name = f"COCO_{phase}2014_{{:012}}.jpg"
        images = [
            {"id": number, "file_name": name.format(number), "height": 16} for number in [*rows, 424242]
        ]
        annotations = [
            {"id": 10 * number + column, "image_id": number, "category_id": categories[column]["id"],
             "iscrowd": int(column == 2), "bbox": [1, 2, 3, 4], "segmentation": [[1.5, 2.5]]}
            for number, columns in reversed(rows.items()) for column in [*columns, columns[0]]
        ]  # fmt: skip
        content = {"info": {}, "images": images, "annotations": annotations, "categories": categories}
        (root / f"annotations/instances_{phase}2014.json").write_text(json.dumps(content))
        for number, columns in rows.items():
            image(root / f"{phase}2014" / name.format(number), columns)
        parts[phase] = [
            (f"{phase}2014/{name.format(number)}", rows[number]) for number in sorted(rows, key=str)
        ]
    return Expected(tuple(category["name"] for category in categories), parts["train"], parts["val"])


def cub200(root: Path) -> Expected:
    """Training and test images mixed, lines of five or six numbers, uncertain and absent attributes."""
    base = root / "CUB_200_2011"
    (base / "attributes").mkdir(parents=True)
    classes = tuple(f"has_part::kind_({column})" for column in range(312))
    (root / "attributes.txt").write_text("".join(f"{i + 1} {name}\n" for i, name in enumerate(classes)))
    files, splits, lines, train, test = [], [], [], [], []
    for row in range(TRAIN + TEST):
        columns = sorted({row, 3 * row + 1, 300, *range(100, 100 + row)})
        file, is_train = f"{row % 3 + 1:03}.Black_Bird/Bird_{row:04}.jpg", row % 7 not in (3, 5)
        files.append(f"{row + 1} {file}\n")
        splits.append(f"{row + 1} {int(is_train)}\n")
        for column in range(312):
            certainty = column % 4 + 1
            odd = "0 1.509" if (row, column) in ((2, 9), (9, 63)) else "27.708"
            lines.append(f"{row + 1} {column + 1} {int(column in columns)} {certainty} {odd}\n")
        image(base / "images" / file, columns)
        (train if is_train else test).append((f"CUB_200_2011/images/{file}", columns))
    (base / "images.txt").write_text("".join(files))
    (base / "train_test_split.txt").write_text("".join(splits))
    (base / "attributes/image_attribute_labels.txt").write_text("".join(lines))
    return Expected(classes, train, test)


def nuswide(root: Path) -> Expected:
    """The official release, with backslashes in its lists; one training image has no concept."""
    classes = ("airport", "animal", "beach", "zebra")
    for folder in ("ConceptsList", "ImageList", "Groundtruth/TrainTestLabels"):
        (root / folder).mkdir(parents=True)
    (root / "ConceptsList/Concepts81.txt").write_text("\r\n".join(classes) + "\r\n")
    parts = []
    for phase, count, first in (("Train", TRAIN, 0), ("Test", TEST, 50)):
        rows = [
            (f"actor{row % 2}\\{first + row:04}_{row}.jpg", some_columns(row, 4) if row != 5 else [])
            for row in range(count)
        ]
        (root / f"ImageList/{phase}Imagelist.txt").write_text("".join(f"{name}\r\n" for name, _ in rows))
        for column, name in enumerate(classes):
            values = "".join(f"{int(column in columns)}\r\n" for _, columns in rows)
            (root / f"Groundtruth/TrainTestLabels/Labels_{name}_{phase}.txt").write_text(values)
        named = [("Flickr/" + name.replace("\\", "/"), columns) for name, columns in rows]
        for file, columns in named:
            image(root / file, columns)
        parts.append(named)
    return Expected(classes, *parts)


def formatted_nuswide(root: Path, expected: Expected, rows: slice = slice(None)) -> None:
    """Write the formatted lists for some rows of each part."""
    for phase, part in (("train", expected.train[rows]), ("val", expected.test[rows])):
        names = np.array([file.removeprefix("Flickr/") for file, _ in part], dtype=np.str_)
        labels = np.zeros((len(part), len(expected.classes)))
        for row, (_, columns) in enumerate(part):
            labels[row, columns] = 1
        np.save(root / f"formatted_{phase}_images.npy", names)
        np.save(root / f"formatted_{phase}_labels.npy", labels)


LAYOUTS = {"voc2012": voc2012, "coco2014": coco2014, "nuswide": nuswide, "cub200": cub200}
