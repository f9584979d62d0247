"""Graph of similar samples, and SMILE's network that infers soft labels on it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.distributions import Beta

from ..common.errors import InputError
from ..common.torch_draws import borrowed_generators
from ..losses import smile_vae_loss
from ..losses.smile import Divergence
from .base import Batch

MOST_PRODUCTS = 20_000_000_000_000
"""Largest N^2 Q for which the neighbours of N samples with Q features are searched: about a quarter of an
hour on a core."""

_NEIGHBOURS = 3
_BLOCK = 1 << 24  # distances that are computed at a time
_LEAST = 1e-5  # least parameter of a distribution that labels are drawn from


class GraphEnhancement(nn.Module):
    """Soft labels D of N samples, inferred from the features of similar samples, and what is decoded of them.

    Each sample has directed edges to its 3 nearest neighbours. With in- and out-degrees of at least 1, S =
    Din^-1/2 A^T Dout^-1/2, so that a sample collects from those that have it as a neighbour:
    H = relu(S x W1 + b1), D = sigmoid((S H W2 + b2) W3 + b3); all hidden layers have C units. The D of a
    sample that is nobody's neighbour is the same for all such samples.

    The features x do not change, so that S x is computed once, and D of a batch needs H of those samples
    alone that have one of the batch as a neighbour. No matrix of N x N is ever made.

    Args:
        width: Number of features Q.
        classes: Class names. Initial weights belong to names, so that the order of classes does not matter.
    """

    neighbours: Tensor
    collected: Tensor
    first: Tensor
    sources: Tensor
    order: Tensor

    def __init__(self, width: int, classes: Sequence[str]) -> None:
        super().__init__()
        count = len(classes)
        self.conv1, self.conv2 = nn.Linear(width, count), nn.Linear(count, count)
        for layer in (self.conv1, self.conv2):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        self.last = nn.Linear(count, count)
        self.code = _two_layers(width + count, count, count)
        self.decoder = _two_layers(2 * count, width, width)
        self.register_buffer("order", _by_name(classes), persistent=False)

    def set_features(self, features: Tensor) -> None:
        """Make the graph of the features (N, Q) of all samples. It is made again when a run is resumed."""
        neighbours = nearest(features, min(_NEIGHBOURS, len(features) - 1)).cpu()
        count, degree = neighbours.shape
        x, flat = features.cpu(), neighbours.flatten()
        into = torch.bincount(flat, minlength=count)
        collected = torch.zeros_like(x)
        for column in neighbours.T:  # all at once would copy the features three times
            collected.index_add_(0, column, x)
        scale = (into.clamp(min=1) * max(degree, 1)).to(x.dtype).rsqrt()
        graph = {
            "neighbours": neighbours,
            "collected": collected * scale[:, None],
            "first": torch.cat([torch.zeros_like(into[:1]), into.cumsum(0)]),
            "sources": flat.argsort(stable=True) // max(degree, 1),
        }
        for name, value in graph.items():
            self.register_buffer(name, value.to(features.device), persistent=False)

    def forward(self, rows: Tensor) -> Tensor:
        """Return the soft labels D (B, C) of the samples at int64 `rows`."""
        start = self.first[rows]
        count = self.first[rows + 1] - start
        owner = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), count)
        within = torch.arange(len(owner), device=rows.device) - (count.cumsum(0) - count)[owner]
        sources, position = torch.unique(self.sources[start[owner] + within], return_inverse=True)
        hidden = self.conv1(self.collected[sources]).relu()
        degree = max(self.neighbours.shape[1], 1)
        scale = (count.clamp(min=1) * degree).to(hidden.dtype).rsqrt()
        total = hidden.new_zeros(len(rows), hidden.shape[1]).index_add(0, owner, hidden[position])
        labels: Tensor = self.last(self.conv2(total * scale[:, None])).sigmoid()
        return labels[:, self.order.argsort()]

    def loss(
        self, enhanced: Tensor, features: Tensor, batch: Batch, gamma: float, delta: float, kl: Divergence
    ) -> Tensor:
        """Compute the loss of soft labels (B, C) of a batch with features (B, Q); see `smile_vae_loss`."""
        ordered, x = enhanced[:, self.order], features.to(enhanced.dtype)
        code = self.code(torch.cat([x, ordered], 1))
        rebuilt = self.decoder(torch.cat([ordered, code], 1))
        drawn = _draw_labels(enhanced + _LEAST, 1 - enhanced + _LEAST, batch, self.order)
        adjacency = (self.neighbours[batch.index][:, :, None] == batch.index).any(1)
        return smile_vae_loss(
            enhanced, drawn, batch.target, x, rebuilt, adjacency, gamma=gamma, delta=delta, kl=kl
        )


def check_graph_size(samples: int, width: int) -> None:
    """Check that the graph of so many samples with so many features can be made.

    Raises:
        InputError: Comparing all samples with one another would take too long.
    """
    if samples**2 * width > MOST_PRODUCTS:
        most = math.isqrt(MOST_PRODUCTS // width)
        raise InputError(
            f"the graph of method 'smile' compares each of {samples:,} training samples with all others, in "
            f"{width:,} features, which is done for up to {most:,} samples with so many: pass "
            "hp.enhancement='predictions'."
        )


def nearest(features: Tensor, count: int) -> Tensor:
    """Find the nearest other samples of each sample by Euclidean distance, int64 (N, count), N > count.

    Takes time in proportion to N^2 Q, and memory for a block of distances.
    """
    # In single precision, the product below loses small distances between features far from 0.
    points = (features.cpu() if features.device.type == "mps" else features).double()
    points = points - points.mean(0)
    squares = points.square().sum(1)
    found = torch.empty(len(points), count, dtype=torch.int64, device=points.device)
    step = max(1, _BLOCK // max(len(points), 1))
    for start in range(0, len(points), step):
        rows = torch.arange(start, min(start + step, len(points)), device=points.device)
        distances = squares - 2 * points[rows] @ points.T  # less the square of the row
        distances[rows - start, rows] = torch.inf
        found[rows] = distances.topk(count, largest=False).indices
    return found


def _draw_labels(alpha: Tensor, beta: Tensor, batch: Batch, order: Tensor) -> Tensor:
    """Draw labels (B, C) from Beta distributions, with the implicit derivative of torch.

    The draws follow from the seed of the batch; each belongs to a sample and a class, whatever the order of
    samples and classes is.

    Args:
        alpha, beta: Parameters of shape (B, C), > 0.
        batch: Batch of all processes.
        order: Classes by name, from `_by_name`.
    """
    rows = batch.index.argsort()
    # On the CPU in double precision, so that all devices draw the same; a parameter that is NaN, of a
    # training that diverges, would never leave the rejection of samples.
    a, b = (value[rows][:, order].cpu().double().nan_to_num(1.0) for value in (alpha, beta))
    with borrowed_generators():
        torch.default_generator.manual_seed(batch.seed)
        drawn: Tensor = Beta(a, b, validate_args=False).rsample()
    return drawn.to(alpha)[rows.argsort()][:, order.argsort()]


def _by_name(classes: Sequence[str]) -> Tensor:
    """Positions of the classes in the order of their names, int64 (C,)."""
    return torch.tensor(sorted(range(len(classes)), key=classes.__getitem__))


def _two_layers(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))
