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
from ..files import find_files, find_folder, images_folder
from ..images.image_files import SUFFIXES
from ..records import Records, label_entries, without_unlabelled
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
    where = [f"{path}: [{number}].data.{key}" for number in range(len(tasks))]
    names: list[list[str]] = []  # possible names of the image of each task
    known: dict[int, list[tuple[int, str]]] = {1: [], -1: []}  # task and label of positives and negatives
    unseen: list[int] = []  # tasks that nobody labelled
    listed: list[str] = []
    ignored = Counter[str]()
    controls: dict[str, Any] = {}  # of each choice
    for number, task in enumerate(tasks):
        at, meta = f"{path}: [{number}]", task.meta or _Meta()
        if key not in task.data:
            raise InputError(
                f"{at}.data: there is no field `{key}`, which names the image in the first task."
            )
        names.append(_file_names(convert(task.data[key], str, where[number]), where[number]))
        annotations = [(k, each) for k, each in enumerate(task.annotations or ()) if not each.was_cancelled]
        positive: dict[str, None] = {}
        for k, annotation in annotations:
            for position, result in enumerate(annotation.result):
                here = f"{at}.annotations[{k}].result[{position}]"
                positive |= dict.fromkeys(_labels(result, here, ignored, controls))
        negative = class_names(meta.known_negatives or (), f"{at}.meta.known_negatives")
        known[1] += [(number, label) for label in positive]
        known[-1] += [(number, label) for label in negative if label not in positive]
        unseen += [] if annotations else [number]
        listed = listed or class_names(meta.classes or (), f"{at}.meta.classes")
    notes = [f"{counted(len(tasks), 'task')} with images in `{key}`, {len(unseen):,} of them not annotated."]
    if ignored:
        counts = [f"{count:,} of type {quote(name)}" for name, count in ignored.items()]
        notes.append(f"Results without labels were ignored: {first_few(counts, 20)}.")
    if not known[1]:
        raise InputError(f"{path}: no image has a label. At least some must have one.")
    stated = images_folder(config)
    root = find_folder([stated] if stated else [path.parent, path.parent / "images"], names, where[0])
    files = find_files(root, names, where.__getitem__, config.missing)
    classes = tuple(dict.fromkeys([*listed, *sorted({label for _, label in known[1] + known[-1]})]))
    column = {name: position for position, name in enumerate(classes)}
    entries = {
        sign: ([number for number, _ in pairs], [column[label] for _, label in pairs])
        for sign, pairs in known.items()
    }
    splits = [split_name(text) if type(text := task.data.get("split")) is str else None for task in tasks]
    records = Records(
        source=str(path),
        name=path.stem,
        ids=tuple(files.names),
        inputs=files,
        classes=classes,
        classes_given=bool(listed),
        labels=label_entries(
            entries[1], (len(tasks), len(classes)), config.default_label, negative=entries[-1]
        ),
        split=tuple(split or "" for split in splits) if all(splits) else None,
        notes=tuple(notes),
    )
    return without_unlabelled(records, unseen if config.default_label == "negative" else [], config)


def _labels(result: _Result, where: str, ignored: Counter[str], controls: dict[str, Any]) -> Sequence[str]:
    """Labels of one choice or region; counts other results by type, and notes the control of each choice."""
    kind = result.type
    if kind not in ("choices", "taxonomy") and not kind.endswith("labels"):
        ignored[kind] += 1
        return ()
    value = convert(result.value, dict[str, Any], f"{where}.value")
    where = f"{where}.value.{quote(kind)[1:-1]}"
    labels = value.get(kind) or []  # a region may have no label
    if kind == "taxonomy":
        labels = ["/".join(path) for path in convert(labels, list[list[str]], where)]
    names = class_names(convert(labels, list[str], where), where)
    for name in names if kind == "choices" else ():
        if (other := controls.setdefault(name, result.from_name)) != result.from_name:
            raise InputError(
                f"{where}: {quote(name)} is a choice of both {quote(other)} and {quote(result.from_name)}, "
                "so it is no class. Write a table (.csv) with a column per class, or give the choices of "
                "each control names of their own."
            )
    return names


def _image_key(data: Mapping[str, Any], where: str) -> str:
    """Key of `data` that names the image: `image`, or the only one with the name of an image file."""
    files = [
        key
        for key, value in data.items()
        if type(value) is str and value.lower().endswith(tuple(SUFFIXES))
        if len(key) < 100 and not CONTROL.search(key)
    ]
    if "image" in data or len(files) == 1:
        return "image" if "image" in data else files[0]
    keys = ", ".join(quote(key) for key in list(data)[:12]) or "there is no key"
    raise InputError(f"{where}: ambiguous which key names the image: {keys}. Call that key `image`.")


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
