"""Random parts of images for training: where they lie, and that they are what is loaded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from spml.data import Augment, Samples
from spml.data.images.image_files import ImageFiles
from spml.data.images.views import image_views, regions
from spml.engine.loader import EpochBatches, make_loader
from spml.labels import ObservedLabels

MANY = range(4000)


def files(paths: list[Path], **settings: object) -> ImageFiles:
    return ImageFiles(paths, ["given"] * len(paths), **{"size": 24, "crop": 0.3, **settings})


def test_parts_lie_in_the_image_and_have_the_stated_areas_and_ratios() -> None:
    left, top, right, bottom, mirrored = regions(MANY, Augment(1, 2), crop=0.3, flip=True).T.astype(float)
    assert min(left.min(), top.min()) >= 0
    assert max(right.max(), bottom.max()) <= 1
    width, height = right - left, bottom - top
    area, ratio = width * height, np.log(width / height)
    # Uniform: mean and deviation of the mean of 4,000 draws, four of the latter.
    assert 0.3 <= area.min() < 0.31
    assert 0.99 < area.max() <= 1 + 1e-6
    assert abs(area.mean() - 0.65) < 4 * 0.7 / np.sqrt(12 * 4000)
    widest = np.minimum(np.log(4 / 3), -np.log(area))
    assert (np.abs(ratio) <= widest + 1e-5).all()
    for share in (ratio / widest, 2 * left / (1 - width) - 1, 2 * top / (1 - height) - 1):
        share = share[area < 0.95]  # where rounding does not matter
        assert abs(share.mean()) < 4 / np.sqrt(3 * len(share))
        assert abs(share.std() - 1 / np.sqrt(3)) < 0.02
    assert abs(mirrored.mean() - 0.5) < 4 * 0.5 / np.sqrt(4000)
    assert set(mirrored) == {0, 1}


def test_they_depend_on_seed_epoch_and_row_only() -> None:
    first = regions([5, 9, 5], Augment(1, 2), crop=0.5, flip=True)
    assert first.dtype == np.float32
    assert (first[0] == first[2]).all()
    assert (first == regions([5, 9, 5], Augment(1, 2, 3, "strong"), crop=0.5, flip=True)).all()
    assert (first[1] == regions([9], Augment(1, 2), crop=0.5, flip=True)[0]).all()
    for other in (Augment(1, 3), Augment(2, 2)):
        assert (first[:, :4] != regions([5, 9, 5], other, crop=0.5, flip=True)[:, :4]).all()
    assert (first[:, :4] == regions([5, 9, 5], Augment(1, 2), crop=0.5, flip=False)[:, :4]).all()
    draws = (Augment(1, 2), Augment(1, 3), Augment(2, 2))
    mirrored = [regions(range(40), each, crop=1.0, flip=True)[:, 4].tolist() for each in draws]
    assert mirrored[1] != mirrored[0] != mirrored[2]


def test_without_crop_it_is_the_whole_image() -> None:
    shown = regions(range(50), Augment(1, 2), crop=1.0, flip=True)
    assert (shown[:, :4] == [0, 0, 1, 1]).all()
    assert (shown[:, 4] == regions(range(50), Augment(1, 2), crop=0.2, flip=True)[:, 4]).all()
    assert not regions(range(50), Augment(1, 2), crop=1.0, flip=False)[:, 4].any()


@pytest.mark.parametrize("decoder", ["pillow", "torchvision"])
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_what_is_loaded_is_the_part_of_the_original_pixels(picture, decoder, interpolation) -> None:
    path = picture("a.png", (90, 70))
    images = files([path] * 8, flip=True, decoder=decoder, interpolation=interpolation)
    shown = images.regions(range(8), Augment(0, 1))
    batch = images.fetch(range(8), Augment(0, 1))
    with Image.open(path) as whole:
        for (left, top, right, bottom, mirrored), pixels in zip(shown.tolist(), batch, strict=True):
            box = (90 * left, 70 * top, 90 * right, 70 * bottom)
            method = Image.Resampling[interpolation.upper()]
            expected = torch.from_numpy(np.array(whole.resize((24, 24), method, box))).permute(2, 0, 1)
            assert pixels.equal(expected.flip(2) if mirrored else expected)
    assert 0 < shown[:, 4].sum() < 8
    plain = ImageFiles([path] * 8, [""] * 8, size=24, interpolation=interpolation, decoder=decoder)
    assert images.fetch(range(8)).equal(plain.fetch(range(8)))  # outside of training nothing is cut out


def test_parts_are_those_of_the_upright_image(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)
    turned = Image.Exif()
    turned[0x0112] = 6
    Image.fromarray(pixels).save(tmp_path / "turned.png", exif=turned)
    Image.fromarray(np.rot90(pixels, -1)).save(tmp_path / "upright.png")
    views = [files([tmp_path / name]).fetch([0], Augment(4, 4)) for name in ("turned.png", "upright.png")]
    assert views[0].equal(views[1])


def test_a_draft_keeps_twice_the_pixels_of_the_part(tmp_path: Path) -> None:
    path, factors = tmp_path / "a.jpg", set()
    noise = np.random.default_rng(0).integers(0, 256, (800, 800, 3), np.uint8)
    Image.fromarray(noise).save(path)
    images = files([path], crop=0.02, draft=True)
    for epoch in range(20):
        (shown,) = images.regions([0], Augment(0, epoch)).tolist()
        side = 800 * min(shown[2] - shown[0], shown[3] - shown[1])
        factor = max(each for each in (1, 2, 4, 8) if side / each >= 48)
        with Image.open(path) as image:
            image.draft(None, (800 // factor, 800 // factor))
            assert image.size == (800 // factor, 800 // factor)
            box = tuple(share * 800 / factor for share in shown[:4])
            expected = np.array(image.resize((24, 24), Image.Resampling.BILINEAR, box))
        assert images.fetch([0], Augment(0, epoch))[0].equal(torch.from_numpy(expected).permute(2, 0, 1))
        factors.add(factor)
    assert len(factors) > 1


def test_further_views_start_from_the_same_part(picture) -> None:
    images = files([picture(f"{row}.png", (60, 50)) for row in range(6)], flip=True)
    rows, augment = [3, 0, 5], Augment(3, 5)
    further = [augment._replace(view=1), augment._replace(view=2, strength="strong")]
    views = images.fetch_views(rows, augment, further)
    part = images.load(rows, boxes=images.regions(rows, augment)).values.numpy()
    for each, view in zip(further, views[1:], strict=True):
        assert view.equal(torch.from_numpy(image_views(part, rows, each, flip=True)))
        assert view.equal(images.fetch(rows, each))
    assert views[0].equal(images.fetch(rows, augment))


def test_batches_say_which_part_they_show_to_those_who_ask(picture) -> None:
    images = files([picture(f"{row}.png") for row in range(6)], flip=True)
    samples = Samples(tuple("abcdef"), images, ObservedLabels.from_index(np.arange(6), 6))
    batches = EpochBatches(6, 4, seed=1)
    batches.epoch = 3
    asked = list(make_loader(samples, batches, 9, 1, False, regions=True))
    for inputs, _, batch in asked:
        shown = images.regions(batch.index.tolist(), Augment(9, 3))
        assert batch.regions.equal(torch.from_numpy(shown))
        assert inputs.equal(images.fetch(batch.index.tolist(), Augment(9, 3)))
    for inputs, _, batch in make_loader(samples, batches, 9, 0, False):
        assert batch.regions is None
        assert any(inputs.equal(other) for other, _, _ in asked)
