"""Further views of samples: random changes that keep what a sample shows.

Each change depends on nothing but (seed, epoch, row, view): the order of a batch, its neighbours and the
process that loads it make no difference. Strength is no part of the key, so that a weak and a strong view of
the same number share their flip, and the weak one's corrupted features are among the strong one's.

Sources:
    Weak images: Sohn et al., "FixMatch: Simplifying Semi-Supervised Learning with Consistency and
    Confidence", NeurIPS 2020.
    Strong images: Cubuk et al., "RandAugment: Practical Automated Data Augmentation with a Reduced Search
    Space", NeurIPS 2020; DeVries and Taylor, "Improved Regularization of Convolutional Neural Networks with
    Cutout", arXiv:1708.04552, 2017.
    Features: Bahri et al., "SCARF: Self-Supervised Contrastive Learning using Random Feature Corruption",
    ICLR 2022; Somepalli et al., "SAINT: Improved Neural Networks for Tabular Data via Row Attention and
    Contrastive Pre-Training", arXiv:2106.01342, 2021.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from .dataset import Augment, Rows
from .draws import of_rows, raw

REACH = 8  # a weak view is shifted by up to 1 / REACH of each side
GREY = 127  # what Cutout leaves
CORRUPTED = {"weak": 0.1, "strong": 0.4}  # probability that a feature is replaced

UInt8 = npt.NDArray[np.uint8]
Float32 = npt.NDArray[np.float32]


def image_views(pixels: UInt8, rows: Rows, augment: Augment, *, flip: bool) -> UInt8:
    """Views of a batch of images, of the same shape.

    Weak: a flip and a shift of up to an eighth of each side with edge pixels repeated (FixMatch reflects
    instead). Strong: a flip, RandAugment (two operations of magnitude 9 of 30) and Cutout.

    Args:
        pixels: the images as they are, (B, C, H, W) with one or three channels.
        rows: which samples they are.
        augment: which view is wanted; `view` is not 0.
        flip: mirror half of the views at random.
    """
    views = np.empty_like(pixels)
    draws = [raw(4, "view", augment.seed, augment.epoch, row, augment.view).tolist() for row in rows]
    height, width = pixels.shape[2:]
    if augment.strength == "strong":
        operations = _rand_augment()
        # RandAugment draws from torch's global state: it is seeded for each image, and set back at the end.
        # torch.manual_seed would also seed the accelerators, which no scope over the CPU's state undoes.
        with torch.random.fork_rng(devices=[]):
            for place, (mirror, seed, y, x) in enumerate(draws):
                torch.default_generator.manual_seed(seed)
                view = operations(_flipped(pixels[place], mirror, flip))
                views[place] = cut_out(view, y % height, x % width)
        return views
    for place, (mirror, _, y, x) in enumerate(draws):
        down, right = (
            drawn % (2 * (side // REACH) + 1) - side // REACH for drawn, side in ((y, height), (x, width))
        )
        views[place] = _flipped(shifted(pixels[place], down, right), mirror, flip)
    return views


def shifted(pixels: UInt8, down: int, right: int) -> UInt8:
    """An image (C, H, W) whose content is moved by some pixels; what is left open repeats the edge."""
    height, width = pixels.shape[1:]
    before, after = (max(down, 0), max(right, 0)), (max(-down, 0), max(-right, 0))
    wide = np.pad(pixels, ((0, 0), *zip(before, after, strict=True)), mode="edge")
    return wide[:, after[0] : after[0] + height, after[1] : after[1] + width]


def cut_out(pixels: UInt8, y: int, x: int) -> UInt8:
    """A copy of an image (C, H, W) with a grey square around row y and column x.

    The square is half as wide as the image's shorter side. Its middle may be any pixel, so that part of it
    may lie outside, as in the paper: between about a sixteenth and a quarter of a square image is hidden.
    """
    side = min(pixels.shape[1:]) // 2
    top, left = y - side // 2, x - side // 2
    hidden: UInt8 = pixels.copy()
    hidden[:, max(0, top) : top + side, max(0, left) : left + side] = GREY
    return hidden


def partners(rows: Rows, count: int, augment: Augment) -> npt.NDArray[np.int64]:
    """For each row another one of `count` rows, each equally likely; the row itself if there is no other."""
    drawn = of_rows(rows, 1, "partner", augment.seed, augment.epoch, augment.view)[:, 0]
    steps = (drawn % np.uint64(max(1, count - 1))).astype(np.int64)
    found: npt.NDArray[np.int64] = (np.asarray(rows, np.int64) + 1 + steps) % count
    return found


def feature_views(features: Float32, other: Float32, rows: Rows, augment: Augment) -> Float32:
    """Views of feature vectors (B, D): each feature is replaced by the partner's with probability 0.1 (weak)
    or 0.4 (strong), rounded to a multiple of 2^-16, independently of the others. Free of scale, and a zero
    stays what a zero of the data is.

    SCARF draws every replaced value from another sample, which takes B x D scattered reads of a memory map.
    Here all replaced values of a sample come from one partner, as in SAINT: two rows are read per sample, and
    values that depend on each other are more often replaced together.

    Args:
        features: of the samples.
        other: of their `partners`.
        rows: which samples they are.
        augment: which view is wanted; `view` is not 0.
    """
    width = features.shape[1]
    # A sixteen-bit number for each feature: four in an integer, the lowest first.
    drawn = of_rows(rows, -(-width // 4), "corrupt", augment.seed, augment.epoch, augment.view)
    below = round(CORRUPTED[augment.strength] * 2**16)
    replaced = drawn.astype("<u8", copy=False).view("<u2")[:, :width] < below
    # Chosen by arithmetic on the bits, which is ten times as fast: no processor foresees random branches.
    own = features.view(np.uint32)
    bits = own ^ other.view(np.uint32)
    bits *= replaced
    bits ^= own
    return bits.view(np.float32)


def _flipped(pixels: UInt8, drawn: int, flip: bool) -> UInt8:
    return pixels[:, :, ::-1] if flip and drawn >> 63 else pixels


def _rand_augment() -> Callable[[UInt8], UInt8]:
    """RandAugment of an image (C, H, W), which draws from torch's global random state."""
    from torchvision.transforms import v2

    randomly = v2.RandAugment(num_ops=2, magnitude=9, num_magnitude_bins=31)

    def change(pixels: UInt8) -> UInt8:
        # Pillow is up to 2.6 times as fast as the same operations on tensors. Every operation takes a grey
        # image; the change of colour leaves it as it is.
        grey = len(pixels) == 1
        image = randomly(Image.fromarray(pixels[0] if grey else pixels.transpose(1, 2, 0)))
        changed = np.asarray(image)
        return changed[None] if grey else changed.transpose(2, 0, 1)

    return change
