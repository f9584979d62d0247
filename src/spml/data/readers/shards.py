"""Folder of feature shards: `X_00000.npy`, `X_00001.npy` ... with labels `Y_00000.npy`, `Y_00001.npy` ...

For millions of samples. Features are memory-mapped, so that they may be larger than memory: only the rows of
a batch are copied. Write a shard with NumPy::

    np.save("shards/X_00000.npy", features)  # (n, D), float16 or float32; (n, P, D) if samples have P parts
    np.save("shards/Y_00000.npy", labels)    # (n,) class indices, or (n, C) with 1 for the labels of a sample
    np.savetxt("shards/classes.txt", names, fmt="%s")  # once per folder: C names, one per line

The files of a shard are found by their number. `img_emb_0.npy`, as clip-retrieval calls its embeddings,
stands for `X_0.npy`. Optional are `split_00000.npy` (n strings: train, val or test), `names_00000.npy` (n
strings), and `NAME_00000.npy` (n strings or integers) for the groups that `data.group: NAME` states. Samples
without names are called by their row, counted from 0 over all shards in ascending order.

Opening reads every number once, to refuse NaN and infinity. Training reads them once more for the
fingerprint by which a resumed run notices other data. Both passes go through the files in order. What stays
in memory of each sample are its label, its split and its place in the order of an epoch, and the mean of its
parts if it has some.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...common.errors import InputError
from ...common.phrases import counted, first_few
from ...config import DataConfig
from ..matrix import FeatureMatrix, ShardedArray, check_finite
from ..records import Records
from . import Source, register_reader
from .features import Columns, check_shape, check_text, damaged, describe, features_of_parts, row_names
from .unlabelled import read_class_list

CLASSES = "classes.txt"
_KINDS = "X|img_emb|Y|names|split"
_FILE = re.compile(rf"({_KINDS})_(\d+)\.npy")
_FEATURES = ("X", "img_emb")

Files = dict[str, dict[str, Path]]
"""Files of a folder by their kind (X, Y, names, split, or the name of groups) and, in ascending order, the
number of their shard."""


def is_shards(source: Source) -> bool:
    """Whether a source is a folder with shards of features, or one of its files."""
    if not source.is_folder:
        return source.suffix == ".npy"
    with os.scandir(source.path) as entries:
        matches = (_FILE.fullmatch(entry.name) for entry in entries)
        return any(match and match[1] in _FEATURES for match in matches)


@register_reader("shards", "a folder of feature shards", recognises=is_shards)
def read_shards(path: Path, config: DataConfig) -> Records:
    """Read a folder of shards, as the module describes them. Labels follow the rules of `read_labels`."""
    files, features = _open(path, config.group)
    classes = read_class_list(path / CLASSES) if (path / CLASSES).is_file() else ()
    labels = _arrays(path, files, "Y")
    if not classes and labels[0][1].ndim == 1:
        raise InputError(
            f"{labels[0][0]}: holds class indices, but there is no {CLASSES} next to it with the names of "
            "the classes, one per line. Write it with numpy.savetxt(FILE, names, fmt='%s')."
        )
    columns = _columns(path, files, ("names", "split", config.group))
    records = describe(path, config, features, labels, classes, columns)
    numbers = {int(number) for number in files["X"]}
    first, last = min(numbers), max(numbers)
    missing = last - first + 1 - len(numbers)  # as in an incomplete copy
    gaps = f" (numbered from {first} to {last}, {missing:,} of them missing)" if missing else ""
    size = f"{path.name}: {counted(len(numbers), 'shard')}, {len(features):,} x {features.width:,}{gaps}."
    return replace(records, notes=(size, *records.notes))


def read_unlabelled(path: Path) -> tuple[Sequence[str], FeatureMatrix]:
    """Names and features of the samples of a folder of shards, for prediction; labels are ignored."""
    files, features = _open(path)
    check_finite(features, str(path))
    return row_names(_columns(path, files, ("names",)), len(features), str(path)), features


def _open(path: Path, group: str = "") -> tuple[Files, FeatureMatrix]:
    """Find the files of a folder, also those of a group's name, and map its features into memory."""
    if not path.is_dir():
        raise InputError(
            f"{path}: is one array. Name the folder that holds features and labels: X_00000.npy with "
            "Y_00000.npy, and so on."
        )
    files: Files = {}
    known = re.compile(rf"({_KINDS}|{re.escape(group)})_(\d+)\.npy") if group else _FILE
    matches = filter(None, map(known.fullmatch, os.listdir(path)))
    for match in sorted(matches, key=lambda match: (int(match[2]), match[0])):
        name, kind, number = match.group(0, 1, 2)
        of_kind = files.setdefault("X" if kind in _FEATURES else kind, {})
        if (other := of_kind.setdefault(number, path / name)).name != name:
            raise InputError(f"{path}: holds both {other.name} and {name}. Keep one of them.")
    parts: list[npt.NDArray[Any]] = []
    for file in files["X"].values():
        part = load_array(file)
        check_shape(part, f"{file}:", "n")
        if parts and (part.dtype != parts[0].dtype or part.shape[1:] != parts[0].shape[1:]):
            raise InputError(
                f"{file}: holds {part.dtype} {part.shape}, but the shards before hold {parts[0].dtype} "
                f"{parts[0].shape}. All shards need the same type, and rows of the same shape."
            )
        if not part.flags.c_contiguous:
            raise InputError(
                f"{file}: is stored column by column, so that reading a row reads the whole file. Save it as "
                "numpy.ascontiguousarray(X)."
            )
        parts.append(part)
    array = ShardedArray(parts, [str(file) for file in files["X"].values()])
    return files, features_of_parts(array) if len(array.shape) == 3 else FeatureMatrix(array)


