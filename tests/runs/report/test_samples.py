"""Which samples a report shows, and what it counts."""

from __future__ import annotations

import numpy as np
import pytest

from spml.labels import ObservedLabels
from spml.runs.folder.held_out import HeldOut
from spml.runs.report.page import MOST_SHOWN, choose_samples
from spml.scores import InMemory

SCORES = np.array(
    [[3.0, 0.1], [2.0, 0.2], [1.0, 0.3], [0.5, 0.4], [-1.0, 5.0], [0.6, -3.0], [0.9, 0.0]], np.float32
)
LABELS = np.array([[1, 0], [1, 0], [1, 0], [1, -1], [1, 0], [0, 1], [0, 0]], np.int8)


def held_out(scores, labels):
    ids = tuple(f"s{row}" for row in range(len(scores)))
    return HeldOut(ids, InMemory(np.asarray(scores, np.float32)), ObservedLabels.from_ternary(labels))


def test_best_worst_and_uncertain_samples_of_a_class():
    first, second = choose_samples(held_out(SCORES, LABELS), [0.7, 0.25])
    assert (first.column, first.best, first.worst) == (0, [0, 1, 2], [4, 3])
    # Of the two samples whose label is unknown, 0.6 is nearer to 0.7 than 0.9 is.
    assert first.uncertain == [5, 6]
    # The only known positive is the best one, not the worst one, too; row 3 is known to lack the label.
    assert (second.column, second.best, second.worst) == (1, [5], [])
    assert second.uncertain == [1, 2, 0]


def test_a_class_that_is_never_predicted_has_no_uncertain_samples():
    first, _ = choose_samples(held_out(SCORES, LABELS), [np.inf, 0.25])
    assert first.uncertain == []
    assert first.best == [0, 1, 2]


def test_with_full_labels_samples_without_the_label_are_uncertain():
    (only,) = choose_samples(held_out([[1.0], [0.2], [-0.1]], [[1], [-1], [-1]]), [0.0])
    assert only.uncertain == [2, 1]


@pytest.mark.parametrize(("classes", "shown", "each"), [(2, 2, 3), (20, 20, 2), (100, 40, 1)])
def test_the_number_of_samples_is_bounded(classes, shown, each):
    generator = np.random.default_rng(0)
    labels = np.zeros((10 * classes, classes), np.int8)
    labels[np.arange(10 * classes), np.arange(10 * classes) % classes] = 1
    labels[:7, :2] = 1  # the first two classes have most known positives
    found = choose_samples(held_out(generator.normal(size=labels.shape), labels), np.zeros(classes))
    assert len(found) == shown
    assert {each.column for each in found[:2]} == {0, 1}
    assert {len(group) for one in found for group in (one.best, one.worst, one.uncertain)} == {each}
    assert sum(len(group) for one in found for group in one[1:]) <= MOST_SHOWN


def test_classes_without_a_known_positive_are_left_out():
    assert choose_samples(held_out([[1.0, 2.0]], [[0, 0]]), [0.0, 0.0]) == []
