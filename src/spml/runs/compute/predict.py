"""Prediction batch by batch, so that memory does not grow with the number of samples."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from ... import models
from ...common.errors import InputError, SpmlError
from ...common.files import check_folder
from ...config import Config
from ...data import Inputs
from ...data.images.cache import store_folder
from ...data.images.feature_store import FeatureStore
from ...data.images.image_files import ImageFiles, LoadedImages
from ...engine.process_memory import total_memory
from ..console import Console
from ..folder.layout import FEATURES, features_of_neighbours
from ..frames import predictions_frame
from .cluster.work import Batches, Computed

_SCORES = 1 << 26  # of a batch: 256 MiB of logits
_MUCH = 1 << 30  # bytes of features from which a line says how many there will be


@dataclass(frozen=True)
class Predictions:
    """Predictions of a model.

    Attributes:
        ids: Names of the samples.
        classes: Class names.
        scores: float32 (N, C), sigmoid of the logits, or the probabilities of a model that gives
            log-probabilities. They rank, but are not calibrated. Where there are too many for the memory
            (more than 2^28, 1 GiB), a sparse array of SciPy (CSR) of the same shape, which holds the scores
            of the predicted labels only.
        labels: Names of the predicted classes of each sample, the highest score first.
        notes: Remarks on what was left out, one line each.
        probabilities: Calibrated probabilities, in the form of `scores`; None where K is not known.
        label_columns: Columns of `labels`, sample by sample; None = to be looked up by their names.
    """

    ids: tuple[str, ...]
    classes: tuple[str, ...]
    scores: Any
    labels: list[list[str]]
    notes: tuple[str, ...] = ()
    probabilities: Any = None
    label_columns: npt.NDArray[np.int64] | None = None

    @cached_property
    def columns(self) -> dict[str, int]:
        """Column of each class."""
        return {name: column for column, name in enumerate(self.classes)}

    @property
    def sparse(self) -> bool:
        """Whether there are scores of the predicted labels only."""
        return not isinstance(self.scores, np.ndarray)

    def of_labels(self) -> list[list[list[float]]]:
        """Scores of the predicted labels of each sample, in their order, and in the same way probabilities
        where there are some."""
        lengths = np.fromiter(map(len, self.labels), np.int64, len(self.labels))
        rows, columns = np.repeat(np.arange(len(lengths)), lengths), self.label_columns
        if columns is None:
            columns = np.asarray([self.columns[name] for names in self.labels for name in names], np.int64)
        ends = [0, *np.cumsum(lengths).tolist()]
        values = [
            _values_at(array, rows, columns).tolist()
            for array in (self.scores, self.probabilities)
            if array is not None
        ]
        return [[of[a:b] for a, b in pairwise(ends)] for of in values]

    def to_frame(self) -> Any:
        """A DataFrame of pandas with a row per sample: its labels, the scores by class, the probabilities.

        Where there are scores of the predicted labels only, `scores` and `probabilities` are one column each,
        with a list per sample.

        Columns are named as in the CSV files of `spml predict`, and rows by the samples.

        Raises:
            InputError: pandas is not installed.
        """
        return predictions_frame(self)


def _values_at(array: Any, rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int64]) -> Any:
    """Values of some pairs; of a sparse array, which stores all of them, by their places in it."""
    if isinstance(array, np.ndarray):
        return array[rows, columns]
    array = array.sorted_indices()
    stored = np.repeat(np.arange(array.shape[0]), np.diff(array.indptr)) * array.shape[1] + array.indices
    return array.data[np.searchsorted(stored, rows * array.shape[1] + columns)]


class Engine(NamedTuple):
    """Settings of prediction.

    Attributes:
        batch_size: Samples per step.
        workers: Number of processes that decode images; -1 = one per core, at most 8.
        device: `auto`, `cpu`, `cuda` or `mps`.
        console: Shows progress; None = no progress is shown.
        cache: Folder for the features of a frozen backbone, or `none` to keep none; None = where the run
            keeps those of its training samples.
        cluster: Address of a Ray cluster whose machines compute, empty to start Ray on this machine; None =
            this process computes.
    """

    batch_size: int = 64
    workers: int = 0
    device: str = "auto"
    console: Console | None = None
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
    """

    end: int
    rows: npt.NDArray[np.int64]
    logits: npt.NDArray[np.float32]
    unreadable: dict[int, str]


class KeptFeatures(NamedTuple):
    """Features of a frozen backbone that were computed before.

    Attributes:
        store: Store to look in.
        keep: Whether to add what is computed.
    """

    store: FeatureStore
    keep: bool


