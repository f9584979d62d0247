"""Losses of whole rows and whole batches: equal to the slow references on known, unknown, negative labels."""

from __future__ import annotations

import math

import pytest
import torch

from spml.losses import (
    em_apl_loss,
    epr_loss,
    epr_regulariser_loss,
    expected_labels,
    gaussian_kl_loss,
    high_rank_loss,
    ignore_loss,
    large_loss_mask,
    ll_loss,
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
from spml.losses._core import elementwise as module
from tests.reference.em_apl import em_apl
from tests.reference.epr import epr, regulariser
from tests.reference.ignore import ignore
from tests.reference.large_loss import large, ll
from tests.reference.opml import hard_opml, high_rank, opml, smoothing
from tests.reference.plc import plc
from tests.reference.pumlc import pumlc
from tests.reference.role import role
from tests.reference.show import show
from tests.reference.softmax import softmax
from tests.reference.zlpr import soft_zlpr, zlpr

TARGET = torch.tensor(
    [[1, 0, -1, 0, 1, 0], [0, 0, 0, 0, 0, 0], [-1, -1, 1, 0, 0, 0], [-1, 0, 0, 0, 0, -1]], dtype=torch.int8
)
INDEX = torch.tensor([4, 0, 2, 2])
SOFT = torch.tensor([[-1, 0.2, 0.5, -1, 0.3, 0.0], [0.1, -1, -1, 0.4, -1, 1.0]] * 2, dtype=torch.float64)
AP = [0.2, 0.9, 0.5, 0.0, 1.0, 0.7]


def draw(seed: int) -> torch.Tensor:
    return 3 * torch.randn(4, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


Z, OTHER, THIRD = draw(0), draw(1), draw(2)
A, B, C = Z.tolist(), OTHER.tolist(), THIRD.tolist()
AP_TENSOR = torch.tensor(AP, dtype=torch.float64)
GAP = {"gap_threshold": 2.0, "mean_logits": AP_TENSOR}

# Name: (our loss of logits and target, the slow reference of lists).
EQUAL = {
    "epr": (lambda z, t: epr_loss(z, t, mean_labels=1.5, weight=2.0),
        lambda z, t: epr(z, t, 1.5, 2.0, "elements")),
    "epr samples": (lambda z, t: epr_loss(z, t, mean_labels=1.5, weight=0.5, norm="samples"),
        lambda z, t: epr(z, t, 1.5, 0.5, "samples")),
    "role": (lambda z, t: role_loss(z, t, OTHER.to(z.dtype), mean_labels=1.5),
        lambda z, t: role(z, t, B, 1.5)),
    "role samples": (lambda z, t: role_loss(z, t, OTHER.to(z.dtype), mean_labels=1.5, norm="samples"),
        lambda z, t: role(z, t, B, 1.5, "samples")),
    "ll reject": (lambda z, t: ll_loss(z, t, rate=0.2), lambda z, t: ll(z, t, 0.2, "reject")),
    "ll correct": (lambda z, t: ll_loss(z, t, rate=0.1, treatment="correct"),
        lambda z, t: ll(z, t, 0.1, "correct")),
    "ll none": (lambda z, t: ll_loss(z, t, rate=0.0), lambda z, t: ll(z, t, 0.0, "reject")),
    "ll all": (lambda z, t: ll_loss(z, t, rate=1.0), lambda z, t: ll(z, t, 1.0, "reject")),
    "em_apl": (lambda z, t: em_apl_loss(z, t, SOFT.to(z.dtype), alpha=0.3, beta=0.6),
        lambda z, t: em_apl(z, t, SOFT.tolist(), 0.3, 0.6)),
    "zlpr": (zlpr_loss, zlpr),
    "opml": (lambda z, t: opml_loss(z, t, alpha=0.3, beta=2.5), lambda z, t: opml(z, t, 0.3, 2.5)),
    "opml unbounded": (lambda z, t: opml_loss(z, t, alpha=0, beta=0), lambda z, t: opml(z, t, 0, 0)),
    "opml hard": (lambda z, t: opml_loss(z, t, form="hard"), hard_opml),
    "soft opml constant": (lambda z, t: soft_opml_loss(z, t, share=0.2, alpha=0.3, beta=2.5),
        lambda z, t: opml(z, t, 0.3, 2.5, [[0.2] * 6] * 4)),
    "soft opml product": (
        lambda z, t: soft_opml_loss(
            z, t, smoothing="product", average_precision=AP_TENSOR.to(z.dtype), gamma=1.5
        ),
        lambda z, t: opml(z, t, 1, 1, smoothing(z, AP, 1.5, "product")),
    ),
    "soft opml score": (
        lambda z, t: soft_opml_loss(
            z, t, smoothing="score", average_precision=AP_TENSOR.to(z.dtype), gamma=2
        ),
        lambda z, t: opml(z, t, 1, 1, smoothing(z, AP, 2, "score")),
    ),
    "softmax": (softmax_loss, softmax),
    "show": (lambda z, t: show_loss(z, t, mean_labels=1.5, rho=0.7, weight=3.0),
        lambda z, t: show(z, t, 1.5, 0.7, 3.0)),
    "pumlc": (lambda z, t: pumlc_loss(z / 5, t, gamma=0.4, alpha=0.9),
        lambda z, t: pumlc([[value / 5 for value in row] for row in z], t, 0.4, 0.9)[0]),
    "ignore": (lambda z, t: ignore_loss(z, t, OTHER.to(z.dtype), THIRD.to(z.dtype), **GAP),
        lambda z, t: ignore(z, t, B, C, 2.0, AP)),
    "ignore warm-up": (lambda z, t: ignore_loss(z, t, OTHER.to(z.dtype)),
        lambda z, t: ignore(z, t, B, None, 0.0, AP)),
    "plc": (lambda z, t: plc_loss(THIRD.to(z.dtype), t, z, tau=0.7), lambda z, t: plc(C, t, z, 0.7)),
    "high rank": (lambda z, t: high_rank_loss(z), lambda z, t: high_rank(z, "determinant", 1.0)),
    "high rank singular": (lambda z, t: high_rank_loss(z, form="singular", delta=0.1),
        lambda z, t: high_rank(z, "singular", 0.1)),
    "high rank trace": (lambda z, t: high_rank_loss(z, form="trace"),
        lambda z, t: high_rank(z, "trace", 1e-3)),
}  # fmt: skip
# These have factors that are constant in the derivative, which are tested below and by the contract suite.
HELD = ("role", "role samples", "soft opml product", "soft opml score", "pumlc")


def value_and_gradient(name: str, z: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    z = z.detach().clone().requires_grad_()
    loss = EQUAL[name][0](z, target)
    (gradient,) = torch.autograd.grad(loss, z)
    return loss.detach(), gradient


@pytest.mark.parametrize("name", EQUAL)
def test_the_loss_equals_the_slow_reference(name):
    loss, reference = EQUAL[name]
    assert loss(Z, TARGET).item() == pytest.approx(reference(A, TARGET.tolist()), rel=1e-12)


@pytest.mark.parametrize("name", [name for name in EQUAL if name not in HELD])
def test_the_gradient_equals_a_numerical_one(name):
    _, gradient = value_and_gradient(name, Z, TARGET)
    step = 1e-6
    for row, column in torch.cartesian_prod(torch.arange(4), torch.arange(6)).tolist():
        sides = []
        for sign in (1, -1):
            moved = Z.clone()
            moved[row, column] += sign * step
            sides.append(EQUAL[name][1](moved.tolist(), TARGET.tolist()))
        assert gradient[row, column].item() == pytest.approx((sides[0] - sides[1]) / (2 * step), abs=1e-8)


@pytest.mark.parametrize("name", EQUAL)
def test_indices_and_a_matrix_give_the_same(name):
    matrix = torch.zeros_like(TARGET).scatter_(1, INDEX[:, None], 1)
    (loss, gradient), (loss2, gradient2) = (value_and_gradient(name, Z, t) for t in (INDEX, matrix))
    assert loss.item() == pytest.approx(loss2.item(), rel=1e-12)
    assert torch.allclose(gradient, gradient2, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", EQUAL)
@pytest.mark.parametrize("target", [TARGET, INDEX, torch.zeros(4, 6, dtype=torch.int8)], ids=str)
def test_extreme_logits_are_finite_in_every_precision(name, target):
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        for size in (1e4, 100.0, 15.0, 0.0):
            loss, gradient = value_and_gradient(name, (Z.sign() * size).to(dtype), target)
            assert loss.dtype == torch.float32
            assert gradient.dtype == dtype
            assert torch.isfinite(loss), (dtype, size)
            assert torch.isfinite(gradient).all(), (dtype, size)


@pytest.mark.parametrize("name", EQUAL)
def test_an_extreme_batch_all_of_one_sign_is_finite(name):
    for value in (1e4, -1e4):
        loss, gradient = value_and_gradient(name, torch.full((4, 6), value), TARGET)
        assert torch.isfinite(loss)
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("name", EQUAL)
def test_float32_agrees_with_float64(name):
    loss, gradient = value_and_gradient(name, Z, TARGET)
    low, low_gradient = value_and_gradient(name, Z.float(), TARGET)
    assert low.item() == pytest.approx(loss.item(), rel=1e-5, abs=1e-6)
    assert (low_gradient.double() - gradient).abs().max() <= 1e-5 * gradient.abs().max()


EMPTY = {
    "epr": lambda z, t: epr_loss(z, t, mean_labels=1.5),
    "role": lambda z, t: role_loss(z, t, z, mean_labels=1.5),
    "ll": lambda z, t: ll_loss(z, t, rate=0.5),
    "em_apl": lambda z, t: em_apl_loss(z, t, torch.zeros_like(z)),
    "zlpr": zlpr_loss,
    "opml": lambda z, t: opml_loss(z, t, alpha=2.0),
    "opml unbounded": lambda z, t: opml_loss(z, t, alpha=0, beta=0),
    "opml hard": lambda z, t: opml_loss(z, t, form="hard"),
    "soft opml": soft_opml_loss,
    "softmax": softmax_loss,
    "show": lambda z, t: show_loss(z, t, mean_labels=1.5),
    "pumlc": pumlc_loss,
    "ignore": lambda z, t: ignore_loss(z, t, z, z),
    "plc": lambda z, t: plc_loss(z, t, z),
    "high rank": lambda z, t: high_rank_loss(z),
    "high rank singular": lambda z, t: high_rank_loss(z, form="singular"),
    "high rank trace": lambda z, t: high_rank_loss(z, form="trace"),
}


@pytest.mark.parametrize("name", EMPTY)
@pytest.mark.parametrize("shape", [(0,), (0, 6)])
def test_an_empty_batch_is_zero_and_has_a_gradient(name, shape):
    z = torch.zeros(0, 6, requires_grad=True)
    loss = EMPTY[name](z, torch.zeros(shape, dtype=torch.int64))
    loss.backward()
    assert loss.item() == 0
    assert z.grad.shape == (0, 6)


@pytest.mark.parametrize("name", ["zlpr", "opml", "opml unbounded", "soft opml constant", "softmax", "show"])
def test_a_row_without_a_known_positive_has_only_its_known_negatives(name):
    _, gradient = value_and_gradient(name, Z, TARGET)
    assert (gradient[1] == 0).all()
    assert (gradient[3, 1:5] == 0).all()
    if name == "softmax":
        assert (gradient[3] == 0).all()
    else:
        assert (gradient[3, [0, 5]] > 0).all()


@pytest.mark.parametrize(
    "loss", [zlpr_loss, lambda z, t, **k: opml_loss(z, t, beta=2, **k), soft_opml_loss, softmax_loss]
)
def test_reductions_of_row_losses(loss):
    each = loss(Z, TARGET, reduction="none")
    assert each.shape == (4,)
    assert loss(Z, TARGET, reduction="sum").item() == pytest.approx(each.sum().item(), rel=1e-12)
    assert loss(Z, TARGET).item() == pytest.approx(each.mean().item(), rel=1e-12)
    with pytest.raises(ValueError, match="reduction must be"):
        loss(Z, TARGET, reduction="average")


# -- the forms of OPML -----------------------------------------------------------------------------------


def test_without_constants_opml_is_the_smooth_maximum_of_one_pair():
    """Eq. 1 and 2 for one positive: log sum_N e^z - z_i, at least max_N z - z_i."""
    others = [[z for c, z in enumerate(row) if c != i] for row, i in zip(A, INDEX.tolist(), strict=True)]
    known = [row[i] for row, i in zip(A, INDEX.tolist(), strict=True)]
    smooth = opml_loss(Z, INDEX, alpha=0, beta=0, reduction="none").tolist()
    hard = opml_loss(Z, INDEX, form="hard", reduction="none").tolist()
    for row in range(4):
        expected = math.log(sum(map(math.exp, others[row]))) - known[row]
        assert smooth[row] == pytest.approx(expected, rel=1e-12)
        assert hard[row] == pytest.approx(max(others[row]) - known[row], rel=1e-12)
        assert hard[row] < smooth[row] < hard[row] + math.log(5)
    both = (opml_loss(100 * Z, INDEX, alpha=0, beta=0), opml_loss(100 * Z, INDEX, form="hard"))
    assert both[0].item() == pytest.approx(both[1].item(), rel=1e-4)


def test_the_ratio_of_the_constants_of_opml_is_a_shift_of_all_logits():
    logits = torch.randn(3, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    target = torch.tensor([[1, 0, -1, 0, 1, 0], [0, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0, -1]])
    for alpha, beta in ((0.1, 10.0), (4.0, 0.5)):
        shifted, both = logits + math.log(alpha / beta) / 2, math.sqrt(alpha * beta)
        expected = opml_loss(shifted, target, alpha=both, beta=both, reduction="none")
        torch.testing.assert_close(
            opml_loss(logits, target, alpha=alpha, beta=beta, reduction="none"), expected, rtol=1e-12, atol=0
        )


def test_the_hard_form_pushes_one_pair_apart():
    z = torch.tensor([[1.0, 3.0, -2.0, 2.0, 0.5]], requires_grad=True)
    opml_loss(z, torch.tensor([[1, 1, -1, -1, 0]]), form="hard").backward()
    assert z.grad.tolist() == [[-1, 0, 0, 1, 0]]


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


def test_the_regulariser_is_a_statistic_of_the_batch():
    whole = epr_regulariser_loss(Z, mean_labels=2.0).item()
    assert whole == pytest.approx(regulariser(A, 2.0), rel=1e-12)
    parts = [epr_regulariser_loss(part, mean_labels=2.0).item() for part in (Z[:2], Z[2:])]
    assert sum(parts) / 2 != pytest.approx(whole, rel=1e-3)


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
    assert large_loss_mask(Z, TARGET, rate=rate).tolist() == large(A, TARGET.tolist(), rate)


def test_a_strict_mask_leaves_out_the_kth_and_all_its_ties():
    z = torch.tensor([[3.0, 2.0, 2.0, 1.0, 9.0]])
    target = torch.tensor([4])
    assert large_loss_mask(z, target, rate=0.4).tolist() == [[True, True, True, False, False]]
    assert large_loss_mask(z, target, rate=0.4, strict=True).tolist() == [[True, False, False, False, False]]
    assert not large_loss_mask(z, target, rate=0.2, strict=True).any()


def test_all_ties_with_the_kth_loss_are_large():
    z, target = torch.tensor([[2.0, 2.0, 2.0, 0.0]]), torch.tensor([3])
    assert ll_loss(z, target, rate=0.25, reduction="none")[0, :3].tolist() == [0, 0, 0]


def test_the_number_of_large_losses_is_that_of_the_rate_in_floating_point():
    # 1 - (1 - 0.002) is slightly more than 0.002, so that k is 3 instead of 2 for 1000 labels.
    z, target = torch.randn(10, 100), torch.randint(100, (10,))
    assert large_loss_mask(z, target, rate=1 - (1 - 0.002)).sum() == 3
    assert large_loss_mask(z, target, rate=0.002).sum() == 2


def test_known_labels_are_never_large():
    z = torch.tensor([[50.0, 40.0, 0.0, -1.0]])
    target = torch.tensor([[-1, 1, 0, 0]])
    assert large_loss_mask(z, target, rate=1.0).tolist() == [[False, False, True, True]]
    assert ll_loss(z, target, rate=1.0, reduction="sum").item() == pytest.approx(50.0)


# -- soft targets ----------------------------------------------------------------------------------------


def test_em_apl_is_em_without_and_binary_cross_entropy_with_soft_targets_everywhere():
    target = torch.zeros(4, 6, dtype=torch.int8)
    soft = torch.sigmoid(OTHER)
    found = em_apl_loss(Z, target, soft, beta=0.5)
    expected = 0.5 * torch.nn.functional.binary_cross_entropy_with_logits(Z, soft)
    assert found.item() == pytest.approx(expected.item(), rel=1e-12)


def test_soft_targets_are_split_into_chunks_with_their_rows(monkeypatch):
    whole = value_and_gradient("em_apl", Z, INDEX)
    monkeypatch.setitem(module._CHUNK, "cpu", 6)
    parts = value_and_gradient("em_apl", Z, INDEX)
    assert parts[0].item() == pytest.approx(whole[0].item(), rel=1e-12)
    torch.testing.assert_close(parts[1], whole[1], rtol=1e-12, atol=1e-15)


def test_zlpr_with_soft_targets_of_all_labels():
    soft = torch.sigmoid(OTHER)
    soft[0, 0], soft[1, 2] = 0, 1
    found = zlpr_loss(Z, torch.zeros(4, 6, dtype=torch.int8), soft=soft)
    assert found.item() == pytest.approx(soft_zlpr(A, soft.tolist()), rel=1e-12)


def test_known_labels_win_over_soft_targets():
    target = torch.tensor([1, 0, 3, 5])
    matrix = torch.full((4, 6), -1, dtype=torch.int8).scatter_(1, target[:, None], 1)
    found = zlpr_loss(Z, matrix, soft=torch.full_like(Z, 0.5))
    assert found.item() == pytest.approx(zlpr_loss(Z, target).item(), rel=1e-12)


def test_the_adaptive_share_is_constant_in_the_derivative():
    z = Z.clone().requires_grad_()
    soft_opml_loss(z, INDEX, smoothing="product", average_precision=AP_TENSOR, gamma=1.5).backward()
    z2 = Z.clone().requires_grad_()
    opml_loss(z2, INDEX, soft=(torch.sigmoid(Z) * AP_TENSOR) ** 1.5).backward()
    assert torch.allclose(z.grad, z2.grad, rtol=1e-12)


# -- softmax and SHOW ------------------------------------------------------------------------------------


def test_softmax_is_cross_entropy_for_indices():
    expected = torch.nn.functional.cross_entropy(Z, INDEX)
    assert softmax_loss(Z, INDEX).item() == pytest.approx(expected.item(), rel=1e-12)


@pytest.mark.parametrize("target", [INDEX, TARGET], ids=["indices", "ternary"])
def test_softmax_of_log_probabilities_is_the_same(target):
    """A model that outputs log-probabilities is trained as if it output logits."""
    found = []
    for normalise in (False, True):
        z = Z.clone().requires_grad_()
        loss = softmax_loss(z.log_softmax(1) if normalise else z, target)
        found.append((loss.detach(), torch.autograd.grad(loss, z)[0]))
    torch.testing.assert_close(found[1], found[0], rtol=1e-12, atol=1e-14)


def test_known_negatives_leave_the_sums_of_softmax_and_show():
    left_out = torch.tensor([[1, 0, -1, 0, 0, -1]])
    kept = [0, 1, 3, 4]
    narrow = torch.tensor([[1, 0, 0, 0]])
    assert softmax_loss(Z[:1], left_out).item() == pytest.approx(softmax_loss(Z[:1, kept], narrow).item())
    settings = {"mean_labels": 1.5, "shifted": False}
    wide = show_loss(Z[:1], left_out, **settings).item()
    negatives = torch.nn.functional.softplus(Z[0, [2, 5]]).sum().item()
    assert wide == pytest.approx(show_loss(Z[:1, kept], narrow, **settings).item() + negatives)


def test_with_rho_one_show_is_the_probability_of_a_uniform_draw():
    p = torch.sigmoid(Z + math.log(1.5 / 4.5))
    expected = -(p.gather(1, INDEX[:, None])[:, 0] / p.sum(1)).log().mean()
    found = show_loss(Z, INDEX, mean_labels=1.5, rho=1.0, weight=0.0)
    assert found.item() == pytest.approx(expected.item(), rel=1e-12)


def test_a_confident_hidden_positive_is_not_pushed_down_by_show():
    z = torch.zeros(1, 6, dtype=torch.float64)
    z[0, 1] = 30
    z.requires_grad_()
    show_loss(z, torch.tensor([0]), mean_labels=1.5, weight=0.0).backward()
    assert 0 <= z.grad[0, 1] < 1e-11
    assert z.grad[0, 2] > 0.01


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
    assert single.item() == pytest.approx(pumlc(A[:1], [[0, 0, 0, 0, 1, 0]], 0.55, 1.0)[0], rel=1e-12)


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
    rejected = (TARGET == 0) & ((Z - THIRD).abs() > 2.0) & (Z > AP_TENSOR)
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
        (lambda: epr_loss(Z, INDEX, mean_labels=0), "mean_labels must be greater than 0"),
        (lambda: epr_loss(Z, INDEX, mean_labels=1, weight=-1), "weight must be at least 0"),
        (lambda: epr_loss(Z, INDEX, mean_labels=1, norm="batch"), "norm must be"),
        (lambda: role_loss(Z, INDEX, Z[:2], mean_labels=1), "estimates must be floating point"),
        (lambda: role_loss(Z, INDEX, Z, mean_labels=-1), "mean_labels must be greater"),
        (lambda: role_loss(Z, INDEX, Z, mean_labels=1, norm="batch"), "norm must be"),
        (lambda: ll_loss(Z, INDEX, rate=1.1), r"rate must lie in \[0, 1\]"),
        (lambda: ll_loss(Z, INDEX, rate=0.1, treatment="drop"), "treatment must be"),
        (lambda: em_apl_loss(Z, INDEX, INDEX), "soft must be floating point"),
        (lambda: em_apl_loss(Z, INDEX, SOFT, beta=0), "beta must be greater"),
        (lambda: opml_loss(Z, INDEX, alpha=-1), "alpha must be at least 0"),
        (lambda: opml_loss(Z, INDEX, form="soft"), "form must be one of smooth, hard, got 'soft'"),
        (lambda: opml_loss(Z, INDEX, form="hard", soft=SOFT), "soft targets need form='smooth'"),
        (lambda: soft_opml_loss(Z, INDEX, alpha=0), "alpha must be greater"),
        (lambda: opml_loss(Z, INDEX, beta=math.nan), "beta must be at least 0"),
        (lambda: zlpr_loss(Z, INDEX, soft=SOFT), r"soft must lie in \[0, 1\]"),
        (lambda: zlpr_loss(Z, INDEX, soft=SOFT[:2]), "soft must be floating point"),
        (lambda: soft_opml_loss(Z, INDEX, smoothing="label"), "smoothing must be"),
        (lambda: soft_opml_loss(Z, INDEX, smoothing="score"), r"needs average_precision of shape \(6,\)"),
        (lambda: soft_opml_loss(Z, INDEX, share=2), "share must lie"),
        (lambda: high_rank_loss(Z, form="norm"), "form must be"),
        (lambda: high_rank_loss(Z, delta=0), "delta must be greater"),
        (lambda: high_rank_loss(Z, form="trace", delta=-1), "delta must be at least 0"),
        (lambda: show_loss(Z, INDEX, mean_labels=6), "mean_labels must lie between 0 and 6"),
        (lambda: show_loss(Z, INDEX, mean_labels=1, rho=2), "rho must lie"),
        (lambda: show_loss(Z, INDEX, mean_labels=1, momentum=0), "momentum must be greater"),
        (lambda: pumlc_loss(Z, INDEX, gamma=-1), "gamma must be at least 0"),
        (lambda: pumlc_loss(Z, INDEX, alpha=0), "alpha must be greater"),
        (lambda: pumlc_loss(Z, INDEX, reduction="batch"), "reduction must be"),
        (lambda: ignore_loss(Z, INDEX, Z[:2]), "strong_logits must be"),
        (lambda: ignore_loss(Z, INDEX, Z, INDEX), "masked_logits must be"),
        (lambda: plc_loss(Z, INDEX, Z, tau=0.4), r"tau must lie in \[0.5, 1\]"),
        (lambda: gaussian_kl_loss(Z, Z[:2]), "the same shape"),
        (lambda: gaussian_kl_loss(Z, Z), "std must be greater than 0"),
        (lambda: mime_loss(Z, INDEX, Z, Z.exp(), beta=-1), "beta must be at least 0"),
    ],
)
def test_arguments_outside_their_domain_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("name", [name for name in EQUAL if not name.startswith("high rank")])
def test_soft_values_in_the_target_are_refused(name):
    with pytest.raises(TypeError, match="Soft targets"):
        EQUAL[name][0](Z, SOFT)
