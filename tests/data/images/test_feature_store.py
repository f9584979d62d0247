"""The store of features: interrupted, damaged, shared by several processes."""

from __future__ import annotations

import hashlib
import io
import multiprocessing
import os
import random
import resource
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

import numpy as np
import numpy.typing as npt
import pytest
import torch

from spml.common.errors import SpmlError
from spml.common.messages import shown
from spml.data.dataset import Dataset, Samples
from spml.data.images import feature_store
from spml.data.images.feature_store import FeatureStore, shared_features
from spml.data.matrix import FeatureMatrix, ImageArray
from spml.labels import ObservedLabels
from spml.runs.predict.features import cached_features
from tests.data.cached import PIXELS, Counting, files

FORK = multiprocessing.get_context("fork")
EXPECTED = PIXELS.reshape(11, 16).astype(np.float32)
ROW, RECORD = 16 * 4, 8 + 32 + 4 * 32 + 32  # bytes of a row of features, and of a record of four rows


def interrupted(folder: Path, after: int = 2) -> tuple[Path, Path]:
    """The index and the rows that a computation interrupted after some batches leaves."""

    class Failing(Counting):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            if self.batches == after:
                raise KeyboardInterrupt
            return super().forward(images)

    with pytest.raises(KeyboardInterrupt):
        cached_features(Failing(), ImageArray(PIXELS), folder, key="k", batch_size=4)
    index, rows = stored(folder)
    return index, rows


def stored(folder: Path) -> list[Path]:
    """Files of the segments of the only store in a folder."""
    (store,) = folder.iterdir()
    found = sorted(store.iterdir())
    assert {path.suffix for path in found} == {".index", ".rows"}
    return found


def resume(folder: Path) -> tuple[int, list[int], list[str]]:
    """Batches computed in this call, the progress and the lines reported; checks the features."""
    backbone, steps, stream = Counting(), list[int](), io.StringIO()
    bar = mock.patch("spml.runs.predict.features.progress", return_value=nullcontext(steps.append))
    with shown(stream), bar:
        features = cached_features(backbone, ImageArray(PIXELS), folder, key="k", batch_size=4)
    lines = stream.getvalue().splitlines()
    np.testing.assert_array_equal(features.dense(range(11)), EXPECTED)
    again = cached_features(unused := Counting(), ImageArray(PIXELS), folder, key="k")
    np.testing.assert_array_equal(again.dense(range(11)), EXPECTED)
    assert unused.batches == 0
    return backbone.batches, steps, lines


def identities(count: int, start: int = 0) -> npt.NDArray[np.uint8]:
    digests = [hashlib.sha256(f"{row}".encode()).digest() for row in range(start, start + count)]
    return np.frombuffer(b"".join(digests), np.uint8).reshape(count, 32)


def numbered(count: int, start: int = 0) -> npt.NDArray[np.float32]:
    """Rows of three features that tell which sample they belong to."""
    return np.arange(start, start + count, dtype=np.float32)[:, None] + np.float32([0, 0.25, 0.5])


# -- what is found ---------------------------------------------------------------------------------------


def test_rows_are_found_by_identity_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_store, "_RECENT", 4)  # so that rows are looked up in both ways
    with FeatureStore(tmp_path) as store:
        for start, count in ((0, 3), (3, 4), (7, 2)):
            store.append(identities(count, start), numbered(count, start))
            assert (store.locate(identities(9))[: start + count] >= 0).all()
        wanted = identities(12)[[8, 11, 0, 5, 5]]
        positions = store.locate(wanted)
        np.testing.assert_array_equal(positions, [8, -1, 0, 5, 5])
        np.testing.assert_array_equal(store.rows(positions[[0, 2, 3]]), numbered(9)[[8, 0, 5]])
        assert store.keys.tolist() == sorted(identities(9)[:, :8].copy().view("<u8")[:, 0].tolist())
    other = FeatureStore(tmp_path)
    np.testing.assert_array_equal(other.locate(wanted), positions)


def test_rows_of_several_segments_and_folders_are_one_matrix(tmp_path: Path) -> None:
    with FeatureStore(tmp_path / "a") as first, FeatureStore(tmp_path / "a") as second:
        first.append(identities(3), numbered(3))
        second.append(identities(3, 3), numbered(3, 3))  # in a segment of its own
        assert (first.locate(identities(6))[3:] == -1).all()
        first.refresh()
        np.testing.assert_array_equal(first.rows(first.locate(identities(6))), numbered(6))
    with FeatureStore(tmp_path / "b", [tmp_path / "a", tmp_path / "none"]) as third:
        assert (third.locate(identities(6)) >= 0).all()
        third.append(identities(2, 6), numbered(2, 6))
        features = third.features(third.locate(identities(8)[::-1]))
        assert (len(features), features.width) == (8, 3)
        np.testing.assert_array_equal(features.take([1, 6]).dense([1, 0]), numbered(8)[[1, 6]])
    assert len(files(tmp_path / "a")) == 4
    assert len(files(tmp_path / "b")) == 2