def check_kind(folder: Path, model: models.Classifier, inputs: Inputs) -> None:
    """Check that a model takes samples of this kind and width.

    Raises:
        InputError: It does not; the message names the folder of the run.
    """
    kind = "feature" if model.spec.name == "none" else "image"
    if inputs.kind != kind:
        raise InputError(f"the model in {folder} takes {kind}s, but the data holds {inputs.kind}s.")
    if kind == "feature":
        width, expected = inputs.fetch([0], None).shape[1], model.backbone.num_features
        if width != expected:
            raise InputError(
                f"the model in {folder} takes {expected} features per sample, but the data has {width}. Give "
                "features made in the same way."
            )


def check_feature_names(folder: Path, names: Sequence[str], inputs: Inputs) -> None:
    """Check that features have the names that the model has learned, in the same order, where both are known.

    Raises:
        InputError: A feature is missing, unknown or at another place; the message names the first one.
    """
    given: tuple[str, ...] = getattr(inputs, "names", ())
    if not names or not given or tuple(names) == given:
        return
    column = next(column for column, pair in enumerate(zip(names, given, strict=True)) if pair[0] != pair[1])
    what = "in another order" if sorted(names) == sorted(given) else "others"
    raise InputError(
        f"the model in {folder} has learned from the feature {names[column]!r} in column {column} (counted "
        f"from 0), but the data has {given[column]!r} there: its features are {what}. Give those of "
        "Run.feature_names (feature_names in model.json), in this order."
    )


def find_features(
    folder: Path,
    config: Config | None,
    backbone: models.Backbone,
    inputs: Inputs,
    cache: str | None,
    report: Callable[[str], None],
) -> KeptFeatures | None:
    """Find the features that a run and those next to it have kept.

    Args:
        folder: Folder of the run.
        config: Settings of its training; None if they are not known.
        backbone: Backbone of the model.
        inputs: Samples to predict.
        cache: As in `Engine`.
        report: Callback for messages.

    Returns:
        None if the backbone was trained, the samples are no image files, or nothing is to be kept.
    """
    frozen = config is not None and config.model.frozen == "yes"
    if cache == "none" or not frozen or not isinstance(inputs, ImageFiles):
        return None
    assert config is not None
    place = Path(cache or config.data.cache or folder / FEATURES)
    key = backbone.key()
    others = [store_folder(other, key) for other in features_of_neighbours(place)]
    store = FeatureStore(store_folder(place, key), others, report)
    try:
        check_folder(place)
    except InputError:
        report(f"{place}: can't be written to, so features that are computed are not kept")
        return KeptFeatures(store, keep=False)
    if (size := 4 * backbone.num_features * len(inputs)) > _MUCH:
        report(f"{place}: will hold up to {size / 1e9:.1f} GB of features (--cache none keeps none)")
    return KeptFeatures(store, keep=True)


