"""Answers that stand, and what they say about a list."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from spml.review.progress import (
    CONFLICT,
    NO,
    UNSURE,
    YES,
    Answers,
    Entries,
    Estimate,
    Selection,
    make_order,
    measure,
)
from spml.review.store import Decision


def make(count, shuffled=None, probabilities=None, columns=None):
    return Entries(
        np.arange(count),
        np.zeros(count, np.int64) if columns is None else np.array(columns),
        np.full(count, 0.5) if probabilities is None else np.array(probabilities),
        np.arange(count) if shuffled is None else np.array(shuffled),
        [()] * count,
        [""] * count,
    )


def progress(entries, answers, selection=None):
    """Numbers with some entries answered, by entry."""
    status = np.zeros(len(entries.rows), np.int8)
    for entry, answer in answers.items():
        status[entry] = answer
    return measure(entries, make_order(entries, selection or Selection()), status)


def test_counts():
    numbers = progress(make(9), {0: YES, 1: NO, 2: NO, 3: UNSURE, 5: CONFLICT})
    assert numbers[:7] == (9, 1, 2, 1, 1, 1, 9)
    numbers = progress(make(4), {}, Selection(2))  # without entries
    assert (numbers.listed, numbers.precision, numbers.next_check) == (0, None, None)


def test_mistakes_among_given_labels():
    """The answer no is a hit, and the confidence is not taken for a probability."""
    entries = make(40, probabilities=np.linspace(0, 0.5, 40))._replace(name="wrong")
    few = progress(entries, {0: NO, 1: YES})
    assert (few.hits, few.precision, few.expected) == (1, None, None)
    many = progress(entries, {entry: NO if entry < 5 else YES for entry in range(20)})
    low, high = binomtest(5, 20).proportion_ci(method="exact")
    assert many.precision == pytest.approx((0.25, low, high))
    assert many.expected == pytest.approx((5, 20 * low, 20 * high))


def test_random_entries_count_up_to_the_first_without_an_answer():
    entries = make(6, shuffled=[4, 0, 2, 5, 1, 3])
    numbers = progress(entries, {4: YES, 0: NO, 5: YES, 1: NO})
    assert (numbers.checks, numbers.next_check) == (2, 2)
    numbers = progress(entries, {4: YES, 0: NO, 5: YES, 1: NO, 2: UNSURE})
    assert (numbers.checks, numbers.checks_left_out, numbers.next_check) == (4, 1, 3)


def test_no_precision_from_fewer_than_ten_checks():
    entries = make(100, probabilities=np.linspace(0.9, 0.1, 100))
    numbers = progress(entries, dict.fromkeys(range(9), YES))
    assert (numbers.checks, numbers.precision) == (9, None)
    rest = pytest.approx(np.linspace(0.9, 0.1, 100)[9:].sum())
    assert numbers.expected == (rest, rest, rest)


def test_precision_with_the_interval_of_clopper_and_pearson():
    entries = make(100, probabilities=np.full(100, 0.5))
    answers = {entry: YES if entry < 6 else NO for entry in range(20)} | {20: UNSURE, 21: CONFLICT}
    numbers = progress(entries, answers)
    low, high = binomtest(6, 20).proportion_ci(method="exact")
    assert numbers.precision == pytest.approx((0.3, low, high))
    assert (numbers.checks, numbers.checks_left_out) == (20, 2)
    # 78 undecided entries of p = .5; random ones were right with .3 in place of .5.
    assert numbers.expected == pytest.approx((78 * 0.3, 78 * low, 78 * high))


@pytest.mark.parametrize("right", [0, 10])
def test_precision_at_the_ends(right):
    numbers = progress(make(100), {entry: YES if entry < right else NO for entry in range(10)})
    assert numbers.precision[1:] == pytest.approx(tuple(binomtest(right, 10).proportion_ci(method="exact")))


def test_no_more_is_expected_than_is_undecided():
    entries = make(30, probabilities=[0.1] * 10 + [0.9] * 20)
    numbers = progress(entries, dict.fromkeys(range(10), YES))
    assert numbers.precision.value == 1
    assert numbers.expected.high == 20


def test_probabilities_of_zero_give_an_expectation_of_zero():
    entries = make(30, probabilities=[0.0] * 30)
    assert progress(entries, dict.fromkeys(range(10), YES)).expected == (0, 0, 0)


def test_with_all_entries_answered_the_precision_is_exact():
    numbers = progress(make(4), {0: YES, 1: NO, 2: UNSURE, 3: YES})
    assert numbers.precision == Estimate(2 / 3, 2 / 3, 2 / 3)
    assert (numbers.expected.value, numbers.next_check) == (0, None)


def test_numbers_are_about_the_selection():
    entries = make(8, columns=[0, 1] * 4, shuffled=[7, 6, 5, 4, 3, 2, 1, 0])
    numbers = progress(entries, {7: YES, 5: NO, 6: YES, 0: YES}, Selection(1))
    assert (numbers.listed, numbers.yes, numbers.no, numbers.checks, numbers.next_check) == (4, 1, 1, 2, 3)


def test_reviewing_by_rank_does_not_bias_the_precision():
    """Simulation: whoever reviews the first third by rank, and every fifth at random, sees the whole list."""
    rng = np.random.default_rng(0)
    estimates, covered, expected, left = [], 0, [], []
    for _ in range(300):
        probabilities = np.sort(rng.beta(0.7, 1.2, 300))[::-1]
        truth = rng.random(300) < 0.6 * probabilities  # 1.7 times too optimistic
        columns, windows = np.zeros(300, np.int64), [()] * 300
        entries = Entries(np.arange(300), columns, probabilities, rng.permutation(300), windows, [""] * 300)
        order = make_order(entries, Selection())
        status = np.zeros(300, np.int8)
        shown = order.samples[:150]
        status[shown] = np.where(truth[shown], YES, NO)
        numbers = measure(entries, order, status)
        estimates.append(numbers.precision.value - truth.mean())
        covered += numbers.precision.low <= truth.mean() <= numbers.precision.high
        expected.append(numbers.expected.value)
        left.append(truth[status == 0].sum())
    assert abs(np.mean(estimates)) < 0.015
    assert covered >= 0.93 * 300
    assert np.mean(expected) == pytest.approx(np.mean(left), rel=0.07)


PAIR = ("a.jpg", "cat")


def log(*entries):
    """Rows from (reviewer, answer), or (reviewer, number of the row that is undone)."""
    rows = []
    for number, (reviewer, answer) in enumerate(entries, start=1):
        answer, undoes = (answer, None) if isinstance(answer, str) else ("undo", answer)
        rows.append(Decision(number, *PAIR, answer, reviewer, "", False, undoes))
    return rows


@pytest.mark.parametrize(
    ("entries", "status"),
    [
        ([], "undecided"),
        ([("ann", "yes")], "yes"),
        ([("ann", "yes"), ("ann", "no")], "no"),
        ([("ann", "yes"), ("ann", "no"), ("ann", 2)], "yes"),
        ([("ann", "yes"), ("ann", 1)], "undecided"),
        ([("ann", "yes"), ("ann", 1), ("ann", "unsure")], "unsure"),
        ([("ann", "yes"), ("ben", "yes")], "yes"),
        ([("ann", "yes"), ("ben", "no")], "conflict"),
        ([("ann", "yes"), ("ben", "no"), ("ben", "yes")], "yes"),
        ([("ann", "yes"), ("ben", "no"), ("ben", 2)], "yes"),
        ([("ann", "unsure"), ("ben", "no")], "no"),
        ([("ann", "unsure"), ("ben", "no"), ("eve", "yes")], "conflict"),
    ],
)
def test_status(entries, status):
    answers = Answers()
    answers.follow(log(*entries))
    assert answers.status(PAIR) == status
    assert dict(answers.decided()) == ({} if status == "undecided" else {PAIR: status})


def test_a_log_may_be_followed_in_parts():
    rows = log(("ann", "yes"), ("ben", "no"), ("ann", "no"), ("ben", 2))
    answers = Answers()
    assert answers.follow(rows[:2]) == {PAIR}
    assert (answers.last, answers.status(PAIR)) == (2, "conflict")
    assert answers.follow([]) == set()
    answers.follow(rows[2:])
    assert (answers.last, answers.status(PAIR)) == (4, "no")
    assert answers.of(PAIR) == [rows[2]]
    assert answers.of(("b.jpg", "cat")) == []
