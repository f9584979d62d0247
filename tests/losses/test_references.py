"""Every loss equals its slow reference on known, unknown and negative labels, in every precision."""

from __future__ import annotations

import pytest
import torch

from spml.losses import (
    an_loss,
    an_ls_loss,
    asl_loss,
    cost_sensitive_loss,
    crisp_loss,
    csl_loss,
    em_apl_loss,
    em_loss,
    entmin_loss,
    epr_loss,
    focal_loss,
    gpr_loss,
    high_rank_loss,
    hill_loss,
    ignore_loss,
    iu_loss,
    las_loss,
    lasd_full_loss,
    lasd_loss,
    ll_loss,
    n_ls_loss,
    opml_loss,
    plc_loss,
    pr_loss,
    pu_loss,
    pumlc_loss,
    role_loss,
    show_loss,
    smile_loss,
    soft_opml_loss,
    softmax_loss,
    splc_loss,
    vlpl_loss,
    wan_loss,
    zlpr_loss,
)
from spml.losses._core import elementwise
from tests.losses.samples import AP, GAP, INDEX, OTHER, SOFT, TARGET, THIRD, Z
from tests.reference import baselines, csl, focal, gpr, hill, lasd, smile, vlpl
from tests.reference.crisp import crisp
from tests.reference.em import em
from tests.reference.em_apl import em_apl
from tests.reference.epr import epr
from tests.reference.ignore import ignore
from tests.reference.large_loss import ll
from tests.reference.opml import hard_opml, high_rank, opml, smoothing
from tests.reference.plc import plc
from tests.reference.pu import pu
from tests.reference.pumlc import pumlc
from tests.reference.role import role
from tests.reference.show import show
from tests.reference.softmax import softmax
from tests.reference.zlpr import zlpr

PSEUDO = torch.tensor(
    [[1, 1, 1, -1, -1, 0], [0, 1, -1, 0, -1, 1], [1, -1, -1, 1, 0, -1], [0, 1, 0, -1, 1, 1]], dtype=torch.int8
)
PRIOR = torch.tensor([0.4, 0.2, 0.5, 0.1, 0.8, 0.3], dtype=torch.float64)
CSL = {"gamma_pos": 0.5, "gamma_neg": 1.5, "gamma_unknown": 3.0, "clip": 0.05}
CSL |= {"alpha_pos": 2.0, "alpha_neg": 0.7, "alpha_unknown": 0.4}
IGNORED = [False, True, False, False, True, False]
VLPL = {"alpha": 0.3, "beta_pos": 0.7, "beta_neg": 0.2, "smoothing": 0.1}
VLPL |= {"gamma_pos": 2.0, "gamma_neg": 3.0, "gamma_unknown": 4.0}
GPR = {"w": 3.0, "b": -2.0, "mu": 0.7, "sigma": 0.6, "q2": 0.01, "q3": 1.5}
GPR |= {"lam1": 0.7, "lam2": 0.4, "rho": 0.9}


A, B, C = Z.tolist(), OTHER.tolist(), THIRD.tolist()


