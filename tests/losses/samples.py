"""Small logits and labels for tests of losses: known, unknown and negative ones."""

from __future__ import annotations

import torch

TARGET = torch.tensor(
    [[1, 0, -1, 0, 1, 0], [0, 0, 0, 0, 0, 0], [-1, -1, 1, 0, 0, 0], [-1, 0, 0, 0, 0, -1]], dtype=torch.int8
)
INDEX = torch.tensor([4, 0, 2, 2])
SOFT = torch.tensor([[-1, 0.2, 0.5, -1, 0.3, 0.0], [0.1, -1, -1, 0.4, -1, 1.0]] * 2, dtype=torch.float64)
AP = torch.tensor([0.2, 0.9, 0.5, 0.0, 1.0, 0.7], dtype=torch.float64)
GAP = {"gap_threshold": 2.0, "mean_logits": AP}


def draw(seed: int) -> torch.Tensor:
    return 3 * torch.randn(4, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


Z, OTHER, THIRD = draw(0), draw(1), draw(2)
