"""A trained run in Python: what its folder says, and what is done with its model."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from .. import models
from ..common.errors import InputError, SpmlError, nearest, quoted
from ..common.files import same_path
from ..common.label_checks import rows_of
from ..common.messages import log, progress
from ..common.notebook import SHOWN, Listing
from ..common.phrases import first_few
from ..config import Config, DataConfig
from ..config.read import typed
from ..data import Inputs, Samples, list_inputs, wanted_names
from ..data.images.image_files import ImageFiles, changed_since
from ..data.matrix import FeatureMatrix
from ..data.open import note_unreadable
from ..decisions import Calibration, Decision, Policy, Scale, logits_of, scores_of, threshold_at
from ..engine import find_device
from ..scores import ScoreBlocks, fits
from .decide.policies import read_thresholds
from .folder import layout as run_files
from .folder.contents import load_model, open_model, read_metrics, read_summary
from .headline import headline
from .inputs import labelled, unlabelled
from .network import Network, Transform
from .predict.batches import Batch, Engine, check_samples, predict_batches
from .predict.cluster import check_engine
from .predict.features import find_features
from .predict.predictions import Predictions, join_predictions
from .settle.conflicts import check_mean_labels

if TYPE_CHECKING:
    from ..export import Model
    from .evaluate import Evaluation

_SHOWN = 10  # classes that a remark names


class Run:
    """A trained model with its classes, its thresholds and the files of its folder.

    Files are read when they are first asked for.

    Args:
        folder: Folder of the run.
        classifier: Its model; None = loaded when it is first needed.
        card: Content of model.json.
        summary: Content of summary.json where it is known; None = to be read.

    Attributes:
        folder: Folder of the run.
        card: Content of model.json.
        name: Name in figures: the last part of the folder.
        classes: Class names, in the order of the columns of scores.
        global_logit: Logit at which the model predicted K labels per validation sample: one threshold for all
            classes, where `thresholds` is not used.
    """

    def __init__(
        self,
        folder: Path,
        classifier: models.Classifier | None,
        card: dict[str, Any],
        summary: dict[str, Any] | None = None,
    ) -> None:
        self.folder, self.card, self.name = folder, card, folder.resolve().name
        self.classes: tuple[str, ...] = tuple(card["classes"])
        self.global_logit = float(card["threshold"]["logit"])
        known = {"classifier": classifier, "summary": summary}
        self.__dict__ |= {name: value for name, value in known.items() if value is not None}

    def unread(self) -> Run:
        """The same run, whose files are read again, except those of the model."""
        return Run(self.folder, self.__dict__.get("classifier"), self.card)

    # -- what the folder says ----------------------------------------------------------------------------

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Content of summary.json.

        Raises:
            InputError: The file is missing or damaged.
        """
        return read_summary(self.folder)

    @cached_property
    def history(self) -> list[dict[str, Any]]:
        """Content of metrics.jsonl: what was measured in each epoch, or of each penalty or head.

        Raises:
            InputError: The file is missing or damaged.
        """
        return read_metrics(self.folder, self.__dict__.get("summary"))

    @cached_property
    def thresholds(self) -> Policy:
        """Thresholds of the classes, in thresholds.json.

        Raises:
            InputError: The file is missing, damaged, or of another model.
        """
        return read_thresholds(self.folder / run_files.THRESHOLDS, self.classes, self.weights_sha256)

    @cached_property
    def calibration(self) -> Calibration | None:
        """Map from logits to probabilities, in thresholds.json; None without that file, or if K is not known.

        Raises:
            InputError: The file is damaged, or of another model.
        """
        return self.thresholds.calibrated if (self.folder / run_files.THRESHOLDS).is_file() else None

    @cached_property
    def config(self) -> Config | None:
        """Settings of the training; None if the run does not record them."""
        return run_files.read_config(self.folder) if (self.folder / run_files.CONFIG).is_file() else None

    @property
    def settings(self) -> Config:
        """Settings of the training, for what can't do without them.

        Raises:
            InputError: The run does not record them.
        """
        if self.config is None:
            raise InputError(
                f"{self.folder / run_files.CONFIG}: is missing, so the settings of the run are not known. "
                "Name the folder of a run as `spml train` writes it."
            )
        return self.config

    @property
    def names(self) -> dict[str, str]:
        """Wanted names of classes by given ones, as in the training (`data.rename`)."""
        return wanted_names(self.config.data) if self.config else {}

    @property
    def decoding(self) -> dict[str, Any]:
        """Settings `decoder` and `draft` of the images in training; empty if they are not recorded."""
        return {name: getattr(self.config.data, name) for name in ("decoder", "draft")} if self.config else {}

    @property
    def trained_on(self) -> str:
        """Path of the training data as the user stated it; empty if the run does not record it."""
        return self.config.data.path if self.config else ""

    @property
    def weights_sha256(self) -> str:
        """SHA-256 of the weights."""
        return str(self.card["weights_sha256"])

    @property
    def identity(self) -> str:
        """Identity of the run, which its files state; empty if an earlier version trained it."""
        return str(self.card.get("run", ""))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features in the order of the training; empty if that data did not name them."""
        return tuple(self.card.get("feature_names", ()))

    @property
    def by_name(self) -> list[str]:
        """Classes without a known label that are predicted by their names alone."""
        names: list[str] = self.card.get("by_name", [])
        return names

    def _facts(self) -> dict[str, str]:
        """Description of the run, by headings; parts that its folder does not record are left out."""
        facts = {
            "folder": str(self.folder),
            "data": self.trained_on,
            "method": self.card["method"]["name"],
            "model": f"{'features' if self.spec.name == 'none' else self.spec.name}, "
            f"head {self.card['top']['head']}",
            "classes": f"{len(self.classes)} ({first_few(self.classes, 5)})",
        }
        if not (self.folder / run_files.SUMMARY).is_file() and self.config and self.config.data.classes:
            return {**facts, "validation": "no label is known yet"}
        try:
            score = headline(self.summary)
            facts["validation"] = f"{'mAP' if score.full else 'held-out score'} {score.shown}"
            facts["thresholds"] = self.thresholds.describe()
        except SpmlError as error:  # damaged files must not hide the run
            facts["damaged"] = str(error)
        return {heading: text for heading, text in facts.items() if text}

    def __repr__(self) -> str:
        facts = self._facts()
        rest = [facts[key] for key in ("method", "model", "validation") if key in facts]
        return f"Run({facts['folder']!r}: {', '.join([*rest, f'{len(self.classes)} classes'])})"

    def _repr_html_(self) -> str:
        return Listing(f"Run {self.name}", ("", ""), list(self._facts().items())).html()

    # -- the model ---------------------------------------------------------------------------------------

    @cached_property
    def classifier(self) -> models.Classifier:
        """The model.

        Raises:
            InputError: A file of it is missing or damaged.
        """
        return load_model(self.folder)[0]

    @cached_property
    def _outline(self) -> models.Outline:
        if "classifier" in self.__dict__:
            return models.Outline.of(self.classifier)
        return open_model(self.folder)[0]

    @property
    def spec(self) -> models.BackboneSpec:
        """Backbone, and how images are prepared for it."""
        return self._outline.spec

    @property
    def scale(self) -> Scale:
        """How scores follow from logits; `exp` where these are log-probabilities over the classes."""
        return self._outline.scale

    @property
    def locates(self) -> bool:
        """Whether the model scores windows, so that it can tell where in an image a label is."""
        return bool(len(self.places))

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
        return Transform(self.spec.size, self.spec.interpolation) if self.spec.size else None

    @property
    def text_columns(self) -> str:
        """Columns of tables that hold the texts which the model takes; empty if it takes none.

        Raises:
            InputError: It does, but the run does not record its settings.
        """
        return self.settings.data.text if self.spec.kind == "text" else ""

    def check_windows(self) -> None:
        """Check that the model can tell where in an image a label is.

        Raises:
            InputError: It scores images as a whole, or takes features.
        """
        if not (self.spec.size and self.locates):
            whole = "images as a whole" if self.spec.size else "features"
            raise InputError(
                f"the model in {self.folder} scores {whole}, so it can't tell where a label is: train one "
                "that scores windows of images, too (spml train --local on)."
            )

    @property
    def places(self) -> npt.NDArray[np.float32]:
        """Windows of a model that scores them, as `Windows.places` gives them; empty of another."""
        return self._outline.places

    def words_for(self, text: str, classes: Sequence[str], most: int = 8) -> list[list[str]]:
        """Terms of a text that speak most for some classes, of a model on TF-IDF; empty lists of another.

        A term counts by its value times the derivative of the logit, in a linear head its summand; those that
        do not raise the logit are left out.
        """
        network, found = self.classifier.backbone.network, []
        if not isinstance(network, models.Tfidf):
            return [[] for _ in classes]
        vector = torch.from_numpy(network.vectors([text]).toarray()).requires_grad_()
        logits = self.classifier.top(vector).logits[0]
        for column in rows_of(self.classes, classes).tolist():
            (gradient,) = torch.autograd.grad(logits[column], vector, retain_graph=True)
            summands = (gradient * vector)[0].detach()
            order = summands.argsort(descending=True)[:most].tolist()
            found.append([network.terms[term] for term in order if summands[term] > 0])
        return found

    # -- from logits to labels ---------------------------------------------------------------------------

    @property
    def cuts(self) -> tuple[float, ...]:
        """Logit from which on each class is predicted. Classes that are predicted by name alone, of which no
        threshold can be estimated, have the one at which all classes together have K labels per sample."""
        pairs, own = zip(self.classes, self.thresholds.logits, strict=True), set(self.by_name)
        return tuple(self.global_logit if name in own else cut for name, cut in pairs)

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
        mean_labels = typed(mean_labels, float | None, "mean_labels")
        threshold, top_k = typed(threshold, float | None, "threshold"), typed(top_k, int, "top_k")
        thresholds = typed(thresholds, float | str | None, "thresholds")
        options = {"mean_labels": mean_labels, "threshold": threshold, "thresholds": thresholds}
        stated = [name for name, value in options.items() if value is not None]
        if len(stated) > 1:
            raise InputError(f"pass {stated[0]} or {stated[1]}, not both")
        cut: float | tuple[float, ...] | None = None
        if mean_labels is not None:
            check_mean_labels(mean_labels, len(self.classes))
            cut = threshold_at(self.card["threshold"]["curve"], mean_labels)
        elif thresholds == "global":
            cut = self.global_logit
        elif stated:
            try:
                score = float(threshold if thresholds is None else thresholds)  # type: ignore[arg-type]
            except (TypeError, ValueError):
                path = Path(str(thresholds))
                cut = read_thresholds(path, self.classes, self.weights_sha256).logits
            else:
                if not 0 < score < 1:
                    raise InputError(f"a threshold must be between 0 and 1, as scores are, got {score:g}")
                cut = float(logits_of(score, self.scale))
        elif not top_k:
            cut = self.cuts
        unseen = set(self.card["without_positives"])
        never = tuple(column for column, name in enumerate(self.classes) if name in unseen)
        return Decision(cut, top_k, top1_fallback, never)

    def probabilities(self, logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Turn what `logits` returned into scores, float32 in [0, 1], as `Predictions` describes them."""
        return np.asarray(scores_of(logits, self.scale), np.float32)

    def calibrated(self, logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32] | None:
        """Calibrated probabilities of logits of any shape; None where K is not known."""
        return None if self.calibration is None else self.calibration(logits).astype(np.float32)

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
        ends = pairwise(np.searchsorted(rows, np.arange(len(logits) + 1)).tolist())
        names, spans = [self.classes[column] for column in columns.tolist()], list(ends)
        where = None
        if batch.windows is not None:
            places = self.places[batch.windows[rows, columns]].tolist()
            where = [places[a:b] for a, b in spans]
        chosen = logits[rows, columns] if sparse else logits
        scores: Any = self.probabilities(chosen)
        probabilities: Any = self.calibrated(chosen)
        if sparse:
            from scipy.sparse import csr_array

            scores = csr_array((scores, (rows, columns)), logits.shape)
            if probabilities is not None:
                probabilities = csr_array((probabilities, (rows, columns)), logits.shape)
        return Predictions(
            tuple(ids[row] for row in batch.rows.tolist()),
            self.classes,
            scores,
            [names[a:b] for a, b in spans],
            probabilities=probabilities,
            where=where,
        )

    def notes(self, ids: Sequence[str], skipped: dict[int, str]) -> tuple[str, ...]:
        """Remarks on images that were left out, and on classes of which no training sample is known.

        Raises:
            InputError: All images were left out.
        """
        unseen = {"Never predicted": self.card["without_positives"], "Predicted by name alone": self.by_name}
        return (
            *note_unreadable(ids, skipped),
            *(
                f"{how}, because no training sample had it: {first_few(names, _SHOWN)}."
                for how, names in unseen.items()
                if names
            ),
        )

    # -- from samples to logits --------------------------------------------------------------------------

    def list_inputs(self, paths: Sequence[str], images: str | None = None) -> tuple[Sequence[str], Inputs]:
        """Find samples to predict, as `spml.data.list_inputs` does, and prepare them for the backbone.

        Raises:
            InputError: A path is missing or nothing is found.
        """
        spec, config = self.spec, DataConfig(images=images, text=self.text_columns)
        return list_inputs(paths, config, size=spec.size, interpolation=spec.interpolation, report=log.info)

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
        device = find_device(engine.device)
        model, done = self.classifier.to(device), start
        with ExitStack() as stack:
            kept = None
            if not (model.locates or model.sizes):  # what several sizes need, and windows, is not kept
                kept = find_features(self.folder, self.config, model.backbone, inputs, engine.cache)
            if kept:
                stack.enter_context(kept.store)
            advance = stack.enter_context(progress(len(inputs), "predicting"))
            advance(start)
            for batch in predict_batches(model, inputs, device, engine, start=start, kept=kept, where=where):
                advance(batch.end - done)
                done = batch.end
                yield batch

    def columns(self, path: str, classes: tuple[str, ...]) -> npt.NDArray[np.int64]:
        """Column of the model for each class of a data set.

        Raises:
            InputError: The model does not know a class.
        """
        columns = rows_of(self.classes, classes)
        if len(unknown := np.flatnonzero(columns < 0)):
            name = classes[unknown[0]]
            others = f" (and {len(unknown) - 1} more)" if len(unknown) > 1 else ""
            raise InputError(
                f"{path}: has the class {name!r}{others}, which the model in {self.folder} does not know. "
                f"{nearest(name, self.classes)} To leave such classes out, give them an empty name in "
                f"data.rename: data.rename={{{name!r}: ''}}."
            )
        return columns

    def scores(self, samples: Samples, engine: Engine) -> ScoreBlocks:
        """Logits (N, C) of samples, which are computed again whenever they are looked at.

        Raises:
            InputError: As for `logits`, when they are computed.
        """

        def compute(columns: npt.NDArray[np.int64] | None) -> Iterator[npt.NDArray[np.float32]]:
            for batch in self.stream(samples.inputs, engine):
                for row, reason in batch.unreadable.items():
                    raise changed_since(samples.ids[row], reason)
                yield batch.logits if columns is None else batch.logits[:, columns]

        return ScoreBlocks(len(samples), len(self.classes), compute)

    def logits(self, samples: Samples, engine: Engine) -> npt.NDArray[np.float32]:
        """Compute the logits (N, C) of samples.

        Raises:
            InputError: The samples have another kind or width than the model takes, or a setting is wrong.
        """
        return np.asarray(self.scores(samples, engine).gather(), np.float32)

    # -- what users call ---------------------------------------------------------------------------------

    def predict(
        self,
        samples: Any,
        *,
        batch_size: int = 64,
        workers: int = -1,
        device: str = "auto",
        cache: str | None = None,
        engine: str = "local",
        address: str = "",
        where: bool = False,
        **decision: Any,
    ) -> Predictions:
        """Predict scores and labels of images, feature vectors or texts, in files or in memory.

        Args:
            samples: One path or several: images, folders of images (searched recursively), tables (CSV, TSV,
                Parquet) with a column of file names, or one feature file; for a model of texts, a table of
                them, or a text or several. Or samples in memory, as in `spml.train`; the labels of a data set
                of PyTorch are ignored. Or a single one: a PIL image, a uint8 array (H, W, 3) or tensor (3, H,
                W), a feature vector (D,), or a row of a DataFrame.
            batch_size: Samples per step.
            workers: Number of processes that decode images; -1 = one per core, at most 8, or none for images
                in memory.
            device: `auto`, `cpu`, `cuda` or `mps`.
            cache: Folder for the features of a frozen backbone, or `none` to keep none; None = where the run
                keeps those of its training samples.
            engine: `local`, or `ray` to compute on the machines of a Ray cluster, which gives the same
                numbers. Images in memory must be one array then.
            address: Address of the Ray cluster (`HOST:PORT`); empty = start Ray on this machine.
            where: Find the window of each image that speaks most for each label, too.
            decision: Arguments of `decision`, such as `top_k=3`.

        Returns:
            Predictions; for so many samples and classes that not all scores fit into the memory, with those
            of the predicted labels, as a sparse array.

        Raises:
            InputError: A path is missing, nothing can be read, the samples are of a type that is not
                understood, or features have another width; or the model does not score windows, but `where`
                asks for them.
        """
        decide, left_out, skipped = self.decision(**decision), list[str](), dict[int, str]()
        ids, inputs, in_memory = unlabelled(samples, self.spec, self.text_columns, left_out.append)
        workers = 0 if in_memory and workers < 0 else workers
        computing = Engine(batch_size, workers, device, cache, check_engine(engine, address))
        sparse = not fits(len(ids), len(self.classes))
        parts: list[Predictions] = []
        for batch in self.stream(inputs, computing, where=where):
            parts.append(self.labelled(ids, batch, decide, sparse=sparse))
            skipped |= batch.unreadable
        notes = (*left_out, *self.notes(ids, skipped))
        first = inputs.take([row for row in range(len(ids)) if row not in skipped][:SHOWN])
        return replace(join_predictions(parts, notes), first=first)

    def predict_batches(
        self,
        samples: Any,
        *,
        sparse: bool = False,
        batch_size: int = 64,
        workers: int = -1,
        device: str = "auto",
        cache: str | None = None,
        engine: str = "local",
        address: str = "",
        where: bool = False,
        **decision: Any,
    ) -> Iterator[Predictions]:
        """Predict batch by batch, so that memory does not grow with the number of samples.

        Args:
            samples: As in `predict`.
            sparse: Compute scores and probabilities of the predicted labels only, as in `Predictions.scores`.
            batch_size, workers, device, cache, engine, address, where: As in `predict`. A batch has fewer
                samples where it would have more than 2^26 scores.
            decision: Arguments of `decision`, such as `top_k=3`.

        Yields:
            Predictions of the next samples, without notes. Images that can't be read are left out.

        Raises:
            InputError: As for `predict`.
        """
        decide = self.decision(**decision)
        ids, inputs, in_memory = unlabelled(samples, self.spec, self.text_columns)
        workers = 0 if in_memory and workers < 0 else workers
        computing = Engine(batch_size, workers, device, cache, check_engine(engine, address))
        for batch in self.stream(inputs, computing, where=where):
            yield self.labelled(ids, batch, decide, sparse=sparse)

    def evaluate(self, data: Any, y: Any = None, *, observed: bool = False, **options: Any) -> Evaluation:
        """Compute metrics on labelled data: full-label metrics if it is fully labelled, else the SP-score.

        Args:
            data: Path of the data, a complete `DataConfig`, or samples in memory, as in `spml.train`.
                Whether the model has learned from these is not checked.
            y: Labels of samples in memory, as in `spml.train`.
            observed: Judge by observed labels alone, even if true labels are available.
            options: Arguments of `decision`, by which labels are predicted on fully labelled data, such as
                `top_k=3`; arguments of `spml.compare`, such as `split="val"` or `mean_labels=2`; and fields
                of `DataConfig`, such as `unlisted="negative"`.

        Returns:
            A dict that can be written as JSON. Metrics lie in [0, 1]; SP and A exceed 1 where a model does
            better than K allows for.

        Raises:
            InputError: The data can't be read, has no such split, has a class that the model does not know,
                or has no known positive label where it is not fully labelled; or the decision does not suit.
        """
        from .evaluate import compare, of_one

        of_decision = {"threshold", "top_k", "top1_fallback", "thresholds"} & options.keys()
        decision = {name: options.pop(name) for name in sorted(of_decision)}
        return of_one(
            compare([self], data, y, observed=observed, decision=decision, intervals=False, **options)
        )

    def set_thresholds(
        self,
        data: Any = None,
        y: Any = None,
        *,
        classes: Sequence[str] | None = None,
        target: str = "f1",
        per_class: bool = False,
        audit: str | Path | None = None,
        mean_labels: float | None = None,
        batch_size: int = 64,
        workers: int = -1,
        device: str = "auto",
        **settings: Any,
    ) -> Policy:
        """Decide thresholds and probabilities again, and write them to thresholds.json and thresholds.png.

        Args:
            data: Samples with observed labels that decide, named by their path or in memory; None, or the
                path of the training data, for the held-out scores that the run has kept. Feature vectors in
                memory count as new: name none that the model has learned from.
            y, classes: As in `spml.train`.
            target: `f1` (the best of each class), `labels` (K labels per sample, by one threshold),
                `precision=0.9` or `recall=0.8`.
            per_class: Reach a precision or recall in each class.
            audit: Randomly chosen, fully labelled samples, from which K, class priors and probabilities are
                estimated.
            mean_labels: Mean labels per sample K.
            batch_size, workers, device: As in `predict`.
            settings: Fields of `DataConfig`, for example `images="photos"`.

        Returns:
            The thresholds, which `thresholds` holds from now on.

        Raises:
            InputError: K is not known, a file does not suit, or a precision is not reached.
        """
        from ..decisions import read_target
        from .decide.set_thresholds import set_thresholds

        config, records = None, None
        if data is not None:
            config, records = labelled(
                data,
                y,
                settings,
                classes=classes,
                known=self.classes,
                names=self.names,
                text=self.text_columns,
            )
        policy = set_thresholds(
            self,
            config,
            read_target(target, per_class=per_class),
            audit=None if audit is None else Path(audit),
            images=config.images if config is not None else settings.get("images"),
            mean_labels=mean_labels,
            engine=Engine(batch_size, workers, device),
            records=records,
        )
        self.__dict__ |= {"thresholds": policy, "calibration": policy.calibrated}
        return policy

    def export(
        self,
        output: str | Path | None = None,
        *,
        format: str = "onnx",
        overwrite: bool = False,
    ) -> Path:
        """Export the model with its preparation of images, its thresholds and its probabilities.

        Args:
            output: File or folder to write; None = in the folder `export` of the run.
            format: `onnx`, `torch-export`, `safetensors-hf`, or one that an installed package registers.
            overwrite: Replace an output that exists.

        Returns:
            The file or folder that was written.

        Raises:
            InputError: The output exists or can't be written, a package is missing, or the format can't
                express a part of the model.
            SpmlError: What was exported computes something else than the model, so nothing was written.
        """
        from ..export import check_export, write_export

        chosen = None if output is None else Path(output)
        check_export(self.folder, format, chosen, overwrite=overwrite)
        return write_export(exportable(self), format, chosen, overwrite=overwrite)


