"""Feature files: .npz with X (dense, or the arrays of a SciPy CSR matrix) and Y, or a pair of files.

Nothing is unpickled.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...config import DataConfig
from ...errors import InputError
from ...labels import LabelError, ObservedLabels, Unlisted
from ..arrays import FeatureMatrix, check_finite
from ..records import Records
from ..splits import SPELLINGS, split_name

Arrays = dict[str, npt.NDArray[Any]]
MAX_WIDTH = 10_000_000  # rows become dense in a batch
_SPARSE = ("data", "indices", "indptr", "shape")
_KEYS = ("X", *_SPARSE, "format", "Y", "classes", "labels", "names", "split", "test")


def read_features(path: Path, config: DataConfig) -> Records:
    """Read features and labels: `path` holds both, or is one of NAME_X.npz and NAME_Y.npz.

    Keys: `X` (N, D), or `data`, `indices`, `indptr`, `shape`; `Y` (N, C) as `read_labels` takes it; `classes`
    or `labels`, C names; optional `names`, one per row; optional `split` (train, val, test per row) or `test`
    (true for a test row).

    Raises:
        InputError: no such arrays, sizes that do not fit, features that are not finite, other label values.
    """
    arrays = _load(path)
    for mine, other in (("_X", "_Y"), ("_Y", "_X")):
        partner = path.with_name(f"{path.stem[:-2]}{other}.npz")
        if path.stem.endswith(mine) and partner.is_file() and not ("Y" in arrays and _has_features(arrays)):
            arrays = {**_load(partner), **arrays}
    source = str(path)
    features = _features(arrays, source)
    if "Y" not in arrays and "labels" in arrays and arrays["labels"].dtype.kind in "biuf":
        arrays["Y"] = arrays.pop("labels")
    if "Y" not in arrays:
        raise InputError(
            f"{source}: has no labels: expected an array Y with one row per sample and one column per class, "
            f"in the same file or in a pair such as data_X.npz and data_Y.npz. Found: {_found(arrays)}."
        )
    count = len(features)
    if arrays["Y"].shape[:1] != (count,):
        raise InputError(
            f"{source}: X has {count:,} rows, but Y has shape {arrays['Y'].shape}. They must match."
        )
    classes = _classes(arrays, source)
    notes = [] if classes else [f"{path.name}: has no class names, so classes are called 0, 1, 2 ..."]
    labels, meaning = read_labels(arrays["Y"], classes, config.unlisted, source)
    return Records(
        source=source,
        name=path.stem.removesuffix("_X").removesuffix("_Y"),
        ids=_ids(arrays, count, source),
        inputs=features,
        classes=classes or tuple(str(column) for column in range(labels.num_classes)),
        classes_given=True,
        labels=labels,
        split=_split(arrays, count, source),
        notes=(*notes, f"{path.name}: {meaning}"),
    )


def read_unlabelled(path: Path) -> tuple[tuple[str, ...], FeatureMatrix]:
    """Row names and features of a file for prediction; labels in it are ignored.

    Raises:
        InputError: as `read_features`.
    """
    arrays = _load(path)
    features = _features(arrays, str(path))
    return _ids(arrays, len(features), str(path)), features


def read_labels(
    array: npt.NDArray[Any], classes: tuple[str, ...], unlisted: Unlisted, source: str
) -> tuple[ObservedLabels, str]:
    """Labels in the convention that the values show, and a sentence that says which.

    (N, C) with {0, 1}: a 0 means what `unlisted` says; {-1, 0, +1}: known negative, unknown, known positive;
    {0, 1, NaN}: known negative, known positive, unknown. (N,) integers: the class of the one known positive.

    Raises:
        InputError: another shape, another value (names row and column), another number of class names.
    """
    if array.dtype.kind not in "biuf" or array.ndim not in (1, 2):
        raise InputError(
            f"{source}: Y must hold numbers, one row per sample; got {array.dtype} {array.shape}."
        )
    if array.ndim == 1 and not classes:
        raise InputError(
            f"{source}: Y holds one class index per sample, so `classes` must list the class names."
        )
    columns = array.shape[1] if array.ndim == 2 else len(classes)
    if classes and columns != len(classes):
        raise InputError(f"{source}: Y has {columns} columns, but there are {len(classes)} class names.")
    no_effect = " (so data.unlisted=negative has no effect)" if unlisted == "negative" else ""
    try:
        if array.ndim == 1:
            labels = ObservedLabels.from_index(array, columns)
            if unlisted == "negative":
                labels = ObservedLabels.from_multi_hot(labels.to_multi_hot(), unlisted="negative")
            return labels, "Y holds class indices, one label per sample."
        if array.dtype.kind == "f" and np.isnan(array).any():
            labels = ObservedLabels.from_nan(array)
            return labels, f"Y holds 1 (positive), 0 (negative) and NaN (unknown){no_effect}."
        if array.dtype.kind in "if" and (array == -1).any():
            labels = ObservedLabels.from_ternary(array)
            return labels, f"Y holds 1 (positive), -1 (negative) and 0 (unknown){no_effect}."
        labels = ObservedLabels.from_multi_hot(array, unlisted=unlisted)
        return labels, f"Y holds 1 (positive) and 0 ({unlisted})."
    except LabelError as error:
        raise InputError(
            f"{source}: Y: {error} (rows and columns counted from 0). Labels are {{0, 1}}, {{-1, 0, 1}} with "
            "0 for unknown, or {0, 1, NaN} with NaN for unknown."
        ) from error


def _load(path: Path) -> Arrays:
    """The arrays that this module knows."""
    try:
        if not zipfile.is_zipfile(path):
            raise InputError(
                f"{path}: is no .npz file (or a damaged one). Write it with numpy.savez_compressed."
            )
        with np.load(path, allow_pickle=False) as archive:
            return {key: np.asarray(archive[key]) for key in _KEYS if key in archive.files}
    except InputError:
        raise
    except MemoryError as error:
        raise InputError(f"{path}: an array in it does not fit into memory: {error}.") from error
    except Exception as error:  # damaged archives raise nearly anything, zlib.error and KeyError included
        raise InputError(
            f"{path}: can't be read: {error or type(error).__name__}. Arrays must hold numbers or strings; "
            "Python objects are not read, since loading them can run code."
        ) from error


def _found(arrays: Arrays) -> str:
    return ", ".join(f"{key} {array.shape}" for key, array in arrays.items()) or "none of the known arrays"


def _has_features(arrays: Arrays) -> bool:
    return "X" in arrays or all(key in arrays for key in _SPARSE)


def _features(arrays: Arrays, source: str) -> FeatureMatrix:
    if not _has_features(arrays):
        raise InputError(
            f"{source}: has no features: expected an array X of shape (N, D), or data, indices, indptr and "
            f"shape as scipy.sparse.save_npz writes them. Found: {_found(arrays)}."
        )
    matrix: Any = arrays["X"] if "X" in arrays else _sparse(arrays, source)
    if len(matrix.shape) != 2 or 0 in matrix.shape or matrix.dtype.kind not in "biuf":
        raise InputError(
            f"{source}: X must hold numbers in shape (N, D), with at least one row and one column; got "
            f"{matrix.dtype} {matrix.shape}."
        )
    if matrix.shape[1] > MAX_WIDTH:
        raise InputError(f"{source}: {matrix.shape[1]:,} features per row are more than {MAX_WIDTH:,}.")
    features = FeatureMatrix(matrix)
    check_finite(features, source)
    return features


def _sparse(arrays: Arrays, source: str) -> Any:
    from scipy.sparse import csr_matrix

    stated = arrays["format"].tolist() if "format" in arrays else "csr"
    if stated not in ("csr", b"csr"):
        raise InputError(f"{source}: the sparse matrix has the format {stated!r}. Save it after X.tocsr().")
    try:
        rows, columns = arrays["shape"].tolist()
        matrix = csr_matrix((arrays["data"], arrays["indices"], arrays["indptr"]), shape=(rows, columns))
        # Without the full check an index out of range would be followed into foreign memory.
        matrix.check_format(full_check=True)
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"{source}: the arrays are no valid CSR matrix: {error}. Save it again.") from error
    return matrix


def _strings(arrays: Arrays, key: str, count: int | None, source: str) -> tuple[str, ...]:
    array = arrays[key]
    if array.dtype.kind not in "US" or array.ndim != 1 or (count is not None and len(array) != count):
        expected = "strings" if count is None else f"{count:,} strings"
        raise InputError(f"{source}: {key} must hold {expected}; got {array.dtype} {array.shape}.")
    try:
        return tuple(text.strip() for text in array.astype(str).tolist())
    except UnicodeDecodeError as error:
        raise InputError(f"{source}: {key} holds bytes that are not ASCII. Save it as str.") from error


def _distinct(strings: tuple[str, ...], key: str, source: str) -> tuple[str, ...]:
    seen: dict[str, int] = {}
    for place, text in enumerate(strings):
        if not text or text in seen:
            wrong = f"repeats {text!r} of entry {seen[text]}" if text else "is empty"
            raise InputError(
                f"{source}: {key}: entry {place} {wrong} (counted from 0). Names must be distinct."
            )
        seen[text] = place
    return strings


def _classes(arrays: Arrays, source: str) -> tuple[str, ...]:
    key = next((key for key in ("classes", "labels") if key in arrays), None)
    return _distinct(_strings(arrays, key, None, source), key, source) if key else ()


def _ids(arrays: Arrays, count: int, source: str) -> tuple[str, ...]:
    if "names" in arrays:
        return _distinct(_strings(arrays, "names", count, source), "names", source)
    return tuple(str(row) for row in range(count))


def _split(arrays: Arrays, count: int, source: str) -> tuple[str, ...] | None:
    if "split" in arrays:
        texts = _strings(arrays, "split", count, source)
        names = [split_name(text) for text in texts]
        if None in names:
            row = names.index(None)
            raise InputError(
                f"{source}: split: row {row} (counted from 0) is {texts[row]!r}, but must be one of "
                f"{', '.join(SPELLINGS)}."
            )
        return tuple(name or "" for name in names)
    if "test" in arrays:
        test = arrays["test"]
        if test.shape != (count,) or not np.isin(test, (0, 1)).all():
            raise InputError(
                f"{source}: test must hold {count:,} truth values, true for a test row; got {test.dtype} "
                f"{test.shape}."
            )
        return tuple("test" if is_test else "train" for is_test in test.tolist()) if test.any() else None
    return None
