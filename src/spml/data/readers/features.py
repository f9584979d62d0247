"""Feature files: .npz with X (dense, or the arrays of a SciPy CSR matrix) and Y, or a pair of such files.

Nothing is unpickled.
"""

from __future__ import annotations

import math
import os
import sys
import zipfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...config import DataConfig
from ...errors import InputError
from ..matrix import FeatureMatrix, check_finite
from ..names import RowNames
from ..phrases import shorten
from ..records import Records
from ..safe import CONTROL, check_readable, quote
from ..splits import SPELLINGS, split_name
from .label_arrays import read_labels
from .places import find_files, images_folder
from .registry import register_reader

Arrays = dict[str, npt.NDArray[Any]]
MAX_WIDTH = 10_000_000  # rows become dense in a batch
MAX_UNPACKED = 1 << 31  # bytes of all arrays of a file; larger files may have MAX_RATIO times their size
MAX_RATIO = 100
_SPARSE = ("data", "indices", "indptr", "shape")
_NAMED = ("classes", "labels", "names", "feature_names", "split", "test")
_KEYS = ("X", *_SPARSE, "format", "Y", *(f"Y_{key}" for key in _SPARSE), *_NAMED)


@register_reader("features", "a feature file", recognises=lambda source: source.suffix == ".npz")
def read_features(path: Path, config: DataConfig) -> Records:
    """Read features and labels: `path` holds both, or is one of NAME_X.npz and NAME_Y.npz.

    Keys: `X` (N, D), or `data`, `indices`, `indptr`, `shape` of a CSR matrix; `Y` (N, C) as in `read_labels`,
    or `Y_data`, `Y_indices`, `Y_indptr`, `Y_shape`, or, in NAME_Y.npz, a CSR matrix as SciPy saves it;
    `classes` or `labels`, C names; optional `names`, one per row; optional `feature_names`, D names; optional
    `split` (train, val, test per row) or `test` (true for a test row). Without features, `names` are image
    files.

    Raises:
        InputError: Arrays are missing, their sizes differ, or labels have other values.
    """
    source = str(path)
    own = arrays = inputs = _load(path)
    outputs: Arrays = {}
    if partner := _partner(path, own):
        loaded = _load(partner)
        _check_agree(path, own, partner, loaded)
        arrays = {**loaded, **own}
        inputs, outputs = (own, loaded) if path.stem.endswith("_X") else (loaded, own)
    features: FeatureMatrix | tuple[Path, ...]
    if "names" in arrays and not _has_features(arrays):
        features = _image_files(path, arrays, config)
    else:
        features = _features(inputs if _has_features(inputs) else arrays, arrays, source)
    values = _labels(outputs, arrays, source)
    count = len(features)
    if values.shape[:1] != (count,):
        raise InputError(f"{source}: X has {count:,} rows, but Y has shape {values.shape}. They must match.")
    classes = _classes(arrays, source)
    notes = [] if classes else [f"{path.name}: has no class names; classes are called 0, 1, 2 ..."]
    split = _split(arrays, count, source) if config.split == "given" else None
    if config.split == "ignore" and not {"split", "test"}.isdisjoint(arrays):
        notes.append(f"{path.name}: the split is ignored.")
    labels, meaning = read_labels(values, classes, config.default_label, source)
    return Records(
        source=source,
        name=path.stem.removesuffix("_X").removesuffix("_Y"),
        ids=_ids(arrays, count, source),
        inputs=features,
        classes=classes or tuple(str(column) for column in range(labels.num_classes)),
        classes_given=True,
        labels=labels,
        split=split,
        notes=(*notes, f"{path.name}: {meaning}"),
    )


def read_unlabelled(path: Path) -> tuple[Sequence[str], FeatureMatrix]:
    """Row names and features of a file for prediction; labels in it are ignored.

    Raises:
        InputError: The file can't be read (see `read_features`), or a feature is not finite.
    """
    arrays = _load(path)
    features = _features(arrays, arrays, str(path))
    check_finite(features, str(path))
    return _ids(arrays, len(features), str(path)), features


def _partner(path: Path, own: Arrays) -> Path | None:
    """The other file of a pair, if it exists and is needed."""
    other = {"_X": "_Y", "_Y": "_X"}.get(path.stem[-2:])
    partner = path.with_name(f"{path.stem[:-2]}{other}.npz")
    return partner if other and partner.is_file() and not ("Y" in own and _has_features(own)) else None


def _load(path: Path) -> Arrays:
    """Load the arrays that have a known key."""
    arrays, others = load_arrays(path, _KEYS)
    if not arrays:
        raise InputError(
            f"{path}: has no array with a known name; found: {shorten(others) or 'none'}. Call the features "
            "X, (N, D), and the labels Y, (N, C)."
        )
    return arrays


