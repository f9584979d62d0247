"""VLPL (Xing et al. 2024)."""

from __future__ import annotations

from torch import Tensor

from ..losses import vlpl_loss
from ..losses._core.domains import check_non_negative, check_positive, check_share
from .base import Batch, Card, Outputs
from .pseudo_labels import WithPseudoLabels
from .registry import register


@register("vlpl")
class VisionLanguagePseudoLabels(WithPseudoLabels):
    """Entropy maximisation with pseudo-labels from a file, where given. Without a file it is EM.

    Args:
        pseudo_labels: File in .npz format with `ids`, `classes` and `labels` in {-1, 0, 1}; None = no
            pseudo-labels, or those of the names of the classes (--names): positive where the softmax over the
            names is above 0.3.
        alpha: Weight of the entropy of unknown labels without a pseudo-label, > 0.
        beta_pos, beta_neg: Weights of positive and negative pseudo-labels, >= 0.
        smoothing: Weight of the opposite label in a positive pseudo-label, in [0, 1].
    """

    card = Card(
        title="Vision-language pseudo-labels (VLPL)",
        paper="Xing et al., Vision-Language Pseudo-Labels for Single-Positive Multi-Label Learning, "
        "CVPR 2024 workshops",
        year=2024,
        equations="the loss of the released code (EM_PL)",
        formula="L = mean over B C of [l+ on P, beta_pos ((1 - e) l+ + e l-) on positive pseudo-labels,\n"
        "beta_neg l- on negative ones, -alpha H on the rest of U], e = smoothing\n"
        "H = -p log p - (1 - p) log(1 - p)",
        state="the pseudo-labels (int8, N x C)",
        defaults={
            "voc": {"alpha": 0.2},
            "coco": {"alpha": 0.1},
            "nus": {"alpha": 0.1},
            "cub": {"alpha": 0.01},
        },
        source="the released code",
    )

    def __init__(
        self,
        *,
        pseudo_labels: str | None = None,
        alpha: float = 0.1,
        beta_pos: float = 0.7,
        beta_neg: float = 0.0,
        smoothing: float = 0.1,
    ) -> None:
        super().__init__(pseudo_labels)
        check_positive(alpha=alpha)
        check_non_negative(beta_pos=beta_pos, beta_neg=beta_neg)
        check_share(smoothing=smoothing)
        self.hp = {"alpha": alpha, "beta_pos": beta_pos, "beta_neg": beta_neg, "smoothing": smoothing}

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        logits = outputs.logits
        pseudo = self.pseudo_of(logits, batch)
        return {"vlpl": vlpl_loss(logits, batch.target, pseudo, **self.hp)}
