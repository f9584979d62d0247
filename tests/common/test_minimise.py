"""L-BFGS: quadratic functions, kinks, and gradients that are NaN."""

from __future__ import annotations

import pytest
import torch

from spml.common.numerics import minimise


def test_a_quadratic_function_is_minimised():
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(30, 30, generator=generator, dtype=torch.float64)
    matrix, goal = root @ root.T + torch.eye(30), torch.randn(30, generator=generator, dtype=torch.float64)
    found = minimise(
        lambda x: matrix @ (x - goal), torch.zeros(30).double(), tolerance=1e-9, max_evaluations=1000
    )
    torch.testing.assert_close(found.point, goal)
    assert float(found.slope.norm()) <= 1e-9
    assert found.iterations < found.evaluations < 400


def test_a_minimum_at_a_kink_is_reached_from_one_side():
    # |x - 3| + x^2 / 100: the slope jumps from below to above 0 at 3.
    found = minimise(
        lambda x: (x - 3).sign() + x / 50, torch.zeros(1).double(), tolerance=1e-9, max_evaluations=500
    )  # fmt: skip
    assert found.point.item() == pytest.approx(3, abs=1e-3)
    assert found.evaluations < 500


def test_a_field_that_is_nan_beyond_a_wall_is_followed_up_to_its_zero():
    def gradient(x):
        return torch.where(x < 2, x - 1.5, torch.nan)

    found = minimise(gradient, torch.full((1,), -40.0).double(), tolerance=1e-9, max_evaluations=100)
    assert found.point.item() == pytest.approx(1.5)
    nowhere = minimise(lambda x: x * torch.nan, torch.ones(1).double(), tolerance=1e-9, max_evaluations=100)
    assert (nowhere.iterations, nowhere.evaluations) == (0, 1)