def like(z: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Values for as many rows as there are logits, in their precision."""
    return values[: len(z)].to(z.dtype)


# Name: (our loss of logits and target, the slow reference of lists).
EQUAL = {
    "epr": (lambda z, t: epr_loss(z, t, mean_labels=1.5, weight=2.0),
        lambda z, t: epr(z, t, 1.5, 2.0, "elements")),
    "epr samples": (lambda z, t: epr_loss(z, t, mean_labels=1.5, weight=0.5, norm="samples"),
        lambda z, t: epr(z, t, 1.5, 0.5, "samples")),
    "role": (lambda z, t: role_loss(z, t, like(z, OTHER), mean_labels=1.5),
        lambda z, t: role(z, t, B, 1.5)),
    "role samples": (lambda z, t: role_loss(z, t, like(z, OTHER), mean_labels=1.5, norm="samples"),
        lambda z, t: role(z, t, B, 1.5, "samples")),
    "ll reject": (lambda z, t: ll_loss(z, t, rate=0.2), lambda z, t: ll(z, t, 0.2, "reject")),
    "ll correct": (lambda z, t: ll_loss(z, t, rate=0.1, treatment="correct"),
        lambda z, t: ll(z, t, 0.1, "correct")),
    "ll none": (lambda z, t: ll_loss(z, t, rate=0.0), lambda z, t: ll(z, t, 0.0, "reject")),
    "ll all": (lambda z, t: ll_loss(z, t, rate=1.0), lambda z, t: ll(z, t, 1.0, "reject")),
    "em_apl": (lambda z, t: em_apl_loss(z, t, like(z, SOFT), alpha=0.3, beta=0.6),
        lambda z, t: em_apl(z, t, SOFT.tolist(), 0.3, 0.6)),
    "zlpr": (zlpr_loss, zlpr),
    "opml": (lambda z, t: opml_loss(z, t, alpha=0.3, beta=2.5), lambda z, t: opml(z, t, 0.3, 2.5)),
    "opml unbounded": (lambda z, t: opml_loss(z, t, alpha=0, beta=0), lambda z, t: opml(z, t, 0, 0)),
    "opml hard": (lambda z, t: opml_loss(z, t, form="hard"), hard_opml),
    "soft opml constant": (lambda z, t: soft_opml_loss(z, t, share=0.2, alpha=0.3, beta=2.5),
        lambda z, t: opml(z, t, 0.3, 2.5, [[0.2] * 6] * 4)),
    "soft opml product": (
        lambda z, t: soft_opml_loss(z, t, smoothing="product", average_precision=AP.to(z.dtype), gamma=1.5),
        lambda z, t: opml(z, t, 1, 1, smoothing(z, AP.tolist(), 1.5, "product"))),
    "soft opml score": (
        lambda z, t: soft_opml_loss(z, t, smoothing="score", average_precision=AP.to(z.dtype), gamma=2),
        lambda z, t: opml(z, t, 1, 1, smoothing(z, AP.tolist(), 2, "score"))),
    "softmax": (softmax_loss, softmax),
    "show": (lambda z, t: show_loss(z, t, mean_labels=1.5, rho=0.7, weight=3.0),
        lambda z, t: show(z, t, 1.5, 0.7, 3.0)),
    "pumlc": (lambda z, t: pumlc_loss(z / 5, t, gamma=0.4, alpha=0.9),
        lambda z, t: pumlc([[value / 5 for value in row] for row in z], t, 0.4, 0.9)[0]),
    "ignore": (lambda z, t: ignore_loss(z, t, like(z, OTHER), like(z, THIRD), **GAP),
        lambda z, t: ignore(z, t, B, C, 2.0, AP.tolist())),
    "ignore warm-up": (lambda z, t: ignore_loss(z, t, like(z, OTHER)),
        lambda z, t: ignore(z, t, B, None, 0.0, AP.tolist())),
    "plc": (lambda z, t: plc_loss(like(z, THIRD), t, z, tau=0.7), lambda z, t: plc(C, t, z, 0.7)),
    "pu": (lambda z, t: pu_loss(z, t, prior=PRIOR.to(z.dtype), beta=0.3),
        lambda z, t: pu(z, t, PRIOR.tolist(), beta=0.3)),
    "pu rest": (
        lambda z, t: pu_loss(z, t, prior=PRIOR.to(z.dtype), surrogate="sigmoid", unlabelled="rest"),
        lambda z, t: pu(z, t, PRIOR.tolist(), surrogate="sigmoid", unlabelled="rest")),
    "crisp": (lambda z, t: crisp_loss(z, t, prior=PRIOR.to(z.dtype)),
        lambda z, t: crisp(z, t, PRIOR.tolist())),
    "high rank": (lambda z, t: high_rank_loss(z), lambda z, t: high_rank(z, "determinant", 1.0)),
    "high rank singular": (lambda z, t: high_rank_loss(z, form="singular", delta=0.1),
        lambda z, t: high_rank(z, "singular", 0.1)),
    "high rank trace": (lambda z, t: high_rank_loss(z, form="trace"),
        lambda z, t: high_rank(z, "trace", 1e-3)),
    "an": (an_loss, baselines.an),
    "em": (lambda z, t: em_loss(z, t, alpha=0.3), lambda z, t: em(z, t, 0.3)),
    "entmin": (lambda z, t: entmin_loss(z, t, alpha=0.3), lambda z, t: em(z, t, -0.3)),
}  # fmt: skip
# The same, with references that are sums over all elements.
SUMS = {
    "an_ls": (lambda z, t: an_ls_loss(z, t, swap=0.2), lambda z, t: baselines.an_ls(z, t, 0.2)),
    "n_ls": (lambda z, t: n_ls_loss(z, t, swap=0.2), lambda z, t: baselines.n_ls(z, t, 0.2)),
    "wan": (wan_loss, lambda z, t: baselines.wan(z, t, 1 / 5)),
    "wan 0.7": (lambda z, t: wan_loss(z, t, weight=0.7), lambda z, t: baselines.wan(z, t, 0.7)),
    "iu": (iu_loss, baselines.iu),
    "pr": (pr_loss, baselines.pr),
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
        lambda z, t: lasd.lasd(z, t, 0.4, 0.3, 0.7, 0.5, 3)),
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
        lambda z, t: lasd.lasd_full(z, t, 0.4, 0.3, 0.5, 3)),
    "cost sensitive": (lambda z, t: cost_sensitive_loss(z, t, gamma_pos=0.5, gamma_neg=3),
        lambda z, t: lasd.cost_sensitive(z, t, 0.5, 3)),
    "vlpl": (lambda z, t: vlpl_loss(z, t, PSEUDO[: len(z)], **VLPL),
        lambda z, t: vlpl.vlpl(z, t, PSEUDO.tolist(), VLPL)),
    "gpr": (lambda z, t: gpr_loss(z, t, PSEUDO[: len(z)], **GPR),
        lambda z, t: gpr.gpr(z, t, PSEUDO.tolist(), GPR)),
    **{f"smile {known}": (
        lambda z, t, known=known: smile_loss(
            z, t, like(z, SOFT.clamp(min=0)), unknown_weight=0.3, known_positives=known),
        lambda z, t, known=known: smile.smile(z, t, SOFT.clamp(min=0).tolist(), 0.3, known),
    ) for known in ("soft", "one")},
    **{f"csl {mode}": (
        lambda z, t, mode=mode: csl_loss(
            z, t, mode=mode, topk=2, ignored_classes=torch.tensor(IGNORED), **CSL),
        lambda z, t, mode=mode: csl.csl(z, t, mode, 2, IGNORED, CSL),
    ) for mode in ("selective", "ignore", "ignore_normalize_classes", "negative")},
}  # fmt: skip
EQUAL |= {
    name: (loss, lambda z, t, sum_of=sum_of: sum_of(z, t) / 24) for name, (loss, sum_of) in SUMS.items()
}
# Factors that are constant in the derivative are covered by the contract suite and other tests.
HELD = ("role", "role samples", "soft opml product", "soft opml score", "pumlc", "pu", "pu rest", "gpr")


def value_and_gradient(name: str, z: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    z = z.detach().clone().requires_grad_()
    loss = EQUAL[name][0](z, target)
    return loss.detach(), torch.autograd.grad(loss, z)[0]


@pytest.mark.parametrize("name", EQUAL)
def test_the_loss_equals_the_slow_reference(name):
    loss, reference = EQUAL[name]
    assert loss(Z, TARGET).item() == pytest.approx(reference(A, TARGET.tolist()), rel=1e-12)


@pytest.mark.parametrize("name", [name for name in EQUAL if name not in HELD and not name.startswith("csl")])
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
def test_indices_equal_a_matrix_and_float32_equals_float64(name):
    matrix = torch.zeros_like(TARGET).scatter_(1, INDEX[:, None], 1)
    loss, gradient = value_and_gradient(name, Z, INDEX)
    torch.testing.assert_close(value_and_gradient(name, Z, matrix), (loss, gradient), rtol=1e-12, atol=1e-15)
    low, low_gradient = value_and_gradient(name, Z.float(), INDEX)
    assert low.item() == pytest.approx(loss.item(), rel=1e-5, abs=1e-6)
    assert (low_gradient.double() - gradient).abs().max() <= 1e-5 * gradient.abs().max()


@pytest.mark.parametrize("name", EQUAL)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_extreme_logits_are_finite(name, dtype):
    for target in (TARGET, INDEX, torch.zeros(4, 6, dtype=torch.int8)):
        for z in (*(Z.sign() * size for size in (1e4, 100, 15, 0)), torch.full_like(Z, 1e4), Z * 0 - 1e4):
            loss, gradient = value_and_gradient(name, z.to(dtype), target)
            assert (loss.dtype, gradient.dtype) == (torch.float32, dtype)
            assert torch.isfinite(loss)
            assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("name", EQUAL)
def test_an_empty_batch_is_zero_and_has_a_gradient(name):
    for shape in ((0,), (0, 6)):
        loss, gradient = value_and_gradient(name, torch.zeros(0, 6), torch.zeros(shape, dtype=torch.int64))
        assert loss.item() == 0
        assert gradient.shape == (0, 6)


@pytest.mark.parametrize("name", [name for name in EQUAL if not name.startswith("high rank")])
def test_soft_values_in_the_target_are_refused(name):
    with pytest.raises(TypeError, match="Soft targets"):
        EQUAL[name][0](Z, SOFT)


@pytest.mark.parametrize("name", ["zlpr", "opml", "opml unbounded", "soft opml constant", "softmax", "show"])
def test_a_row_without_a_known_positive_has_only_its_known_negatives(name):
    _, gradient = value_and_gradient(name, Z, TARGET)
    assert (gradient[1] == 0).all()
    assert (gradient[3, 1:5] == 0).all()
    known = gradient[3, [0, 5]]
    assert (known == 0 if name == "softmax" else known > 0).all()


def test_soft_targets_are_split_into_chunks_with_their_rows(monkeypatch):
    whole = value_and_gradient("em_apl", Z, INDEX)
    monkeypatch.setitem(elementwise._CHUNK, "cpu", 6)
    torch.testing.assert_close(value_and_gradient("em_apl", Z, INDEX), whole, rtol=1e-12, atol=1e-15)
