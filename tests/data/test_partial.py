"""Unfinished caches of features: interrupted, damaged, shared by several processes."""

from __future__ import annotations

import hashlib
import io
import multiprocessing
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.data.cached import PIXELS, Counting, files

from spml.data import cached_features
from spml.data.matrix import ImageArray
from spml.errors import SpmlError

KILLED = """
import os, signal, sys
sys.path.insert(0, {folder_of_tests!r})
from pathlib import Path
from cached import PIXELS, Counting
from spml.data import cached_features
from spml.data.matrix import ImageArray

class Killed(Counting):
    def forward(self, images):
        if self.batches == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().forward(images)

cached_features(Killed(), ImageArray(PIXELS), Path({folder!r}), key="k", batch_size=4, workers={workers})
"""


def uninterrupted(folder: Path) -> bytes:
    """Content of the file that an uninterrupted computation writes."""
    cached_features(Counting(), ImageArray(PIXELS), folder, key="k", batch_size=4)
    (path,) = files(folder)
    return path.read_bytes()


def interrupted(folder: Path, after: int = 2) -> tuple[Path, Path]:
    """The two files that a computation interrupted after some batches leaves: the rows and the counter."""

    class Failing(Counting):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            if self.batches == after:
                raise KeyboardInterrupt
            return super().forward(images)

    with pytest.raises(KeyboardInterrupt):
        cached_features(Failing(), ImageArray(PIXELS), folder, key="k", batch_size=4)
    part, counter = files(folder)
    assert (part.suffix, counter.suffix) == (".part", ".rows")
    return part, counter


def resume(folder: Path) -> tuple[bytes, int, list[int]]:
    """Content of the finished file, batches computed for it in this call, and the progress reported."""
    backbone, steps = Counting(), list[int]()
    features = cached_features(
        backbone, ImageArray(PIXELS), folder, key="k", batch_size=4, progress=steps.append
    )
    np.testing.assert_array_equal(features.dense(range(11)), PIXELS.reshape(11, 16).astype(np.float32))
    (path,) = files(folder)
    return path.read_bytes(), backbone.batches, steps


