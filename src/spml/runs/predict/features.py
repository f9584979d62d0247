"""Features of a frozen backbone, computed once and kept in a store on disk."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from ... import models
from ...common.errors import InputError, SpmlError
from ...common.files import check_folder
from ...common.locks import one_at_a_time
from ...common.messages import log, progress
from ...config import Config
from ...data import Inputs
from ...data.dataset import ImageInputs, Loaded
from ...data.images.feature_store import FeatureStore, Identities, first_of_each, store_folder
from ...data.images.image_files import ImageFiles
from ...data.matrix import FeatureMatrix
from ...engine.loader import Batches
from ..folder.layout import FEATURES, features_of_neighbours
from .cluster import compute_batches

FULL_PRECISION = "32-true"
_HALF = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}
WINDOWS = " windows"
"""End of the key of a store with what windows need, which `data.cache` keeps and other runs do not."""

_ON_CPU = 16  # samples of a batch


def cached_features(
    backbone: nn.Module,
    inputs: ImageInputs,
    folder: Path,
    *,
    key: str,
    others: Sequence[Path] = (),
    batch_size: int = 64,
    workers: int = 0,
    precision: str = FULL_PRECISION,
    label: str = "features",
    cluster: str | None = None,
) -> FeatureMatrix:
    """Compute the features of images, except those that are in the store already, and add them to it.

    Features are computed in evaluation mode and without augmentation. The store (see `FeatureStore`) is
    a folder whose name is derived from `key`. It finds features by the content of an image, so that other
    splits and other data sets with the same images share them. A process that is killed at any moment leaves
    its finished batches behind. Another process that needs the same samples waits.

    Args:
        backbone: Module from images (B, channels, H, W) to features (B, D), on any device. It is left in
            evaluation mode.
        inputs: At least one sample.
        folder: Folder of the cache; created if it does not exist.
        key: Text that identifies everything about the backbone that the features depend on.
        others: Further folders of caches, which are read only.
        batch_size: Samples per batch.
        workers: Worker processes that decode images; 0 = decode in this process.
        precision: `32-true`, or `bf16-mixed` or `16-mixed`, whose features are rounded and kept apart.
        label: Label of the progress bar.
        cluster: As in `compute_batches`.

    Returns:
        float32 features (N, D), memory-mapped.

    Raises:
        SpmlError: An image can no longer be read, or the features can't be written.
    """
    key = key if precision == FULL_PRECISION else f"{key} {precision}"
    identities, name = inputs.identities(), store_folder(folder, key)
    stored_elsewhere = [store_folder(other, key) for other in others]
    with FeatureStore(name, stored_elsewhere) as store, progress(len(inputs), label) as advance:
        positions = store.locate(identities)
        missing: list[int] = []
        if (positions < 0).any():
            try:
                name.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise SpmlError(
                    f"{folder}: can't be created ({error.strerror}). Choose another data.cache."
                ) from error
            lock = name / f".{inputs.fingerprint()[:32]}.lock"
            with one_at_a_time(lock, "computes the same features"):
                store.refresh()  # another process may have computed them while this one waited for the lock
                positions = store.locate(identities)
                missing = first_of_each(identities, np.flatnonzero(positions < 0).tolist())
                if missing and (stored := int((positions >= 0).sum())):
                    log.info(f"features of {len(inputs):,} samples: {stored:,} of them computed before")
                if missing and (done := len(inputs) - len(missing)):
                    advance(done)
                # A network of the user's own may have no parameters, but its mean and deviation are buffers.
                device = next(chain(backbone.parameters(), backbone.buffers())).device
                # Small batches are no slower on a CPU. The bar moves from the first sample on, which goes
                # ahead of several large batches.
                size = min(batch_size, _ON_CPU) if device.type == "cpu" else batch_size
                ahead = int(size >= _ON_CPU and len(missing) > size)
                batches = [*Batches(missing[:ahead], 1), *Batches(missing[ahead:], size)]
                computed = compute_batches(
                    backbone,
                    inputs,
                    batches,
                    cluster=cluster,
                    device=device,
                    workers=workers if cluster is None else -1,
                    half=_HALF.get(precision),
                )
                for rows, batch in zip(batches, computed, strict=True):
                    if isinstance(inputs, ImageFiles):
                        inputs.check_readable(rows, batch)
                    store.append(identities[rows], batch.values.cpu().numpy())
                    advance(len(rows))
                positions = store.locate(identities)
        if missing:
            log.info(f"features of {len(inputs):,} samples: computed once, kept in {name}")
        else:
            advance(len(inputs))
            log.info(f"features of {len(inputs):,} samples: read from {store.origin(positions)}")
        return store.features(positions)


def keep_features(folder: Path, key: str, identities: Identities, features: FeatureMatrix) -> None:
    """Add features that were computed with others to the store of their own."""
    with FeatureStore(store_folder(folder, key)) as store:
        missing = first_of_each(identities, np.flatnonzero(store.locate(identities) < 0).tolist())
        if missing:
            store.append(identities[missing], features.dense(missing))


def drop_windows(folder: Path, key: str) -> None:
    """Remove what was kept for the windows of images."""
    shutil.rmtree(store_folder(folder, key + WINDOWS), ignore_errors=True)


class KeptFeatures(NamedTuple):
    """Features of a frozen backbone that predictions look up, and add to.

    Attributes:
        store: Store to look in.
        keep: Whether to add what is computed.
    """

    store: FeatureStore
    keep: bool

    def unknown(self, batch: Loaded) -> list[int]:
        """Positions in a batch of the readable images without features, the first one of equal images."""
        readable = [row for row in range(len(batch.identities)) if row not in batch.unreadable]
        lacking = np.flatnonzero(self.store.locate(batch.identities[readable]) < 0)
        return first_of_each(batch.identities, [readable[i] for i in lacking.tolist()])

    def complete(
        self, backbone: models.Backbone, inputs: ImageFiles, rows: Sequence[int], batch: Loaded
    ) -> npt.NDArray[np.float32]:
        """Features (n, D) of the readable images of a batch.

        Args:
            backbone: Backbone of the model.
            inputs: All samples.
            rows: Samples of the batch.
            batch: What was computed of them.
        """
        new, values = self.unknown(batch), batch.values
        if new and new != batch.rows:
            # Features that were found when the images were loaded have turned out to be damaged. Or a machine
            # of a cluster did not know that an earlier batch had some of the images: the features of a batch
            # without them may differ in their last bits.
            pixels = inputs.fetch([rows[row] for row in new])
            values = backbone(pixels.to(backbone.device)).float()
        computed = values.cpu().numpy()
        identities = np.delete(batch.identities, list(batch.unreadable), axis=0)
        positions = self.store.locate(identities)
        if new and self.keep:
            self.store.append(batch.identities[new], computed)
        found, place = positions >= 0, {batch.identities[row].tobytes(): k for k, row in enumerate(new)}
        features = np.empty((len(identities), backbone.num_features), np.float32)
        if new:
            features[~found] = computed[[place[each.tobytes()] for each in identities[~found]]]
        if found.any():
            features[found] = self.store.rows(positions[found])
        return features


def find_features(
    folder: Path,
    config: Config | None,
    backbone: models.Backbone,
    inputs: Inputs,
    cache: str | None,
) -> KeptFeatures | None:
    """Find the features that a run and those next to it have kept.

    Args:
        folder: Folder of the run.
        config: Settings of its training; None if they are not known.
        backbone: Backbone of the model.
        inputs: Samples to predict.
        cache: As in `Engine`.

    Returns:
        None if the backbone was trained, the samples are no image files, or nothing is to be kept.
    """
    if (
        cache == "none"
        or config is None
        or config.model.frozen != "yes"
        or not isinstance(inputs, ImageFiles)
    ):
        return None
    place = Path(cache or config.data.cache or folder / FEATURES)
    key = backbone.key()
    others = [store_folder(other, key) for other in features_of_neighbours(place)]
    store = FeatureStore(store_folder(place, key), others)
    try:
        check_folder(place)
    except InputError:
        log.info(f"{place}: can't be written to, so features that are computed are not kept")
        return KeptFeatures(store, keep=False)
    return KeptFeatures(store, keep=True)
