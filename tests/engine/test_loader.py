"""Batches of a loader."""

from __future__ import annotations

from spml.engine.loader import EpochBatches, epoch_order


def test_batches_of_several_processes_make_up_the_batch_of_one():
    alone = EpochBatches(23, 5, seed=1)
    parts = [EpochBatches(23, 5, seed=1, rank=rank, world=3) for rank in range(3)]
    for epoch in (0, 1):
        for batches in (alone, *parts):
            batches.epoch = epoch
        for whole, *shares in zip(alone, *parts, strict=True):
            assert sorted(whole) == sorted(place for share in shares for place in share)
            assert [share[0] for share in shares if share] == whole[: len([s for s in shares if s])]
    assert [alone.rows(batch) for batch in range(5)] == [5, 5, 5, 5, 3]


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
