"""Scores that a run keeps of samples which the scoring model was not fitted to, with their observed labels.

Thresholds, probabilities and the search for missing labels are decided on them: a model is too sure of
samples that it has learned from.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from ...common.draws import permutation
from ...common.errors import InputError
from ...common.parsing import parse_json
from ...data import Dataset
from ...labels import ObservedLabels
from ...metrics.top_scores import HIGHEST, TopScores, fits, top_scores
from ..compute.score_table import highest_scores
from . import layout as run_files
from .row_names import NumberedNames, row_names
from .tensor_files import check_names, check_tensor, open_tensors, write_tensors
from .top_score_files import read_labels, read_top_scores, read_vector, write_labels, write_top_scores

MOST_SCORES = 5_000_000
"""Largest number of scores (samples x classes) that are kept."""

MOST_CLASSES = 5000
"""Largest number of classes of which all scores are kept, if only of some samples."""

MOST_ROWS = 5000
"""Largest number of samples of which scores are kept where there are more classes: the highest of each."""


class HeldOut(NamedTuple):
    """Scores of samples that the scoring model was not fitted to.

    Attributes:
        ids: Names of the H samples.
        scores: Logits, float32 (H, C), or the highest of each sample.
        labels: Their observed labels.
        learned: Names of the other samples that the model has learned from.
        learned_positives: Number of known positives of each class among those, int64 (C,); None = none.
    """

    ids: tuple[str, ...]
    scores: npt.NDArray[np.float32] | TopScores
    labels: ObservedLabels
    learned: Collection[str] = frozenset()
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
    scores: npt.NDArray[np.float32] | TopScores,
    rows: npt.NDArray[np.int64],
    *,
    seed: int,
) -> HeldOut:
    """Name scores and give them their labels; a random part of them where there are more than 5,000,000.

    Of more than 5,000 classes, the 1,000 highest scores of up to 5,000 samples are kept, and those of their
    known positives.

    Args:
        data: Data of the run.
        scores: Logits (H, C), or the highest of each sample.
        rows: Their samples, numbered over training, then validation samples, int64 (H,).
        seed: Seed of the draw.
    """
    classes = len(data.classes)
    all_kept = not isinstance(scores, TopScores) or not np.isfinite(scores.floors).any()
    dense = all_kept and (classes <= MOST_CLASSES or len(rows) * classes <= MOST_SCORES)
    most = max(1, MOST_SCORES // classes) if dense else MOST_ROWS
    if len(rows) > most:
        drawn = np.sort(permutation(len(rows), "kept scores", seed)[:most])
        scores = scores.take(drawn) if isinstance(scores, TopScores) else scores[drawn]
        rows = rows[drawn]
    train, val = data.splits["train"], data.splits["val"]
    count = len(train)
    ids = tuple(train.ids[row] if row < count else val.ids[row - count] for row in rows.tolist())
    labels = _labels_of(rows, train.observed, val.observed)
    if dense and isinstance(scores, TopScores):
        scores = scores.scores.reshape(len(rows), classes)
    elif not dense and not isinstance(scores, TopScores):
        scores = highest_scores(scores, labels)
    positives = train.observed.positives_per_class() + val.observed.positives_per_class()
    return HeldOut(
        ids,
        scores,
        labels,
        _others(train.ids, val.ids, ids),
        positives - labels.positives_per_class(),
    )


def drawn_part(samples: int, classes: int, seed: int) -> npt.NDArray[np.int64]:
    """Random samples, ascending, whose scores are kept where those of all do not fit (`fits`)."""
    most = MOST_ROWS if classes > MOST_CLASSES else max(1, MOST_SCORES // classes)
    return np.sort(permutation(samples, "kept scores", seed)[:most])


def keep_scores(
    blocks: Iterable[tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]], labels: ObservedLabels
) -> npt.NDArray[np.float32] | TopScores:
    """Scores (H, C) of samples that come in blocks; of more than 5,000 classes, the highest of each sample.

    Args:
        blocks: Numbers of consecutive samples, from 0, and their scores.
        labels: Their observed labels.
    """
    if labels.num_classes > MOST_CLASSES:
        return top_scores(blocks, HIGHEST, labels.entries(1))
    return np.concatenate([block for _, block in blocks])


def _labels_of(rows: npt.NDArray[np.int64], train: ObservedLabels, val: ObservedLabels) -> ObservedLabels:
    """Labels of samples that are numbered over training, then validation samples."""
    position = np.argsort(rows, kind="stable")
    in_val = rows[position] >= len(train)
    parts = [train.take(rows[position][~in_val]), val.take(rows[position][in_val] - len(train))]
    return join_labels([part for part in parts if len(part)]).take(np.argsort(position))


def join_labels(parts: Sequence[ObservedLabels]) -> ObservedLabels:
    """Labels of several parts, one after the other.

    Where more negatives are known than can be listed, but not of all parts, they count as unknown.
    """
    negatives = sum(int(part.negatives_per_sample().sum()) for part in parts)
    if fits(negatives, 1) or all(part.full for part in parts):
        return ObservedLabels.join(parts)
    return ObservedLabels.join([_positives_of(part) for part in parts])


def _positives_of(labels: ObservedLabels) -> ObservedLabels:
    rows, columns = labels.entries(1)
    starts = np.searchsorted(rows, np.arange(len(labels) + 1)).astype(np.int64)
    return ObservedLabels(starts, columns, np.ones(len(rows), np.int8), labels.num_classes)


def _others(train: Sequence[str], val: Sequence[str], ids: tuple[str, ...]) -> Collection[str]:
    """Names of the samples that are not among `ids`."""
    numbered = row_names((train, val), ids)
    return frozenset(train).union(val).difference(ids) if numbered is None else numbered


def write_held_out(folder: Path, held_out: HeldOut, classes: tuple[str, ...]) -> None:
    """Keep held-out scores in the folder of a run.

    Raises:
        SpmlError: The file could not be written.
    """
    arrays: dict[str, npt.NDArray[Any]] = {}
    if isinstance(held_out.scores, TopScores):
        arrays |= write_top_scores(held_out.scores) | write_labels(held_out.labels)
    else:
        arrays |= {"scores": held_out.scores, "labels": held_out.labels.to_ternary()}
    # Names are tensors, since the header of a safetensors file has a largest size.
    arrays["ids"] = _as_bytes(held_out.ids)
    if isinstance(held_out.learned, NumberedNames):
        arrays["learned_rows"] = held_out.learned.bits
    else:
        arrays["learned"] = _as_bytes(sorted(held_out.learned))
    if held_out.learned_positives is not None:
        arrays["learned_positives"] = held_out.learned_positives
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
    write_tensors(folder / run_files.HELD_OUT, tensors, classes=classes)


def _as_bytes(names: Sequence[str]) -> npt.NDArray[np.uint8]:
    return np.frombuffer(json.dumps(names).encode(), np.uint8)


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
        names, keys = about["classes"], set(stored.keys())
        ids = parse_json(stored.get_tensor("ids").numpy().tobytes())
        learned: Collection[str]
        if "learned_rows" in keys:
            check_names(names, ids)
            learned = NumberedNames(read_vector(stored, "learned_rows", "U8"))
        else:
            listed = parse_json(stored.get_tensor("learned").numpy().tobytes())
            check_names(names, ids, listed)
            learned = frozenset(listed)
        shape = len(ids), len(names)
        scores: npt.NDArray[np.float32] | TopScores
        if "starts" in keys:
            scores, labels = read_top_scores(stored, shape), read_labels(stored, shape)
        else:
            check_tensor(stored, "scores", "F32", shape)
            check_tensor(stored, "labels", "I8", shape)
            dense, ternary = (stored.get_tensor(name).numpy().copy() for name in ("scores", "labels"))
            if not np.isfinite(dense).all():
                raise ValueError("some of its scores are not finite")
            scores = dense
            labels = ObservedLabels.from_ternary(ternary)
        if not ids:
            raise ValueError("it holds no scores")
        positives = None
        if "learned_positives" in keys:
            check_tensor(stored, "learned_positives", "I64", (len(names),))
            positives = stored.get_tensor("learned_positives").numpy().copy()
            if positives.min() < 0:
                raise ValueError("it counts a negative number of labels")
        held_out = HeldOut(tuple(ids), scores, labels, learned, positives)
    if classes is not None and tuple(names) != classes:
        raise InputError(f"{path}: has scores of other classes than the model of this run. Train it again.")
    return held_out
