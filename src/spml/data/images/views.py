"""Random parts of images, and further views of samples: random changes that preserve the content.

Each change depends only on (seed, epoch, row, view), not on the batch or on the process that loads it. The
strength is not part of the key: the weak and the strong view with the same number have the same flip, and the
features corrupted in the weak view are among those corrupted in the strong one.

Sources:
    Weak images: Sohn et al., "FixMatch: Simplifying Semi-Supervised Learning with Consistency and
    Confidence", NeurIPS 2020.
    Strong images: Cubuk et al., "RandAugment: Practical Automated Data Augmentation with a Reduced Search
    Space", NeurIPS 2020; DeVries and Taylor, "Improved Regularization of Convolutional Neural Networks with
    Cutout", arXiv:1708.04552, 2017.
    Parts: Szegedy et al., "Going Deeper with Convolutions", CVPR 2015, section 6.
    Features: Bahri et al., "SCARF: Self-Supervised Contrastive Learning using Random Feature Corruption",
    ICLR 2022; Somepalli et al., "SAINT: Improved Neural Networks for Tabular Data via Row Attention and
    Contrastive Pre-Training", arXiv:2106.01342, 2021.
"""

from __future__ import annotations

import math
from contextlib import nullcontext

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from ...common.draws import of_rows, raw, uniform
from ...common.torch_draws import borrowed_generators
from ..dataset import Augment, Rows

MOST_STRETCHED = 4 / 3  # ratio of the sides of a part to those of the image, or its inverse
REACH = 8  # weak views are shifted by up to 1 / REACH of each side
GREY = 127  # value of the square that Cutout fills
CORRUPTED = {"weak": 0.1, "strong": 0.4}  # probability that a feature is replaced

UInt8 = npt.NDArray[np.uint8]
Float32 = npt.NDArray[np.float32]


def regions(rows: Rows, augment: Augment, *, crop: float, flip: bool) -> Float32:
    """Part of each image that is shown in training, and whether it is mirrored, of shape (B, 5).

    Columns 0 to 3 are the left, top, right and bottom edge of the part as shares of width and height of the
    upright image, before it is mirrored; column 4 is 1 if it is mirrored afterwards, else 0. All views of a
    sample show the same part.

    The share of the area is uniform between `crop` and 1; the logarithm of the ratio of width to height,
    relative to that of the image, is uniform between those of 3/4 and 4/3 as far as such a part lies inside
    the image; so is its place. With a `crop` of 1 the part is the whole image.
    """
    shown = np.tile(np.array([0, 0, 1, 1, 0], np.float32), (len(rows), 1))
    for i, row in enumerate(rows):
        key = (augment.seed, augment.epoch, row)
        if flip:
            shown[i, 4] = raw(1, "flip", *key)[0] >> np.uint64(63)
        if crop < 1:
            area, ratio, left, top = uniform(4, "crop", *key).tolist()
            area = crop + (1 - crop) * area
            widest = min(math.log(MOST_STRETCHED), -math.log(area))
            stretched = math.exp((2 * ratio - 1) * widest)
            width, height = math.sqrt(area * stretched), math.sqrt(area / stretched)
            left, top = left * (1 - width), top * (1 - height)
            shown[i, :4] = left, top, left + width, top + height
    return shown.clip(0, 1)  # rounding may leave the image


