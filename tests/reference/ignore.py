"""Song et al. 2024: IGNORE's loss."""

from __future__ import annotations

import math

from spml.losses import ignore_loss
from tests.goldens import Case


def ignore(
    logits: list[list[float]],
    target: list[list[int]],
    strong: list[list[float]],
    masked: list[list[float]] | None,
    gap: float,
    means: list[float],
) -> float:
    """0.1 * plain view on known positives + strong view on what is kept + 0.5 * squared difference."""
    shown, positives, assumed, kept, between, count = 0.0, 0, 0.0, 0, 0.0, 0
    for b, labels in enumerate(target):
        for c, label in enumerate(labels):
            z, s = logits[b][c], strong[b][c]
            between, count = between + (s - z) ** 2, count + 1
            if label == 1:
                shown, positives = shown + math.log1p(math.exp(-z)), positives + 1
            if label == 0 and masked is not None and abs(z - masked[b][c]) > gap and z > means[c]:
                continue
            assumed += math.log1p(math.exp(-s if label == 1 else s))
            kept += 1
    return 0.1 * shown / max(positives, 1) + assumed / max(kept, 1) + 0.5 * between / count


def _ignore(case: Case) -> object:
    hp = {"Gap_T": 1.5, "Avg_T": -0.5}
    rejecting = "ep4" in case.name
    hidden = case.tensor("masked_logits") if rejecting else None
    settings = {"gap_threshold": hp["Gap_T"], "mean_logits": hp["Avg_T"], "eps": case.eps(1e-5)}
    target = case.tensor("obs")
    if case.record["wrt"] == "strong_logits":
        return lambda strong: ignore_loss(case.tensor("logits"), target, strong, hidden, **settings)
    return lambda logits: ignore_loss(logits, target, case.tensor("strong_logits"), hidden, **settings)


GOLDENS = [(r"ignore_ep[0-9]+(_wrt_strong)?", _ignore)]
