"""FiftyOne: a dataset exported as `fiftyone.types.FiftyOneDataset`. FiftyOne itself is not needed."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from ...config import DataConfig
from ...errors import InputError, nearest
from ..phrases import counted, first_few
from ..records import Records
from ..safe import CONTROL, inside, is_file, quote
from ..splits import SPLITS, split_name
from .documents import class_name, convert, load_json
from .entries import Named, named_records
from .places import find_files, images_folder
from .registry import Source, register_reader

SAMPLES, METADATA = "samples.json", "metadata.json"
GIVEN, NEGATIVES = "ground_truth", "negatives"
PREDICTIONS, PREDICTED_NEGATIVES = "predictions", "predicted_negatives"
SINGLE, SEVERAL = "Classification", "Classifications"

_OTHERS = (NEGATIVES, PREDICTIONS, PREDICTED_NEGATIVES)
"""Fields that do not hold given labels unless the user says so."""

_HEAD = re.compile(rb'(\xef\xbb\xbf)?\s*\{\s*"samples"\s*:\s*\[')
_ABSOLUTE = re.compile(r"[/\\]|[A-Za-z]:[/\\]")


class Document(Struct):
    """Content of samples.json."""

    samples: list[dict[str, Any]]


class Metadata(Struct):
    """What is read of metadata.json, which describes the whole dataset."""

    classes: dict[str, list[str]] | None = None
    default_classes: list[str] | None = None


class Classification(Struct):
    """One label."""

    label: str | None = None


class Classifications(Struct):
    """The labels of a sample."""

    classifications: list[Classification]


class _Sample(NamedTuple):
    """Image file of one sample as it is written, and its labels."""

    file: str
    labels: Named


def is_fiftyone(source: Source) -> bool:
    """Whether a source is a folder with a samples.json as FiftyOne writes it, or such a file itself."""
    if not source.is_folder:
        outline = source.outline if source.suffix == ".json" else None
        return outline is not None and outline.kind == "an object" and "samples" in outline.keys
    path = source.path / SAMPLES
    if not is_file(path):
        return False
    with open(path, "rb") as stream:
        return _HEAD.match(stream.read(200)) is not None


@register_reader("fiftyone", "a FiftyOne dataset", recognises=is_fiftyone)
def read_fiftyone(path: Path, config: DataConfig) -> Records:
    """Read an exported dataset; images are looked up in its folder, or in `config.images`.

    Known positives are the labels of the one field of type `Classifications` or `Classification`, or of the
    field `config.label_column`; predictions are ignored. Two additions of `spml data convert` are read, too:
    known negatives in the field `negatives`, and the split if each sample has one as a tag. All labels of a
    sample whose field is not set are unknown; if `config.default_label` is negative, `config.unlabelled` says
    what becomes of it.

    Args:
        path: Exported folder, or the file samples.json in it.
        config: Settings, of which `images`, `label_column`, `missing`, `split`, `unlabelled` and `unlisted`
            are used.

    Raises:
        InputError: The file is not such an export, it is ambiguous which field holds the labels, or an image
            is missing or lies elsewhere; names the sample, counted from 0.
    """
    file = inside(path, SAMPLES, str(path)) if path.is_dir() else path
    entries = load_json(file, Document).samples
    if not entries:
        raise InputError(f"{file}: samples is empty; at least one entry is needed.")
    kinds = _label_kinds(entries)
    field = _label_field(kinds, config.label_column, file)
    samples = [_sample(entry, field, f"{file}: samples[{row}]") for row, entry in enumerate(entries)]
    root = images_folder(config) or file.parent
    names = _names_below([sample.file for sample in samples], root, config.images is not None, str(file))
    files = find_files(
        root, [[name] for name in names], lambda row: f"{file}: samples[{row}].filepath", config.missing
    )
    split, notes = _split(entries, file) if config.split == "given" else (None, [])
    return named_records(
        path,
        file.resolve().parent.name,
        (root, files),
        [sample.labels for sample in samples],
        _stated_classes(inside(file.parent, METADATA, str(file)), field),
        config,
        split=split,
        where=f"{file}: {quote(field)}",
        notes=(_note([sample.labels for sample in samples], field, kinds), *notes),
    )


def _label_kinds(entries: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Type of each field that holds labels, such as `Classifications`, in any sample."""
    kinds: dict[str, str] = {}
    for entry in entries:
        for key, value in entry.items():
            if key != "metadata" and type(value) is dict and isinstance(value.get("_cls"), str):
                kinds.setdefault(key, value["_cls"])
    return kinds


def _label_field(kinds: Mapping[str, str], stated: str, file: Path) -> str:
    """The field that holds the given labels."""
    fields = [key for key, kind in kinds.items() if kind in (SINGLE, SEVERAL)]
    if stated:
        if stated in fields:
            return stated
        hint = nearest(stated, [quote(key)[1:-1] for key in fields]) if fields else "There is none at all."
        raise InputError(
            f"{file}: data.label_column: no sample has a field {quote(stated)} of type {SEVERAL} or "
            f"{SINGLE}. {hint}"
        )
    candidates = [key for key in fields if key not in _OTHERS]
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        names = first_few([quote(key) for key in candidates], 12)
        raise InputError(
            f"{file}: ambiguous which field holds the given labels: {names}. Pass --data.label_column FIELD."
        )
    others = first_few([f"{quote(key)} ({quote(kind)[1:-1]})" for key, kind in kinds.items()], 12)
    raise InputError(
        f"{file}: no sample has a field of type {SEVERAL} or {SINGLE} with given labels; found "
        f"{others or 'no labels at all'}. To train on the labels of another such field, pass "
        "--data.label_column FIELD."
    )