def test_a_free_segment_is_continued(tmp_path: Path) -> None:
    for start in range(3):
        with FeatureStore(tmp_path) as store:
            store.append(identities(2, 2 * start), numbered(2, 2 * start))
    assert len(files(tmp_path)) == 2
    np.testing.assert_array_equal(store.locate(identities(6)), range(6))


def test_rows_that_another_process_added_before_this_one_writes(tmp_path: Path) -> None:
    with FeatureStore(tmp_path) as late, FeatureStore(tmp_path) as early:
        early.append(identities(3), numbered(3))
        late.refresh()
        early.append(identities(2, 3), numbered(2, 3))
        early.__exit__()
        late.append(identities(2, 5), numbered(2, 5))
        np.testing.assert_array_equal(late.rows(late.locate(identities(7))), numbered(7))
    assert len(files(tmp_path)) == 2


# -- killed and damaged ----------------------------------------------------------------------------------


def compute_until_killed(folder: Path, workers: int) -> None:
    class Killed(Counting):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            if self.batches == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            return super().forward(images)

    cached_features(Killed(), ImageArray(PIXELS), folder, key="k", batch_size=4, workers=workers)


@pytest.mark.parametrize("workers", [0, 1])
def test_the_next_process_continues_after_a_kill(tmp_path: Path, workers: int) -> None:
    killed = FORK.Process(target=compute_until_killed, args=(tmp_path, workers))
    killed.start()
    killed.join(120)
    assert killed.exitcode == -signal.SIGKILL
    batches, steps, lines = resume(tmp_path)
    assert (batches, steps) == (1, [8, 3])
    assert "features of 11 samples: 8 of them computed before" in lines
    assert len(stored(tmp_path)) == 2


MANY = ImageArray(PIXELS.repeat(20, 0) + np.tile(np.arange(20, dtype=np.uint8), 11)[:, None, None, None])


def compute_slowly(folder: Path) -> None:
    class Slow(Counting):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            time.sleep(0.01)
            return super().forward(images)

    # Each at another place, so that they do not wait for each other.
    order = np.random.default_rng(os.getpid()).permutation(len(MANY))
    cached_features(Slow(), MANY.take(order), folder, key="k", batch_size=4)


def test_several_processes_killed_at_random_moments(tmp_path: Path) -> None:
    """Three at a time, killed one after the other, until one of them finishes."""
    moments, ended = random.Random(0), list[int | None]()
    while 0 not in ended:
        running = [FORK.Process(target=compute_slowly, args=(tmp_path,)) for _ in range(3)]
        for process in running:
            process.start()
        for process in running:
            process.join(moments.uniform(0, 0.15))
            process.kill()
        for process in running:
            process.join()
        ended += [process.exitcode for process in running]
        assert set(ended) <= {0, -signal.SIGKILL}
        assert len(ended) < 900
    assert len(ended) > 3
    features = cached_features(backbone := Counting(), MANY, tmp_path, key="k")
    assert backbone.batches == 0
    expected = MANY.fetch(range(len(MANY))).flatten(1).float()
    np.testing.assert_array_equal(features.dense(range(len(MANY))), expected)


Damage = Callable[[bytes, bytes], tuple[bytes, bytes]]


def index_cut(length: int) -> Damage:
    return lambda index, rows: (index[:length], rows)


def rows_cut(length: int) -> Damage:
    return lambda index, rows: (index, rows[:length])


def changed(content: bytes, position: int) -> bytes:
    return content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :]


def index_changed(position: int) -> Damage:
    return lambda index, rows: (changed(index, position), rows)


@pytest.mark.parametrize(
    ("damage", "kept", "told"),
    [
        (lambda index, rows: (index, rows), 2, False),
        (lambda index, rows: (index, rows + b"x" * 1000), 2, False),  # rows that no record names yet
        (lambda index, rows: (index + b"\0" * 1000, rows), 2, False),
        (index_cut(0), 0, False),
        (index_cut(20), 0, False),
        (index_cut(RECORD - 1), 0, False),
        (index_cut(2 * RECORD - 1), 1, False),
        (rows_cut(0), 0, False),
        (rows_cut(8 * ROW - 1), 1, False),
        (index_changed(8), 0, False),  # SHA-256 of the rows
        (index_changed(RECORD - 1), 0, False),
        (index_changed(RECORD + 50), 1, False),
        (lambda index, rows: (index, changed(rows, 5)), 1, True),
        (lambda index, rows: (index, changed(rows, 8 * ROW - 1)), 1, True),
        (lambda index, rows: (index, b"\0" * len(rows)), 0, True),
        (lambda index, rows: (b"\xff" * 500, rows), 0, False),
    ],
)
def test_features_are_right_whatever_is_left_behind(
    tmp_path: Path, damage: Damage, kept: int, told: bool
) -> None:
    left = interrupted(tmp_path)
    assert [path.stat().st_size for path in left] == [2 * RECORD, 8 * ROW]
    for path, content in zip(left, damage(*(path.read_bytes() for path in left)), strict=True):
        path.write_bytes(content)
    batches, _, lines = resume(tmp_path)
    assert batches == 3 - kept
    assert any("damaged; its features are computed again" in line for line in lines) == told
    if not told:
        assert [path.stat().st_size for path in left] == [
            3 * RECORD - 32,
            11 * ROW,
        ]  # nothing else is in them
    assert resume(tmp_path)[0] == 0


