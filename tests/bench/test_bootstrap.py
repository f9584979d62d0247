"""Bootstrap draws that are stored with a run."""

from __future__ import annotations

import numpy as np
import pytest

from spml.bench.runner import bootstrap_draws


def test_draws_are_multinomial_and_always_the_same():
    draws = bootstrap_draws(50, 400, seed=3)
    assert draws.shape == (400, 50)
    assert draws.dtype == np.int32
    assert (draws.sum(axis=1) == 50).all()
    # Multinomial(50, 1/50): mean 1, variance 1 - 1/50.
    assert draws.var() == pytest.approx(0.98, abs=0.03)
    assert abs(draws.mean(axis=0) - 1).max() < 0.2
    np.testing.assert_array_equal(bootstrap_draws(50, 2, seed=3), draws[:2])
    assert (bootstrap_draws(50, 2, seed=4) != draws[:2]).any()
    # Values that every platform and version must reproduce.
    golden = [[0, 1, 2, 0, 2, 1], [0, 2, 1, 1, 0, 2], [0, 1, 0, 3, 1, 1]]
    assert bootstrap_draws(6, 3, seed=0).tolist() == golden
