"""Readers: one file per input format. All of them return `Records`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ...config import DataConfig
from ...errors import InputError, nearest
from ..records import Records
from .coco import KEYS
from .digits import make_digits
from .registry import Reader, Source, find_reader, readers, register_reader


def read(config: DataConfig) -> Records:
    """Read `config.path` with the reader that recognises it; the first note says which one that was.

    The word `digits` always means the embedded data; a folder of that name is `./digits`.

    Raises:
        InputError: The path does not exist, no reader recognises it, or the reader finds a mistake in it.
    """
    if config.path == "digits":
        return make_digits()
    source = Source(existing(config.path))
    reader = find_reader(source)
    if reader is None:
        raise _unknown(source)
    records = reader.read(source.path, config)
    named = source.path.name or source.path
    return replace(records, notes=(f"{named} was read as {reader.title}.", *records.notes))


def _unknown(source: Source) -> InputError:
    path = source.path
    if source.suffix == ".json":
        return InputError(
            f"{path}: is no JSON of a known kind; found {source.outline}. Known are COCO (an "
            f"object with the keys {', '.join(KEYS)}), Label Studio (a list of tasks with `data` and "
            "`annotations`, exported as `JSON`, not `JSON-MIN`), and what spml data prepare writes."
        )
    return InputError(
        f"{path}: {source.suffix or 'a file without an ending'} is no known kind of data. Give a folder (one "
        "sub-folder per class, PASCAL VOC, COCO or Hugging Face), a .csv, .tsv or .parquet table with the "
        "columns `file` and `label`, a .json file of COCO or Label Studio, a .npz or .arff feature file, or "
        "`digits`."
    )


def existing(text: str) -> Path:
    """The path, if it exists.

    Raises:
        InputError: It does not exist; suggests what may have been meant.
    """
    path = Path(text)
    try:
        if text and path.exists():
            return path
        siblings = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    except (OSError, ValueError) as error:
        raise InputError(f"{text!r}: can't be opened: {error}.") from error
    if not text:
        raise InputError("No data given. Say --data.path with a folder, a .csv or .npz file, or `digits`.")
    hint = nearest(path.name, siblings) if siblings else f"There is no folder {path.parent} either."
    raise InputError(f"{text}: no such file or folder. {hint}")


__all__ = ["Reader", "Source", "existing", "read", "readers", "register_reader"]
