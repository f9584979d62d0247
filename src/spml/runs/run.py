"""A trained run in Python: predict, evaluate, decide."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from ..common.errors import SpmlError, require_packages
from ..common.phrases import first_few
from ..decisions import Policy, read_target
from ..export import Model, check_export, write_export
from ..metrics import FEWEST_SHOWN, shown_score
from ..models import GaussianPerClassHead, QueryHead
from ..scores import fits
from .compute.cluster.connection import check_engine
from .compute.predict import Engine
from .compute.predictions import Predictions
from .compute.trained_model import TrainedModel
from .console import Console
from .decide.set_thresholds import set_thresholds
from .folder import layout as run_files
from .inputs import labelled, unlabelled
from .judge.common_classes import UnknownClasses
from .judge.evaluate import evaluate, of_one
from .network import HeadNetwork


class Run(TrainedModel):
    """A trained model with its classes and its thresholds.

    Attributes:
        folder: Folder of the run.
        classes: Class names, in the order of the columns of scores.
        global_logit: Logit at which the model predicted K labels per validation sample: one threshold for all
            classes, where `thresholds` is not used.
        card: Content of model.json.
    """

    def history_frame(self) -> Any:
        """The history as a DataFrame of pandas.

        Raises:
            InputError: The file is missing or damaged, or pandas is not installed.
        """
        require_packages("tables", "pandas")
        import pandas

        return pandas.DataFrame(self.history)

    def __repr__(self) -> str:
        facts = _describe(self)
        rest = [facts[key] for key in ("method", "model", "validation") if key in facts]
        return f"Run({facts['folder']!r}: {', '.join([*rest, f'{len(self.classes)} classes'])})"

    def _repr_html_(self) -> str:
        """Lay out a table for a notebook."""
        rows = (
            f"<tr><th style='text-align:left'>{escape(heading)}</th>"
            f"<td style='text-align:left'>{escape(text)}</td></tr>"
            for heading, text in _describe(self).items()
        )
        return f"<table>{''.join(rows)}</table>"

    def predict(
        self,
        samples: Any,
        *,
        batch_size: int = 64,
        workers: int = -1,
        device: str = "auto",
        console: Console | None = None,
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
            console: Shows progress; None = no progress is shown.
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
        decide = self.decision(**decision)
        left_out: list[str] = []
        ids, inputs, in_memory = unlabelled(samples, self.spec, self.text_columns, left_out.append)
        workers = 0 if in_memory and workers < 0 else workers
        computing = Engine(batch_size, workers, device, console, cache, check_engine(engine, address))
        sparse = not fits(len(ids), len(self.classes))
        parts: list[Predictions] = []
        skipped: dict[int, str] = {}
        for batch in self.stream(inputs, computing, where=where):
            parts.append(self.labelled(ids, batch, decide, sparse=sparse))
            skipped |= batch.unreadable
        return _join(parts, sparse=sparse, notes=(*left_out, *self.notes(ids, skipped)))

    def predict_batches(
        self,
        samples: Any,
        *,
        sparse: bool = False,
        batch_size: int = 64,
        workers: int = -1,
        device: str = "auto",
        console: Console | None = None,
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
            batch_size, workers, device, console, cache, engine, address, where: As in `predict`. A batch has
                fewer samples where it would have more than 2^26 scores.
            decision: Arguments of `decision`, such as `top_k=3`.

        Yields:
            Predictions of the next samples, without notes. Images that can't be read are left out.

        Raises:
            InputError: As for `predict`.
        """
        decide = self.decision(**decision)
        ids, inputs, in_memory = unlabelled(samples, self.spec, self.text_columns)
        workers = 0 if in_memory and workers < 0 else workers
        computing = Engine(batch_size, workers, device, console, cache, check_engine(engine, address))
        for batch in self.stream(inputs, computing, where=where):
            yield self.labelled(ids, batch, decide, sparse=sparse)

    def export(
        self,
        output: str | Path | None = None,
        *,
        format: str = "onnx",
        variant: str = "float32",
        overwrite: bool = False,
        console: Console | None = None,
    ) -> Path:
        """Export the model with its preparation of images, its thresholds and its probabilities.

        Args:
            output: File or folder to write; None = in the folder `export` of the run.
            format: `onnx`, `torch-export`, `safetensors-hf`, or one that an installed package registers.
            variant: Type of the numbers of the backbone: `float32`, or `float16` or `int8` for `onnx`.
            overwrite: Replace an output that exists.
            console: Shows remarks; None = none are shown.

        Returns:
            The file or folder that was written.

        Raises:
            InputError: The output exists or can't be written, a package is missing, or the format can't
                express a part of the model.
            SpmlError: What was exported computes something else than the model, so nothing was written.
        """
        chosen = None if output is None else Path(output)
        check_export(self.folder, format, chosen, variant=variant, overwrite=overwrite)
        return write_export(exportable(self), format, chosen, variant=variant, overwrite=overwrite)

    def evaluate(
        self,
        data: Any,
        y: Any = None,
        *,
        classes: Sequence[str] | None = None,
        groups: Sequence[Any] | None = None,
        split: str = "test",
        observed: bool = False,
        mean_labels: float | None = None,
        threshold: float | None = None,
        top_k: int = 0,
        top1_fallback: bool = False,
        thresholds: str | Path | float | None = None,
        unknown_classes: UnknownClasses = "stop",
        batch_size: int = 64,
        workers: int = 0,
        device: str = "auto",
        console: Console | None = None,
        **settings: Any,
    ) -> dict[str, Any]:
        """Compute metrics on labelled data: full-label metrics if it is fully labelled, else the SP-score.

        Args:
            data: Path of the data, a complete `DataConfig`, or samples in memory, as in `spml.train`.
                Whether the model has learned from these is not checked.
            y: Labels of samples in memory, as in `spml.train`.
            classes: Class names, in the order of the indices or columns of `y`; None = those of the model.
            groups: Group of each sample in memory, as in `spml.train`, for intervals.
            split: `train`, `val` or `test`; samples in memory are all in `test`.
            observed: Judge by observed labels alone, even if true labels are available.
            mean_labels: Mean labels per sample K of the SP-score; if None, as the run knows it, otherwise 2,
                or half of fewer than 4 classes. On fully labelled data, as in `decision`.
            threshold, top_k, top1_fallback, thresholds: How labels are predicted on fully labelled data, as
                in `decision`.
            unknown_classes: What to do about classes of the data that the model does not know: `stop`, or
                `leave_out` to evaluate over the others; `left_out` in the result says what was left out.
            batch_size, workers, device, console: As in `predict`.
            settings: Fields of `DataConfig`, for example `unlisted="negative"`.

        Returns:
            A dict that can be written as JSON. Metrics lie in [0, 1]; SP and A exceed 1 where a model does
            better than K allows for.

        Raises:
            InputError: The data can't be read, has no such split, has a class that the model does not know,
                or has no known positive label where it is not fully labelled; or the decision does not suit.
        """
        result = evaluate(
            [self],
            data,
            y,
            classes=classes,
            groups=groups,
            split=split,
            observed=observed,
            mean_labels=mean_labels,
            decision={
                "threshold": threshold,
                "top_k": top_k,
                "top1_fallback": top1_fallback,
                "thresholds": thresholds,
            },
            engine=Engine(batch_size, workers, device, console),
            unknown_classes=unknown_classes,
            intervals=False,
            **settings,
        )
        return of_one(result)

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
        console: Console | None = None,
        **settings: Any,
    ) -> Policy:
        """Decide thresholds and probabilities again, and write them to thresholds.json and thresholds.png.

        Args:
            data: Samples with observed labels that decide, named by their path or in memory; None, or the
                path of the training data, for the held-out scores that the run has kept. Feature vectors in
                memory count as new: name none that the model has learned from.
            y, classes: As in `evaluate`.
            target: `f1` (the best of each class), `labels` (K labels per sample, by one threshold),
                `precision=0.9` or `recall=0.8`.
            per_class: Reach a precision or recall in each class.
            audit: Randomly chosen, fully labelled samples, from which K, class priors and probabilities are
                estimated.
            mean_labels: Mean labels per sample K.
            batch_size, workers, device, console: As in `predict`.
            settings: Fields of `DataConfig`, for example `images="photos"`.

        Returns:
            The thresholds, which `thresholds` holds from now on.

        Raises:
            InputError: K is not known, a file does not suit, or a precision is not reached.
        """
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
            engine=Engine(batch_size, workers, device, console),
            records=records,
        )
        self.__dict__ |= {"thresholds": policy, "calibration": policy.calibrated}
        return policy


