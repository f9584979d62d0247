"""One positive per sample, all true negatives, and wrong positives: by hand and by a slow loop."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest, chisquare

from spml.common.draws import uniform
from spml.data.hiding import single_positive, with_all_negatives, with_wrong_positives
from spml.labels import ObservedLabels
from tests.helpers.hidden import full, random_matrix

# -- all negatives ---------------------------------------------------------------------------------------


def test_the_negatives_are_added_and_no_hidden_positive_is():
    truth = full([[1, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]])
    observed = ObservedLabels.from_ternary([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0]])
    expected = [[0, 1, -1, 0], [-1, -1, 1, -1], [-1, -1, -1, -1], [1, 0, 0, 0]]
    labels = with_all_negatives(observed, truth)
    assert labels.to_ternary().tolist() == expected
    assert labels == ObservedLabels.from_ternary(expected)
    assert labels.positives_per_sample().tolist() == [1, 1, 0, 1]
    assert labels.negatives_per_sample().tolist() == [1, 3, 4, 0]
    assert labels.negatives_per_class().tolist() == [2, 2, 2, 2]
    assert not labels.full


def test_a_wrong_positive_stays_positive_and_the_replaced_one_is_unknown():
    observed = ObservedLabels.from_index([2], 4)
    assert with_all_negatives(observed, full([[1, 1, 0, 0]])).to_ternary().tolist() == [[0, 0, 1, -1]]


# -- wrong positives -------------------------------------------------------------------------------------


def slowly(matrix, observed, share, seed):
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
    observed = single_positive(full(matrix), 1)
    expected = slowly(matrix, observed, share, seed)
    noisy, wrong = with_wrong_positives(observed, full(matrix), share, seed)
    assert (noisy.to_ternary() == expected).all()
    assert wrong == ((expected == 1) & (matrix == 0)).sum() == (expected != observed.to_ternary()).sum() // 2
    assert (noisy.positives_per_sample() == observed.positives_per_sample()).all()


def test_the_share_and_the_uniform_choice_of_the_wrong_label():
    truth = full(np.tile([0, 1, 0, 1, 0], (20_000, 1)))
    noisy, wrong = with_wrong_positives(single_positive(truth, 0), truth, 0.3, 0)
    assert binomtest(wrong, 20_000, 0.3).pvalue > 1e-3
    counts = noisy.positives_per_class()
    assert counts[[0, 2, 4]].sum() == wrong
    assert chisquare(counts[[0, 2, 4]]).pvalue > 1e-3


def test_a_larger_share_replaces_what_a_smaller_one_replaces():
    matrix = random_matrix()
    observed = single_positive(full(matrix), 1)
    few, many = (
        with_wrong_positives(observed, full(matrix), share, 7)[0].to_ternary() for share in (0.2, 0.6)
    )
    replaced = (few == 1) & (matrix == 0)
    assert replaced.sum() > 0
    assert (many[replaced] == 1).all()
    assert ((many == 1) & (matrix == 0)).sum() > replaced.sum()


def test_a_sample_without_an_absent_label_keeps_its_positive():
    truth = full([[1, 1, 1], [0, 0, 0]])
    observed = ObservedLabels.from_ternary([[0, 1, 0], [0, 0, 0]])
    for seed in range(5):
        assert with_wrong_positives(observed, truth, 0.999999, seed) == (observed, 0)


# -- one positive -----------------------------------------------------------------------------------------


def test_single_positive_is_uniform_over_the_positives():
    observed = single_positive(full(np.tile([1, 0, 1, 1, 0], (30_000, 1))), 3)
    assert observed.single_positive
    assert observed.positives_per_class() == pytest.approx([10_000, 0, 10_000, 10_000, 0], rel=0.03)


def test_single_positive_of_single_positives_is_the_same():
    labels = ObservedLabels.from_index([2, 0, 1], 3)
    assert single_positive(labels, 0) == labels


def test_single_positive_does_not_depend_on_the_order_of_labels_within_a_sample():
    """The result is that of the dense matrix, in whatever order the labels are stored."""
    indptr, columns = np.array([0, 3, 6, 9]), np.array([3, 0, 2, 2, 3, 0, 1, 3, 0])
    labels = ObservedLabels(indptr, columns, np.ones(9, np.int8), 4, unlisted=-1)
    dense = full(labels.to_multi_hot())
    for seed in range(5):
        assert single_positive(labels, seed) == single_positive(dense, seed)
