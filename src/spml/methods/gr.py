"""GR loss (Chen et al. 2024)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..losses import gr_loss
from .base import Batch, Card, Facts, Objective, Outputs, Progress
from .registry import register
from .schedules import SHAPES, Scheduled, at, ends
from .validation import check_choice

_VOC = {"w": [0, 2], "b": [-2, -2], "mu": [0.5, 0.8], "sigma": [2, 0.5], "q2": 0.01, "q3": 1}
_COCO = {**_VOC, "w": [0, 10], "b": [-2, -8]}


@register("gr")
class GeneralizedRobust(Objective):
    """Soft pseudo-labels k(p) and instance weights v(p) for unknown labels, both on a schedule.

    A scheduled hyper-parameter is a number or [start, end].

    Args:
        k: Form of k(p): `logistic` (paper), `scar` (needs mean_labels), `step` at tau, `constant` share, or
            `learned`: one (w, b) per class, trained by gradient from the start values.
        v: Form of v(p): `gaussian` (paper), `one`, or `learned`: one (mu, sigma) per class, trained by
            gradient.
        w, b: Slope and offset of k, scheduled.
        mu, sigma: Mean and width of v, scheduled.
        tau: Threshold of `step`, scheduled.
        share: Value of `constant`, scheduled.
        q1, q2, q3: Exponents of L1, L2, L3, scheduled; 0 = log loss.
        schedule: Shape of the schedules: `linear` (paper), `constant` (end values), `cosine`, `exponential`.
        timing: Fraction of the schedule in epoch e = 1 ... E. `released`: (e - 1) / E for w and b, e / E for
            the rest, as in the released code; `paper`: (e - 1) / (E - 1) for all.
        lr_factor: Learning rate of the learned parameters, relative to that of the model.
    """

    card = Card(
        title="Generalised robust loss (GR)",
        paper="Chen et al., Boosting Single Positive Multi-label Classification with Generalized Robust "
        "Loss, IJCAI 2024",
        year=2024,
        equations="Eq. 4-10, Tables 1, 3 and 6",
        formula="L = mean over B C of [L1 on P, v (k L2 + (1 - k) L3) on U]\n"
        "k = sigmoid(w p + b), v = exp(-(p - mu)^2 / (2 sigma^2)), both constant in the derivative\n"
        "L1 = (1 - p^q1) / q1, l+ for q1 = 0; L2 = (1 - p^q2) / q2; L3 = (1 - (1 - p)^q3) / q3",
        state="none; per-class w, b, mu, sigma if learned",
        head_bias="prior",
        defaults={"voc": _VOC, "coco": _COCO, "nus": _COCO, "cub": {**_COCO, "q3": 1.5}},
        deviations=(
            "L1: the paper uses q1 = 0.01, the released code -log(p + 1e-7); default: q1 = 0, the exact log",
            "the paper sums over classes, the released code averages over batch and classes; default: mean",
            "schedules: in the released code w and b never reach their end values; default timing: released",
        ),
    )

    def __init__(
        self,
        *,
        k: Literal["logistic", "scar", "step", "constant", "learned"] = "logistic",
        v: Literal["gaussian", "one", "learned"] = "gaussian",
        w: Scheduled = (0.0, 2.0),
        b: Scheduled = (-2.0, -2.0),
        mu: Scheduled = (0.5, 0.8),
        sigma: Scheduled = (2.0, 0.5),
        tau: Scheduled = 0.5,
        share: Scheduled = 0.5,
        q1: Scheduled = 0.0,
        q2: Scheduled = 0.01,
        q3: Scheduled = 1.0,
        schedule: Literal["linear", "constant", "cosine", "exponential"] = "linear",
        timing: Literal["released", "paper"] = "released",
        lr_factor: float = 1.0,
    ) -> None:
        super().__init__()
        check_choice("k", k, ("logistic", "scar", "step", "constant", "learned"))
        check_choice("v", v, ("gaussian", "one", "learned"))
        check_choice("schedule", schedule, SHAPES)
        check_choice("timing", timing, ("released", "paper"))
        self.k, self.v, self.schedule, self.timing, self.lr_factor = k, v, schedule, timing, lr_factor
        scheduled = {"w": w, "b": b, "mu": mu, "sigma": sigma, "tau": tau, "share": share}
        scheduled |= {"q1": q1, "q2": q2, "q3": q3}
        self.ends = {name: ends(name, value) for name, value in scheduled.items()}
        for name, is_valid in _DOMAINS.items():
            if not all(is_valid(end) for end in self.ends[name]):
                raise ValueError(f"{name} is outside its domain: {scheduled[name]}")
        self.now: dict[str, Any] = {}
        self.a = 0.5
        self.on_epoch_start(Progress(epoch=0, epochs=1))

    def on_fit_start(self, facts: Facts) -> None:
        if self.k == "scar":
            if facts.mean_labels is None or facts.mean_labels < 1:
                raise InputError(
                    "method 'gr' with k = 'scar' needs the mean number of labels per sample, at least 1: "
                    f"state it with --mean_labels (got {facts.mean_labels})."
                )
            self.a = 1 / facts.mean_labels
        for name in self._learned():
            start = torch.full((len(facts.classes),), self.ends[name][0])
            self.register_parameter(f"learned_{name}", nn.Parameter(start))

    def param_groups(self) -> list[dict[str, Any]]:
        own = list(self.parameters())
        return [{"params": own, "lr_factor": self.lr_factor}] if own else []

    def on_epoch_start(self, progress: Progress) -> None:
        epoch, epochs = progress.epoch, progress.epochs
        for name, (start, end) in self.ends.items():
            if name in self._learned():
                continue
            if self.timing == "paper":
                fraction = epoch / max(epochs - 1, 1)
            else:
                fraction = (epoch if name in ("w", "b") else epoch + 1) / epochs
            self.now[name] = at(start, end, fraction, self.schedule)

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        k: Any = "logistic" if self.k == "learned" else self.k
        v: Any = "gaussian" if self.v == "learned" else self.v
        learned = {name: getattr(self, f"learned_{name}") for name in self._learned()}
        return {"gr": gr_loss(outputs.logits, batch.target, k=k, v=v, a=self.a, **self.now, **learned)}

    def _learned(self) -> list[str]:
        """Return the names of the hyper-parameters that are trained."""
        k = ["w", "b"] if self.k == "learned" else []
        v = ["mu", "sigma"] if self.v == "learned" else []
        return k + v


_DOMAINS: dict[str, Callable[[float], bool]] = {
    "sigma": lambda value: value > 0,
    "tau": lambda value: 0 <= value <= 1,
    "share": lambda value: 0 <= value <= 1,
    "q1": lambda value: value >= 0,
    "q2": lambda value: value >= 0,
    "q3": lambda value: value >= 0,
}