def _sample(entry: Mapping[str, Any], field: str, where: str) -> _Sample:
    if "filepath" not in entry:
        raise InputError(f"{where}: there is no field `filepath`.")
    positive = _labels(entry.get(field), f"{where}.{quote(field)[1:-1]}")
    negative = _labels(entry.get(NEGATIVES), f"{where}.{NEGATIVES}") if field != NEGATIVES else None
    if both := set(positive or ()).intersection(negative or ()):
        raise InputError(
            f"{where}: {quote(min(both))} is in both {quote(field)} and {NEGATIVES!r}, which says that it "
            "is absent. Remove one of the two."
        )
    return _Sample(convert(entry["filepath"], str, f"{where}.filepath"), Named(positive, negative or []))


def _labels(value: Any, where: str) -> list[str] | None:
    """Labels in a field; None if it is not set."""
    if value is None:
        return None
    if type(value) is dict and value.get("_cls") == SINGLE:
        label = convert(value, Classification, where).label
        return None if label is None else [class_name(label, f"{where}.label")]
    labels = convert(value, Classifications, where).classifications
    return [
        class_name(entry.label, f"{where}.classifications[{position}].label")
        for position, entry in enumerate(labels)
        if entry.label is not None
    ]


def _split(entries: Sequence[Mapping[str, Any]], file: Path) -> tuple[tuple[str, ...] | None, list[str]]:
    """The split, if each sample has one as a tag; and a note if only some do."""
    found: list[str] = []
    for row, entry in enumerate(entries):
        where = f"{file}: samples[{row}].tags"
        tags = convert(entry.get("tags") or [], list[str], where)
        splits = sorted({split for tag in tags if (split := split_name(tag))})
        if len(splits) > 1:
            raise InputError(
                f"{where}: names the splits {' and '.join(splits)}, but a sample may be in one "
                "only. Remove one of the tags."
            )
        found += splits
    if len(found) == len(entries):
        return tuple(found), []
    rest = counted(len(entries) - len(found), "sample has", "samples have")
    note = f"Tags are not used as the split, because {rest} none of {', '.join(SPLITS)}."
    return None, [note] if found else []


def _stated_classes(path: Path, field: str) -> tuple[str, ...]:
    """Classes that metadata.json lists for the field, or for all fields."""
    if not is_file(path):
        return ()
    metadata = load_json(path, Metadata)
    key, names = f"classes.{quote(field)[1:-1]}", (metadata.classes or {}).get(field)
    if not names:
        key, names = "default_classes", metadata.default_classes or []
    where = f"{path}: {key}"
    return tuple(dict.fromkeys(class_name(name, f"{where}[{k}]") for k, name in enumerate(names)))


def _note(samples: Sequence[Named], field: str, kinds: Mapping[str, str]) -> str:
    """How the fields were understood."""
    unset = sum(sample.positive is None for sample in samples)
    known = any(sample.negative for sample in samples)
    ignored = [quote(key) for key in kinds if key != field and not (known and key == NEGATIVES)]
    return (
        f"{counted(len(samples), 'sample')} with labels in the field {quote(field)}, {unset:,} of them not "
        "labelled."
        + (f" Known negatives are in {NEGATIVES!r}." if known else "")
        + (f" Ignored: {first_few(ignored, 12)}." if ignored else "")
    )


def _names_below(files: Sequence[str], root: Path, elsewhere: bool, where: str) -> list[str]:
    """Names of the files for `find_files`.

    Absolute ones are those of the machine that exported the dataset. Unless they lie below `root`, they are
    relative to the innermost folder that holds all of them.

    Args:
        files: File of each sample, as it is written.
        root: Folder of images.
        elsewhere: Whether the user named this folder.
        where: File that names them, for messages.

    Raises:
        InputError: Absolute ones do not lie below the folder of the export, and the user named no other.
    """
    paths = [
        posixpath.normpath("/" + file.replace("\\", "/").lstrip("/")) if _ABSOLUTE.match(file) else ""
        for file in files
    ]
    folders = [posixpath.dirname(path) for path in paths if path]
    if not folders or any(map(CONTROL.search, folders)):
        return list(files)
    common = posixpath.commonpath(folders)
    if Path(os.path.realpath(common)).is_relative_to(os.path.realpath(root)):
        return list(files)
    if not elsewhere:
        raise InputError(
            f"{where}: the images are in {quote(common)}, outside the folder of the export. Pass "
            "--data.images with this folder, or with the one that they were moved to."
        )
    return [
        posixpath.relpath(path, common) if path else file for path, file in zip(paths, files, strict=True)
    ]
