"""Losses of whole rows and whole batches: special cases, factors that are held constant, and arguments."""

from __future__ import annotations

import math

import pytest
import torch

from spml.losses import (
    em_apl_loss,
    expected_labels,
    gaussian_kl_loss,
    high_rank_loss,
    ignore_loss,
    large_loss_mask,
    mime_loss,
    opml_loss,
    plc_loss,
    pumlc_loss,
    role_loss,
    show_loss,
    soft_opml_loss,
    softmax_loss,
    zlpr_loss,
)
from tests.losses.samples import AP, GAP, INDEX, OTHER, SOFT, TARGET, THIRD, Z
from tests.reference.large_loss import large
from tests.reference.pumlc import pumlc
from tests.reference.zlpr import soft_zlpr


@pytest.mark.parametrize(
    "loss", [zlpr_loss, lambda z, t, **k: opml_loss(z, t, beta=2, **k), soft_opml_loss, softmax_loss]
)
def test_reductions_of_row_losses(loss):
    each = loss(Z, TARGET, reduction="none")
    assert each.shape == (4,)
    assert loss(Z, TARGET, reduction="sum").item() == pytest.approx(each.sum().item(), rel=1e-12)
    assert loss(Z, TARGET).item() == pytest.approx(each.mean().item(), rel=1e-12)


# -- the forms of OPML -----------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{"alpha": 0, "beta": 0}, {"form": "hard"}])
@pytest.mark.parametrize(
    ("target", "expected"), [([1, 1], 2.0), ([-1, -1], 2.0), ([0, 0], 0.0), ([-1, 0], 2.0), ([0, -1], 2.0)]
)
def test_a_side_without_labels_costs_nothing_in_the_unbounded_forms(settings, target, expected):
    sign = -1.0 if target[0] == 1 else 1.0
    z = torch.tensor([[2.0 * sign, 2.0 * sign]], dtype=torch.float64, requires_grad=True)
    loss = opml_loss(z, torch.tensor([target]), **settings)
    loss.backward()
    extra = math.log(2) if settings.get("alpha") == 0 and abs(sum(target)) == 2 else 0.0
    assert loss.item() == pytest.approx(expected + extra, rel=1e-12)
    assert torch.isfinite(z.grad).all()


# -- EPR and ROLE ----------------------------------------------------------------------------------------


def test_role_gives_each_side_the_gradient_of_its_own_half():
    z, g = Z.clone().requires_grad_(), OTHER.clone().requires_grad_()
    role_loss(z, TARGET, g, mean_labels=1.5).backward()
    p, q = torch.sigmoid(Z), torch.sigmoid(OTHER)
    known = TARGET.double()
    for own, other, found in ((p, q, z.grad), (q, p, g.grad)):
        expected = (own - other) + torch.where(known == 1, own - 1, torch.where(known == -1, own, 0))
        count = own.sum() / 4
        expected = expected / 24 + 2 * (count - 1.5) * own * (1 - own) / (36 * 4)
        assert torch.allclose(found, expected / 2, rtol=1e-12)


# -- large losses ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.0, 0.01, 0.05, 0.2, 0.5, 1.0])
def test_the_mask_of_large_losses_equals_the_reference(rate):
    assert large_loss_mask(Z, TARGET, rate=rate).tolist() == large(Z.tolist(), TARGET.tolist(), rate)


def test_a_strict_mask_leaves_out_the_kth_and_all_its_ties():
    z = torch.tensor([[3.0, 2.0, 2.0, 1.0, 9.0]])
    target = torch.tensor([4])
    assert large_loss_mask(z, target, rate=0.4).tolist() == [[True, True, True, False, False]]
    assert large_loss_mask(z, target, rate=0.4, strict=True).tolist() == [[True, False, False, False, False]]
    assert not large_loss_mask(z, target, rate=0.2, strict=True).any()


def test_the_number_of_large_losses_is_that_of_the_rate_in_floating_point():
    # 1 - (1 - 0.002) is slightly more than 0.002, so that k is 3 instead of 2 for 1000 labels.
    z, target = torch.randn(10, 100), torch.randint(100, (10,))
    assert large_loss_mask(z, target, rate=1 - (1 - 0.002)).sum() == 3
    assert large_loss_mask(z, target, rate=0.002).sum() == 2


# -- soft targets ----------------------------------------------------------------------------------------


def test_zlpr_with_soft_targets_of_all_labels():
    soft = torch.sigmoid(OTHER)
    soft[0, 0], soft[1, 2] = 0, 1
    found = zlpr_loss(Z, torch.zeros(4, 6, dtype=torch.int8), soft=soft)
    assert found.item() == pytest.approx(soft_zlpr(Z.tolist(), soft.tolist()), rel=1e-12)


