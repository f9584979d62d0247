"""Scores as tensors of a file."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .arrays import IntArray
from .forms import InMemory, Scores, TopScores

_HIGHEST = "starts", "columns", "scores", "floors"


def score_tensors(scores: Scores) -> dict[str, npt.NDArray[Any]]:
    """Tensors by name; of `TopScores`, the classes of entries are stored in 32 bits."""
    if isinstance(scores, TopScores):
        columns = scores.columns.astype(np.int32)
        return dict(zip(_HIGHEST, (scores.starts, columns, scores.scores, scores.floors), strict=True))
    return {"scores": scores.gather()}


def read_scores(stored: Any, shape: tuple[int, int]) -> Scores:
    """Read scores that were stored as `score_tensors`.

    Args:
        stored: Open safetensors file.
        shape: Number of samples N and of classes C.

    Raises:
        ValueError: A tensor has another type or size, or holds an impossible value.
        SafetensorError: The file lacks a tensor.
    """
    if "starts" not in set(stored.keys()):
        array = read_tensor(stored, "scores", "F32", shape)
        if not np.isfinite(array).all():
            raise ValueError("some of its scores are not finite")
        return InMemory(array)
    starts, columns = read_rows(stored, "starts", "columns", shape)
    scores = read_tensor(stored, "scores", "F32", (len(columns),))
    floors = read_tensor(stored, "floors", "F32", (shape[0],))
    if not len(scores) or not np.isfinite(scores).all():
        raise ValueError("it holds no scores, or some that are not finite")
    if np.isnan(floors).any() or (floors == np.inf).any():
        raise ValueError("a floor is not a number")
    if ((floors == -np.inf) & (np.diff(starts) < shape[1])).any():
        raise ValueError("scores are missing of a sample that states none are")
    return TopScores(starts, columns, scores, floors, shape[1])


def read_rows(
    stored: Any, of_starts: str, of_columns: str, shape: tuple[int, int]
) -> tuple[IntArray, IntArray]:
    """Read the starts of N rows and the classes of their entries, which must ascend within a row.

    Raises:
        ValueError, SafetensorError: As in `read_scores`.
    """
    samples, classes = shape
    starts = read_tensor(stored, of_starts, "I64", (samples + 1,))
    columns = read_tensor(stored, of_columns, "I32", (None,)).astype(np.int64)
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


def read_tensor(stored: Any, name: str, kind: str, shape: tuple[int | None, ...]) -> npt.NDArray[Any]:
    """Read a tensor after its type and shape have been checked, as `check_tensor` does."""
    check_tensor(stored, name, kind, shape)
    array: npt.NDArray[Any] = stored.get_tensor(name).numpy().copy()
    return array


def check_tensor(stored: Any, name: str, kind: str, shape: tuple[int | None, ...]) -> None:
    """Check type and shape of a tensor, without reading it.

    Args:
        stored: Open safetensors file.
        name: Name of the tensor.
        kind: Its type, as safetensors names it.
        shape: Its shape, in which None stands for any length.
    """
    part = stored.get_slice(name)
    found = tuple(part.get_shape())
    alike = len(found) == len(shape) and all(b in (None, a) for a, b in zip(found, shape, strict=True))
    if part.get_dtype() != kind or not alike:
        wanted = ", ".join("any length" if size is None else str(size) for size in shape)
        raise ValueError(f"{name} is {part.get_dtype()} {found}, not {kind} ({wanted})")
