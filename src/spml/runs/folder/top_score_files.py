"""The highest scores of samples, and sparse labels, as tensors of a file."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...labels import ObservedLabels
from ...metrics.top_scores import TopScores

_SCORES = "starts", "columns", "scores", "floors"
_LABELS = "label_starts", "label_columns", "label_values"


def write_top_scores(scores: TopScores) -> dict[str, npt.NDArray[Any]]:
    """Tensors of scores; the classes of entries are stored in 32 bits."""
    columns = scores.columns.astype(np.int32)
    return dict(zip(_SCORES, (scores.starts, columns, scores.scores, scores.floors), strict=True))


def read_top_scores(stored: Any, shape: tuple[int, int]) -> TopScores:
    """Read scores that `write_top_scores` has stored.

    Args:
        stored: Open file of tensors.
        shape: Number of samples N and of classes C.

    Raises:
        ValueError: A tensor has another type or size, or holds an impossible value.
        SafetensorError: The file lacks a tensor.
    """
    starts, columns = _rows(stored, _SCORES[0], _SCORES[1], shape)
    scores = read_vector(stored, "scores", "F32", len(columns))
    floors = read_vector(stored, "floors", "F32", shape[0])
    if not len(scores) or not np.isfinite(scores).all():
        raise ValueError("it holds no scores, or some that are not finite")
    if np.isnan(floors).any() or (floors == np.inf).any():
        raise ValueError("a floor is not a number")
    kept = TopScores(starts, columns, scores, floors, shape[1])
    if ((floors == -np.inf) & (np.diff(starts) < shape[1])).any():
        raise ValueError("scores are missing of a sample that states none are")
    return kept


def write_labels(labels: ObservedLabels) -> dict[str, npt.NDArray[Any]]:
    """Tensors of observed labels; of labels that are all known, only the positives."""
    rows, columns = labels.entries(1)
    values = np.ones(len(rows), np.int8)
    if not labels.full:
        negative_rows, negative_columns = labels.entries(-1)
        rows, columns = np.concatenate([rows, negative_rows]), np.concatenate([columns, negative_columns])
        values = np.concatenate([values, np.full(len(negative_rows), -1, np.int8)])
        order = np.lexsort((columns, rows))
        rows, columns, values = rows[order], columns[order], values[order]
    starts = np.searchsorted(rows, np.arange(len(labels) + 1)).astype(np.int64)
    arrays: tuple[npt.NDArray[Any], ...] = (starts, columns.astype(np.int32), values)
    return {**dict(zip(_LABELS, arrays, strict=True)), "label_full": np.asarray([labels.full], np.uint8)}


def read_labels(stored: Any, shape: tuple[int, int]) -> ObservedLabels:
    """Read labels that `write_labels` has stored.

    Args:
        stored: Open file of tensors.
        shape: Number of samples N and of classes C.

    Raises:
        ValueError: A tensor has another type or size, or holds an impossible value.
        SafetensorError: The file lacks a tensor.
    """
    starts, columns = _rows(stored, _LABELS[0], _LABELS[1], shape)
    values = read_vector(stored, _LABELS[2], "I8", len(columns))
    full = bool(read_vector(stored, "label_full", "U8", 1)[0])
    if not np.isin(values, (1,) if full else (-1, 1)).all():
        raise ValueError("a label is neither 1 nor -1")
    return ObservedLabels(starts, columns, values, shape[1], -1 if full else 0)


def read_vector(stored: Any, name: str, kind: str, length: int | None = None) -> npt.NDArray[Any]:
    """Read a tensor of one dimension, after its type and length have been checked.

    Args:
        stored: Open file of tensors.
        name: Name of the tensor.
        kind: Its type, as safetensors names it.
        length: Its length; None = any.

    Raises:
        ValueError: It has another type or length.
        SafetensorError: The file lacks it.
    """
    part = stored.get_slice(name)
    size = tuple(part.get_shape())
    if part.get_dtype() != kind or len(size) != 1 or (length is not None and size != (length,)):
        raise ValueError(f"{name} is {part.get_dtype()} {size}, not {kind} ({length or 'any length'})")
    array: npt.NDArray[Any] = stored.get_tensor(name).numpy().copy()
    return array


def _rows(
    stored: Any, of_starts: str, of_columns: str, shape: tuple[int, int]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Starts of N rows and the classes of their entries, which ascend within a row."""
    samples, classes = shape
    starts = read_vector(stored, of_starts, "I64", samples + 1)
    columns = read_vector(stored, of_columns, "I32").astype(np.int64)
    within = (starts >= 0).all() and (starts <= len(columns)).all()  # so that no difference overflows
    if not within or starts[0] != 0 or starts[-1] != len(columns) or (np.diff(starts) < 0).any():
        raise ValueError(f"{of_starts} does not divide its {len(columns)} entries")
    if len(columns) and not 0 <= columns.min() <= columns.max() < classes:
        raise ValueError(f"{of_columns} has a class outside 0 ... {classes - 1}")
    first = np.zeros(len(columns) + 1, np.bool_)
    first[starts] = True
    if (np.diff(columns) <= 0)[~first[1:-1]].any():
        raise ValueError(f"{of_columns} does not ascend within a sample")
    return starts, columns