def test_known_labels_win_over_soft_targets():
    target = torch.tensor([1, 0, 3, 5])
    matrix = torch.full((4, 6), -1, dtype=torch.int8).scatter_(1, target[:, None], 1)
    found = zlpr_loss(Z, matrix, soft=torch.full_like(Z, 0.5))
    assert found.item() == pytest.approx(zlpr_loss(Z, target).item(), rel=1e-12)


def test_the_adaptive_share_is_constant_in_the_derivative():
    z = Z.clone().requires_grad_()
    soft_opml_loss(z, INDEX, smoothing="product", average_precision=AP, gamma=1.5).backward()
    z2 = Z.clone().requires_grad_()
    opml_loss(z2, INDEX, soft=(torch.sigmoid(Z) * AP) ** 1.5).backward()
    assert torch.allclose(z.grad, z2.grad, rtol=1e-12)


# -- softmax and SHOW ------------------------------------------------------------------------------------


def test_the_shift_is_a_bias_of_the_head():
    shift = math.log(1.5 / 4.5)
    shifted = show_loss(Z, INDEX, mean_labels=1.5)
    assert shifted.item() == pytest.approx(show_loss(Z + shift, INDEX, mean_labels=1.5, shifted=False).item())
    assert expected_labels(Z, INDEX, mean_labels=1.5).item() == pytest.approx(
        torch.sigmoid(Z + shift).sum().item() / 4
    )


def test_a_running_count_is_a_mean_with_earlier_batches_that_are_constant():
    running, momentum, mean_labels = 2.25, 0.2, 1.5
    z = Z.clone().requires_grad_()
    settings = {"mean_labels": mean_labels, "rho": 0.0, "shifted": False}
    loss = show_loss(z, INDEX, running=torch.tensor(running), momentum=momentum, **settings)
    likelihood = show_loss(z, INDEX, weight=0.0, **settings)
    (loss - likelihood).backward()
    p = torch.sigmoid(Z)
    now = momentum * p.sum().item() / 4 + (1 - momentum) * running
    distance = math.log(now / mean_labels)
    assert loss.item() == pytest.approx(likelihood.item() + 10 * distance**2, rel=1e-12)
    assert torch.allclose(z.grad, 10 * 2 * distance / now * momentum * p * (1 - p) / 4, rtol=1e-10)


# -- PU-MLC ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.05, 0.2, 3.0])
def test_pumlc_has_the_gradient_of_the_reference(scale):
    z = (Z * scale).requires_grad_()
    pumlc_loss(z, TARGET, gamma=0.4, alpha=0.9).backward()
    expected = torch.tensor(pumlc(z.tolist(), TARGET.tolist(), 0.4, 0.9)[1], dtype=torch.float64)
    assert torch.allclose(z.grad, expected, rtol=1e-11, atol=1e-14)


def test_pumlc_of_a_constant_class_or_a_batch_of_one_has_temperature_one():
    z = Z.clone()
    z[:, 2] = 1.5
    found = pumlc_loss(z, INDEX, reduction="none")
    log_p = torch.nn.functional.logsigmoid(torch.tensor(1.5, dtype=torch.float64))
    expected = (0.55 * log_p).exp() * log_p - log_p
    assert found[2].item() == pytest.approx(expected.item(), rel=1e-12)
    single = pumlc_loss(Z[:1], INDEX[:1])
    assert single.item() == pytest.approx(
        pumlc(Z[:1].tolist(), [[0, 0, 0, 0, 1, 0]], 0.55, 1.0)[0], rel=1e-12
    )


def test_reductions_of_pumlc():
    each = pumlc_loss(Z, TARGET, reduction="none")
    assert each.shape == (6,)
    assert pumlc_loss(Z, TARGET).item() == pytest.approx(each.sum().item())
    assert pumlc_loss(Z, TARGET, reduction="mean").item() == pytest.approx(each.mean().item())


# -- views and codes -------------------------------------------------------------------------------------


def test_ignore_gives_no_gradient_to_the_masked_view_and_some_to_the_strong_one():
    z, strong, masked = (part.clone().requires_grad_() for part in (Z, OTHER, THIRD))
    ignore_loss(z, TARGET, strong, masked, **GAP).backward()
    assert masked.grad is None
    assert (strong.grad != 0).all()
    rejected = (TARGET == 0) & ((Z - THIRD).abs() > 2.0) & (Z > AP)
    assert rejected.any()
    between = (OTHER - Z) / 24
    assert torch.allclose(strong.grad[rejected], between[rejected], rtol=1e-12)


