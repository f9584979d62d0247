"""Settle every setting of a run in one visit, so that config.yaml is complete and repeats the run."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
from torch import Tensor

from ... import models
from ...common.errors import InputError
from ...common.progress import Progress, no_progress
from ...common.safe import quote
from ...config import AUTO, LBFGS, Config, DataConfig, ModelConfig, OptimConfig, differences
from ...data import MEMORY, Dataset, Inputs, Records, start_opening, wanted_names
from ...data.matrix import FeatureMatrix
from ...decisions import assumed_for_thresholds, default_mean_labels
from ...methods.base import Needs, Objective
from ...methods.registry import create, find
from .. import recipes
from . import conflicts
from .init_from import Start, read_start

_ROWS, _IMAGES = 256, 8  # training samples by which the scaling of features is chosen


class SettledK(NamedTuple):
    """Mean number of labels per sample K, and where it is from.

    Attributes:
        value: The number.
        source: `stated`, `training labels`, `validation labels` or `default`.
    """

    value: float
    source: str


@dataclass
class Resolved:
    """A run whose settings are complete.

    Attributes:
        config: Complete settings. The scaling of features from images over a frozen backbone, and the
            learning rate that follows from it, are open if `resolve` was given no `features`.
        spec: Backbone, and how its inputs are prepared.
        data: Data set, opened for this backbone.
        objective: Method with its hyper-parameters, not started yet; None where heads are in closed form.
        start: Finished run that this one starts from, if there is one.
        notes: Remarks for the user.
        backbone: Backbone with the weights that the run starts from, once it has been made.
    """

    config: Config
    spec: models.BackboneSpec
    data: Dataset
    objective: Objective | None
    start: Start | None = None
    notes: tuple[str, ...] = ()
    backbone: models.Backbone | None = None

    @property
    def frozen(self) -> bool:
        """Whether only the head is trained, on features that are computed once."""
        return self.config.model.frozen == "yes"

    @property
    def fine_tunes(self) -> bool:
        """Whether the auto head is solved first and the network is then fine-tuned from it."""
        return self.config.method == AUTO and self.data.kind == "image" and not self.frozen

    @property
    def solved(self) -> bool:
        """Whether the head is solved instead of trained."""
        return self.objective is None or self.config.optim.name == LBFGS

    @property
    def solves_sparse(self) -> bool:
        """Whether a head in closed form is solved on sparse features without making them dense."""
        sparse = self.spec.name == models.TFIDF or models.is_wide(self.data.splits["train"])
        standard = self.config.model.scaling == models.STANDARD and self.config.method != AUTO
        return sparse and self.objective is None and not standard

    @property
    def needs_maps(self) -> str:
        """Name of the part that needs the feature map of the backbone, for messages; empty if none does."""
        needs = self.objective.needs if self.objective else Needs()
        return conflicts.needs_maps(self.config.method, self.config.model.head, needs)

    @property
    def top(self) -> dict[str, Any]:
        """Arguments of `models.Top` except its size."""
        model, on_features = self.config.model, self.frozen or self.data.kind == "feature"
        needs = self.objective.needs if self.objective else Needs()
        queries = msgspec.structs.replace(
            msgspec.convert(model, models.QuerySettings, from_attributes=True),
            code=model.code if needs.latent else 0,
            embedding=needs.embedding,
            posterior=needs.posterior,
        )
        return {
            "head": model.head if self.objective else models.LINEAR,
            "hidden": model.hidden,
            "dropout": model.dropout,
            "scaling": model.scaling if on_features else models.RAW,
            "scores": model.scores,
            "codes": msgspec.convert(model, models.CodeSettings, from_attributes=True)
            if model.head == models.GAUSSIAN_PER_CLASS
            else None,
            "queries": queries if model.head == models.QUERIES else None,
        }

    def mean_labels(self, split: str = "") -> SettledK:
        """K as stated, or the mean of the labels of `split` if all of them are known, or the default."""
        return mean_labels_of(self.config, self.data, split)

    @property
    def threshold_mean_labels(self) -> SettledK:
        """K of thresholds: as stated, the mean of full validation labels, or what is assumed for them."""
        k = self.mean_labels("val")
        assumed = assumed_for_thresholds(len(self.data.classes))
        return k if k.source != "default" else SettledK(assumed, "default")

    @property
    def head_mean_labels(self) -> SettledK:
        """K of the head: a head in closed form knows that of training samples whose labels are all known."""
        return self.mean_labels("" if self.objective else "train")

    @property
    def head_bias(self) -> dict[str, Any]:
        """Start of the head's bias, for the summary, with the K that it follows from."""
        if self.start:
            return {"start": "init_from"}
        k = self.head_mean_labels
        start = self.config.model.head_bias if self.objective else "solved"
        return {"start": start, "mean_labels": k.value, "source": k.source}


