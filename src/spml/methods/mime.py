"""MIME's pseudo-labels and variational term (Liu et al. 2023)."""

from __future__ import annotations

from torch import Tensor

from ..losses import mime_loss
from ..losses._core.domains import check_non_negative
from .base import Batch, Card, Needs, Outputs
from .inference_rules import ConfidentPositives, WithRule
from .registry import register


@register("mime")
class VariationalPseudoLabels(WithRule):
    """Unknown labels are assumed negatives until the model predicts them with high probability; the head has
    a random code.

    Args:
        beta: Weight of the divergence of the code from a standard normal distribution, >= 0.
        theta: Probability above which an unknown label becomes a positive permanently, in [0, 1].
        warmup: Number of epochs before the first pseudo-labels, >= 0.
    """

    card = Card(
        title="MIME's pseudo-labels and variational term",
        paper="Liu et al., Revisiting Pseudo-Label for Single-Positive Multi-Label Learning, ICML 2023",
        year=2023,
        equations="the loss and the pseudo-labels of the released code",
        formula="L = mean over B C of [l+ on P, l- on U] + beta M\n"
        "M = mean over B and code, or B C and codes, of [(m^2 + s^2 - 1) / 2 - log s]\n"
        "m, s = mean and deviation of a code\n"
        "after each of the epochs warmup ... E - 1, labels of U with p > theta move from U to P permanently",
        state="pseudo-labels (int8, N x C)",
        head="gaussian",
        defaults={"voc": {"warmup": 2}, "coco": {"warmup": 2}, "nus": {"warmup": 2}, "cub": {"warmup": 5}},
        source="the released code",
    )

    def __init__(self, *, beta: float = 1e-4, theta: float = 0.95, warmup: int = 2) -> None:
        super().__init__()
        check_non_negative(beta=beta)
        self.beta, self.warmup = beta, warmup
        self.memory = ConfidentPositives(theta=theta, warmup=warmup)
        self.needs = Needs(train_pass=True, latent=True)

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        assert outputs.latent is not None, "needs.latent"
        target = self.memory.fill(batch).target
        return {"mime": mime_loss(outputs.logits, target, *outputs.latent, beta=self.beta)}
