"""Scores that a run keeps of samples which the scoring model was not fitted to, with their observed labels.

Thresholds, probabilities and the search for missing labels are decided on them: a model is too sure of
samples that it has learned from.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from safetensors import safe_open

from ..data import Dataset
from ..data.draws import permutation
from ..errors import InputError
from ..files import write_bytes
from ..labels import ObservedLabels
from . import folder as run_files
from .solve import KnownLabels
from .tensor_files import check_names, check_tensor, clear_damage, encode, read_about

MOST_SCORES = 5_000_000
"""Largest number of scores (samples x classes) that are kept."""


class HeldOut(NamedTuple):
    """Scores of samples that the scoring model was not fitted to.

    Attributes:
        ids: Names of the H samples.
        scores: Logits, float32 (H, C).
        labels: Their observed labels.
    """

    ids: tuple[str, ...]
    scores: npt.NDArray[np.float32]
    labels: ObservedLabels


def gather_held_out(
    data: Dataset,
    scores: npt.NDArray[np.float32],
    rows: npt.NDArray[np.int64],
    *,
    seed: int,
) -> HeldOut:
    """Name scores and give them their labels; a random part of them where there are more than 5,000,000.

    Args:
        data: Data of the run.
        scores: Logits (H, C).
        rows: Their samples, numbered over training, then validation samples, int64 (H,).
        seed: Seed of the draw.
    """
    most = max(1, MOST_SCORES // scores.shape[1])
    if len(rows) > most:
        drawn = np.sort(permutation(len(rows), "kept scores", seed)[:most])
        scores, rows = scores[drawn], rows[drawn]
    train, val = data.splits["train"], data.splits["val"]
    count = len(train)
    ids = tuple(train.ids[row] if row < count else val.ids[row - count] for row in rows.tolist())
    return HeldOut(ids, scores, ObservedLabels.from_ternary(KnownLabels(train, val).of(rows)))


def write_held_out(folder: Path, held_out: HeldOut, classes: tuple[str, ...]) -> None:
    """Keep held-out scores in the folder of a run.

    Raises:
        SpmlError: The file could not be written.
    """
    # As a tensor, since the header of a safetensors file has a largest size.
    names = np.frombuffer(json.dumps(held_out.ids).encode(), np.uint8).copy()
    arrays = {"scores": held_out.scores, "labels": held_out.labels.to_ternary(), "ids": names}
    tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
    write_bytes(folder / run_files.HELD_OUT, encode(tensors, classes=classes))


def read_held_out(folder: Path, classes: tuple[str, ...] | None = None) -> HeldOut:
    """Read the held-out scores of a run.

    Args:
        folder: Folder of the run.
        classes: Classes that the scores must be of; None = any.

    Raises:
        InputError: The file is missing, damaged, or has scores of other classes.
    """
    path = folder / run_files.HELD_OUT
    if not path.is_file():
        if not run_files.holds_run(folder):
            raise InputError(f"{folder}: holds no run: name the folder of one.")
        raise InputError(
            f"{path}: is missing, so there are no scores of samples that the model was not fitted to. An "
            "unfinished run, or one of an earlier version, has none: train it again."
        )
    with clear_damage(path, "Train the run again."), safe_open(path, framework="pt") as stored:
        names = read_about(stored)["classes"]
        ids = json.loads(stored.get_tensor("ids").numpy().tobytes())
        check_names(names, ids)
        shape = len(ids), len(names)
        check_tensor(stored, "scores", "F32", shape)
        check_tensor(stored, "labels", "I8", shape)
        scores, labels = (stored.get_tensor(name).numpy().copy() for name in ("scores", "labels"))
        if not ids or not np.isfinite(scores).all():
            raise ValueError("it holds no scores, or some that are not finite")
        held_out = HeldOut(tuple(ids), scores, ObservedLabels.from_ternary(labels))
    if classes is not None and tuple(names) != classes:
        raise InputError(f"{path}: has scores of other classes than the model of this run. Train it again.")
    return held_out
