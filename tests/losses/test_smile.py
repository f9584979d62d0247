"""SMILE: soft labels for what is unknown, and the divergence of Beta distributions."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import Beta, kl_divergence

from spml.losses import beta_kl_loss, smile_loss

TARGET = torch.tensor([[1, 0, -1, 0], [0, 0, 0, 0]], dtype=torch.int8)
SOFT = torch.tensor([[0.9, 0.2, 0.7, 0.0], [0.1, 1.0, 0.5, 0.3]], dtype=torch.float64)


@pytest.fixture
def logits() -> torch.Tensor:
    return 3 * torch.randn(2, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_the_gradient_is_the_one_of_cross_entropy_and_none_goes_to_the_soft_labels(logits):
    z, soft = logits.requires_grad_(), SOFT.clone().requires_grad_()
    smile_loss(z, torch.tensor([3, 0]), soft, reduction="sum").backward()
    assert torch.allclose(z.grad, torch.sigmoid(z.detach()) - SOFT, rtol=1e-12)
    assert soft.grad is None


def test_the_divergence_is_that_of_torch():
    generator = torch.Generator().manual_seed(1)
    a, b = (3 * torch.rand(2, 3, 4, generator=generator, dtype=torch.float64) + 0.05).requires_grad_()
    one = torch.ones_like(a)
    found, expected = beta_kl_loss(a, b), kl_divergence(Beta(a, b), Beta(one, one)).mean()
    assert found.item() == pytest.approx(expected.item(), rel=1e-12)
    for gradient, reference in zip(
        torch.autograd.grad(found, (a, b)), torch.autograd.grad(expected, (a, b)), strict=True
    ):
        assert torch.allclose(gradient, reference, rtol=1e-9)
    assert beta_kl_loss(one, one).item() == pytest.approx(0, abs=1e-14)
    assert beta_kl_loss(torch.zeros(0), torch.zeros(0)).item() == 0
    half = torch.full((2, 2), 0.25, dtype=torch.float16)
    assert beta_kl_loss(half, half).dtype == torch.float32


def test_wrong_arguments_are_refused(logits):
    with pytest.raises(ValueError, match="soft must be floating point"):
        smile_loss(logits, TARGET, SOFT[:1])
    with pytest.raises(ValueError, match=r"soft must lie in \[0, 1\]"):
        smile_loss(logits, TARGET, 2 * SOFT)
    with pytest.raises(ValueError, match="same shape"):
        beta_kl_loss(SOFT + 1, SOFT[:1] + 1)
    with pytest.raises(ValueError, match="greater than 0"):
        beta_kl_loss(SOFT, SOFT + 1)
