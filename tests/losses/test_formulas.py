"""Losses that are sums over elements: equal to the slow references on known, unknown and negative labels."""

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
from tests.reference import baselines, csl, focal, gpr, hill, lasd, vlpl
from tests.reference.em import em

TARGET = torch.tensor([[1, 0, -1, 0, 1, 0], [0, 0, 0, 0, 0, 0], [-1, 0, 1, 0, 0, 0]], dtype=torch.int8)
PSEUDO = torch.tensor([[1, 1, 1, -1, -1, 0], [0, 1, -1, 0, -1, 1], [1, -1, -1, 1, 0, -1]], dtype=torch.int8)
INDEX = torch.tensor([4, 0, 2])
CSL = {"gamma_pos": 0.5, "gamma_neg": 1.5, "gamma_unknown": 3.0, "clip": 0.05}
CSL |= {"alpha_pos": 2.0, "alpha_neg": 0.7, "alpha_unknown": 0.4}
VLPL = {"alpha": 0.3, "beta_pos": 0.7, "beta_neg": 0.2, "smoothing": 0.1}
VLPL |= {"gamma_pos": 2.0, "gamma_neg": 3.0, "gamma_unknown": 4.0}
GPR = {"w": 3.0, "b": -2.0, "mu": 0.7, "sigma": 0.6, "q2": 0.01, "q3": 1.5}
GPR |= {"lam1": 0.7, "lam2": 0.4, "rho": 0.9}
IGNORED = [False, True, False, False, True, False]