@torch.inference_mode()
def predict_batches(
    model: models.Classifier,
    inputs: Inputs,
    fabric: Any,
    engine: Engine,
    *,
    start: int = 0,
    kept: KeptFeatures | None = None,
) -> Iterator[Batch]:
    """Compute logits batch by batch, each file of an image being read once.

    Args:
        model: Model on the device of `fabric`. It is left in evaluation mode.
        inputs: Samples. Image files need not have been checked.
        fabric: Lightning Fabric.
        engine: Batch size and number of worker processes.
        start: First sample, a multiple of the batch size.
        kept: Features of the backbone that need not be computed; for image files only.

    Raises:
        InputError: A batch of images does not fit into the memory.
        SpmlError: A score is NaN or infinite.
    """
    _check_memory(model.spec, min(engine.batch_size, len(inputs)))
    model.eval()
    size = min(engine.batch_size, max(1, _SCORES // model.top.num_classes))
    batches = Batches(range(start, len(inputs)), size)
    known = kept.store.keys if kept else np.empty(0, np.uint64)
    loading: Iterable[LoadedImages | torch.Tensor | Computed]
    if engine.cluster is None:
        loading = _loader(inputs, batches, known, engine.workers, fabric.device)
    else:
        from .cluster.stream import compute_batches

        loading = compute_batches(
            model.backbone if kept else model,
            "features" if kept else "logits",
            inputs,
            batches,
            address=engine.cluster,
            device=fabric.device,
            workers=engine.workers,
            known=known,
            report=engine.console.line if engine.console else lambda line: None,
        )
    for rows, loaded in zip(batches, loading, strict=True):
        unreadable: dict[int, str] = {}
        if not isinstance(loaded, torch.Tensor):
            unreadable = {rows[i]: reason for i, reason in loaded.unreadable.items()}
        readable = np.setdiff1d(np.asarray(rows), list(unreadable))
        if not len(readable):
            logits = torch.empty(0, model.top.num_classes)
        elif not isinstance(loaded, torch.Tensor) and kept:
            assert isinstance(inputs, ImageFiles)
            features = _features(model.backbone, inputs, readable - rows[0], rows, loaded, kept)
            logits = model.top(torch.from_numpy(features).to(fabric.device)).logits
        elif isinstance(loaded, Computed):
            logits = torch.from_numpy(loaded.values)
        else:
            pixels = loaded.pixels if isinstance(loaded, LoadedImages) else loaded
            with fabric.autocast():
                logits = model(pixels.to(fabric.device, non_blocking=True)).logits
        scores = logits.float().cpu().numpy()
        _check_finite(scores, readable)
        yield Batch(rows[-1] + 1, readable, scores, unreadable)


def _loader(
    inputs: Inputs, batches: Batches, known: npt.NDArray[np.uint64], workers: int, device: torch.device
) -> Iterable[LoadedImages | torch.Tensor]:
    """Load batches in worker processes, without the pixels of images whose features are known."""
    workers = min(os.cpu_count() or 1, 8) if workers < 0 else workers
    return DataLoader(
        _Loading(inputs, known),
        batch_sampler=batches,  # type: ignore[arg-type]
        # Starting a process takes longer than decoding a single batch.
        num_workers=min(workers, len(batches)) if isinstance(inputs, ImageFiles) and len(batches) > 1 else 0,
        collate_fn=_identity,
        pin_memory=device.type == "cuda",
        generator=torch.Generator(),  # otherwise the loader draws from the global random state
    )


def _check_memory(spec: models.BackboneSpec, rows: int) -> None:
    """Check that a batch of images fits into the memory, as pixels and as float32."""
    size, memory = 5 * rows * max(len(spec.mean), 1) * spec.size**2, total_memory()
    if size > memory:
        raise InputError(
            f"the model takes images of {spec.size:,} x {spec.size:,} pixels, {rows} of which need at least "
            f"{size / 1e9:.1f} GB, but there are {memory / 1e9:.1f} GB of memory. Choose a smaller "
            "--batch_size."
        )


def _check_finite(scores: npt.NDArray[np.float32], rows: npt.NDArray[np.int64]) -> None:
    """Check that no score of a batch is NaN or infinite."""
    finite = np.isfinite(scores).all(1)
    if not finite.all():
        raise SpmlError(
            f"sample {rows[~finite][0]} (counted from 0): its scores are NaN or infinite, because its "
            "features are too large or the model is damaged. Correct the data, or train again."
        )


def _features(
    backbone: models.Backbone,
    inputs: ImageFiles,
    which: npt.NDArray[np.int64],
    rows: Sequence[int],
    loaded: LoadedImages | Computed,
    kept: KeptFeatures,
) -> npt.NDArray[np.float32]:
    """Features (n, D) of some images of a batch, given by their positions: found, or computed and added."""
    identities = loaded.identities[which]
    positions = kept.store.locate(identities)
    # Copies of an image are computed once, as in a run that starts here: then they are in the store.
    first: dict[bytes, int] = {}
    names = [identity.tobytes() for identity in identities]
    for i in np.flatnonzero(positions < 0).tolist():
        first.setdefault(names[i], i)
    features = np.empty((len(which), backbone.num_features), np.float32)
    if first:
        new = list(first.values())
        wanted = [int(which[i]) for i in new]
        place = {position: k for k, position in enumerate(loaded.rows)}
        if isinstance(loaded, Computed) and loaded.rows == wanted:
            computed = loaded.values
        else:
            if isinstance(loaded, LoadedImages) and place.keys() >= set(wanted):
                pixels = loaded.pixels[[place[position] for position in wanted]]
            else:
                # What was found when the images were loaded has turned out to be damaged. Or a machine of a
                # cluster did not know that an earlier batch had some of the images: the features of a batch
                # without them may differ in their last bits.
                pixels = inputs.fetch([rows[position] for position in wanted])
            computed = backbone(pixels.to(backbone.device)).float().cpu().numpy()
        if kept.keep:
            kept.store.append(identities[new], computed)
        row_of = {names[i]: k for k, i in enumerate(new)}
        missing = np.flatnonzero(positions < 0)
        features[missing] = computed[[row_of[names[i]] for i in missing.tolist()]]
    found = np.flatnonzero(positions >= 0)
    if len(found):
        features[found] = kept.store.rows(positions[found])
    return features


class _Loading(TorchDataset[Any]):
    """Batches of samples, decoded in worker processes as far as their features are not known."""

    def __init__(self, inputs: Inputs, known: npt.NDArray[np.uint64]) -> None:
        self.inputs, self.known = inputs, known

    def __getitems__(self, rows: Sequence[int]) -> LoadedImages | torch.Tensor:
        if isinstance(self.inputs, ImageFiles):
            return self.inputs.load(rows, self.known)
        return self.inputs.fetch(rows, None)


def _identity(batch: Any) -> Any:
    return batch
