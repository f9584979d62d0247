"""The time left is that of the missing runs, at the pace of the finished ones."""

from __future__ import annotations

import pytest

from spml.bench.read_spec import read_spec
from spml.bench.rows import SeriesKey
from spml.bench.state import State
from spml.bench.time_left import in_words, time_left
from spml.config import AUTO
from tests.bench.rows import row
from tests.bench.toys import save_spec

SPEC = f"""
data:
  small: {{path: small.npz, unlisted: negative}}
  large: {{path: large.npz, unlisted: negative}}
hiding:
  uniform: {{observe: single}}
candidates:
  - an
  - em
  - {{name: ridge, model.head: ridge, space: {{}}}}
  - {{name: means, model.head: mean_difference, space: {{}}}}
  - {{name: an solved, method: an, optim.name: lbfgs, space: {{}}}}
  - {{name: em solved, method: em, optim.name: lbfgs, space: {{}}}}
  - {{name: heads, method: {AUTO}, space: {{}}}}
seeds: 20
"""


@pytest.fixture
def spec(tmp_path):
    return read_spec(save_spec(tmp_path, SPEC))


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


def test_nothing_is_known_at_the_start(spec):
    assert time_left(spec, state_of({}, {("small", "an"): [1, 1]}), workers=2) is None


def test_nothing_is_left_at_the_end(spec):
    assert time_left(spec, state_of({("small", "an"): [3.0]}, {}), workers=2) == 0
    assert time_left(spec, State(0, (), {}), workers=2) == 0


def test_each_candidate_has_a_pace_of_its_own(spec):
    done = {("small", "an"): [1.0, 3.0], ("small", "an solved"): [60.0]}
    state = state_of(done, {("small", "an"): [1] * 6, ("small", "an solved"): [1] * 4})
    assert time_left(spec, state, workers=1) == pytest.approx(6 * 2.0 + 4 * 60.0)
    assert time_left(spec, state, workers=3) == pytest.approx((6 * 2.0 + 4 * 60.0) / 3)


def test_a_series_is_made_by_one_worker(spec):
    state = state_of({("small", "an"): [2.0]}, {("small", "an"): [1, 1, 10]})
    assert time_left(spec, state, workers=1) == pytest.approx(24.0)
    assert time_left(spec, state, workers=8) == pytest.approx(20.0)


def test_another_data_set_scales_what_is_known(spec):
    done = {
        ("small", "an"): [1.0], ("small", "ridge"): [2.0], ("small", "an solved"): [10.0],
        ("large", "an"): [4.0], ("large", "ridge"): [10.0],
    }  # fmt: skip
    state = state_of(done, {("large", "an solved"): [1]})
    assert time_left(spec, state, workers=1) == pytest.approx(10.0 * 4.5)  # the median of 4 and 5
    back = state_of({**done, ("large", "em"): [9.0]}, {("small", "em"): [1]})
    assert time_left(spec, back, workers=1) == pytest.approx(9.0 * (1 / 4 + 1 / 5) / 2)


def test_a_data_set_without_finished_runs_is_taken_to_be_like_the_others(spec):
    state = state_of({("small", "an"): [3.0]}, {("large", "an"): [1, 1]})
    assert time_left(spec, state, workers=1) == pytest.approx(6.0)


@pytest.mark.parametrize(
    ("unknown", "like"),
    [("em", "an"), ("means", "ridge"), ("em solved", "an solved")],
)
def test_a_new_candidate_is_like_those_that_are_fitted_in_the_same_way(spec, unknown, like):
    done = {("small", "an"): [1.0], ("small", "ridge"): [5.0], ("small", "an solved"): [40.0]}
    state = state_of(done, {("small", unknown): [1, 1]})
    assert time_left(spec, state, workers=1) == pytest.approx(2 * done["small", like][0])


def test_no_guess_at_candidates_that_are_fitted_in_another_way(spec):
    done = {("small", "an"): [1.0], ("small", "ridge"): [5.0], ("small", "an solved"): [40.0]}
    assert time_left(spec, state_of(done, {("small", "an"): [1], ("small", "heads"): [1]}), 1) is None
    done["large", "heads"] = [7.0]
    state = state_of(done, {("small", "an"): [1], ("small", "heads"): [1]})
    assert time_left(spec, state, 1) == pytest.approx(8.0)


def test_failed_runs_and_runs_that_took_no_time_say_nothing(spec):
    failed = state_of({("small", "an"): [3.0]}, {("small", "an"): [1]})
    (made,) = failed.rows
    early = row(made.series, 1, seconds=0.1, status="failed")
    assert time_left(spec, State(3, (made, early), failed.missing), 1) == pytest.approx(3.0)
    assert time_left(spec, State(2, (early,), failed.missing), 1) is None
    done = {("small", "an"): [0.0], ("small", "ridge"): [2.0], ("large", "an"): [4.0]}
    assert time_left(spec, state_of(done, {("large", "ridge"): [1]}), 1) == pytest.approx(2.0)


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
