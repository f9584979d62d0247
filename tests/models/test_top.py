"""Scalings of features, as by scikit-learn and plain NumPy; the top, and the initial bias of its head."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import normalize
from torch import nn

from spml.common.errors import InputError
from spml.data.matrix import FeatureMatrix
from spml.models import Standardise, Top, start_bias
from spml.models.scaling import SCALINGS, default_scaling, make_scaling


def test_standardise_equals_the_moments_of_all_rows() -> None:
    rng = np.random.default_rng(0)
    values = (rng.normal(size=(101, 3)) * [1, 1e-3, 5] + [0, 1e4, -3]).astype(np.float32)
    scale = Standardise(3)
    scale.fit(torch.from_numpy(part) for part in np.split(values, [1, 2, 40]))
    np.testing.assert_allclose(scale.mean, values.astype(np.float64).mean(0), rtol=1e-6)
    np.testing.assert_allclose(scale.std, values.astype(np.float64).std(0), rtol=1e-6)


def test_standardise_maps_constants_to_zero_and_cuts_off() -> None:
    rows = torch.zeros(1000, 2)
    rows[:, 0], rows[0, 1] = 0.1, 1.0
    scale = Standardise(2)
    scale.fit(rows.split(300))
    out = scale(rows)
    assert scale.std[0] == 1
    assert out[:, 0].abs().max() < 1e-6
    assert out[0, 1] == 10  # 31.6 deviations
    assert out[1, 1] == pytest.approx(-0.001 / math.sqrt(0.001 * 0.999))


def test_top_returns_the_input_of_the_head() -> None:
    torch.manual_seed(0)
    inputs = FeatureMatrix(np.array([[0.0, 2.0], [2.0, 2.0], [4.0, 8.0]], np.float32))
    top = Top(2, 3, dropout=0.5)
    top.fit_scaling(inputs)
    logits, features, *_ = top(inputs.fetch(range(3)))
    np.testing.assert_allclose(features[:, 0], [-math.sqrt(1.5), 0, math.sqrt(1.5)], rtol=1e-6)
    top.eval()
    logits, features, *_ = top(inputs.fetch(range(3)))
    torch.testing.assert_close(logits, top.head(features))


def test_top_without_standardise_does_not_change_features() -> None:
    top = Top(2, 3, scaling="raw")
    top.fit_scaling(FeatureMatrix(np.full((2, 2), 7, np.float32)))
    features = torch.tensor([[100.0, -3.0]])
    assert torch.equal(top(features).features, features)
    assert not [name for name in top.state_dict() if "mean" in name]


def test_logits_are_float32_under_autocast() -> None:
    top = Top(4, 3, head="mlp", hidden=8)
    features = torch.randn(5, 4).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        outputs = top(features)
    assert outputs.logits.dtype == outputs.features.dtype == torch.float32
    torch.testing.assert_close(outputs.logits, top(features.float()).logits)


def test_mlp_has_one_hidden_layer() -> None:
    top = Top(4, 3, head="mlp", hidden=8, scaling="raw")
    features = torch.randn(5, 4)
    first, last = top.head[0], top.head[2]  # type: ignore[index]
    expected = (features @ first.weight.T + first.bias).clamp(min=0) @ last.weight.T + last.bias
    torch.testing.assert_close(top(features).logits, expected)
    assert first.weight.shape == (8, 4)


@pytest.mark.parametrize(
    ("head", "layer"),
    [
        ("linear", ""),
        ("mlp", "2"),
        ("boosted_cam", "last"),
        ("gaussian", "last"),
        ("gaussian_per_class", "last"),
        ("correlated", "last"),
        ("queries", "last"),
    ],
)
def test_start_bias(head: str, layer: str) -> None:
    torch.manual_seed(0)
    top = Top(4, 10, head=head)
    last = top.head.get_submodule(layer)
    assert isinstance(last, nn.Linear)
    before = last.weight.detach().clone()
    start_bias(top, "prior", 2.0)
    torch.testing.assert_close(last.bias.sigmoid(), torch.full_like(last.bias, 0.2))
    start_bias(top, "zero", 2.0)
    assert torch.equal(last.bias, torch.zeros_like(last.bias))
    assert len(last.bias) == (1 if head == "gaussian_per_class" else 10)
    assert torch.equal(last.weight, before)


@pytest.mark.parametrize("mean_labels", [0.0, -1.0, 10.0, 11.0, math.nan])
def test_start_bias_refuses_an_impossible_number_of_labels(mean_labels: float) -> None:
    with pytest.raises(InputError, match="between 0 and the 10 classes"):
        start_bias(Top(4, 10), "prior", mean_labels)
    start_bias(Top(4, 10), "zero", mean_labels)


def test_log_probabilities_can_be_compared_between_samples() -> None:
    torch.manual_seed(0)
    plain, normalised = Top(4, 3, scaling="raw"), Top(4, 3, scaling="raw", scores="log_softmax")
    normalised.load_state_dict(plain.state_dict())
    features = torch.randn(5, 4)
    outputs = normalised(features)
    torch.testing.assert_close(outputs.logits.exp().sum(1), torch.ones(5))
    torch.testing.assert_close(outputs.logits, plain(features).logits.log_softmax(1))
    assert torch.equal(outputs.features, features)
    # What is added to all logits of a sample, which softmax cross-entropy leaves open, does not matter.
    with torch.no_grad():
        normalised.head.bias += 5
    torch.testing.assert_close(normalised(features).logits, outputs.logits)
    assert normalised.settings()["scores"] == "log_softmax"
    with pytest.raises(ValueError, match="scores must be one of logits, log_softmax, got 'probs'"):
        Top(4, 3, scores="probs")


# -- scalings -------------------------------------------------------------------------------------------


ROWS = np.array([[0.0, 4.0, -9.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [2.0, 2.0, 0.25]], np.float32)


def scaled(name: str) -> np.ndarray:
    scaling = make_scaling(name, 3)
    scaling.fit(torch.from_numpy(part) for part in (ROWS[:1], ROWS[1:]))
    return scaling(torch.from_numpy(ROWS.copy())).numpy()


def test_raw_changes_nothing() -> None:
    assert np.array_equal(scaled("raw"), ROWS)


def test_unit_length_equals_scikit_learn() -> None:
    np.testing.assert_allclose(scaled("unit"), normalize(ROWS), rtol=1e-6)


def test_sqrtl2_takes_signed_square_roots_first() -> None:
    roots = np.sign(ROWS) * np.sqrt(np.abs(ROWS))
    np.testing.assert_allclose(scaled("sqrtl2"), normalize(roots), rtol=1e-6)
    np.testing.assert_allclose(scaled("sqrtl2")[0], np.array([0, 2, -3]) / np.sqrt(13), rtol=1e-6)


def test_tfidf_weighs_rare_features_more() -> None:
    # scikit-learn adds 1 to the logarithm, so that a feature of all rows is not lost.
    theirs = TfidfTransformer(norm=None, smooth_idf=True).fit(ROWS).idf_ - 1
    np.testing.assert_allclose(scaled("tfidf"), normalize(ROWS * theirs), rtol=1e-6, atol=1e-12)


def test_the_derivative_of_sqrtl2_is_finite_at_zero() -> None:
    rows = torch.from_numpy(ROWS.copy()).requires_grad_()
    make_scaling("sqrtl2", 3)(rows).square().sum().backward()
    assert rows.grad is not None
    assert rows.grad.isfinite().all()


def test_the_input_is_not_changed_and_an_unknown_scaling_is_refused() -> None:
    for name in SCALINGS:
        rows = torch.from_numpy(ROWS.copy())
        make_scaling(name, 3)(rows)
        assert np.array_equal(rows.numpy(), ROWS)
    with pytest.raises(ValueError, match="must be one of raw, standard, sqrtl2, unit, tfidf, got 'minmax'"):
        make_scaling("minmax", 3)


def like_a_network(width: int = 384, zeros: float = 0.5) -> torch.Tensor:
    """Features (20, width) as of ReLU and mean pooling, of which a share is 0."""
    generator = torch.Generator().manual_seed(0)
    features = torch.rand(20, width, generator=generator) + 0.1
    features.view(-1)[: int(zeros * features.numel())] = 0
    return features


def test_features_like_those_of_a_convolutional_network_have_square_roots_taken() -> None:
    assert default_scaling(like_a_network()) == "sqrtl2"
    assert default_scaling(like_a_network(zeros=0.8)) == "sqrtl2"


def test_other_features_are_standardised() -> None:
    signed = like_a_network()
    signed[19, 383] = -1e-3
    for features in (signed, like_a_network(width=383), like_a_network(zeros=0.81), torch.zeros(2, 500)):
        assert default_scaling(features) == "standard"
