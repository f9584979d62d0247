"""Limits to the time of a training."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from spml.common import budget
from spml.common.budget import Budget
from spml.common.errors import InputError
from spml.config import from_dict
from spml.metrics import sp_score
from spml.models import fit_auto
from spml.runs.train import run_training
from tests.helpers.training import make_data


@pytest.fixture
def clock(monkeypatch):
    """A clock that moves a minute at each look."""
    minutes = iter(range(10_000))
    monkeypatch.setattr(budget.time, "monotonic", lambda: 60.0 * next(minutes))


@pytest.fixture(autouse=True)
def listening(caplog):
    caplog.set_level(logging.INFO, "spml")


def test_what_does_not_fit_is_left_out_with_a_line(clock, caplog):
    limit = Budget(3)
    assert limit.allows("first", 110.0)
    assert not limit.allows("second", 90.0)
    assert not limit.allows("third")
    assert caplog.messages == [
        "minutes=3: no time is left for second",
        "minutes=3: no time is left for third",
    ]
    assert Budget().allows("everything", 1e9)
    assert Budget().minutes_left == 0
    assert Budget(5).minutes_left == 4


def test_an_auto_head_leaves_out_spaces_and_the_forest(clock, caplog):
    splits, judged = make_data().splits, []

    def score(scores, rows, classes):
        judged.append(len(rows))
        return sp_score(scores, splits["val"].observed.to_ternary()[rows - 100], 2.0).score

    fit_auto(splits["train"], splits["val"], score, cross_validate=False, mean_labels=2.0, budget=Budget(1))
    assert caplog.messages == [
        "minutes=1: no time is left for spaces of sqrtl2 features",
        "minutes=1: no time is left for a forest",
    ]
    assert judged


def test_a_solver_of_one_head_refuses_a_limit(tmp_path):
    np.savez(tmp_path / "x.npz", X=np.eye(4, dtype=np.float32), y=[0, 1, 0, 1])
    settings = {"data": {"path": str(tmp_path / "x.npz")}, "model": {"head": "ridge"}, "minutes": 2}
    with pytest.raises(InputError, match=r"minutes=2 limits an auto head.* but model\.head=ridge"):
        run_training(from_dict({**settings, "output": str(tmp_path / "run")}))
