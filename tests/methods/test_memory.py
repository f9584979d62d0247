"""Inferred labels: known labels are never contradicted, and an entry never changes once written."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from spml.labels import ObservedLabels
from spml.methods.memory import LabelMemory, lowest
from tests.reference.em_apl import lowest as slow_lowest

SINGLE = ObservedLabels.from_index([2, 0, 1, 2], 3)
PARTIAL = ObservedLabels.from_ternary([[1, 0, -1], [0, 0, 0], [-1, 1, 0], [0, 0, 1]])
ROWS = torch.tensor([3, 0, 2])
ALL = torch.ones(3, 3, dtype=torch.bool)


@pytest.mark.parametrize("observed", [SINGLE, PARTIAL], ids=["single", "partial"])
def test_no_label_is_inferred_at_first(observed):
    memory, target = LabelMemory(observed), observed.target(ROWS)
    assert (memory.rows(ROWS) == -1).all()
    assert memory.fill(target, ROWS).tolist() == observed.to_ternary()[ROWS].tolist()
    assert memory.free(target, ROWS).tolist() == (observed.to_ternary()[ROWS] == 0).tolist()


@pytest.mark.parametrize("observed", [SINGLE, PARTIAL], ids=["single", "partial"])
@pytest.mark.parametrize("value", [0, 1, 1.0])
def test_known_labels_are_never_contradicted(observed, value):
    memory, target = LabelMemory(observed), observed.target(ROWS)
    memory.write(target, ROWS, ALL, value)
    known = observed.to_ternary()[ROWS]
    expected = np.where(known == 0, 2 * value - 1, known)
    assert memory.fill(target, ROWS).tolist() == expected.tolist()
    assert (memory.rows(ROWS)[torch.from_numpy(known != 0)] == -1).all()
    assert (memory.rows(torch.tensor([1])) == -1).all()


@pytest.mark.parametrize("observed", [SINGLE, PARTIAL], ids=["single", "partial"])
def test_known_labels_win_even_over_a_memory_that_contradicts_them(observed):
    known = observed.to_ternary()[ROWS]
    for value in (0, 1):
        memory = LabelMemory(observed)
        memory.inferred.fill_(value)
        expected = np.where(known == 0, 2 * value - 1, known)
        assert memory.fill(observed.target(ROWS), ROWS).tolist() == expected.tolist()


def test_inferred_labels_do_not_change():
    memory, target = LabelMemory(SINGLE, soft=True), SINGLE.target(ROWS)
    first = torch.tensor([[True, False, False]] * 3)
    memory.write(target, ROWS, first, 0.25)
    memory.write(target, ROWS, ALL, torch.full((3, 3), 0.5))
    assert memory.rows(ROWS).tolist() == [[0.25, 0.5, -1], [0.25, 0.5, -1], [0.25, -1, 0.5]]
    assert not memory.free(target, ROWS).any()


def test_a_hard_memory_takes_a_byte_and_a_soft_one_four():
    assert LabelMemory(SINGLE).inferred.dtype == torch.int8
    assert LabelMemory(SINGLE, soft=True).inferred.dtype == torch.float32
    assert LabelMemory(SINGLE).fill(SINGLE.target(ROWS), ROWS).dtype == torch.int8
    assert LabelMemory(PARTIAL).fill(PARTIAL.target(ROWS), ROWS).dtype == torch.int8


def test_the_lowest_free_entries_of_each_class():
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand(20, 5, generator=generator)
    free = torch.rand(20, 5, generator=generator) < 0.6
    counts = [0, 3, 7, 100, 1]
    chosen = lowest(scores, free, counts)
    expected = slow_lowest(scores.tolist(), free.tolist(), counts)
    assert {tuple(position) for position in chosen.nonzero().tolist()} == expected
    assert chosen[:, 3].sum() == free[:, 3].sum()
