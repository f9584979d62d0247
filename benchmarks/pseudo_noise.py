"""GR with wrong pseudo-labels: the method of pseudo-noise.yaml.

    spml bench run benchmarks/pseudo-noise.yaml --method benchmarks/pseudo_noise.py:NoisyPseudoLabels --root D
    spml bench run benchmarks/gr-noise-features.yaml --root D

D holds the folder `features`. The second comparison has wrong observed labels on the same data.
"""

from __future__ import annotations

import torch

from spml.losses import gr_loss
from spml.methods.gr import GeneralizedRobust


class NoisyPseudoLabels(GeneralizedRobust):
    """GR whose soft pseudo-label k is 1 - k for a share of the unknown labels, drawn once.

    Args:
        noise: Share of the unknown labels, in [0, 1].
        q2, q3: Exponents of L2 and L3.
    """

    card = GeneralizedRobust.card
    flipped: torch.Tensor

    def __init__(self, *, noise: float = 0.0, q2: float = 0.01, q3: float = 1.0) -> None:
        super().__init__(q2=q2, q3=q3)
        self.noise = noise
        self.register_buffer("flipped", torch.zeros(0, 0, dtype=torch.bool))

    def on_fit_start(self, facts):
        super().on_fit_start(facts)
        generator = torch.Generator().manual_seed(len(facts.ids))
        self.flipped = torch.rand(len(facts.ids), len(facts.classes), generator=generator) < self.noise

    def forward(self, outputs, batch):
        right = {name: self.now[name] for name in ("w", "b", "mu", "sigma", "q2", "q3")}
        wrong = {**right, "w": -right["w"], "b": -right["b"]}  # sigmoid(-x) = 1 - sigmoid(x)
        losses = [gr_loss(outputs.logits, batch.target, reduction="none", **each) for each in (right, wrong)]
        return {"gr": torch.where(self.flipped[batch.index], losses[1], losses[0]).mean()}
