"""Observed labels: round trips of all converters, contents, and messages that give the row."""

from __future__ import annotations

import copy
import multiprocessing
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from spml.labels import LabelError, ObservedLabels

NAMES = ["ant", "bee", "cat", "dog", "elk"]
PARTIAL = [[0, 0, 1], [1, -1, 0], [0, 0, 0], [1, 1, -1]]


@st.composite
def ternary(draw, values=(-1, 0, 1), least=0):
    rows, classes = draw(st.integers(least, 6)), draw(st.integers(1, 5))
    cells = draw(st.lists(st.sampled_from(values), min_size=rows * classes, max_size=rows * classes))
    return np.array(cells, np.int8).reshape(rows, classes)


@st.composite
def one_positive(draw):
    classes = draw(st.integers(1, 5))
    return draw(st.lists(st.integers(0, classes - 1), max_size=7)), classes


# -- round trips -----------------------------------------------------------------------------------


@given(ternary())
def test_ternary_round_trip(matrix):
    labels = ObservedLabels.from_ternary(matrix)
    assert labels.to_ternary().dtype == np.int8
    np.testing.assert_array_equal(labels.to_ternary(), matrix)
    for same in (matrix.astype(float), matrix.tolist(), torch.from_numpy(matrix)):
        if len(matrix):  # an empty list has no classes
            assert ObservedLabels.from_ternary(same) == labels


@given(ternary())
def test_entries(matrix):
    for labels in (ObservedLabels.from_ternary(matrix), ObservedLabels.from_multi_hot(matrix == 1)):
        for value in (1, -1):
            expected = np.argwhere(labels.to_ternary() == value)
            np.testing.assert_array_equal(np.stack(labels.entries(value), 1), expected)
    full = ObservedLabels.from_multi_hot(matrix == 1, unlisted="negative")
    np.testing.assert_array_equal(np.stack(full.entries(-1), 1), np.argwhere(matrix != 1))
    np.testing.assert_array_equal(np.stack(full.entries(1), 1), np.argwhere(matrix == 1))


@given(ternary())
def test_nan_round_trip(matrix):
    with_nan = np.where(matrix == 0, np.nan, matrix == 1)
    labels = ObservedLabels.from_nan(with_nan)
    np.testing.assert_array_equal(labels.to_ternary(), matrix)
    assert labels.to_nan().dtype == np.float32
    np.testing.assert_array_equal(labels.to_nan(), with_nan)


@given(ternary(values=(0, 1)), st.sampled_from(["unknown", "negative"]))
def test_multi_hot_round_trip(matrix, unlisted):
    labels = ObservedLabels.from_multi_hot(matrix, unlisted=unlisted)
    assert labels.to_multi_hot().dtype == np.int8
    np.testing.assert_array_equal(labels.to_multi_hot(), matrix)
    np.testing.assert_array_equal(
        labels.to_ternary(), np.where(matrix, 1, -1) if unlisted == "negative" else matrix
    )
    assert ObservedLabels.from_multi_hot(matrix.astype(bool), unlisted=unlisted) == labels


@given(ternary(values=(0, 1)), st.sampled_from(["unknown", "negative"]))
def test_names_round_trip(matrix, unlisted):
    classes = NAMES[: matrix.shape[1]]
    rows = [[name for name, present in zip(classes, row, strict=True) if present] for row in matrix]
    labels = ObservedLabels.from_names(rows, classes, unlisted=unlisted)
    assert labels.to_names(classes) == rows
    assert labels == ObservedLabels.from_multi_hot(matrix, unlisted=unlisted)


@given(ternary())
def test_csr_round_trip(matrix):
    labels = ObservedLabels.from_csr(sparse.csr_matrix(matrix))
    assert labels == ObservedLabels.from_ternary(matrix)
    assert labels.to_csr().dtype == np.int8
    np.testing.assert_array_equal(labels.to_csr().toarray(), matrix)
    np.testing.assert_array_equal(ObservedLabels.from_ternary(matrix).to_csr().toarray(), matrix)


@given(ternary())
def test_csr_with_negatives_unlisted_reads_explicit_zeros_as_unknown(matrix):
    rows, columns = np.nonzero(matrix != -1)
    stored = sparse.csr_matrix((matrix[rows, columns], (rows, columns)), shape=matrix.shape)
    labels = ObservedLabels.from_csr(stored, unlisted="negative")
    np.testing.assert_array_equal(labels.to_ternary(), matrix)
    assert labels == ObservedLabels.from_ternary(matrix)


