"""The feature cache: computed once, resumed after a kill, computed again when damaged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from spml.common.errors import SpmlError
from spml.data.images.image_files import ImageFiles
from spml.data.matrix import FeatureMatrix, ImageArray
from spml.runs.predict.features import cached_features
from tests.data.cached import PIXELS, Counting, files

Picture = Callable[..., Path]


@pytest.fixture
def picture(tmp_path: Path) -> Picture:
    """Function that writes an image of noise below tmp_path."""

    def write(name: str) -> Path:
        noise = np.random.default_rng(len(list(tmp_path.iterdir()))).integers(0, 256, (16, 20, 3), np.uint8)
        Image.fromarray(noise).save(tmp_path / name)
        return tmp_path / name

    return write


class Float(nn.Module):
    """Pixels as vectors of float32."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.flatten(1).float()


def test_features_equal_those_of_the_backbone_and_are_computed_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO", "spml")
    backbone, steps = Counting(), list[int]()
    monkeypatch.setattr("spml.runs.predict.features.progress", lambda *about: nullcontext(steps.append))
    folder = tmp_path / "new" / "features"
    for _ in range(2):
        features = cached_features(
            backbone,
            ImageArray(PIXELS),
            folder,
            key="k",
            batch_size=4,
        )
        assert isinstance(features, FeatureMatrix)
        np.testing.assert_array_equal(features.dense(range(11)), PIXELS.reshape(11, 16).astype(np.float32))
    assert backbone.batches == 3
    assert steps == [4, 4, 3, 11]
    assert [line.split(": ")[1].split()[0] for line in caplog.messages] == ["computed", "read"]
    (store,) = folder.iterdir()
    assert caplog.messages[1] == f"features of 11 samples: read from {store}"
    assert len(files(store)) == 2
    assert isinstance(features._matrix.base, np.memmap)


def test_the_bar_moves_after_the_first_of_many_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = list[int]()
    monkeypatch.setattr("spml.runs.predict.features.progress", lambda *about: nullcontext(steps.append))
    pixels = np.arange(40 * 16, dtype=np.uint16).astype(np.uint8).reshape(40, 1, 4, 4)
    pixels[:, 0, 0, 0] = range(40)
    features = cached_features(Counting(), ImageArray(pixels), tmp_path, key="k")
    np.testing.assert_array_equal(features.dense(range(40)), pixels.reshape(40, 16).astype(np.float32))
    assert steps == [1, 16, 16, 7]


def test_another_key_is_another_store_and_another_sample_another_row(tmp_path: Path) -> None:
    first = cached_features(Counting(1.0), ImageArray(PIXELS), tmp_path, key="1")
    second = cached_features(Counting(2.0), ImageArray(PIXELS), tmp_path, key="2")
    other = PIXELS.copy()
    other[3, 0, 0, 0] ^= 1
    third = cached_features(backbone := Counting(1.0), ImageArray(other), tmp_path, key="1")
    np.testing.assert_array_equal(second.dense(range(11)), 2 * first.dense(range(11)))
    assert abs(third.dense(range(11)) - first.dense(range(11))).sum() == 1
    assert backbone.batches == 1
    assert len(list(tmp_path.iterdir())) == 2


def test_half_precision_computes_rounded_features_of_their_own(tmp_path: Path) -> None:
    torch.manual_seed(0)
    backbone, images = nn.Sequential(Float(), nn.Linear(16, 5)), ImageArray(PIXELS)
    full = cached_features(backbone, images, tmp_path, key="k").dense(range(11))
    half = cached_features(backbone, images, tmp_path, key="k", precision="bf16-mixed").dense(range(11))
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        expected = backbone(images.fetch(range(11), None)).float().numpy()
    np.testing.assert_array_equal(half, expected)
    assert half.dtype == np.float32
    np.testing.assert_allclose(half, full, rtol=0, atol=0.01 * abs(full).max())
    assert not np.array_equal(half, full)
    again = cached_features(backbone, images, tmp_path, key="k").dense(range(11))
    np.testing.assert_array_equal(again, full)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_subset_and_a_union_reuse_what_is_stored(tmp_path: Path) -> None:
    images = ImageArray(PIXELS)
    for rows in ([0, 1, 2, 3], [9, 8]):
        cached_features(Counting(), images.take(rows), tmp_path, key="k")
    union = [9, 3, 0, 3]
    features = cached_features(backbone := Counting(), images.take(union), tmp_path, key="k")
    assert backbone.batches == 0
    np.testing.assert_array_equal(features.dense(range(4)), PIXELS[union].reshape(4, 16))


