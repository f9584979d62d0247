"""GR: its soft pseudo-labels k and instance weights v, by hand and at their limits."""

from __future__ import annotations

import math
from typing import get_args

import pytest
import torch
from torch.nn.functional import logsigmoid

from spml.common.errors import InputError
from spml.losses import gr_loss, iu_loss
from spml.losses.robust import InstanceWeight, PseudoLabel
from spml.methods.registry import create
from tests.reference.gr import gr_unknown, robust_loss

FORMS = [(k, "gaussian") for k in get_args(PseudoLabel)] + [("logistic", v) for v in get_args(InstanceWeight)]
HP = {"w": 3.0, "b": -2.0, "mu": 0.7, "sigma": 0.6, "q2": 0.01, "q3": 1.5, "a": 0.4, "tau": 0.6, "share": 0.3}
HP |= {"tau_low": 0.3, "tau_high": 0.8, "degree": 1.5}
UNKNOWN = torch.zeros(1, 3, dtype=torch.int8)


def logits_of(*p: float) -> torch.Tensor:
    return torch.logit(torch.tensor([p], dtype=torch.float64))


def k_of(p: list[float], **hp: float | str) -> list[float]:
    """k, as -dL/dz / (p (1 - p)) where L2 = p^0 and the gradient of L3 is divided out: both MAE losses."""
    z = logits_of(*p).requires_grad_()
    gr_loss(
        z, torch.zeros(1, len(p), dtype=torch.int8), v="one", q2=1, q3=1, reduction="sum", **hp
    ).backward()
    spread = z.detach().sigmoid() * (1 - z.detach().sigmoid())
    # dL/dz = [(1 - k) (1 - p) p - k p (1 - p)] = (1 - 2 k) p (1 - p).
    return ((1 - z.grad / spread) / 2)[0].tolist()


def test_step_is_one_half_at_its_threshold():
    # z = 0 is p = 1/2 exactly, in every dtype. Eq. 8: 0 below tau, 1/2 at tau, 1 above.
    for dtype in (torch.float16, torch.float32, torch.float64):
        z = torch.tensor([[-0.01, 0.0, 0.01]], dtype=dtype)
        loss = gr_loss(z, UNKNOWN, k="step", tau=0.5, v="one", q2=0, q3=0, reduction="none").double()
        wide = z.double()
        expected = [-logsigmoid(-wide[0, 0]), math.log(2), -logsigmoid(wide[0, 2])]
        assert loss[0].tolist() == pytest.approx([float(value) for value in expected], rel=1e-6)
    assert k_of([0.2, 0.5, 0.8], k="step", tau=0.5) == pytest.approx([0, 0.5, 1], abs=1e-12)


def test_two_thresholds_are_equations_15_to_17():
    z = torch.tensor([[-3.0, 0.0, 3.0, 0.5, -0.5]], dtype=torch.float64)
    p = z.sigmoid()
    low, high = float(p[0, 4]), float(p[0, 3])
    target = torch.tensor([[0, 0, 0, 0, 0]])
    # The labels that IU sees: negatives up to tau_low, positives from tau_high on, both ends included.
    inferred = torch.tensor([[-1, 0, 1, 1, -1]])
    hp = {"k": "thresholds", "v": "thresholds", "tau_low": low, "tau_high": high, "q2": 0, "q3": 0}
    found, expected = (
        gr_loss(z, target, reduction="none", **hp),
        iu_loss(z, inferred, reduction="none"),
    )
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    assert found[0, 1] == 0
    z.requires_grad_()
    (gradient,) = torch.autograd.grad(gr_loss(z, target, reduction="sum", **hp), z)
    torch.testing.assert_close(gradient, torch.where(inferred == 0, 0, p - (inferred == 1).double()))


def test_a_high_threshold_of_one_ignores_labels_of_which_the_model_is_sure():
    """EN: negatives below a threshold, no pseudo-positives, also where p is rounded to 1."""
    z = torch.tensor([[-2.0, 2.0, 1e4]]).requires_grad_()
    loss = gr_loss(z, UNKNOWN, k="thresholds", v="thresholds", tau_low=0.5, tau_high=1, q3=0, reduction="sum")
    loss.backward()
    assert loss.item() == pytest.approx(math.log1p(math.exp(-2)), rel=1e-6)
    assert z.grad[0].tolist() == pytest.approx([1 / (1 + math.exp(2)), 0, 0], rel=1e-6)