def test_csr_of_any_layout_is_read_and_left_as_it_was():
    coo = sparse.coo_matrix((np.array([1, 1, -1]), ([1, 0, 1], [2, 1, 0])), shape=(2, 3))
    for matrix in (coo, coo.tocsc(), sparse.csr_array(coo), coo.astype(float).tocsr()):
        assert ObservedLabels.from_csr(matrix).to_ternary().tolist() == [[0, 1, 0], [-1, 0, 1]]
    unsorted = sparse.csr_matrix((np.array([1, -1]), np.array([2, 0]), np.array([0, 2])), shape=(1, 3))
    assert ObservedLabels.from_csr(unsorted) == ObservedLabels.from_ternary([[-1, 0, 1]])
    assert unsorted.indices.tolist() == [2, 0]


@given(one_positive())
def test_index_round_trip(case):
    index, classes = case
    labels = ObservedLabels.from_index(index, classes)
    assert labels.index.dtype == np.int64
    assert labels.index.tolist() == index
    np.testing.assert_array_equal(labels.to_ternary(), np.eye(classes, dtype=np.int8)[np.array(index, int)])
    assert labels == ObservedLabels.from_index(torch.tensor(index, dtype=torch.int64), classes)
    if index:
        assert labels == ObservedLabels.from_ternary(labels.to_ternary())


def test_names_in_any_order_and_twice():
    labels = ObservedLabels.from_names([["dog", "ant", "dog"], ("bee",), []], NAMES)
    assert labels.to_names(NAMES) == [["ant", "dog"], ["bee"], []]
    assert labels.positives_per_sample().tolist() == [2, 1, 0]


# -- single-positive labels are stored as one integer per sample -----------------------------------


def test_single_positive_labels_keep_only_the_index():
    count, classes = 100_000, 50_000  # dense, this would be 5 GB
    index = np.arange(count) % classes
    labels = ObservedLabels.from_index(index, classes)
    assert labels.single_positive
    assert len(labels) == count
    assert labels.num_classes == classes
    arrays = [value for value in vars(labels).values() if not isinstance(value, int)]
    assert [array.nbytes for array in arrays] == [8 * count]
    assert labels.target(np.array([5, 0])).tolist() == [5, 0]
    assert labels.take([7]).to_ternary().sum() == 1
    assert len(labels.fingerprint()) == 64


@pytest.mark.parametrize(
    "labels",
    [
        ObservedLabels.from_index([2, 0], 3),
        ObservedLabels.from_multi_hot([[0, 0, 1], [1, 0, 0]]),
        ObservedLabels.from_ternary([[0, 0, 1], [1, 0, 0]]),
        ObservedLabels.from_nan([[np.nan, np.nan, 1], [1, np.nan, np.nan]]),
        ObservedLabels.from_names([["cat"], ["ant"]], NAMES[:3]),
        ObservedLabels.from_csr(sparse.csr_matrix([[0, 0, 1], [1, 0, 0]])),
    ],
    ids=["index", "multi-hot", "ternary", "nan", "names", "csr"],
)
def test_single_positive_labels_are_recognised_in_every_form(labels):
    assert labels.index.tolist() == [2, 0]
    assert labels == ObservedLabels.from_index([2, 0], 3)
    assert hash(labels) == hash(ObservedLabels.from_index([2, 0], 3))
    assert repr(labels) == "ObservedLabels(2 samples, 3 classes, single-positive)"


@pytest.mark.parametrize(
    "matrix",
    [[[0, 0, 1], [1, 1, 0]], [[0, 0, 1], [0, 0, 0]], [[0, -1, 1], [1, 0, 0]], [[0, 0, -1], [1, 0, 0]],
     [[1, 1, 0], [0, 0, 0]]],
    ids=["two", "none", "with a negative", "only a negative", "one on average"],
)  # fmt: skip
def test_other_labels_are_not_single_positive(matrix):
    labels = ObservedLabels.from_ternary(matrix)
    assert not labels.single_positive
    assert labels.index is None
    assert "partial" in repr(labels)


def test_full_labels_with_one_positive_each_are_not_single_positive():
    labels = ObservedLabels.from_multi_hot([[0, 0, 1], [1, 0, 0]], unlisted="negative")
    assert labels.index is None
    assert labels.full
    assert "full" in repr(labels)
    assert labels != ObservedLabels.from_index([2, 0], 3)


# -- contents --------------------------------------------------------------------------------------


