"""Chen et al. 2024: GR."""

from __future__ import annotations

import math

from spml.losses import gr_loss
from tests.goldens import Case
from tests.loops import Labels, Matrix


def gr_unknown(z: float, at: float, k: str, v: str, hp: dict[str, float]) -> float:
    """Loss of one unknown label with logit z; pseudo-label and weight are taken at logit `at` (constant)."""
    p, held = 1 / (1 + math.exp(-z)), 1 / (1 + math.exp(-at))
    low, high = 1 / (1 + math.exp(-hp["b"])), 1 / (1 + math.exp(-hp["w"] - hp["b"]))
    share = {
        "logistic": lambda: 1 / (1 + math.exp(-(hp["w"] * held + hp["b"]))),
        "scar": lambda: (1 - hp["a"]) * held / (1 - hp["a"] * held),
        "step": lambda: 1.0 if held > hp["tau"] else 0.5 if held == hp["tau"] else 0.0,
        "thresholds": lambda: 1.0 if held >= hp["tau_high"] else 0.0,
        "constant": lambda: hp["share"],
        "polynomial": lambda: low + (high - low) * held ** hp["degree"],
        "exponential": lambda: low * (high / low) ** held,
    }[k]()
    weight = {
        "gaussian": lambda: math.exp(-((held - hp["mu"]) ** 2) / (2 * hp["sigma"] ** 2)),
        "one": lambda: 1.0,
        "thresholds": lambda: 0.0 if hp["tau_low"] < held < hp["tau_high"] else 1.0,
        "polynomial": lambda: max(0.0, 1 - (held - hp["mu"]) ** 2 / (2 * hp["sigma"] ** 2)),
        "exponential": lambda: math.exp(-abs(held - hp["mu"]) / hp["sigma"]),
    }[v]()
    l2 = (1 - p ** hp["q2"]) / hp["q2"] if hp["q2"] else -math.log(p)
    l3 = (1 - (1 - p) ** hp["q3"]) / hp["q3"] if hp["q3"] else -math.log(1 - p)
    return weight * (share * l2 + (1 - share) * l3)


def robust_loss(z: float, sign: int, robust: str, c: dict[str, float]) -> float:
    """Loss of one label, a positive (sign = 1) or a negative (sign = -1), with logit z."""
    t = 1 / (1 + math.exp(-sign * z))
    if robust == "taylor":
        return sum((1 - t) ** i / i for i in range(1, int(c["order"]) + 1))
    given, other = {
        "sce": lambda t: (-math.log(t), None),
        "nce": lambda t: (-math.log(t), -math.log(1 - t)),
        "nfl": lambda t: (-((1 - t) ** c["gamma"]) * math.log(t), -(t ** c["gamma"]) * math.log(1 - t)),
        "ngce": lambda t: (1 - t ** c["q"], 1 - (1 - t) ** c["q"]),
    }[robust](t)
    active = given if other is None else given / (given + other)
    return c["alpha"] * active + c["beta"] * abs(c["log_zero"]) * (1 - t)


def gr(logits: Matrix, target: Labels, k: str, v: str, hp: dict[str, float]) -> float:
    """Mean over B * C."""
    total, count = 0.0, 0
    for row, labels in zip(logits, target, strict=True):
        for z, label in zip(row, labels, strict=True):
            p = 1 / (1 + math.exp(-z))
            if label == 1:
                total += (1 - p ** hp["q1"]) / hp["q1"] if hp["q1"] else -math.log(p)
            elif label == -1:
                total += -math.log(1 - p)
            else:
                total += gr_unknown(z, z, k, v, hp)
            count += 1
    return total / count


def _gr(case: Case) -> object:
    hp = case.record["hp"]
    q2, q3 = hp["q2q3"] if "q2q3" in hp else (hp["q2"], hp["q3"])
    q1 = hp.get("q1", "log")
    settings = {name: hp[name] for name in ("w", "b", "mu", "sigma")}
    settings |= {"q1": q1 if isinstance(q1, float) else 0.0, "q2": q2, "q3": q3, "eps": case.eps(1e-7)}
    return lambda logits: gr_loss(logits, case.tensor("obs"), **settings)


def _robust(case: Case) -> object:
    """Losses of other papers in the framework of GR, with AN as pseudo-label."""
    hp, robust = dict(case.record["hp"]), case.name.split("_")[0]
    constants = {} if robust == "taylor" else {"alpha": 1.0, "beta": 0.0}
    names = {"t": "order", "A": "log_zero"}
    constants |= {names.get(name, name): value for name, value in hp.items()}
    if case.name.startswith("nce_mae"):
        constants["log_zero"] = -1.0
    settings = {"k": "constant", "share": 0.0, "v": "one", "robust": robust, "constants": constants}
    return lambda logits: gr_loss(logits, case.tensor("obs"), **settings)


GOLDENS = [
    (r"(exact_)?gr_(voc|coco_nus|cub)_ep[0-9]+(_q1.*)?", _gr),
    (r"(taylor_ce|sce|nce|nfl|ngce)(_.*)?", _robust),
]
