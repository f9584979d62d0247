"""Ben-Baruch et al. 2022: CSL."""

from __future__ import annotations

from spml.losses import csl_loss
from tests.goldens import Case
from tests.loops import Labels, Matrix, log_loss_neg, log_loss_pos, sigmoid


def csl(
    logits: Matrix, target: Labels, mode: str, topk: int, ignored: list[bool], hp: dict[str, float]
) -> float:
    """Sum; `hp` holds gamma_pos, gamma_neg, gamma_unknown, alpha_..., clip."""
    entries = [(row, column) for row, labels in enumerate(target) for column in range(len(labels))]
    unknown = [entry for entry in entries if target[entry[0]][entry[1]] == 0]
    highest = sorted(unknown, key=lambda entry: -logits[entry[0]][entry[1]])[: topk * len(logits)]
    result = 0.0
    for row, column in entries:
        label, p = target[row][column], sigmoid(logits[row][column])
        known = sum(label != 0 for label in target[row])
        weight = 1 + 1 / (1 + known) if mode == "ignore_normalize_classes" else 1.0
        shifted = max(p - hp["clip"], 0.0)
        if label == 1:
            result += weight * hp["alpha_pos"] * (1 - p) ** hp["gamma_pos"] * log_loss_pos(p)
        elif label == -1:
            result += weight * hp["alpha_neg"] * shifted ** hp["gamma_neg"] * log_loss_neg(shifted)
        elif mode == "negative" or (
            mode == "selective" and (row, column) not in highest and not ignored[column]
        ):
            result += hp["alpha_unknown"] * shifted ** hp["gamma_unknown"] * log_loss_neg(shifted)
    return result


def _csl(case: Case) -> object:
    hp = case.record["hp"]
    settings = {
        name: hp[name] for name in ("gamma_pos", "gamma_neg", "alpha_pos", "alpha_neg", "clip", "mode")
    }
    settings |= {"gamma_unknown": hp["gamma_unann"], "alpha_unknown": hp["alpha_unann"]}
    settings |= {"topk": hp["likelihood_topk"], "eps": 1e-8, "reduction": "sum"}
    return lambda logits: csl_loss(logits, case.tensor("obs"), **settings)


GOLDENS = [(r"csl_(ignore|ignore_normalize_classes|negative|selective)_[0-9]", _csl)]