def load(folder: str | Path, *, backbone: nn.Module | None = None) -> Run:
    """Load a trained run from its folder.

    Args:
        folder: Folder of the run.
        backbone: Network of your own with which the run was trained; the run has its weights, but no code. It
            is copied. None where the backbone has a name.

    Raises:
        InputError: The folder holds no finished run, its files are damaged, or `backbone` is missing, not
            needed, or another network than that of the training.
    """
    if not isinstance(folder, (str, os.PathLike)):
        raise InputError(f"load needs the folder of a run, as text or a path, got {quoted(folder)}.")
    network = None if backbone is None else models.OwnNetwork(backbone)
    with models.at_hand(network):
        classifier, card = load_model(Path(folder))
    if network is not None and not network.used:
        raise InputError(
            f"{folder}: its backbone is {classifier.spec.name}, which needs no network of yours: leave out "
            "backbone."
        )
    return Run(Path(folder), classifier, card)


def open_run(folder: str | Path) -> Run:
    """Open a trained run as `load` does; a network that has a name is loaded when it is first needed.

    Raises:
        InputError: The folder holds no finished run, or model.json is damaged.
    """
    outline, card = open_model(Path(folder))
    return load(folder) if outline.spec.is_own else Run(Path(folder), None, card)


def load_each(runs: Sequence[Run | str | Path]) -> list[Run]:
    """Runs from their folders, which are named once each."""
    loaded: list[Run] = []
    for run_or_folder in runs:
        run = run_or_folder if isinstance(run_or_folder, Run) else load(run_or_folder)
        if any(same_path(run.folder, other.folder) for other in loaded):
            raise InputError(f"{run.folder}: is named twice; name each run once.")
        loaded.append(run)
    return loaded


def exportable(run: Run) -> Model:
    """Model of a run as exporters take it.

    Raises:
        InputError: A file of the run is missing or damaged.
    """
    from ..export import Model

    thresholds = list(run.cuts)
    for column in run.decision().never:
        thresholds[column] = math.inf
    classifier = run.classifier.cpu()  # predictions leave it on the device that they are computed on
    coded = (models.GaussianPerClassHead, models.QueryHead)
    if any(isinstance(part, coded) and part.codes_in_evaluation for part in classifier.modules()):
        classifier = copy.deepcopy(classifier)
        for part in classifier.modules():
            if isinstance(part, coded):
                part.codes_in_evaluation = 0  # what is exported repeats itself
    return Model(
        folder=run.folder,
        classifier=classifier,
        # No format can express how texts become features.
        network=Network(classifier.top if run.spec.kind == "text" else classifier).eval(),
        classes=run.classes,
        thresholds=tuple(thresholds),
        calibration=run.calibration,
        policy=run.thresholds,
        card=run.card,
        summary=run.summary if (run.folder / run_files.SUMMARY).is_file() else None,
    )
