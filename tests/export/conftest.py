"""Runs to export."""

from __future__ import annotations

import pytest
from sklearn.datasets import load_digits

import spml


@pytest.fixture(scope="session")
def digits():
    """Features (1797, 64) and class indices."""
    return load_digits(return_X_y=True)


@pytest.fixture(scope="session")
def ridge(digits, tmp_path_factory):
    """A run on features, with probabilities."""
    X, y = digits
    output = tmp_path_factory.mktemp("runs") / "ridge"
    names = [f"dig|it <{number}>" for number in range(10)]
    return spml.train(
        X[:500], y[:500], classes=names, head="ridge", mean_labels=1, quiet=True, output=str(output)
    )
