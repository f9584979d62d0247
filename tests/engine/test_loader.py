"""Batches of a loader."""

from __future__ import annotations

from spml.engine.loader import Batches, EpochBatches, epoch_order


def test_batches_of_several_processes_make_up_the_batch_of_one():
    alone = EpochBatches(23, 5, seed=1)
    parts = [EpochBatches(23, 5, seed=1, rank=rank, world=3) for rank in range(3)]
    for epoch in (0, 1):
        for batches in (alone, *parts):
            batches.epoch = epoch
        for whole, *shares in zip(alone, *parts, strict=True):
            assert sorted(whole) == sorted(place for share in shares for place in share)
            assert [share[0] for share in shares if share] == whole[: len([s for s in shares if s])]
    assert [alone.rows_in(batch) for batch in range(5)] == [5, 5, 5, 5, 3]


def test_the_order_depends_on_seed_and_epoch_alone():
    assert epoch_order(50, 1, 2).tolist() == epoch_order(50, 1, 2).tolist()
    assert epoch_order(50, 1, 2).tolist() != epoch_order(50, 1, 3).tolist()
    assert epoch_order(50, 1, 2).tolist() != epoch_order(50, 2, 2).tolist()
    assert sorted(epoch_order(50, 1, 2).tolist()) == list(range(50))


def test_a_batch_sampler_starts_in_mid_epoch():
    batches = EpochBatches(23, 5, seed=1)
    whole = list(batches)
    batches.first = 3
    assert list(batches) == whole[3:]
    assert len(batches) == 2


def test_batches_for_prediction_are_in_order():
    batches = Batches(range(6, 20), 6)
    assert list(batches) == [range(6, 12), range(12, 18), range(18, 20)]
    assert len(batches) == 3
    assert list(Batches(range(12, 12), 6)) == []
    assert list(Batches([4, 1, 9], 2)) == [[4, 1], [9]]
    parts = [Batches(range(5), 3, rank, 2) for rank in range(2)]
    assert [list(map(list, part)) for part in parts] == [[[0, 2], [3]], [[1], [4]]]
