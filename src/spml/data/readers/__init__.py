"""Readers: one file per input format. All of them return `Records`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from ...config import DataConfig
from ...errors import InputError, nearest
from ..records import Records
from .arff import read_arff
from .coco import KEYS, is_coco, is_coco_folder, read_coco, read_coco_folder
from .digits import make_digits
from .documents import keys_of, load_json
from .features import read_features
from .folder import read_folder
from .huggingface import is_huggingface, read_huggingface
from .labelstudio import is_label_studio, read_label_studio
from .manifest import is_manifest, read_manifest
from .openimages import is_openimages, read_openimages
from .table import read_table
from .voc import is_voc, read_voc

TABLES = (".csv", ".tsv", ".parquet")
Reader = Callable[[Path, DataConfig], Records]


def read(config: DataConfig) -> Records:
    """Read `config.path` with the reader that fits it; the first note says as what it was read.

    The word `digits` always means the embedded data; a folder of that name is `./digits`.

    Raises:
        InputError: nothing there, a file of another kind, or whatever the reader finds wrong.
    """
    if config.path == "digits":
        return make_digits()
    path = existing(config.path)
    kind, reader = _folder(path) if path.is_dir() else _file(path)
    records = reader(path, config)
    return replace(records, notes=(f"{path.name or path} was read as {kind}.", *records.notes))


def _folder(path: Path) -> tuple[str, Reader]:
    """What a folder is, in words, and what reads it.

    Raises:
        InputError: the folder above the one that can be read.
    """
    if is_huggingface(path):
        return "a Hugging Face data set", read_huggingface
    if is_voc(path):
        return "a PASCAL VOC folder", read_voc
    if is_coco_folder(path):
        return "a folder with COCO annotations", read_coco_folder
    if inner := next(path.glob("*/Annotations/[!.]*.xml"), None):
        raise InputError(f"{path}: holds a PASCAL VOC folder. Did you mean {inner.parents[1]}?")
    return "an image folder", read_folder


def _file(path: Path) -> tuple[str, Reader]:
    """What a file is, in words, and what reads it.

    Raises:
        InputError: none of the formats that are known.
    """
    suffix = path.suffix.lower()
    if suffix in TABLES:
        if suffix != ".parquet" and is_openimages(path):
            return "an OpenImages label file", read_openimages
        return "a table", read_table
    if suffix == ".arff":
        return "an ARFF file", read_arff
    if suffix == ".npz":
        return "a feature file", read_features
    if suffix == ".json":
        return ("a benchmark", read_manifest) if is_manifest(path) else _json(path)
    raise InputError(
        f"{path}: {suffix or 'a file without an ending'} is no known kind of data. Give a folder (one "
        "sub-folder per class, PASCAL VOC, COCO or Hugging Face), a .csv, .tsv or .parquet table with the "
        "columns `file` and `label`, a .json file of COCO or Label Studio, a .npz or .arff feature file, or "
        "`digits`."
    )


def _json(path: Path) -> tuple[str, Reader]:
    document = load_json(path)
    if is_coco(document):
        return "COCO JSON", partial(read_coco, document=document)
    if is_label_studio(document):
        return "a Label Studio export", partial(read_label_studio, document=document)
    raise InputError(
        f"{path}: is no JSON of a known kind; found {keys_of(document)}. Known are COCO (an object with the "
        f"keys {', '.join(KEYS)}), Label Studio (a list of tasks with `data` and `annotations`, exported as "
        "`JSON`, not `JSON-MIN`), and what spml data prepare writes."
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
