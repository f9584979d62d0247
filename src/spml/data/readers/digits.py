"""Embedded data: scenes of several handwritten digits, composed in memory. Their labels are the digits."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ...common.draws import permutation, raw
from ...labels import ObservedLabels
from ..matrix import ImageArray
from ..records import Records

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SIDES = range(10, 19)  # pixels to which a source digit of 8 x 8 pixels is enlarged
COUNTS = (1,) * 3 + (2,) * 7 + (3,) * 6 + (4,) * 3 + (5,)  # digits per scene, each equally likely; mean 2.6
POSITIONS = 8  # positions tried for a digit before it may overlap others
OVERLAP = 6  # a digit may share at most 1 / OVERLAP of its square with earlier digits

UInt8 = npt.NDArray[np.uint8]


@lru_cache(maxsize=1)
def make_digits(
    n_train: int = 4000, n_val: int = 1000, n_test: int = 1000, *, size: int = 40, seed: int = 0
) -> Records:
    """Compose grey scenes from the 1,797 real handwritten digits that come with scikit-learn.

    One to five digits (2.6 on average), 10 to 18 pixels wide, lie at random positions with little overlap on
    a noisy background of random brightness. The scenes, uint8 (N, 1, size, size) with a size of at least 18,
    are fully labelled. Training, validation and test scenes use different source images (60, 20 and 20 % of
    every digit). The same seed gives the same pixels on every platform, as all arithmetic is on integers. The
    last result is cached.
    """
    from sklearn.datasets import load_digits

    source = load_digits()
    enlarged = [_enlarge(source.images.astype(np.int64), side) for side in SIDES]
    pools = _pools(source.target, seed)
    counts = {"train": n_train, "val": n_val, "test": n_test}
    splits = [_scenes(name, n, size, seed, enlarged, pools[name]) for name, n in counts.items()]
    return Records(
        source="digits",
        name="digits",
        ids=tuple(f"{name}/{row}" for name, n in counts.items() for row in range(n)),
        inputs=ImageArray(np.concatenate([pixels for pixels, _ in splits])),
        classes=NAMES,
        classes_given=True,
        labels=ObservedLabels.from_multi_hot(
            np.concatenate([present for _, present in splits]), unlisted="negative"
        ),
        split=tuple(name for name, n in counts.items() for _ in range(n)),
    )


def _enlarge(digits: npt.NDArray[np.int64], side: int) -> UInt8:
    """Enlarge digits with values 0 ... 16 from (M, 8, 8) to uint8 (M, side, side), bilinearly."""
    centre = (2 * np.arange(side) + 1) * 8 - side  # position between source pixels, in units of 1 / (2 side)
    low = centre // (2 * side)
    # Weights in 64ths keep everything an integer.
    part = (64 * (centre - 2 * side * low) + side) // (2 * side)
    weights = np.zeros((side, 8), np.int64)
    rows = np.arange(side)
    np.add.at(weights, (rows, np.clip(low, 0, 7)), 64 - part)
    np.add.at(weights, (rows, np.clip(low + 1, 0, 7)), part)
    # These products are exact in float64, and much faster than with integers.
    exact = weights.astype(np.float64)
    large = (exact @ digits.astype(np.float64) @ exact.T).astype(np.int64)
    return np.asarray(large * 255 // (64 * 64 * 16), np.uint8)


def _pools(target: npt.NDArray[np.int64], seed: int) -> dict[str, list[npt.NDArray[np.int64]]]:
    """Source images of each digit that each split may use."""
    pools: dict[str, list[npt.NDArray[np.int64]]] = {"train": [], "val": [], "test": []}
    for digit in range(10):
        images = np.flatnonzero(target == digit)
        images = images[permutation(len(images), "digits", seed, "pool", digit)]
        first, second = len(images) * 3 // 5, len(images) * 4 // 5
        for name, part in zip(pools, np.split(images, [first, second]), strict=True):
            pools[name].append(part)
    return pools


def _scenes(
    split: str, count: int, size: int, seed: int, enlarged: list[UInt8], pool: list[npt.NDArray[np.int64]]
) -> tuple[UInt8, UInt8]:
    """Compose scenes, uint8 (count, 1, size, size), and their labels, uint8 (count, 10)."""

    def draw(what: str, *shape: int) -> npt.NDArray[np.int64]:
        bits = raw(int(np.prod((count, *shape))), "digits", seed, split, what)
        return np.asarray(bits >> np.uint64(32), np.int64).reshape(count, *shape)

    limit = max(COUNTS)
    number = np.array(COUNTS)[draw("number") % len(COUNTS)].tolist()
    digit = (draw("digit", limit) % 10).tolist()
    image, side = draw("image", limit).tolist(), (draw("side", limit) % len(SIDES)).tolist()
    ink = (128 + draw("ink", limit) % 128).tolist()  # in 256ths of full contrast
    positions = draw("place", limit, POSITIONS, 2)  # as lists, they would keep the garbage collector busy
    scenes = np.zeros((count, size, size), np.uint8)
    present = np.zeros((count, 10), np.uint8)
    for row in range(count):
        boxes: list[tuple[int, int, int]] = []
        for k in range(number[row]):
            width = SIDES[side[row][k]]
            box = _place(positions[row, k].tolist(), width, size, boxes)
            boxes.append(box)
            chosen = pool[digit[row][k]]
            picture = enlarged[side[row][k]][chosen[image[row][k] % len(chosen)]]
            x, y, _ = box
            window = scenes[row, y : y + width, x : x + width]
            np.maximum(window, (picture.astype(np.uint16) * ink[row][k] >> 8).astype(np.uint8), out=window)
            present[row, digit[row][k]] = 1
    paper, rough = draw("paper", 1, 1) % 64, draw("rough", 1, 1) % 32
    noise = raw(-(-scenes.size // 4), "digits", seed, split, "noise").astype("<u8").view("<u2")[: scenes.size]
    grain = noise.reshape(scenes.shape).astype(np.int64)
    grain = (grain >> 8) + (grain & 255) - 255  # sum of two uniform numbers, -255 ... 255
    pixels = paper + scenes * (255 - paper) // 255 + (grain * rough >> 8)
    return np.clip(pixels, 0, 255).astype(np.uint8)[:, None], present


def _place(
    candidates: list[list[int]], width: int, size: int, boxes: list[tuple[int, int, int]]
) -> tuple[int, int, int]:
    """First candidate (x, y, width) that overlaps boxes little, or else the one that overlaps them least."""
    best, least = (0, 0, width), size * size + 1
    for u, v in candidates:
        x, y = u % (size - width + 1), v % (size - width + 1)
        shared = 0
        for left, top, other in boxes:
            across = min(x + width, left + other) - max(x, left)
            down = min(y + width, top + other) - max(y, top)
            shared += max(0, across) * max(0, down)
        if shared * OVERLAP <= width * width:
            return x, y, width
        if shared < least:
            best, least = (x, y, width), shared
    return best
