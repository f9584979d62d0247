"""Features of a frozen backbone: computed once, kept whole, computed again when damaged."""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from spml.data import cached_features
from spml.data.images import ImageFiles
from spml.data.matrix import FeatureMatrix, ImageArray
from spml.errors import SpmlError

Picture = Callable[..., Path]
PIXELS = np.random.default_rng(0).integers(0, 256, (11, 1, 4, 4), np.uint8)


class Counting(nn.Module):
    """Features that need evaluation mode to be right; counts the batches it was given."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(float(scale)))
        self.norm = nn.BatchNorm1d(16, eps=0)
        self.batches = 0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.batches += 1
        features: torch.Tensor = self.scale * self.norm(images.flatten(1).float())
        return features


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def test_features_equal_those_of_the_backbone_and_are_computed_once(tmp_path: Path) -> None:
    backbone, lines, steps = Counting(), list[str](), list[int]()
    folder = tmp_path / "new" / "features"
    for _ in range(2):
        found = cached_features(
            backbone,
            ImageArray(PIXELS),
            folder,
            key="k",
            batch_size=4,
            report=lines.append,
            progress=steps.append,
        )
        assert isinstance(found, FeatureMatrix)
        np.testing.assert_array_equal(found.dense(range(11)), PIXELS.reshape(11, 16).astype(np.float32))
    assert backbone.batches == 3
    assert steps == [4, 4, 3, 11]
    assert [line.split(": ")[1].split()[0] for line in lines] == ["computed", "read"]
    assert len(files(folder)) == 1
    assert isinstance(found._matrix, np.memmap)


def test_another_key_or_another_sample_is_another_file(tmp_path: Path) -> None:
    first = cached_features(Counting(1.0), ImageArray(PIXELS), tmp_path, key="1")
    second = cached_features(Counting(2.0), ImageArray(PIXELS), tmp_path, key="2")
    other = PIXELS.copy()
    other[3, 0, 0, 0] ^= 1
    third = cached_features(Counting(1.0), ImageArray(other), tmp_path, key="1")
    np.testing.assert_array_equal(second.dense(range(11)), 2 * first.dense(range(11)))
    assert abs(third.dense(range(11)) - first.dense(range(11))).sum() == 1
    assert len(files(tmp_path)) == 3


def test_taken_rows_are_those_rows(tmp_path: Path) -> None:
    found = cached_features(Counting(), ImageArray(PIXELS), tmp_path, key="k").take([7, 2])
    np.testing.assert_array_equal(found.dense([1, 0]), PIXELS[[2, 7]].reshape(2, 16))


@pytest.mark.parametrize("damage", ["flipped", "short", "empty", "longer", "header"])
def test_a_damaged_file_is_computed_again_with_a_note(tmp_path: Path, damage: str) -> None:
    inputs, lines = ImageArray(PIXELS), list[str]()
    cached_features(Counting(), inputs, tmp_path, key="k")
    (path,) = files(tmp_path)
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[300] ^= 1
    path.write_bytes(
        {
            "flipped": bytes(flipped),
            "short": whole[:-100],
            "empty": b"",
            "longer": whole + b"\0",
            "header": b"PK" + whole[2:],
        }[damage]
    )
    again = cached_features(Counting(), inputs, tmp_path, key="k", report=lines.append)
    np.testing.assert_array_equal(again.dense(range(11)), PIXELS.reshape(11, 16))
    assert path.read_bytes() == whole
    assert "damaged" in lines[0]
    assert "computed" in lines[1]


# -- killed in the middle --------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
sys.path.insert(0, {here!r})
from pathlib import Path
from test_cache import PIXELS, Counting, ImageArray, cached_features

class Killed(Counting):
    def forward(self, images):
        if self.batches == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().forward(images)

cached_features(Killed(), ImageArray(PIXELS), Path({folder!r}), key="k", batch_size=4, workers={workers})
"""


def whole(folder: Path) -> bytes:
    """The file as a computation that nothing stops writes it."""
    cached_features(Counting(), ImageArray(PIXELS), folder, key="k", batch_size=4)
    (path,) = files(folder)
    return path.read_bytes()


