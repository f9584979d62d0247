"""Scores that a run keeps of samples which the scoring model was not fitted to, with their observed labels.

Thresholds, probabilities and the search for missing labels are decided on them: a model is too sure of
samples that it has learned from.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from ..data import Dataset
from ..data.draws import permutation
from ..errors import InputError
from ..labels import ObservedLabels
from ..parsing import parse_json
from . import folder as run_files
from .solve import KnownLabels
from .tensor_files import check_names, check_tensor, open_tensors, write_tensors

MOST_SCORES = 5_000_000
"""Largest number of scores (samples x classes) that are kept."""


class HeldOut(NamedTuple):
    """Scores of samples that the scoring model was not fitted to.

    Attributes:
        ids: Names of the H samples.
        scores: Logits, float32 (H, C).
        labels: Their observed labels.
        learned: Names of the other samples that the model has learned from.
        learned_positives: Number of known positives of each class among those, int64 (C,); None = none.
    """

    ids: tuple[str, ...]
    scores: npt.NDArray[np.float32]
    labels: ObservedLabels
    learned: frozenset[str] = frozenset()
    learned_positives: npt.NDArray[np.int64] | None = None

    @property
    def positives(self) -> npt.NDArray[np.int64]:
        """Number of known positives of each class (C,), from which the shares of classes are estimated.

        Those of all samples that the model knows, which are more than the few that decide; but of these alone
        where all their labels are known, since then nothing is left to estimate.
        """
        own = self.labels.positives_per_class()
        return own if self.labels.full or self.learned_positives is None else own + self.learned_positives


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
    labels = ObservedLabels.from_ternary(KnownLabels(train, val).of(rows))
    positives = train.observed.positives_per_class() + val.observed.positives_per_class()
    return HeldOut(
        ids,
        scores,
        labels,
        frozenset(train.ids).union(val.ids).difference(ids),
        positives - labels.positives_per_class(),
    )


def write_held_out(folder: Path, held_out: HeldOut, classes: tuple[str, ...]) -> None:
    """Keep held-out scores in the folder of a run.

    Raises:
        SpmlError: The file could not be written.
    """
    # Names are tensors, since the header of a safetensors file has a largest size.
    names = {"ids": held_out.ids, "learned": sorted(held_out.learned)}
    arrays: dict[str, npt.NDArray[Any]] = {
        "scores": held_out.scores,
        "labels": held_out.labels.to_ternary(),
        **{key: np.frombuffer(json.dumps(of_key).encode(), np.uint8) for key, of_key in names.items()},
    }
    if held_out.learned_positives is not None:
        arrays["learned_positives"] = held_out.learned_positives
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
    write_tensors(folder / run_files.HELD_OUT, tensors, classes=classes)


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
    with open_tensors(path, "Train the run again.") as (stored, about):
        names = about["classes"]
        ids, learned = (parse_json(stored.get_tensor(key).numpy().tobytes()) for key in ("ids", "learned"))
        check_names(names, ids, learned)
        shape = len(ids), len(names)
        check_tensor(stored, "scores", "F32", shape)
        check_tensor(stored, "labels", "I8", shape)
        scores, labels = (stored.get_tensor(name).numpy().copy() for name in ("scores", "labels"))
        if not ids or not np.isfinite(scores).all():
            raise ValueError("it holds no scores, or some that are not finite")
        positives = None
        if "learned_positives" in set(stored.keys()):
            check_tensor(stored, "learned_positives", "I64", (len(names),))
            positives = stored.get_tensor("learned_positives").numpy().copy()
            if positives.min() < 0:
                raise ValueError("it counts a negative number of labels")
        held_out = HeldOut(
            tuple(ids), scores, ObservedLabels.from_ternary(labels), frozenset(learned), positives
        )
    if classes is not None and tuple(names) != classes:
        raise InputError(f"{path}: has scores of other classes than the model of this run. Train it again.")
    return held_out