Opener = Callable[[Config, Start | None], tuple[Dataset, models.BackboneSpec]]
"""Opens the data of a configuration for the backbone that it names, or for that of the run to start from."""

Features = Callable[[Resolved, int], Tensor]
"""Computes the features (B, D) of about so many training samples by the frozen backbone of a run."""


def resolve(
    config: Config, open_data: Opener, start: Start | None = None, features: Features | None = None
) -> Resolved:
    """Complete and check the settings of a run.

    Args:
        config: Settings as the user stated them.
        open_data: Opens the data; called after everything that can be checked without it.
        start: Finished run that this one starts from, if it is not the one that `config.init_from` names.
        features: Computes the features of images, which settle their scaling; None leaves it open.

    Raises:
        InputError: A setting is outside its domain or does not go together with another one, with the data,
            with the backbone or with the method.
    """
    conflicts.check_without_data(config)
    config = replace(config, data=replace(config.data, rename=wanted_names(config.data) or ""))
    if config.init_from:
        start = read_start(Path(config.init_from))
    data, spec = open_data(config, start)
    given = [samples.observed for name, samples in data.splits.items() if name != "test"]
    conflicts.check_mean_labels(config.mean_labels, len(data.classes), given)
    notes = []
    if not config.method and config.model.head not in models.CLOSED_FORM:
        config = replace(config, method=_default_method(config, spec, data, start))
        meaning = (
            "an ensemble of heads is solved"
            if config.method == AUTO
            else "the model is trained with its loss"
        )
        notes.append(
            f"no method is stated, so it is {config.method}: {meaning} (`spml methods {config.method}`)"
        )
    # Settings that say how to train, where they are stated although heads are solved.
    unstated = replace(config, epochs=Config().epochs, patience=Config().patience, optim=OptimConfig())
    idle = [f"{name}" for name in differences(config, unstated)] if config.method == AUTO else []
    if idle:
        have = "have" if len(idle) > 1 else "has"
        notes.append(
            f"heads of method {AUTO} are solved, so {', '.join(idle)} {have} no effect: to train instead, "
            f"name a method, such as method={recipes.read('default')['trained']}"
        )
    objective = create(config.objective, config.hp) if config.objective else None
    needs = objective.needs if objective else Needs()
    if start:
        if start.correlates(config.model):
            notes.append(
                f"the correlations of the head start from co-occurrence in what the model of {start.folder} "
                "predicts for the training samples"
            )
        start.check_needs(config.method, needs)
        config = replace(config, model=start.model_settings(config.model))
    model = _model_settings(config, spec, data, needs)
    optim = _optim_settings(config.optim, spec, model, new_head=start is None and config.method != AUTO)
    config = replace(config, data=settle_data(config.data, spec, data), model=model, optim=optim)
    conflicts.check_needs(config, needs)
    conflicts.check_crop(config, data.splits["train"].inputs)
    if objective and (remark := missed_warmup(config, objective)):
        notes.append(remark)
    if needs.features and data.kind == "image" and model.frozen == "no":
        notes.append(
            f"method {config.method!r} uses the features of all training samples, but they change, because "
            "the backbone is trained (model.frozen=no): it takes the form that does without them"
        )
    if remark := assumed_mean_labels(config, data, new_head=start is None):
        notes.append(remark)
    run = Resolved(config, spec, data, objective, start, tuple(notes))
    if model.scaling == "auto" and objective is None and models.is_wide(data.splits["train"]):
        run.config = _with_scaling(config, models.sparse_scaling(data.splits["train"]))
    elif model.scaling == "auto" and data.kind == "feature":
        run.config = _settle_scaling(config, some_rows(data.splits["train"].inputs, _ROWS))
    elif model.scaling == "auto" and features:
        run.config = _settle_scaling(config, features(run, _IMAGES))
    return run


