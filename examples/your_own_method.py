"""A method of your own: register it, check it with the suite that every method passes, train with it.

    python examples/your_own_method.py

The method assumes that unknown labels are negative, except those that the model itself predicts with a
probability above a threshold: they are left out of the loss. The threshold falls from 1 during training.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch

import spml
from spml.losses import an_loss
from spml.methods import Batch, Card, Objective, Outputs, Progress, register


@register("trusting_an")
class TrustingAN(Objective):
    """Leave out unknown labels that the model predicts with a high probability.

    Args:
        threshold: Probability at the end of training above which an unknown label is left out, in (0, 1].
    """

    card = Card(
        title="Trusting assume negative",
        paper="none: an example",
        year=2026,
        equations="none",
        formula="L = mean over B C of [l+ on P, l- on U where p <= t]",
    )

    def __init__(self, *, threshold: float = 0.7) -> None:
        super().__init__()
        if not 0 < threshold <= 1:
            raise ValueError(f"threshold must be greater than 0 and at most 1, got {threshold}")
        self.end, self.threshold = threshold, 1.0

    def on_epoch_start(self, progress: Progress) -> None:
        self.threshold = 1 - (1 - self.end) * (progress.epoch + 1) / progress.epochs

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, torch.Tensor]:
        logits = outputs.logits
        positive = torch.zeros_like(logits, dtype=torch.bool)
        if batch.target.ndim == 1:
            positive[torch.arange(len(logits)), batch.target] = True
        known = positive if batch.target.ndim == 1 else batch.target != 0
        counts = known | (logits.detach().sigmoid() <= self.threshold)
        elements = an_loss(logits, batch.target, reduction="none")
        return {"trusting_an": (elements * counts).sum() / max(1, elements.numel())}


def main() -> spml.Run:
    """Check the method and train a linear head on random features with it."""
    spml.check_objective(TrustingAN)
    spml.check_objective("trusting_an", threshold=0.5)
    print("trusting_an passes the suite")
    generator = np.random.default_rng(0)
    observed = generator.integers(5, size=200)
    features = np.eye(5)[observed] @ generator.normal(size=(5, 8)) + generator.normal(size=(200, 8))
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "features.npz")
        np.savez(data, X=features.astype(np.float32), Y=observed, classes=list("abcde"))
        settings = {"hp": {"threshold": 0.6}, "epochs": 3, "quiet": True, "threads": 1}
        run = spml.train(data, method="trusting_an", output=f"{folder}/run", **settings)
    print(f"trained a model of {len(run.classes)} classes")
    return run


if __name__ == "__main__":
    main()
