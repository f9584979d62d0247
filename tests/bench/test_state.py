"""Finished runs of a specification, and the time that the missing ones take."""

from __future__ import annotations

from pathlib import Path

import pytest

from spml.bench.plan import CODE_VERSION, all_series, plan_trial
from spml.bench.rows import SeriesKey
from spml.bench.spec import read_spec
from spml.bench.state import State, Tracker, in_words, read_state, time_left
from spml.bench.store import Store
from tests.bench.rows import row
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


def test_runs_of_another_specification_do_not_count(tmp_path, store):
    """The same data, ways of hiding, candidates and seeds, but longer training."""
    spec, other = spec_of(tmp_path), spec_of(tmp_path, GRID.replace("epochs: 3", "epochs: 4"))
    add_runs(store, spec, ROOT, {"an": [0], "em slow": [0, 1, 2]})
    tracker = Tracker(spec, store, ROOT)
    assert (tracker.state.finished, tracker.state.total) == (4, 7)
    assert read_state(other, store, ROOT).finished == 0
    add_runs(store, other, ROOT, {"an": [0, 1], "em slow": [0, 1, 2], "full": [0]})
    assert tracker.update().finished == 4
    assert read_state(other, store, ROOT).finished == 6
    add_runs(store, spec, ROOT, {"full": [0, 1]})
    state = tracker.update()
    assert (state.finished, missing(state)) == (6, {"an": 1})
    add_runs(store, spec, ROOT, {"an": [1]})
    state = tracker.update()
    assert (state.finished, state.missing) == (7, {})
    add_runs(store, other, ROOT, {"full": [1]})
    assert tracker.update() == read_state(spec, store, ROOT) == state


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
    tracker = Tracker(spec, store, ROOT)
    for number in range(3):
        before = [row for row in tracker.state.rows if row.series == series.key]
        assert [row.trial for row in before] == list(range(number))
        add_runs(store, spec, ROOT, {"an": [number]}, before)
        state = tracker.update()
        assert missing(state).get("an", 0) == 2 - number
        assert state.rows[number].params == plan_trial(spec, series, number, before, ROOT).params
    assert tracker.update() == read_state(spec, store, ROOT)


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


# -- time left: at the pace of the finished runs ----------------------------------------------------------


def state_of(seconds, missing, **rest):
    """State with a finished run for each number of seconds of a (data set, candidate), and missing runs."""
    rows = [
        row((data, "uniform", candidate, seed), seconds=value, status="done", **rest)
        for (data, candidate), values in seconds.items()
        for seed, value in enumerate(values)
    ]
    left = {
        SeriesKey(data, "uniform", candidate, 10 + seed): runs
        for (data, candidate), several in missing.items()
        for seed, runs in enumerate(several)
    }
    return State(len(rows) + sum(left.values()), tuple(rows), left)


def test_nothing_is_known_at_the_start():
    assert time_left(state_of({}, {("small", "an"): [1, 1]}), workers=2) is None


def test_nothing_is_left_at_the_end():
    assert time_left(state_of({("small", "an"): [3.0]}, {}), workers=2) == 0
    assert time_left(State(0, (), {}), workers=2) == 0


def test_each_candidate_has_a_pace_of_its_own():
    done = {("small", "an"): [1.0, 3.0], ("small", "an solved"): [60.0]}
    state = state_of(done, {("small", "an"): [1] * 6, ("small", "an solved"): [1] * 4})
    assert time_left(state, workers=1) == pytest.approx(6 * 2.0 + 4 * 60.0)
    assert time_left(state, workers=3) == pytest.approx((6 * 2.0 + 4 * 60.0) / 3)


def test_a_series_is_made_by_one_worker():
    state = state_of({("small", "an"): [2.0]}, {("small", "an"): [1, 1, 10]})
    assert time_left(state, workers=1) == pytest.approx(24.0)
    assert time_left(state, workers=8) == pytest.approx(20.0)


@pytest.mark.parametrize(
    ("missing", "seconds"),
    [
        (("large", "an"), 4.0),  # its own runs there
        (("large", "an solved"), 10.0),  # its own runs elsewhere
        (("large", "em"), 7.0),  # what others take there
    ],
)
def test_a_candidate_without_runs_takes_as_long_as_what_is_nearest_to_it(missing, seconds):
    done = {
        ("small", "an"): [1.0], ("small", "an solved"): [10.0], ("large", "an"): [4.0],
        ("large", "ridge"): [10.0],
    }  # fmt: skip
    assert time_left(state_of(done, {missing: [1]}), workers=1) == pytest.approx(seconds)


def test_failed_runs_say_nothing():
    failed = state_of({("small", "an"): [3.0]}, {("small", "an"): [1]})
    (made,) = failed.rows
    early = row(made.series, 1, seconds=0.1, status="failed")
    assert time_left(State(3, (made, early), failed.missing), 1) == pytest.approx(3.0)
    assert time_left(State(2, (early,), failed.missing), 1) is None


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "about 1 s"),
        (89, "about 89 s"),
        (90, "about 2 min"),
        (5399, "about 90 min"),
        (5400, "about 1.5 h"),
    ],
)
def test_durations_in_words(seconds, words):
    assert in_words(seconds) == words
