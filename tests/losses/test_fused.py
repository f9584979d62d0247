"""Losses over chunks of classes of a linear layer: the value and gradients of the plain loss."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch.nn.functional import linear
from torch.utils._python_dispatch import TorchDispatchMode

from spml import losses
from spml.losses import GRLoss, an_loss, em_apl_loss, fused_linear_loss, gr_loss, softmax_loss
from spml.losses._core import linear as linear_module
from tests.helpers.losses import FUNCTIONS

ROWS, CLASSES, FEATURES = 4, 7, 3
GENERATOR = torch.Generator().manual_seed(0)
FEATURES_OF_ROWS = torch.randn(ROWS, FEATURES, generator=GENERATOR, dtype=torch.float64)
WEIGHT = torch.randn(CLASSES, FEATURES, generator=GENERATOR, dtype=torch.float64)
BIAS = torch.randn(CLASSES, generator=GENERATOR, dtype=torch.float64)
INDEX = torch.tensor([0, 6, 3, 3])
MATRIX = torch.tensor(
    [[1, 0, -1, 0, 0, 1, -1], [0] * 7, [0, 0, 1, 1, 0, -1, 0], [-1, 0, 0, 0, 0, 0, 0]], dtype=torch.int8
)
SOFT = torch.rand(ROWS, CLASSES, generator=GENERATOR, dtype=torch.float64)
PSEUDO = torch.randint(-1, 2, (ROWS, CLASSES), generator=GENERATOR)

SEPARABLE = {
    "an_loss": {},
    "an_ls_loss": {},
    "asl_loss": {},
    "cost_sensitive_loss": {},
    "csl_loss": {"mode": "ignore_normalize_classes"},
    "em_apl_loss": {"soft": torch.where(SOFT > 0.5, SOFT, -1)},
    "em_loss": {},
    "entmin_loss": {},
    "focal_loss": {"margin": 1.0},
    "gpr_loss": {"pseudo": PSEUDO},
    "gr_loss": {},
    "hill_loss": {},
    "iu_loss": {},
    "las_loss": {},
    "lasd_full_loss": {},
    "lasd_loss": {"tau": 0.5},
    "mime_loss": {"mean": SOFT, "std": SOFT + 1, "beta": 0.1},
    "n_ls_loss": {},
    "pr_loss": {},
    "smile_loss": {"soft": SOFT},
    "splc_loss": {},
    "vlpl_loss": {"pseudo": PSEUDO},
    "wan_loss": {},
}
NEEDS_ALL = {
    "csl_loss": {},
    "crisp_loss": {"prior": SOFT[0]},
    "epr_loss": {"mean_labels": 1.5},
    "ignore_loss": {"strong_logits": SOFT},
    "ll_loss": {"rate": 0.2},
    "opml_loss": {},
    "plc_loss": {"strong_logits": SOFT},
    "pu_loss": {"prior": SOFT[0]},
    "pumlc_loss": {},
    "role_loss": {"estimates": SOFT, "mean_labels": 1.5},
    "show_loss": {"mean_labels": 1.5},
    "smile_image_loss": {"drawn": SOFT, "mean": SOFT, "std": SOFT + 1, "a": SOFT + 1, "b": SOFT + 1},
    "soft_opml_loss": {},
    "softmax_loss": {},
    "zlpr_loss": {},
}


def inputs(dtype=torch.float64):
    parts = FEATURES_OF_ROWS, WEIGHT, BIAS
    return [part.detach().to(dtype).clone().requires_grad_() for part in parts]


def value_and_gradients(loss, tensors, factor=1.0):
    value = loss(*tensors)
    return value.detach(), torch.autograd.grad(factor * value, tensors)


def test_every_loss_is_tested():
    assert sorted({*SEPARABLE, *NEEDS_ALL}) == sorted(FUNCTIONS)


@pytest.mark.parametrize("target", [INDEX, MATRIX], ids=["index", "matrix"])
@pytest.mark.parametrize("chunk", [1, 3, None])
@pytest.mark.parametrize("name", SEPARABLE)
def test_value_and_gradients_are_those_of_the_plain_loss(name, chunk, target):
    loss = partial(getattr(losses, name), **SEPARABLE[name])
    plain = value_and_gradients(lambda x, w, b: loss(linear(x, w, b), target), inputs(), 3.0)
    fused = value_and_gradients(
        lambda x, w, b: fused_linear_loss(x, w, b, target, loss=loss, chunk=chunk), inputs(), 3.0
    )
    torch.testing.assert_close(fused[0], plain[0], rtol=1e-12, atol=0)
    for found, expected in zip(fused[1], plain[1], strict=True):
        assert expected.abs().max() > 0
        assert (found - expected).abs().max() <= 1e-12 * expected.abs().max()


@pytest.mark.parametrize("name", NEEDS_ALL)
def test_a_loss_of_whole_rows_or_batches_is_refused(name):
    loss = partial(getattr(losses, name), **NEEDS_ALL[name])
    with pytest.raises(TypeError, match="needs all logits at once"):
        fused_linear_loss(*inputs(), INDEX, loss=loss)


def test_own_functions_of_torch_are_refused():
    with pytest.raises(TypeError, match="needs all logits at once"):
        fused_linear_loss(*inputs(), INDEX, loss=lambda logits, target: torch.sigmoid(logits).sum())


def test_the_gradient_equals_a_numerical_one():
    assert torch.autograd.gradcheck(lambda *t: fused_linear_loss(*t, INDEX, loss=an_loss, chunk=2), inputs())


@pytest.mark.parametrize("wanted", [(True, False, False), (False, True, False), (False, False, True)])
def test_only_wanted_gradients_are_computed(wanted):
    tensors = inputs()
    for tensor, want in zip(tensors, wanted, strict=True):
        tensor.requires_grad_(want)
    fused_linear_loss(*tensors, INDEX, loss=an_loss, chunk=2).backward()
    an_loss(linear(*(reference := inputs())), INDEX).backward()
    for tensor, want, expected in zip(tensors, wanted, reference, strict=True):
        assert (tensor.grad is not None) == want
        if want:
            torch.testing.assert_close(tensor.grad, expected.grad, rtol=1e-12, atol=1e-15)


def test_without_bias_and_with_the_loss_as_a_module():
    features, weight, _ = inputs()
    found = fused_linear_loss(features, weight, None, INDEX, loss=GRLoss(q2=0.5, reduction="sum"), chunk=2)
    expected = gr_loss(features @ weight.T, INDEX, q2=0.5, reduction="sum")
    assert found.item() == pytest.approx(expected.item(), rel=1e-12)


def test_a_retained_graph_gives_the_same_gradients_again():
    tensors = inputs()
    value = fused_linear_loss(*tensors, INDEX, loss=gr_loss, chunk=2)
    first = [part.clone() for part in torch.autograd.grad(3 * value, tensors, retain_graph=True)]
    assert all(map(torch.equal, first, torch.autograd.grad(3 * value, tensors)))


def test_a_second_derivative_is_refused():
    tensors = inputs()
    value = fused_linear_loss(*tensors, INDEX, loss=gr_loss, chunk=2)
    (gradient,) = torch.autograd.grad(value, tensors[1], create_graph=True)
    torch.testing.assert_close(
        gradient, value_and_gradients(lambda *t: gr_loss(linear(*t), INDEX), tensors)[1][1]
    )
    with pytest.raises(RuntimeError, match="second derivative is not supported"):
        gradient.sum().backward()


def test_autocast_sets_the_dtype_of_the_logits():
    tensors = inputs(torch.float32)
    call = partial(fused_linear_loss, loss=an_loss, chunk=2)
    low = value_and_gradients(lambda *t: call(*t, INDEX, dtype=torch.bfloat16), tensors)
    with torch.autocast("cpu", torch.bfloat16):
        cast = value_and_gradients(lambda *t: call(*t, INDEX), tensors)
        plain = value_and_gradients(lambda *t: an_loss(linear(*t), INDEX), tensors)
        chosen = value_and_gradients(lambda *t: call(*t, INDEX, dtype=torch.float32), tensors)
    full = value_and_gradients(lambda *t: call(*t, INDEX), tensors)
    assert torch.equal(cast[0], low[0])
    assert low[0].dtype == torch.float32
    assert low[0].item() == pytest.approx(plain[0].item(), rel=1e-6)
    assert low[0].item() != full[0].item()
    assert torch.equal(chosen[0], full[0])
    assert all(map(torch.equal, chosen[1], full[1]))
    for found, again, autocast, exact in zip(low[1], cast[1], plain[1], full[1], strict=True):
        assert torch.equal(found, again)
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, autocast, rtol=0.02, atol=1e-3)
        torch.testing.assert_close(found, exact, rtol=0.02, atol=2e-3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_weights_in_half_precision_have_gradients_of_their_dtype(dtype):
    tensors = inputs(dtype)
    value = fused_linear_loss(*tensors, INDEX, loss=an_loss, chunk=2)
    value.backward()
    exact, gradients = value_and_gradients(
        lambda *t: an_loss(linear(*t), INDEX), [t.double() for t in tensors]
    )
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(exact.item(), rel=0.01)
    for tensor, expected in zip(tensors, gradients, strict=True):
        assert tensor.grad.dtype == dtype
        torch.testing.assert_close(tensor.grad.double(), expected, rtol=0.02, atol=2e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", SEPARABLE)
def test_extreme_logits_are_finite(name, dtype):
    loss = partial(getattr(losses, name), **SEPARABLE[name])
    features, weight, bias = inputs(torch.float32)
    bias = (1e4 * bias.sign()).detach().requires_grad_()
    for target in (INDEX, MATRIX):
        value = fused_linear_loss(features, weight, bias, target, loss=loss, chunk=2, dtype=dtype)
        gradients = torch.autograd.grad(value, (features, weight, bias))
        assert torch.isfinite(value)
        assert all(torch.isfinite(gradient).all() for gradient in gradients)


class Sizes(TorchDispatchMode):
    """Remember the largest result of an operation."""

    largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.largest = max(self.largest, result.numel())
        return result


def test_no_tensor_has_the_size_of_the_logits():
    features, weight = torch.randn(50, 2, requires_grad=True), torch.randn(40, 2, requires_grad=True)
    target = torch.randint(40, (50,))
    with Sizes() as chunked:
        fused_linear_loss(features, weight, None, target, loss=gr_loss, chunk=4).backward()
    with Sizes() as plain:
        gr_loss(linear(features, weight), target).backward()
    assert chunked.largest == 50 * 4
    assert plain.largest == 50 * 40


def test_without_gradients_only_the_value_is_computed(monkeypatch):
    expected = fused_linear_loss(*inputs(), INDEX, loss=gr_loss, chunk=2)
    monkeypatch.delattr(linear_module._LinearElementwise, "forward")
    with torch.no_grad():
        assert torch.equal(fused_linear_loss(*inputs(), INDEX, loss=gr_loss, chunk=2), expected)


def test_an_empty_batch_is_zero_and_has_gradients():
    features, weight, bias = inputs()
    value, gradients = value_and_gradients(
        lambda *t: fused_linear_loss(*t, INDEX[:0], loss=an_loss), [features[:0], weight, bias]
    )
    assert value == 0
    assert [gradient.abs().sum().item() for gradient in gradients] == [0, 0, 0]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"weight": WEIGHT.T}, ValueError, r"weight shape \(C, D\), got \(4, 3\) and \(3, 7\)"),
        ({"bias": BIAS[:2]}, ValueError, r"bias must have shape \(7,\), got \(2,\)"),
        ({"weight": torch.ones(7, 3, dtype=torch.int64)}, TypeError, "must be floating point"),
        ({"chunk": 0}, ValueError, "chunk must be at least 1"),
        ({"target": INDEX[:2]}, ValueError, r"target must have shape \(4,\) or \(4, 7\)"),
        ({"target": INDEX + 1}, ValueError, "0 ... 6, got 1 ... 7"),
        ({"loss": partial(an_loss, reduction="none")}, ValueError, "'mean' or 'sum' over chunks"),
        ({"loss": partial(gr_loss, w=torch.tensor(2.0, requires_grad=True))}, ValueError, "are learned"),
        ({"loss": partial(gr_loss, w=torch.ones(7))}, ValueError, "differ by class"),
        ({"loss": partial(em_apl_loss, soft=SOFT[:2])}, ValueError, "the shape of the logits"),
        ({"loss": partial(softmax_loss, reduction="sum")}, TypeError, "compute the logits"),
    ],
)
def test_wrong_arguments_are_refused(change, error, message):
    arguments = {
        "features": FEATURES_OF_ROWS,
        "weight": WEIGHT,
        "bias": BIAS,
        "target": INDEX,
        "loss": an_loss,
    }
    with pytest.raises(error, match=message):
        fused_linear_loss(**(arguments | change))