@given(ternary(), st.booleans())
def test_counts_are_those_of_the_matrix(matrix, by_csr):
    labels = ObservedLabels.from_ternary(matrix)
    if by_csr:  # the other form of storage: negatives implied, unknown stored
        rows, columns = np.nonzero(matrix != -1)
        stored = sparse.csr_matrix((matrix[rows, columns], (rows, columns)), shape=matrix.shape)
        labels = ObservedLabels.from_csr(stored, unlisted="negative")
    assert len(labels) == len(matrix)
    assert labels.num_classes == matrix.shape[1]
    assert labels.full == bool((matrix != 0).all())
    np.testing.assert_array_equal(labels.positives_per_class(), (matrix == 1).sum(0))
    np.testing.assert_array_equal(labels.negatives_per_class(), (matrix == -1).sum(0))
    np.testing.assert_array_equal(labels.positives_per_sample(), (matrix == 1).sum(1))
    np.testing.assert_array_equal(labels.negatives_per_sample(), (matrix == -1).sum(1))
    for column in range(matrix.shape[1]):
        rows = labels.positive_rows(column)
        assert rows.dtype == np.int64
        np.testing.assert_array_equal(rows, np.flatnonzero(matrix[:, column] == 1))


def test_counts_are_int64_for_every_kind():
    kinds = [ObservedLabels.from_index([0, 1], 2), ObservedLabels.from_ternary(PARTIAL),
             ObservedLabels.from_multi_hot([[1, 0]], unlisted="negative")]  # fmt: skip
    for labels in kinds:
        for counts in (
            labels.positives_per_class(),
            labels.negatives_per_class(),
            labels.positives_per_sample(),
        ):
            assert counts.dtype == np.int64


@given(st.data(), ternary(least=1))
def test_take_takes_rows(data, matrix):
    labels = ObservedLabels.from_ternary(matrix)
    rows = data.draw(st.lists(st.integers(-len(matrix), len(matrix) - 1), max_size=8))
    for form in (rows, np.array(rows, np.int32), torch.tensor(rows, dtype=torch.int64)):
        np.testing.assert_array_equal(labels.take(form).to_ternary(), matrix[np.array(rows, int)])
    if rows:
        assert labels.take(rows) == ObservedLabels.from_ternary(matrix[rows])


@pytest.mark.parametrize(
    "labels", [ObservedLabels.from_index([2, 0], 3), ObservedLabels.from_ternary(PARTIAL)]
)
@pytest.mark.parametrize("rows", [[True, False], [0.0], 1, [[0]], torch.tensor([True, False])], ids=str)
def test_rows_are_integers(labels, rows):
    # A mask that is read as row numbers would silently select rows 1 and 0.
    for choose in (labels.take, labels.target):
        with pytest.raises(LabelError, match=r"integers of shape \(B,\)"):
            choose(rows)


@pytest.mark.parametrize(
    "labels", [ObservedLabels.from_index([2, 0], 3), ObservedLabels.from_ternary(PARTIAL)]
)
def test_rows_exist(labels):
    for row in (len(labels), -len(labels) - 1):
        with pytest.raises(IndexError):
            labels.take([row])
        with pytest.raises(IndexError):
            labels.target([row])


def test_target_of_single_positive_labels_is_the_class():
    target = ObservedLabels.from_index([2, 0, 1], 3).target([2, 0, 0])
    assert target.dtype == torch.int64
    assert target.tolist() == [1, 2, 2]


@pytest.mark.parametrize("rows", [[3, 1], [0], []])
def test_target_of_partial_labels_is_ternary_even_where_a_batch_is_single_positive(rows):
    target = ObservedLabels.from_ternary(PARTIAL).target(rows)
    assert target.dtype == torch.int8
    assert target.shape == (len(rows), 3)
    assert target.tolist() == [PARTIAL[row] for row in rows]


def test_target_of_full_labels_is_ternary():
    target = ObservedLabels.from_multi_hot([[1, 0], [1, 1]], unlisted="negative").target([1, 0])
    assert target.dtype == torch.int8
    assert target.tolist() == [[1, 1], [1, -1]]


def test_take_classes_selects_columns():
    partial = ObservedLabels.from_ternary(PARTIAL)
    for columns in ([2, 0], [1], [0, 1, 2]):
        assert (partial.take_classes(columns).to_ternary() == np.asarray(PARTIAL)[:, columns]).all()
    single = ObservedLabels.from_index([2, 0, 2], 3)
    assert single.take_classes([2, 1]).to_ternary().tolist() == [[1, 0], [0, 0], [1, 0]]
    assert single.take([0, 2]).take_classes([0, 2]).single_positive
    full = ObservedLabels.from_multi_hot([[1, 0, 1], [0, 0, 1]], unlisted="negative").take_classes([1, 0])
    assert full.to_ternary().tolist() == [[-1, 1], [-1, -1]]
    assert full.full
    for columns in ([0, 0], [3], [-1]):
        with pytest.raises(LabelError, match="expected different columns below 3"):
            single.take_classes(columns)
    with pytest.raises(LabelError, match="at least 1"):
        single.take_classes([])