EQUAL = {
    "an_ls": (lambda z, t: an_ls_loss(z, t, swap=0.2), lambda z, t: baselines.an_ls(z, t, 0.2)),
    "n_ls": (lambda z, t: n_ls_loss(z, t, swap=0.2), lambda z, t: baselines.n_ls(z, t, 0.2)),
    "wan": (wan_loss, lambda z, t: baselines.wan(z, t, 1 / 5)),
    "wan 0.7": (lambda z, t: wan_loss(z, t, weight=0.7), lambda z, t: baselines.wan(z, t, 0.7)),
    "iu": (iu_loss, baselines.iu),
    "pr": (pr_loss, baselines.pr),
    "an": (an_loss, lambda z, t: baselines.an(z, t) * 18),
    "em": (lambda z, t: em_loss(z, t, alpha=0.3), lambda z, t: em(z, t, 0.3) * 18),
    "entmin": (lambda z, t: entmin_loss(z, t, alpha=0.3), lambda z, t: em(z, t, -0.3) * 18),
    "focal": (focal_loss, lambda z, t: focal.focal(z, t, 2, 0)),
    "focal margin": (lambda z, t: focal_loss(z, t, gamma=1.5, margin=0.5),
        lambda z, t: focal.focal(z, t, 1.5, 0.5)),
    "asl": (asl_loss, lambda z, t: focal.asl(z, t, 0, 4, 0.05)),
    "asl 1 2 0": (lambda z, t: asl_loss(z, t, gamma_pos=1, gamma_neg=2.5, clip=0),
        lambda z, t: focal.asl(z, t, 1, 2.5, 0)),
    "asl 0 0 0.3": (lambda z, t: asl_loss(z, t, gamma_neg=0, clip=0.3),
        lambda z, t: focal.asl(z, t, 0, 0, 0.3)),
    "hill": (hill_loss, lambda z, t: hill.hill(z, t, 1.5, 1, 2)),
    "hill 2": (lambda z, t: hill_loss(z, t, lam=2, margin=0, gamma=0), lambda z, t: hill.hill(z, t, 2, 0, 0)),
    "splc": (splc_loss, lambda z, t: hill.splc(z, t, 0.6, 1, 2)),
    "splc 0.2": (lambda z, t: splc_loss(z, t, tau=0.2, margin=0.3, gamma=1),
        lambda z, t: hill.splc(z, t, 0.2, 0.3, 1)),
    "splc, table of GR": (lambda z, t: splc_loss(z, t, negative="hill", margin_corrected=True),
        lambda z, t: hill.splc(z, t, 0.6, 1, 2, lam=1.5, margin_corrected=1)),
    "splc, hill 2": (lambda z, t: splc_loss(z, t, tau=0.4, negative="hill", lam=2),
        lambda z, t: hill.splc(z, t, 0.4, 1, 2, lam=2)),
    "las": (lambda z, t: las_loss(z, t, weight=0.3, gamma_pos=0.5, gamma_neg=3),
        lambda z, t: lasd.las(z, t, 0.3, 0.5, 3)),
    "lasd": (
        lambda z, t: lasd_loss(z, t, weight_pos=0.4, weight_neg=0.3, tau=0.7, gamma_pos=0.5, gamma_neg=3),
        lambda z, t: lasd.lasd(z, t, 0.4, 0.3, 0.7, 0.5, 3),
    ),
    "focal own": (lambda z, t: focal_loss(z, t, margin=0.5, known_negatives="own"),
        lambda z, t: focal.focal(z, t, 2, 0.5, own=True)),
    "asl own": (lambda z, t: asl_loss(z, t, gamma_pos=1, known_negatives="own"),
        lambda z, t: focal.asl(z, t, 1, 4, 0.05, own=True)),
    "hill own": (lambda z, t: hill_loss(z, t, lam=2, known_negatives="own"),
        lambda z, t: hill.hill(z, t, 2, 1, 2, own=True)),
    "splc own": (lambda z, t: splc_loss(z, t, tau=0.2, known_negatives="own"),
        lambda z, t: hill.splc(z, t, 0.2, 1, 2, own=True)),
    "splc hill own": (lambda z, t: splc_loss(z, t, tau=0.2, negative="hill", lam=2, known_negatives="own"),
        lambda z, t: hill.splc(z, t, 0.2, 1, 2, lam=2, own=True)),
    "las own": (lambda z, t: las_loss(z, t, weight=0.3, known_negatives="own"),
        lambda z, t: lasd.las(z, t, 0.3, 0, 4, own=True)),
    "lasd own": (lambda z, t: lasd_loss(z, t, weight_pos=0.4, weight_neg=0.3, tau=0.1, known_negatives="own"),
        lambda z, t: lasd.lasd(z, t, 0.4, 0.3, 0.1, 0, 4, own=True)),
    "lasd full": (
        lambda z, t: lasd_full_loss(z, t, weight_pos=0.4, weight_neg=0.3, gamma_pos=0.5, gamma_neg=3),
        lambda z, t: lasd.lasd_full(z, t, 0.4, 0.3, 0.5, 3),
    ),
    "cost sensitive": (lambda z, t: cost_sensitive_loss(z, t, gamma_pos=0.5, gamma_neg=3),
        lambda z, t: lasd.cost_sensitive(z, t, 0.5, 3)),
    "vlpl": (lambda z, t: vlpl_loss(z, t, PSEUDO, **VLPL),
        lambda z, t: vlpl.vlpl(z, t, PSEUDO.tolist(), VLPL)),
    "gpr": (lambda z, t: gpr_loss(z, t, PSEUDO, **GPR), lambda z, t: gpr.gpr(z, t, PSEUDO.tolist(), GPR)),
}  # fmt: skip
for _mode in ("selective", "ignore", "ignore_normalize_classes", "negative"):
    EQUAL[f"csl {_mode}"] = (
        lambda z, t, mode=_mode: csl_loss(
            z, t, mode=mode, topk=2, ignored_classes=torch.tensor(IGNORED), **CSL
        ),
        lambda z, t, mode=_mode: csl.csl(z, t, mode, 2, IGNORED, CSL),
    )


