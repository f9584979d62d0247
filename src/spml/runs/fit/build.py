"""The one assembly of a run that is ready to be fitted: objective, backbone, head."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from ... import models
from ...common.budget import Budget
from ...common.errors import InputError, SpmlError
from ...common.torch_draws import TorchDraws, borrowed_generators
from ...config import AUTO, LBFGS
from ...data import Dataset, Samples
from ...data.dataset import ImageInputs
from ...data.matrix import FeatureMatrix
from ...data.texts import Texts
from ...engine import Trainer, predict_logits, predict_scores
from ...engine.checkpoint import has_checkpoint
from ...engine.lbfgs import check_solvable
from ...engine.loop import Judging
from ...engine.step import compiled
from ...methods.base import Facts, Objective
from ...scores import Scores
from ..folder.layout import features_of_neighbours
from ..predict.features import WINDOWS, cached_features, keep_features
from ..settle.conflicts import check_method_memory
from ..settle.resolve import Resolved, mean_labels_of, some_rows
from .solve import Fitted, Solver

_ROWS = 4096  # samples whose names are scored at a time
_MOST_ROWS = 1 << 31  # bytes of what windows need of all images that is kept until the run ends


def start_objective(run: Resolved) -> tuple[Objective | None, str]:
    """Start the method of a run on the observed labels of its training samples.

    Args:
        run: Settled run.

    Returns:
        The method, with what that of the run to start from had inferred, and what became of this; see
        `Start.carry`. A head in closed form has no method.

    Raises:
        InputError: The data does not give what the method needs, L-BFGS can't minimise its loss, or the
            state of the run to start from is damaged.
    """
    objective, config, train = run.objective, run.config, run.data.splits["train"]
    if objective is None:
        return None, ""
    width = None  # of features that do not change during training
    if objective.needs.features and isinstance(train.inputs, FeatureMatrix):
        width = train.inputs.width
    elif objective.needs.features and run.frozen:
        width = make_backbone(run).num_features
    facts = Facts(train.observed, train.ids, run.data.classes, config.mean_labels, width=width)
    check_method_memory(objective, config.method, facts)
    with borrowed_generators(config.seed):  # an objective may start from random numbers
        objective.on_fit_start(facts)
    if config.optim.name == LBFGS:
        check_solvable(objective, config.method, train, config.epochs)
    return objective, run.start.carry(objective, config.method, train) if run.start else ""


def make_backbone(run: Resolved) -> models.Backbone:
    """Make the backbone of a run with the weights that it starts from; a further call returns the same one.

    Raises:
        InputError: The weights can't be read or downloaded, or the backbone lacks a feature map that the run
            needs, or one whose width suits its label queries, or a part that shall stay frozen, or it gives
            too many features for a head that is solved.
    """
    if run.backbone is not None:
        return run.backbone
    with borrowed_generators(run.config.seed):
        if run.start:
            backbone = run.start.backbone(run.spec)
        else:
            inputs = run.data.splits["train"].inputs
            backbone = models.build_backbone(run.spec, run.config.model, inputs)
    if run.needs_maps:
        try:
            backbone.check_maps()
        except InputError as error:
            raise InputError(f"{run.needs_maps} needs a feature map, but {error}") from error
    backbone.parts(run.config.model.frozen_parts)
    if queries := run.top["queries"]:
        queries.width_on(backbone.num_features)
    if run.solved and not run.solves_sparse:
        models.check_size(len(run.data.splits["train"]), backbone.num_features)
    run.backbone = backbone
    return backbone


@torch.no_grad()
def some_features(run: Resolved) -> torch.Tensor:
    """Compute the features of some training samples by the backbone of a run."""
    backbone = make_backbone(run)
    was_training = backbone.training
    features: torch.Tensor = backbone.eval()(some_rows(run.data.splits["train"].inputs))
    backbone.train(was_training)
    return features


def no_windows(local: str, reason: InputError) -> InputError:
    """Refusal of windows that `model.local` requires."""
    other = "" if local == "crops" else ", or local=crops, which takes 14 times as long"
    return InputError(f"local={local}: {reason} Pass local=off{other}.")


class Build:
    """Model, objective and data of one run, ready to be fitted after `place`.

    Nothing is written, so that a run that can't be assembled is refused before its folder is made.

    Args:
        run: Settled run.
        fabric: Lightning Fabric, which may be launched later.
        backbone: Whether the backbone is made. Without a frozen one, the top alone is trained.

    Attributes:
        objective: Started method; None for a head in closed form.
        carried: What became of the state of the method of the run to start from; see `Start.carry`.
        backbone: Backbone of the model; None if it was not made.
        data: Data as the trained part takes it: features if the backbone is frozen.
        test: Scores of the test samples where they have been computed before.
        top: Part of the model from features to logits.
        classifier: Whole model; None without a backbone.
        trained: Module that is trained: the top on features, or the whole classifier.
        names: What a model knows of the names of classes; None if none was named.
        budget: Time limit of the fit, for which there is none by default.
        pass_seconds: Time that the backbone took for all images; 0 if it is not known.

    Raises:
        InputError: As `start_objective` and `make_backbone`.
    """

    data: Dataset
    test: Scores | None = None
    top: models.Top
    classifier: models.Classifier | None
    trained: nn.Module

    def __init__(self, run: Resolved, fabric: Any, *, backbone: bool = True) -> None:
        self.run, self.fabric, self.draws = run, fabric, TorchDraws(run.config.seed)
        self.objective, self.carried = start_objective(run)
        self.backbone = make_backbone(run) if backbone else None
        if self.backbone is not None and run.config.model.local == "on":
            try:
                self.windows()
            except InputError as error:
                raise no_windows("on", error) from error
        self.budget, self.pass_seconds = Budget(), 0.0
        self.names: models.NameEvidence | None = None
        if run.config.model.names:
            self.names = models.read_name_evidence(run.config.model, run.data.classes)
        self._workers = 0 if run.frozen else run.config.data.workers

    def windows(self) -> models.Windows:
        """Windows of the maps of the backbone, or the parts of samples that have several.

        Raises:
            InputError: There are none.
        """
        inputs = self.run.data.splits["train"].inputs
        if not isinstance(inputs, FeatureMatrix):
            assert self.backbone is not None
            return models.windows_of(self.backbone)
        if not inputs.num_parts:
            raise InputError(
                "the data holds one feature vector of each sample. Of X of shape (N, P, D), the P parts of "
                "each sample would be scored."
            )
        return models.Windows.of_map(1, inputs.num_parts)

    def place(self, data: Dataset | None = None) -> Build:
        """Make the model on the device of the fabric, with its scaling fitted and its head at its start.

        Args:
            data: Features in place of the images of the run, if its backbone is frozen.
        """
        run, device = self.run, self.fabric.device
        self.data = data or run.data
        self.top = run.start.classifier.top if run.start else self._new_top()
        if run.start and isinstance(self.top.head, models.QueryHead) and self.objective:
            self.draws.seed(run.config.seed)
            with self.draws.drawing():
                self.top.head.set_embedding(self.objective.needs.embedding)
        self.top.local = None
        self.top.to(device)
        self.classifier = None
        if self.backbone is not None:
            parts = run.config.model.frozen_parts
            classifier = models.Classifier(self.backbone, self.top, frozen=run.frozen, frozen_parts=parts)
            self.classifier = classifier.to(device)
        if self.names is not None and self.objective is not None:
            inputs = self.data.splits["train"].inputs
            scores = models.NameScores.of_texts(
                self.names.embeddings, self.names.temperature, models.NAMES_SOFTMAX
            )
            starts = range(0, len(inputs), _ROWS)
            batches = (inputs.fetch(range(start, min(start + _ROWS, len(inputs))), None) for start in starts)
            self.objective.on_names(scores.probabilities(batches))
        trained = self.top if run.frozen else self.classifier
        assert trained is not None
        self.trained = trained
        if run.start:
            if run.start.correlates(run.config.model):
                self.top.scores = models.LOGITS
                self.top.correlate(torch.from_numpy(self.predict("train")))
            self.top.scores = run.config.model.scores  # depends on the method, not on what was learned
        return self

    def _new_top(self) -> models.Top:
        run, inputs = self.run, self.data.splits["train"].inputs
        if self.backbone is not None:
            width = self.backbone.num_features
        else:
            assert isinstance(inputs, FeatureMatrix)
            width = inputs.width
        self.draws.seed(run.config.seed)
        with self.draws.drawing():
            top = models.Top(width, len(self.data.classes), **run.top)
        top.fit_scaling(inputs)
        if self.objective is not None:
            models.start_bias(top, run.config.model.head_bias, mean_labels_of(run.config, run.data).value)
        return top

    def fit(self, judge: Judging, *, resume: bool = False, **options: Any) -> Fitted:
        """Train the model, or solve its head. The model has the best weights afterwards.

        Args:
            judge: Scores the validation samples.
            resume: Go on from the last checkpoint, if there is one.
            options: Further options of `Trainer`, such as `folder`, for a model that is trained.

        Raises:
            SpmlError: Training diverged, a file could not be written, or torch can't compile the network.
            InputError: The data does not suit a head that is solved, or the checkpoint does not fit.
        """
        if self.run.solved:
            return Solver(self, judge).solve()
        assert self.objective is not None
        trainer = Trainer(
            self.run.config,
            self.fabric,
            self.trained,
            self.top.head,
            self.objective,
            self.data,
            judge,
            workers=self._workers,
            draws=self.draws,
            budget=self.budget,
            **options,
        )
        network = self.classifier.backbone.network if self.run.config.compile and self.classifier else None
        with nullcontext() if network is None else compiled(network):
            # A run that was killed before its first checkpoint starts from the beginning.
            state = trainer.fit(resume and trainer.folder is not None and has_checkpoint(trainer.folder))
        return Fitted(
            state.history,
            state.best_epoch,
            state.seconds,
            len(state.history),
            state.best_objective,
            start_loss=state.start_loss,
        )

    def score_windows(self, local: models.LocalScores) -> None:
        """Score windows of images, too, from now on: what is predicted is images, not features."""
        assert self.classifier is not None
        self.top.local = local.to(self.fabric.device)
        self.trained = self.classifier
        self.data = replace(self.run.data, splits={name: self.windowed(name) for name in self.data.splits})
        self._workers = self.run.config.data.workers if self.data.kind == "image" else 0

    def windowed(self, split: str) -> Samples:
        """Samples of a split as a model that scores windows takes them: with parts if they have them, or
        with what the backbone has computed of them, else images."""
        for samples in (self.data.splits[split], self.run.data.splits[split]):
            if isinstance(samples.inputs, FeatureMatrix) and samples.inputs.num_parts:
                return replace(samples, inputs=samples.inputs.by_part())
        return self.run.data.splits[split]

    def predict(self, split: str, model: nn.Module | None = None) -> npt.NDArray[np.float32]:
        """Compute the logits (N, C) of a split, with the trained module or another one."""
        return self.logits(self.data.splits[split], model)

    def logits(
        self, samples: Samples, model: nn.Module | None = None, *, workers: int | None = None
    ) -> npt.NDArray[np.float32]:
        """Compute the logits (N, C) of samples, with the trained module or another one."""
        with self.draws.drawing():  # codes in evaluation
            return predict_logits(
                self.trained if model is None else model,
                samples,
                self.fabric,
                batch_size=self._batch_size(samples),
                workers=self._workers if workers is None else workers,
            )

    def _batch_size(self, samples: Samples) -> int:
        """Samples per step without gradients; of images no more than in training, whose maps take memory."""
        return self.run.config.batch_size * (4 if samples.inputs.kind == "feature" else 1)

    def scores(self, samples: Samples) -> Scores:
        """Logits (N, C) of samples by the trained module: in memory where they fit, else computed in blocks.

        Raises:
            SpmlError: A block has logits that are not finite; raised when it is computed.
        """

        def check(finite: bool) -> None:
            if not finite:
                raise SpmlError(
                    f"{self.run.config.data.path}: some scores are NaN or infinite in float32. Scale the "
                    "features (model.scaling=standard), or try a smaller learning rate."
                )

        with self.draws.drawing():
            return predict_scores(
                self.trained,
                samples,
                len(self.data.classes),
                self.fabric,
                batch_size=self._batch_size(samples),
                workers=self._workers,
                check=check,
            )


def frozen_features(
    run: Resolved,
    backbone: models.Backbone,
    fabric: Any,
    folder: Path,
    *,
    cluster: str | None = None,
    windows: bool = False,
) -> Dataset:
    """Replace the images of a run by features of its frozen backbone, which are computed once and kept.

    One process computes, and the others read what it wrote. Features that a run next to this one has computed
    are read from its folder.

    Args:
        run: Settled run.
        backbone: Frozen backbone, on the device that computes.
        fabric: Lightning Fabric.
        folder: Folder of the cache.
        cluster: As in `run_training`.
        windows: Also keep what the windows of images need (`Windows.rows`), as the parts of the features, if
            there are windows and it takes no more than 2 GiB.
    """
    splits, key = {}, backbone.key()
    rows = window_rows(run, backbone) if windows else None
    for name, samples in run.data.splits.items():
        if isinstance(backbone.network, models.Tfidf):  # in memory: a vector has few numbers that are not 0
            assert isinstance(samples.inputs, Texts)
            matrix = backbone.network.vectors(samples.inputs)
            splits[name] = replace(samples, inputs=FeatureMatrix(matrix))
            continue
        assert isinstance(samples.inputs, ImageInputs)
        for first in (True, False):
            if first == fabric.is_global_zero:
                inputs = cached_features(
                    rows or backbone,
                    samples.inputs,
                    folder,
                    key=key + WINDOWS if rows else key,
                    others=features_of_neighbours(folder),
                    batch_size=run.config.batch_size,
                    workers=run.config.data.workers,
                    precision=run.config.precision,
                    label=f"features of {name}",
                    cluster=cluster,
                )
                if rows:
                    inputs = inputs.in_parts(backbone.num_features)
                    keep_features(folder, key, samples.inputs.identities(), inputs)
            fabric.barrier()
        splits[name] = replace(samples, inputs=inputs)
    return replace(run.data, splits=splits)


class _WindowRows(nn.Module):
    """Network from images to what their windows need, (B, (1 + P) D), as `Windows.rows`."""

    def __init__(self, backbone: models.Backbone, windows: models.Windows) -> None:
        super().__init__()
        self.backbone, self.windows = backbone, windows

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.windows.rows(self.backbone, inputs).flatten(1)


def window_rows(run: Resolved, backbone: models.Backbone) -> nn.Module | None:
    """Network from the images of a run to what their windows need; None if there are no windows, or it takes
    more than 2 GiB."""
    if run.config.method != AUTO or run.config.model.local not in ("auto", "on"):
        return None
    try:
        windows = models.windows_of(backbone)
    except InputError:  # said when windows are tried
        return None
    count = sum(len(samples) for samples in run.data.splits.values())
    size = 4 * count * (1 + windows.positions) * backbone.num_features
    return _WindowRows(backbone, windows) if size <= _MOST_ROWS else None