def load_arrays(path: Path, keys: Collection[str]) -> tuple[Arrays, list[str]]:
    """Load arrays of an .npz file, within a limit of memory.

    Args:
        path: The file.
        keys: Names of the arrays.

    Returns:
        Those arrays that the file has, by name, and the names of its other parts.

    Raises:
        InputError: The file can't be read, is damaged or hostile, or unpacks to very much.
    """
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
            arrays = {key: _array(archive, info) for key, info in known.items()}
    except MemoryError as error:
        raise InputError(
            f"{path}: its arrays take {unpacked / 1e9:.1f} GB, which do not fit into memory, and a .npz file "
            "is read as a whole. Write a folder of .npy files instead, whose rows are read when they are "
            "needed: X_00000.npy and Y_00000.npy, X_00001.npy and Y_00001.npy, and so on."
        ) from error
    except Exception as error:  # damaged archives raise nearly anything, zlib.error and KeyError included
        # Of a header that is too long, NumPy continues with advice to allow Python objects.
        reason = str(error).strip().partition("\n")[0].rstrip(".")[:300] or type(error).__name__
        raise InputError(
            f"{path}: is not a .npz file, or can't be read: {reason}. Write numbers and strings with "
            "numpy.savez; Python objects are not read, because loading them can run code."
        ) from error
    return arrays, [key for key in members if key not in known]


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> npt.NDArray[Any]:
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
    with archive.open(info) as stream:
        array = np.asarray(np.lib.format.read_array(stream, allow_pickle=False))
    check_text(array, info.filename)
    return array


def check_text(array: npt.NDArray[Any], name: str) -> None:
    """Check that an array, if it holds strings, holds Unicode.

    Raises:
        ValueError: It does not.
    """
    if array.dtype.kind == "U" and array.nbytes:
        # NumPy would make strings of numbers that stand for no character, at which Python fails later.
        codes = np.ascontiguousarray(array).view(np.dtype("u4").newbyteorder(array.dtype.byteorder))
        if codes.max() > sys.maxunicode:
            raise ValueError(f"{name} holds text that is not Unicode")


def _check_agree(path: Path, own: Arrays, partner: Path, loaded: Arrays) -> None:
    """Check that the names of rows and classes that both files of a pair hold are the same."""
    for key in ("names", "split", "test", "classes", "labels"):
        if key in own and key in loaded and not np.array_equal(own[key], loaded[key]):
            raise InputError(
                f"{path}: {key} differs from {key} in {partner.name}: ambiguous which rows or classes belong "
                "together. Keep it in only one of the two files, or make both the same."
            )


def _listing(arrays: Arrays) -> str:
    return ", ".join(f"{key} {array.shape}" for key, array in arrays.items()) or "none of the known arrays"


def _has_features(arrays: Arrays) -> bool:
    return "X" in arrays or _has_sparse(arrays)


def _has_sparse(arrays: Arrays, prefix: str = "") -> bool:
    return all(prefix + key in arrays for key in _SPARSE)


def _labels(outputs: Arrays, arrays: Arrays, source: str) -> Any:
    """Y, dense or sparse; `outputs` is the file that holds only labels, if there is one."""
    if "Y" in arrays:
        return arrays["Y"]
    if _has_sparse(outputs):
        return _sparse(outputs, source, "Y")
    if _has_sparse(arrays, "Y_"):
        return _sparse({key: arrays["Y_" + key] for key in _SPARSE}, source, "Y")
    if "labels" in arrays and arrays["labels"].dtype.kind in "biuf":
        return arrays.pop("labels")
    raise InputError(
        f"{source}: has no labels: expected an array Y with one row per sample and one column per class, "
        f"in the same file or in a pair such as data_X.npz and data_Y.npz. Found: {_listing(arrays)}."
    )


def _features(arrays: Arrays, named: Arrays, source: str) -> FeatureMatrix:
    """The features in `arrays`, with the names in `named` if there are some."""
    if not _has_features(arrays):
        raise InputError(
            f"{source}: has no features: expected an array X of shape (N, D), or data, indices, indptr and "
            f"shape as scipy.sparse.save_npz writes them. Found: {_listing(arrays)}."
        )
    features = feature_matrix(arrays["X"] if "X" in arrays else _sparse(arrays, source, "X"), source)
    if "feature_names" in named:
        features.names = _strings(named, "feature_names", features.width, source)
    return features


def feature_matrix(matrix: Any, source: str, names: tuple[str, ...] = ()) -> FeatureMatrix:
    """Features in an array or in a valid SciPy CSR matrix, with their names if they have some.

    Raises:
        InputError: They are not numbers of shape (N, D).
    """
    if isinstance(matrix, np.ndarray):
        # In row order, because collecting a batch from column order is forty times slower.
        matrix = np.asarray(matrix, order="C")
    shape = matrix.shape
    if len(shape) != 2 or 0 in shape or shape[1] > MAX_WIDTH or matrix.dtype.kind not in "biuf":
        raise InputError(
            f"{source}: X must hold numbers in shape (N, D), with at least one row and 1 to {MAX_WIDTH:,} "
            f"columns; got {matrix.dtype} {shape}."
        )
    return FeatureMatrix(matrix, names=names)


