"""Feature files: .npz with X (dense, or the arrays of a SciPy CSR matrix) and Y, or a pair of such files.

Nothing is unpickled.
"""

from __future__ import annotations

import math
import os
import sys
import zipfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...common.errors import InputError
from ...common.phrases import shorten
from ...common.safe import CONTROL, check_readable, quote
from ...config import DataConfig
from ..files import find_files, images_folder
from ..groups import group_names
from ..matrix import FeatureMatrix, check_finite
from ..names import FilesBelow, RowNames
from ..records import Records
from ..splits import SPELLINGS, split_name
from ..values import read_labels
from . import register_reader

Arrays = dict[str, Any]
"""Arrays of a file by their keys; of a sparse matrix, a SciPy CSR matrix."""

MAX_WIDTH = 10_000_000  # rows become dense in a batch
MAX_PARTS = 8192
MAX_UNPACKED = 1 << 31  # bytes of all arrays of a file; larger files may have MAX_RATIO times their size
MAX_RATIO = 100
_SPARSE = ("data", "indices", "indptr", "shape")
_NAMED = ("classes", "labels", "names", "feature_names", "split", "test", "observed")
_KEYS = ("X", *_SPARSE, "format", "Y", *(f"Y_{key}" for key in _SPARSE), *_NAMED)


@register_reader("features", "a feature file", recognises=lambda source: source.suffix == ".npz")
def read_features(path: Path, config: DataConfig) -> Records:
    """Read features and labels: `path` holds both, or is one of NAME_X.npz and NAME_Y.npz.

    Keys: `X` (N, D), or (N, P, D) for P parts of each sample, or `data`, `indices`, `indptr`, `shape` of a
    CSR matrix; `Y` (N, C) as in `read_labels`, or `Y_data`, `Y_indices`, `Y_indptr`, `Y_shape`, or, in
    NAME_Y.npz, a CSR matrix as SciPy saves it; `classes` or `labels`, C names; optional `names`, one per row;
    optional `feature_names`, D names; optional `split` (train, val, test per row) or `test` (true for a test
    row); optional `observed`, labels (N, C) or (N,) that people gave, where Y is the whole truth: those are
    learned from with `data.observe: protocol`. Without features, `names` are image files. `config.group`
    names an array of text or integers, one per row.
    """
    source = str(path)
    arrays = _load_pair(path, config.group)
    inputs: FeatureMatrix | FilesBelow
    if "names" in arrays and "X" not in arrays:
        options = [(name,) for name in _names(arrays, "names", source)]
        root = images_folder(config) or path.parent
        inputs = find_files(root, options, lambda row: f"{path}: names, entry {row}", config.missing)
    else:
        inputs = _features(arrays, source)
    labels = _array(arrays, "Y", source)
    if labels.shape[:1] != (count := len(inputs),):
        raise InputError(f"{source}: X has {count:,} rows, but Y has shape {labels.shape}. They must match.")
    key = "classes" if "classes" in arrays else "labels"
    classes = _names(arrays, key, source) if key in arrays else ()
    records = describe(path, config, inputs, [(source, labels)], classes, _columns(arrays, source))
    return replace(records, name=path.stem.removesuffix("_X").removesuffix("_Y"))


def read_unlabelled(path: Path) -> tuple[Sequence[str], FeatureMatrix]:
    """Row names and features of a file for prediction; labels in it are ignored."""
    arrays, source = _load(path), str(path)
    features = _features(arrays, source)
    check_finite(features, source)
    return row_names(_columns(arrays, source), len(features), source), features


# -- what arrays say, of a file or of shards -------------------------------------------------------------

Columns = Mapping[str, Sequence[tuple[str, Any]]]
"""Arrays with a row per sample, by what they say (names, split, ...): one or several, whose rows follow one
another, each with its place for messages."""


