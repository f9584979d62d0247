"""Losses that are sums over elements: special cases, theorems of their papers, and arguments."""

from __future__ import annotations

import math

import pytest
import torch

from spml import losses
from spml.losses import (
    an_loss,
    an_ls_loss,
    asl_loss,
    balanced_weight,
    consistency_loss,
    cost_sensitive_loss,
    csl_loss,
    em_loss,
    entmin_loss,
    focal_loss,
    gpr_loss,
    gr_loss,
    hill_loss,
    iu_loss,
    las_loss,
    lasd_full_loss,
    lasd_loss,
    n_ls_loss,
    pr_loss,
    splc_loss,
    vlpl_loss,
    wan_loss,
)
from tests.reference import lasd

TARGET = torch.tensor([[1, 0, -1, 0, 1, 0], [0, 0, 0, 0, 0, 0], [-1, 0, 1, 0, 0, 0]], dtype=torch.int8)
INDEX = torch.tensor([4, 0, 2])
PSEUDO = torch.tensor([[1, 1, 1, -1, -1, 0], [0, 1, -1, 0, -1, 1], [1, -1, -1, 1, 0, -1]], dtype=torch.int8)


@pytest.fixture
def logits() -> torch.Tensor:
    return 3 * torch.randn(3, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_the_full_label_loss_is_the_mean_of_lasd_over_the_observable_positives():
    """Theorems 5.2 and 5.3, where exactly the positives have p > tau."""
    full = torch.tensor([[1, -1, 1, 1, -1, -1], [-1, -1, -1, -1, -1, 1]])
    z = full * torch.tensor([[3.0, 0.5, 4.0, 2.5, 1.0, 2.0]], dtype=torch.float64) + 0.1
    settings = {"weight_pos": 0.3, "weight_neg": 0.2}
    for row in (0, 1):
        target, logits = full[row : row + 1], z[row : row + 1]
        positives = target[0].eq(1).nonzero()[:, 0]
        each = [lasd_loss(logits, index[None], tau=0.9, reduction="sum", **settings) for index in positives]
        found = lasd_full_loss(logits, target, reduction="sum", **settings)
        assert found.item() == pytest.approx(sum(each).item() / len(each), rel=1e-12)
    single = lasd_full_loss(z, INDEX[:2], **settings)
    assert single.item() == pytest.approx(las_loss(z, INDEX[:2], weight=0.2).item(), rel=1e-12)


def test_with_balanced_weights_the_full_label_loss_is_the_cost_sensitive_one():
    """Theorem 5.4: with 1 + weight_pos (n - 1) = weight_neg (C - n) they differ by that factor."""
    full = torch.tensor([[1, -1, 1, -1, -1, -1], [-1, -1, -1, 1, -1, 1]])
    z = 2 * torch.randn(2, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = lasd_full_loss(z, full, weight_pos=0.3, weight_neg=balanced_weight(0.3, 2, 6))
    assert found.item() == pytest.approx(1.3 * cost_sensitive_loss(z, full).item(), rel=1e-12)


def test_losses_that_are_the_same_at_a_setting(logits):
    same = [
        (an_ls_loss(logits, TARGET, swap=0), an_loss(logits, TARGET)),
        (n_ls_loss(logits, TARGET, swap=0), an_loss(logits, TARGET)),
        (wan_loss(logits, TARGET, weight=1), an_loss(logits, TARGET)),
        (focal_loss(logits, TARGET, gamma=0), an_loss(logits, TARGET)),
        (asl_loss(logits, TARGET, gamma_neg=0, clip=0), an_loss(logits, TARGET)),
        (asl_loss(logits, TARGET, gamma_pos=2, gamma_neg=2, clip=0), focal_loss(logits, TARGET)),
        (splc_loss(logits, TARGET, tau=1), focal_loss(logits, TARGET, margin=1)),
        (splc_loss(logits, TARGET, tau=1, negative="hill"), hill_loss(logits, TARGET)),
        (las_loss(logits, TARGET, weight=1), asl_loss(logits, TARGET, clip=0)),
        (lasd_loss(logits, TARGET, tau=1, weight_neg=0.05), las_loss(logits, TARGET, weight=0.05)),
        (entmin_loss(logits, TARGET), 2 * iu_loss(logits, TARGET) - em_loss(logits, TARGET)),
        (vlpl_loss(logits, TARGET, torch.zeros_like(PSEUDO)), em_loss(logits, TARGET)),
        (gpr_loss(logits, TARGET, torch.zeros_like(PSEUDO)), gr_loss(logits, TARGET)),
        (
            csl_loss(logits, TARGET, mode="negative", gamma_unknown=4, gamma_neg=0),
            asl_loss(logits, TARGET, clip=0),
        ),
        (csl_loss(logits, TARGET, topk=0), csl_loss(logits, TARGET, mode="negative")),
        (csl_loss(logits, TARGET, topk=6), csl_loss(logits, TARGET, mode="ignore")),
    ]
    for number, (one, other) in enumerate(same):
        assert one.item() == pytest.approx(other.item(), rel=1e-12), number


def test_the_cost_sensitive_loss_of_a_sample_of_one_kind_is_finite():
    z = torch.zeros(2, 3, dtype=torch.float64)
    each = cost_sensitive_loss(z, torch.tensor([[1, 1, 1], [-1, -1, -1]]), gamma_neg=0, reduction="none")
    assert each.sum(1).tolist() == pytest.approx([math.log(2), math.log(2)])


def test_pr_does_not_grow_with_the_number_of_pairs():
    """A row with P positives and U others costs U sum (1 - p_i) + P sum p_j."""
    z = torch.tensor([[0.0, 0.0, math.log(3), 0.0]])
    target = torch.tensor([[1, 1, 0, -1]])
    assert pr_loss(z, target, reduction="sum").item() == pytest.approx(2 * (0.5 + 0.5) + 2 * (0.75 + 0.5))
    each = pr_loss(z, target, reduction="none")
    assert each.tolist() == [pytest.approx([1.0, 1.0, 1.5, 1.0])]


def test_an_unknown_label_below_the_shift_of_asl_has_no_gradient():
    z = torch.logit(torch.tensor([[0.5, 0.04, 0.049, 0.06]], dtype=torch.float64)).requires_grad_()
    asl_loss(z, torch.tensor([0]), gamma_neg=1).backward()
    assert (z.grad[0, :3] != 0).tolist() == [True, False, False]
    assert z.grad[0, 3] > 0


def test_detached_focus_scales_the_gradient_of_the_log_loss(logits):
    z = logits.requires_grad_()
    asl_loss(z, TARGET, clip=0, detach_weights=True, reduction="sum").backward()
    p = torch.sigmoid(z.detach())
    expected = torch.where(TARGET == 1, p - 1, torch.where(TARGET == 0, p**5, p))
    assert torch.allclose(z.grad, expected, rtol=1e-12)


def test_csl_leaves_out_what_a_sort_does():
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        z = torch.randn(*shape, generator=generator)
        return z.round() if torch.rand((), generator=generator) < 0.3 else z  # with many equal logits

    ranges = (1, 9), (2, 30), (1, 5)
    sizes = [torch.randint(low, high, (200,), generator=generator).tolist() for low, high in ranges]
    for rows, classes, topk in zip(*sizes, strict=True):
        z, target = draw(rows, classes), torch.randint(-1, 2, (rows, classes), generator=generator)
        unknown = (target == 0).flatten().nonzero()[:, 0]
        highest = unknown[z.flatten()[unknown].argsort(descending=True)[: topk * rows]]
        each = csl_loss(z, target, topk=topk, reduction="none").flatten()
        assert set(highest.tolist()) == set(unknown[each[unknown] == 0].tolist())


def test_consistency_equals_the_slow_reference():
    generator = torch.Generator().manual_seed(3)
    views = [torch.randn(4, 5, generator=generator, dtype=torch.float64).requires_grad_() for _ in range(3)]
    loss = consistency_loss(*views)
    assert loss.item() == pytest.approx(lasd.consistency([view.tolist() for view in views]), rel=1e-12)
    assert torch.autograd.gradcheck(consistency_loss, views)
    assert consistency_loss(*(torch.zeros(0, 5) for _ in range(3))).item() == 0
    extreme = torch.full((2, 3), 1e4, dtype=torch.float16)
    assert consistency_loss(extreme, -extreme, extreme).item() == 6
    with pytest.raises(ValueError, match=r"same shape .* \(2, 3\), \(2, 3\) and \(1, 3\)"):
        consistency_loss(extreme, extreme, extreme[:1])


@pytest.mark.parametrize(
    ("weight_pos", "mean_labels", "classes", "expected"),
    [
        (0.1, 1.46, 20, 0.0564),
        (0.03, 2.94, 80, 0.01373),
        (0.015, 1.89, 81, 0.01281),
        (0.005, 31.4, 312, 0.004105),
    ],
)
def test_the_balanced_weight_has_its_published_values(weight_pos, mean_labels, classes, expected):
    assert balanced_weight(weight_pos, mean_labels, classes) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("loss", "wrong", "message"),
    [
        (hill_loss, {"lam": 1.4}, "lam must be at least 1.5"),
        (hill_loss, {"eps": 1e-7}, "eps needs gamma = 0"),
        (splc_loss, {"negative": "asl"}, "negative must be one of focal, hill, got 'asl'"),
        (splc_loss, {"lam": 1}, "lam must be at least 1.5"),
        (focal_loss, {"known_negatives": "auto"}, "known_negatives must be 'plain' or 'own', got 'auto'"),
    ],
)
def test_wrong_arguments_are_refused(loss, wrong, message, logits):
    with pytest.raises(ValueError, match=message):
        loss(logits, TARGET, **wrong)


@pytest.mark.parametrize(
    ("loss", "pseudo", "wrong", "error", "message"),
    [
        (vlpl_loss, PSEUDO[:2], {}, ValueError, r"shape of the logits, \(3, 6\), got \(2, 6\)"),
        (gpr_loss, PSEUDO.float(), {}, TypeError, "signed integer"),
        (gpr_loss, PSEUDO == 1, {}, TypeError, "signed integer"),
        (vlpl_loss, 2 * PSEUDO, {}, ValueError, "-1 ... 1, got -2 ... 2"),
        (gpr_loss, PSEUDO, {"lam1": 0.3}, ValueError, "lam2 must be at most lam1"),
        (gpr_loss, PSEUDO, {"sigma": 0}, ValueError, "sigma must be greater"),
    ],
)
def test_wrong_pseudo_labels_are_refused(loss, pseudo, wrong, error, message, logits):
    with pytest.raises(error, match=message):
        loss(logits, TARGET, pseudo, **wrong)


def test_a_wrong_number_of_labels_has_no_balanced_weight():
    for mean_labels in (0.5, 20, float("nan")):
        with pytest.raises(ValueError, match="mean_labels must be at least 1 and less than 20"):
            balanced_weight(0.1, mean_labels, 20)


SQUARES = {
    "gaussian_kl": lambda x, other: losses.gaussian_kl_loss(x, torch.ones_like(x)),
    "ignore": lambda x, other: losses.ignore_loss(x, LARGE_TARGET, other),
    "lac": lambda x, other: losses.lac_loss(x, other, LARGE_TARGET),
    "mime": lambda x, other: losses.mime_loss(x, LARGE_TARGET, x, other.abs() + 1),
    "smile_image": lambda x, other: losses.smile_image_loss(
        x, LARGE_TARGET, torch.full_like(x, 0.5), x, other.abs() + 1, torch.ones_like(x), torch.ones_like(x)
    ),
    "plc": lambda x, other: losses.plc_loss(x, LARGE_TARGET, other),
}
LARGE_TARGET = torch.tensor([0, 1])


@pytest.mark.parametrize("name", SQUARES)
@pytest.mark.parametrize(
    ("size", "dtype"), [(6e4, torch.float16), (6e4, torch.bfloat16), (1e15, torch.float32)]
)
def test_squares_of_large_numbers_are_finite(name, size, dtype):
    x = torch.tensor([[size, -size, 1.0, 0.0], [0.0, size, -size, 2.0]], dtype=dtype).requires_grad_()
    value = SQUARES[name](x, (-x).detach().requires_grad_())
    assert value.isfinite()
    if (name, dtype) != ("lac", torch.float16):  # whose true gradient is more than float16 can hold
        value.backward()
        assert x.grad is None or x.grad.isfinite().all()  # `plc` learns by the other view alone


@pytest.mark.parametrize("name", sorted(SQUARES.keys() - {"plc"}))
def test_a_square_that_float32_can_not_hold_is_not_finite(name):
    """It is not cut off, since a training that diverges is noticed by it."""
    x = torch.tensor([[1e30, -1e30, 1.0, 0.0], [0.0, 1e30, -1e30, 2.0]])
    assert not SQUARES[name](x, -x).isfinite()
