"""Numbers of a report, from a few rows by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from spml.bench.report.page import report_page
from spml.bench.report.results import build_report
from spml.bench.report.statistics import rank
from spml.bench.rows import SeriesKey
from tests.bench.rows import row

TASK = ("voc", "uniform")
BOTH = ("oracle", "observed")


def run(candidate, seed, test, *, trial=0, full=None, observed=None, data="voc", **rest):
    """One run with as many epochs as `test`; validation scores equal test scores unless stated."""
    values = {"val/mAP": full or list(test), "val/SP": observed or list(test), "test/mAP": list(test)}
    return row((data, "uniform", candidate, seed), trial, values=values, **rest)


def test_mean_spread_gap_and_paired_difference():
    tests = {"an": [0.40, 0.42], "em": [0.45, 0.45], "full": [0.50, 0.52]}
    rows = [run(name, seed, [value]) for name, values in tests.items() for seed, value in enumerate(values)]
    found = build_report(rows, modes=BOTH, baseline="an", ceiling="full", reference_only=["full"]).entries[
        TASK
    ]
    em = found["em", "oracle"]
    assert em.test == pytest.approx((0.45, 0.0, 2))
    assert found["an", "oracle"].test.sd == pytest.approx(0.02 / math.sqrt(2))
    assert em.gap == pytest.approx(0.4)  # (45 - 41) / (51 - 41)
    assert em.difference == pytest.approx((0.04, 0.02 / math.sqrt(2), 2))
    assert found["an", "oracle"].difference is None
    assert [name for name, mode in found if found[name, mode].best and mode == "observed"] == ["em"]
    assert em.p is None


def test_each_mode_takes_its_own_trial_and_epoch():
    rows = [
        run("an", 0, [math.nan, 0.3, 0.5], full=[0.1, 0.2, 0.9], observed=[0.1, 0.4, 0.2]),
        run("an", 0, [0.4, math.nan, math.nan], full=[0.2, 0.1, 0.1], observed=[0.6, 0.1, 0.1], trial=1),
    ]
    found = build_report(rows, modes=BOTH).entries[TASK]
    assert found["an", "oracle"].test.mean == 0.5
    assert found["an", "observed"].test.mean == 0.4
    assert found["an", "oracle"].picks[0].epoch == 2
    assert found["an", "observed"].picks[0].row.trial == 1
    assert found["an", "observed"].trials == (2, 2)
    assert math.isnan(found["an", "oracle"].test.sd)


def test_p_values_are_paired_by_seed_and_corrected():
    # Always as much below the best, above it in 8 of 400 draws, and equal to it.
    base, near = np.linspace(0.5, 0.6, 400), np.where(np.arange(400) < 8, -0.1, 0.1)
    draws = {
        "best": base,
        "worse": base - 0.02,
        "near": base - near,
        "same": base,
    }
    rows = [
        run(name, 0, [0.5 if name in ("worse", "near") else 0.6], draws={"oracle": list(values)})
        for name, values in draws.items()
    ]
    rows.append(run("undrawn", 0, [0.1]))
    found = build_report(rows, modes=["oracle"]).entries[TASK]
    p = {name: entry.p for (name, _), entry in found.items()}
    assert p["best"] is None
    assert p["undrawn"] is None
    assert p["worse"] == 0
    assert p["near"] == pytest.approx(2 * 2 * norm.sf(0.1 / near.std(ddof=1)))
    assert p["same"] == 1
    assert not found["worse", "oracle"].tied
    assert found["same", "oracle"].tied


def test_a_lucky_seed_does_not_win():
    rows = [run("lucky", 0, [0.9]), run("steady", 0, [0.5]), run("steady", 1, [0.6])]
    found = build_report(rows, modes=["oracle"]).entries[TASK]
    assert found["steady", "oracle"].best
    assert not found["lucky", "oracle"].best


def test_settings_of_what_was_picked():
    picked = [
        {"lr": 0.1, "head": "b"},
        {"lr": 1.0, "head": "a"},
        {"lr": 0.01, "head": "b"},
        {"lr": 1.0, "head": "b"},
        {"lr": 0.02, "head": "b"},
    ]
    rows = [run("an", s, [0.5], params=params) for s, params in enumerate(picked)]
    entry = build_report(rows, modes=["oracle"]).entries[TASK]["an", "oracle"]
    assert entry.params == {"head": "b", "lr": 0.1}


def test_ranks_are_taken_over_tasks_where_no_candidate_is_missing():
    scores = {
        ("a", "u"): {"x": 0.5, "y": 0.4, "z": 0.3},
        ("b", "u"): {"x": 0.5, "y": 0.6, "z": 0.1},
        ("c", "u"): {"x": 0.9, "z": 0.1},
        ("d", "u"): {"x": 0.7, "y": 0.6, "z": 0.1, "rare": 1.0},
    }
    ends = {("a", "u"): (0.3, 0.301), ("c", "u"): (0.0, 1.0), ("d", "u"): (0.1, 0.9)}
    ranking = rank(scores, ends)
    assert ranking.candidates == ("x", "y", "z")
    assert ranking.ranks == pytest.approx((4 / 3, 5 / 3, 3))
    assert ranking.tasks == (("a", "u"), ("b", "u"), ("d", "u"))
    assert ranking.means == pytest.approx((1.7 / 3, 1.6 / 3, 0.5 / 3))
    # Over a and d, where both ends are known and no candidate is missing: from 0.2 to 0.6005.
    assert ranking.gaps == pytest.approx(((0.6 - 0.2) / 0.4005, (0.5 - 0.2) / 0.4005, 0.0))
    assert rank(scores).gaps == (None, None, None)
    assert ranking.left_out == ("rare",)
    assert ranking.cd == pytest.approx(2.343 * math.sqrt(3 * 4 / (6 * 3)), abs=2e-3)
    assert ranking.groups == ((0, 1, 2),)
    assert rank({}).candidates == ()
    assert math.isnan(rank({("a", "u"): scores["a", "u"]}).cd)


def test_gain_of_the_best_epoch():
    rows = [
        # By the best epoch trial 0 (0.9), by the last one trial 1 (0.8).
        run("a", 0, [0.5, 0.4], full=[0.9, 0.2], observed=[0.9, 0.2]),
        run("a", 0, [math.nan, 0.45], full=[0.1, 0.8], observed=[0.1, 0.1], trial=1),
        run("a", 1, [0.7, 0.6], full=[0.9, 0.2]),
        replace(run("b", 1, [], trial=1), status="failed", history={}),
        run("path", 0, [0.5, 0.3], full=[0.9, 0.2]),
        run("closed form", 0, [0.5]),
    ]
    rows[-2].history["penalty"] = [1.0, 0.1]
    report = build_report(rows, modes=BOTH)
    found = report.entries[TASK]
    assert found["a", "oracle"].last == pytest.approx((0.45 + 0.6) / 2)
    assert found["a", "oracle"].test.mean == pytest.approx(0.6)
    assert found["a", "observed"].last == pytest.approx((0.4 + 0.6) / 2)  # .2 is above .1
    assert [name for name, mode in found if found[name, mode].last is not None] == ["a", "a"]
    page = report_page(report, "")
    assert "| voc | uniform | 7.50 | 10.00 |\n| **all** |  | 7.50 | 10.00 |" in page
    # If the test mAP of one last epoch is missing, the others may be those whose last epoch was good.
    rows.append(run("old", 0, [0.5, math.nan], full=[0.9, 0.2], observed=[0.9, 0.2]))
    assert "What the best epoch gains" not in report_page(build_report(rows, modes=BOTH), "")


def test_missing_and_failed_runs():
    rows = [
        run("a", 0, [0.5]),
        run("a", 1, [0.5]),
        run("b", 0, [0.5]),
        replace(run("c", 0, [0.5]), status="failed", message="boom", history={}),
        replace(run("a", 0, [0.5], trial=1), status="failed", message="late", history={}),
        row(("voc", "uniform", "b", 1), values={"val/mAP": [0.5], "test/mAP": [math.nan]}),
    ]
    books = build_report(rows, modes=BOTH).books
    reasons = {(m.series.candidate, m.series.seed): (m.modes, m.reason) for m in books.missing}
    assert reasons == {
        ("c", 0): (BOTH, "its only run failed"),
        ("c", 1): (BOTH, "no run"),
        ("b", 1): (BOTH, "no run with numbers for this selection"),
    }
    assert [(f.series.candidate, f.message) for f in books.failures] == [("a", "late"), ("c", "boom")]
    wanted = [SeriesKey("yeast", "uniform", "a", 0)]
    missing = build_report(rows, modes=BOTH, expected=wanted).books.missing
    assert wanted[0] in [m.series for m in missing]
    assert SeriesKey("voc", "uniform", "c", 1) not in [m.series for m in missing]


def test_runs_without_the_numbers_of_a_mode_are_missing_only_there():
    rows = [run("a", 0, [0.5]), row(("voc", "uniform", "b", 0), values={"val/mAP": [0.4], "test/mAP": [0.4]})]
    found = build_report(rows, modes=BOTH)
    assert set(found.entries[TASK]) == {("a", "oracle"), ("b", "oracle"), ("a", "observed")}


def test_versions_data_and_cost():
    rows = [
        run("a", 0, [0.5], seconds=2.0, memory=10.0, versions={"code": "one", "machine": "x"}),
        run("a", 1, [0.5], seconds=3.0, memory=7.0, versions={"code": "two", "machine": "y"}),
        run(
            "b", 0, [0.5], versions={"code": "two", "machine": "y"}, facts={"fingerprint": "other", "test": 9}
        ),
    ]
    books = build_report(rows, modes=BOTH).books
    assert books.mixed == ("code",)
    assert books.versions[0] == (("", "two", "", "", "y"), 2)
    assert books.changed == (("voc", "uniform", 0),)
    assert books.fingerprints == {"voc": 2}
    assert books.facts["voc"]["test"] == (9, 1000)
    assert books.costs[0] == ("voc", "a", 2, 5.0, 10.0)
