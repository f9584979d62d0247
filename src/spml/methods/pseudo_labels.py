"""Pseudo-labels made outside this library, for example with a vision-language model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..common.errors import InputError
from ..common.label_checks import IntArray, rows_of
from .base import Batch, Facts, Needs, Objective

ABOVE = 0.3
"""Probability above which a name makes a pseudo-label, as in VLPL."""

_FORM = (
    "Expected an .npz file with `ids` (strings, one per sample), `classes` (strings) and `labels`, integers "
    "of shape (samples, classes) with 1 = positive, -1 = negative, 0 = no pseudo-label."
)


def read_pseudo_labels(path: str, facts: Facts) -> Tensor:
    """Read the pseudo-labels of the training samples, in the order of the samples and classes.

    Args:
        path: File in .npz format with `ids`, `classes` and `labels`, which may hold further samples and
            classes.
        facts: Facts about the training set.

    Returns:
        Labels in {-1, 0, +1}, int8 of shape (N, C).

    Raises:
        InputError: The file can't be read, has another form, or lacks a training sample or a class.
    """
    ids, classes, labels = _load(path)
    rows = _positions(path, "ids", ids, facts.ids)
    columns = _positions(path, "classes", classes, facts.classes)
    selected = labels[np.ix_(rows, columns)]
    wrong = np.argwhere(~np.isin(selected, (-1, 0, 1)))
    if len(wrong):
        row, column = wrong[0]
        raise InputError(
            f"{path}: labels: {selected[row, column]} for sample {facts.ids[row]!r}, class "
            f"{facts.classes[column]!r}. {_FORM}"
        )
    return torch.from_numpy(selected.astype(np.int8))


class WithPseudoLabels(Objective):
    """Base class of methods with pseudo-labels: from a file, or from the names of the classes, which make a
    label positive where their probability is above .3.

    Args:
        pseudo_labels: The file; None = no pseudo-labels, or those of the names.
        hp: Hyper-parameters of a further base class.

    Source: Xing et al. Vision-Language Pseudo-Labels for Single-Positive Multi-Label Learning. CVPR 2024
    workshops.
    """

    needs = Needs(names=True)
    pseudo: Tensor | None

    def __init__(self, pseudo_labels: str | None, **hp: Any) -> None:
        super().__init__(**hp)
        self.pseudo_labels = pseudo_labels
        self.register_buffer("pseudo", None)

    def on_fit_start(self, facts: Facts) -> None:
        super().on_fit_start(facts)
        if self.pseudo_labels is not None:
            self.pseudo = read_pseudo_labels(self.pseudo_labels, facts)

    def on_names(self, probabilities: Tensor) -> None:
        if self.pseudo_labels is not None:
            raise InputError(
                f"`names` makes pseudo-labels, but hp.pseudo_labels={self.pseudo_labels} gives others: leave "
                "out one of the two."
            )
        self.pseudo = (probabilities > ABOVE).to(torch.int8)

    def pseudo_of(self, logits: Tensor, batch: Batch) -> Tensor:
        """Pseudo-labels of a batch, int8 of shape (B, C), 0 where there is none."""
        if self.pseudo is None:
            return torch.zeros_like(logits, dtype=torch.int8)
        return self.pseudo[batch.index]


def _load(path: str) -> tuple[Any, Any, Any]:
    try:
        with np.load(path, allow_pickle=False) as file:
            ids, classes, labels = file["ids"], file["classes"], file["labels"]
    except Exception as error:  # damaged headers raise nearly anything
        raise InputError(f"{path}: pseudo-labels could not be read: {error}. {_FORM}") from error
    if ids.dtype.kind != "U" or classes.dtype.kind != "U" or ids.ndim != 1 or classes.ndim != 1:
        raise InputError(f"{path}: ids and classes are {ids.dtype} and {classes.dtype}. {_FORM}")
    if labels.dtype.kind not in "iu" or labels.shape != (len(ids), len(classes)):
        raise InputError(
            f"{path}: labels are {labels.dtype} {labels.shape}, with {len(ids)} ids and {len(classes)} "
            f"classes. {_FORM}"
        )
    return ids, classes, labels


def _positions(path: str, key: str, names: Any, required: Sequence[str]) -> IntArray:
    """Return the positions of the required names among the names of the file."""
    if len(set(names.tolist())) < len(names):
        raise InputError(f"{path}: {key} contain a name twice; names must be distinct. {_FORM}")
    positions = rows_of(names.tolist(), required)
    missing = np.flatnonzero(positions < 0)
    if len(missing):
        raise InputError(
            f"{path}: {key} lack {len(missing)} of the {len(required)} in the training data, the first of "
            f"them {required[missing[0]]!r}. Add them, with zeros where there is no pseudo-label."
        )
    return positions
