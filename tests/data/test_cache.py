"""Features of a frozen backbone: computed once, kept whole, computed again when damaged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from spml.data import cached_features
from spml.data.arrays import FeatureMatrix, ImageArray
from spml.data.images import ImageFiles
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


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    class Failing(Counting):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            if self.batches:
                raise KeyboardInterrupt
            return super().forward(images)

    with pytest.raises(KeyboardInterrupt):
        cached_features(Failing(), ImageArray(PIXELS), tmp_path, key="k", batch_size=4)
    assert files(tmp_path) == []


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
    np.testing.assert_array_equal(found[0], found[1])
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