def stopped(folder: Path, after: int = 2) -> tuple[Path, Path]:
    """What a computation leaves behind that was stopped after some batches: a list of blocks, and them."""

    class Failing(Counting):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            if self.batches == after:
                raise KeyboardInterrupt
            return super().forward(images)

    with pytest.raises(KeyboardInterrupt):
        cached_features(Failing(), ImageArray(PIXELS), folder, key="k", batch_size=4)
    blocks, part = files(folder)
    assert (blocks.suffix, part.suffix) == (".blocks", ".part")
    return blocks, part


def go_on(folder: Path) -> tuple[bytes, int, list[int]]:
    """The finished file, how many batches were computed for it now, and the progress told."""
    backbone, steps = Counting(), list[int]()
    found = cached_features(
        backbone, ImageArray(PIXELS), folder, key="k", batch_size=4, progress=steps.append
    )
    np.testing.assert_array_equal(found.dense(range(11)), PIXELS.reshape(11, 16).astype(np.float32))
    (path,) = files(folder)
    return path.read_bytes(), backbone.batches, steps


@pytest.mark.parametrize("workers", [0, 1])
def test_a_killed_process_leaves_its_batches_to_the_next(tmp_path: Path, workers: int) -> None:
    folder = tmp_path / "killed"
    script = KILLED.format(here=str(Path(__file__).parent), folder=str(folder), workers=workers)
    killed = subprocess.run([sys.executable, "-c", script], timeout=120, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(files(folder)) == 2
    assert go_on(folder) == (whole(tmp_path / "whole"), 1, [8, 3])


def compute_slowly(folder: Path) -> None:
    class Slow(Counting):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            time.sleep(0.01)
            return super().forward(images)

    cached_features(Slow(), MANY, folder, key="k", batch_size=4)


MANY = ImageArray(PIXELS.repeat(20, 0))


def test_several_processes_killed_at_random_moments(tmp_path: Path) -> None:
    """Three at a time, killed one after the other, until one comes to the end."""
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


@pytest.mark.parametrize(("after", "told"), [(1, [4, 4, 3]), (2, [8, 3])])
def test_what_was_computed_before_is_not_computed_again(tmp_path: Path, after: int, told: list[int]) -> None:
    stopped(tmp_path / "stopped", after)
    assert go_on(tmp_path / "stopped") == (whole(tmp_path / "whole"), 3 - after, told)


def test_nothing_is_left_behind_where_nothing_was_computed(tmp_path: Path) -> None:
    with pytest.raises(SpmlError):
        cached_features(Counting(), _images([tmp_path / "gone.png"]), tmp_path / "cache", key="k")
    assert files(tmp_path / "cache") == []


def test_stopped_between_the_last_batch_and_the_renaming(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            whole(tmp_path / "stopped")
    assert go_on(tmp_path / "stopped") == (whole(tmp_path / "whole"), 0, [11])


def interrupt(*given: object) -> None:
    raise KeyboardInterrupt


HEADER, BLOCK = 128, 4 * 16 * 4


def part_cut(length: int) -> Callable[[bytes, bytes], tuple[bytes, bytes]]:
    return lambda blocks, part: (blocks, part[:length])


def part_changed(place: int) -> Callable[[bytes, bytes], tuple[bytes, bytes]]:
    return lambda blocks, part: (blocks, part[:place] + bytes([part[place] ^ 1]) + part[place + 1 :])


def list_cut(length: int) -> Callable[[bytes, bytes], tuple[bytes, bytes]]:
    return lambda blocks, part: (blocks[:length], part)


def list_is(text: bytes) -> Callable[[bytes, bytes], tuple[bytes, bytes]]:
    return lambda blocks, part: (text, part)


LINE = len("4 16 ") + 64 + 1


@pytest.mark.parametrize(
    ("damage", "kept"),
    [
        (lambda blocks, part: (blocks, part), 2),
        (lambda blocks, part: (blocks, part + b"x" * 1000), 2),  # a block that was not listed any more
        (part_cut(0), 0),
        (part_cut(HEADER - 1), 0),
        (part_cut(HEADER), 0),
        (part_cut(HEADER + BLOCK - 1), 0),
        (part_cut(HEADER + BLOCK), 1),
        (part_cut(HEADER + 2 * BLOCK - 1), 1),
        (part_changed(HEADER - 30), 0),
        (part_changed(HEADER + 5), 0),
        (part_changed(HEADER + BLOCK + 5), 1),
        (list_cut(0), 0),
        (list_cut(LINE - 1), 0),
        (list_cut(LINE), 1),
        (list_cut(LINE + 7), 1),
        (list_cut(2 * LINE - 1), 1),
        (list_is(b"\xff\xfe 16 00\n"), 0),
        (list_is(b"4 16\n"), 0),
        (list_is(b"-4 -16 00\n"), 0),
        (list_is(b"0 16 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n" * 9), 0),
        (list_is(b"999999999999 999999999999 00\n"), 0),
        (list_is(b"9" * 5000 + b" 16 00\n"), 0),
        (list_is(b"12 16 00\n"), 0),
    ],
)
def test_whatever_is_left_behind_the_features_are_right(
    tmp_path: Path, damage: Callable[[bytes, bytes], tuple[bytes, bytes]], kept: int
) -> None:
    left = stopped(tmp_path / "stopped")
    assert (left[0].stat().st_size, left[1].stat().st_size) == (2 * LINE, HEADER + 2 * BLOCK)
    for path, content in zip(left, damage(*(path.read_bytes() for path in left)), strict=True):
        path.write_bytes(content)
    found, batches, _ = go_on(tmp_path / "stopped")
    assert found == whole(tmp_path / "whole")
    assert batches == 3 - kept


def test_stopped_again_after_damage(tmp_path: Path) -> None:
    part = stopped(tmp_path / "stopped")[1]
    part.write_bytes(part_changed(HEADER + BLOCK + 5)(b"", part.read_bytes())[1])
    stopped(tmp_path / "stopped", 1)
    assert go_on(tmp_path / "stopped") == (whole(tmp_path / "whole"), 1, [8, 3])


def test_one_of_the_two_files_is_of_no_use(tmp_path: Path) -> None:
    for lost in (0, 1):
        stopped(tmp_path / f"{lost}")[lost].unlink()
        assert go_on(tmp_path / f"{lost}")[1] == 3


def test_another_backbone_or_sample_starts_anew(tmp_path: Path) -> None:
    left = stopped(tmp_path)
    other = PIXELS.copy()
    other[3, 0, 0, 0] ^= 1
    for key, pixels, scale in (("other", PIXELS, 2.0), ("k", other, 1.0)):
        backbone = Counting(scale)
        found = cached_features(backbone, ImageArray(pixels), tmp_path, key=key, batch_size=4)
        assert backbone.batches == 3
        np.testing.assert_array_equal(found.dense(range(11)), scale * pixels.reshape(11, 16))
    assert all(path.exists() for path in left)  # whoever wants those may still go on
    cached_features(backbone := Counting(), ImageArray(PIXELS), tmp_path, key="k", batch_size=4)
    assert backbone.batches == 1
    assert [path.suffix for path in files(tmp_path)] == [".npy"] * 3


def test_what_nobody_goes_on_from_is_removed_after_a_week(tmp_path: Path) -> None:
    left = stopped(tmp_path)
    for days, remain in ((6, True), (8, False)):
        for path in left:
            os.utime(path, (time.time() - days * 86400,) * 2)
        cached_features(Counting(2.0), ImageArray(PIXELS), tmp_path, key=f"{days}")
        assert [path.exists() for path in left] == [remain] * 2


def test_the_own_is_gone_on_from_however_old(tmp_path: Path) -> None:
    """Even if another process removes what is old before the next batch is there."""

    class Meanwhile(Counting):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            cached_features(Counting(), ImageArray(PIXELS), tmp_path, key="other")
            return super().forward(images)

    for path in stopped(tmp_path):
        os.utime(path, (0, 0))
    backbone = Meanwhile()
    found = cached_features(backbone, ImageArray(PIXELS), tmp_path, key="k", batch_size=4)
    np.testing.assert_array_equal(found.dense(range(11)), PIXELS.reshape(11, 16))
    assert backbone.batches == 1


def test_old_files_of_others_are_left_alone(tmp_path: Path) -> None:
    for name in (".film.part", "notes.npy.part", "data.npy", ".blocks"):
        (tmp_path / name).write_text("mine")
        os.utime(tmp_path / name, (0, 0))
    whole_file = cached_features(Counting(), ImageArray(PIXELS), tmp_path, key="k")
    assert len(whole_file) == 11
    assert len(files(tmp_path)) == 5


def test_what_was_left_beside_a_finished_file_is_removed(tmp_path: Path) -> None:
    """Killed between the renaming and the removal of the list."""
    whole(tmp_path)
    (path,) = files(tmp_path)
    (tmp_path / f".{path.name}.blocks").write_bytes(b"left")
    assert go_on(tmp_path)[1] == 0


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (HEADER + BLOCK + BLOCK // 2, limits[1]))
        with pytest.raises(SpmlError, match=r"\.npy: could not be written .*is kept"):
            cached_features(Counting(), ImageArray(PIXELS), tmp_path / "full", key="k", batch_size=4)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert go_on(tmp_path / "full") == (whole(tmp_path / "whole"), 2, [4, 4, 3])


def test_two_processes_compute_the_same_features_once(tmp_path: Path) -> None:
    computing, waiting = threading.Event(), threading.Event()

    class Slow(Counting):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            computing.set()
            assert waiting.wait(60)
            return super().forward(images)

    def told(line: str) -> None:
        if "waiting" in line:
            waiting.set()

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(cached_features, Slow(), ImageArray(PIXELS), tmp_path, key="k", batch_size=4)
        assert computing.wait(60)
        backbone = Counting()
        second = cached_features(backbone, ImageArray(PIXELS), tmp_path, key="k", report=told)
        np.testing.assert_array_equal(second.dense(range(11)), first.result().dense(range(11)))
    assert backbone.batches == 0
    assert [path.suffix for path in files(tmp_path)] == [".npy"]


def test_without_locks_each_process_has_files_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*given: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", no_locks)
    lines = list[str]()

    class Both(Counting):
        """Computes all of it once more when half is done, as another process might."""

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            if self.batches == 1:
                assert len(files(tmp_path)) == 2
                cached_features(Counting(), ImageArray(PIXELS), tmp_path, key="k", batch_size=4)
            return super().forward(images)

    found = cached_features(Both(), ImageArray(PIXELS), tmp_path, key="k", batch_size=4, report=lines.append)
    np.testing.assert_array_equal(found.dense(range(11)), PIXELS.reshape(11, 16))
    assert "no file locks" in lines[0]
    assert [path.suffix for path in files(tmp_path)] == [".npy"]
    assert len(stopped(tmp_path / "stopped")) == 2
    backbone = Counting()
    cached_features(backbone, ImageArray(PIXELS), tmp_path / "stopped", key="k", batch_size=4)
    assert backbone.batches == 3


# -- what can go wrong -----------------------------------------------------------------------------------


def test_a_folder_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpmlError, match=r"file.*can't be made"):
        cached_features(Counting(), ImageArray(PIXELS), tmp_path / "file", key="k")


class Pooled(nn.Module):
    """The mean of each channel."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.weight * images.float().mean((2, 3))


def _images(paths: Sequence[Path]) -> ImageFiles:
    return ImageFiles(paths, [path.name for path in paths], size=8, flip=True)


def test_workers_change_nothing(tmp_path: Path, picture: Picture) -> None:
    inputs = _images([picture(f"{number}.png") for number in range(5)])
    found = [
        cached_features(Pooled(), inputs, tmp_path / str(n), key="k", batch_size=2, workers=n).dense(range(5))
        for n in (0, 2)
    ]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)
    expected = inputs.fetch(range(5), None).double().mean((2, 3)).numpy()
    np.testing.assert_allclose(found[0], expected, rtol=1e-6)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_file_that_vanished_is_named_without_a_traceback(
    tmp_path: Path, picture: Picture, workers: int
) -> None:
    inputs = _images([picture("a.png"), picture("gone.png")])
    (tmp_path / "gone.png").unlink()
    with pytest.raises(SpmlError) as caught:
        cached_features(Pooled(), inputs, tmp_path / "cache", key="k", workers=workers)
    assert "gone.png" in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_torch_random_state_is_left_alone(tmp_path: Path, picture: Picture) -> None:
    inputs = _images([picture("a.png")])
    before = torch.get_rng_state()
    cached_features(Pooled(), inputs, tmp_path / "cache", key="k", workers=1)
    assert torch.equal(torch.get_rng_state(), before)
