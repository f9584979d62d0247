"""Arrays that are read as one."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from spml.common.errors import InputError
from spml.data.matrix import FeatureMatrix, ShardedArray, check_finite

WHOLE = np.arange(20, dtype=np.float16).reshape(10, 2)


@pytest.fixture
def shards():
    return ShardedArray([WHOLE[:3], WHOLE[3:4], WHOLE[4:]], ["a", "b", "c"])


@pytest.mark.parametrize("scattered", [0, 32])
def test_rows_are_those_of_the_joined_arrays(shards, scattered, monkeypatch):
    monkeypatch.setattr("spml.data.matrix._SCATTERED", scattered)
    assert shards.shape == (10, 2)
    assert shards.dtype == np.float16
    for rows in ([0, 2, 3, 4, 9], [9, 3, 3, 0], [5, 4], [1]):
        chosen = shards[np.array(rows)]
        assert chosen.dtype == np.float16
        assert chosen.tolist() == WHOLE[rows].tolist()
    with pytest.raises(IndexError):
        shards[np.array([10])]
    with pytest.raises(IndexError):
        shards[np.array([0, 10])]


def test_as_features_they_equal_one_array(shards):
    assert FeatureMatrix(shards).fingerprint() == FeatureMatrix(WHOLE).fingerprint()
    rows = np.array([8, 1, 3])
    taken = FeatureMatrix(shards).take(rows)
    assert taken.fingerprint() == FeatureMatrix(WHOLE[rows]).fingerprint()
    assert taken.fetch([1, 0]).tolist() == WHOLE[[1, 8]].tolist()


def test_what_is_not_finite_is_found_in_its_part():
    damaged = WHOLE.copy()
    damaged[5, 1] = np.nan
    shards = ShardedArray([damaged[:3], damaged[3:]], ["a.npy", "b.npy"])
    with pytest.raises(InputError, match=r"folder: X holds nan at b\.npy, row 2, column 1"):
        check_finite(FeatureMatrix(shards), "folder")


def test_parts_in_a_memory_map_do_not_stay_in_memory(tmp_path):
    """64 MiB, of which a batch takes a sixteenth."""
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("the memory of files that are mapped is read from /proc")

    def mapped():
        return int(re.search(r"RssFile:\s*(\d+) kB", status.read_text())[1]) << 10

    path, shape = tmp_path / "rows", (64, 8 * 32768)
    np.ones(shape, "<f4").tofile(path)
    rows = np.asarray(np.memmap(path, "<f4", "r", shape=shape))
    parts = FeatureMatrix(rows).in_parts(32768).by_part()
    before, size = mapped(), path.stat().st_size
    total = sum(float(parts.fetch(range(start, start + 4)).sum()) for start in range(0, 64, 4))
    assert total == 64 * 8 * 32768
    assert mapped() < before + size / 4
