"""Scores that a run keeps of samples which the scoring model was not fitted to, with their observed labels.

Models are overconfident on training samples, so thresholds, probabilities and the search for missing labels
use held-out ones.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import torch

from ...common.documents import parse_json
from ...common.draws import permutation
from ...common.errors import InputError
from ...common.label_checks import rows_of
from ...data import Dataset, Samples
from ...data.groups import join_groups
from ...data.names import RowNames
from ...labels import ObservedLabels
from ...scores import HIGHEST, InMemory, Scores, as_scores, fits
from ...scores.forms import IntArray, ScoreArray, read_rows, read_scores, read_tensor, score_tensors
from . import layout as run_files
from .contents import open_tensors, write_tensors

MOST_KEPT = 5_000_000
"""Largest number of scores (samples x classes) that are kept."""

MOST_CLASSES = 5000
"""Largest number of classes of which all scores are kept, if only of some samples."""

MOST_ROWS = 5000
"""Largest number of samples of which scores are kept where there are more classes: the highest of each."""


class HeldOut(NamedTuple):
    """Scores of samples that the scoring model was not fitted to.

    Attributes:
        ids: Names of the H samples.
        scores: Logits (H, C), in memory or the highest of each sample.
        labels: Their observed labels.
        learned: Names of the other samples that the model has learned from.
        learned_positives: Number of known positives of each class among those, int64 (C,); None = none.
        groups: Group of each of the H samples, int64 (H,); None without groups.
        windows: Number of the window that speaks most for each class, int16 (H, C), as
            `Classifier.places` counts them; None where it was not kept.
        compared: Logits (H, C) by which models are compared, as in `HeldOutScores`; None = `scores`.
    """

    ids: tuple[str, ...]
    scores: Scores
    labels: ObservedLabels
    learned: Collection[str] = frozenset()
    learned_positives: IntArray | None = None
    groups: IntArray | None = None
    windows: npt.NDArray[np.int16] | None = None
    compared: Scores | None = None

    @property
    def positives(self) -> IntArray:
        """Number of known positives of each class (C,), from which the shares of classes are estimated.

        Those of all samples that the model knows, which are more than the few that decide; but of these alone
        where all their labels are known, since then nothing is left to estimate.
        """
        own = self.labels.positives_per_class()
        return own if self.labels.full or self.learned_positives is None else own + self.learned_positives

    @property
    def total(self) -> int:
        """Number of samples that `positives` counts."""
        return len(self.ids) + (
            0 if self.labels.full or self.learned_positives is None else len(self.learned)
        )

    def scores_of(self, ids: Collection[str]) -> Scores | None:
        """Scores of some samples, in that order; None if one of them has none."""
        rows = rows_of(self.ids, ids)
        return None if (rows < 0).any() else self.scores.take(rows)


def gather_held_out(
    data: Dataset,
    scores: Scores | npt.NDArray[np.float32],
    rows: IntArray,
    windows: npt.NDArray[np.int16] | None = None,
    compared: Scores | None = None,
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
        windows, compared: As in `HeldOut`.
        seed: Seed of the draw.
    """
    scores, classes = as_scores(scores), len(data.classes)
    dense = scores.complete and (classes <= MOST_CLASSES or len(rows) * classes <= MOST_KEPT)
    most = max(1, MOST_KEPT // classes) if dense else MOST_ROWS
    if len(rows) > most:
        drawn = np.sort(permutation(len(rows), "kept scores", seed)[:most])
        scores, rows = scores.take(drawn), rows[drawn]
        windows = None if windows is None else windows[drawn]
        compared = None if compared is None else compared.take(drawn)
    train, val = data.splits["train"], data.splits["val"]
    count = len(train)
    ids = tuple(train.ids[row] if row < count else val.ids[row - count] for row in rows.tolist())
    labels = labels_of(train, val, rows)
    scores = InMemory(scores.gather()) if dense else scores.highest(HIGHEST, labels.entries(1))
    compared = compared if dense else None
    positives = train.observed.positives_per_class() + val.observed.positives_per_class()
    learned: Collection[str]
    if isinstance(train.ids, RowNames) and isinstance(val.ids, RowNames):
        learned = NumberedNames.of([*map(int, train.ids), *map(int, val.ids)], [*map(int, ids)])
    else:
        learned = frozenset(train.ids).union(val.ids).difference(ids)
    groups = join_groups(train.groups, val.groups)
    groups = None if groups is None else groups[rows]
    positives -= labels.positives_per_class()
    return HeldOut(ids, scores, labels, learned, positives, groups, windows, compared)


def labels_of(
    train: Samples, val: Samples, rows: IntArray, classes: IntArray | None = None
) -> ObservedLabels:
    """Observed labels of samples, numbered over training, then validation samples; None = of all classes."""
    order = np.argsort(rows, kind="stable")
    in_val = rows[order] >= len(train)
    parts = [train.observed.take(rows[order][~in_val])]
    parts.append(val.observed.take(rows[order][in_val] - len(train)))
    if classes is not None and len(classes) < train.observed.num_classes:
        parts = [part.take_classes(classes) for part in parts]
    return join_labels([part for part in parts if len(part)]).take(np.argsort(order))


def drawn_part(samples: int, classes: int, seed: int) -> IntArray:
    """Random samples, ascending, whose scores are kept where those of all do not fit (`fits`)."""
    most = MOST_ROWS if classes > MOST_CLASSES else max(1, MOST_KEPT // classes)
    return np.sort(permutation(samples, "kept scores", seed)[:most])


def keep_scores(scores: Scores, labels: ObservedLabels) -> Scores:
    """Scores (H, C) in memory; of more than 5,000 classes, the highest of each sample.

    Args:
        scores: Scores in any form.
        labels: Observed labels of the samples.
    """
    if labels.num_classes > MOST_CLASSES:
        return scores.highest(HIGHEST, labels.entries(1))
    return InMemory(scores.gather())


def all_scores(scores: Scores, what: str) -> ScoreArray:
    """Scores (N, C) of all classes; those that were left out are as high as they can be.

    Args:
        scores: Scores.
        what: What needs all scores, for the message.

    Raises:
        InputError: There are too many.
    """
    samples, classes = scores.shape
    if scores.array is None and not fits(samples, classes):
        raise InputError(
            f"{what} compares the scores of all classes, but those of {samples:,} samples and "
            f"{classes:,} classes do not fit into the memory."
        )
    return scores.gather()


def join_labels(parts: Sequence[ObservedLabels]) -> ObservedLabels:
    """Labels of several parts, one after the other.

    Where more negatives are known than can be listed, but not of all parts, they count as unknown.
    """
    negatives = sum(int(part.negatives_per_sample().sum()) for part in parts)
    if not fits(negatives, 1) and not all(part.full for part in parts):
        positives = []
        for part in parts:
            rows, columns = part.entries(1)
            starts = np.searchsorted(rows, np.arange(len(part) + 1)).astype(np.int64)
            positives.append(ObservedLabels(starts, columns, np.ones(len(rows), np.int8), part.num_classes))
        parts = positives
    return ObservedLabels.join(parts)


def write_held_out(folder: Path, held_out: HeldOut, classes: tuple[str, ...]) -> None:
    """Keep held-out scores in the folder of a run.

    Raises:
        SpmlError: The file could not be written.
    """
    arrays = score_tensors(held_out.scores)
    if held_out.scores.array is None:
        arrays |= _label_tensors(held_out.labels)
    else:
        arrays["labels"] = held_out.labels.to_ternary()
    # Names are tensors, since the header of a safetensors file has a largest size.
    arrays["ids"] = _as_bytes(held_out.ids)
    if isinstance(held_out.learned, NumberedNames):
        arrays["learned_rows"] = held_out.learned.bits
    else:
        arrays["learned"] = _as_bytes(sorted(held_out.learned))
    if held_out.learned_positives is not None:
        arrays["learned_positives"] = held_out.learned_positives
    if held_out.groups is not None:
        arrays["groups"] = held_out.groups
    if held_out.windows is not None:
        arrays["windows"] = held_out.windows
    if held_out.compared is not None:
        arrays["compared"] = held_out.compared.gather()
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
    write_tensors(folder / run_files.HELD_OUT, tensors, folder, classes=classes)


def _label_tensors(labels: ObservedLabels) -> dict[str, npt.NDArray[Any]]:
    """Sparse tensors of observed labels; of labels that are all known, only the positives."""
    rows, columns = labels.entries(1)
    values = np.ones(len(rows), np.int8)
    if not labels.full:
        negative_rows, negative_columns = labels.entries(-1)
        rows, columns = np.concatenate([rows, negative_rows]), np.concatenate([columns, negative_columns])
        values = np.concatenate([values, np.full(len(negative_rows), -1, np.int8)])
        order = np.lexsort((columns, rows))
        rows, columns, values = rows[order], columns[order], values[order]
    return {
        "label_starts": np.searchsorted(rows, np.arange(len(labels) + 1)).astype(np.int64),
        "label_columns": columns.astype(np.int32),
        "label_values": values,
        "label_full": np.asarray([labels.full], np.uint8),
    }


def _read_labels(stored: Any, shape: tuple[int, int]) -> ObservedLabels:
    if "label_starts" not in set(stored.keys()):
        return ObservedLabels.from_ternary(read_tensor(stored, "labels", "I8", shape))
    starts, columns = read_rows(stored, "label_starts", "label_columns", shape)
    values = read_tensor(stored, "label_values", "I8", (len(columns),))
    full = bool(read_tensor(stored, "label_full", "U8", (1,))[0])
    if not np.isin(values, (1,) if full else (-1, 1)).all():
        raise ValueError("a label is neither 1 nor -1")
    return ObservedLabels(starts, columns, values, shape[1], -1 if full else 0)


def _as_bytes(names: Sequence[str]) -> npt.NDArray[np.uint8]:
    return np.frombuffer(json.dumps(names).encode(), np.uint8)


def _read_names(stored: Any, key: str) -> list[str]:
    return msgspec.convert(parse_json(stored.get_tensor(key).numpy().tobytes()), list[str])


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
            "unfinished run has none: train it again."
        )
    with open_tensors(path, "Train the run again.", folder) as (stored, about):
        names, keys = msgspec.convert(about["classes"], list[str]), set(stored.keys())
        ids = _read_names(stored, "ids")
        learned: Collection[str]
        if "learned_rows" in keys:
            learned = NumberedNames(read_tensor(stored, "learned_rows", "U8", (None,)))
        else:
            learned = frozenset(_read_names(stored, "learned"))
        shape = len(ids), len(names)
        scores, labels = read_scores(stored, shape), _read_labels(stored, shape)
        if not ids:
            raise ValueError("it holds no scores")
        positives = None
        if "learned_positives" in keys:
            positives = read_tensor(stored, "learned_positives", "I64", (len(names),))
            if positives.min() < 0:
                raise ValueError("it counts a negative number of labels")
        groups = read_tensor(stored, "groups", "I64", (len(ids),)) if "groups" in keys else None
        windows = read_tensor(stored, "windows", "I16", shape) if "windows" in keys else None
        if windows is not None and windows.min() < 0:
            raise ValueError("the number of a window is negative")
        compared = read_tensor(stored, "compared", "F32", shape) if "compared" in keys else None
        if compared is not None and not np.isfinite(compared).all():
            raise ValueError("some of the scores that are compared are not finite")
        held_out = HeldOut(tuple(ids), scores, labels, learned, positives, groups, windows)
        if compared is not None:
            held_out = held_out._replace(compared=InMemory(compared))
    if classes is not None and tuple(names) != classes:
        raise InputError(f"{path}: has scores of other classes than the model of this run. Train it again.")
    return held_out


# -- names that are numbers of rows, as those of feature files are -----------------------------------------


class NumberedNames(Collection[str]):
    """Some of the names `0`, `1`, `2`, ..., of which there may be millions.

    Args:
        bits: Whether each number is among them, eight to a byte, as `np.packbits` stores them, uint8 (B,).
    """

    def __init__(self, bits: npt.NDArray[np.uint8]) -> None:
        self.bits = bits

    @classmethod
    def of(cls, rows: Sequence[int], without: Sequence[int]) -> NumberedNames:
        """Names of some rows, without some of these."""
        marked = np.zeros(max(rows) + 1, np.bool_)
        marked[rows] = True
        marked[without] = False
        return cls(np.packbits(marked))

    def __contains__(self, name: object) -> bool:
        if len(str(name)) > 18 or name not in RowNames(8 * len(self.bits)):
            return False
        row = int(str(name))
        return bool(self.bits[row // 8] >> (7 - row % 8) & 1)

    def __iter__(self) -> Iterator[str]:
        return map(str, np.flatnonzero(np.unpackbits(self.bits)).tolist())

    def __len__(self) -> int:
        return int(np.unpackbits(self.bits).sum())
