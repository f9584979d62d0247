"""Zhang et al., arXiv 2112.07368: Hill, SPLC."""

from __future__ import annotations

from spml.losses import focal_loss, hill_loss, splc_loss
from tests.goldens import Case
from tests.loops import Labels, Matrix, log_loss_neg, log_loss_pos, sigmoid, total
from tests.reference.focal import logit


def margin_positive(p: float, margin: float, gamma: float) -> float:
    """(1 - p_m)^gamma (-log p_m) with p_m = sigmoid(z - margin)."""
    shifted = sigmoid(logit(p) - margin)
    return (1 - shifted) ** gamma * log_loss_pos(shifted)


def hill(logits: Matrix, target: Labels, lam: float, margin: float, gamma: float, own: bool = False) -> float:
    """Sum: (lam - p) p^2 on unknowns, and with `own` on negatives."""

    def unknown(p: float) -> float:
        return (lam - p) * p**2

    negative = unknown if own else log_loss_neg
    return total(logits, target, lambda p: margin_positive(p, margin, gamma), unknown, negative)


def splc(
    logits: Matrix,
    target: Labels,
    tau: float,
    margin: float,
    gamma: float,
    lam: float | None = None,
    margin_corrected: float = 0.0,
    own: bool = False,
) -> float:
    """Sum: unknowns with p > tau are positives with a margin of their own; the rest has Hill if `lam`.

    Negatives have l-, or with `own` the loss of the rest.
    """

    def negative(p: float) -> float:
        return p**gamma * log_loss_neg(p) if lam is None else (lam - p) * p**2

    def unknown(p: float) -> float:
        return margin_positive(p, margin_corrected, gamma) if p > tau else negative(p)

    of_known = negative if own else log_loss_neg
    return total(logits, target, lambda p: margin_positive(p, margin, gamma), unknown, of_known)


def _hill(case: Case) -> object:
    hp = case.record["hp"]
    plain = case.name in ("exact_hill_plain", "hill_grrepo")
    settings = {
        "lam": hp["lambda"],
        "margin": 0.0 if plain else hp["margin"],
        "gamma": 0.0 if plain else hp["gamma"],
    }
    if case.name == "hill_grrepo":
        return lambda logits: hill_loss(logits, case.tensor("obs"), eps=1e-7, **settings)
    return lambda logits: hill_loss(logits, case.tensor("obs"), reduction="sum", **settings)


def _splc(case: Case) -> object:
    hp = case.record["hp"]
    settings = {"margin": hp.get("margin", 1.0), "gamma": hp["gamma"], "reduction": "sum"}
    if hp.get("epoch") == 0:
        return lambda logits: focal_loss(logits, case.tensor("obs"), **settings)
    return lambda logits: splc_loss(logits, case.tensor("obs"), tau=hp["tau"], **settings)


GOLDENS = [
    (r"hill_(grrepo|margin0.5|margin|plainpos)|exact_hill_(margin1|plain)", _hill),
    (r"splc_(ep0|ep1|tau0.65)|exact_splc_tau0.6", _splc),
]