def open_for_backbone(
    config: Config,
    start: Start | None = None,
    report: Callable[[str], None] = lambda line: None,
    progress: Progress = no_progress,
    records: Records | None = None,
) -> tuple[Dataset, models.BackboneSpec]:
    """Open the data of a run with images of the size that its backbone takes.

    Args:
        config: Settings; only those of data and model are used.
        start: Finished run whose backbone is used instead of the one that `config` names.
        report: Called with a line before something that takes long.
        progress: Makes a progress bar from a total and a label, as `Console.progress` does.
        records: Data in memory; None = what `config.data.path` names.

    Raises:
        InputError: The data can't be opened, or the backbone does not suit it.
    """
    opening = start_opening(config.data, report=report, progress=progress, records=records)
    if start:
        start.check(opening)
        spec = start.spec(config.data.size)
    else:
        spec = models.describe_backbone(
            config.model,
            opening.kind,
            opening.width,
            size=config.data.size,
            source=opening.name,
        )
    return opening.finish(size=config.data.size or spec.size, interpolation=spec.interpolation), spec


def run_folder(config: Config) -> Path:
    """Folder of a run: as stated, or named after data and method.

    Raises:
        InputError: The stated name holds a NUL byte.
    """
    if "\0" in config.output:
        raise InputError(
            f"output: {quote(config.output)} holds a NUL byte, which no file name has. Correct it."
        )
    if config.output:
        return Path(config.output)
    path = config.data.path
    name = "memory" if path == MEMORY else Path(path).resolve().stem or "run"
    head = config.model.head if config.model.head in models.CLOSED_FORM else ""
    parts = (name, config.method or head, "continued" if config.init_from else "")
    return Path("runs", "-".join(part for part in parts if part))


