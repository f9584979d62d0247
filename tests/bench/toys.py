"""A small data set that can be learned, and specifications on it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

TOY = """
title: toys
data:
  toy: {path: toy.npz, unlisted: negative, mean_labels: 1.6}
hiding:
  uniform: {observe: single}
  frequent: {observe: frequency, observe_power: 1.0}
candidates:
  - an
  - {name: em slow, method: em, optim.lr: 1e-3, space: {hp.alpha: [0.05, 0.1, 0.2]}}
  - {name: full, method: bce, labels: full}
baseline: an
ceiling: full
modes: [oracle, observed, "audit:20"]
seeds: 2
draws: 20
search:
  sampler: random
  trials: 3
  space:
    optim.lr: {low: 1e-3, high: 1e-1, log: true}
train: {epochs: 3, batch_size: 32}
"""


def save_toy(folder: Path, name: str = "toy.npz", seed: int = 0, samples: int = 200) -> Path:
    """Features, and four labels that are noisy linear functions of them; one fifth are test samples."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(samples, 10)).astype(np.float32)
    scores = features @ rng.normal(size=(10, 4)) + rng.normal(size=(samples, 4))
    labels = (scores > 1.0).astype(np.uint8)
    labels[np.arange(samples), scores.argmax(1)] = 1
    test = np.arange(samples) % 5 == 0
    path = folder / name
    np.savez(path, X=features, Y=labels, test=test)
    return path


def save_spec(folder: Path, text: str = TOY, name: str = "toys.yaml") -> Path:
    """A specification next to its data."""
    path = folder / name
    path.write_text(text)
    return path
