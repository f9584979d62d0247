"""Rules that hide labels: pinned results, a slow reference, and the distributions that they promise."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import kstest

from spml.common.draws import raw, uniform
from spml.data import hiding as rules
from spml.data.records import Objects
from spml.labels import ObservedLabels
from tests.helpers.hidden import full, random_matrix
from tests.helpers.true_labels import leaks

SMALL = np.array([
    [1, 1, 0, 1, 0], [0, 1, 0, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0],
    [0, 1, 1, 0, 0], [1, 0, 1, 0, 0], [0, 1, 0, 1, 1], [1, 1, 0, 0, 1],
])  # fmt: skip


def boxes_of(matrix):
    """One box for each positive; its size and position depend on its row and column."""
    row, column = np.nonzero(matrix)
    size = (row * 7 + column * 3) % 10
    return Objects(row, column, (size + 1) / 11, size / 11)


def biased(rule, power):
    return lambda labels, boxes, seed: rules.biased_positive(
        labels, rules.log_weights(labels, rule, power, seed, boxes), seed
    )


RULES = {
    "single": lambda labels, boxes, seed: rules.single_positive(labels, seed),
    "frequency": biased("frequency", 4.0),
    "rarity": biased("frequency", -4.0),
    "salience": biased("salience", 2.0),
    "size": biased("size", 3.0),
    "position": biased("position", 3.0),
    "counts": lambda labels, boxes, seed: rules.label_counts(labels, 2, 1, seed),
    "fraction": lambda labels, boxes, seed: rules.label_share(labels, 0.4, seed),
    "questions": lambda labels, boxes, seed: rules.questions(labels, seed),
}
SINGLE = ("single", "frequency", "rarity", "salience", "size", "position")
PER_SAMPLE = ("single", "salience", "counts", "fraction", "questions")


# -- pinned ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "first", "second"),
    [
        ("single", [0, 1, 3, -1, 1, 2, 3, 0], [3, 1, 4, -1, 2, 2, 4, 1]),
        ("frequency", [0, 1, 1, -1, 1, 2, 1, 1], [1, 1, 2, -1, 2, 2, 1, 1]),
        ("rarity", [0, 1, 4, -1, 2, 2, 3, 0], [3, 1, 4, -1, 2, 2, 4, 4]),
        ("salience", [0, 1, 2, -1, 1, 2, 1, 1], [3, 1, 4, -1, 2, 2, 4, 4]),
        ("size", [3, 1, 4, -1, 2, 0, 1, 0], [3, 1, 4, -1, 2, 2, 4, 0]),
        ("position", [0, 1, 2, -1, 1, 2, 3, 1], [0, 1, 3, -1, 2, 2, 3, 4]),
    ],
)
def test_single_positive_rules_are_pinned(rule, first, second):
    """These values must never change: runs depend on them."""
    for seed, expected in enumerate((first, second)):
        assert columns_of(RULES[rule](full(SMALL), boxes_of(SMALL), seed)) == expected


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("counts", [
            [0, 1, 0, 1, -1], [-1, 1, 0, 0, 0], [1, 1, 0, 0, 0], [0, 0, 0, -1, 0],
            [0, 1, 1, 0, -1], [1, 0, 1, 0, -1], [-1, 1, 0, 1, 0], [1, 0, -1, 0, 1],
        ]),
        ("fraction", [
            [0, 1, 0, 1, 0], [-1, 0, 0, -1, 0], [1, 1, 0, 0, 0], [-1, 0, -1, -1, 0],
            [0, 0, 1, 0, -1], [1, 0, 1, 0, -1], [-1, 1, 0, 1, 0], [1, 0, -1, 0, 1],
        ]),
        ("questions", [
            [0, 0, 0, 1, 0], [-1, 1, 0, -1, -1], [1, 0, 0, 0, 0], [-1, -1, -1, -1, -1],
            [0, 0, 1, 0, 0], [1, 0, 0, 0, 0], [-1, 1, 0, 0, 0], [1, 0, 0, 0, 0],
        ]),
    ],
)  # fmt: skip
def test_rules_with_negatives_are_pinned(rule, expected):
    assert RULES[rule](full(SMALL), None, 0).to_ternary().tolist() == expected


def test_normal_numbers():
    expected = [0.25328892690541405, -1.6219918840711618, 1.6196862584061662]
    np.testing.assert_allclose(rules.normal(3, "x", 1), expected, rtol=1e-14)
    assert kstest(rules.normal(50_000, "n"), "norm").pvalue > 0.01


# -- against a slow reference ----------------------------------------------------------------------------


def slowly(rule, matrix, seed):
    """Observed labels of each sample, in plain loops over the same random numbers."""
    classes = matrix.shape[1]
    keys = raw(matrix.size, "observe", "entries", seed)
    observed = []
    for row, truth in enumerate(matrix.tolist()):
        row_keys = keys[row * classes : (row + 1) * classes].tolist()
        order = sorted(range(classes), key=row_keys.__getitem__)
        present = [c for c in order if truth[c]]
        absent = [c for c in order if not truth[c]]
        known = {
            "counts": lambda p=present, a=absent: p[:2] + a[:1],
            "fraction": lambda k=row_keys: [c for c in range(classes) if k[c] / 2**64 < 0.4],
            "questions": lambda o=order, p=present: o[: o.index(p[0]) + 1] if p else o,
        }[rule]()
        observed.append([(1 if truth[c] else -1) if c in known else 0 for c in range(classes)])
    return observed


@pytest.mark.parametrize("rule", ["counts", "fraction", "questions"])
@pytest.mark.parametrize("chunk", [2**20, 100, 1])
def test_rules_with_negatives_equal_the_slow_reference(rule, chunk, monkeypatch):
    monkeypatch.setattr(rules, "CHUNK", chunk)
    matrix = random_matrix()
    assert RULES[rule](full(matrix), None, 3).to_ternary().tolist() == slowly(rule, matrix, 3)


def chosen_slowly(matrix, measure, seed):
    """Column drawn for each sample with weight measure(row, column); -1 if the sample has no positive."""
    numbers = uniform(len(matrix), "observe", seed)
    drawn = []
    for row, truth in enumerate(matrix.tolist()):
        columns = [c for c, present in enumerate(truth) if present]
        total, running, picked = sum(measure(row, c) for c in columns), 0.0, -1
        for c in columns:
            running += measure(row, c)
            if picked < 0 and numbers[row] * total < running:
                picked = c
        drawn.append(picked)
    return drawn


def columns_of(labels):
    ternary = labels.to_ternary()
    assert set(np.unique(ternary)) <= {0, 1}
    assert ternary.sum(axis=1).max() == 1
    return np.where(ternary.any(axis=1), ternary.argmax(axis=1), -1).tolist()


@pytest.mark.parametrize("power", [0.0, 1.0, -2.5])
def test_frequency_and_salience_weigh_classes(power):
    matrix = random_matrix()
    labels, frequency = full(matrix), matrix.sum(axis=0)
    observed = rules.biased_positive(labels, rules.log_weights(labels, "frequency", power), 1)
    assert columns_of(observed) == chosen_slowly(matrix, lambda r, c: float(frequency[c]) ** power, 1)
    z = rules.normal(7, "observe", "salience", 1)
    observed = rules.biased_positive(labels, rules.log_weights(labels, "salience", power, 1), 1)
    assert columns_of(observed) == chosen_slowly(matrix, lambda r, c: math.exp(power * z[c]), 1)
    if not power:
        assert observed == rules.single_positive(labels, 1), "no preference: the same draw as `single`"


@pytest.mark.parametrize("number", [0.0, 0.25, 0.5, 0.75, 1 - 2.0**-53])
def test_ties_between_two_classes_are_broken_as_in_single(number, monkeypatch):
    monkeypatch.setattr(rules, "uniform", lambda count, *key: np.full(count, number))
    labels = full(np.tile([[1, 1, 1, 1], [0, 1, 0, 1]], (3, 1)))
    assert rules.biased_positive(labels, np.zeros(18), 0) == rules.single_positive(labels, 0)


@pytest.mark.parametrize("power", [1.0, -1.0, 40.0])
def test_size_and_position_weigh_boxes(power):
    """Several boxes of a class, boxes of absent classes, positives without a box, areas of zero."""
    matrix, generator = random_matrix(), np.random.default_rng(1)
    row, column = generator.integers(0, 300, 900), generator.integers(0, 7, 900)
    area, distance = generator.random(900), generator.random(900)
    area[:20], distance[20:40] = 0, 1
    for measure, rule in ((area, "size"), (1 - distance, "position")):
        largest: dict[tuple[int, int], float] = {}
        for entry, size in zip(zip(row.tolist(), column.tolist(), strict=True), measure, strict=True):
            if matrix[entry]:
                largest[entry] = max(largest.get(entry, 1e-6), size)
        assert 50 < len(largest) < matrix.sum() - 50
        median = float(np.median(list(largest.values())))
        objects = Objects(row, column, area, distance)
        log_weight = rules.log_weights(full(matrix), rule, power, objects=objects)
        observed = rules.biased_positive(full(matrix), log_weight, 2)
        expected = chosen_slowly(matrix, lambda r, c: (largest.get((r, c), median) / median) ** power, 2)  # noqa: B023
        assert columns_of(observed) == expected


# -- properties of all rules -----------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
def test_observed_labels_are_true_and_depend_on_the_seed(rule):
    matrix = random_matrix()
    labels, boxes = full(matrix), boxes_of(matrix)
    observed = RULES[rule](labels, boxes, 0)
    ternary = observed.to_ternary()
    assert (ternary[ternary != 0] == (matrix * 2 - 1)[ternary != 0]).all()
    assert not (ternary[4] == 1).any(), "a sample without a positive keeps none"
    assert RULES[rule](labels, boxes, 0) == observed
    assert RULES[rule](labels, boxes, 1) != observed
    if rule in SINGLE:
        has_positive = np.flatnonzero(matrix.any(axis=1))
        assert observed.take(has_positive).single_positive
        assert not ternary[4].any()
        direct = RULES[rule](labels.take(has_positive), boxes_of(matrix[has_positive]), 0)
        assert direct.single_positive, "stored as one integer per sample"


@pytest.mark.parametrize("rule", RULES)
def test_hidden_labels_can_not_be_reached(rule):
    matrix = random_matrix()
    labels = full(matrix)
    assert leaks(labels, [matrix.astype(bool)])
    assert not leaks(RULES[rule](labels, boxes_of(matrix), 0), [matrix.astype(bool)])


@pytest.mark.parametrize("rule", PER_SAMPLE)
def test_appended_samples_do_not_change_earlier_ones(rule):
    labels = full(random_matrix())
    assert RULES[rule](labels.take(range(100)), None, 0) == RULES[rule](labels, None, 0).take(range(100))


def test_observing_more_only_adds_labels():
    labels = full(random_matrix())
    steps = [
        [rules.label_counts(labels, k, m, 0) for k, m in ((1, 0), (2, 0), (2, 3), (7, 7))],
        [rules.label_share(labels, share, 0) for share in (0.01, 0.3, 0.9)],
    ]
    for observed in steps:
        for fewer, more in pairwise(observed):
            known = fewer.to_ternary() != 0
            assert known.sum() < (more.to_ternary() != 0).sum()
            assert (more.to_ternary()[known] == fewer.to_ternary()[known]).all()


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule not in ("size", "position")])
def test_labels_without_positives(rule):
    observed = RULES[rule](full(np.zeros((3, 4), int)), None, 0)
    assert (len(observed), observed.num_classes) == (3, 4)
    assert not observed.positives_per_class().any()


# -- all negatives ---------------------------------------------------------------------------------------


def test_the_negatives_are_added_and_no_hidden_positive_is():
    truth = full([[1, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]])
    observed = ObservedLabels.from_ternary([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0]])
    expected = [[0, 1, -1, 0], [-1, -1, 1, -1], [-1, -1, -1, -1], [1, 0, 0, 0]]
    labels = rules.with_all_negatives(observed, truth)
    assert labels.to_ternary().tolist() == expected
    assert labels == ObservedLabels.from_ternary(expected)
    assert labels.positives_per_sample().tolist() == [1, 1, 0, 1]
    assert labels.negatives_per_sample().tolist() == [1, 3, 4, 0]
    assert labels.negatives_per_class().tolist() == [2, 2, 2, 2]
    assert not labels.full


def test_a_wrong_positive_stays_positive_and_the_replaced_one_is_unknown():
    observed = ObservedLabels.from_index([2], 4)
    assert rules.with_all_negatives(observed, full([[1, 1, 0, 0]])).to_ternary().tolist() == [[0, 0, 1, -1]]


# -- wrong positives -------------------------------------------------------------------------------------


def wrong_slowly(matrix, observed, share, seed):
    """The labels with wrong positives, sample by sample."""
    replace = uniform(len(matrix), "observe", "noise", seed)
    pick = uniform(len(matrix), "observe", "noise", "label", seed)
    result = observed.to_ternary()
    for row, labels in enumerate(matrix):
        absent = [column for column, label in enumerate(labels) if not label]
        if result[row].any() and absent and replace[row] < share:
            result[row] = 0
            result[row, absent[int(pick[row] * len(absent))]] = 1
    return result


@pytest.mark.parametrize("share", [0.0, 0.2, 0.9])
@pytest.mark.parametrize("seed", [0, 3])
def test_against_a_loop(share, seed):
    matrix = random_matrix()
    observed = rules.single_positive(full(matrix), 1)
    expected = wrong_slowly(matrix, observed, share, seed)
    noisy, wrong = rules.with_wrong_positives(observed, full(matrix), share, seed)
    assert (noisy.to_ternary() == expected).all()
    assert wrong == ((expected == 1) & (matrix == 0)).sum() == (expected != observed.to_ternary()).sum() // 2
    assert (noisy.positives_per_sample() == observed.positives_per_sample()).all()


def test_a_sample_without_an_absent_label_keeps_its_positive():
    truth = full([[1, 1, 1], [0, 0, 0]])
    observed = ObservedLabels.from_ternary([[0, 1, 0], [0, 0, 0]])
    for seed in range(5):
        assert rules.with_wrong_positives(observed, truth, 0.999999, seed) == (observed, 0)


# -- one positive -----------------------------------------------------------------------------------------


def test_single_positive_is_uniform_over_the_positives():
    observed = rules.single_positive(full(np.tile([1, 0, 1, 1, 0], (30_000, 1))), 3)
    assert observed.single_positive
    assert observed.positives_per_class() == pytest.approx([10_000, 0, 10_000, 10_000, 0], rel=0.03)


def test_single_positive_of_single_positives_is_the_same():
    labels = ObservedLabels.from_index([2, 0, 1], 3)
    assert rules.single_positive(labels, 0) == labels


def test_single_positive_does_not_depend_on_the_order_of_labels_within_a_sample():
    """The result is that of the dense matrix, in whatever order the labels are stored."""
    indptr, columns = np.array([0, 3, 6, 9]), np.array([3, 0, 2, 2, 3, 0, 1, 3, 0])
    labels = ObservedLabels(indptr, columns, np.ones(9, np.int8), 4, unlisted=-1)
    dense = full(labels.to_multi_hot())
    for seed in range(5):
        assert rules.single_positive(labels, seed) == rules.single_positive(dense, seed)
