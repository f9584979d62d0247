"""Losses of whole rows or columns: many classes are evaluated in parts, with the result of the whole."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from spml.losses import expected_labels, large_loss_mask, ll_loss, pumlc_loss, show_loss
from spml.losses._core import rows as module

GENERATOR = torch.Generator().manual_seed(0)
LOGITS = 2 * torch.randn(5, 7, generator=GENERATOR, dtype=torch.float64)
INDEX = torch.tensor([0, 6, 3, 3, 1])
MATRIX = torch.randint(-1, 2, (5, 7), generator=GENERATOR, dtype=torch.int8)
SHOW = partial(show_loss, mean_labels=1.5)
LOSSES = {
    "pumlc": pumlc_loss,
    "pumlc none": lambda z, t: pumlc_loss(z, t, reduction="none") @ torch.arange(7, dtype=torch.float64),
    "show": SHOW,
    "expected labels": partial(expected_labels, mean_labels=1.5, shifted=False),
}


def value_and_gradient(loss, target, dtype=torch.float64):
    z = LOGITS.detach().clone().to(dtype).requires_grad_()
    value = loss(z, target)
    (gradient,) = torch.autograd.grad(3 * value, z)
    assert gradient.dtype == dtype
    return value.detach(), gradient


@pytest.mark.parametrize("target", [INDEX, MATRIX], ids=["index", "matrix"])
@pytest.mark.parametrize("name", LOSSES)
def test_parts_give_the_value_and_gradient_of_the_whole(name, target, monkeypatch):
    whole = value_and_gradient(LOSSES[name], target)
    for size in (1, 14, 20):
        monkeypatch.setitem(module._CHUNK, "cpu", size)
        part = value_and_gradient(LOSSES[name], target)
        torch.testing.assert_close(part, whole, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("loss", [pumlc_loss, SHOW], ids=["pumlc", "show"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32_in_parts(loss, dtype, monkeypatch):
    whole = value_and_gradient(loss, INDEX, dtype)
    monkeypatch.setitem(module._CHUNK, "cpu", 14)
    value, gradient = value_and_gradient(loss, INDEX, dtype)
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(whole[0].item(), rel=1e-6)
    torch.testing.assert_close(gradient, whole[1], rtol=0.01, atol=1e-6)


@pytest.mark.parametrize("loss", [pumlc_loss, SHOW], ids=["pumlc", "show"])
def test_a_retained_graph_gives_the_same_gradient_again(loss, monkeypatch):
    monkeypatch.setitem(module._CHUNK, "cpu", 14)
    z = LOGITS.clone().requires_grad_()
    value = loss(z, INDEX)
    (first,) = torch.autograd.grad(3 * value, z, retain_graph=True)
    first = first.clone()
    assert torch.equal(first, torch.autograd.grad(3 * value, z)[0])


@pytest.mark.parametrize("loss", [pumlc_loss, SHOW], ids=["pumlc", "show"])
def test_a_second_derivative_of_parts_is_refused(loss, monkeypatch):
    monkeypatch.setitem(module._CHUNK, "cpu", 14)
    z = LOGITS.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(z, INDEX), z, create_graph=True)
    torch.testing.assert_close(3 * gradient, value_and_gradient(loss, INDEX)[1], rtol=1e-12, atol=1e-15)
    with pytest.raises(RuntimeError, match="second derivative is not supported"):
        gradient.sum().backward()


def test_without_a_gradient_none_is_computed(monkeypatch):
    monkeypatch.setitem(module._CHUNK, "cpu", 14)
    monkeypatch.setattr(torch.autograd, "grad", None)
    with torch.no_grad():
        assert torch.isfinite(pumlc_loss(LOGITS, INDEX))


@pytest.mark.parametrize("target", [INDEX, MATRIX], ids=["index", "matrix"])
@pytest.mark.parametrize("rate", [0.01, 0.2, 0.9, 1.0])
def test_the_cut_of_large_losses_is_that_of_compiled_code(rate, target, monkeypatch):
    """On CPU it is found in place, elsewhere and in compiled code by another function."""
    z = LOGITS.float()
    z[2:4] = z[0]  # equal logits
    found = [large_loss_mask(z, target, rate=rate), ll_loss(z, target, rate=rate, reduction="none")]
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    expected = [large_loss_mask(z, target, rate=rate), ll_loss(z, target, rate=rate, reduction="none")]
    assert torch.equal(found[0], expected[0])
    assert found[0].any()
    torch.testing.assert_close(found[1], expected[1])


@pytest.mark.parametrize("rate", [0.001, 0.13, 0.7])
def test_the_cut_is_the_kth_largest_logit(rate):
    z = torch.randn(40, 50, generator=torch.Generator().manual_seed(3))
    target = torch.randint(50, (40,), generator=torch.Generator().manual_seed(4))
    unknown = z.scatter(1, target[:, None], -torch.inf)
    cut = unknown.flatten().sort(descending=True).values[round(2000 * rate) - 1]
    assert torch.equal(large_loss_mask(z, target, rate=rate), unknown >= cut)


def test_the_cut_of_a_transposed_tensor_is_the_same():
    z, target = torch.randn(30, 40, generator=torch.Generator().manual_seed(5)), torch.arange(30)
    found = large_loss_mask(z.T.contiguous().T, target, rate=0.13)
    assert torch.equal(found, large_loss_mask(z, target, rate=0.13))