def test_copies_of_an_image_are_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, steps = [5, 1, 5, 5, 2, 1], list[int]()
    monkeypatch.setattr("spml.runs.predict.features.progress", lambda *about: nullcontext(steps.append))
    backbone = Counting()
    features = cached_features(backbone, ImageArray(PIXELS[rows]), tmp_path, key="k", batch_size=3)
    assert (backbone.batches, sum(steps)) == (1, 6)
    np.testing.assert_array_equal(features.dense(range(6)), PIXELS[rows].reshape(6, 16))


def test_features_of_another_cache_are_read_and_not_copied(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "spml")
    cached_features(Counting(), ImageArray(PIXELS[:6]), tmp_path / "a", key="k")
    caplog.clear()
    backbone = Counting()
    for images in (PIXELS[:5], PIXELS):
        features = cached_features(
            backbone,
            ImageArray(images),
            tmp_path / "b",
            key="k",
            others=[tmp_path / "a"],
        )
        np.testing.assert_array_equal(features.dense(range(len(images))), images.reshape(-1, 16))
    assert caplog.messages[0].startswith(f"features of 5 samples: read from {tmp_path / 'a'}")
    assert backbone.batches == 1
    rows = next((tmp_path / "b").rglob("*.rows"))
    assert rows.stat().st_size == 5 * 16 * 4


def test_taken_rows_are_those_rows(tmp_path: Path) -> None:
    features = cached_features(Counting(), ImageArray(PIXELS), tmp_path, key="k").take([7, 2])
    np.testing.assert_array_equal(features.dense([1, 0]), PIXELS[[2, 7]].reshape(2, 16))


# -- errors ----------------------------------------------------------------------------------------------


def test_a_folder_that_can_not_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpmlError, match=r"file.*can't be created"):
        cached_features(Counting(), ImageArray(PIXELS), tmp_path / "file", key="k")


class Pooled(nn.Module):
    """Mean of each channel."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.weight * images.float().mean((2, 3))


def images_of(paths: Sequence[Path]) -> ImageFiles:
    return ImageFiles(paths, [path.name for path in paths], size=8, flip=True)


def test_features_do_not_depend_on_the_workers(tmp_path: Path, picture: Picture) -> None:
    inputs = images_of([picture(f"{number}.png") for number in range(5)])
    features = [
        cached_features(Pooled(), inputs, tmp_path / str(n), key="k", batch_size=2, workers=n).dense(range(5))
        for n in (0, 2)
    ]
    np.testing.assert_allclose(features[0], features[1], rtol=1e-6)
    expected = inputs.fetch(range(5), None).double().mean((2, 3)).numpy()
    np.testing.assert_allclose(features[0], expected, rtol=1e-6)


def test_no_file_is_left_if_no_batch_was_completed(tmp_path: Path) -> None:
    with pytest.raises(SpmlError):
        cached_features(Counting(), images_of([tmp_path / "gone.png"]), tmp_path / "cache", key="k")
    assert [path for path in files(tmp_path / "cache") if path.is_file()] == []


@pytest.mark.parametrize("workers", [0, 1])
def test_the_message_names_a_removed_file_without_a_traceback(
    tmp_path: Path, picture: Picture, workers: int
) -> None:
    inputs = images_of([picture("a.png"), picture("gone.png")])
    (tmp_path / "gone.png").unlink()
    with pytest.raises(SpmlError) as caught:
        cached_features(Pooled(), inputs, tmp_path / "cache", key="k", workers=workers)
    assert "gone.png" in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_torch_random_state_is_not_changed(tmp_path: Path, picture: Picture) -> None:
    inputs = images_of([picture("a.png")])
    before = torch.get_rng_state()
    cached_features(Pooled(), inputs, tmp_path / "cache", key="k", workers=1)
    assert torch.equal(torch.get_rng_state(), before)