def describe(
    path: Path,
    config: DataConfig,
    inputs: FeatureMatrix | FilesBelow,
    labels: Sequence[tuple[str, Any]],
    classes: tuple[str, ...],
    columns: Columns,
) -> Records:
    """Records of N samples: labels as in `read_labels`, and names, split, groups and observed labels."""
    count, source = len(inputs), str(path)
    known, meaning = read_labels(labels, classes, config.default_label)
    notes = [] if classes else [f"{path.name}: has no class names; classes are called 0, 1, 2 ..."]
    if config.split == "ignore" and not {"split", "test"}.isdisjoint(columns):
        notes.append(f"{path.name}: the split is ignored.")
    protocol = None
    if "observed" in columns:
        protocol, _ = read_labels(columns["observed"], classes, "unknown")
        if (len(protocol), protocol.num_classes) != (count, known.num_classes) or not known.full:
            raise InputError(
                f"{source}: observed holds labels of {len(protocol):,} samples and {protocol.num_classes:,} "
                f"classes, Y of {count:,} and {known.num_classes:,}. They must match, and Y must hold every "
                "label: pass data.unlisted=negative if it does, otherwise leave observed out."
            )
        if config.observe != "protocol":
            notes.append(f"{path.name}: `observed` is not used; data.observe=protocol learns from it.")
    if config.group and config.group not in columns:
        raise InputError(
            f"{source}: data.group={config.group}: there is no array of this name. Save one that has the "
            f"group of each of the {count:,} rows, as text or integers."
        )
    split = None
    if config.split == "given" and "split" in columns:
        split = split_column(_texts(columns, "split", count), source)
    elif config.split == "given" and "test" in columns:
        ((where, test),) = columns["test"]
        if test.shape != (count,) or not np.isin(test, (0, 1)).all():
            raise InputError(
                f"{where} must hold {count:,} truth values, true for a test row; got {test.dtype} "
                f"{test.shape}."
            )
        split = tuple("test" if is_test else "train" for is_test in test.tolist()) if test.any() else None
    return Records(
        source=source,
        name=path.resolve().name,
        ids=row_names(columns, count, source),
        inputs=inputs,
        classes=classes or tuple(str(column) for column in range(known.num_classes)),
        classes_given=True,
        labels=known,
        split=split,
        groups=group_names(_texts(columns, config.group, count)) if config.group else None,
        notes=(*notes, f"{path.name}: {meaning}"),
        protocol=protocol,
    )


def row_names(columns: Columns, count: int, source: str) -> Sequence[str]:
    """Names of the samples; their numbers if they have none."""
    if "names" not in columns:
        return RowNames(count)
    return distinct(_texts(columns, "names", count), f"{source}: names")


def _texts(columns: Columns, key: str, count: int) -> tuple[str, ...]:
    """Text of each of `count` samples, or the number as text, of groups."""
    texts: list[str] = []
    for where, array in columns[key]:
        is_number = array.dtype.kind in "iu" and key not in ("names", "split")
        texts += strings(array.astype(str) if is_number else array, where)
    if len(texts) != count:
        raise InputError(f"{where} must hold {count:,} strings, one per row; it holds {len(texts):,}.")
    return tuple(texts)


def split_column(texts: Sequence[str], source: str) -> tuple[str, ...]:
    """Split of each row."""
    names = {text: split_name(text) for text in {*texts}}
    if wrong := [text for text in texts if names[text] is None]:
        raise InputError(
            f"{source}: split: row {texts.index(wrong[0])} (counted from 0) is {quote(wrong[0])}, but must "
            f"be one of {', '.join(SPELLINGS)}."
        )
    return tuple(names[text] or "" for text in texts)


def strings(array: npt.NDArray[Any], where: str, count: int | None = None) -> tuple[str, ...]:
    """Texts in the array that `where` names, `count` of them if that is known, without blanks around them."""
    try:
        if array.dtype.kind not in "US" or array.ndim != 1 or count not in (None, len(array)):
            raise ValueError(f"got {array.dtype} {array.shape}")
        return tuple(text.strip() for text in array.astype(str).tolist())
    except ValueError as error:
        expected = "strings" if count is None else f"{count:,} strings"
        raise InputError(f"{where} must hold {expected}: {error}.") from error


def distinct(texts: tuple[str, ...], where: str) -> tuple[str, ...]:
    """The texts that `where` names, which must be names."""
    first: dict[str, int] = {}
    for entry, text in enumerate(texts):
        if not text:
            wrong = "is empty"
        elif CONTROL.search(text):
            wrong = f"is {quote(text)}, which holds control characters"
        elif first.setdefault(text, entry) != entry:
            wrong = f"repeats {quote(text)} of entry {first[text]}"
        else:
            continue
        raise InputError(
            f"{where}: entry {entry} {wrong} (counted from 0). Names must be distinct, without "
            "control characters."
        )
    return texts