def test_with_classes_moves_columns():
    partial = ObservedLabels.from_ternary(PARTIAL).with_classes([3, 1, 0], 4)
    assert partial.to_ternary().tolist() == [[1, 0, 0, 0], [0, -1, 0, 1], [0, 0, 0, 0], [-1, 1, 0, 1]]
    assert partial == ObservedLabels.from_ternary(partial.to_ternary())
    single = ObservedLabels.from_index([2, 0], 3).with_classes([1, 4, 3], 5)
    assert single.index.tolist() == [3, 1]
    full = ObservedLabels.from_multi_hot([[1, 0]], unlisted="negative").with_classes([2, 0], 3)
    assert full.to_ternary().tolist() == [[-1, -1, 1]]


@pytest.mark.parametrize(
    ("columns", "message"),
    [([0, 0], "different"), ([0], "need 2"), ([0, 3], r"0 \.\.\. 2"), ([-1, 0], "in 0")],
)
def test_with_classes_names_wrong_columns(columns, message):
    with pytest.raises(LabelError, match=message):
        ObservedLabels.from_index([1, 0], 2).with_classes(columns, 3)


# -- equality and fingerprints ---------------------------------------------------------------------


@settings(max_examples=300)
@given(ternary(), ternary())
def test_labels_are_equal_if_and_only_if_their_matrices_are(one, other):
    same = one.shape == other.shape and bool((one == other).all())
    a, b = ObservedLabels.from_ternary(one), ObservedLabels.from_ternary(other)
    assert (a == b) == same
    assert (a.fingerprint() == b.fingerprint()) == same


def test_every_small_matrix_has_its_own_fingerprint():
    cells = np.array(np.meshgrid(*[[-1, 0, 1]] * 4)).reshape(4, -1).T
    prints = {
        ObservedLabels.from_ternary(cell.reshape(shape)).fingerprint()
        for cell in cells
        for shape in ((2, 2), (1, 4), (4, 1))
    }
    assert len(prints) == 3 * 81


def test_a_part_that_happens_to_be_full_equals_full_labels():
    part = ObservedLabels.from_ternary([[1, -1], [0, 1]]).take([0])
    assert part.full
    assert part == ObservedLabels.from_multi_hot([[1, 0]], unlisted="negative")


def test_labels_of_one_class_are_both_single_positive_and_full():
    assert ObservedLabels.from_index([0, 0], 1).full
    assert ObservedLabels.from_index([0, 0], 1) == ObservedLabels.from_ternary([[1], [1]])


def test_labels_are_not_equal_to_other_things():
    assert ObservedLabels.from_index([0], 2) != [[1, 0]]


# -- immutable, and copied to workers --------------------------------------------------------------


def test_nothing_can_be_changed():
    index = np.array([2, 0])
    matrix = np.array(PARTIAL)
    labels, partial = ObservedLabels.from_index(index, 3), ObservedLabels.from_ternary(matrix)
    rows = np.array([0, 2, 2]), np.array([0, 1]), np.array([1, -1], np.int8)
    direct = ObservedLabels(*rows, num_classes=2)
    before = labels.fingerprint(), partial.fingerprint(), direct.fingerprint()
    for part in rows:
        part[:] = 0
    index[:] = 1
    matrix[:] = 1
    labels.target([0, 1])[:] = 1
    partial.target([0, 1])[:] = 1
    for given_out in (labels.to_ternary(), partial.to_ternary(), labels.to_csr().data, partial.to_csr().data):
        given_out[:] = 1
    with pytest.raises(ValueError, match="read-only"):
        labels.index[0] = 1
    with pytest.raises(AttributeError, match="immutable"):
        labels._index = None
    with pytest.raises(AttributeError):
        labels.other = 1
    assert (labels.fingerprint(), partial.fingerprint(), direct.fingerprint()) == before


@pytest.mark.parametrize(
    "labels",
    [
        ObservedLabels.from_index([2, 0], 3),
        ObservedLabels.from_ternary(PARTIAL),
        ObservedLabels.from_multi_hot([[1, 0]], unlisted="negative"),
    ],
    ids=["single", "partial", "full"],
)
def test_copies_are_equal_and_immutable(labels):
    for again in (copy.copy(labels), copy.deepcopy(labels), pickle.loads(pickle.dumps(labels))):
        assert again == labels
        assert again.single_positive == labels.single_positive
        assert again.target([0]).tolist() == labels.target([0]).tolist()
        with pytest.raises(AttributeError, match="immutable"):
            again._unlisted = 0
        if again.index is not None:
            assert not again.index.flags.writeable


