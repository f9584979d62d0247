"""Resizing by tensor operations gives the pixels of Pillow, rows first."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from spml.data.images.decoding import INTERPOLATIONS, resized
from spml.export.resize import PillowResize

SHAPES = [
    (40, 40),  # unchanged
    (40, 71),  # only rows
    (71, 40),  # only columns
    (23, 17),  # grows
    (300, 200),
    (200, 300),
    (500, 90),  # columns shrink much more than rows
    (90, 500),
    (21, 300),
    (300, 21),
    (1, 1),
    (1, 90),
    (448, 448),
]


def by_pillow(image, size, interpolation):
    return np.asarray(resized(Image.fromarray(image), size, interpolation))


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("size", [40, 96])
def test_pixels_are_those_of_pillow(interpolation, size):
    rng = np.random.default_rng(0)
    resize = PillowResize(size, interpolation)
    shapes = [*SHAPES, *rng.integers(1, 400, (12, 2)).tolist()]
    for height, width in shapes:
        image = rng.integers(0, 256, (height, width, 3), np.uint8)
        small = resize(torch.from_numpy(image)[None])[0].permute(1, 2, 0)
        expected = by_pillow(image, size, interpolation)
        np.testing.assert_array_equal(small, expected, f"{height} x {width}")
        if height <= width:  # all versions of Pillow begin with the rows
            at_once = Image.fromarray(image).resize((size, size), INTERPOLATIONS[interpolation])
            np.testing.assert_array_equal(at_once, expected, f"{height} x {width}")


def test_extremes_are_clipped_as_by_pillow():
    """Bicubic and Lanczos overshoot at the edges of black and white."""
    image = np.kron(np.random.default_rng(0).integers(0, 2, (9, 13)), np.ones((7, 5)))
    image = np.repeat(255 * image[..., None], 3, 2).astype(np.uint8)
    for interpolation in ("bicubic", "lanczos"):
        small = PillowResize(50, interpolation)(torch.from_numpy(image)[None])[0].permute(1, 2, 0)
        np.testing.assert_array_equal(small, by_pillow(image, 50, interpolation))


def test_the_images_of_a_batch_do_not_mix():
    images = np.random.default_rng(0).integers(0, 256, (3, 57, 44, 3), np.uint8)
    batch = PillowResize(32, "bilinear")(torch.from_numpy(images))
    assert batch.shape == (3, 3, 32, 32)
    for image, small in zip(images, batch, strict=True):
        np.testing.assert_array_equal(small.permute(1, 2, 0), by_pillow(image, 32, "bilinear"))