def test_plc_takes_its_labels_from_the_weak_view_without_a_gradient():
    weak = torch.tensor([[0.0, 4.0, 0.2, -4.0]], requires_grad=True)
    strong = torch.tensor([[-1.0, -2.0, 5.0, 3.0]], requires_grad=True)
    loss = plc_loss(weak, torch.tensor([0]), strong)
    loss.backward()
    expected = sum(math.log1p(math.exp(value)) for value in (1.0, 2.0, 3.0)) / 3
    assert loss.item() == pytest.approx(expected, rel=1e-6)
    assert weak.grad is None
    assert strong.grad[0, 2] == 0


def test_the_divergence_of_a_gaussian_code():
    mean, std = torch.randn(3, 4, dtype=torch.float64), torch.rand(3, 4, dtype=torch.float64) + 0.1
    normal = torch.distributions.Normal
    expected = torch.distributions.kl_divergence(normal(mean, std), normal(0.0, 1.0)).mean()
    assert gaussian_kl_loss(mean, std).item() == pytest.approx(expected.item(), rel=1e-12)
    assert gaussian_kl_loss(torch.zeros(0, 4), torch.ones(0, 4)).item() == 0
    plain = mime_loss(Z, INDEX, mean, std, beta=0.0).item()
    assert mime_loss(Z, INDEX, mean, std, beta=0.3).item() == pytest.approx(plain + 0.3 * expected.item())


@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (5, 5)])
def test_the_high_rank_term_uses_the_smaller_of_both_products(shape):
    z = torch.randn(shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    p = torch.sigmoid(z)
    expected = -torch.logdet(torch.eye(shape[1], dtype=torch.float64) + p.T @ p)
    assert high_rank_loss(z).item() == pytest.approx(expected.item(), rel=1e-12)


def test_minus_the_trace_norm():
    """The order of samples does not matter, and equal samples have equal gradients."""
    p = torch.sigmoid(Z)
    nuclear = torch.linalg.matrix_norm(p, "nuc").item()
    assert high_rank_loss(Z, form="trace", delta=0.0).item() == pytest.approx(-nuclear, rel=1e-12)
    order = torch.tensor([2, 0, 3, 1])
    turned = high_rank_loss(Z[order], form="trace")
    assert turned.item() == pytest.approx(high_rank_loss(Z, form="trace").item(), rel=1e-12)
    z = Z[:1].repeat(4, 1).requires_grad_()
    high_rank_loss(z, form="trace").backward()
    torch.testing.assert_close(z.grad, z.grad[:1].repeat(4, 1), rtol=1e-6, atol=1e-9)
    # One singular value |p| sqrt(4), in the direction of p.
    row = p[0]
    expected = -row / row.norm() * row * (1 - row) / 2
    torch.testing.assert_close(z.grad[0], expected, rtol=1e-5, atol=1e-9)


# -- arguments -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: role_loss(Z, INDEX, Z[:2], mean_labels=1), "estimates must be floating point"),
        (lambda: em_apl_loss(Z, INDEX, INDEX), "soft must be floating point"),
        (lambda: opml_loss(Z, INDEX, form="hard", soft=SOFT), "soft targets need form='smooth'"),
        (lambda: zlpr_loss(Z, INDEX, soft=SOFT), r"soft must lie in \[0, 1\]"),
        (lambda: zlpr_loss(Z, INDEX, soft=SOFT[:2]), "soft must be floating point"),
        (lambda: soft_opml_loss(Z, INDEX, smoothing="score"), r"needs average_precision of shape \(6,\)"),
        (lambda: high_rank_loss(Z, form="norm"), "form must be"),
        (lambda: high_rank_loss(Z, delta=0), "delta must be greater"),
        (lambda: high_rank_loss(Z, form="trace", delta=-1), "delta must be at least 0"),
        (lambda: show_loss(Z, INDEX, mean_labels=6), "mean_labels must lie between 0 and 6"),
        (lambda: ignore_loss(Z, INDEX, Z[:2]), "strong_logits must be"),
        (lambda: ignore_loss(Z, INDEX, Z, INDEX), "masked_logits must be"),
        (lambda: gaussian_kl_loss(Z, Z[:2]), "the same shape"),
        (lambda: gaussian_kl_loss(Z, Z), "std must be greater than 0"),
    ],
)
def test_arguments_outside_their_domain_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
