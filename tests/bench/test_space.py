"""Proposals do not depend on the process that asks; edges of a range are recognised."""

from __future__ import annotations

import math
import sys

import optuna
import pytest

from spml.bench.space import Range, propose
from spml.common.errors import InputError

LR = Range(1e-4, 1e-1, log=True)


def test_values_of_a_range():
    assert LR.at(0.0) == 1e-4
    assert LR.at(0.5) == pytest.approx(10**-2.5, rel=1e-3)
    assert Range(2.0, 4.0).at(0.25) == 2.5
    assert [Range(1, 3, integer=True).at(share) for share in (0, 0.34, 0.99)] == [1, 2, 3]
    assert [Range(-2, 0, integer=True).at(share) for share in (0, 0.34, 0.99)] == [-2, -1, 0]
    wide = Range(1, 1000, log=True, integer=True)
    assert all(Range(low, 100, log=True, integer=True).at(0.0) == low for low in range(1, 100))
    assert [wide.at(share) for share in (0, 0.5, 0.999999)] == [1, 31, 1000]  # sqrt(1001) = 31.6
    assert [Range(choices=("a", "b")).at(share) for share in (0.49, 0.5)] == ["a", "b"]


def test_random_proposals_are_shared_by_candidates_and_spread_over_the_range():
    space = {"optim.lr": LR, "hp.x": Range(0.0, 1.0)}
    proposals = [propose("random", space, "one", 3, trial, []) for trial in range(200)]
    assert proposals == [propose("random", space, "two", 3, trial, []) for trial in range(200)]
    assert proposals[0] != propose("random", space, "one", 4, 0, [])
    logs = [math.log10(params["optim.lr"]) for params in proposals]
    assert all(-4 <= log <= -1 for log in logs)
    assert sum(log < -2.5 for log in logs) == pytest.approx(100, abs=25)
    assert sum(params["hp.x"] < 0.5 for params in proposals) == pytest.approx(100, abs=25)
    alone = [propose("random", {"optim.lr": LR}, "one", 3, trial, []) for trial in range(5)]
    assert [params["optim.lr"] for params in proposals[:5]] == [params["optim.lr"] for params in alone]


def test_both_bounds_are_required():
    for bounds in ({"low": 1.0}, {"high": 1.0}, {}):
        with pytest.raises(ValueError, match="expected a list of values, or low < high"):
            Range(**bounds)


def test_a_grid_in_order():
    space = {"a": Range(choices=(1, 2)), "b": Range(choices=("x", "y"))}
    assert [propose("grid", space, "", 0, trial, []) for trial in range(4)] == [
        {"a": a, "b": b} for a in (1, 2) for b in ("x", "y")
    ]
    assert propose("tpe", {}, "s", 0, 0, []) == {}


def test_tpe_improves_and_is_reproducible():
    def run():
        earlier = []
        for trial in range(40):
            params = propose("tpe", {"x": Range(0.0, 1.0)}, "s", 0, trial, earlier)
            earlier.append((params, None if trial == 3 else -((params["x"] - 0.3) ** 2)))
        return [params["x"] for params, _ in earlier]

    proposals = run()
    assert proposals == run()
    distance = [abs(x - 0.3) for x in proposals]
    assert sum(distance[20:]) / 20 < 0.7 * sum(distance[:10]) / 10  # the first ten are drawn at random
    assert optuna.logging.get_verbosity() >= optuna.logging.WARNING


def test_tpe_without_optuna_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(InputError, match=r"optuna is not installed.*pip install optuna sqlalchemy"):
        propose("tpe", {"x": Range(0.0, 1.0)}, "s", 0, 0, [])