def some_rows(inputs: Inputs, count: int) -> Tensor:
    """Return about `count` samples, evenly spaced."""
    return inputs.fetch(range(0, len(inputs), max(1, len(inputs) // count)), None)


# -- mean labels per sample ------------------------------------------------------------------------------


def mean_labels_of(config: Config, data: Dataset, split: str = "") -> SettledK:
    """Return K as stated, or the mean of the labels of `split` if all are known, or the default."""
    if config.mean_labels is not None:
        return SettledK(config.mean_labels, "stated")
    if split and (observed := data.splits[split].observed).full:
        names = {"train": "training labels", "val": "validation labels"}
        return SettledK(float(observed.positives_per_sample().mean()), names[split])
    return SettledK(default_mean_labels(len(data.classes)), "default")


def assumed_mean_labels(config: Config, data: Dataset, *, new_head: bool) -> str:
    """A remark on the mean number of labels per sample K that is assumed; empty if it is stated or not used.

    Args:
        config: Complete settings.
        data: Data set with its splits.
        new_head: Whether the head of the model is a new one.
    """
    full = {name for name, samples in data.splits.items() if samples.observed.full}
    labels, source = mean_labels_of(config, data)
    if source == "stated":
        return ""
    uses = []
    if config.select == "observed" or (config.select == "auto" and "val" not in full):
        uses.append("the SP-score")
    if (config.model.head_bias == "prior" and new_head) or (
        not config.method and config.model.head != models.LDA and "train" not in full
    ):
        uses.append("the bias that the head starts with" if config.method else "the bias of the head")
    if not uses:
        return ""
    assumed = f"{labels:g} label{'' if labels == 1 else 's'} per sample assumed"
    if labels < 2:
        assumed += f" (half of the {len(data.classes)} classes)"
    listed = ", ".join(uses[:-1]) + (" and " if uses[1:] else "") + uses[-1]
    return f"{assumed} for {listed}: pass mean_labels=K if you know better"


# -- what data, backbone and method decide ---------------------------------------------------------------


def missed_warmup(config: Config, objective: Objective) -> str:
    """A remark if training ends before the warm-up of the method does; empty otherwise."""
    if config.optim.name == LBFGS or objective.warmup < config.epochs:
        return ""
    return (
        f"method {config.method!r} infers nothing before epoch {objective.warmup + 1} (hp.warmup is "
        f"{objective.warmup}), and epochs is {config.epochs}: train longer, or set a shorter warmup"
    )


def _default_method(config: Config, spec: models.BackboneSpec, data: Dataset, start: Start | None) -> str:
    """The method where none is stated: `auto` if features do not change and no setting asks for training."""
    model, recipe = config.model, recipes.read("default")
    fixed = data.kind == "feature" or (spec.is_pretrained and model.frozen != "no")
    stated = replace(model, backbone="", weights="", frozen="auto", local="auto")
    stated = replace(stated, names="", names_file="", prompts="")
    same = stated == ModelConfig(backbone="", weights="")
    trains = start or config.hp or config.optim.name == LBFGS or config.record != "none" or not same
    return str(recipe["trained" if trains or not fixed else "solved"])


def settle_data(config: DataConfig, spec: models.BackboneSpec, data: Dataset) -> DataConfig:
    """Settle the size of images and the number of processes that decode them."""
    workers = config.workers
    if not data.decoded:
        workers = 0
    elif workers < 0:
        workers = min(os.cpu_count() or 1, 8)
    return replace(config, size=config.size or spec.size, workers=workers)


def _model_settings(config: Config, spec: models.BackboneSpec, data: Dataset, needs: Needs) -> ModelConfig:
    model = config.model
    if config.objective:
        card = find(config.objective).card
        from_card = {name: getattr(card, name) for name in ("head", "scores", "head_bias")}
        model = replace(
            model, **{name: value for name, value in from_card.items() if getattr(model, name) == "auto"}
        )
    else:
        model = replace(model, scores="log_softmax" if model.head == models.LDA else "logits")
    conflicts.check_solver(config, model, spec, data.kind)
    frozen = model.frozen
    if data.kind == "feature":
        frozen = "no"
    elif frozen == "auto":
        maps = conflicts.needs_maps(config.method, model.head, needs)
        frozen = "yes" if spec.is_pretrained and not maps else "no"
    inputs = data.splits["train"].inputs
    conflicts.check_local(model, inputs)
    has_parts = (frozen == "yes" and data.kind == "image") or (
        isinstance(inputs, FeatureMatrix) and inputs.num_parts > 0
    )
    local = "off" if model.local == "auto" and not has_parts else model.local
    model = replace(model, backbone=spec.name, frozen=frozen, local=local)
    trained = data.kind == "image" and frozen == "no" and model.scaling == "auto"
    # The auto head has scalings of its own.
    if config.method == AUTO or trained:
        return replace(model, scaling=models.RAW)
    weighed = spec.name == models.TFIDF and model.scaling == "auto"  # and of length 1 already
    return replace(model, scaling=models.UNIT) if weighed else model


def _optim_settings(
    optim: OptimConfig, spec: models.BackboneSpec, model: ModelConfig, *, new_head: bool
) -> OptimConfig:
    fine_tuned, rate = spec.is_pretrained and model.frozen == "no", optim.lr
    if rate is None and model.scaling != "auto":
        rate = 1e-4 if fine_tuned else _head_rate(model.scaling)
    factor = optim.head_lr_factor or (10.0 if fine_tuned and new_head else 1.0)
    return replace(optim, lr=rate, head_lr_factor=factor)


def _settle_scaling(config: Config, features: Tensor) -> Config:
    """Choose the scaling of features by those of some training samples, and the learning rate with it."""
    # Class means gain nothing from another scaling, and the SP-score falls.
    own = config.model.head == models.MEAN_DIFFERENCE
    return _with_scaling(config, models.STANDARD if own else models.default_scaling(features))


def _with_scaling(config: Config, scaling: Literal["standard", "sqrtl2", "unit", "tfidf"]) -> Config:
    """Settings with a scaling of features, and the learning rate of the head that follows from it."""
    optim = replace(config.optim, lr=config.optim.lr or _head_rate(scaling))
    return replace(config, model=replace(config.model, scaling=scaling), optim=optim)


def _head_rate(scaling: str) -> float:
    """Learning rate of a head; samples of length 1 need a larger one, since their features are small."""
    return 1e-3 if scaling in (models.RAW, models.STANDARD) else 1e-2
