"""A forest of decision trees as a network, grown by scikit-learn."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ...common.draws import raw

FOREST: Final = "forest"
KEPT = 8
"""Largest number of classes that are kept of a leaf. It has few samples, unless their features are equal."""

DEEPEST = 64
"""Largest depth of a tree. Outliers could split off a pair of samples at each level."""

SMALLEST_SPREAD = 0.005
"""Smallest deviation of the scores of a class by which they are divided. Where hardly any leaf knows a class,
held-out samples may all have the score 0, and new ones not."""

TREES, MORE_TREES = 100, 300
"""Trees of a forest, and where members are selected by cross-validation, so that samples are few."""

_LEAST_SAMPLES = 2  # of a leaf
_ENTRIES = 1 << 22  # shares that are added up at a time
_Count = Annotated[int, msgspec.Meta(ge=1)]
_IntArray = npt.NDArray[np.int64]


class ForestSettings(msgspec.Struct, forbid_unknown_fields=True):
    """Sizes of a `Forest`, as in model.json.

    Attributes:
        trees: Number of trees T.
        depth: Depth of the deepest tree.
        nodes: Number of nodes of all trees, leaves included.
        leaves: Number of leaves of all trees.
        kept: Number of classes that are kept of each leaf.
    """

    trees: _Count
    depth: Annotated[int, msgspec.Meta(ge=0, le=DEEPEST)]
    nodes: _Count
    leaves: _Count
    kept: Annotated[int, msgspec.Meta(ge=1, le=KEPT)]


class Forest(nn.Module):
    """Mean over trees of the shares of the classes in the leaf that a sample falls into.

    Every sample takes `depth` steps down each tree: from node n to n + 1 if its feature is at most the
    threshold, otherwise to `right[n]`. A leaf leads to itself. There is no loop that depends on the data, so
    that the module can be exported.

    Args:
        num_features: Number of features D.
        num_classes: Number of classes C.
        settings: Sizes.

    Attributes:
        root: First node of each tree, int32 (T,).
        feature: Feature that a node compares, int32 (nodes,); 0 for a leaf.
        threshold: What it compares with, float32 (nodes,); -infinity for a leaf.
        right: Next node of larger values, int32 (nodes,); the leaf itself for a leaf.
        leaf: Number of the leaf, int32 (nodes,); that of any leaf for other nodes.
        classes: The classes of largest share of each leaf, int16 (leaves, kept).
        shares: Their shares, float32 (leaves, kept); 0 where there are fewer.
    """

    root: Tensor
    feature: Tensor
    threshold: Tensor
    right: Tensor
    leaf: Tensor
    classes: Tensor
    shares: Tensor

    def __init__(self, num_features: int, num_classes: int, settings: ForestSettings) -> None:
        super().__init__()
        self.num_features, self.num_classes, self.settings = num_features, num_classes, settings
        nodes, leaves = (settings.nodes,), (settings.leaves, settings.kept)
        self.register_buffer("root", torch.zeros(settings.trees, dtype=torch.int32))
        for name in ("feature", "right", "leaf"):
            self.register_buffer(name, torch.zeros(nodes, dtype=torch.int32))
        self.register_buffer("threshold", torch.zeros(nodes))
        self.register_buffer("classes", torch.zeros(leaves, dtype=torch.int16))
        self.register_buffer("shares", torch.zeros(leaves))

    def forward(self, features: Tensor) -> Tensor:
        """Return the mean shares (B, C) for features (B, D)."""
        if torch.compiler.is_compiling():  # an exported batch has any size
            return self._mean(features)
        rows = max(1, _ENTRIES // (self.settings.trees * self.settings.kept))
        return torch.cat([self._mean(part) for part in torch.split(features, rows)])

    def leaves(self, features: Tensor) -> Tensor:
        """Return the leaf of each tree that samples fall into, int64 (B, T)."""
        nodes = self.root.long().expand(features.shape[0], -1)
        for _ in range(self.settings.depth):
            values = features.gather(1, self.feature[nodes].long())
            nodes = torch.where(values <= self.threshold[nodes], nodes + 1, self.right[nodes].long())
        return self.leaf[nodes].long()

    def _mean(self, features: Tensor) -> Tensor:
        leaves = self.leaves(features)
        total = features.new_zeros(features.shape[0], self.num_classes)
        total = total.scatter_add(1, self.classes[leaves].flatten(1).long(), self.shares[leaves].flatten(1))
        return total / self.settings.trees

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        limits = {
            "root": self.settings.nodes,
            "feature": self.num_features,
            "right": self.settings.nodes,
            "leaf": self.settings.leaves,
            "classes": self.num_classes,
        }
        for name, limit in limits.items():
            stored = state_dict.get(prefix + name)
            if stored is not None and not 0 <= int(stored.min()) <= int(stored.max()) < limit:
                raise ValueError(f"{prefix}{name} names what does not exist")
        super()._load_from_state_dict(state_dict, prefix, *rest)


def grow(
    features: npt.NDArray[np.float32], labels: _IntArray, num_classes: int, seed: int, trees: int = TREES
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
    arrays = {name: np.concatenate([tree[name] for _, tree in grown]) for name in grown[0][1]}
    sizes, numbers = ([len(tree[name]) for _, tree in grown] for name in ("feature", "shares"))
    arrays["root"] = np.cumsum([0, *sizes[:-1]])
    arrays["right"] += np.repeat(arrays["root"], sizes)
    arrays["leaf"] += np.repeat(np.cumsum([0, *numbers[:-1]]), sizes)
    kept = int(np.count_nonzero(arrays["shares"], 1).max())
    for name in ("classes", "shares"):
        arrays[name] = arrays[name][:, :kept]
    settings = ForestSettings(trees, max(depth for depth, _ in grown), sum(sizes), sum(numbers), kept)
    forest = Forest(features.shape[1], num_classes, settings)
    for name, buffer in forest.named_buffers():
        buffer.copy_(torch.from_numpy(arrays[name]))
    return forest


def _grow_tree(
    features: npt.NDArray[np.float32], labels: _IntArray, seed: int
) -> tuple[int, dict[str, npt.NDArray[Any]]]:
    """Depth and arrays of one tree, as in `Forest`, with `KEPT` classes of each leaf."""
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
    return int(grown.max_depth), {
        "feature": np.where(is_leaf, 0, grown.feature),
        "threshold": np.where(is_leaf, -np.inf, threshold).astype(np.float32),
        "right": np.where(is_leaf, nodes, grown.children_right),
        "leaf": np.where(is_leaf, np.cumsum(is_leaf) - 1, 0),
        "classes": classes.astype(np.int16),
        "shares": shares.astype(np.float32),
    }
