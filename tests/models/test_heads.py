"""Heads that take more than features, and class maps, against loops and formulas."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from spml.common.errors import InputError
from spml.data.matrix import FeatureMatrix
from spml.losses import smile_image_loss
from spml.models import QuerySettings, Top
from spml.models.heads import (
    HEADS,
    BetaHead,
    BoostedCAM,
    CodeSettings,
    GaussianHead,
    GaussianPerClassHead,
    last_layer,
)


def make_top(head: str, **settings: Any) -> Top:
    torch.manual_seed(0)
    top = Top(6, 3, head=head, hidden=4, queries=QuerySettings(attention_heads=2, ffn=4), **settings)
    with torch.no_grad():
        last_layer(top.head).bias.uniform_(-1, 1)
        if head == "correlated":
            top.head.get_parameter("correlation").uniform_(-1, 1)
    return top


def random_maps(rows: int = 5) -> Tensor:
    return torch.randn(rows, 6, 2, 3, generator=torch.Generator().manual_seed(1))


# -- boosted class activation maps -----------------------------------------------------------------------


def boosted(maps: Tensor, layer: nn.Linear) -> tuple[Any, Any]:
    """Compute boosted maps and logits, position by position, in float64."""
    values, weight, bias = (part.detach().double().numpy() for part in (maps, layer.weight, layer.bias))
    rows, _, height, width = values.shape
    scores = np.zeros((rows, len(weight), height, width))
    for b, c, y, x in np.ndindex(scores.shape):
        score = sum(weight[c, d] * values[b, d, y, x] for d in range(weight.shape[1])) + bias[c]
        scores[b, c, y, x] = 5 * score if score > 0 else score
    return scores, scores.sum((2, 3)) / (height * width)


@pytest.mark.parametrize("training", [True, False])
def test_boosted_cam_equals_a_loop_over_positions(training: bool) -> None:
    top, maps = make_top("boosted_cam").train(training), random_maps()
    scores, logits = boosted(maps, last_layer(top.head))
    assert 0.2 < (scores > 0).mean() < 0.8
    outputs = top(maps)
    np.testing.assert_allclose(outputs.logits.detach(), logits, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(outputs.features, maps.mean((2, 3)), rtol=1e-6)
    np.testing.assert_allclose(top.class_maps(maps).detach(), scores, rtol=1e-5, atol=1e-6)


def test_only_positive_positions_have_five_times_the_gradient() -> None:
    head, maps = BoostedCAM(1, 1), torch.tensor([[[[2.0, -2.0]]]], requires_grad=True)
    nn.init.constant_(head.last.weight, 3.0)
    nn.init.zeros_(head.last.bias)
    logits = head(maps)
    logits.sum().backward()
    assert logits.item() == (5 * 6 - 6) / 2
    assert maps.grad is not None
    assert maps.grad.flatten().tolist() == [7.5, 1.5]


def test_maps_are_not_standardised_and_a_feature_is_dropped_at_all_positions() -> None:
    top = Top(4, 4, head="boosted_cam", dropout=0.5)
    assert top.settings()["scaling"] == "raw"
    assert sorted(top.state_dict()) == ["head.last.bias", "head.last.weight"]
    layer = last_layer(top.head)
    nn.init.eye_(layer.weight)
    nn.init.zeros_(layer.bias)
    torch.manual_seed(0)
    outputs = top(-torch.ones(50, 4, 3, 3))
    assert set(outputs.logits.flatten().tolist()) == {0.0, -2.0}
    assert torch.equal(outputs.features, -torch.ones(50, 4))


# -- random code -----------------------------------------------------------------------------------------


def test_gaussian_evaluates_the_mean_of_its_code() -> None:
    top = make_top("gaussian", scaling="raw").eval()
    assert isinstance(top.head, GaussianHead)
    features = torch.randn(5, 6) * torch.tensor([[1.0], [1.0], [1.0], [300.0], [-300.0]])
    weight, bias = top.head.code.weight.detach().numpy(), top.head.code.bias.detach().numpy()
    code = features.numpy() @ weight.T + bias
    mean, std = code[:, :4], np.exp(np.clip(code[:, 4:] / 2, -6, 6))
    assert np.abs(code[:, 4:]).max() > 12  # beyond the clamp
    outputs = top(features)
    assert outputs.latent is not None
    np.testing.assert_allclose(outputs.latent[0].detach(), mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(outputs.latent[1].detach(), std, rtol=1e-4)
    last = top.head.last
    np.testing.assert_allclose(
        outputs.logits.detach(), mean @ last.weight.detach().numpy().T + last.bias.detach().numpy(), rtol=1e-4
    )


def test_gaussian_trains_on_the_mean_of_ten_draws() -> None:
    top = make_top("gaussian", scaling="raw")
    assert isinstance(top.head, GaussianHead)
    draws = 40_000
    row = torch.randn(1, 6)
    torch.manual_seed(3)
    with torch.no_grad():
        outputs = top.train()(row.expand(draws, 6))
        expected = top.eval()(row)
        weight = top.head.last.weight.detach()
    assert outputs.latent is not None
    torch.testing.assert_close(outputs.latent[0][:1], outputs.latent[0][1:2])
    std = outputs.latent[1][0]
    one_draw = weight.square() @ std.square()
    deviation = (one_draw / 10).sqrt()
    error = (outputs.logits.mean(0) - expected.logits[0]).abs() / (deviation / math.sqrt(draws))
    assert error.max() < 4
    np.testing.assert_allclose(outputs.logits.var(0), one_draw / 10, rtol=0.05)


def by_class(head: GaussianPerClassHead, features: Any) -> tuple[Any, Any, Any]:
    """Mean and deviation of the code, and logits of the mean, class by class, in numpy."""
    weights = {name: value.detach().numpy() for name, value in head.named_parameters()}
    classes, each = 3, len(weights["hidden.bias"]) // 3
    means, stds = [], []
    for c in range(classes):
        own = slice(c * each, (c + 1) * each)
        hidden = np.maximum(features @ weights["hidden.weight"][own].T + weights["hidden.bias"][own], 0)
        rows = slice(c * 10, (c + 1) * 10)
        code = hidden @ weights["code.weight"][rows].T + weights["code.bias"][rows]
        means.append(code[:, :5])
        stds.append(np.exp(np.clip(code[:, 5:] / 2, -6, 6)))
    mean, std = np.stack(means, 1), np.stack(stds, 1)
    return mean, std, mean @ weights["last.weight"][0] + weights["last.bias"]


def test_a_code_per_class_is_that_of_a_network_per_class() -> None:
    top = make_top("gaussian_per_class", scaling="raw", codes=CodeSettings(5)).eval()
    assert isinstance(top.head, GaussianPerClassHead)
    features = torch.randn(7, 6) * 3
    mean, std, logits = by_class(top.head, features.numpy())
    outputs = top(features)
    assert outputs.latent is not None
    np.testing.assert_allclose(outputs.latent[0].detach(), mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(outputs.latent[1].detach(), std, rtol=1e-4)
    np.testing.assert_allclose(outputs.logits.detach(), logits, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("training", "in_evaluation", "draws"), [(True, 0, 1), (True, 7, 1), (False, 7, 7)])
def test_draws_of_a_code_per_class(training: bool, in_evaluation: int, draws: int) -> None:
    codes = CodeSettings(5, codes_in_evaluation=in_evaluation)
    top = make_top("gaussian_per_class", scaling="raw", codes=codes).train(training)
    assert isinstance(top.head, GaussianPerClassHead)
    row = torch.randn(1, 6)
    _, std, expected = by_class(top.head, row.numpy())
    with torch.no_grad():
        logits = top(row.expand(20_000, 6)).logits.numpy()
    variance = (std[0] ** 2) @ top.head.last.weight.detach().numpy()[0] ** 2 / draws
    np.testing.assert_allclose(logits.var(0), variance, rtol=0.06)
    assert (np.abs(logits.mean(0) - expected[0]) < 4 * np.sqrt(variance / 20_000)).all()


def test_codes_of_positions_are_computed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    top, maps = make_top("gaussian_per_class"), random_maps(7)
    expected = top.class_maps(maps)
    monkeypatch.setattr("spml.models.heads._HIDDEN_UNITS", 50)  # 4 positions of 12 hidden units
    torch.testing.assert_close(top.class_maps(maps), expected)


def test_layers_of_classes_start_as_those_of_one_class() -> None:
    torch.manual_seed(0)
    head = GaussianPerClassHead(64, 20, 100, CodeSettings(50))
    for layer, bound in ((head.hidden, 1 / 8), (head.code, 1 / 10)):
        for values in (layer.weight, layer.bias):
            assert 0.99 * bound < values.abs().max() <= bound


def test_the_size_of_a_code_per_class() -> None:
    with torch.device("meta"):
        head = GaussianPerClassHead(2048, 20, 1024, CodeSettings(256))
    size = sum(parameter.numel() for parameter in head.parameters())
    assert size == 20 * 2_622_976 + 257
    message = r"2\.62 million .* of the 410 classes, 1\.08 billion in all, .* 17 GB: decrease model\.hidden"
    with torch.device("meta"), pytest.raises(InputError, match=message):
        GaussianPerClassHead(2048, 410, 1024, CodeSettings(256))
    with torch.device("meta"):
        GaussianPerClassHead(2048, 409, 1024, CodeSettings(256))


def test_the_code_gets_gradients_through_its_mean_and_its_deviation() -> None:
    top = make_top("gaussian")
    assert isinstance(top.head, GaussianHead)
    top(torch.randn(5, 6)).logits.square().sum().backward()
    gradient = top.head.code.weight.grad
    assert gradient is not None
    assert (gradient.abs().sum(1) > 0).all()


def test_beta_draws_a_code_and_labels_in_training_only() -> None:
    top = make_top("beta", scaling="raw")
    head = top.head
    assert isinstance(head, BetaHead)
    row, draws = torch.randn(1, 6), 40_000
    torch.manual_seed(3)
    with torch.no_grad():
        raw = head.code[2](head.code[0](row).relu())
        mean, std = raw[:, :4], torch.nn.functional.softplus(raw[:, 4:])
        logits, latent, (alpha, beta, drawn), _ = top.eval().head(row)
        torch.testing.assert_close(logits, head.last(mean))
        torch.testing.assert_close(torch.cat(latent), torch.cat([mean, std]))
        both = torch.nn.functional.softplus(head.labels(mean))
        torch.testing.assert_close(torch.cat([alpha, beta], 1), both)
        torch.testing.assert_close(drawn, alpha / (alpha + beta))
        logits, _, (alpha, beta, drawn), _ = top.train().head(row.expand(draws, 6))
    spread = head.last.weight.detach().square() @ std[0].square()
    np.testing.assert_allclose(logits.var(0), spread, rtol=0.05)
    share = alpha / (alpha + beta)
    deviation = (share * (1 - share) / (alpha + beta + 1)).mean(0).sqrt() / math.sqrt(draws)
    assert ((drawn - share).mean(0).abs() < 4 * deviation).all()
    assert drawn.std(0).min() > 0.1


def test_beta_has_no_distribution_that_torch_refuses() -> None:
    top = make_top("beta", scaling="raw").train()
    assert isinstance(top.head, BetaHead)
    with torch.no_grad():
        top.head.labels.bias.fill_(-1000)
        top.head.code[2].bias.fill_(-1000)
    outputs = top(torch.randn(5, 6))
    assert outputs.latent is not None
    assert outputs.posterior is not None
    assert all(part.min() >= 1e-6 for part in (outputs.latent[1], *outputs.posterior[:2]))
    loss = smile_image_loss(
        outputs.logits,
        torch.zeros(5, dtype=torch.int64),
        outputs.posterior[2],
        *outputs.latent,
        *outputs.posterior[:2],
    )
    loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in top.parameters())  # type: ignore[union-attr]


# -- all heads -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("head", HEADS)
def test_logits_and_class_maps_are_float32_under_autocast(head: str) -> None:
    top = make_top(head).eval()
    maps = random_maps().bfloat16()
    inputs = maps if top.takes_maps else maps[..., 0, 0]
    with torch.autocast("cpu", torch.bfloat16):
        outputs, class_maps = top(inputs), top.class_maps(maps)
    tensors = [
        outputs.logits,
        outputs.features,
        class_maps,
        *(outputs.latent or ()),
        *(outputs.posterior or ()),
    ]
    assert {tensor.dtype for tensor in tensors} == {torch.float32}
    torch.testing.assert_close(outputs.logits, top(inputs.float()).logits)
    assert (outputs.latent is not None) == (head in ("gaussian", "gaussian_per_class", "beta"))
    assert (outputs.posterior is not None) == (head == "beta")


@pytest.mark.parametrize("head", ["linear", "mlp", "gaussian", "gaussian_per_class", "beta", "correlated"])
def test_class_maps_are_the_logits_of_each_position_without_dropout(head: str) -> None:
    top = make_top(head, dropout=0.5)
    top.fit_scaling(FeatureMatrix(np.random.default_rng(0).normal(2, 3, (20, 6)).astype(np.float32)))
    maps = random_maps()
    class_maps = top.train().class_maps(maps)
    top.eval()
    for y, x in np.ndindex(2, 3):
        torch.testing.assert_close(class_maps[:, :, y, x], top(maps[:, :, y, x]).logits.detach())
    assert class_maps.shape == (5, 3, 2, 3)


@pytest.mark.parametrize("head", HEADS)
def test_an_empty_batch_gives_no_logits(head: str) -> None:
    top = make_top(head)
    maps = random_maps(0)
    assert top(maps if top.takes_maps else maps[..., 0, 0]).logits.shape == (0, 3)
    assert top.class_maps(maps).shape == (0, 3, 2, 3)


def test_an_unknown_head_is_refused() -> None:
    with pytest.raises(ValueError, match=r"one of linear, .*, correlated, queries, got 'cam'"):
        Top(2, 2, head="cam")