def load_array(file: Path) -> npt.NDArray[Any]:
    """Map an .npy file of numbers or strings into memory."""
    try:
        array = np.asarray(np.lib.format.open_memmap(file, "r"))
        check_text(array, file.name)
        return array
    except OSError as error:
        many = error.errno == errno.EMFILE
        hint = " Join shards, so that there are fewer files, or raise the limit (ulimit -n)." if many else ""
        raise InputError(f"{file}: can't be read: {error.strerror or error}.{hint}") from error
    except Exception as error:  # damaged headers raise nearly anything
        raise damaged(file, ".npy file, or is incomplete", "save", error) from error


def _columns(path: Path, files: Files, kinds: Sequence[str]) -> Columns:
    return {
        kind: [(f"{file}:", array) for file, array in _arrays(path, files, kind)]
        for kind in kinds
        if kind in files
    }


def _arrays(path: Path, files: Files, kind: str) -> list[tuple[str, npt.NDArray[Any]]]:
    """Files of a kind and their arrays: one for each shard of features, with a row per sample."""
    features, own = files["X"], files.get(kind, {})
    if wrong := [f"{kind}_{number}.npy" for number in features if number not in own]:
        some = f" ({len(wrong):,} of {len(features):,} are missing: {first_few(wrong, 3)})" if own else ""
        raise InputError(
            f"{path}: has {next(iter(features.values())).name}, but no {wrong[0]}{some}. Every shard of "
            "features needs one, with a row per sample. Write it with numpy.save."
        )
    if wrong := [file.name for number, file in own.items() if number not in features]:
        raise InputError(f"{path}: has {wrong[0]}, but no features of this number. Add or remove files.")
    arrays = [(str(file), load_array(file)) for file in own.values()]
    for (file, array), number in zip(arrays, own, strict=True):
        if array.shape[:1] != (count := len(load_array(features[number])),):
            raise InputError(
                f"{file}: has the shape {array.shape}, but {features[number].name} has {count:,} rows. They "
                "must match."
            )
    return arrays
