"""Simulated data and runs to draw samples from for an audit."""

from __future__ import annotations

import csv

import numpy as np

from spml.cli.main import main
from tests.helpers.features import HIDE, make_features


def world(seed, samples=400, classes=8):
    """Labels that are independent given known probabilities, of which a uniformly drawn one is shown."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(-1.7, 1.5, (4 * samples, classes))
    p = 1 / (1 + np.exp(-logits))
    truth = generator.random(p.shape) < p
    kept = np.flatnonzero(truth.any(1))[:samples]
    p, truth = p[kept], truth[kept]
    shown = (truth * generator.random(truth.shape)).argmax(1)
    labels = np.zeros(truth.shape, np.int8)
    labels[np.arange(len(truth)), shown] = 1
    return p, truth, labels


CLASSES = tuple("abcd")


def train_runs(folder):
    """Two runs with known K and one without, the second with its classes in another order."""
    data = make_features(folder / "features.npz")
    with np.load(data) as stored:
        arrays = dict(stored)
    turned = folder / "turned.npz"
    np.savez(turned, **{**arrays, "Y": arrays["Y"][:, ::-1], "classes": arrays["classes"][::-1]})
    for name, path, more in (
        ("ridge", data, ["--head", "ridge", "--mean_labels", "2"]),
        ("lda", turned, ["--head", "lda", "--mean_labels", "2"]),
        ("unknown", data, ["--head", "ridge"]),
    ):
        main(["train", str(path), *HIDE, *more, "--threads", "1", "--output", str(folder / name)])
    return folder


def read_sheet(path):
    with open(path, encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))