@pytest.mark.parametrize("workers", [0, 1])
def test_the_next_process_continues_after_a_kill(tmp_path: Path, workers: int) -> None:
    folder = tmp_path / "killed"
    script = KILLED.format(folder_of_tests=str(Path(__file__).parent), folder=str(folder), workers=workers)
    killed = subprocess.run([sys.executable, "-c", script], timeout=120, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(files(folder)) == 2
    assert resume(folder) == (uninterrupted(tmp_path / "whole"), 1, [8, 3])


def compute_slowly(folder: Path) -> None:
    class Slow(Counting):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            time.sleep(0.01)
            return super().forward(images)

    cached_features(Slow(), MANY, folder, key="k", batch_size=4)


MANY = ImageArray(PIXELS.repeat(20, 0))


def test_several_processes_killed_at_random_moments(tmp_path: Path) -> None:
    """Three at a time, killed one after the other, until one of them finishes."""
    start, moments, ended = multiprocessing.get_context("fork").Process, random.Random(0), list[int | None]()
    while 0 not in ended:
        running = [start(target=compute_slowly, args=(tmp_path / "killed",)) for _ in range(3)]
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
    assert len(ended) > 6
    cached_features(Counting(), MANY, tmp_path / "whole", key="k", batch_size=4)
    (path,) = files(tmp_path / "whole")
    assert (tmp_path / "killed" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(("after", "steps"), [(1, [4, 4, 3]), (2, [8, 3])])
def test_completed_batches_are_not_computed_again(tmp_path: Path, after: int, steps: list[int]) -> None:
    interrupted(tmp_path / "interrupted", after)
    assert resume(tmp_path / "interrupted") == (uninterrupted(tmp_path / "whole"), 3 - after, steps)


def test_interrupted_between_the_last_batch_and_the_renaming(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            uninterrupted(tmp_path / "interrupted")
    assert resume(tmp_path / "interrupted") == (uninterrupted(tmp_path / "whole"), 0, [11])


def interrupt(*arguments: object) -> None:
    raise KeyboardInterrupt


HEADER, BLOCK = 128, 4 * 16 * 4
DONE = HEADER + 2 * BLOCK  # bytes after two blocks

Damage = Callable[[bytes, bytes], tuple[bytes, bytes]]


def part_cut(length: int) -> Damage:
    return lambda part, counter: (part[:length], counter)


def part_changed(position: int) -> Damage:
    return lambda part, counter: (
        part[:position] + bytes([part[position] ^ 1]) + part[position + 1 :],
        counter,
    )


def counter_cut(length: int) -> Damage:
    return lambda part, counter: (part, counter[:length])


def counter_is(text: bytes) -> Damage:
    return lambda part, counter: (part, text)


EMPTY = b"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize(
    ("damage", "kept"),
    [
        (lambda part, counter: (part, counter), 2),
        (lambda part, counter: (part + b"x" * 1000, counter), 2),  # a block that is not counted yet
        (part_cut(0), 0),
        (part_cut(HEADER - 1), 0),
        (part_cut(HEADER), 0),
        (part_cut(HEADER + BLOCK), 0),
        (part_cut(DONE - 1), 0),
        (part_cut(DONE), 2),
        (part_changed(HEADER - 30), 0),
        (part_changed(HEADER + 5), 0),
        (part_changed(HEADER + BLOCK + 5), 0),
        (counter_cut(0), 0),
        (counter_cut(20), 0),
        (counter_cut(-2), 0),
        (counter_is(b"\xff\xfe 16 00\n"), 0),
        (counter_is(b"8\n"), 0),
        (counter_is(b"8 128\n"), 0),
        (counter_is(b"-4 -16 00\n"), 0),
        (counter_is(b"0 0 " + EMPTY + b"\n"), 0),
        (counter_is(b"8 -1 " + EMPTY + b"\n"), 0),
        (counter_is((b"0 0 " + EMPTY + b"\n") * 9), 0),
        (counter_is(b"999999999999 999999999999 00\n"), 0),
        (counter_is(b"9" * 5000 + b" 16 00\n"), 0),
        (counter_is(b"12 16 00\n"), 0),
    ],
)
def test_features_are_right_whatever_is_left_behind(tmp_path: Path, damage: Damage, kept: int) -> None:
    left = interrupted(tmp_path / "interrupted")
    assert left[0].stat().st_size == DONE
    assert left[1].read_text().split()[:2] == ["8", str(DONE)]
    for path, content in zip(left, damage(*(path.read_bytes() for path in left)), strict=True):
        path.write_bytes(content)
    content, batches, _ = resume(tmp_path / "interrupted")
    assert content == uninterrupted(tmp_path / "whole")
    assert batches == 3 - kept


@pytest.mark.parametrize("damage", [part_changed(HEADER + BLOCK + 5), counter_is(b"12345678 " * 20)])
def test_interrupted_again_after_damage(tmp_path: Path, damage: Damage) -> None:
    left = interrupted(tmp_path / "interrupted")
    for path, content in zip(left, damage(*(path.read_bytes() for path in left)), strict=True):
        path.write_bytes(content)
    interrupted(tmp_path / "interrupted", 1)
    assert resume(tmp_path / "interrupted") == (uninterrupted(tmp_path / "whole"), 2, [4, 4, 3])


def test_one_of_the_two_files_alone_is_useless(tmp_path: Path) -> None:
    for lost in (0, 1):
        interrupted(tmp_path / f"{lost}")[lost].unlink()
        assert resume(tmp_path / f"{lost}")[1] == 3


def test_unfinished_files_of_earlier_versions_are_replaced(tmp_path: Path) -> None:
    """They listed the digests of blocks in a .blocks file."""
    part, counter = interrupted(tmp_path / "old")
    block = part.read_bytes()[HEADER : HEADER + BLOCK]
    counter.with_suffix(".blocks").write_text(f"4 16 {hashlib.sha256(block).hexdigest()}\n")
    counter.unlink()
    assert resume(tmp_path / "old")[:2] == (uninterrupted(tmp_path / "whole"), 3)


def test_format_of_the_finished_file(tmp_path: Path) -> None:
    """Earlier versions wrote it and later ones must read it: a .npy file and the SHA-256 of its content."""
    content = uninterrupted(tmp_path)
    array = np.load(io.BytesIO(content), allow_pickle=False)
    np.testing.assert_array_equal(array, PIXELS.reshape(11, 16).astype("<f4"))
    assert content[-32:] == hashlib.sha256(content[:-32]).digest()
    assert [path.name for path in files(tmp_path)] == ["960ae5952cf370b40e80112fce926429.npy"]


def test_another_backbone_or_sample_starts_from_the_beginning(tmp_path: Path) -> None:
    left = interrupted(tmp_path)
    changed = PIXELS.copy()
    changed[3, 0, 0, 0] ^= 1
    for key, pixels, scale in (("other", PIXELS, 2.0), ("k", changed, 1.0)):
        backbone = Counting(scale)
        features = cached_features(backbone, ImageArray(pixels), tmp_path, key=key, batch_size=4)
        assert backbone.batches == 3
        np.testing.assert_array_equal(features.dense(range(11)), scale * pixels.reshape(11, 16))
    assert all(path.exists() for path in left)  # another run may still continue from these
    cached_features(backbone := Counting(), ImageArray(PIXELS), tmp_path, key="k", batch_size=4)
    assert backbone.batches == 1
    assert [path.suffix for path in files(tmp_path)] == [".npy"] * 3


def test_abandoned_files_are_removed_after_a_week(tmp_path: Path) -> None:
    left = interrupted(tmp_path)
    old = left[1].with_suffix(".blocks")
    old.write_text("of an earlier version")
    for days, remain in ((6, True), (8, False)):
        for path in (*left, old):
            os.utime(path, (time.time() - days * 86400,) * 2)
        cached_features(Counting(2.0), ImageArray(PIXELS), tmp_path, key=f"{days}")
        assert [path.exists() for path in (*left, old)] == [remain] * 3


def test_a_run_continues_from_its_own_files_however_old(tmp_path: Path) -> None:
    """Even if another process removes stale files before the next batch is complete."""

    class Meanwhile(Counting):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            cached_features(Counting(), ImageArray(PIXELS), tmp_path, key="other")
            return super().forward(images)

    for path in interrupted(tmp_path):
        os.utime(path, (0, 0))
    backbone = Meanwhile()
    features = cached_features(backbone, ImageArray(PIXELS), tmp_path, key="k", batch_size=4)
    np.testing.assert_array_equal(features.dense(range(11)), PIXELS.reshape(11, 16))
    assert backbone.batches == 1


def test_old_files_of_other_programs_are_left_alone(tmp_path: Path) -> None:
    for name in (".film.part", "notes.npy.part", "data.npy", ".blocks", ".rows"):
        (tmp_path / name).write_text("text")
        os.utime(tmp_path / name, (0, 0))
    features = cached_features(Counting(), ImageArray(PIXELS), tmp_path, key="k")
    assert len(features) == 11
    assert len(files(tmp_path)) == 6


def test_what_was_left_next_to_a_finished_file_is_removed(tmp_path: Path) -> None:
    """A process killed between renaming the file and removing the counter."""
    uninterrupted(tmp_path)
    (path,) = files(tmp_path)
    for suffix in ("rows", "blocks"):
        (tmp_path / f".{path.name}.{suffix}").write_bytes(b"left")
    assert resume(tmp_path)[1] == 0


def test_a_full_disk_keeps_the_completed_batches(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (HEADER + BLOCK + BLOCK // 2, limits[1]))
        with pytest.raises(SpmlError, match=r"\.npy: could not be written .*are kept"):
            cached_features(Counting(), ImageArray(PIXELS), tmp_path / "full", key="k", batch_size=4)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert resume(tmp_path / "full") == (uninterrupted(tmp_path / "whole"), 2, [4, 4, 3])


def test_two_processes_compute_the_same_features_once(tmp_path: Path) -> None:
    computing, waiting = threading.Event(), threading.Event()

    class Slow(Counting):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            computing.set()
            assert waiting.wait(60)
            return super().forward(images)

    def on_report(line: str) -> None:
        if "waiting" in line:
            waiting.set()

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(cached_features, Slow(), ImageArray(PIXELS), tmp_path, key="k", batch_size=4)
        assert computing.wait(60)
        backbone = Counting()
        second = cached_features(backbone, ImageArray(PIXELS), tmp_path, key="k", report=on_report)
        np.testing.assert_array_equal(second.dense(range(11)), first.result().dense(range(11)))
    assert backbone.batches == 0
    assert [path.suffix for path in files(tmp_path)] == [".npy"]


def test_without_locks_each_process_uses_its_own_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*arguments: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", no_locks)
    lines = list[str]()

    class Both(Counting):
        """Starts a second complete computation half-way, as another process might."""

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            if self.batches == 1:
                assert len(files(tmp_path)) == 2
                cached_features(Counting(), ImageArray(PIXELS), tmp_path, key="k", batch_size=4)
            return super().forward(images)

    features = cached_features(
        Both(), ImageArray(PIXELS), tmp_path, key="k", batch_size=4, report=lines.append
    )
    np.testing.assert_array_equal(features.dense(range(11)), PIXELS.reshape(11, 16))
    assert "no file locks" in lines[0]
    assert [path.suffix for path in files(tmp_path)] == [".npy"]
    assert len(interrupted(tmp_path / "interrupted")) == 2
    backbone = Counting()
    cached_features(backbone, ImageArray(PIXELS), tmp_path / "interrupted", key="k", batch_size=4)
    assert backbone.batches == 3
