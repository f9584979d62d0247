"""Cole et al. 2021: AN, AN-LS, WAN, IU, PR, BCE on full labels. Zhou et al. 2022: N-LS."""

from __future__ import annotations

from spml.losses import an_loss, an_ls_loss, iu_loss, n_ls_loss, pr_loss, wan_loss
from tests.goldens import Case, on_observed, ternary
from tests.loops import Element, Labels, Matrix, log_loss_neg, log_loss_pos, sigmoid, total


def an(logits: Matrix, target: Labels) -> float:
    """Mean over B * C of -log p on positives and -log(1 - p) on all other labels."""
    return total(logits, target, log_loss_pos, log_loss_neg) / (len(logits) * len(logits[0]))


def soft(share: float) -> Element:
    """Cross-entropy with the target `share`."""
    return lambda p: share * log_loss_pos(p) + (1 - share) * log_loss_neg(p)


def an_ls(logits: Matrix, target: Labels, swap: float) -> float:
    """Sum: positives have the target 1 - swap, everything else has swap."""
    return total(logits, target, soft(1 - swap), soft(swap), soft(swap))


def n_ls(logits: Matrix, target: Labels, swap: float) -> float:
    """Sum: only unknown labels are smoothed."""
    return total(logits, target, log_loss_pos, soft(swap))


def wan(logits: Matrix, target: Labels, weight: float) -> float:
    """Sum: unknown labels are negatives with a weight."""
    return total(logits, target, log_loss_pos, lambda p: weight * log_loss_neg(p))


def iu(logits: Matrix, target: Labels) -> float:
    """Sum over known labels."""
    return total(logits, target, log_loss_pos, lambda p: 0.0)


def pr(logits: Matrix, target: Labels) -> float:
    """Sum over pairs of a positive and another label of max(0, 1 - p_i + p_j)."""
    result = 0.0
    for row, labels in zip(logits, target, strict=True):
        for zi, label in zip(row, labels, strict=True):
            for zj, other in zip(row, labels, strict=True):
                if label == 1 and other != 1:
                    result += max(0.0, 1 - sigmoid(zi) + sigmoid(zj))
    return result


def _bce(case: Case) -> object:
    full = ternary(case.tensor("true"), unlisted=-1)
    return lambda logits: an_loss(logits, full, eps=case.eps(1e-5))


def _an_ls(case: Case) -> object:
    swap = case.record["hp"].get("swap") or case.record["hp"]["ls_coef"]
    return lambda logits: an_ls_loss(logits, case.tensor("obs"), swap=swap, eps=case.eps(1e-5))


def _bce_ls(case: Case) -> object:
    full, swap = ternary(case.tensor("true"), unlisted=-1), case.record["hp"]["ls_coef"]
    return lambda logits: an_ls_loss(logits, full, swap=swap, eps=case.eps(1e-5))


def _iu(case: Case) -> object:
    return lambda logits: iu_loss(logits, case.tensor("neg_obs"), eps=case.eps(1e-5))


def _iun(case: Case) -> object:
    """Loss with known true negatives; true positives that are not observed stay unknown."""
    target = case.tensor("obs") - (1 - case.tensor("true"))
    return lambda logits: iu_loss(logits, target, eps=1e-5)


def _iun_as_released(case: Case) -> object:
    """Loss without negatives: the released code compares {0, 1} labels with -1."""
    return lambda logits: iu_loss(logits, case.tensor("obs"), eps=1e-5)


GOLDENS = [
    (r"(exact_)?an", on_observed(an_loss, 1e-5)),
    (r"smile_an", on_observed(an_loss, 1e-5)),
    (r"(exact_)?bce_full", _bce),
    (r"an_ls|exact_an_ls_swap[0-9.]+", _an_ls),
    (r"bce_ls_full", _bce_ls),
    (r"exact_n_ls_swap[0-9.]+", on_observed(n_ls_loss, swap="swap")),
    (r"(exact_)?wan", on_observed(wan_loss, 1e-5)),
    (r"(exact_)?iu", _iu),
    (r"iun_em|iun_cole_pm1", _iun),
    (r"iun_cole_asreleased", _iun_as_released),
    (r"pr", on_observed(pr_loss)),
]
