"""Finished, failed and missing runs of a specification."""

from __future__ import annotations

from pathlib import Path

import pytest

from spml.bench.plan import CODE_VERSION, all_series, plan_trial
from spml.bench.rows import SeriesKey
from spml.bench.spec import read_spec
from spml.bench.state import State, read_state
from spml.bench.store import Store
from tests.bench.toys import GRID, add_runs, save_spec

ROOT = Path("root")


@pytest.fixture
def store(tmp_path):
    return Store(f"sqlite:///{tmp_path / 'store.sqlite'}")


def spec_of(tmp_path, text=GRID):
    return read_spec(save_spec(tmp_path, text))


def missing(state):
    return {series.candidate: count for series, count in state.missing.items()}


def test_an_empty_store(tmp_path, store):
    state = read_state(spec_of(tmp_path), store, ROOT)
    assert (state.total, state.finished, state.failed) == (7, 0, ())
    assert missing(state) == {"an": 2, "em slow": 3, "full": 2}
    assert state.describe() == "0 of 7 runs are finished"
    assert State(12345, (), {}).describe() == "0 of 12,345 runs are finished"


def test_runs_of_another_specification_do_not_count(tmp_path, store):
    """The same data, ways of hiding, candidates and seeds, but longer training."""
    spec, other = spec_of(tmp_path), spec_of(tmp_path, GRID.replace("epochs: 3", "epochs: 4"))
    add_runs(store, spec, ROOT, {"an": [0], "em slow": [0, 1, 2]})
    state = read_state(spec, store, ROOT)
    assert (state.finished, state.total) == (4, 7)
    assert read_state(other, store, ROOT).finished == 0
    add_runs(store, other, ROOT, {"an": [0, 1], "em slow": [0, 1, 2], "full": [0]})
    assert read_state(spec, store, ROOT).finished == 4
    assert read_state(other, store, ROOT).finished == 6
    add_runs(store, spec, ROOT, {"full": [0, 1]})
    state = read_state(spec, store, ROOT)
    assert (state.finished, missing(state)) == (6, {"an": 1})
    add_runs(store, spec, ROOT, {"an": [1]})
    state = read_state(spec, store, ROOT)
    assert (state.finished, state.missing) == (7, {})
    add_runs(store, other, ROOT, {"full": [1]})
    assert read_state(spec, store, ROOT) == state


def test_runs_after_a_missing_one_count(tmp_path, store):
    """A grid that was extended at its lower end."""
    add_runs(store, spec_of(tmp_path), ROOT, {"an": [0, 1], "full": [0, 1]})
    wider = spec_of(tmp_path, GRID.replace("[1e-2, 1e-1]", "[1e-3, 1e-2, 1e-1]"))
    state = read_state(wider, store, ROOT)
    assert (state.finished, state.total) == (4, 9)
    assert [(row.series.candidate, row.trial, row.params) for row in state.rows] == [
        (name, number, {"optim.lr": rate})
        for name in ("an", "full")
        for number, rate in ((1, 1e-2), (2, 1e-1))
    ]
    assert missing(state) == {"an": 1, "em slow": 3, "full": 1}


def test_trials_that_learn_from_the_earlier_ones(tmp_path, store):
    text = GRID.replace("sampler: grid", "sampler: tpe")
    spec = spec_of(tmp_path, text.replace("[1e-2, 1e-1]", "{low: 1e-3, high: 1e-1, log: true}"))
    series = all_series(spec)[0]
    state = read_state(spec, store, ROOT)
    for number in range(3):
        before = [row for row in state.rows if row.series == series.key]
        assert [row.trial for row in before] == list(range(number))
        add_runs(store, spec, ROOT, {"an": [number]}, before)
        state = read_state(spec, store, ROOT)
        assert missing(state).get("an", 0) == 2 - number
        assert state.rows[number].params == plan_trial(spec, series, number, before, ROOT).params


def test_runs_of_another_version_of_the_code(tmp_path, store):
    spec = spec_of(tmp_path)
    add_runs(store, spec, ROOT, {"an": [0]}, code="old", finished="2026-01-02")
    add_runs(store, spec, ROOT, {"an": [0, 1]}, finished="2026-01-01")
    assert read_state(spec, store, ROOT).finished == 2
    assert {row.versions["code"] for row in read_state(spec, store, ROOT).rows} == {CODE_VERSION}
    newest = read_state(spec, store, ROOT, any_code=True)
    assert [row.versions["code"] for row in newest.rows] == ["old", CODE_VERSION]


def test_failed_runs_are_finished(tmp_path, store):
    spec = spec_of(tmp_path)
    add_runs(store, spec, ROOT, {"an": [0]}, status="failed", message="NaN")
    add_runs(store, spec, ROOT, {"an": [1]})
    state = read_state(spec, store, ROOT)
    assert [row.message for row in state.failed] == ["NaN"]
    assert state.describe() == "2 of 7 runs are finished, 1 of them failed"
    assert state.missing == {SeriesKey("toy", "uniform", name, 0): 3 - (name == "full")
                             for name in ("em slow", "full")}  # fmt: skip


def test_large_numbers_are_readable():
    state = State(12345, (), {})
    assert state.describe() == "0 of 12,345 runs are finished"
