"""Curves of losses and gradients, against the formulas."""

from __future__ import annotations

import numpy as np
import pytest

from spml.analysis import gradients, losses
from spml.analysis.curves import accepted_setting, parse_method
from spml.common.errors import InputError


def column(result, name, method, epoch=None):
    rows = [
        row
        for row in range(len(result.table["method"]))
        if result.table["method"][row] == method and epoch in (None, result.table["epoch"][row])
    ]
    return np.asarray(result.table[name])[rows]


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def probabilities(points):
    """Those of the axis, from .001 to .999, which lie closer together at both ends."""
    return 0.5 - 0.499 * np.cos(np.linspace(0, np.pi, points))


def test_gradients_of_methods_and_epochs():
    result = gradients(["an", "em", "gr:w=[0,10],b=[-2,-8]"], epochs=8, show=[1, 5, 8], points=21)
    assert len(result.table["p"]) == 3 * 3 * 21
    p = probabilities(21)
    np.testing.assert_allclose(column(result, "p", "an", 5), p)
    np.testing.assert_allclose(column(result, "z", "an", 5), np.log(p / (1 - p)), atol=1e-12)
    np.testing.assert_allclose(column(result, "gradient", "an", 5), p, rtol=1e-9)
    entropy = 0.1 * p * (1 - p) * np.log(p / (1 - p))
    np.testing.assert_allclose(column(result, "gradient", "em", 8), entropy, rtol=1e-9, atol=1e-12)
    # Epoch 5 of 8 as released: w and b at 4/8, mu and sigma at 5/8 of their way.
    k, mu, sigma = sigmoid(5 * p - 5), 0.5 + 0.3 * 5 / 8, 2 - 1.5 * 5 / 8
    expected = np.exp(-((p - mu) ** 2) / (2 * sigma**2)) * (1 - p) * ((1 - k) * p - k * p**0.01)
    np.testing.assert_allclose(
        column(result, "gradient", "gr, w 0 to 10, b -2 to -8", 5), expected, rtol=1e-9, atol=1e-12
    )


def test_gradients_over_the_logit():
    result = gradients(["an"], over="z", points=5)
    np.testing.assert_allclose(column(result, "z", "an", 1), [-8, -4, 0, 4, 8])
    np.testing.assert_allclose(column(result, "gradient", "an", 1), sigmoid(np.array([-8, -4, 0, 4, 8])))


def test_a_method_without_a_schedule_is_one_curve():
    axes = gradients(["em", "gr"]).figure.axes[0]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["em", "gr, epoch 10", "gr, epoch 1"]


def test_gradients_on_a_known_positive():
    z = np.array([-8, -4, 0, 4, 8])
    result = gradients(["an", "em:alpha=1"], over="z", points=5, positives=True)
    (axes,) = result.figure.axes
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["an", "em, alpha 1", "known positive"]  # the same curve for both
    np.testing.assert_allclose(column(result, "gradient", "known positive", 1), sigmoid(z) - 1, rtol=1e-9)
    assert axes.get_title(loc="left").endswith("on an unknown label, and on a known positive")
    result = gradients(["an", "focal"], over="z", points=5, positives=True)
    labels = [text.get_text() for text in result.figure.axes[0].get_legend().get_texts()]
    assert labels == ["an", "focal", "an, known positive", "focal, known positive"]
    focal = column(result, "gradient", "focal, known positive", 1)
    assert focal[2] == pytest.approx(-0.5, rel=1e-9)
    p = sigmoid(z)
    slope = (1 - p) ** 2 * (2 * p * np.log(p) - (1 - p))
    np.testing.assert_allclose(focal, slope / (-2 * slope[2]), rtol=1e-7)


@pytest.mark.parametrize(
    ("q", "expected"),
    [
        (0, lambda p: -np.log(1 - p)),
        (0.5, lambda p: (1 - np.sqrt(1 - p)) / 0.5),
        (1, lambda p: p),
        (1.5, lambda p: (1 - (1 - p) ** 1.5) / 1.5),
    ],
)
def test_losses_of_exponents(q, expected):
    result = losses([str(q)], points=11)
    p = probabilities(11)
    np.testing.assert_allclose(column(result, "loss", f"q3 = {q:g}"), expected(p), rtol=1e-12)


def test_losses_of_methods_start_at_zero():
    result = losses(["an", "em"], points=51)
    p = probabilities(51)
    an = -np.log(1 - p)
    np.testing.assert_allclose(column(result, "loss", "an", 1), an - an[0], rtol=1e-9, atol=1e-12)
    assert column(result, "loss", "em", 1).min() == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: losses(["gr", "1"]), "name either exponents or methods, not both"),
        (lambda: losses(["-1"]), "an exponent q must be a number of at least 0, got -1"),
        (lambda: losses(["nan"]), "an exponent q must be a number of at least 0, got nan"),
        (lambda: gradients(["erm"]), "unknown method 'erm'"),
        (lambda: gradients(["gr:q5=1"]), "method 'gr' has no hyper-parameter 'q5'"),
        (lambda: gradients(["gr:w=[0"]), r"'gr:w=\[0': expected NAME:HP=VALUE,HP=VALUE"),
        (lambda: gradients(["em"], show=[1, 11]), "must ascend from 1 to 10"),
        (lambda: gradients(["em"], show=[2, 2]), "must ascend from 1 to 10"),
        (lambda: gradients(["em"], show=[0]), "must ascend from 1 to 10"),
        (lambda: gradients(["em"], epochs=0), "must ascend from 1 to 0"),
        (lambda: gradients(["em"], points=1), "`points` must be at least 2, got 1"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_hyper_parameters_after_a_colon():
    assert parse_method("em") == ("em", {})
    assert parse_method("gr:k=step,tau=0.5,w=[0, 10]") == ("gr", {"k": "step", "tau": 0.5, "w": [0, 10]})


def test_the_data_that_a_method_accepts():
    assert accepted_setting("an")[:2] == ("single", False)
    assert accepted_setting("epr")[:2] == ("single", True)
    assert accepted_setting("bce").kind == "full"