@pytest.mark.parametrize(("k", "v"), FORMS)
def test_k_and_v_are_constant_in_the_derivative(k, v):
    z = torch.tensor([[-2.0, 0.3, 1.9]], dtype=torch.float64, requires_grad=True)
    gr_loss(z, UNKNOWN, k=k, v=v, reduction="sum", **HP).backward()
    for column, at in enumerate(z[0].tolist()):
        sides = [gr_unknown(at + step, at, k, v, HP) for step in (1e-6, -1e-6)]
        assert z.grad[0, column].item() == pytest.approx((sides[0] - sides[1]) / 2e-6, abs=1e-8)


@pytest.mark.parametrize(("k", "v"), FORMS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_extreme_logits_are_finite_and_indices_equal_a_matrix(k, v, dtype):
    target = torch.tensor([1, 0])
    matrix = torch.zeros(2, 4, dtype=torch.int8).scatter_(1, target[:, None], 1)
    for hp in (HP, {**HP, "w": 1e4, "b": -1e4, "sigma": 1e-3}, {**HP, "w": -1e4, "b": 1e4}):
        for size in (1e4, 20.0, 0.0):
            z = (size * torch.tensor([[1.0, -1.0, 1.0, -1.0], [0.5, 1.0, 0.0, -1.0]])).to(dtype)
            results = []
            for labels in (target, matrix):
                z = z.detach().requires_grad_()
                loss = gr_loss(z, labels, k=k, v=v, **hp)
                loss.backward()
                results.append((loss.detach(), z.grad))
            assert torch.isfinite(results[0][0])
            assert torch.isfinite(results[0][1]).all()
            torch.testing.assert_close(results[0], results[1])
    empty = torch.zeros(0, 4, dtype=dtype, requires_grad=True)
    assert gr_loss(empty, torch.zeros(0, dtype=torch.int64), k=k, v=v, **HP).item() == 0


@pytest.mark.parametrize(("k", "v"), [("polynomial", "polynomial"), ("exponential", "exponential")])
def test_learned_parameters_of_other_forms_get_a_gradient(k, v):
    z = torch.tensor([[-2.0, 0.3, 1.9], [0.2, -1.0, 0.4]], dtype=torch.float64)
    target = torch.tensor([0, 2])
    start = {"w": 2.0, "b": -1.0, "mu": 0.7, "sigma": 0.6}

    def loss(*learned):
        return gr_loss(z, target, k=k, v=v, **dict(zip(start, learned, strict=True)))

    values = [torch.full((3,), value, dtype=torch.float64, requires_grad=True) for value in start.values()]
    loss(*values).backward()
    for position, tensor in enumerate(values):
        assert tensor.grad.abs().max() > 1e-4
        for column in range(3):
            sides = []
            for step in (1e-6, -1e-6):
                moved = [value.detach().clone() for value in values]
                moved[position][column] += step
                sides.append(loss(*moved).item())
            assert tensor.grad[column].item() == pytest.approx((sides[0] - sides[1]) / 2e-6, abs=1e-8)
    single = [torch.tensor(value, dtype=torch.float64) for value in start.values()]
    assert loss(*single).item() == pytest.approx(loss(*values).item(), rel=1e-12)
    assert loss(*start.values()).item() == pytest.approx(loss(*values).item(), rel=1e-12)


@pytest.mark.parametrize(
    "form", [{"k": "polynomial", "v": "exponential"}, {"k": "thresholds", "v": "thresholds"}]
)
def test_the_forms_compile_as_one_graph(form):
    z, target = torch.randn(6, 9, generator=torch.Generator().manual_seed(0)), torch.arange(6)
    torch.compiler.reset()
    compiled = torch.compile(lambda z: gr_loss(z, target, **form), backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(z), gr_loss(z, target, **form))


# -- other robust losses ---------------------------------------------------------------------------------

AN = {"k": "constant", "share": 0.0, "v": "one"}
ROBUST = [
    ("taylor", {"order": 1}),
    ("taylor", {"order": 5}),
    ("sce", {"alpha": 2.0, "beta": 0.3, "log_zero": -4.0}),
    ("nce", {"alpha": 2.0, "beta": 0.3, "log_zero": -4.0}),
    ("nfl", {"gamma": 2.0, "alpha": 0.5, "beta": 0.1, "log_zero": -1.0}),
    ("nfl", {"gamma": 0.5, "alpha": 1.0, "beta": 0.0, "log_zero": -1.0}),
    ("ngce", {"q": 0.3, "alpha": 1.0, "beta": 2.0, "log_zero": -1.0}),
]


def each(z: torch.Tensor, positive: bool, robust: str, constants: dict[str, float], **hp) -> torch.Tensor:
    target = torch.full(z.shape, int(positive), dtype=torch.int8)
    settings = {**AN, "robust": robust, "constants": constants, "reduction": "none", **hp}
    return gr_loss(z, target, **settings)


@pytest.mark.parametrize(("robust", "constants"), ROBUST)
def test_robust_losses_are_those_of_the_reference(robust, constants):
    z = torch.tensor([[-9.0, -2.0, -0.1, 0.0, 0.7, 3.0, 9.0]], dtype=torch.float64, requires_grad=True)
    for sign in (1, -1):
        loss = each(z, sign == 1, robust, constants)
        expected = [robust_loss(value, sign, robust, constants) for value in z[0].tolist()]
        assert loss[0].tolist() == pytest.approx(expected, rel=1e-9)
        (gradient,) = torch.autograd.grad(loss.sum(), z)
        step = 1e-6
        sides = [
            [robust_loss(value + side * step, sign, robust, constants) for value in z[0].tolist()]
            for side in (1, -1)
        ]
        numerical = [(up - down) / (2 * step) for up, down in zip(*sides, strict=True)]
        assert gradient[0].tolist() == pytest.approx(numerical, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(("robust", "constants"), ROBUST)
def test_an_unknown_label_has_a_mixture_of_both_robust_losses(robust, constants):
    z = torch.tensor([[-2.0, 0.7, 3.0]], dtype=torch.float64)
    settings = {"k": "constant", "share": 0.3, "v": "gaussian", "mu": 0.6, "sigma": 0.4}
    loss = gr_loss(z, UNKNOWN, robust=robust, constants=constants, reduction="none", **settings)
    mixed = 0.3 * each(z, True, robust, constants) + 0.7 * each(z, False, robust, constants)
    weight = torch.exp(-((z.sigmoid() - 0.6) ** 2) / (2 * 0.4**2))
    torch.testing.assert_close(loss, weight * mixed, rtol=1e-12, atol=0)


def test_defaults_of_the_constants():
    z = torch.tensor([[-1.0, 0.5]], dtype=torch.float64)
    log_zero = math.log(1e-4)
    for robust, constants in (
        ("taylor", {"order": 2}),
        ("sce", {"alpha": 0.1, "beta": 1, "log_zero": log_zero}),
        ("nce", {"alpha": 1, "beta": 1, "log_zero": log_zero}),
        ("nfl", {"gamma": 0.5, "alpha": 1, "beta": 1, "log_zero": log_zero}),
        ("ngce", {"q": 0.7, "alpha": 1, "beta": 1, "log_zero": log_zero}),
    ):
        assert torch.equal(each(z, True, robust, {}), each(z, True, robust, constants))


@pytest.mark.parametrize(("robust", "constants"), ROBUST)
def test_robust_losses_of_extreme_logits_and_in_low_precision(robust, constants):
    z = torch.tensor([[-20.0, -3.0, 0.2, 3.0, 20.0]], dtype=torch.float64)
    for positive in (True, False):
        exact = each(z, positive, robust, constants)
        low = each(z.float(), positive, robust, constants)
        torch.testing.assert_close(low.double(), exact, rtol=1e-5, atol=1e-6)
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            extreme = torch.tensor([[-6e4, -800.0, -100.0, 100.0, 800.0, 6e4]], dtype=dtype).requires_grad_()
            loss = each(extreme, positive, robust, constants)
            loss.sum().backward()
            assert loss.isfinite().all()
            assert extreme.grad.isfinite().all()
            # Every step moves towards the label.
            assert ((extreme.grad <= 0) if positive else (extreme.grad >= 0)).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"robust": "hinge"}, "robust must be one of gce, taylor, sce, nce, nfl, ngce, got 'hinge'"),
        ({"constants": {"q": 0.7}}, "constants of robust='gce': none, got 'q'"),
        ({"robust": "nce", "constants": {"q": 1}}, "robust='nce': alpha, beta, log_zero, got 'q'"),
        ({"robust": "nce", "constants": {"alpha": "one"}}, "must be numbers, got alpha='one'"),
        ({"robust": "nce", "constants": 3}, "constants must be numbers by name, such as {beta: 1}, got 3"),
        ({"robust": "nce", "constants": {"beta": -1}}, "beta must be at least 0"),
        ({"robust": "sce", "constants": {"log_zero": 4}}, "log_zero must be at most 0, got 4"),
        ({"robust": "nfl", "constants": {"gamma": -1}}, "gamma must be at least 0"),
        ({"robust": "ngce", "constants": {"q": 0}}, "q must be greater than 0"),
        (
            {"robust": "taylor", "constants": {"order": 1.5}},
            "must be a whole number, at least 1, got 1.5",
        ),
        ({"robust": "taylor", "constants": {"order": 0}}, "order must be"),
    ],
)
def test_wrong_robust_losses_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        gr_loss(torch.zeros(1, 3), UNKNOWN, **settings)
    with pytest.raises(InputError, match=f"method 'gr': .*{message}"):
        create("gr", settings)
