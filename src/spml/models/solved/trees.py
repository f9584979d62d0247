"""Growth of the forest of the auto head, by scikit-learn."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from ...common.draws import raw
from . import moments
from .forest import DEEPEST, KEPT, Forest, ForestSettings
from .moments import IntArray
from .spaces import Pool, Rows

TREES, MORE_TREES = 100, 300
"""Trees of a forest, and where members are selected by cross-validation, so that samples are few."""

_LEAST_SAMPLES = 2  # of a leaf

MOST_SAMPLES = 20_000
"""Largest number of samples for which a forest is grown. It takes 2 to 4 kB of memory for each."""

MOST_VALUES = 1 << 27
"""Largest samples x features for which a forest is grown: 512 MiB of float32."""

MOST_WORK = 1 << 28
"""Largest samples x sqrt(features) x (classes + 100) for which a forest is grown, in about half a minute."""


def affordable(pool: Pool, report: Callable[[str], None]) -> bool:
    """Whether a forest fits into bearable memory and time; `report` is called with a line if it does not."""
    samples, features, classes = len(pool), pool.width, pool.columns.classes
    large = samples > MOST_SAMPLES or samples * features > MOST_VALUES or classes > moments.MANY_CLASSES
    if not large and samples * math.isqrt(features) * (classes + 100) <= MOST_WORK:
        return True
    report(
        f"auto head: without a forest, because that of {samples:,} samples with {features:,} features and "
        f"{classes:,} classes would take too much {'memory' if large else 'time'}"
    )
    return False


def grow_on(pool: Pool, rows: Rows, seed: int, trees: int) -> Forest:
    """Grow a forest on some of the samples; one with several known positives counts as several samples."""
    positions, classes = pool.positives(rows)
    features = torch.cat([pool.features(batch) for batch in pool.batches(rows)]).numpy()
    return grow(features[positions], classes, len(pool.columns), seed, trees)


class _Tree(NamedTuple):
    """Arrays of one tree, as in `Forest`, with `KEPT` classes of each leaf."""

    depth: int
    feature: IntArray
    threshold: npt.NDArray[np.float32]
    right: IntArray
    leaf: IntArray
    classes: npt.NDArray[np.int16]
    shares: npt.NDArray[np.float32]


def grow(
    features: npt.NDArray[np.float32], labels: IntArray, num_classes: int, seed: int, trees: int = TREES
) -> Forest:
    """Grow a forest.

    Each node draws sqrt(D) features and a threshold of each at random, and takes the one that tells the
    classes apart best. Every tree sees all samples; leaves have at least two.

    Args:
        features: Features, float32 (N, D).
        labels: Class of each sample, int64 (N,). A sample with several classes has several rows.
        num_classes: Number of classes C.
        seed: Seed.
        trees: Number of trees.

    Source:
        Geurts, Ernst, Wehenkel. Extremely Randomized Trees. Machine Learning 2006.
    """
    from sklearn import config_context

    features = np.ascontiguousarray(features, np.float32)
    seeds = (raw(trees, "forest", seed) >> np.uint64(32)).tolist()
    with config_context(skip_parameter_validation=True):  # ours are the same for each tree
        grown = [_grow_tree(features, labels, number) for number in seeds]
    nodes = np.cumsum([0, *(len(tree.feature) for tree in grown)])
    leaves = np.cumsum([0, *(len(tree.shares) for tree in grown)])
    classes, shares = (np.concatenate(each) for each in zip(*(tree[-2:] for tree in grown), strict=True))
    kept = int(np.count_nonzero(shares, 1).max())
    depth = max(tree.depth for tree in grown)
    settings = ForestSettings(trees, depth, int(nodes[-1]), int(leaves[-1]), kept)
    forest = Forest(features.shape[1], num_classes, settings)
    arrays = {
        "root": nodes[:-1],
        "feature": np.concatenate([tree.feature for tree in grown]),
        "threshold": np.concatenate([tree.threshold for tree in grown]),
        "right": np.concatenate([tree.right + first for tree, first in zip(grown, nodes, strict=False)]),
        "leaf": np.concatenate([tree.leaf + first for tree, first in zip(grown, leaves, strict=False)]),
        "classes": classes[:, :kept],
        "shares": shares[:, :kept],
    }
    for name, buffer in forest.named_buffers():
        buffer.copy_(torch.from_numpy(arrays[name]))
    return forest


def _grow_tree(features: npt.NDArray[np.float32], labels: IntArray, seed: int) -> _Tree:
    from sklearn.tree import ExtraTreeClassifier

    model = ExtraTreeClassifier(min_samples_leaf=_LEAST_SAMPLES, max_depth=DEEPEST, random_state=seed)
    grown = model.fit(features, labels, check_input=False).tree_
    is_leaf, nodes = grown.children_left < 0, np.arange(grown.node_count)
    assert (grown.children_left[~is_leaf] == nodes[~is_leaf] + 1).all()  # trees are grown depth first
    # scikit-learn compares float32 with float64: the same as with the largest float32 that is not above it.
    threshold = grown.threshold.astype(np.float32)
    threshold = np.where(threshold > grown.threshold, np.nextafter(threshold, np.float32(-np.inf)), threshold)
    of_leaves = grown.value[is_leaf, 0]
    leaf, column = np.nonzero(of_leaves)
    share = of_leaves[leaf, column]
    order = np.lexsort((-share, leaf))  # stable: of equal shares the first class comes first
    rank = np.arange(len(leaf)) - np.flatnonzero(np.diff(leaf, prepend=-1))[leaf]
    order, rank, leaf = order[rank < KEPT], rank[rank < KEPT], leaf[rank < KEPT]
    classes, shares = np.zeros((2, len(of_leaves), KEPT))
    classes[leaf, rank], shares[leaf, rank] = model.classes_[column[order]], share[order]
    return _Tree(
        depth=int(grown.max_depth),
        feature=np.where(is_leaf, 0, grown.feature),
        threshold=np.where(is_leaf, -np.inf, threshold).astype(np.float32),
        right=np.where(is_leaf, nodes, grown.children_right),
        leaf=np.where(is_leaf, np.cumsum(is_leaf) - 1, 0),
        classes=classes.astype(np.int16),
        shares=shares.astype(np.float32),
    )