def feature_matrix(matrix: Any, source: str, names: tuple[str, ...] = ()) -> FeatureMatrix:
    """Features in an array or in a valid SciPy CSR matrix, with their names if they have some."""
    if isinstance(matrix, np.ndarray):
        # In row order, because collecting a batch from column order is forty times slower.
        matrix = np.asarray(matrix, order="C")
    check_shape(matrix, f"{source}: X")
    return FeatureMatrix.of(matrix, names)


def check_shape(matrix: Any, where: str, count: str = "N") -> None:
    """Check the features in an array or a SciPy matrix; a message calls the number of rows `count`."""
    shape = matrix.shape
    fits = len(shape) in (2, 3) and 0 not in shape and shape[-1] <= MAX_WIDTH
    if not fits or (len(shape) == 3 and shape[1] > MAX_PARTS) or matrix.dtype.kind not in "biuf":
        raise InputError(
            f"{where} must hold numbers in shape ({count}, D), or ({count}, P, D) for P parts of each "
            f"sample, with at least one row, 1 to {MAX_WIDTH:,} columns and at most {MAX_PARTS:,} parts; got "
            f"{matrix.dtype} {matrix.shape}."
        )


# -- .npz files ------------------------------------------------------------------------------------------


def _load_pair(path: Path, group: str) -> Arrays:
    """Arrays of a file, and of the other one of a pair if that exists and is needed; `group` is one more."""
    kind = path.stem[-2:]
    other = {"_X": "_Y", "_Y": "_X"}.get(kind, "")
    partner = path.with_name(f"{path.stem[:-2]}{other}.npz")
    if not other or not partner.is_file():
        return _load(path, group)
    arrays = _load(path, group, of_labels=kind == "_Y")
    if "X" in arrays and "Y" in arrays:
        return arrays
    others = _load(partner, group, of_labels=other == "_Y")
    for key in (*_NAMED, group):
        if key in arrays and key in others and not np.array_equal(arrays[key], others[key]):
            raise InputError(
                f"{path}: {key} differs from {key} in {partner.name}: ambiguous which rows or classes belong "
                "together. Keep it in only one of the two files, or make both the same."
            )
    return {**others, **arrays}


def _load(path: Path, group: str = "", *, of_labels: bool = False) -> Arrays:
    """Arrays that have a known key. A sparse matrix is X, but Y in a file of labels that has no other Y."""
    arrays, others = load_arrays(path, [*_KEYS, *filter(None, [group])])
    if not arrays:
        raise InputError(
            f"{path}: has no array with a known name; found: {shorten(others) or 'none'}. Call the features "
            "X, (N, D), and the labels Y, (N, C)."
        )
    _add_sparse(arrays, "Y", "Y_", str(path))
    _add_sparse(arrays, "Y" if of_labels and "Y" not in arrays else "X", "", str(path))
    return arrays


def load_arrays(path: Path, keys: Collection[str]) -> tuple[Arrays, list[str]]:
    """Those of some arrays that an .npz file has, by name, and the names of its other parts."""
    check_readable(path)
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            known = {key: members[key] for key in keys if key in members}
            unpacked = sum(info.file_size for info in known.values())
            if unpacked > (limit := max(MAX_UNPACKED, MAX_RATIO * path.stat().st_size)):
                raise ValueError(f"its arrays unpack to {unpacked:,} bytes, more than the limit of {limit:,}")
            if unpacked > os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"):
                raise MemoryError
            arrays = {key: _unpacked(archive, info) for key, info in known.items()}
    except MemoryError as error:
        raise InputError(
            f"{path}: its arrays take {unpacked / 1e9:.1f} GB, which do not fit into memory, and a .npz file "
            "is read as a whole. Write a folder of .npy files instead, whose rows are read when they are "
            "needed: X_00000.npy and Y_00000.npy, X_00001.npy and Y_00001.npy, and so on."
        ) from error
    except Exception as error:  # damaged archives raise nearly anything, zlib.error and KeyError included
        raise damaged(path, ".npz file, or can't be read", "savez", error) from error
    return arrays, [key for key in members if key not in known]


