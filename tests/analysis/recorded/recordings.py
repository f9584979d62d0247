"""Recordings with made-up scores, written as a run writes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from spml.config import from_dict
from spml.data import Dataset, Samples
from spml.data.matrix import FeatureMatrix
from spml.labels import ObservedLabels
from spml.runs.fit.recording import write_scores

ABC = ("a", "b", "c")


def make_labels(
    samples: int = 40, classes: int = 3, seed: int = 0
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.bool_]]:
    """Observed labels with one positive per sample, int8 (N, C), and true ones, bool (N, C)."""
    generator = np.random.default_rng(seed)
    truth = generator.random((samples, classes)) < 0.4
    given = generator.integers(0, classes, samples)
    truth[np.arange(samples), given] = True
    observed = np.zeros((samples, classes), np.int8)
    observed[np.arange(samples), given] = 1
    return observed, truth


def make_logits(truth: npt.NDArray[np.bool_], epochs: int = 2, seed: int = 0) -> npt.NDArray[np.float32]:
    """Logits (epochs + 1, N, C) that tell the truth better and better, with the precision of float16."""
    noise = np.random.default_rng(seed).normal(size=(epochs + 1, *truth.shape))
    signal = np.arange(epochs + 1)[:, None, None] * np.where(truth, 1.5, -1.5)
    return (noise + signal - 1).astype(np.float16).astype(np.float32)


def save_recording(
    folder: Path,
    logits: Sequence[npt.ArrayLike] | npt.NDArray[np.float32],
    observed: npt.ArrayLike,
    truth: npt.ArrayLike | None,
    *,
    method: str = "an",
    classes: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
    output: str = "logits",
) -> Path:
    """Write a run folder with nothing but recorded scores. Returns the folder."""
    labels = ObservedLabels.from_ternary(observed)
    count = len(labels)
    names = tuple(ids or (f"s{row}" for row in range(count)))
    samples = Samples(names, FeatureMatrix(np.zeros((count, 1), np.float32)), labels)
    full = (
        None
        if truth is None
        else ObservedLabels.from_multi_hot(np.asarray(truth, np.int8), unlisted="negative")
    )
    data = Dataset(
        "made",
        tuple(classes or ABC[: labels.num_classes]),
        {"val": samples},
        {} if full is None else {"val": full},
    )
    config = from_dict({"method": method, "model": {"scores": output}})
    folder.mkdir()
    (folder / "config.yaml").write_text("")
    for epoch, scores in enumerate(logits):
        write_scores(folder, config, data, ["val"], epoch, np.asarray(scores, np.float32))
    return folder
