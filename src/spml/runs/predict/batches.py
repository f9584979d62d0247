"""Prediction batch by batch, so that memory does not grow with the number of samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from ... import models
from ...common.errors import InputError, SpmlError
from ...data import Inputs
from ...data.images.image_files import NO_KEYS, ImageFiles
from ...data.matrix import FeatureMatrix
from ...engine.loader import Batches
from ...engine.process_memory import total_memory
from .cluster import compute_batches
from .features import KeptFeatures

_SCORES = 1 << 26  # of a batch: 256 MiB of logits


class Engine(NamedTuple):
    """Settings of prediction.

    Attributes:
        batch_size: Samples per step.
        workers: Number of processes that decode images; -1 = one per core, at most 8.
        device: `auto`, `cpu`, `cuda` or `mps`.
        cache: Folder for the features of a frozen backbone, or `none` to keep none; None = where the run
            keeps those of its training samples.
        cluster: Address of a Ray cluster whose machines compute, empty to start Ray on this machine; None =
            this process computes.
    """

    batch_size: int = 64
    workers: int = 0
    device: str = "auto"
    cache: str | None = None
    cluster: str | None = None

    def check(self) -> None:
        """Check the numbers.

        Raises:
            InputError: One is out of its domain.
        """
        if self.batch_size < 1 or self.workers < -1:
            raise InputError(
                f"batch_size must be at least 1 and workers at least -1, got {self.batch_size}, "
                f"{self.workers}"
            )


class Batch(NamedTuple):
    """Logits of consecutive samples.

    Attributes:
        end: Number of samples that are done with this batch, those left out included.
        rows: Samples that could be read, int64 (n,).
        logits: Their logits, float32 (n, C).
        unreadable: Reason for each other sample of the batch.
        windows: Window that speaks most for each class, int64 (n, C), as `Outputs.windows`; None where that
            was not asked for.
    """

    end: int
    rows: npt.NDArray[np.int64]
    logits: npt.NDArray[np.float32]
    unreadable: dict[int, str]
    windows: npt.NDArray[np.int64] | None = None


def check_samples(folder: Path, model: models.Classifier, inputs: Inputs, names: Sequence[str] = ()) -> None:
    """Check that a model takes samples of this kind and width.

    Args:
        folder: Folder of the run, for the message.
        model: The model.
        inputs: The samples.
        names: Names of the features that the model has learned, which those of the samples must have in the
            same order, where both are known.

    Raises:
        InputError: It does not, or a feature is missing, unknown or at another place; the message names the
            first one.
    """
    if inputs.kind != (kind := model.spec.kind):
        raise InputError(f"the model in {folder} takes {kind}s, but the data holds {inputs.kind}s.")
    if not isinstance(inputs, FeatureMatrix):
        return
    if inputs.width != (expected := model.backbone.num_features):
        raise InputError(
            f"the model in {folder} takes {expected} features per sample, but the data has {inputs.width}. "
            "Give features made in the same way."
        )
    if model.top.local and inputs.num_parts != (parts := model.top.local.settings.windows.width):
        found = f"{inputs.num_parts} parts" if inputs.num_parts else "none (X is of shape (N, D))"
        raise InputError(
            f"the model in {folder} scores {parts} parts of each sample, X of shape (N, {parts}, "
            f"{expected}), but the data has {found}. Give features made in the same way."
        )
    given = inputs.names
    if not names or not given or tuple(names) == given:
        return
    column = next(column for column, pair in enumerate(zip(names, given, strict=True)) if pair[0] != pair[1])
    what = "in another order" if sorted(names) == sorted(given) else "others"
    raise InputError(
        f"the model in {folder} has learned from the feature {names[column]!r} in column {column} (counted "
        f"from 0), but the data has {given[column]!r} there: its features are {what}. Give those of "
        "Run.feature_names (feature_names in model.json), in this order."
    )


@torch.inference_mode()
def predict_batches(
    model: models.Classifier,
    inputs: Inputs,
    device: torch.device,
    engine: Engine,
    *,
    start: int = 0,
    kept: KeptFeatures | None = None,
    where: bool = False,
) -> Iterator[Batch]:
    """Compute logits batch by batch, each file of an image being read once.

    Args:
        model: Model on the device. It is left in evaluation mode.
        inputs: Samples. Image files need not have been checked.
        device: Device that computes.
        engine: Batch size, number of worker processes, cluster.
        start: First sample, a multiple of the batch size.
        kept: Features of the backbone that need not be computed; for image files only.
        where: Find the window that speaks most for each class, too, of a model that scores windows.

    Raises:
        InputError: A batch of images does not fit into the memory.
        SpmlError: A score is NaN or infinite.
    """
    spec, memory, most = model.spec, total_memory(), min(engine.batch_size, len(inputs))
    size = 5 * most * max(len(spec.mean), 1) * spec.size**2  # as pixels and as float32
    if size > memory:
        raise InputError(
            f"the model takes images of {spec.size:,} x {spec.size:,} pixels, {most} of which need at least "
            f"{size / 1e9:.1f} GB, but there are {memory / 1e9:.1f} GB of memory. Choose a smaller "
            "`batch_size`."
        )
    model.eval()
    classes = model.top.num_classes
    batches = Batches(range(start, len(inputs)), min(engine.batch_size, max(1, _SCORES // classes)))
    network = models.Located(model) if where else model.backbone if kept else model
    computed = compute_batches(
        network,
        inputs,
        batches,
        cluster=engine.cluster,
        device=device,
        workers=engine.workers,
        known=kept.store.keys if kept else NO_KEYS,
        choose=kept.unknown if kept else None,
    )
    for rows, batch in zip(batches, computed, strict=True):
        readable = np.delete(rows, list(batch.unreadable))
        logits = batch.values
        if kept and len(readable):
            assert isinstance(inputs, ImageFiles)
            features = kept.complete(model.backbone, inputs, rows, batch)
            logits = model.top(torch.from_numpy(features).to(device)).logits
        values = logits.float().cpu().numpy().reshape(len(readable), (1 + where) * classes)
        scores = np.ascontiguousarray(values[:, :classes])
        finite = np.isfinite(scores).all(1)
        if not finite.all():
            raise SpmlError(
                f"sample {readable[~finite][0]} (counted from 0): its scores are NaN or infinite, because "
                "its features are too large or the model is damaged. Correct the data, or train again."
            )
        unreadable = {rows[position]: why for position, why in batch.unreadable.items()}
        windows = values[:, classes:].astype(np.int64) if where else None
        yield Batch(rows[-1] + 1, readable, scores, unreadable, windows)
