"""Readers: one file per input format. All of them return `Records`."""

from __future__ import annotations

from pathlib import Path

from ...config import DataConfig
from ...errors import InputError, nearest
from ..digits import make_digits
from ..records import Records
from .features import read_features
from .folder import read_folder
from .table import read_table

TABLES = (".csv", ".tsv")


def read(config: DataConfig) -> Records:
    """Read `config.path` with the reader that fits it: `digits`, a folder, a CSV or a .npz file.

    The word `digits` always means the embedded data; a folder of that name is `./digits`.

    Raises:
        InputError: nothing there, a file of another kind, or whatever the reader finds wrong.
    """
    if config.path == "digits":
        return make_digits()
    path = existing(config.path)
    if path.is_dir():
        return read_folder(path, config)
    suffix = path.suffix.lower()
    if suffix in TABLES:
        return read_table(path, config)
    if suffix == ".npz":
        return read_features(path, config)
    raise InputError(
        f"{path}: {suffix or 'a file without an ending'} is no known kind of data. Give a folder with one "
        "sub-folder per class, a .csv file with the columns `file` and `label`, a .npz file, or `digits`."
    )


def existing(text: str) -> Path:
    """The path, if there is something.

    Raises:
        InputError: nothing there; suggests what may have been meant.
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
