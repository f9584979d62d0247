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
from .features import Columns, check_shape, check_text, damaged, describe, row_names
from .unlabelled import read_class_list

CLASSES = "classes.txt"
_KINDS = "X|img_emb|Y|names|split"
_FILE = re.compile(rf"({_KINDS})_(\d+)\.npy")
_FEATURES = ("X", "img_emb")


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
    features, numbers, columns = _open(path, ("Y", "names", "split", config.group), config.group)
    classes = read_class_list(path / CLASSES) if (path / CLASSES).is_file() else ()
    labels = [(place.removesuffix(":"), array) for place, array in columns["Y"]]
    if not classes and labels[0][1].ndim == 1:
        raise InputError(
            f"{labels[0][0]}: holds class indices, but there is no {CLASSES} next to it with the names of "
            "the classes, one per line. Write it with numpy.savetxt(FILE, names, fmt='%s')."
        )
    records = describe(path, config, features, labels, classes, columns)
    first, last = min(numbers), max(numbers)
    missing = last - first + 1 - len(numbers)  # as in an incomplete copy
    gaps = f" (numbered from {first} to {last}, {missing:,} of them missing)" if missing else ""
    size = f"{path.name}: {counted(len(numbers), 'shard')}, {len(features):,} x {features.width:,}{gaps}."
    return replace(records, notes=(size, *records.notes))


def read_unlabelled(path: Path) -> tuple[Sequence[str], FeatureMatrix]:
    """Names and features of the samples of a folder of shards, for prediction; labels are ignored."""
    features, _, columns = _open(path, ("names",))
    check_finite(features, str(path))
    return row_names(columns, len(features), str(path)), features


def _open(path: Path, kinds: Sequence[str], group: str = "") -> tuple[FeatureMatrix, set[int], Columns]:
    """Features of a folder, mapped into memory, the numbers of the shards, and the arrays of other kinds: one
    for each shard, with a row per sample. `group` is the name of the files of groups."""
    if not path.is_dir():
        raise InputError(
            f"{path}: is one array. Name the folder that holds features and labels: X_00000.npy with "
            "Y_00000.npy, and so on."
        )
    files: dict[str, dict[str, Path]] = {}  # by their kind and, in ascending order, the number of their shard
    known = re.compile(rf"({_KINDS}|{re.escape(group)})_(\d+)\.npy") if group else _FILE
    matches = filter(None, map(known.fullmatch, os.listdir(path)))
    for match in sorted(matches, key=lambda match: (int(match[2]), match[0])):
        name, kind, number = match.group(0, 1, 2)
        of_kind = files.setdefault("X" if kind in _FEATURES else kind, {})
        if (other := of_kind.setdefault(number, path / name)).name != name:
            raise InputError(f"{path}: holds both {other.name} and {name}. Keep one of them.")
    features = files["X"]
    parts: dict[str, npt.NDArray[Any]] = {}
    for number, file in features.items():
        part = parts[number] = load_array(file)
        first = next(iter(parts.values()))
        check_shape(part, f"{file}:", "n")
        if part.dtype != first.dtype or part.shape[1:] != first.shape[1:]:
            raise InputError(
                f"{file}: holds {part.dtype} {part.shape}, but the shards before hold {first.dtype} "
                f"{first.shape}. All shards need the same type, and rows of the same shape."
            )
        if not part.flags.c_contiguous:
            raise InputError(
                f"{file}: is stored column by column, so that reading a row reads the whole file. Save it as "
                "numpy.ascontiguousarray(X)."
            )
    columns: dict[str, list[tuple[str, Any]]] = {}
    for kind in dict.fromkeys(kinds):
        own = files.get(kind, {})
        if not own and kind != "Y":
            continue
        if wrong := [f"{kind}_{number}.npy" for number in features if number not in own]:
            some = f" ({len(wrong):,} of {len(features):,} are missing: {first_few(wrong, 3)})" if own else ""
            raise InputError(
                f"{path}: has {next(iter(features.values())).name}, but no {wrong[0]}{some}. Every shard of "
                "features needs one, with a row per sample. Write it with numpy.save."
            )
        if wrong := [file.name for number, file in own.items() if number not in features]:
            raise InputError(f"{path}: has {wrong[0]}, but no features of this number. Add or remove files.")
        for number, file in own.items():
            array, count = load_array(file), len(parts[number])
            if array.shape[:1] != (count,):
                raise InputError(
                    f"{file}: has the shape {array.shape}, but {features[number].name} has {count:,} rows. "
                    "They must match."
                )
            columns.setdefault(kind, []).append((f"{file}:", array))
    joined = ShardedArray([*parts.values()], [str(file) for file in features.values()])
    return FeatureMatrix.of(joined), {*map(int, features)}, columns


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
