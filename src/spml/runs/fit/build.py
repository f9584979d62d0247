"""Build a run that is ready to be fitted: objective, backbone, head. Shared by `spml train` and `bench`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from ... import models
from ...common.errors import InputError, SpmlError
from ...config import LBFGS, Config
from ...data import Dataset, Samples, cached_features
from ...data.dataset import ImageInputs
from ...data.images.cache import Compute
from ...data.matrix import FeatureMatrix
from ...decisions import default_mean_labels
from ...engine import Trainer, predict_logits, predict_scores
from ...engine.checkpoint import has_checkpoint
from ...engine.compiled import compiled
from ...engine.lbfgs_path import check_solvable
from ...engine.loop import Judging, OnScores
from ...methods.base import Facts, Objective
from ...metrics import ScoreBlocks
from ..folder.layout import features_of_neighbours
from ..settle.method_memory import check_method_memory
from ..settle.resolve import Resolved
from .solve import Fitted, solve


def start_objective(run: Resolved, data: Dataset) -> Objective | None:
    """Start the method of a run on the observed labels of its training samples.

    Raises:
        InputError: The data does not give what the method needs, or L-BFGS can't minimise its loss.
    """
    objective, config, train = run.objective, run.config, data.splits["train"]
    if objective is None:
        return None
    torch.manual_seed(config.seed)  # an objective may start from random numbers
    facts = Facts(train.observed, train.ids, data.classes, config.mean_labels)
    check_method_memory(objective, config.method, facts)
    objective.on_fit_start(facts)
    if config.optim.name == LBFGS:
        check_solvable(objective, config.method, train, config.epochs)
    return objective


def make_backbone(run: Resolved, report: Callable[[str], None]) -> models.Backbone:
    """Make the backbone of a run with the weights that it starts from.

    Raises:
        InputError: The weights can't be read or downloaded, or the backbone lacks a feature map that the run
            needs, or it gives too many features for a head that is solved.
    """
    torch.manual_seed(run.config.seed)
    if run.start:
        backbone = run.start.backbone(run.spec)
    else:
        backbone = models.build_backbone(run.spec, run.config.model, report=report)
    if run.needs_maps:
        try:
            backbone.check_maps()
        except InputError as error:
            raise InputError(f"{run.needs_maps} needs a feature map, but {error}") from error
    if run.solved:
        models.check_width(backbone.num_features)
    return backbone


class Build:
    """Model, objective and data of one run, ready to be fitted.

    Args:
        run: Resolved run.
        data: Data as the trained part takes it: features if the backbone is frozen.
        objective: Started method; None for a head in closed form.
        backbone: Backbone of the model. May be None if it is frozen, where only the top is trained.
        fabric: Lightning Fabric.

    Attributes:
        top: Part of the model from features to logits.
        classifier: Whole model; None without a backbone.
        trained: Module that is trained: the top on features, or the whole classifier.
        head_bias: Start of the head's bias, for the summary.
    """

    def __init__(
        self,
        run: Resolved,
        data: Dataset,
        objective: Objective | None,
        backbone: models.Backbone | None,
        fabric: Any,
    ) -> None:
        self.run, self.data, self.objective, self.fabric = run, data, objective, fabric
        if run.start:
            self.top = run.start.classifier.top
            self.head_bias: dict[str, Any] = {"start": "init_from"}
        else:
            width = backbone.num_features if backbone else _width(data)
            self.top, self.head_bias = make_top(run.config, data, width)
        self.top.to(fabric.device)
        self.classifier = None
        if backbone is not None:
            self.classifier = models.Classifier(backbone, self.top, frozen=run.frozen).to(fabric.device)
        trained = self.top if run.frozen else self.classifier
        assert trained is not None
        self.trained: nn.Module = trained
        self._workers = 0 if run.frozen else run.config.data.workers
        if run.start:
            if run.start.correlates(run.config.model):
                self.top.scores = models.LOGITS
                self.top.correlate(torch.from_numpy(self.predict("train")))
            self.top.scores = run.config.model.scores  # depends on the method, not on what was learned

    def fit(
        self,
        judge: Judging,
        *,
        folder: Path | None = None,
        resume: bool = False,
        identity: str = "",
        report: Callable[[str], None] = lambda line: None,
        on_epoch: Callable[[Trainer], None] = lambda trainer: None,
        on_step: Callable[[int], None] = lambda samples: None,
        recorded: Sequence[Samples] = (),
        on_scores: OnScores = lambda epoch, scores: None,
    ) -> Fitted:
        """Train the model, or solve its head. The model has the best weights afterwards.

        Args:
            judge: Scores the validation samples.
            folder: Folder for checkpoints; None = no checkpoints are written.
            resume: Go on from the last checkpoint, if there is one.
            identity: Fingerprint of the data, kept in checkpoints.
            report: Called with a line for each penalty of a head that is solved, and for a damaged
                checkpoint.
            on_epoch, on_step, recorded, on_scores: As in `Trainer`.

        Raises:
            SpmlError: Training diverged, a file could not be written, or torch can't compile the network.
            InputError: The data does not suit a head that is solved, or the checkpoint does not fit.
        """
        config = self.run.config
        if self.objective is None or self.run.solved:
            return solve(
                config,
                self.objective,
                self.top,
                self.data.splits["train"],
                judge,
                val=self.data.splits["val"],
                mean_labels=self.head_bias["mean_labels"],
                predict=lambda: self.scores(self.data.splits["val"]),
                report=report,
            )
        trainer = Trainer(
            config,
            self.fabric,
            self.trained,
            self.top.head,
            self.objective,
            self.data,
            judge,
            folder=folder,
            workers=self._workers,
            identity=identity,
            report=report,
            on_epoch=on_epoch,
            on_step=on_step,
            recorded=recorded,
            on_scores=on_scores,
        )
        with ExitStack() as stack:
            if config.compile:
                assert self.classifier is not None
                stack.enter_context(compiled(self.classifier.backbone.network))
            # A run that was killed before its first checkpoint starts from the beginning.
            state = trainer.fit(resume and folder is not None and has_checkpoint(folder))
        return Fitted(
            state.history,
            state.best_epoch,
            state.seconds,
            len(state.history),
            state.best_objective,
            start_loss=state.start_loss,
        )

    def predict(self, split: str, model: nn.Module | None = None) -> npt.NDArray[np.float32]:
        """Compute the logits (N, C) of a split, with the trained module or another one."""
        return self.logits(self.data.splits[split], model)

    def logits(self, samples: Samples, model: nn.Module | None = None) -> npt.NDArray[np.float32]:
        """Compute the logits (N, C) of samples, with the trained module or another one."""
        return predict_logits(
            self.trained if model is None else model,
            samples,
            self.fabric,
            batch_size=4 * self.run.config.batch_size,
            workers=self._workers,
        )

    def scores(self, samples: Samples) -> npt.NDArray[np.float32] | ScoreBlocks:
        """Logits (N, C) of samples by the trained module: an array where they fit, else blocks.

        Raises:
            SpmlError: A block has logits that are not finite; raised when it is computed.
        """

        def check(finite: bool) -> None:
            if not finite:
                raise SpmlError(
                    f"{self.run.config.data.path}: some scores are NaN or infinite in float32. Scale the "
                    "features (--model.scaling standard), or try a smaller learning rate."
                )

        return predict_scores(
            self.trained,
            samples,
            len(self.data.classes),
            self.fabric,
            batch_size=4 * self.run.config.batch_size,
            workers=self._workers,
            check=check,
        )


@contextmanager
def _no_progress(label: str, total: int) -> Iterator[Callable[[int], None]]:
    yield lambda done: None


def _width(data: Dataset) -> int:
    inputs = data.splits["train"].inputs
    assert isinstance(inputs, FeatureMatrix)
    return inputs.width


def make_top(config: Config, data: Dataset, num_features: int) -> tuple[models.Top, dict[str, Any]]:
    """Make a new top with its scaling fitted and its head at its start.

    Args:
        config: Complete settings.
        data: Data as the top takes it: features, or images of a backbone that is trained.
        num_features: Number of features D.

    Returns:
        The top, and where the bias of its head came from, for the summary.
    """
    observed = data.splits["train"].observed
    torch.manual_seed(config.seed)
    top = models.Top(
        num_features,
        len(data.classes),
        head=config.model.head if config.objective else "linear",
        hidden=config.model.hidden,
        dropout=config.model.dropout,
        scaling=config.model.scaling if data.kind == "feature" else models.RAW,
        scores=config.model.scores,
    )
    top.fit_scaling(data.splits["train"].inputs)
    mean_labels, source = config.mean_labels, "stated"
    if mean_labels is None:
        mean_labels, source = default_mean_labels(len(data.classes)), "default"
    start: str = config.model.head_bias
    if config.objective:
        models.start_bias(top.head, start, mean_labels)
    else:
        start = "solved"
        if config.mean_labels is None and observed.full:
            mean_labels, source = float(observed.positives_per_sample().mean()), "training labels"
    return top, {"start": start, "mean_labels": mean_labels, "source": source}


def frozen_features(
    run: Resolved,
    data: Dataset,
    backbone: models.Backbone,
    folder: Path,
    *,
    report: Callable[[str], None],
    progress: Callable[[str, int], AbstractContextManager[Callable[[int], None]]] = _no_progress,
    barrier: Callable[[], None] = lambda: None,
    first: bool = True,
    compute: Compute | None = None,
) -> Dataset:
    """Replace images by the features of a frozen backbone, which are computed once and kept in `folder`.

    Features that a run next to this one has computed are read from its folder.

    Args:
        run: Resolved run.
        data: Images.
        backbone: Frozen backbone, on the device that computes.
        folder: Folder of the cache.
        report: Called with a line for each split.
        progress: Makes a progress bar for a split, given its label and number of samples.
        barrier: Waits for the other processes. One process computes, the others read what it wrote.
        first: Whether this is the process that computes.
        compute: As in `cached_features`.
    """
    splits, key = {}, backbone.key()
    for name, samples in data.splits.items():
        assert isinstance(samples.inputs, ImageInputs)
        with progress(f"features of {name}", len(samples)) as advance:
            for turn in (True, False):
                if turn == first:
                    inputs = cached_features(
                        backbone,
                        samples.inputs,
                        folder,
                        key=key,
                        others=features_of_neighbours(folder),
                        batch_size=run.config.batch_size,
                        workers=run.config.data.workers,
                        precision=run.config.precision,
                        report=report,
                        progress=advance,
                        compute=compute,
                    )
                barrier()
        splits[name] = replace(samples, inputs=inputs)
    return replace(data, splits=splits)
