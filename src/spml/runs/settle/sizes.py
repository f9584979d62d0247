"""Sizes of images that an auto head may use on a frozen network, from those of the photographs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ... import models
from ...common.phrases import counted
from ...data import Opening
from ...data.images.image_files import image_sides

_STRIDE = 32
_FACTORS = 1.4, 2
_LARGEST = 1.15
"""Largest size as a share of the longer side of photographs, and least ratio of neighbouring sizes."""

_SOME = 200  # photographs whose headers are read
_SMALL = 32  # pixels of the longer side below which photographs say little
_SPREAD = 4  # ratio of long to short photographs from which one size hardly suits all


def candidate_sizes(own: int, longer_side: float) -> tuple[int, ...]:
    """Sizes to choose from, ascending: the network's own, 1.4 and 2 times it in multiples of 32 pixels, but
    no larger than about the longer side of the photographs, and each clearly larger than the one before.

    Example:
        >>> candidate_sizes(224, 341), candidate_sizes(224, 320), candidate_sizes(224, 128)
        ((224, 320, 384), (224, 320), (224,))
    """
    largest, sizes = int(_LARGEST * longer_side) // _STRIDE * _STRIDE, [own]
    for factor in _FACTORS:
        size = min(math.ceil(factor * own / _STRIDE) * _STRIDE, largest, models.LARGEST_SIZE)
        if size >= _LARGEST * sizes[-1]:
            sizes.append(size)
    return tuple(sizes)


def sizes_for(opening: Opening, own: int) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Sizes to choose from for photographs in files, and remarks on them."""
    files = opening.records.inputs
    if not isinstance(files, Sequence):
        return (own,), ()
    chosen = np.unique(np.linspace(0, len(files) - 1, min(len(files), _SOME)).astype(np.int64))
    sides = image_sides([files[row] for row in chosen.tolist()], opening.config.max_pixels)
    if not sides:
        return (own,), ()
    low, median, high = np.quantile([max(each) for each in sides], (0.1, 0.5, 0.9))
    notes = []
    if median < _SMALL:
        notes.append(
            f"half of the photographs have less than {_SMALL} pixels on the longer side (median {median:g}) "
            f"and are enlarged to {own}, the size of the network: use larger originals if you have them"
        )
    elif high > _SPREAD * low:
        notes.append(
            f"photographs differ much in size (longer side {low:g} to {high:g} pixels in the middle four "
            f"fifths of {counted(len(sides), 'photograph')}): sizes are chosen by the median, {median:g}"
        )
    return candidate_sizes(own, float(median)), tuple(notes)
