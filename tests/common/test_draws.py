"""Random draws: pinned, uniform and independent."""

from __future__ import annotations

import numpy as np
import pytest

from spml.common.draws import of_rows, permutation, raw, split_mix, stream, uniform


def test_draws_are_pinned():
    """These values must never change: the observed labels of all runs depend on them."""
    assert raw(2, "x", 1).tolist() == [15915715443661975969, 1515013584651880614]
    assert permutation(6, "x", 1).tolist() == [1, 5, 3, 4, 2, 0]
    assert raw(1, "x", np.int64(1)) == raw(1, "x", 1)
    assert len({int(raw(1, *key)[0]) for key in [("x",), ("x", 0), ("x", 0, 0), ("x", -1), ("y", 0)]}) == 5
    generator = stream("x", 1)
    assert [*generator.random_raw(1), *generator.random_raw(4)] == raw(5, "x", 1).tolist()


def test_draws_of_rows_are_pinned():
    """These values must never change; they were computed with Python integers."""
    assert of_rows([7, 0], 2, "x", 1).tolist() == [
        [7700751971246454879, 9968212732615198105], [530372811612810026, 4836058421384194190]
    ]  # fmt: skip
    # The numbers that Vigna's splitmix64.c gives for this seed.
    assert split_mix(np.array([1234567], np.uint64), 5).tolist() == [
        [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431,
         16408922859458223821]
    ]  # fmt: skip


def test_draws_of_rows_depend_on_row_and_key_only():
    table = of_rows(range(2000), 50, "x", 1)
    assert table.dtype == np.uint64
    assert len(np.unique(table)) == table.size
    assert (of_rows(np.array([9, 3, 9], np.int32), 20, "x", 1) == table[[9, 3, 9], :20]).all()
    assert not (of_rows(range(2000), 50, "x", 2) == table).any()
    assert of_rows([], 3, "x").shape == (0, 3)
    for part in range(0, 64, 16):  # every sixteen bits are uniform
        counts = np.histogram(table >> np.uint64(part) & np.uint64(0xFFFF), 10, (0, 65536))[0]
        assert counts == pytest.approx(10_000, abs=400)  # four standard deviations
    signs = np.where(table >> np.uint64(63), 1.0, -1.0)
    assert abs((signs[1:] * signs[:-1]).mean()) < 4 / np.sqrt(table.size)  # of neighbouring rows
    assert abs((signs[:, 1:] * signs[:, :-1]).mean()) < 4 / np.sqrt(table.size)


def test_uniform_and_permutation():
    numbers = uniform(20_000, "u")
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert np.histogram(numbers, 10, (0, 1))[0] == pytest.approx(2000, rel=0.1)
    assert sorted(permutation(1000, "p").tolist()) == list(range(1000))
