"""GR loss (Chen et al. 2024)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn

from ..common.errors import InputError
from ..losses import gr_loss
from ..losses._core.domains import (
    check_choice,
    check_non_negative,
    check_positive,
    check_share,
    check_thresholds,
)
from ..losses._core.terms import Robust, robust_terms
from ..losses.robust import InstanceWeight, PseudoLabel
from .base import Batch, Card, Facts, Objective, Outputs, Progress
from .registry import register

Scheduled: TypeAlias = float | Sequence[float]
ScheduledOrAuto: TypeAlias = float | Literal["auto"] | Sequence[float | Literal["auto"]]

SHAPES = ("linear", "constant", "cosine", "exponential")

Timing: TypeAlias = Literal["released", "paper", "from_start", "to_end"]
FormOfK: TypeAlias = Literal[PseudoLabel, "learned"]
FormOfV: TypeAlias = Literal[InstanceWeight, "learned"]

_VOC = {"w": [0, 2], "b": [-2, -2], "mu": [0.5, 0.8], "sigma": [2, 0.5], "q2": 0.01, "q3": 1}
_COCO = {**_VOC, "w": [0, 10], "b": [-2, -8]}


@register("gr")
class GeneralizedRobust(Objective):
    """Soft pseudo-labels k(p) and instance weights v(p) for unknown labels, both on a schedule.

    A scheduled hyper-parameter is a number or [start, end]. The loss as printed in the paper is q1 = 0.01,
    norm = `samples`, timing = `paper`; the defaults are those of the released code.

    Args:
        k: Form of k(p): `logistic` (paper), `scar` (needs mean_labels), `step` at tau (where it is 1/2),
            `thresholds`: 1 if p >= tau_high, else 0, `constant` share, or `learned`: one (w, b) per class,
            trained by gradient from the start values. With k0 = sigmoid(b) and k1 = sigmoid(w + b), which
            `logistic` has at p = 0 and p = 1, also `polynomial`: k0 + (k1 - k0) p^degree, and `exponential`:
            k0 (k1 / k0)^p.
        v: Form of v(p): `gaussian` (paper), `one`, `thresholds`: 0 if tau_low < p < tau_high, else 1, or
            `learned`: one (mu, sigma) per class, trained by gradient. Also `polynomial`:
            max(0, 1 - (p - mu)^2 / (2 sigma^2)), and `exponential`: exp(-|p - mu| / sigma).
        w, b: Slope and offset of k, scheduled. `auto` in place of a number of b: the logit of the share of
            positives among unknown labels, so that k is this share while w = 0; needs mean_labels.
        mu, sigma: Maximum and width of v, scheduled.
        tau: Threshold of `step`, scheduled.
        tau_low, tau_high: Thresholds of `thresholds`, scheduled; tau_high = 1: no pseudo-positives.
        share: Value of `constant`, scheduled. `auto` in place of a number: the share of positives among
            unknown labels; needs mean_labels.
        degree: Exponent of `polynomial` for k, scheduled.
        q1, q2, q3: Exponents of L1, L2, L3, scheduled; 0 = log loss.
        robust: Losses L1 and L2 of a positive and L3 of a negative: `gce` with q1, q2, q3, or one loss in
            place of all three: `taylor`, the first terms of the series of the cross-entropy; `sce` = alpha
            cross-entropy + beta RCE; `nce`, `nfl` or `ngce` = alpha times the normalised cross-entropy, focal
            loss or GCE + beta RCE.
        constants: Constants of another loss than `gce`, by name. Defaults: order = 2 of `taylor`; alpha = 0.1
            of `sce`, else 1; beta = 1; log_zero = -9.21, the log 0 of RCE (-1: MAE); gamma = 0.5 of `nfl`; q
            = 0.7 of `ngce`.
        norm: Divisor of the sum over labels: B * C (`elements`, released code) or B (`samples`, paper).
        schedule: Shape of the schedules: `linear` (paper), `constant` (end values), `cosine`, `exponential`.
        timing: Fraction of the schedule in epoch e = 1 ... E. `released`: (e - 1) / E for w and b, e / E for
            the rest, as in the released code. Three readings of the paper, each the same for all of them:
            `paper`: (e - 1) / (E - 1), from the first value to the last; `from_start`: (e - 1) / E, which
            does not reach the last; `to_end`: e / E, which does not have the first.
        lr_factor: Learning rate of the learned parameters, relative to that of the model.
    """

    card = Card(
        title="Generalised robust loss (GR)",
        paper="Chen et al., Boosting Single Positive Multi-label Classification with Generalized Robust "
        "Loss, IJCAI 2024",
        year=2024,
        equations="Eq. 4-18, Assumption 1, Tables 1, 3 and 6: losses Eq. 4-5 and 14, k Eq. 6-8, v Eq. 11, "
        "schedules Eq. 9-10 and 12-13, two thresholds Eq. 15-16",
        formula="L = mean over B C of [L1 on P, v (k L2 + (1 - k) L3) on U]\n"
        "k = sigmoid(w p + b), v = exp(-(p - mu)^2 / (2 sigma^2)), both constant in the derivative\n"
        "L1 = (1 - p^q1) / q1, l+ for q1 = 0; L2 = (1 - p^q2) / q2; L3 = (1 - (1 - p)^q3) / q3\n"
        "or one robust loss with its constants for all three\n"
        "share of positives in U (auto): (K - a) / (C - a - n) with a known positives and n known negatives\n"
        "per sample, (K - 1) / (C - 1) for single-positive labels; K = mean labels per sample",
        state="none; per-class w, b, mu, sigma if learned",
        head_bias="prior",
        defaults={"voc": _VOC, "coco": _COCO, "nus": _COCO, "cub": {**_COCO, "q3": 1.5}},
        source="Table 6 of the paper; where schedules start: the released code",
        printed={"q1": 0.01, "norm": "samples", "timing": "paper"},
    )

    def __init__(
        self,
        *,
        k: FormOfK = "logistic",
        v: FormOfV = "gaussian",
        w: Scheduled = (0.0, 2.0),
        b: ScheduledOrAuto = (-2.0, -2.0),
        mu: Scheduled = (0.5, 0.8),
        sigma: Scheduled = (2.0, 0.5),
        tau: Scheduled = 0.5,
        tau_low: Scheduled = 0.25,
        tau_high: Scheduled = 0.75,
        share: ScheduledOrAuto = 0.5,
        degree: Scheduled = 2.0,
        q1: Scheduled = 0.0,
        q2: Scheduled = 0.01,
        q3: Scheduled = 1.0,
        robust: Robust = "gce",
        constants: Mapping[str, float] = {},
        norm: Literal["elements", "samples"] = "elements",
        schedule: Literal["linear", "constant", "cosine", "exponential"] = "linear",
        timing: Timing = "released",
        lr_factor: float = 1.0,
    ) -> None:
        super().__init__()
        check_choice("k", k, get_args(FormOfK))
        check_choice("v", v, get_args(FormOfV))
        check_choice("norm", norm, ("elements", "samples"))
        robust_terms(robust, constants)
        check_choice("schedule", schedule, SHAPES)
        check_choice("timing", timing, get_args(Timing))
        self.k, self.v, self.schedule, self.timing, self.lr_factor = k, v, schedule, timing, lr_factor
        self.norm, self.losses = norm, {"robust": robust, "constants": constants}
        self.scheduled: dict[str, Any] = {"w": w, "b": b, "mu": mu, "sigma": sigma, "tau": tau}
        self.scheduled |= {"tau_low": tau_low, "tau_high": tau_high, "share": share, "degree": degree}
        self.scheduled |= {"q1": q1, "q2": q2, "q3": q3}
        self._set_ends(hidden_share=0.5)
        for position in (0, 1):
            end = {name: pair[position] for name, pair in self.ends.items()}
            check_positive(sigma=end["sigma"], degree=end["degree"])
            check_share(tau=end["tau"], share=end["share"])
            check_non_negative(q1=end["q1"], q2=end["q2"], q3=end["q3"])
            check_thresholds(end["tau_low"], end["tau_high"])
        self.now: dict[str, Any] = {}
        self.a = 0.5
        self.on_epoch_start(Progress(epoch=0, epochs=1))

    def on_fit_start(self, facts: Facts) -> None:
        if self.k == "scar":
            if facts.mean_labels is None or facts.mean_labels < 1:
                raise InputError(
                    "method 'gr' with k = 'scar' needs the mean number of labels per sample, at least 1: "
                    f"state it with `mean_labels` (got {facts.mean_labels})."
                )
            self.a = 1 / facts.mean_labels
        automatic = [
            name
            for name, value in self.scheduled.items()
            if value == "auto" or (not isinstance(value, (str, int, float)) and "auto" in value)
        ]
        if automatic:
            self._set_ends(_hidden_share(facts, f"'gr' with {automatic[0]} = 'auto'"))
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
            elif self.timing == "from_start" or (self.timing == "released" and name in ("w", "b")):
                fraction = epoch / epochs
            else:
                fraction = (epoch + 1) / epochs
            self.now[name] = at(start, end, fraction, self.schedule)

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        k: Any = "logistic" if self.k == "learned" else self.k
        v: Any = "gaussian" if self.v == "learned" else self.v
        learned = {name: getattr(self, f"learned_{name}") for name in self._learned()}
        hp = {"a": self.a, **self.losses, **self.now, **learned}
        loss = gr_loss(outputs.logits, batch.target, k=k, v=v, **hp)
        return {"gr": loss if self.norm == "elements" else outputs.logits.shape[1] * loss}

    def _set_ends(self, hidden_share: float) -> None:
        """Set first and last value of all schedules; `auto` stands for this share in (0, 1), or its logit."""
        auto = {"b": math.log(hidden_share / (1 - hidden_share)), "share": hidden_share}
        self.ends = {name: ends(name, value, auto.get(name)) for name, value in self.scheduled.items()}

    def _learned(self) -> list[str]:
        """Return the names of the hyper-parameters that are trained."""
        k = ["w", "b"] if self.k == "learned" else []
        v = ["mu", "sigma"] if self.v == "learned" else []
        return k + v


def _hidden_share(facts: Facts, method: str) -> float:
    """Return #{y = 1, s = 0} / #{s = 0}, the share of positives among unknown labels, from the stated K."""
    mean_labels = facts.stated_mean_labels(method)
    samples = max(len(facts.observed), 1)
    positives = facts.observed.positives_per_class().sum() / samples
    negatives = facts.observed.negatives_per_class().sum() / samples
    hidden, unknown = mean_labels - positives, len(facts.classes) - positives - negatives
    if not 0 < hidden < unknown:
        raise InputError(
            f"method {method} derives the share of positives among unknown labels from the mean number of "
            f"labels per sample, which must exceed the known positives per sample, {positives:g}, by less "
            f"than the unknown labels per sample, {unknown:g}: correct `mean_labels` (got {mean_labels:g})."
        )
    return float(hidden / unknown)


