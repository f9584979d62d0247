"""FiftyOne: a dataset exported as `fiftyone.types.FiftyOneDataset`. FiftyOne itself is not needed."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from ...common.documents import class_name, class_names, convert, load_json
from ...common.errors import InputError, nearest
from ...common.phrases import counted, first_few
from ...common.safe import CONTROL, inside, is_file, quote
from ...config import DataConfig
from ..files.places import images_folder
from ..groups import group_names
from ..records import NamedImage, Records, named_records
from ..splits import SPLITS, split_name
from . import Source, register_reader

SAMPLES, METADATA = "samples.json", "metadata.json"
GIVEN, NEGATIVES = "ground_truth", "negatives"
FIELDS = (GIVEN, NEGATIVES, "predictions", "predicted_negatives")
"""Fields of known positives, known negatives, inferred positives and inferred negatives."""

SINGLE, SEVERAL = "Classification", "Classifications"

_HEAD = re.compile(rb'(\xef\xbb\xbf)?\s*\{\s*"samples"\s*:\s*\[')
_ABSOLUTE = re.compile(r"[/\\]|[A-Za-z]:[/\\]")


class _Document(Struct):  # samples.json
    samples: Annotated[list[dict[str, Any]], Meta(min_length=1)]


class _Sample(Struct):  # besides the fields with labels
    filepath: str
    tags: list[str] | None = None


class _Metadata(Struct):  # what is read of metadata.json
    classes: dict[str, list[str]] | None = None
    default_classes: list[str] | None = None


class _Classification(Struct):
    label: str | None = None


class _Classifications(Struct):
    classifications: list[_Classification]


def is_fiftyone(source: Source) -> bool:
    """Whether a source is a folder with a samples.json as FiftyOne writes it, or such a file itself."""
    if source.is_folder:
        file = Source(source.path / SAMPLES)
        return is_file(file.path) and bool(_HEAD.match(file.start))
    return (
        source.suffix == ".json" and source.outline.kind == "an object" and "samples" in source.outline.keys
    )


@register_reader("fiftyone", "a FiftyOne dataset", recognises=is_fiftyone)
def read_fiftyone(path: Path, config: DataConfig) -> Records:
    """Read an exported dataset; images are looked up in its folder, or in `config.images`.

    Known positives are the labels of the one field of type `Classifications` or `Classification`, or of the
    field `config.label_column`; predictions are ignored. Two additions of `spml data convert` are read, too:
    known negatives in the field `negatives`, and the split if each sample has one as a tag. All labels of a
    sample whose field is not set are unknown; if `config.default_label` is negative, `config.unlabelled` says
    what becomes of it. `config.group` names a field of text or numbers.
    """
    file = inside(path, SAMPLES, str(path)) if path.is_dir() else path
    entries = load_json(file, _Document).samples
    kinds: dict[str, str] = {}  # type of each field that holds labels, in any sample
    for entry in entries:
        for key, value in entry.items():
            if key != "metadata" and type(value) is dict and isinstance(value.get("_cls"), str):
                kinds.setdefault(key, value["_cls"])
    field = _label_field(kinds, config.label_column, file)
    images = [_image(entry, field, f"{file}: samples[{row}]", config) for row, entry in enumerate(entries)]
    if config.group and not any(image.group for image in images):
        keys = first_few([*map(quote, dict.fromkeys(chain(*entries)))], 12)
        raise InputError(
            f"{file}: data.group={config.group}: no sample has a field of this name with a text or a "
            f"number; found: {keys}."
        )
    root = images_folder(config) or file.parent
    names = _names_below([name for image in images for name in image.files], root, config, str(file))
    images = [image._replace(files=[name]) for image, name in zip(images, names, strict=True)]

    known = any(image.negative for image in images)
    ignored = [quote(key) for key in kinds if key != field and not (known and key == NEGATIVES)]
    unset = sum(image.positive is None for image in images)
    notes = [
        f"{counted(len(images), 'sample')} with labels in the field {quote(field)}, {unset:,} of them not "
        "labelled."
        + (f" Known negatives are in {NEGATIVES!r}." if known else "")
        + (f" Ignored: {first_few(ignored, 12)}." if ignored else "")
    ]
    if 0 < (rest := sum(not image.split for image in images)) < len(images):
        have = counted(rest, "sample has", "samples have")
        notes.append(f"Tags are not used as the split, because {have} none of {', '.join(SPLITS)}.")
    return named_records(
        path,
        file.resolve().parent.name,
        root,
        images,
        _stated_classes(inside(file.parent, METADATA, str(file)), field),
        config,
        notes=notes,
        where=f"{file}: {quote(field)}",
    )


def _label_field(kinds: Mapping[str, str], stated: str, file: Path) -> str:
    fields = [key for key, kind in kinds.items() if kind in (SINGLE, SEVERAL)]
    if stated:
        if stated in fields:
            return stated
        hint = nearest(stated, [quote(key)[1:-1] for key in fields]) if fields else "There is none at all."
        raise InputError(
            f"{file}: data.label_column: no sample has a field {quote(stated)} of type {SEVERAL} or "
            f"{SINGLE}. {hint}"
        )
    candidates = [key for key in fields if key not in FIELDS[1:]]  # unless the user says so
    if len(candidates) == 1:
        return candidates[0]
    found = first_few([f"{quote(key)} ({quote(kind)[1:-1]})" for key, kind in kinds.items()], 12)
    raise InputError(
        f"{file}: expected one field of type {SEVERAL} or {SINGLE} with given labels; found "
        f"{found or 'no labels at all'}. To name the field with the labels, pass data.label_column=FIELD."
    )


def _image(entry: Mapping[str, Any], field: str, where: str, config: DataConfig) -> NamedImage:
    sample = convert(entry, _Sample, where)
    positive = _labels(entry.get(field), f"{where}.{quote(field)[1:-1]}")
    negative = _labels(entry.get(NEGATIVES), f"{where}.{NEGATIVES}") if field != NEGATIVES else None
    if both := set(positive or ()).intersection(negative or ()):
        raise InputError(
            f"{where}: {quote(min(both))} is in both {quote(field)} and {NEGATIVES!r}, which says that it "
            "is absent. Remove one of the two."
        )
    tags = (sample.tags or ()) if config.split == "given" else ()
    splits = sorted({split for tag in tags if (split := split_name(tag))})
    if len(splits) > 1:
        raise InputError(
            f"{where}.tags: names the splits {' and '.join(splits)}, but a sample may be in one only. Remove "
            "one of the tags."
        )
    value = entry.get(config.group) if config.group else None
    (group,) = group_names([value if isinstance(value, (str, int, float)) else None])
    files, split = [sample.filepath], "".join(splits)
    return NamedImage(f"{where}.filepath", files, positive, negative or (), split, group)


def _labels(value: Any, where: str) -> list[str] | None:
    """Labels in a field; None if it is not set."""
    if value is None:
        return None
    if type(value) is dict and value.get("_cls") == SINGLE:
        label = convert(value, _Classification, where).label
        return None if label is None else [class_name(label, f"{where}.label")]
    labels = convert(value, _Classifications, where).classifications
    return [
        class_name(entry.label, f"{where}.classifications[{position}].label")
        for position, entry in enumerate(labels)
        if entry.label is not None
    ]


def _stated_classes(path: Path, field: str) -> list[str]:
    """Classes that metadata.json lists for the field, or for all fields."""
    if not is_file(path):
        return []
    metadata = load_json(path, _Metadata)
    if names := (metadata.classes or {}).get(field):
        return class_names(names, f"{path}: classes.{quote(field)[1:-1]}")
    return class_names(metadata.default_classes or (), f"{path}: default_classes")


def _names_below(files: Sequence[str], root: Path, config: DataConfig, where: str) -> Sequence[str]:
    """Names of files relative to `root`; absolute ones are those of the machine that exported the dataset.

    Unless these lie below `root`, they are relative to the innermost folder that holds all of them.
    """
    paths = [
        posixpath.normpath("/" + file.replace("\\", "/").lstrip("/")) if _ABSOLUTE.match(file) else ""
        for file in files
    ]
    folders = [posixpath.dirname(path) for path in paths if path]
    if not folders or any(map(CONTROL.search, folders)):
        return files
    common = posixpath.commonpath(folders)
    if Path(os.path.realpath(common)).is_relative_to(os.path.realpath(root)):
        return files
    if config.images is None:
        raise InputError(
            f"{where}: the images are in {quote(common)}, outside the folder of the export. Pass "
            "data.images with this folder, or with the one that they were moved to."
        )
    return [
        posixpath.relpath(path, common) if path else file for path, file in zip(paths, files, strict=True)
    ]