@pytest.fixture
def logits() -> torch.Tensor:
    return 3 * torch.randn(3, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("name", EQUAL)
def test_the_loss_equals_the_slow_reference(name, logits):
    loss, reference = EQUAL[name]
    found = loss(logits, TARGET).item() * logits.numel()
    assert found == pytest.approx(reference(logits.tolist(), TARGET.tolist()), rel=1e-12)


@pytest.mark.parametrize("name", [name for name in EQUAL if not name.startswith(("csl", "gpr"))])
def test_the_gradient_equals_a_numerical_one(name, logits):
    """Without CSL and GPR, whose constant factors are covered by the contract suite."""
    z = logits.requires_grad_()
    (gradient,) = torch.autograd.grad(EQUAL[name][0](z, TARGET), z)
    step = 1e-6
    for entry in torch.cartesian_prod(torch.arange(3), torch.arange(6)).tolist():
        sides = []
        for sign in (1, -1):
            moved = logits.detach().clone()
            moved[tuple(entry)] += sign * step
            sides.append(EQUAL[name][1](moved.tolist(), TARGET.tolist()) / logits.numel())
        assert gradient[tuple(entry)].item() == pytest.approx((sides[0] - sides[1]) / (2 * step), abs=1e-8)


@pytest.mark.parametrize("name", EQUAL)
def test_indices_and_a_matrix_give_the_same(name, logits):
    matrix = torch.zeros_like(TARGET).scatter_(1, INDEX[:, None], 1)
    results = []
    for target in (INDEX, matrix):
        z = logits.detach().clone().requires_grad_()
        loss = EQUAL[name][0](z, target)
        loss.backward()
        results.append((loss.item(), z.grad))
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-12)
    torch.testing.assert_close(results[0][1], results[1][1], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", EQUAL)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_extreme_logits_rows_without_labels_and_empty_batches_are_finite(name, dtype):
    loss = EQUAL[name][0]
    for size in (1e4, 100.0, 20.0, 0.0):
        z = (torch.tensor([[1, -1, 1, -1, 1, -1], [-1, 1, 0, 0, 1, -1], [1, 1, 1, -1, -1, -1]]) * size).to(
            dtype
        )
        z.requires_grad_()
        value = loss(z, TARGET)
        value.backward()
        assert torch.isfinite(value)
        assert torch.isfinite(z.grad).all()


@pytest.mark.parametrize("name", [name for name in EQUAL if name not in ("vlpl", "gpr")])
def test_an_empty_batch_costs_nothing(name):
    z = torch.zeros(0, 6, requires_grad=True)
    loss = EQUAL[name][0](z, torch.zeros(0, dtype=torch.int64))
    loss.backward()
    assert loss.item() == 0
    assert z.grad.shape == (0, 6)


def test_known_negatives_get_the_true_negative_loss(logits):
    """Except in AN-LS (smooths them), PR (ranks them) and CSL (has a focusing factor for them)."""
    expected = -torch.nn.functional.logsigmoid(-logits)[TARGET == -1]
    losses = [n_ls_loss, wan_loss, iu_loss, entmin_loss, focal_loss, asl_loss, hill_loss, splc_loss, las_loss]
    for loss in [*losses, lasd_loss, an_loss, em_loss, gr_loss]:
        each = loss(logits, TARGET, reduction="none")
        assert torch.allclose(each[TARGET == -1], expected, rtol=1e-12), loss.__name__
    for loss in (vlpl_loss, gpr_loss):
        each = loss(logits, TARGET, PSEUDO, reduction="none")
        assert torch.allclose(each[TARGET == -1], expected, rtol=1e-12), loss.__name__


def test_on_full_labels_focal_and_asymmetric_loss_are_those_of_the_literature():
    """Numbers by hand: mean over labels of (1 - p)^2 l+ and p^2 l-, and of l+ and p_m^4 (-log(1 - p_m))."""
    z = torch.tensor([[2.115, 0.46, -1.096, -1.075, 0.898]], dtype=torch.float64)
    full = torch.tensor([[1, 1, -1, -1, -1]])
    plain = [round(loss(z, full).item(), 4) for loss in (focal_loss, asl_loss)]
    own = [round(loss(z, full, known_negatives="own").item(), 4) for loss in (focal_loss, asl_loss)]
    assert plain == [0.3793, 0.4850]
    assert own == [0.1475, 0.1619]
    p = torch.sigmoid(z)[0].tolist()
    terms = [(1 - q) ** 2 * -math.log(q) for q in p[:2]] + [q**2 * -math.log(1 - q) for q in p[2:]]
    assert focal_loss(z, full, known_negatives="own").item() == pytest.approx(sum(terms) / 5, rel=1e-12)


@pytest.mark.parametrize("loss", [focal_loss, asl_loss, hill_loss, las_loss])
def test_an_own_negative_has_the_loss_and_the_gradient_of_an_assumed_one(loss, logits):
    """`own` is the loss in which the negatives are not marked, if no label is inferred."""
    assumed = TARGET.clamp(min=0)
    found = []
    for target, settings in ((TARGET, {"known_negatives": "own"}), (assumed, {})):
        z = logits.clone().requires_grad_()
        value = loss(z, target, reduction="sum", **settings)
        found.append((value.detach(), torch.autograd.grad(value, z)[0]))
    torch.testing.assert_close(found[0], found[1], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("loss", [splc_loss, lasd_loss])
def test_a_known_negative_is_never_corrected(loss):
    """A known negative of high probability is pushed down, an unknown label is pushed up."""
    z = torch.tensor([[0.0, 6.0, 6.0]], dtype=torch.float64, requires_grad=True)
    loss(z, torch.tensor([[1, -1, 0]]), tau=0.6, known_negatives="own").backward()
    assert z.grad[0, 1] > 0 > z.grad[0, 2]


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


def test_the_cost_sensitive_loss_of_a_sample_of_one_kind_is_finite():
    z = torch.zeros(2, 3, dtype=torch.float64)
    each = cost_sensitive_loss(z, torch.tensor([[1, 1, 1], [-1, -1, -1]]), gamma_neg=0, reduction="none")
    assert each.sum(1).tolist() == pytest.approx([math.log(2), math.log(2)])


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


def test_the_hill_gradient_never_changes_sign_at_its_default():
    z = torch.linspace(-8, 8, 50, dtype=torch.float64).repeat(2, 1).requires_grad_()
    hill_loss(z, torch.tensor([0, 1]), reduction="sum").backward()
    p = torch.sigmoid(z.detach())[0, 2:]
    assert torch.allclose(z.grad[0, 2:], 3 * p**2 * (1 - p) ** 2, rtol=1e-9)


def test_csl_leaves_out_the_most_probable_unknown_labels_of_the_batch():
    z = torch.tensor([[9.0, 3.0, 1.0], [2.0, 8.0, 2.5]])
    target = torch.tensor([[1, 0, 0], [0, -1, 0]])
    each = csl_loss(z, target, topk=1, reduction="none")
    assert (each == 0).tolist() == [[False, True, False], [False, False, True]]
    equal = csl_loss(torch.zeros(2, 3), torch.tensor([0, 1]), topk=1, reduction="none")
    assert (equal == 0).tolist() == [[False, True, True], [False, False, False]]


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
        (an_ls_loss, {"swap": 0.5}, "swap must lie in"),
        (n_ls_loss, {"swap": -0.1}, "swap must lie in"),
        (wan_loss, {"weight": 0}, "weight must be greater than 0"),
        (entmin_loss, {"alpha": float("nan")}, "alpha must be greater than 0"),
        (focal_loss, {"gamma": -1}, "gamma must be at least 0"),
        (focal_loss, {"margin": -1}, "margin must be at least 0"),
        (asl_loss, {"clip": 1}, "clip must lie in"),
        (asl_loss, {"gamma_neg": -1}, "gamma_neg must be at least 0"),
        (hill_loss, {"lam": 1.4}, "lam must be at least 1.5"),
        (hill_loss, {"eps": 1e-7}, "eps needs gamma = 0"),
        (splc_loss, {"tau": 1.1}, "tau must lie in"),
        (splc_loss, {"negative": "asl"}, "negative must be one of focal, hill, got 'asl'"),
        (splc_loss, {"lam": 1}, "lam must be at least 1.5"),
        (las_loss, {"weight": -1}, "weight must be at least 0"),
        (lasd_loss, {"tau": -0.1}, "tau must lie in"),
        (lasd_full_loss, {"weight_neg": -1}, "weight_neg must be at least 0"),
        (cost_sensitive_loss, {"gamma_neg": -1}, "gamma_neg must be at least 0"),
        (focal_loss, {"known_negatives": "auto"}, "known_negatives must be 'plain' or 'own', got 'auto'"),
        (csl_loss, {"mode": "soft"}, "mode must be one of"),
        (csl_loss, {"topk": -1}, "topk must be at least 0"),
        (csl_loss, {"clip": -1}, "clip must lie in"),
        (pr_loss, {"reduction": "average"}, "reduction must be"),
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
        (vlpl_loss, PSEUDO, {"alpha": 0}, ValueError, "alpha must be greater"),
        (vlpl_loss, PSEUDO, {"smoothing": 2}, ValueError, "smoothing must lie"),
        (gpr_loss, PSEUDO, {"lam1": 0.3}, ValueError, "lam2 must be at most lam1"),
        (gpr_loss, PSEUDO, {"sigma": 0}, ValueError, "sigma must be greater"),
        (gpr_loss, PSEUDO, {"rho": -1}, ValueError, "rho must lie"),
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