def ends(name: str, value: ScheduledOrAuto, auto: float | None = None) -> tuple[float, float]:
    """Return the first and the last value of a hyper-parameter, given as a number or as [start, end].

    Args:
        name: Name of the hyper-parameter, for the message.
        value: Value of the hyper-parameter.
        auto: Number that `auto` stands for; None = `auto` is refused.
    """
    pair = [value, value] if isinstance(value, (int, float, str)) else list(value)
    numbers = [auto if end == "auto" and auto is not None else end for end in pair]
    if len(numbers) != 2 or not all(isinstance(end, (int, float)) for end in numbers):
        kind = "a number" if auto is None else "a number, auto"
        raise ValueError(f"{name} must be {kind} or [start, end], got {value!r}")
    return float(numbers[0]), float(numbers[1])


def at(start: float, end: float, fraction: float, shape: str) -> float:
    """Return the value of a schedule.

    Args:
        start: First value.
        end: Last value.
        fraction: Position in the schedule, from 0 to 1.
        shape: `linear`; `constant`, the end value throughout; `cosine`, half a cosine, slow at both ends;
            `exponential`, fast at first, 1 - exp(-5 f) scaled to end at 1.
    """
    if shape == "constant":
        return end
    if shape == "linear":
        share = fraction
    elif shape == "cosine":
        share = (1 - math.cos(math.pi * fraction)) / 2
    elif shape == "exponential":
        share = math.expm1(-5 * fraction) / math.expm1(-5)
    else:
        raise ValueError(f"schedule must be one of {', '.join(SHAPES)}, got {shape!r}")
    return start + (end - start) * share