def _image_files(path: Path, arrays: Arrays, config: DataConfig) -> tuple[Path, ...]:
    """Image files in `names`, relative to the folder of the file or to `config.images`."""
    names = distinct(_strings(arrays, "names", None, str(path)), "names", str(path))
    root = images_folder(config) or path.parent
    options = [(name,) for name in names]
    return tuple(find_files(root, options, lambda row: f"{path}: names, entry {row}", config.missing))


def _sparse(arrays: Arrays, source: str, name: str) -> Any:
    from scipy.sparse import csr_matrix

    try:
        if "format" in arrays and (stated := arrays["format"].tolist()) not in ("csr", b"csr"):
            raise ValueError(f"the format is {str(stated)[:100]}, so call {name}.tocsr() first")
        if any(arrays[key].dtype.kind not in "iu" for key in ("indices", "indptr", "shape")):
            raise ValueError("indices, indptr and shape must be integers")
        _check_indptr(arrays["indptr"], len(arrays["indices"]))
        rows, columns = arrays["shape"].tolist()
        matrix = csr_matrix((arrays["data"], arrays["indices"], arrays["indptr"]), shape=(rows, columns))
        # Without the full check, an index out of range would read foreign memory.
        matrix.check_format(full_check=True)
        matrix.sum_duplicates()
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(
            f"{source}: the arrays of {name} are not a valid CSR matrix: {error}. Save it again."
        ) from error
    return matrix


def _check_indptr(indptr: npt.NDArray[Any], entries: int) -> None:
    """Check where the rows of a CSR matrix begin and end; SciPy does not, if the last number is negative.

    Raises:
        ValueError: A row would begin or end outside the matrix.
    """
    ends = indptr.astype(np.int64)
    if ends.ndim != 1 or not len(ends) or ends[0] != 0 or (np.diff(ends) < 0).any() or ends[-1] > entries:
        raise ValueError(f"indptr must rise from 0 to {entries:,}, the number of entries")


def _strings(arrays: Arrays, key: str, count: int | None, source: str) -> tuple[str, ...]:
    array = arrays[key]
    try:
        if array.dtype.kind not in "US" or array.ndim != 1 or (count is not None and len(array) != count):
            raise ValueError(f"got {array.dtype} {array.shape}")
        return tuple(text.strip() for text in array.astype(str).tolist())
    except ValueError as error:  # bytes that are not ASCII, too
        expected = "strings" if count is None else f"{count:,} strings"
        raise InputError(f"{source}: {key} must hold {expected}: {error}.") from error


def distinct(strings: tuple[str, ...], key: str, source: str) -> tuple[str, ...]:
    """The strings of the array `key` of a file, which must be names.

    Raises:
        InputError: One is empty, repeated or holds control characters.
    """
    seen: dict[str, int] = {}
    for entry, text in enumerate(strings):
        wrong = "" if text else "is empty"
        if text in seen:
            wrong = f"repeats {quote(text)} of entry {seen[text]}"
        elif CONTROL.search(text):
            wrong = f"is {quote(text)}, which holds control characters"
        if wrong:
            raise InputError(
                f"{source}: {key}: entry {entry} {wrong} (counted from 0). Names must be distinct, without "
                "control characters."
            )
        seen[text] = entry
    return strings


def _classes(arrays: Arrays, source: str) -> tuple[str, ...]:
    key = next((key for key in ("classes", "labels") if key in arrays), None)
    return distinct(_strings(arrays, key, None, source), key, source) if key else ()


def _ids(arrays: Arrays, count: int, source: str) -> Sequence[str]:
    if "names" in arrays:
        return distinct(_strings(arrays, "names", count, source), "names", source)
    return RowNames(count)


def split_column(texts: Sequence[str], source: str) -> tuple[str, ...]:
    """Split of each row.

    Raises:
        InputError: A text is no name of a split.
    """
    names = {text: split_name(text) for text in {*texts}}
    if wrong := [text for text in texts if names[text] is None]:
        raise InputError(
            f"{source}: split: row {texts.index(wrong[0])} (counted from 0) is {quote(wrong[0])}, but must "
            f"be one of {', '.join(SPELLINGS)}."
        )
    return tuple(names[text] or "" for text in texts)


def _split(arrays: Arrays, count: int, source: str) -> tuple[str, ...] | None:
    if "split" in arrays:
        return split_column(_strings(arrays, "split", count, source), source)
    if "test" in arrays:
        test = arrays["test"]
        if test.shape != (count,) or not np.isin(test, (0, 1)).all():
            raise InputError(
                f"{source}: test must hold {count:,} truth values, true for a test row; got {test.dtype} "
                f"{test.shape}."
            )
        return tuple("test" if is_test else "train" for is_test in test.tolist()) if test.any() else None
    return None
