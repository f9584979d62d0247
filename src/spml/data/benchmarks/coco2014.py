"""MS-COCO 2014: `train2014` for training and validation, `val2014` for the test."""

from __future__ import annotations

from pathlib import Path

from ...errors import InputError
from ..readers.coco import Document
from ..readers.documents import load_json
from .common import Benchmark, Missing, Official, Part, Published, find_folder, full_labels
from .download import Archive

_PHASES = ("train", "val")
_ANNOTATIONS = Archive(
    "http://images.cocodataset.org/annotations/annotations_trainval2014.zip",
    252_872_794,
    "sha256:031296bbc80c45a1d1f76bf9a90ead27e94e99ec629208449507a4917a3bf009",
)
_IMAGES = {
    "train": Archive(
        "http://images.cocodataset.org/zips/train2014.zip",
        13_510_573_713,
        "sha256:ede4087e640bddba550e090eae701092534b554b42b05ac33f0300b984b31775",
    ),
    "val": Archive(
        "http://images.cocodataset.org/zips/val2014.zip",
        6_645_013_297,
        "sha256:fe9be816052049c34717e077d9e34aa60814a55679f804cd043e3cbee3b9fde0",
    ),
}


def _annotations(root: Path, phase: str) -> Path:
    return root / "annotations" / f"instances_{phase}2014.json"


def _folder(root: Path, phase: str) -> str:
    return find_folder(root, (f"{phase}2014", f"images/{phase}2014"), "")


def _missing(root: Path) -> list[Missing]:
    missing = [
        Missing(path, _ANNOTATIONS) for phase in _PHASES if not (path := _annotations(root, phase)).is_file()
    ]
    for phase in _PHASES:
        if not (folder := root / _folder(root, phase)).is_dir():
            missing.append(Missing(folder, _IMAGES[phase]))
    return missing


def _read(root: Path) -> Official:
    train, val = (_read_part(_annotations(root, phase), _folder(root, phase)) for phase in _PHASES)
    if train[0] != val[0]:
        raise InputError(
            f"{_annotations(root, 'val')}: its categories are not those of instances_train2014.json, in the "
            "same order with the same ids. Use the official files."
        )
    return Official(tuple(train[0].values()), train[1], val[1])


def _read_part(path: Path, folder: str) -> tuple[dict[int, str], Part]:
    """Read the categories by id and the annotated images of an official annotation file.

    Categories have the order of the file, which is that of the label columns. Images have at least one
    annotation, crowds included, and are ordered by their ids as strings ('100010' before '9').
    """
    document = load_json(path, Document)
    try:
        categories = {int(category.id): category.name for category in document.categories}
        files = {int(image.id): str(image.file_name) for image in document.images}
        columns = {identity: column for column, identity in enumerate(categories)}
        present: dict[int, set[int]] = {}
        for annotation in document.annotations:
            present.setdefault(int(annotation.image_id), set()).add(columns[int(annotation.category_id)])
        images = sorted(present, key=str)
        names = tuple(files[image] for image in images)
        labels = full_labels([sorted(present[image]) for image in images], len(columns))
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise InputError(
            f"{path}: is not the official annotation file, or is damaged ({type(error).__name__}: {error}). "
            "Download it again."
        ) from error
    return categories, Part(folder, names, labels)


COCO2014 = Benchmark(
    name="coco2014",
    title="MS-COCO 2014",
    page="https://cocodataset.org/#download",
    obtain=(
        f"Download {_ANNOTATIONS.url}, {_IMAGES['train'].url} and {_IMAGES['val'].url} and unpack them into "
        "the root folder, so that it contains annotations, train2014 and val2014."
    ),
    published=Published(82_081, 40_137, 2.94),
    missing=_missing,
    read=_read,
)
