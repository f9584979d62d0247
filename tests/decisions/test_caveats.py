"""Warnings about decisions: each where it applies, and only there."""

from __future__ import annotations

import numpy as np
import pytest

from spml.decisions import Priors, caveats

NAMES = tuple(f"c{k}" for k in range(50))
MANY = np.full(50, 30)


def warn(priors=None, positives=MANY, rows=500, *, full=False, calibrated=True, **changes):
    priors = priors or Priors(np.full(50, 0.06), 3.0, "audit", 1.0)
    return caveats(priors._replace(**changes), NAMES, positives, rows, full=full, calibrated=calibrated)


def test_there_is_nothing_to_say_after_an_audit_of_good_data():
    assert warn() == []


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"source": "default", "calibrated": False}, "not known: thresholds are placed as for K = 3"),
        ({"source": "stated", "gamma": None}, "uniform draw among its labels"),
        ({"gamma": 0.7}, "Frequent classes look preferred"),
        ({"positives": np.r_[9, MANY[1:]]}, "1 class with fewer than 10 known positives"),
        ({"positives": np.r_[0, 0, MANY[2:]]}, "2 classes without a known positive: never"),
        ({"rows": 99}, "Only 99 samples"),
        ({"mean_labels": 16.7}, "K = 16.7 is more than a third of the 50 classes"),
        ({"mean_labels": 1.29}, "proportional to K - 1"),
    ],
)  # fmt: skip
def test_each_warning_where_it_applies(settings, expected):
    (line,) = warn(**settings)
    assert expected in line
    assert line.endswith(".")


def test_limits_are_exact():
    assert warn(gamma=0.71, rows=100, positives=np.full(50, 10), mean_labels=16.6) == []
    assert warn(mean_labels=1.3) == []
    assert warn(rows=99, mean_labels=1.1, calibrated=False) == []


def test_full_labels_assume_nothing_about_hidden_ones():
    assert warn(source="labels", gamma=None, full=True, mean_labels=1.1) == []
    assert warn(source="labels", gamma=None, full=True, mean_labels=20.0) == []
