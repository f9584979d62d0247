"""Properties of every loss that is a sum over elements."""

from __future__ import annotations

import subprocess
import sys
from typing import get_args

import numpy as np
import pytest
import torch

from spml.losses import an_loss, em_loss, focal_loss, gr_loss, hill_loss, lasd_loss, smile_loss, splc_loss
from spml.losses._core import elementwise as module
from spml.losses._core.elementwise import elementwise
from spml.losses._core.terms import no_loss, positive_log_loss
from spml.losses.robust import InstanceWeight, PseudoLabel
from tests.reference.gr import gr

LOSSES = {"an": an_loss, "em": em_loss, "gr": gr_loss}
GR = {"w": 2.0, "b": -2.0, "mu": 0.8, "sigma": 0.5, "q1": 0.0, "q2": 0.01, "q3": 1.0}
GR |= {"a": 0.4, "tau": 0.6, "share": 0.3, "tau_low": 0.3, "tau_high": 0.8, "degree": 1.5}
TARGET = torch.tensor([[1, 0, -1, 0, 1], [0, 0, 0, 0, 0], [-1, -1, 1, 0, 0]], dtype=torch.int8)


@pytest.fixture
def logits() -> torch.Tensor:
    return 3 * torch.randn(3, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("k", get_args(PseudoLabel))
@pytest.mark.parametrize("v", get_args(InstanceWeight))
@pytest.mark.parametrize("q", [{}, {"q1": 0.01, "q2": 0.7, "q3": 1.5}, {"q2": 0.0, "q3": 0.0}])
def test_gr_equals_the_slow_reference(logits, k, v, q):
    hp = GR | q
    expected = gr(logits.tolist(), TARGET.tolist(), k, v, hp)
    assert gr_loss(logits, TARGET, k=k, v=v, **hp).item() == pytest.approx(expected, rel=1e-12)


def test_gr_gives_learned_weights_the_gradient_of_autograd(logits):
    start = {"w": 2.0, "b": -1.0, "mu": 0.7, "sigma": 0.6}
    learned = {
        n: torch.full((5,), value, dtype=torch.float64, requires_grad=True) for n, value in start.items()
    }
    gr_loss(logits, TARGET, **learned).backward()
    step = 1e-6
    for name, tensor in learned.items():
        for column in range(5):
            sides = []
            for sign in (1, -1):
                moved = {n: t.detach().clone() for n, t in learned.items()}
                moved[name][column] += sign * step
                sides.append(gr_loss(logits, TARGET, **moved).item())
            assert tensor.grad[column].item() == pytest.approx((sides[0] - sides[1]) / (2 * step), abs=1e-9)


def test_learned_and_constant_weights_give_the_same_gradient_on_logits(logits):
    def gradient(w):
        z = logits.clone().requires_grad_()
        gr_loss(z, TARGET, w=w).backward()
        return z.grad

    learned, constant = gradient(torch.tensor(2.0, requires_grad=True)), gradient(2.0)
    torch.testing.assert_close(learned, constant, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", LOSSES)
def test_chunks_do_not_change_loss_or_gradient(name, monkeypatch):
    logits = torch.randn(37, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    target = torch.randint(0, 6, (37,), generator=torch.Generator().manual_seed(2))

    def run(size):
        monkeypatch.setitem(module._CHUNK, "cpu", size)
        z = logits.clone().requires_grad_()
        loss = LOSSES[name](z, target)
        loss.backward()
        return loss.item(), z.grad

    loss, gradient = run(10_000)
    for size in (1, 6, 50):
        assert run(size)[0] == pytest.approx(loss, rel=1e-12)
        torch.testing.assert_close(run(size)[1], gradient, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", LOSSES)
def test_reductions(name, logits):
    loss = LOSSES[name]
    each = loss(logits, TARGET, reduction="none")
    assert each.shape == (3, 5)
    assert loss(logits, TARGET, reduction="sum").item() == pytest.approx(each.sum().item(), rel=1e-12)
    assert loss(logits, TARGET, reduction="mean").item() == pytest.approx(each.mean().item(), rel=1e-12)
    z = logits.clone().requires_grad_()
    weights = torch.rand(3, 5, dtype=torch.float64)
    (loss(z, TARGET, reduction="none") * weights).sum().backward()
    z2 = logits.clone().requires_grad_()
    loss(z2, TARGET, reduction="sum").backward()
    assert torch.allclose(z.grad, z2.grad * weights, rtol=1e-12)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_logits_are_computed_in_float32(name, dtype):
    z = torch.linspace(-12, 12, 40).reshape(4, 10).to(dtype).requires_grad_()
    target = torch.tensor([0, 3, 5, 9])
    loss = LOSSES[name](z, target)
    loss.backward()
    wide = z.detach().float().requires_grad_()
    expected = LOSSES[name](wide, target)
    expected.backward()
    assert loss.dtype == torch.float32
    assert loss.item() == expected.item()
    assert z.grad.dtype == dtype
    assert torch.equal(z.grad, wide.grad.to(dtype))


@pytest.mark.parametrize("loss", [an_loss, hill_loss, splc_loss])
@pytest.mark.parametrize("dtype", [torch.int8, torch.int64])
@pytest.mark.parametrize("rows", [slice(0, 3), slice(0, 1), slice(1, 2), slice(2, 3)])
def test_where_positives_cannot_be_counted_the_result_is_the_same(loss, dtype, rows, logits, monkeypatch):
    """On CPU known positives are looked up; elsewhere every element is computed as if it were one."""
    results = []
    for compiling in (False, True):
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda value=compiling: value)
        # Of a transposed matrix, because positions count rows first.
        z = logits[rows].T.contiguous().requires_grad_()
        value = loss(z.T, TARGET[rows].to(dtype), reduction="none")
        value.sum().backward()
        results.append((value.detach(), z.grad))
    torch.testing.assert_close(*results, rtol=1e-12, atol=1e-15)
    assert results[0][1].abs().min() > 0


def test_without_known_negatives_their_term_is_not_computed(logits):
    def unexpected(x):
        raise AssertionError("computed")

    terms = {"positive": positive_log_loss, "unknown": no_loss, "negative": unexpected}
    for target in (torch.tensor([1, 0, 4]), (TARGET > 0).to(torch.int8)):
        assert elementwise(logits, target, **terms).item() > 0
    with pytest.raises(AssertionError, match="computed"):
        elementwise(logits, TARGET, **terms)


@pytest.mark.parametrize("target", [torch.tensor([1, 0, 4]), (TARGET > 0).to(torch.int8)])
def test_a_term_may_return_its_inputs(logits, target):
    soft = torch.rand(3, 5, dtype=torch.float64)
    before = logits.clone(), soft.clone()

    def unknown(x):
        return x.z, x.constants["soft"]

    z = logits.requires_grad_()
    loss = elementwise(
        z, target, positive=positive_log_loss, unknown=unknown, reduction="none", constants={"soft": soft}
    )
    loss.backward(torch.full_like(loss, 2.0))
    assert torch.equal(z.detach(), before[0])
    assert torch.equal(soft, before[1])
    positive = torch.zeros(3, 5).scatter_(1, target[:, None], 1) if target.ndim == 1 else target
    assert torch.equal(loss.detach()[positive == 0], before[0][positive == 0])
    assert torch.equal(z.grad[positive == 0], 2 * before[1][positive == 0])
    expected = -torch.nn.functional.logsigmoid(before[0])
    torch.testing.assert_close(loss.detach()[positive == 1], expected[positive == 1])


@pytest.mark.parametrize("z", [-700.0, -40.0, -1e-9, 15.0, 21.0, 36.0, 37.5, 1e4])
def test_focal_losses_keep_their_digits_at_all_logits(z):
    p, loss = 1 / (1 + np.exp(-z)), np.logaddexp(0.0, z)
    logits = torch.tensor([[z, -z]], dtype=torch.float64)
    each = focal_loss(logits, torch.tensor([1]), reduction="none")[0].tolist()
    assert each == pytest.approx([p**2 * loss] * 2, rel=1e-14, abs=1e-300)
    each = splc_loss(logits, torch.tensor([1]), margin=0.0, tau=1.0, reduction="none")[0].tolist()
    assert each == pytest.approx([p**2 * loss] * 2, rel=1e-14, abs=1e-300)


@pytest.mark.parametrize("z", [-30.0, -5.0, 0.5, 20.0, 30.0])
@pytest.mark.parametrize("share", [0.0, 1.0])
def test_cross_entropy_keeps_its_digits_where_the_soft_label_is_certain(z, share):
    logits = torch.tensor([[0.0, z]], requires_grad=True)
    loss = smile_loss(logits, torch.tensor([0]), torch.full((1, 2), share), reduction="none")[0, 1]
    assert loss.item() == pytest.approx(np.logaddexp(0.0, -z if share else z), rel=1e-6)


@pytest.mark.parametrize("z", [-30.0, -5.0, 0.5, 20.0, 30.0])
def test_the_loss_of_a_label_and_its_gradient_keep_their_digits(z):
    logits = torch.tensor([[-z, z]], requires_grad=True)
    each = an_loss(logits, torch.tensor([1]), reduction="none")
    each.sum().backward()
    assert each[0].tolist() == pytest.approx([np.logaddexp(0.0, -z)] * 2, rel=1e-6)
    assert logits.grad[0].tolist() == pytest.approx([1 / (1 + np.exp(z)), -1 / (1 + np.exp(z))], rel=1e-6)


def test_an_ignored_element_has_no_loss_and_no_gradient(logits):
    z = logits.clone().requires_grad_()
    loss = elementwise(z, TARGET, positive=positive_log_loss, unknown=no_loss, reduction="sum")
    loss.backward()
    assert (z.grad[TARGET == 0] == 0).all()
    assert (z.grad[TARGET != 0] != 0).all()


def test_a_second_derivative_is_refused(logits):
    z = logits.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(an_loss(z, TARGET), z, create_graph=True)
    with pytest.raises(RuntimeError, match="second derivative is not supported"):
        gradient.sum().backward()


def test_gradcheck_through_a_foreign_graph():
    weight = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    features = torch.randn(3, 4, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda w: an_loss(features @ w, TARGET), weight)


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        (torch.tensor([0, 1]), ValueError, r"shape \(3,\) or \(3, 5\)"),
        (torch.tensor([0, 1, 5]), ValueError, "0 ... 4, got 0 ... 5"),
        (torch.tensor([0, 1, -1]), ValueError, "0 ... 4, got -1 ... 1"),
        (torch.tensor([0, 1, 2], dtype=torch.int32), TypeError, "int64"),
        (torch.zeros(3, 5), TypeError, "Soft targets"),
        (torch.zeros(3, 5, dtype=torch.bool), TypeError, "known negative is -1"),
        (torch.full((3, 5), 2, dtype=torch.int8), ValueError, "-1 ... 1, got 2 ... 2"),
    ],
)
def test_wrong_targets_are_refused(logits, target, error, message):
    with pytest.raises(error, match=message):
        an_loss(logits, target)


def test_wrong_logits_and_arguments_are_refused(logits):
    with pytest.raises(ValueError, match="floating point of shape"):
        an_loss(logits[0], torch.tensor(0))
    for wrong in ({"sigma": 0}, {"tau_high": 2}, {"tau_low": 0.8}):
        with pytest.raises(ValueError, match="must"):
            gr_loss(logits, TARGET, **wrong)


def test_losses_import_no_other_part_of_the_package():
    """The losses can be used in any training loop."""
    script = (
        "import sys, torch\n"
        "from spml.losses import gr_loss\n"
        "model = torch.nn.Linear(4, 6)\n"
        "loss = gr_loss(model(torch.randn(8, 4)), torch.randint(6, (8,)))\n"
        "loss.backward()\n"
        "assert model.weight.grad.abs().sum() > 0\n"
        "ours = sorted(m for m in sys.modules if m.split('.')[0] == 'spml')\n"
        "assert all(m == 'spml' or m.startswith('spml.losses') for m in ours), ours\n"
        "foreign = {'lightning_fabric', 'timm', 'torchvision', 'sklearn', 'matplotlib', 'rich'}\n"
        "assert not foreign & set(sys.modules), foreign & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("loss", [gr_loss, em_loss, lasd_loss])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_a_retained_graph_gives_the_same_gradient_again(loss, reduction):
    """The stored slope becomes the first gradient in place, so the second one has to be recomputed."""
    logits = torch.randn(5, 7, dtype=torch.float64).requires_grad_()
    value = loss(logits, torch.arange(5), reduction=reduction)
    weight = torch.full_like(value, 3.0)
    (first,) = torch.autograd.grad(value, logits, weight, retain_graph=True)
    copy = first.clone()
    (second,) = torch.autograd.grad(value, logits, weight)
    assert torch.equal(first, copy)
    assert torch.equal(second, copy)
    assert copy.abs().max() > 0


@pytest.mark.parametrize("loss", [an_loss, gr_loss, em_loss, hill_loss, lasd_loss, splc_loss])
@pytest.mark.parametrize("matrix", [False, True])
def test_losses_compile_as_one_graph(loss, matrix):
    logits, target = torch.randn(6, 9).requires_grad_(), torch.arange(6)
    if matrix:
        target = torch.zeros(6, 9, dtype=torch.int8).scatter_(1, target[:, None], 1)
    torch.compiler.reset()
    compiled = torch.compile(loss, backend="eager", fullgraph=True)
    found, expected = compiled(logits, target), loss(logits, target)
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad(value, logits)[0] for value in (found, expected)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8, torch.bool])
def test_a_target_of_another_type_is_told_how_to_convert(dtype):
    target = torch.tensor([[1, 0], [0, 1]])
    with pytest.raises(TypeError, match=r"pass target\.long\(\)"):
        an_loss(torch.zeros(2, 2), target.to(dtype))
    assert an_loss(torch.zeros(2, 2), target.to(dtype).long()) == an_loss(torch.zeros(2, 2), target)
