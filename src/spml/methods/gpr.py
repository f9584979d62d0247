"""GPR loss (Tran et al. 2025)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from ..losses import epr_regulariser_loss, gpr_loss
from ..losses._core.domains import check_non_negative, check_share
from .base import Batch, Card, Facts, Needs, Outputs
from .gr import GeneralizedRobust, Scheduled, ScheduledOrAuto, Timing
from .pseudo_labels import WithPseudoLabels
from .registry import register

_GR = GeneralizedRobust.card.defaults


@register("gpr")
class GeneralizedPseudoLabelRobust(WithPseudoLabels, GeneralizedRobust):
    """GR with pseudo-labels from a file, where given, and a regulariser on the number of positives.

    Needs the mean labels per sample unless reg is 0. A scheduled hyper-parameter is a number or [start, end].

    Args:
        pseudo_labels: File in .npz format with `ids`, `classes` and `labels` in {-1, 0, 1}; None = no
            pseudo-labels, or those of the names of the classes (--names): positive where the softmax over the
            names is above 0.3.
        lam1, lam2: Upper and lower bound of the weight of a positive pseudo-label, 0 <= lam2 <= lam1 <= 1.
        rho: Share of -log p in the loss of a positive pseudo-label, in [0, 1].
        reg: Weight of the regulariser, >= 0.
        w, b: Slope and offset of the soft pseudo-label k, scheduled; b may be `auto` as in `gr`.
        mu, sigma: Mean and width of the instance weight v, scheduled.
        q2, q3: Exponents of L2 and L3, scheduled.
        schedule, timing: Shape and timing of the schedules, as in `gr`.
    """

    card = Card(
        title="Generalised pseudo-label robust loss (GPR)",
        paper="Tran et al., More Reliable Pseudo-labels, Better Performance: A Generalized Approach to "
        "Single Positive Multi-label Learning, ICCV 2025",
        year=2025,
        equations="the GPR loss, as in the released code",
        formula="L = mean over B C of [l+ on P, u (rho l+ + (1 - rho) l-) on positive pseudo-labels,\n"
        "v l- on negative ones, v (k L2 + (1 - k) L3) on the rest of U] + reg ((n - K) / C)^2\n"
        "k = sigmoid(w p + b), v = exp(-(p - mu)^2 / (2 sigma^2)), u = 1 - clamp(v, 1 - lam1, 1 - lam2),\n"
        "all constant in the derivative; L2 = (1 - p^q2) / q2, L3 = (1 - (1 - p)^q3) / q3\n"
        "n = mean over B of the sum of p, K = mean labels per sample",
        state="the pseudo-labels (int8, N x C)",
        head_bias="prior",
        defaults={
            "voc": {**_GR["voc"], "lam1": 0.7, "lam2": 0.4, "reg": 0.05},
            "coco": {**_GR["coco"], "lam1": 0.7, "lam2": 0.5, "reg": 0.001},
            "nus": {**_GR["nus"], "lam1": 0.7, "lam2": 0.5, "reg": 0.001},
            "cub": {**_GR["cub"], "lam1": 0.8, "lam2": 0.2, "reg": 0.01},
        },
        source="the released code",
    )

    def __init__(
        self,
        *,
        pseudo_labels: str | None = None,
        lam1: float = 0.7,
        lam2: float = 0.4,
        rho: float = 0.9,
        reg: float = 0.05,
        w: Scheduled = (0.0, 2.0),
        b: ScheduledOrAuto = (-2.0, -2.0),
        mu: Scheduled = (0.5, 0.8),
        sigma: Scheduled = (2.0, 0.5),
        q2: Scheduled = 0.01,
        q3: Scheduled = 1.0,
        schedule: Literal["linear", "constant", "cosine", "exponential"] = "linear",
        timing: Timing = "released",
    ) -> None:
        scheduled = {"w": w, "b": b, "mu": mu, "sigma": sigma, "q2": q2, "q3": q3}
        super().__init__(pseudo_labels, **scheduled, schedule=schedule, timing=timing)
        check_share(lam1=lam1, lam2=lam2, rho=rho)
        check_non_negative(reg=reg)
        if lam2 > lam1:
            raise ValueError(f"lam2 must be at most lam1, got lam1 = {lam1} and lam2 = {lam2}")
        self.reg = reg
        self.hp = {"lam1": lam1, "lam2": lam2, "rho": rho}
        self.needs = Needs(batch_coupled=reg > 0, names=True)
        self.mean_labels = 1.0

    def on_fit_start(self, facts: Facts) -> None:
        super().on_fit_start(facts)
        if self.reg:
            self.mean_labels = facts.stated_mean_labels("'gpr' with reg > 0")

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        logits = outputs.logits
        scheduled = {name: self.now[name] for name in ("w", "b", "mu", "sigma", "q2", "q3")}
        pseudo = self.pseudo_of(logits, batch)
        terms = {"gpr": gpr_loss(logits, batch.target, pseudo, **self.hp, **scheduled)}
        if self.reg:
            terms["regulariser"] = self.reg * epr_regulariser_loss(logits, mean_labels=self.mean_labels)
        return terms
