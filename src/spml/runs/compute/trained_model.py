"""A trained model in its folder: from samples to logits, from logits to labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ... import models
from ...common.errors import InputError, nearest
from ...common.label_checks import rows_of
from ...config import DataConfig
from ...data import Inputs, Samples, list_inputs
from ...data.images.image_files import ImageFiles, changed_since
from ...data.matrix import FeatureMatrix
from ...data.open import note_unreadable
from ...decisions import Decision, Scale, logits_of, scores_of, threshold_at
from ...engine import find_device
from ...scores import ScoreBlocks
from ..decide.policies import read_thresholds
from ..network import Network, Transform, speaking_terms
from ..settle.conflicts import check_mean_labels
from .features import find_features
from .predict import Batch, Engine, check_samples, predict_batches
from .predictions import Predictions
from .run_records import RunRecords

GLOBAL = "global"
"""One threshold for all classes, in place of thresholds.json."""

_SHOWN = 10
"""Classes that a remark names."""


class TrainedModel(RunRecords):
    """The part of `spml.Run` that computes logits and labels, without what needs other runs.

    Attributes:
        classifier: The model.
    """

    def __init__(self, folder: Path, classifier: models.Classifier, card: dict[str, Any]) -> None:
        super().__init__(folder, card)
        self.classifier = classifier

    @cached_property
    def model(self) -> Network:
        """Network from prepared images or features to logits (B, C), in evaluation mode on the CPU.

        `predict` uses the same parameters, and leaves them on the device that it computes on.
        """
        return Network(self.classifier).eval()

    @cached_property
    def located(self) -> models.Located:
        """Network from prepared images to logits and windows (B, 2 C), of a model that scores windows."""
        return models.Located(self.classifier).eval()

    @property
    def transform(self) -> Transform | None:
        """Prepares an image of Pillow for `model`; None where the model takes features."""
        spec = self.spec
        return Transform(spec.size, spec.interpolation) if spec.size else None

    @property
    def text_columns(self) -> str:
        """Columns of tables that hold the texts which the model takes; empty if it takes none.

        Raises:
            InputError: It does, but the run does not record its settings.
        """
        return self.settings.data.text if self.spec.kind == "text" else ""

    @property
    def spec(self) -> models.BackboneSpec:
        """Backbone, and how images are prepared for it."""
        return self.classifier.spec

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
        spec, config = self.spec, DataConfig(images=images, text=self.text_columns)
        return list_inputs(paths, config, size=spec.size, interpolation=spec.interpolation, report=report)

    def stream(
        self, inputs: Inputs, engine: Engine, start: int = 0, *, where: bool = False
    ) -> Iterator[Batch]:
        """Compute logits batch by batch, and look up the features of a frozen backbone.

        Args:
            inputs: Samples. Image files need not have been checked, and are decoded as in training.
            engine: Settings of prediction.
            start: First sample, a multiple of the batch size.
            where: Find the window of the image that speaks most for each class, too.

        Raises:
            InputError: The samples have another kind, width or order of named features than the model takes,
                or a setting is wrong; or the model does not score windows, but `where` asks for them.
        """
        engine.check()
        if where:
            self.check_windows()
        if isinstance(inputs, ImageFiles) and self.decoding:
            inputs = replace(inputs, **self.decoding)
        check_samples(self.folder, self.classifier, inputs, self.feature_names)
        if isinstance(inputs, FeatureMatrix) and self.classifier.top.local:
            inputs = inputs.by_part()
        console = engine.display
        device = find_device(engine.device)
        model = self.classifier.to(device)
        with ExitStack() as stack:
            kept = None
            if not model.top.local:  # windows need the maps, which are not kept
                kept = find_features(
                    self.folder, self.config, model.backbone, inputs, engine.cache, console.line
                )
            if kept:
                stack.enter_context(kept.store)
            advance = stack.enter_context(console.progress(len(inputs), "predicting"))
            advance(start)
            done = start
            for batch in predict_batches(model, inputs, device, engine, start=start, kept=kept, where=where):
                advance(batch.end - done)
                done = batch.end
                yield batch

    def check_windows(self) -> None:
        """Check that the model can tell where in an image a label is.

        Raises:
            InputError: It scores images as a whole, or takes features.
        """
        if not self.spec.size:
            raise InputError(f"the model in {self.folder} takes features, which have no place in an image.")
        if not self.classifier.top.local:
            raise InputError(
                f"the model in {self.folder} scores images as a whole, so it can't tell where a label is: "
                "train one that scores windows of them, too (spml train --local on)."
            )

    @cached_property
    def places(self) -> npt.NDArray[np.float32]:
        """Windows of a model that scores them, as `Windows.places` gives them."""
        local = self.classifier.top.local
        assert local is not None
        return local.settings.windows.places()

    def words_for(self, text: str, classes: Sequence[str], most: int = 8) -> list[list[str]]:
        """Terms of a text that speak most for some classes, of a model on TF-IDF; empty lists of another.

        A term counts by its value times the derivative of the logit, in a linear head its summand; those that
        do not raise the logit are left out.
        """
        columns = rows_of(self.classes, classes).tolist()
        return speaking_terms(self.classifier, text, columns, most)

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
        rows, columns = decision.choose(logits)
        starts = np.searchsorted(rows, np.arange(len(logits) + 1))
        names = [self.classes[column] for column in columns.tolist()]
        where = None
        if batch.windows is not None:
            places = self.places[batch.windows[rows, columns]].tolist()
            where = [places[a:b] for a, b in pairwise(starts.tolist())]
        chosen = logits[rows, columns] if sparse else logits
        scores: Any = self.probabilities(chosen)
        probabilities: Any = self.calibrated(chosen)
        if sparse:
            from scipy.sparse import csr_array

            entries = rows, columns
            scores = csr_array((scores, entries), logits.shape)
            if probabilities is not None:
                probabilities = csr_array((probabilities, entries), logits.shape)
        return Predictions(
            tuple(ids[row] for row in batch.rows.tolist()),
            self.classes,
            scores,
            [names[a:b] for a, b in pairwise(starts.tolist())],
            probabilities=probabilities,
            label_columns=columns,
            where=where,
        )

    def notes(self, ids: Sequence[str], skipped: dict[int, str]) -> tuple[str, ...]:
        """Remarks on images that were left out, and on classes of which no training sample is known.

        Raises:
            InputError: All images were left out.
        """
        unseen = []
        for how, some in (
            ("Never predicted", self.card["without_positives"]),
            ("Predicted by name alone", self.by_name),
        ):
            if some:
                more = f" and {len(some) - _SHOWN:,} more" if len(some) > _SHOWN else ""
                unseen.append(f"{how}, because no training sample had it: {', '.join(some[:_SHOWN])}{more}.")
        return (*note_unreadable(ids, skipped), *unseen)

    @property
    def by_name(self) -> list[str]:
        """Classes without a known label that are predicted by their names alone."""
        names: list[str] = self.card.get("by_name", [])
        return names

    @property
    def cuts(self) -> tuple[float, ...]:
        """Logit from which on each class is predicted. Classes that are predicted by name alone, of which no
        threshold can be estimated, have the one at which all classes together have K labels per sample."""
        own, common = set(self.by_name), self.card["threshold"]["logit"]
        return tuple(
            common if name in own else cut
            for name, cut in zip(self.classes, self.thresholds.logits, strict=True)
        )

    def decision(
        self,
        *,
        mean_labels: float | None = None,
        threshold: float | None = None,
        top_k: int = 0,
        top1_fallback: bool = False,
        thresholds: str | Path | float | None = None,
    ) -> Decision:
        """Rule that turns logits into labels; by default, by the threshold of each class in `thresholds`.

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
        options = {"mean_labels": mean_labels, "threshold": threshold, "thresholds": thresholds}
        stated = [f"{name}" for name, value in options.items() if value is not None]
        if len(stated) > 1:
            raise InputError(f"pass {stated[0]} or {stated[1]}, not both")
        cut: float | tuple[float, ...] | None
        if mean_labels is not None:
            check_mean_labels(mean_labels, len(self.classes))
            cut = threshold_at(self.card["threshold"]["curve"], mean_labels)
        elif threshold is not None:
            cut = self._logit(threshold)
        elif thresholds is not None:
            cut = self._stated_cut(thresholds)
        elif top_k:
            cut = None
        else:
            cut = self.cuts
        unseen = set(self.card["without_positives"])
        never = tuple(column for column, name in enumerate(self.classes) if name in unseen)
        return Decision(cut, top_k, top1_fallback, never)

    def _stated_cut(self, thresholds: str | Path | float) -> float | tuple[float, ...]:
        """Logit that `--thresholds` states, for all classes or for each."""
        if thresholds == GLOBAL:
            return self.global_logit
        try:
            score = float(thresholds)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return read_thresholds(Path(str(thresholds)), self.classes, self.weights_sha256).logits
        return self._logit(score)

    def _logit(self, score: float) -> float:
        """Turn a score as in `Predictions.scores` into the logit that it was computed from."""
        if not 0 < score < 1:
            raise InputError(f"a threshold must be between 0 and 1, as scores are, got {score:g}")
        return float(logits_of(score, self.scale))

    @property
    def scale(self) -> Scale:
        """How scores follow from logits; `exp` where these are log-probabilities over the classes."""
        return self.classifier.top.scale

    def columns(self, path: str, classes: tuple[str, ...]) -> npt.NDArray[np.int64]:
        """Column of the model for each class of a data set.

        Raises:
            InputError: The model does not know a class.
        """
        columns = rows_of(self.classes, classes)
        if (columns < 0).any():
            name = classes[int(columns.argmin())]
            raise InputError(
                f"{path}: has the class {name!r}, which the model in {self.folder} does not know. "
                f"{nearest(name, self.classes)}"
            )
        return columns

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
                raise changed_since(samples.ids[row], reason)
            yield batch.rows, batch.logits

    def scores(self, samples: Samples, engine: Engine) -> ScoreBlocks:
        """Logits (N, C) of samples, which are computed again whenever they are looked at.

        Raises:
            InputError: As for `logits`, when they are computed.
        """

        def compute(columns: npt.NDArray[np.int64] | None) -> Iterator[npt.NDArray[np.float32]]:
            for _, logits in self.logit_blocks(samples, engine):
                yield logits if columns is None else logits[:, columns]

        return ScoreBlocks(len(samples), len(self.classes), compute)

    def probabilities(self, logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Turn what `logits` returned into scores, float32 in [0, 1], as `Predictions` describes them."""
        return np.asarray(scores_of(logits, self.scale), np.float32)

    def calibrated(self, logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32] | None:
        """Calibrated probabilities of logits of any shape; None where K is not known."""
        return None if self.calibration is None else self.calibration(logits).astype(np.float32)