@pytest.mark.long
def test_a_spawned_worker_sees_the_same_labels():
    labels = ObservedLabels.from_ternary(PARTIAL)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(ObservedLabels.fingerprint, (labels,)) == labels.fingerprint()


# -- mistakes --------------------------------------------------------------------------------------


def csr(data, indices, indptr):
    return sparse.csr_matrix(
        (np.array(data), np.array(indices), np.array(indptr)), shape=(len(indptr) - 1, 3)
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ObservedLabels.from_index([0, 3, 4], 3), r"row 1: class index 3 .* \(2 such rows"),
        (lambda: ObservedLabels.from_index([0, 1, -1], 3), r"row 2: class index -1 is outside 0 \.\.\. 2$"),
        (lambda: ObservedLabels.from_index([0.0], 3), r"integers of shape \(N,\), got float64"),
        (lambda: ObservedLabels.from_index([True], 3), "got bool"),
        (lambda: ObservedLabels.from_index([[0]], 3), r"\(1, 1\)"),
        (lambda: ObservedLabels.from_index([], 0), "at least 1, got 0"),
        (lambda: ObservedLabels.from_names([], []), "at least 1, got 0"),
        (lambda: ObservedLabels.from_multi_hot([[0, 1], [0, -1]]), "row 1, column 1: .* only 0, 1, got -1"),
        (lambda: ObservedLabels.from_multi_hot([0, 1]), r"shape \(N, C\), got \(2,\)"),
        (lambda: ObservedLabels.from_multi_hot([["a"]]), "must hold numbers"),
        (lambda: ObservedLabels.from_multi_hot([[0.5]]), "row 0, column 0: .* got 0.5"),
        (lambda: ObservedLabels.from_ternary([[0, 1], [2, 0]]), "row 1, column 0: .* only -1, 0, 1, got 2"),
        (lambda: ObservedLabels.from_ternary([[0, np.nan]]), "row 0, column 1: .* got nan"),
        (lambda: ObservedLabels.from_nan([[0, 1], [np.nan, -1]]), "row 1, column 1: .* got -1"),
        (lambda: ObservedLabels.from_nan([[np.inf]]), "row 0, column 0: .* got inf"),
        (lambda: ObservedLabels.from_names([["ant"], "ant"], NAMES), "row 1: .* got the string 'ant'"),
        (lambda: ObservedLabels.from_names([[], ["ant", "yak"]], NAMES), "row 1: 'yak' is not one of the 5"),
        (lambda: ObservedLabels.from_names([], ["ant", "ant"]), "distinct"),
        (lambda: ObservedLabels.from_csr([[1, 0]]), "SciPy sparse matrix, got list"),
        (lambda: ObservedLabels.from_csr(csr([1, 3], [0, 2], [0, 1, 1, 2])), "row 2, column 2: .* got 3"),
        (lambda: ObservedLabels.from_csr(csr([1, 1], [1, 1], [0, 2])), "row 0, column 1: .* got 2"),
    ],
)  # fmt: skip
def test_mistakes_name_their_row(make, message):
    with pytest.raises(LabelError, match=message):
        make()


@pytest.mark.parametrize("unlisted", [0, -1])
def test_merged_classes_are_those_of_dense_matrices(unlisted):
    generator = np.random.default_rng(0)
    for _ in range(200):
        rows, old, new = generator.integers(1, 6, 3)
        ternary = generator.integers(-1, 2, (rows, old))
        columns = generator.integers(-1, new, old)
        columns[: min(old, new)] = np.arange(min(old, new))  # an old class for each new one
        new = columns.max() + 1
        stored = ternary != unlisted
        labels = ObservedLabels(
            np.append(0, np.cumsum(stored.sum(1))), np.nonzero(stored)[1], ternary[stored].astype(np.int8),
            int(old), unlisted,
        )  # fmt: skip
        assert (labels.to_ternary() == ternary).all()
        parts = [ternary[:, columns == k] for k in range(new)]
        expected = [np.where((p == 1).any(1), 1, -(p == -1).any(1).astype(int)) for p in parts]
        merged = labels.merge_classes(columns, int(new))
        assert (merged.to_ternary() == np.stack(expected, 1)).all()
        assert merged == ObservedLabels.from_ternary(merged.to_ternary())
