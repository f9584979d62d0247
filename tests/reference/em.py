"""Zhou et al. 2022: EM, and EntMin."""

from __future__ import annotations

import math

from spml.losses import em_loss, entmin_loss
from tests.goldens import on_observed
from tests.loops import Labels, Matrix, log_loss_pos, total


def em(logits: Matrix, target: Labels, alpha: float) -> float:
    """Mean over B * C: -log p on positives, -alpha H(p) on unknowns, -log(1 - p) on negatives."""

    def unknown(p: float) -> float:
        return alpha * (p * math.log(p) + (1 - p) * math.log(1 - p))

    return total(logits, target, log_loss_pos, unknown) / (len(logits) * len(logits[0]))


GOLDENS = [
    (r"(exact_)?em_alpha[0-9.]+", on_observed(em_loss, 1e-5, alpha="alpha")),
    (r"exact_entmin_alpha[0-9.]+", on_observed(entmin_loss, alpha="alpha")),
]
