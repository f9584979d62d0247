"""Label Studio: the JSON export, a list of tasks with annotations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from ...config import DataConfig
from ...errors import InputError
from ..images import SUFFIXES
from ..records import Records
from ..safe import CONTROL, shown
from ..splits import split_name
from .documents import LIST, OBJECT, TEXT, class_name, load_json, of_kind, optional, require
from .entries import Entries, label_entries
from .places import find_files, find_folder, images_folder
from .registry import register_reader

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|data:")
_SERVED = re.compile(r"(?:https?://[^/]*)?/data/(local-files|upload)/(.*)", re.DOTALL)
_UPLOADED = re.compile(r"[0-9a-f]{8}-(?=.)")  # what Label Studio puts before the name of an uploaded file


class _Task(NamedTuple):
    where: str
    files: list[str]  # what the image may be called
    labels: list[str] | None  # None if nobody has annotated it
    absent: list[str]
    split: str | None


def is_label_studio(document: Any) -> bool:
    """Whether a JSON document is a list of tasks."""
    return (
        type(document) is list
        and bool(document)
        and type(document[0]) is dict
        and ("annotations" in document[0] or "data" in document[0])
    )


@register_reader(
    "labelstudio",
    "a Label Studio export",
    recognises=lambda source: source.suffix == ".json" and is_label_studio(source.document),
)
def read_label_studio(path: Path, config: DataConfig) -> Records:
    """Read an export; images are looked up beside the file, in `images`, or in `config.images`.

    Known positives of a task are the choices and the labels of regions that any annotator gave; annotations
    that were cancelled and predictions are ignored. Nothing is known about a task that nobody has annotated;
    where `config.unlisted` is negative, it is left out. What `spml data convert` writes and Label Studio
    keeps is read, too: `known_negatives` of a task's `meta` unless an annotator gave them, all `classes` in
    the first that has them, and a column `split` of the data if every task has one.

    Args:
        path: of the file.
        config: `images` and `unlisted` are used.
        document: the content of the file.

    Raises:
        InputError: the document is not as described, an image is missing or at an address of the web; names
            the task, counted from 0.
    """
    document = load_json(path)
    source = str(path)
    if not is_label_studio(document):
        raise InputError(f"{source}: is no list of tasks, as Label Studio exports them as `JSON`.")
    ignored: dict[str, int] = {}
    key = _image_key(document[0], f"{source}: [0]")
    tasks = [_task(task, key, f"{source}: [{place}]", ignored) for place, task in enumerate(document)]
    unseen = sum(task.labels is None for task in tasks)
    notes = [f"{len(tasks):,} tasks with images in `{key}`, {unseen:,} of them not annotated."]
    if unseen and config.unlisted == "negative":
        tasks = [task for task in tasks if task.labels is not None]
        notes.append("Tasks that are not annotated were left out.")
    if ignored:
        found = ", ".join(f"{count:,} of type {shown(name)}" for name, count in ignored.items())
        notes.append(f"Results without labels were ignored: {found}.")
    stated = _stated_classes(document, source)
    given = {name for task in tasks for name in (*(task.labels or ()), *task.absent)}
    classes = (*stated, *sorted(given.difference(stated)))
    if not any(task.labels for task in tasks):
        raise InputError(f"{source}: no annotation gives a label. At least some tasks must have one.")
    root = find_folder(_folders(path, config), tasks[0].files, tasks[0].where)
    files = find_files(root, [task.files for task in tasks], lambda place: tasks[place].where)
    column = {name: place for place, name in enumerate(classes)}
    known = [(row, column[name]) for row, task in enumerate(tasks) for name in task.labels or ()]
    absent = [
        (row, column[name])
        for row, task in enumerate(tasks)
        for name in task.absent
        if name not in (task.labels or ())
    ]
    split = tuple(task.split or "" for task in tasks)
    return Records(
        source=source,
        name=path.stem,
        ids=tuple(file.relative_to(root).as_posix() for file in files),
        inputs=tuple(files),
        classes=classes,
        classes_given=bool(stated),
        labels=label_entries(
            Entries.of(*zip(*known, strict=True)),
            (len(tasks), len(classes)),
            config.unlisted,
            negative=Entries.of(*zip(*absent, strict=True)) if absent else None,
        ),
        split=split if all(split) else None,
        notes=tuple(notes),
    )


def _task(task: Any, key: str, where: str, ignored: dict[str, int]) -> _Task:
    image = require(require(task, "data", OBJECT, where), key, TEXT, f"{where}.data")
    files = _file_names(image, f"{where}.data.{key}")
    if "completions" in task:
        raise InputError(f"{where}: is of an old Label Studio. Export from a version that has `annotations`.")
    annotations = optional(task, "annotations", LIST, where) or []
    labels: dict[str, None] = {}
    seen = False
    for place, annotation in enumerate(annotations):
        here = f"{where}.annotations[{place}]"
        results = require(annotation, "result", LIST, here)
        if annotation.get("was_cancelled"):
            continue
        seen = True
        for number, result in enumerate(results):
            labels.update(dict.fromkeys(_labels(result, f"{here}.result[{number}]", ignored)))
    absent = _listed(optional(task, "meta", OBJECT, where), "known_negatives", f"{where}.meta")
    split = task["data"].get("split")
    named = split_name(split) if type(split) is str else None
    return _Task(f"{where}.data.{key}", files, list(labels) if seen else None, absent, named)


def _stated_classes(document: Sequence[Any], source: str) -> tuple[str, ...]:
    """`classes` in the `meta` of the first task that has them."""
    for place, task in enumerate(document):
        if found := _listed(task.get("meta"), "classes", f"{source}: [{place}].meta"):
            return tuple(dict.fromkeys(found))
    return ()


def _listed(meta: Any, key: str, where: str) -> list[str]:
    """Class names that the `meta` of a task lists."""
    if type(meta) is not dict:
        return []
    names = optional(meta, key, LIST, where) or []
    return _class_names(names, f"{where}.{key}")


def _labels(result: Any, where: str, ignored: dict[str, int]) -> Sequence[str]:
    """The labels that one choice or region gives."""
    kind = require(result, "type", TEXT, where)
    if kind != "choices" and not kind.endswith("labels"):
        if kind in ignored or len(ignored) < 20:
            ignored[kind] = ignored.get(kind, 0) + 1
        return ()
    value = require(result, "value", OBJECT, where)
    names = optional(value, kind, LIST, f"{where}.value") or []  # a region may have lost its label
    at = f"{where}.value.{kind}"
    return _class_names(names, at)


def _class_names(names: Sequence[Any], at: str) -> list[str]:
    return [
        class_name(of_kind(name, TEXT, f"{at}[{place}]"), f"{at}[{place}]")
        for place, name in enumerate(names)
    ]


def _image_key(task: Any, where: str) -> str:
    """The key of `data` that names the image."""
    data = require(task, "data", OBJECT, where)
    if "image" in data:
        return "image"
    found = [key for key, value in data.items() if type(value) is str and _is_image(key, value)]
    if len(found) == 1:
        return str(found[0])
    keys = ", ".join(shown(key) for key in list(data)[:12])
    raise InputError(
        f"{where}.data: it can't be told which of its keys names the image: {keys or 'it has none'}. Call "
        "that key `image`."
    )


def _is_image(key: str, text: str) -> bool:
    return len(key) < 100 and not CONTROL.search(key) and text.lower().endswith(tuple(SUFFIXES))


def _file_names(text: str, where: str) -> list[str]:
    """What an image may be called below the folder of images."""
    if served := _SERVED.match(text):
        if served[1] == "local-files":
            return parse_qs(urlsplit(served[2]).query).get("d", [""])
        file = unquote(served[2])
        name = file.rpartition("/")[2]
        return [file, name, _UPLOADED.sub("", name, count=1)]
    if _ADDRESS.match(text):
        raise InputError(
            f"{where}: {shown(text)} is an address, but only files on this machine are read. Download the "
            "images, and put their file names in its place."
        )
    return [text]


def _folders(path: Path, config: DataConfig) -> list[Path]:
    stated = images_folder(config)
    return [stated] if stated else [path.parent, path.parent / "images"]
