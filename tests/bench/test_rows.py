"""Epochs that selection modes pick, of every run and of each series, and draws that are stored with a run."""

from __future__ import annotations

import csv
import json
import math

import numpy as np
import pytest

from spml.bench.report import build_report, write_report
from spml.bench.rows import picks, picks_of_runs
from spml.bench.runner import bootstrap_draws
from tests.bench.rows import row

NAN = math.nan
ROWS = [
    row(
        ("voc", "uniform", "an", 0), 0, params={"hp.a": 1},
        values={"val/mAP": [0.3, 0.5, 0.4], "val/SP": [0.2, 0.1, 0.6], "test/mAP": [0.31, 0.52, 0.43]},
    ),
    row(
        ("voc", "uniform", "an", 0), 1, params={"hp.a": 2},
        values={"val/mAP": [0.1, 0.2, 0.2], "val/SP": [0.7, 0.1, 0.1], "test/mAP": [0.12, 0.25, NAN]},
    ),
    row(("voc", "uniform", "an", 0), 2, params={"hp.a": 3}, status="failed"),
]  # fmt: skip


def test_every_trial_is_scored_at_the_epoch_that_a_mode_selects():
    scores = picks_of_runs(ROWS, ["oracle", "observed"])
    assert [(s.row.trial, s.mode, s.epoch, s.value, s.val, s.test) for s in scores] == [
        (0, "oracle", 1, 0.5, 0.5, 0.52),
        (0, "observed", 2, 0.6, 0.4, 0.43),
        (1, "oracle", 1, 0.2, 0.2, 0.25),  # the first of two equal values
        (1, "observed", 0, 0.7, 0.1, 0.12),
    ]


def test_without_full_labels_the_validation_map_is_unknown():
    (known,) = picks_of_runs(
        [row(("a", "b", "c", 0), values={"val/SP": [0.4, 0.5], "test/mAP": [0.1, 0.2]})],
        ["oracle", "observed"],
    )
    assert (known.mode, known.test) == ("observed", 0.2)
    assert math.isnan(known.val)


def test_the_best_trial_of_a_series_is_picked():
    late = row(
        ("voc", "uniform", "an", 0), 3, values={"val/mAP": [0.5], "val/SP": [0.9], "test/mAP": [NAN]}
    )  # fmt: skip
    (by_mode,) = picks([late, *ROWS], ["oracle", "observed"]).values()
    assert by_mode["oracle"].row.trial == 0  # of equal values, the earlier trial
    assert "observed" not in by_mode  # the best one was not tested
    (by_mode,) = picks(ROWS, ["oracle", "observed"]).values()
    assert (by_mode["observed"].row.trial, by_mode["observed"].test) == (1, 0.12)


def test_all_trials_are_in_a_file_of_the_report(tmp_path):
    report = build_report(ROWS, modes=["oracle", "observed"])
    assert [len(entry.picks) for entry in report.entries["voc", "uniform"].values()] == [1, 1]
    write_report(report, tmp_path, title="t")
    with open(tmp_path / "trials.csv", newline="") as stream:
        lines = list(csv.DictReader(stream))
    assert [(line["selection"], line["trial"], line["test_mAP"]) for line in lines] == [
        ("oracle", "0", "0.52"), ("observed", "0", "0.43"),
        ("oracle", "1", "0.25"), ("observed", "1", "0.12"),
    ]  # fmt: skip
    assert [json.loads(line["params"])["hp.a"] for line in lines] == [1, 1, 2, 2]
    assert lines[1] == {
        "data": "voc", "hiding": "uniform", "candidate": "an", "selection": "observed", "seed": "0",
        "trial": "0", "epoch": "3", "score": "0.6", "val_mAP": "0.4", "test_mAP": "0.43",
        "params": '{"hp.a": 1}', "key": ROWS[0].key,
    }  # fmt: skip


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
