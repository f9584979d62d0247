"""A trained model in its folder: from samples to logits, from logits to labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ... import models
from ...common.errors import InputError, SpmlError, nearest
from ...config import Config, DataConfig
from ...data import Inputs, Samples, list_inputs, wanted_names
from ...data.images.image_files import ImageFiles
from ...data.open import note_unreadable
from ...decisions import Calibration, Chooser, Decision, Policy
from ...engine import make_fabric
from ..console import Console
from ..decide.choose_cut import choose_cut
from ..decide.thresholds import read_thresholds
from ..folder import layout as runfolder
from .predict import (
    Batch,
    Engine,
    Predictions,
    check_feature_names,
    check_kind,
    find_features,
    predict_batches,
)

_SHOWN = 10
"""Classes that a remark names."""


class TrainedModel:
    """A trained model with its classes and its threshold.

    Attributes:
        folder: Folder of the run.
        classes: Class names, in the order of the columns of scores.
        threshold: Logit at which the model predicted K labels per validation sample: one threshold for all
            classes, where `thresholds` is not used.
        card: Content of model.json.
    """

    def __init__(self, folder: Path, classifier: models.Classifier, card: dict[str, Any]) -> None:
        self.folder, self.card, self._classifier = folder, card, classifier
        self.classes: tuple[str, ...] = tuple(card["classes"])
        self.threshold = float(card["threshold"]["logit"])
        self._chooser: tuple[Decision, Chooser] | None = None

    @property
    def weights_sha256(self) -> str:
        """SHA-256 of the weights."""
        return str(self.card["weights_sha256"])

    @cached_property
    def thresholds(self) -> Policy | None:
        """Thresholds of the classes, in thresholds.json; None for a run of an earlier version.

        Raises:
            InputError: The file is missing, damaged, or of another model.
        """
        path = self.folder / runfolder.THRESHOLDS
        if not path.is_file() and "thresholds" not in self.card:
            return None
        return read_thresholds(path, self.classes, self.weights_sha256)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features in the order of the training; empty if that data did not name them."""
        return tuple(self.card.get("feature_names", ()))

    @property
    def trained_on(self) -> str:
        """Path of the training data as the user stated it; empty if the run does not record it."""
        return self.config.data.path if self.config else ""

    @cached_property
    def config(self) -> Config | None:
        """Settings of the training; None if the run does not record them."""
        return runfolder.read_config(self.folder) if (self.folder / runfolder.CONFIG).is_file() else None

    @property
    def names(self) -> dict[str, str]:
        """Wanted names of classes by given ones, as in the training (`data.rename`)."""
        return wanted_names(self.config.data) if self.config else {}

    @property
    def decoding(self) -> dict[str, Any]:
        """How images were decoded in training, `decoder` and `draft`; empty if the run does not record it."""
        data = self.config.data if self.config else None
        return {"decoder": data.decoder, "draft": data.draft} if data else {}

    @property
    def spec(self) -> models.BackboneSpec:
        """Backbone, and how images are prepared for it."""
        return self._classifier.spec

    def list_inputs(
        self,
        paths: Sequence[str],
        images: str | None = None,
        report: Callable[[str], None] = lambda line: None,
    ) -> tuple[Sequence[str], Inputs]:
        """Find samples to predict, as `spml.data.list_inputs` does, and prepare them for the backbone.

        Raises:
            InputError: A path is missing or nothing is found.
        """
        spec = self.spec
        config = DataConfig(images=images)
        return list_inputs(paths, config, size=spec.size, interpolation=spec.interpolation, report=report)

    def stream(self, inputs: Inputs, engine: Engine, start: int = 0) -> Iterator[Batch]:
        """Compute logits batch by batch, and look up the features of a frozen backbone.

        Args:
            inputs: Samples. Image files need not have been checked, and are decoded as in training.
            engine: Settings of prediction.
            start: First sample, a multiple of the batch size.

        Raises:
            InputError: The samples have another kind, width or order of named features than the model takes,
                or a setting is wrong.
        """
        engine.check()
        if isinstance(inputs, ImageFiles) and self.decoding:
            inputs = replace(inputs, **self.decoding)
        check_kind(self.folder, self._classifier, inputs)
        check_feature_names(self.folder, self.feature_names, inputs)
        console = engine.console or Console(silent=True)
        fabric = make_fabric(engine.device)
        model = self._classifier.to(fabric.device)
        with ExitStack() as stack:
            kept = find_features(self.folder, self.config, model.backbone, inputs, engine.cache, console.line)
            if kept:
                stack.enter_context(kept.store)
            advance = stack.enter_context(console.progress(len(inputs), "predicting"))
            advance(start)
            done = start
            for batch in predict_batches(model, inputs, fabric, engine, start=start, kept=kept):
                advance(batch.end - done)
                done = batch.end
                yield batch

    def labelled(
        self, ids: Sequence[str], batch: Batch, decision: Decision, *, sparse: bool = False
    ) -> Predictions:
        """Predictions of a batch of `stream`.

        Args:
            ids: Names of all samples.
            batch: Logits of some of them.
            decision: How logits become labels.
            sparse: Compute scores and probabilities of the predicted labels only.
        """
        logits = batch.logits
        rows, columns = self._choose(decision)(logits)
        starts = np.searchsorted(rows, np.arange(len(logits) + 1))
        names = [self.classes[column] for column in columns.tolist()]
        chosen = logits[rows, columns] if sparse else logits
        scores, probabilities = self.probabilities(chosen), self.calibrated(chosen)
        form = partial(_sparse, rows=rows, columns=columns, shape=logits.shape) if sparse else _as_is
        return Predictions(
            tuple(ids[row] for row in batch.rows.tolist()),
            self.classes,
            form(scores),
            [names[a:b] for a, b in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)],
            probabilities=None if probabilities is None else form(probabilities),
            label_columns=columns,
        )

    def notes(self, ids: Sequence[str], skipped: dict[int, str]) -> tuple[str, ...]:
        """Remarks on images that were left out, and on classes that are never predicted.

        Raises:
            InputError: All images were left out.
        """
        never = self.card.get("without_positives", ())
        names = ", ".join(never[:_SHOWN])
        more = f" and {len(never) - _SHOWN:,} more" if len(never) > _SHOWN else ""
        unseen = (f"Never predicted, because no training sample had it: {names}{more}.",) if never else ()
        return (*note_unreadable(ids, skipped), *unseen)

    def decision(
        self,
        *,
        mean_labels: float | None = None,
        threshold: float | None = None,
        top_k: int = 0,
        top1_fallback: bool = False,
        thresholds: str | Path | float | None = None,
    ) -> Decision:
        """How logits become labels; by default, by the threshold of each class in `thresholds`.

        Args:
            mean_labels: Mean labels per sample K: cut where the model predicted K labels per validation
                sample on average, at one threshold for all classes.
            threshold: Cut at this score, on the scale of `Predictions.scores`.
            top_k: Largest number of labels of a sample. Alone, exactly the `top_k` highest scores are
                predicted.
            top1_fallback: Predict the label with the highest score where no other is predicted.
            thresholds: File of thresholds, in place of the run's own; `global` for one threshold for all
                classes, at the K of training; or a number, which means the same as `threshold`.

        Raises:
            InputError: Two of `mean_labels`, `threshold` and `thresholds` are given, a value is out of its
                domain, or the file of thresholds does not suit.
        """
        cut = choose_cut(
            self,
            mean_labels=mean_labels,
            threshold=threshold,
            thresholds=thresholds,
            top_k=top_k,
        )
        return Decision(cut, top_k, top1_fallback, self._never)

    @cached_property
    def _never(self) -> tuple[int, ...]:
        """Columns of the classes that are never predicted."""
        unseen = set(self.card.get("without_positives", ()))
        return tuple(column for column, name in enumerate(self.classes) if name in unseen)

    def _choose(self, decision: Decision) -> Chooser:
        """How a decision chooses labels; that of the last one is kept."""
        if self._chooser is None or self._chooser[0] is not decision:
            self._chooser = decision, Chooser(decision, len(self.classes))
        return self._chooser[1]

    @property
    def log_probabilities(self) -> bool:
        """Whether logits are logarithms of probabilities that sum to 1 over the classes."""
        return bool(self._classifier.top.scores == models.LOG_SOFTMAX)

    def columns(self, path: str, classes: tuple[str, ...]) -> npt.NDArray[np.int64]:
        """Column of the model for each class of a data set.

        Raises:
            InputError: The model does not know a class.
        """
        position = {name: column for column, name in enumerate(self.classes)}
        for name in classes:
            if name not in position:
                raise InputError(
                    f"{path}: has the class {name!r}, which the model in {self.folder} does not know. "
                    f"{nearest(name, position)}"
                )
        return np.asarray([position[name] for name in classes], np.int64)

    def logits(self, samples: Samples, engine: Engine) -> npt.NDArray[np.float32]:
        """Compute the logits (N, C) of samples.

        Raises:
            InputError: The samples have another kind or width than the model takes, or a setting is wrong.
        """
        return np.concatenate([logits for _, logits in self.logit_blocks(samples, engine)])

    def logit_blocks(
        self, samples: Samples, engine: Engine
    ) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]]:
        """Yield the numbers (B,) of consecutive samples and their logits (B, C).

        Raises:
            InputError: As for `logits`.
        """
        for batch in self.stream(samples.inputs, engine):
            for row, reason in batch.unreadable.items():
                raise SpmlError(
                    f"{samples.ids[row]}: {reason}. It could be read when the data was opened; do not change "
                    "the data during a run."
                )
            yield batch.rows, batch.logits

    def probabilities(self, logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Turn what `logits` returned into scores, float32 in [0, 1], as `Predictions` describes them."""
        return models.probabilities(logits, self._classifier.top.scores)

    @cached_property
    def calibration(self) -> Calibration | None:
        """Map from logits to probabilities, in thresholds.json; None where K is not known.

        Raises:
            InputError: The file is damaged, or of another model.
        """
        if not (self.folder / runfolder.THRESHOLDS).is_file() or self.thresholds is None:
            return None
        return self.thresholds.calibrated

    def calibrated(self, logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32] | None:
        """Calibrated probabilities of logits of any shape; None where K is not known."""
        return None if self.calibration is None else self.calibration(logits).astype(np.float32)


def _as_is(values: npt.NDArray[np.float32]) -> Any:
    return values


def _sparse(
    values: npt.NDArray[np.float32],
    rows: npt.NDArray[np.int64],
    columns: npt.NDArray[np.int64],
    shape: tuple[int, int],
) -> Any:
    """Sparse array of some values, which may be 0."""
    from scipy.sparse import csr_array

    order = np.lexsort((columns, rows))
    starts = np.searchsorted(rows, np.arange(shape[0] + 1))
    return csr_array((values[order], columns[order], starts), shape=shape)
