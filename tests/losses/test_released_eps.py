"""`eps` reproduces released implementations: added inside the logarithm, or a clamp of its argument."""

from __future__ import annotations

import pytest
import torch

from spml.losses import (
    an_ls_loss,
    asl_loss,
    csl_loss,
    focal_loss,
    hill_loss,
    iu_loss,
    n_ls_loss,
    smile_loss,
    vlpl_loss,
    wan_loss,
)

EPS = 1e-5
Z = torch.tensor(
    [[0.0, 1.0, -2.0, 4.0], [30.0, -30.0, 30.0, -30.0], [-30.0, 10.0, -10.0, 13.0]], dtype=torch.float64
)
TARGET = torch.tensor([0, 2, 0])
ONES = torch.ones(3, 4, dtype=torch.float64)


def added(p: torch.Tensor) -> torch.Tensor:
    return -(p + EPS).log()


def clamped(p: torch.Tensor) -> torch.Tensor:
    return -p.clamp(min=EPS).log()


# Loss, and its values on the known positive and on unknown labels as functions of p and q = 1 - p.
CASES = {
    "an_ls": (lambda z: an_ls_loss(z, TARGET, swap=0.2, eps=EPS),
        lambda p, q: 0.8 * added(p) + 0.2 * added(q), lambda p, q: 0.2 * added(p) + 0.8 * added(q)),
    "n_ls": (lambda z: n_ls_loss(z, TARGET, swap=0.2, eps=EPS), lambda p, q: added(p),
        lambda p, q: 0.2 * added(p) + 0.8 * added(q)),
    "wan": (lambda z: wan_loss(z, TARGET, eps=EPS), lambda p, q: added(p), lambda p, q: added(q) / 3),
    "iu": (lambda z: iu_loss(z, TARGET, eps=EPS), lambda p, q: added(p), lambda p, q: 0 * q),
    "focal": (lambda z: focal_loss(z, TARGET, eps=EPS), lambda p, q: q**2 * clamped(p),
        lambda p, q: p**2 * clamped(q)),
    "asl": (lambda z: asl_loss(z, TARGET, clip=0.0, eps=EPS), lambda p, q: clamped(p),
        lambda p, q: p**4 * clamped(q)),
    "csl": (lambda z: csl_loss(z, TARGET, mode="negative", gamma_pos=1, eps=EPS),
        lambda p, q: q.detach() * clamped(p), lambda p, q: p.detach() ** 2 * clamped(q)),
    "hill": (lambda z: hill_loss(z, TARGET, margin=0.0, gamma=0.0, eps=EPS), lambda p, q: added(p),
        lambda p, q: (1.5 - p) * p**2),
    "smile": (lambda z: smile_loss(z, TARGET, 0.3 * ONES, eps=EPS),
        lambda p, q: 0.3 * added(p) + 0.7 * added(q), lambda p, q: 0.3 * added(p) + 0.7 * added(q)),
    "vlpl": (lambda z: vlpl_loss(z, TARGET, ONES.long(), eps=EPS), lambda p, q: added(p),
        lambda p, q: 0.7 * (0.9 * added(p) + 0.1 * added(q))),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_loss_and_its_gradient_are_those_of_the_probability_space_formula(name):
    loss, positive, unknown = CASES[name]
    z = Z.clone().requires_grad_()
    p, q = torch.sigmoid(z), torch.sigmoid(-z)
    known = torch.zeros_like(Z, dtype=torch.bool).scatter(1, TARGET[:, None], True)
    found, expected = loss(z), torch.where(known, positive(p, q), unknown(p, q)).mean()
    assert found.item() == pytest.approx(expected.item(), rel=1e-10)
    slopes = [torch.autograd.grad(value, z, retain_graph=True)[0] for value in (found, expected)]
    assert torch.allclose(*slopes, rtol=1e-7, atol=1e-10)