def _describe(run: Run) -> dict[str, str]:
    """Description of a run, by headings; parts that its folder does not record are left out."""
    backbone = "features" if run.spec.name == "none" else run.spec.name
    facts = {
        "folder": str(run.folder),
        "data": run.trained_on,
        "method": run.card["method"]["name"],
        "model": f"{backbone}, head {run.card['top']['head']}",
        "classes": f"{len(run.classes)} ({first_few(run.classes, 5)})",
    }
    if not (run.folder / run_files.SUMMARY).is_file() and run.config and run.config.data.classes:
        return {**facts, "validation": "no label is known yet"}
    try:
        metric, summary = run.summary["selected"]["metric"], run.summary
        few = metric != "val/mAP" and summary["data"]["samples"]["val"] < FEWEST_SHOWN
        score = f"not shown (< {FEWEST_SHOWN} samples)" if few else shown_score(summary["validation"][metric])
        facts["validation"] = f"{metric} {score}"
        k = run.thresholds.mean_labels
        known = f"K = {k.value:g} ({k.source})" if k.known else "K not known"
        facts["thresholds"] = f"{run.thresholds.target.describe()}, {known}"
    except SpmlError as error:  # damaged files must not hide the run
        facts["damaged"] = str(error)
    return {heading: text for heading, text in facts.items() if text}


