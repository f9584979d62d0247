"""A search for true labels through all that an object holds.

The search goes through containers, arrays, tensors and objects of this package. It does not go into
functions: whoever takes the engine apart through closures and frames finds what runs beside it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import torch
from scipy.sparse import issparse
from torch import nn

from spml.labels import ObservedLabels

CONTAINERS = (dict, list, tuple, set, frozenset)


def reachable(start):
    """Everything that can be reached from an object."""
    seen, waiting = {}, [start]
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, type):
            continue
        seen[id(thing)] = thing
        if isinstance(thing, np.ndarray):
            waiting += [thing.base, *(thing.flat if thing.dtype == object else ())]
        elif isinstance(thing, torch.Tensor):
            waiting += [thing.__dict__, thing.grad if thing.is_leaf else None]
        elif (
            isinstance(thing, (*CONTAINERS, nn.Module))
            or issparse(thing)
            or type(thing).__module__.startswith(("spml", "tests"))
        ):
            waiting += gc.get_referents(thing)
    return seen.values()


def arrays(thing) -> Iterator[np.ndarray]:
    """An object as numbers, if it can be understood as such."""
    if isinstance(thing, torch.Tensor):
        # What a view leaves out is still there.
        whole = torch.empty(0, dtype=thing.dtype).set_(thing.detach().untyped_storage())
        yield from (thing.detach().numpy(), whole.numpy())
    elif issparse(thing):
        yield thing.toarray()
    elif isinstance(thing, ObservedLabels):
        yield thing.to_ternary()
    elif isinstance(thing, (bytes, bytearray)):
        yield np.frombuffer(thing, np.uint8)
    elif isinstance(thing, (np.ndarray, list, tuple)):
        try:
            yield np.asarray(thing)
        except (ValueError, RuntimeError):  # rows of different lengths
            return
    elif isinstance(thing, (set, frozenset)) and all(isinstance(entry, (int, tuple)) for entry in thing):
        yield np.asarray(sorted(thing))


def tells(array: np.ndarray, truth: np.ndarray) -> bool:
    """Whether an array holds the true labels: as a matrix, somewhere in it, or as places of the positives."""
    if array.dtype.kind not in "biuf":
        return False
    rows, columns = np.nonzero(truth)
    for places in (columns, np.flatnonzero(truth)):
        if array.ndim == 1 and places.astype(float).tobytes() in array.astype(float).tobytes():
            return True
    if array.ndim == 2 and array.shape[1] == 2 and np.array_equal(array, np.stack([rows, columns], 1)):
        return True
    positive = array > 0
    shapes = [positive.ravel()]
    if positive.ndim == 2:
        for matrix in (positive, positive.T):
            shapes += [matrix[:, c : c + truth.shape[1]] for c in range(matrix.shape[1] - truth.shape[1] + 1)]
    return any(truth.tobytes() in np.ascontiguousarray(shape).tobytes() for shape in shapes)


def leaks(start, truths) -> list[object]:
    """Everything that reveals the true labels of a split."""
    return [
        thing
        for thing in reachable(start)
        if any(tells(array, truth) for array in arrays(thing) for truth in truths)
    ]
