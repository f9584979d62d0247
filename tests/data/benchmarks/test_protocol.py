"""Split and observed labels of the published protocol, compared with reference values."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

from spml.common.errors import InputError
from spml.data.benchmarks import protocol_observed, protocol_split
from spml.labels import ObservedLabels


def sha256(rows):
    return hashlib.sha256(np.asarray(rows).astype("<i8").tobytes()).hexdigest()


def full(rows, classes):
    return ObservedLabels.from_names(
        [[str(c) for c in row] for row in rows], [str(c) for c in range(classes)], unlisted="negative"
    )


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
    labels = full(expected["positives_per_row"], int(name.split("x")[1]))
    assert protocol_observed(labels).tolist() == expected["observed_class"]


def test_pinned_without_the_reference_file():
    train, val = protocol_split(5717)
    assert sha256(train) == "b3eebaf1f95fb36a2b4780d7e59d34269b36ea9caceb10f6e39f5500b8e50dd2"
    assert sha256(val) == "f5709e6ab75fb71eb1235fd3fc7e7b20354b5a0367dd9115e58d20e1b5ce6e4e"
    rows = [[0, 1, 4, 5], [0, 2], [0, 1, 2, 4], [1, 3, 4], [1, 5], [], [2], [2, 3, 5], [4], [0, 4], [0, 3, 5]]
    assert protocol_observed(full([*rows, [2, 5]], 6)).tolist() == [0, 2, 4, 3, 1, -1, 2, 2, 4, 0, 5, 2]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_too_few_images_to_split(count):
    with pytest.raises(InputError, match=f"has {count} images, too few to hold out 20%"):
        protocol_split(count)


def test_draws_depend_on_earlier_rows_and_not_on_later_ones():
    rows = [[0, 1, 2], [3, 4], [0, 4], [1, 2, 3], [0, 1, 2, 3, 4]] * 8
    whole = protocol_observed(full(rows, 5))
    assert (protocol_observed(full(rows[:20], 5)) == whole[:20]).all()
    assert not (protocol_observed(full(rows[1:], 5)) == whole[1:]).all()


@pytest.mark.shared
def test_real_coco_labels(shared):
    """METHODS section 14: 82,081 images, 2.94 labels each; the training part holds 65,665."""
    lines = (shared / "data/labels/coco_train_full.txt").read_text().splitlines()
    rows = {int(line[15:27]): [int(column) for column in line.split(",")[1].split()] for line in lines}
    ordered = sorted(rows, key=str)
    assert len(ordered) == len(lines) == 82_081
    assert ordered[:3] == [100012, 100014, 100020]
    labels = full([rows[number] for number in ordered], 80)
    train, val = protocol_split(len(labels))
    assert (len(train), len(val)) == (65_665, 16_416)
    assert labels.positives_per_sample().mean() == pytest.approx(2.94, abs=0.005)
    assert labels.take(train).positives_per_sample().mean() == pytest.approx(2.94, abs=0.01)
    observed = protocol_observed(labels)
    assert all(column in rows[number] for column, number in zip(observed, ordered, strict=True))
    assert (observed >= 0).all()


@pytest.mark.parametrize(
    ("rows", "classes", "mean", "sizes"),
    [(5717, 20, 1.46, (4574, 1143)), (150_000, 81, 1.89, (120_000, 30_000)), (5994, 312, 31.4, (4795, 1199))],
)
def test_sizes_of_the_other_benchmarks(rows, classes, mean, sizes):
    """With random labels of the same size and density, since the real ones are not available."""
    matrix = np.random.default_rng(0).random((rows, classes), np.float32) < mean / classes
    labels = ObservedLabels.from_multi_hot(matrix, unlisted="negative")
    observed = protocol_observed(labels)
    known = observed >= 0
    assert (known == matrix.any(axis=1)).all()
    assert matrix[np.flatnonzero(known), observed[known]].all()
    assert tuple(map(len, protocol_split(rows))) == sizes