def test_one_of_the_two_files_alone_is_useless(tmp_path: Path) -> None:
    for lost in (0, 1):
        interrupted(tmp_path / f"{lost}")[lost].unlink()
        assert resume(tmp_path / f"{lost}")[0] == 3


def test_format_of_the_files(tmp_path: Path) -> None:
    """Later versions must read it: records of number, width, digest, identities and their own digest."""
    index, rows = interrupted(tmp_path, 1)
    assert rows.read_bytes() == EXPECTED[:4].astype("<f4").tobytes()
    shape = f"image {(1, 4, 4)}".encode()
    names = [hashlib.sha256(shape + PIXELS[row].tobytes()).digest() for row in range(4)]
    record = np.array([4, 16], "<u4").tobytes() + hashlib.sha256(rows.read_bytes()).digest() + b"".join(names)
    assert index.read_bytes() == record + hashlib.sha256(record).digest()
    assert index.parent == tmp_path / hashlib.sha256(b"k").hexdigest()[:32]


def test_a_full_disk_keeps_the_completed_batches(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (5 * ROW, limits[1]))
        with pytest.raises(SpmlError, match=r"features could not be written .*are kept"):
            cached_features(Counting(), ImageArray(PIXELS), tmp_path, key="k", batch_size=4)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert resume(tmp_path)[:2] == (2, [4, 4, 3])


# -- several processes -----------------------------------------------------------------------------------


def test_two_processes_compute_the_same_features_once(tmp_path: Path) -> None:
    computing, waiting = threading.Event(), threading.Event()

    class Slow(Counting):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            computing.set()
            assert waiting.wait(60)
            return super().forward(images)

    class Listening(io.StringIO):
        def write(self, text: str) -> int:
            if "waiting" in text:
                waiting.set()
            return len(text)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(cached_features, Slow(), ImageArray(PIXELS), tmp_path, key="k", batch_size=4)
        assert computing.wait(60)
        backbone = Counting()
        with shown(Listening()):
            second = cached_features(backbone, ImageArray(PIXELS), tmp_path, key="k")
        np.testing.assert_array_equal(second.dense(range(11)), first.result().dense(range(11)))
    assert backbone.batches == 0
    assert len(stored(tmp_path)) == 2


def test_without_locks_each_process_appends_to_its_own_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*arguments: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", no_locks)

    class Both(Counting):
        """Starts a second complete computation half-way, as another process might."""

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            if self.batches == 1:
                cached_features(Counting(), ImageArray(PIXELS), tmp_path, key="k", batch_size=4)
            return super().forward(images)

    features = cached_features(Both(), ImageArray(PIXELS), tmp_path, key="k", batch_size=4)
    np.testing.assert_array_equal(features.dense(range(11)), EXPECTED)
    assert len(stored(tmp_path)) == 4
    assert resume(tmp_path)[0] == 0
    interrupted(tmp_path / "interrupted")
    assert resume(tmp_path / "interrupted")[0] == 1
    assert len(stored(tmp_path / "interrupted")) == 4


@pytest.mark.parametrize("damage", ["cut", "flipped", "header", "other", "sound"])
def test_shared_features_that_are_damaged_are_written_again(tmp_path: Path, damage: str) -> None:
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)

    def share(rows: npt.NDArray[np.float32], folder: Path) -> npt.NDArray[np.float32]:
        labels = ObservedLabels.from_ternary(np.eye(4, 3, dtype=np.int8))
        samples = Samples(tuple("abcd"), FeatureMatrix(rows), labels)
        shared = shared_features(Dataset("toy", tuple("xyz"), {"train": samples}, {}), folder)
        return np.asarray(shared.splits["train"].inputs.dense(range(4)))

    share(rows, tmp_path)
    (path,) = tmp_path.iterdir()
    content = path.read_bytes()
    damaged = {"cut": content[:-5], "flipped": content[:-1] + bytes([content[-1] ^ 1]), "sound": content}
    damaged["header"] = content.replace(b"3)", b"3i")
    share(rows + 1, tmp_path / "other")
    (other,) = (tmp_path / "other").iterdir()
    path.write_bytes(damaged.get(damage, other.read_bytes()))
    written = path.stat().st_ino
    assert np.array_equal(share(rows, tmp_path), rows)
    assert path.read_bytes() == content
    assert (path.stat().st_ino == written) == (damage == "sound")
