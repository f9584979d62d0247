"""MS-COCO 2014: `train2014` for training and validation, `val2014` for the test."""

from __future__ import annotations

from pathlib import Path

from ...common.documents import load_json
from ...common.errors import InputError
from ...labels import ObservedLabels
from ..readers.coco import Document
from .common import Benchmark, Official, Part, existing, find_folder


def _read(root: Path) -> Official:
    paths = [root / "annotations" / f"instances_{phase}.json" for phase in ("train2014", "val2014")]
    train, val = map(_read_part, paths)
    if train[0] != val[0]:
        raise InputError(
            f"{paths[1]}: its categories are not those of instances_train2014.json, in the "
            "same order with the same ids. Use the official files."
        )
    return Official(tuple(train[0].values()), train[1], val[1])


def _read_part(path: Path) -> tuple[dict[int, str], Part]:
    """Read the categories by id and the annotated images of an official annotation file.

    Categories have the order of the file, which is that of the label columns. Images have at least one
    annotation, crowds included, and are ordered by their ids as strings ('100010' before '9').
    """
    phase = path.stem.removeprefix("instances_")
    folder = find_folder(path.parents[1], (phase, f"images/{phase}"), "")
    document = load_json(existing(path), Document)
    try:
        categories = {int(category.id): category.name for category in document.categories}
        files = {int(image.id): str(image.file_name) for image in document.images}
        present: dict[int, set[str]] = {}
        for annotation in document.annotations:
            present.setdefault(int(annotation.image_id), set()).add(categories[int(annotation.category_id)])
        images = sorted(present, key=str)
        names = tuple(files[image] for image in images)
        labels = ObservedLabels.from_names(
            (list(present[image]) for image in images), [*categories.values()], unlisted="negative"
        )
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise InputError(
            f"{path}: is not the official annotation file, or is damaged ({type(error).__name__}: {error})."
        ) from error
    return categories, Part(folder, names, labels)


COCO2014 = Benchmark(
    name="coco2014",
    title="MS-COCO 2014",
    page="https://cocodataset.org/#download",
    obtain=(
        "Download annotations_trainval2014.zip, train2014.zip (13.5 GB) and val2014.zip (6.6 GB) and unpack "
        "them into the root folder, so that it contains annotations, train2014 and val2014."
    ),
    train=82_081,
    test=40_137,
    mean_labels=2.94,
    read=_read,
)
