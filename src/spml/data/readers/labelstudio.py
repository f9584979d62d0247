"""Label Studio: the JSON export, a list of tasks with annotations."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from msgspec import Struct

from ...common.documents import class_names, convert, load_json
from ...common.errors import InputError
from ...common.phrases import counted, first_few
from ...common.safe import CONTROL, quote
from ...config import DataConfig
from ..files.places import find_folder, images_folder
from ..images.image_files import SUFFIXES
from ..records import NamedImage, Records, named_records
from ..splits import split_name
from . import register_reader

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|data:")
_SERVED = re.compile(r"(?:https?://[^/]*)?/data/(local-files|upload)/(.*)", re.DOTALL)
_UPLOADED = re.compile(r"[0-9a-f]{8}-(?=.)")  # Label Studio puts this before the name of an uploaded file


class _Result(Struct):
    """One choice or region; `value` holds its labels in a list that is named like `type`."""

    type: str
    value: Any = None
    from_name: Any = None  # its control


class _Annotation(Struct):  # of one annotator
    result: list[_Result]
    was_cancelled: Any = False


class _Meta(Struct):
    """Additions of `spml data convert` to a task, which Label Studio keeps."""

    classes: list[str] | None = None
    known_negatives: list[str] | None = None


class _Task(Struct):
    data: dict[str, Any]
    annotations: list[_Annotation] | None = None
    meta: _Meta | None = None


@register_reader(
    "labelstudio",
    "a Label Studio export",
    recognises=lambda source: (
        source.suffix == ".json" and source.outline.kind == "a list" and "data" in source.outline.keys
    ),
)
def read_label_studio(path: Path, config: DataConfig) -> Records:
    """Read an export; images are looked up next to the file, in `images`, or in `config.images`.

    Known positives of a task are the choices, paths of a taxonomy (`Animals/Dog`) and labels of regions that
    any annotator gave; a choice of two controls is refused, since `yes` is no class. Cancelled
    annotations and predictions are ignored. All labels of a task without annotations are unknown; if
    `config.default_label` is negative, `config.unlabelled` says what becomes of the task. Additions of
    `spml data convert` that Label Studio keeps are read, too: `known_negatives` in the `meta` of a task,
    unless an annotator gave them; all `classes` in the first `meta` that has them; and a column `split` of
    the data if every task has one.
    """
    tasks = load_json(path, list[_Task])
    key = _image_key(tasks[0].data, f"{path}: [0].data")
    ignored = Counter[str]()
    controls: dict[str, Any] = {}  # of each choice
    images = [
        _image(task, key, f"{path}: [{number}]", ignored, controls) for number, task in enumerate(tasks)
    ]
    unseen = sum(image.positive is None for image in images)
    notes = [f"{counted(len(tasks), 'task')} with images in `{key}`, {unseen:,} of them not annotated."]
    if ignored:
        counts = [f"{count:,} of type {quote(name)}" for name, count in ignored.items()]
        notes.append(f"Results without labels were ignored: {first_few(counts, 20)}.")
    stated = images_folder(config)
    folders = [stated] if stated else [path.parent, path.parent / "images"]
    root = find_folder(folders, [image.files for image in images], images[0].where)
    listed = (
        class_names(task.meta.classes, f"{path}: [{number}].meta.classes")
        for number, task in enumerate(tasks)
        if task.meta and task.meta.classes
    )
    return named_records(
        path, path.stem, root, images, next(listed, ()), config, notes=notes, where=str(path)
    )


def _image(task: _Task, key: str, where: str, ignored: Counter[str], controls: dict[str, Any]) -> NamedImage:
    if key not in task.data:
        raise InputError(f"{where}.data: there is no field `{key}`, which names the image in the first task.")
    image = f"{where}.data.{key}"
    files = _file_names(convert(task.data[key], str, image), image)
    annotations = [(k, each) for k, each in enumerate(task.annotations or ()) if not each.was_cancelled]
    positive: dict[str, None] = {}
    for number, annotation in annotations:
        for position, result in enumerate(annotation.result):
            place = f"{where}.annotations[{number}].result[{position}]"
            names = _labels(result, place, ignored)
            positive.update(dict.fromkeys(names))
            for name in names if result.type == "choices" else ():
                if (other := controls.setdefault(name, result.from_name)) != result.from_name:
                    raise InputError(
                        f"{place}: {quote(name)} is a choice of both {quote(other)} and "
                        f"{quote(result.from_name)}, so it is no class. Write a table (.csv) with a column "
                        "per class, or give the choices of each control names of their own."
                    )
    meta = task.meta or _Meta()
    negative = class_names(meta.known_negatives or (), f"{where}.meta.known_negatives")
    split = task.data.get("split")
    return NamedImage(
        image,
        files,
        list(positive) if annotations else None,
        [name for name in negative if name not in positive],
        (split_name(split) if type(split) is str else None) or "",
    )


def _labels(result: _Result, where: str, ignored: Counter[str]) -> Sequence[str]:
    """Labels of one choice or region; counts other results by type."""
    kind = result.type
    if kind not in ("choices", "taxonomy") and not kind.endswith("labels"):
        ignored[kind] += 1
        return ()
    value = convert(result.value, dict[str, Any], f"{where}.value")
    where = f"{where}.value.{quote(kind)[1:-1]}"
    labels = value.get(kind) or []  # a region may have no label
    if kind == "taxonomy":
        labels = ["/".join(path) for path in convert(labels, list[list[str]], where)]
    return class_names(convert(labels, list[str], where), where)


def _image_key(data: Mapping[str, Any], where: str) -> str:
    """Key of `data` that names the image: `image`, or the only one with the name of an image file."""
    if "image" in data:
        return "image"
    candidates = [
        key
        for key, value in data.items()
        if type(value) is str and value.lower().endswith(tuple(SUFFIXES))
        if len(key) < 100 and not CONTROL.search(key)
    ]
    if len(candidates) == 1:
        return candidates[0]
    keys = ", ".join(quote(key) for key in list(data)[:12])
    raise InputError(
        f"{where}: ambiguous which key names the image: {keys or 'there is no key'}. Call that key `image`."
    )


def _file_names(text: str, where: str) -> list[str]:
    """Possible names of an image file below the folder of images."""
    if served := _SERVED.match(text):
        if served[1] == "local-files":
            return parse_qs(urlsplit(served[2]).query).get("d", [""])
        file = unquote(served[2])
        name = file.rpartition("/")[2]
        return [file, name, _UPLOADED.sub("", name, count=1)]
    if _ADDRESS.match(text):
        raise InputError(
            f"{where}: {quote(text)} is an address, but only files on this machine are read. Download the "
            "images and replace the addresses by their file names."
        )
    return [text]
