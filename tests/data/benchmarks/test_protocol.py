"""Split and observed labels of the published protocol, compared with reference values."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

from spml.common.errors import InputError
from spml.data.benchmarks import protocol_observed, protocol_split
from spml.labels import ObservedLabels
from tests.helpers.hidden import full_of


def sha256(rows):
    return hashlib.sha256(np.asarray(rows).astype("<i8").tobytes()).hexdigest()


@pytest.fixture(scope="module")
def golden(shared):
    return json.loads((shared / "goldens/protocol.json").read_text())


@pytest.mark.shared
@pytest.mark.parametrize("name", ["voc", "coco", "nus", "cub", "tiny"])
def test_split_equals_the_reference(golden, name):
    expected = golden["split"][name]
    train, val = protocol_split(expected["n"])
    assert (len(train), len(val)) == (expected["n_train"], expected["n_val"])
    assert train[:8].tolist() == expected["train_head"]
    assert val[:8].tolist() == expected["val_head"]
    assert sha256(train) == expected["sha256_train"]
    assert sha256(val) == expected["sha256_val"]


@pytest.mark.shared
@pytest.mark.parametrize("name", ["12x6", "200x20", "100x80"])
def test_observed_labels_equal_the_reference(golden, name):
    expected = golden["single_positive"][name]
    labels = full_of(expected["positives_per_row"], int(name.split("x")[1]))
    assert protocol_observed(labels).tolist() == expected["observed_class"]


def test_pinned_without_the_reference_file():
    train, val = protocol_split(5717)
    assert sha256(train) == "b3eebaf1f95fb36a2b4780d7e59d34269b36ea9caceb10f6e39f5500b8e50dd2"
    assert sha256(val) == "f5709e6ab75fb71eb1235fd3fc7e7b20354b5a0367dd9115e58d20e1b5ce6e4e"
    rows = [[0, 1, 4, 5], [0, 2], [0, 1, 2, 4], [1, 3, 4], [1, 5], [], [2], [2, 3, 5], [4], [0, 4], [0, 3, 5]]
    assert protocol_observed(full_of([*rows, [2, 5]], 6)).tolist() == [0, 2, 4, 3, 1, -1, 2, 2, 4, 0, 5, 2]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_too_few_images_to_split(count):
    with pytest.raises(InputError, match=f"has {count} images, too few to hold out 20%"):
        protocol_split(count)


def test_draws_depend_on_earlier_rows_and_not_on_later_ones():
    rows = [[0, 1, 2], [3, 4], [0, 4], [1, 2, 3], [0, 1, 2, 3, 4]] * 8
    whole = protocol_observed(full_of(rows, 5))
    assert (protocol_observed(full_of(rows[:20], 5)) == whole[:20]).all()
    assert not (protocol_observed(full_of(rows[1:], 5)) == whole[1:]).all()


def test_observed_labels_are_true():
    matrix = np.random.default_rng(0).random((3000, 81), np.float32) < 1.89 / 81
    observed = protocol_observed(ObservedLabels.from_multi_hot(matrix, unlisted="negative"))
    known = observed >= 0
    assert (known == matrix.any(axis=1)).all()
    assert matrix[np.flatnonzero(known), observed[known]].all()


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(5717, (4574, 1143)), (82_081, (65_665, 16_416)), (150_000, (120_000, 30_000)), (5994, (4795, 1199))],
)
def test_sizes_of_the_published_splits(count, sizes):
    assert tuple(map(len, protocol_split(count))) == sizes
