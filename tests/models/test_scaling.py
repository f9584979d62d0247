"""Scalings of features: equal to scikit-learn and to plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import normalize

from spml.models.scaling import SCALINGS, default_scaling, make_scaling

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


@pytest.mark.parametrize("name", SCALINGS)
def test_the_input_is_not_changed(name: str) -> None:
    scaling, rows = make_scaling(name, 3), torch.from_numpy(ROWS.copy())
    scaling(rows)
    assert np.array_equal(rows.numpy(), ROWS)


def test_an_unknown_scaling_is_refused() -> None:
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