def _join(parts: Sequence[Predictions], *, sparse: bool, notes: tuple[str, ...]) -> Predictions:
    """Predictions of several batches as one."""
    from scipy.sparse import vstack

    stack = partial(vstack, format="csr") if sparse else np.concatenate
    known = parts[0].probabilities is not None
    return Predictions(
        tuple(name for part in parts for name in part.ids),
        parts[0].classes,
        stack([part.scores for part in parts]),
        [labels for part in parts for labels in part.labels],
        notes,
        stack([part.probabilities for part in parts]) if known else None,
        np.concatenate([part.label_columns for part in parts if part.label_columns is not None]),
        None if parts[0].where is None else [where for part in parts for where in part.where or ()],
    )


def exportable(run: TrainedModel) -> Model:
    """Model of a run as exporters take it.

    Raises:
        InputError: A file of the run is missing or damaged.
    """
    thresholds = list(run.cuts)
    for column in run.decision().never:
        thresholds[column] = math.inf
    network = run.model.cpu()  # predictions leave it on the device that they are computed on
    coded = (GaussianPerClassHead, QueryHead)
    if any(isinstance(part, coded) and part.codes_in_evaluation for part in network.modules()):
        network = copy.deepcopy(network)
        for part in network.modules():
            if isinstance(part, coded):
                part.codes_in_evaluation = 0  # what is exported repeats itself
    texts = run.spec.kind == "text"  # no format can express how these become features
    return Model(
        folder=run.folder,
        classifier=network.classifier,
        network=HeadNetwork(network.classifier.top) if texts else network,
        classes=run.classes,
        thresholds=tuple(thresholds),
        calibration=run.calibration,
        policy=run.thresholds,
        card=run.card,
        summary=run.summary if (run.folder / run_files.SUMMARY).is_file() else None,
    )