def damaged(path: Path, wrong: str, function: str, error: Exception) -> InputError:
    """Error on a file of arrays: what it is not, which function of NumPy writes it, and what NumPy says."""
    # Of a header that is too long, NumPy continues with advice to allow Python objects.
    reason = str(error).strip().partition("\n")[0].rstrip(".")[:300] or type(error).__name__
    return InputError(
        f"{path}: is not a {wrong}: {reason}. Write numbers and strings with numpy.{function}; Python "
        "objects are not read, because loading them can run code."
    )


def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> npt.NDArray[Any]:
    """Load one array; its header is checked before memory is allocated."""
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{info.filename} is compressed by a method that NumPy does not use")
    with archive.open(info) as stream:
        version = np.lib.format.read_magic(stream)
        header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, _, dtype = header[version](stream)
        claimed = dtype.itemsize * math.prod(shape)
        if not dtype.hasobject and claimed > info.file_size:
            raise ValueError(f"{info.filename} states {claimed:,} bytes, but has {info.file_size:,}")
        stream.seek(0)
        array = np.asarray(np.lib.format.read_array(stream, allow_pickle=False))
    check_text(array, info.filename)
    return array


def check_text(array: npt.NDArray[Any], name: str) -> None:
    """Raise a `ValueError` if an array holds text that is not Unicode."""
    if array.dtype.kind == "U" and array.nbytes:
        # NumPy would make strings of numbers that stand for no character, at which Python fails later.
        codes = np.ascontiguousarray(array).view(np.dtype("u4").newbyteorder(array.dtype.byteorder))
        if codes.max() > sys.maxunicode:
            raise ValueError(f"{name} holds text that is not Unicode")


def _add_sparse(arrays: Arrays, name: str, prefix: str, source: str) -> None:
    """Assemble the CSR matrix `name` from arrays whose keys begin with `prefix`, if all of them are there."""
    if name in arrays or any(prefix + key not in arrays for key in _SPARSE):
        return
    from scipy.sparse import csr_matrix

    data, indices, indptr, shape = (arrays.pop(prefix + key) for key in _SPARSE)
    try:
        stated = "csr" if prefix or "format" not in arrays else arrays["format"].tolist()
        if stated not in ("csr", b"csr"):
            raise ValueError(f"the format is {str(stated)[:100]}, so call {name}.tocsr() first")
        if any(array.dtype.kind not in "iu" for array in (indices, indptr, shape)):
            raise ValueError("indices, indptr and shape must be integers")
        ends, count = indptr.astype(np.int64), len(indices)
        # SciPy does not check them if the last one is negative.
        if ends.ndim != 1 or not len(ends) or ends[0] or (np.diff(ends) < 0).any() or ends[-1] > count:
            raise ValueError(f"indptr must rise from 0 to {count:,}, the number of entries")
        rows, columns = shape.tolist()
        matrix = csr_matrix((data, indices, indptr), shape=(rows, columns))
        # Without the full check, an index out of range would read foreign memory.
        matrix.check_format(full_check=True)
        matrix.sum_duplicates()
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(
            f"{source}: the arrays of {name} are not a valid CSR matrix: {error}. Save it again."
        ) from error
    arrays[name] = matrix


def _array(arrays: Arrays, key: str, source: str) -> Any:
    """The features X or the labels Y."""
    if key in arrays:
        return arrays[key]
    expected = {
        "X": "features: expected an array X of shape (N, D) or (N, P, D), or data, indices, indptr and shape "
        "as scipy.sparse.save_npz writes them",
        "Y": "labels: expected an array Y with one row per sample and one column per class, in the same file "
        "or in a pair such as data_X.npz and data_Y.npz",
    }
    found = ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "none of the known arrays"
    raise InputError(f"{source}: has no {expected[key]}. Found: {found}.")


def _features(arrays: Arrays, source: str) -> FeatureMatrix:
    features = feature_matrix(_array(arrays, "X", source), source)
    if "feature_names" in arrays:
        features.names = strings(arrays["feature_names"], f"{source}: feature_names", features.width)
    return features


def _names(arrays: Arrays, key: str, source: str) -> tuple[str, ...]:
    return distinct(strings(arrays[key], f"{source}: {key}"), f"{source}: {key}")


def _columns(arrays: Arrays, source: str) -> Columns:
    return {key: [(f"{source}: {key}", array)] for key, array in arrays.items()}
