"""Several tables or folders as one data set, listed in a small YAML file with the settings of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...common.documents import parse_yaml, read_yaml_text
from ...common.errors import InputError, nearest, quoted
from ...common.phrases import counted
from ...common.safe import CONTROL, inside, quote
from ...config import DataConfig, from_dict
from ...labels import Unlisted
from ..join import join_records, relative_names
from ..names import RowNames
from ..records import Records
from ..rename import NEGATIVE, UNUSED, named_classes
from ..splits import SPELLINGS, split_name

SUFFIXES = (".yaml", ".yml")
SETTINGS = (
    "images", "unlisted", "file_column", "label_column", "split_column", "group", "separator", "split",
    "missing", "unlabelled",
)  # fmt: skip
_KEYS = ("path", "part", *SETTINGS)
_KEY = re.compile(r"^[\"']?sources[\"']?\s*:", re.MULTILINE)
_MOST = 1000  # sources


def is_sources(path: Path) -> bool:
    """Whether a file is YAML with the top key `sources`."""
    return path.suffix.lower() in SUFFIXES and path.is_file() and bool(_KEY.search(read_yaml_text(path)))


def read_sources(path: Path, config: DataConfig, read: Callable[..., Records]) -> Records:
    """Read what a list of sources names, each with its own settings, and join it.

    A file that several sources name is one sample, with the labels of all of them. Paths in the list are
    relative to its folder, and lie below it. `config` holds the settings of sources that do not state others;
    `read` reads the data of one.
    """
    parts: list[Records] = []
    unlisted: list[Unlisted] = []
    named: dict[str, str] = {}
    for position, entry in enumerate(_entries(path)):
        where = f"{path}: sources[{position}]"
        own = _config(path, entry, config, where)
        split = split_name(str(entry.get("part", "train")))
        if split is None:
            names = ", ".join(SPELLINGS)
            raise InputError(f"{where}: part is {quoted(entry['part'])}, but must be one of {names}.")
        records = read(own, may_lack=True)  # another source may have the classes that `unlisted` names
        if own.unlisted.startswith(NEGATIVE):
            named |= dict.fromkeys(named_classes(own.unlisted), where)
        if isinstance(records.ids, RowNames):  # rows of different tables are different samples
            table = Path(own.path).relative_to(path.parent).as_posix()
            records = replace(records, ids=[f"{table}/{row}" for row in records.ids])
        elif isinstance(records.inputs, Sequence):  # otherwise it can't be joined, which `join_records` says
            below = relative_names(records, path.parent)
            both = zip(below, records.ids, strict=True)
            ids = [name or f"{records.name}/{sample}" for name, sample in both]
            records = replace(records, ids=ids)
        if "part" in entry:
            records = replace(records, split=(split,) * len(records.ids))
        parts.append(records)
        unlisted.append(own.default_label)
    joined = join_records(parts, str(path), path.stem, unlisted)
    known = [joined.classes[column] for column in np.flatnonzero(joined.labels.positives_per_class())]
    for name, where in named.items():
        if name not in known:
            raise InputError(
                f"{where}: unlisted names the class {name!r}, which no source has. {nearest(name, known)}"
            )
    notes = joined.notes
    if not all(any(note.startswith(UNUSED) for note in part.notes) for part in parts):
        notes = tuple(note for note in notes if not note.startswith(UNUSED))  # another source has the names
    first = f"{path.name} was read as a list of {counted(len(parts), 'source')}."
    return replace(joined, notes=(first, *notes))


def _entries(path: Path) -> list[Mapping[str, Any]]:
    content = parse_yaml(read_yaml_text(path), str(path))
    if others := [key for key in content if key != "sources"]:
        raise InputError(f"{path}: unknown key {quoted(others[0])}; a list of sources has the key `sources`.")
    entries = content["sources"]
    if not isinstance(entries, list) or not 1 <= len(entries) <= _MOST:
        raise InputError(
            f"{path}: `sources` must be a list of 1 to {_MOST:,} entries such as `- path: photos.csv`, got "
            f"{quoted(entries)}."
        )
    for position, entry in enumerate(entries):
        where = f"{path}: sources[{position}]"
        if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
            raise InputError(f"{where}: must be settings with a `path`, got {quoted(entry)}.")
        for key in entry:
            if key not in _KEYS:
                raise InputError(f"{where}: unknown setting {quoted(key)}. {nearest(str(key), _KEYS)}")
    return entries


def _config(path: Path, entry: Mapping[str, Any], config: DataConfig, where: str) -> DataConfig:
    """Settings of a source; rows and classes are drawn from the whole only."""
    settings = {key: value for key, value in entry.items() if key != "part"}
    folder = path.parent
    for key in ("path", "images"):
        text = settings.get(key)
        if not isinstance(text, str):
            continue
        if CONTROL.search(text):
            raise InputError(f"{where}: {key} is {quote(text)}, which holds a control character. Correct it.")
        same = (folder / text).resolve() == folder.resolve()
        try:
            settings[key] = str(folder if same else inside(folder, text, where))
        except InputError as error:
            raise InputError(
                f"{where}: {key} is {quote(text)}, which is not below {folder}. Move the list of sources to "
                "a folder that holds all of them."
            ) from error
    if Path(settings["path"]).suffix.lower() in SUFFIXES:
        raise InputError(f"{where}: is YAML, but must be a table or folder. Name its sources themselves.")
    try:
        return from_dict({"data": {**asdict(config), "sample_rows": 0, "sample_classes": 0, **settings}}).data
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