def image_views(pixels: UInt8, rows: Rows, augment: Augment, *, flip: bool) -> UInt8:
    """Views of a batch of images, of the same shape.

    Weak: a flip and a shift of up to an eighth of each side with edge pixels repeated (FixMatch reflects
    instead). Strong: a flip, RandAugment (two operations of magnitude 9 of 30) and Cutout. Half of the views
    are mirrored if `flip` says so. The images (B, C, H, W) have one or three channels.
    """
    views = np.empty_like(pixels)
    grey, (height, width) = pixels.shape[1] == 1, pixels.shape[2:]
    if strong := augment.strength == "strong":
        from torchvision.transforms import v2

        rand_augment = v2.RandAugment(num_ops=2, magnitude=9, num_magnitude_bins=31)
    # RandAugment draws from torch's global random state, which is seeded for each image.
    with borrowed_generators() if strong else nullcontext():
        for i, row in enumerate(rows):
            mirror, seed, y, x = raw(4, "view", augment.seed, augment.epoch, row, augment.view).tolist()
            step = -1 if flip and mirror >> 63 else 1
            if strong:
                torch.default_generator.manual_seed(seed)
                # Pillow is up to 2.6 times as fast as the same operations on tensors. All operations accept a
                # grey image; those on colour leave it unchanged.
                flipped = pixels[i, :, :, ::step]
                image = Image.fromarray(flipped[0] if grey else flipped.transpose(1, 2, 0))
                view = np.asarray(rand_augment(image))
                views[i] = cut_out(view[None] if grey else view.transpose(2, 0, 1), y % height, x % width)
            else:
                down, right = (
                    drawn % (2 * (side // REACH) + 1) - side // REACH
                    for drawn, side in ((y, height), (x, width))
                )
                views[i] = shifted(pixels[i], down, right)[:, :, ::step]
    return views


def shifted(pixels: UInt8, down: int, right: int) -> UInt8:
    """Shift the content of an image (C, H, W) by some pixels; the uncovered border repeats the edge."""
    height, width = pixels.shape[1:]
    before, after = (max(down, 0), max(right, 0)), (max(-down, 0), max(-right, 0))
    padded = np.pad(pixels, ((0, 0), *zip(before, after, strict=True)), mode="edge")
    return padded[:, after[0] : after[0] + height, after[1] : after[1] + width]


def cut_out(pixels: UInt8, y: int, x: int) -> UInt8:
    """Copy an image (C, H, W) and fill a square around row y and column x with grey.

    The side of the square is half the shorter side of the image. Its centre may be any pixel, so that part of
    it may lie outside, as in the paper: about a sixteenth to a quarter of a square image is covered.
    """
    side = min(pixels.shape[1:]) // 2
    top, left = y - side // 2, x - side // 2
    covered: UInt8 = pixels.copy()
    covered[:, max(0, top) : top + side, max(0, left) : left + side] = GREY
    return covered


def partners(rows: Rows, count: int, augment: Augment) -> npt.NDArray[np.int64]:
    """Draw for each row another one of `count` rows, uniformly; the row itself if there is no other."""
    drawn = of_rows(rows, 1, "partner", augment.seed, augment.epoch, augment.view)[:, 0]
    steps = (drawn % np.uint64(max(1, count - 1))).astype(np.int64)
    others: npt.NDArray[np.int64] = (np.asarray(rows, np.int64) + 1 + steps) % count
    return others


def feature_views(features: Float32, other: Float32, rows: Rows, augment: Augment) -> Float32:
    """Views of feature vectors (B, D) in which some features are those of another sample.

    Each feature is replaced by the partner's with probability 0.1 (weak) or 0.4 (strong), rounded to a
    multiple of 2^-16, independently of the other features. The change needs no scale, and replaced values are
    values that occur in the data, zeros included.

    SCARF draws every replaced value from another sample, which takes B x D scattered reads of a memory map.
    Here all replaced values of a sample come from one partner, as in SAINT: two rows are read per sample, and
    values that depend on each other are more often replaced together. `other` are the features of the
    `partners`.
    """
    width = features.shape[1]
    # A 16-bit number for each feature: four per 64-bit integer, the lowest bits first.
    drawn = of_rows(rows, -(-width // 4), "corrupt", augment.seed, augment.epoch, augment.view)
    limit = round(CORRUPTED[augment.strength] * 2**16)
    replaced = drawn.astype("<u8", copy=False).view("<u2")[:, :width] < limit
    # Selection by bit operations is ten times as fast as np.where, because random branches are mispredicted.
    own = features.view(np.uint32)
    bits = own ^ other.view(np.uint32)
    bits *= replaced
    bits ^= own
    return bits.view(np.float32)
