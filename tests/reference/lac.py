"""Xie et al. 2022: label-aware contrast and its queue; the loss of the first stage of LAC."""

from __future__ import annotations

import math
from typing import Any

import torch

from spml.losses import an_loss, lac_loss, plc_loss
from tests.goldens import Case
from tests.loops import Matrix

Entry = tuple[int, list[float], list[float]]


def contrast(first: Matrix, second: Matrix, classes: list[int], temperature: float) -> float:
    """Mean over anchors of log sum exp over all others - mean over the others of the same class."""
    vectors, labels, total = [*first, *second], [*classes, *classes], 0.0
    for a, anchor in enumerate(vectors):
        others = [
            (sum(x * y for x, y in zip(anchor, vector, strict=True)) / temperature, labels[b] == labels[a])
            for b, vector in enumerate(vectors)
            if b != a
        ]
        same = [value for value, is_same in others if is_same]
        total += math.log(sum(math.exp(value) for value, _ in others)) - sum(same) / len(same)
    return total / max(len(vectors), 1)


def new_entries(logits: Matrix, target: list[list[int]], first: Any, second: Any, tau: float) -> list[Entry]:
    """Known positives and confident unknown labels, row by row."""
    return [
        (c, first[b][c], second[b][c])
        for b, labels in enumerate(target)
        for c, label in enumerate(labels)
        if label == 1 or (label == 0 and 1 / (1 + math.exp(-logits[b][c])) >= tau)
    ]


def ring(steps: list[list[Entry]], size: int) -> list[Entry]:
    """The last entries of all steps."""
    return [entry for step in steps for entry in step][-size:]


def _contrast(case: Case) -> object:
    classes = case.tensor("con_labels").long()
    filled = classes > 0

    def loss(pairs: torch.Tensor) -> torch.Tensor:
        temperature = case.record["hp"]["temperature"]
        return lac_loss(pairs[filled, 0], pairs[filled, 1], classes[filled], temperature=temperature)

    return loss


def _first_stage(case: Case) -> object:
    step, _, _ = case.record["wrt"].partition("_")
    target, hp = torch.from_numpy(case.inputs[f"{step}_obs"]).to(torch.int8), case.record["hp"]

    def loss(variable: torch.Tensor) -> torch.Tensor:
        weak, strong = (
            variable if case.record["wrt"] == name else case.tensor(name)
            for name in (f"{step}_weak", f"{step}_strong")
        )
        return an_loss(weak, target) + hp["lambda_plc"] * plc_loss(weak, target, strong, tau=hp["tau"])

    return loss


GOLDENS = [(r"lac_contrastive_.*", _contrast), (r"lac_stage1_.*", _first_stage)]
