"""Settle every setting of a run in one visit, so that config.yaml is complete and repeats the run."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ... import models
from ...common.errors import InputError
from ...common.safe import quote
from ...config import AUTO, LBFGS, Config, DataConfig, ModelConfig, OptimConfig, check, differences
from ...data import MEMORY, Dataset, Records, start_opening, wanted_names
from ...decisions import default_mean_labels
from ...methods.base import Needs, Objective
from ...methods.registry import create, find
from .. import recipes
from . import solver_checks
from .init_from import Start, read_start
from .scaling import head_rate, scaling_of


class Resolved(NamedTuple):
    """A run whose settings are complete.

    Attributes:
        config: Complete settings; but for images over a frozen backbone, see `scaling.settle_scaling`.
        spec: Backbone, and how its inputs are prepared.
        data: Data set, opened for this backbone.
        objective: Method with its hyper-parameters, not started yet; None where heads are in closed form.
        start: Finished run that this one starts from, if there is one.
        notes: Remarks for the user.
    """

    config: Config
    spec: models.BackboneSpec
    data: Dataset
    objective: Objective | None
    start: Start | None
    notes: tuple[str, ...] = ()

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
    def needs_maps(self) -> str:
        """What needs the feature map of the backbone, for messages; empty if nothing does."""
        needs = self.objective.needs if self.objective else Needs()
        return _needs_maps(self.config.method, self.config.model.head, needs)


Opener = Callable[[Config, "Start | None"], tuple[Dataset, models.BackboneSpec]]
"""Opens the data of a configuration for the backbone that it names, or for that of the run to start from."""


def resolve(config: Config, open_data: Opener, start: Start | None = None) -> Resolved:
    """Complete and check the settings of a run.

    Args:
        config: Settings as the user stated them.
        open_data: Opens the data; called after everything that can be checked without it.
        start: Finished run that this one starts from, if it is not the one that `config.init_from` names.

    Raises:
        InputError: A setting is outside its domain or does not go together with another one, with the data,
            with the backbone or with the method.
    """
    _check_without_data(config)
    config = replace(config, data=replace(config.data, rename=wanted_names(config.data) or ""))
    if config.init_from:
        start = read_start(Path(config.init_from))
    data, spec = open_data(config, start)
    check_mean_labels(config.mean_labels, len(data.classes))
    notes = []
    if not config.method and config.model.head not in models.CLOSED_FORM:
        config = replace(config, method=_default_method(config, spec, data, start))
        notes.append(_why(config.method))
    if config.method == AUTO and (idle := _without_effect(config)):
        have = "have" if len(idle) > 1 else "has"
        notes.append(
            f"heads of method {AUTO} are solved, so {', '.join(idle)} {have} no effect: to train instead, "
            f"name a method, such as --method {recipes.read('default')['trained']}"
        )
    objective = create(config.objective, config.hp) if config.objective else None
    needs = objective.needs if objective else Needs()
    if start:
        if start.correlates(config.model):
            notes.append(
                f"the correlations of the head start from co-occurrence in what the model of {start.folder} "
                "predicts for the training samples"
            )
        config = replace(config, model=start.model_settings(config.model))
    model = _model_settings(config, spec, data, needs)
    optim = _optim_settings(config, spec, model, new_head=start is None and config.method != AUTO)
    config = replace(config, data=_data_settings(config.data, spec, data), model=model, optim=optim)
    _check_needs(config, needs)
    if config.compile:
        _check_compile(config, needs)
    if objective and (remark := missed_warmup(config, objective)):
        notes.append(remark)
    if remark := assumed_mean_labels(config, data, new_head=start is None):
        notes.append(remark)
    return Resolved(config, spec, data, objective, start, tuple(notes))


def open_for_backbone(
    config: Config,
    start: Start | None = None,
    report: Callable[[str], None] = lambda line: None,
    records: Records | None = None,
) -> tuple[Dataset, models.BackboneSpec]:
    """Open the data of a run with images of the size that its backbone takes.

    Args:
        config: Settings; only those of data and model are used.
        start: Finished run whose backbone is used instead of the one that `config` names.
        report: Called with a line before something that takes long.
        records: Data in memory; None = what `config.data.path` names.

    Raises:
        InputError: The data can't be opened, or the backbone does not suit it.
    """
    opening = start_opening(config.data, report=report, records=records)
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
            report=report,
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


def check_mean_labels(mean_labels: float | None, classes: int) -> None:
    """Refuse a mean number of labels per sample K that is impossible for this number of classes.

    Raises:
        InputError: K does not lie between 0 and the number of classes.
    """
    if mean_labels is not None and not 0 < mean_labels < classes:
        raise InputError(
            f"--mean_labels is the mean number of labels per sample, between 0 and the {classes} classes, "
            f"got {mean_labels:g}. State another value, or leave it out if you do not know it."
        )


def missed_warmup(config: Config, objective: Objective) -> str:
    """A remark if training ends before the warm-up of the method does; empty otherwise."""
    if config.optim.name == LBFGS or objective.warmup < config.epochs:
        return ""
    return (
        f"method {config.method!r} infers nothing before epoch {objective.warmup + 1} (hp.warmup is "
        f"{objective.warmup}), and epochs is {config.epochs}: train longer, or set a shorter warmup"
    )


def assumed_mean_labels(config: Config, data: Dataset, *, new_head: bool) -> str:
    """A remark on the mean number of labels per sample K that is assumed; empty if it is stated or not used.

    Args:
        config: Complete settings.
        data: Data set with its splits.
        new_head: Whether the head of the model is a new one.
    """
    if config.mean_labels is not None:
        return ""
    full = {name for name, samples in data.splits.items() if samples.observed.full}
    uses = []
    if "val" not in full:
        uses.append("the threshold")
    if config.select == "observed" or (config.select == "auto" and "val" not in full):
        uses.append("the SP-score")
    if (config.model.head_bias == "prior" and new_head) or (
        not config.method and config.model.head != models.LDA and "train" not in full
    ):
        uses.append("the bias that the head starts with" if config.method else "the bias of the head")
    if not uses:
        return ""
    classes = len(data.classes)
    labels = default_mean_labels(classes)
    assumed = f"{labels:g} label{'' if labels == 1 else 's'} per sample assumed"
    if labels < 2:
        assumed += f" (half of the {classes} classes)"
    listed = ", ".join(uses[:-1]) + (" and " if uses[1:] else "") + uses[-1]
    return f"{assumed} for {listed}: pass --mean_labels K if you know better"


# -- checks that need no data ----------------------------------------------------------------------------


def _check_without_data(config: Config) -> None:
    if not config.data.path:
        raise InputError(
            "no data: name a folder with one sub-folder per class, a CSV file, a .npz feature file, or "
            "`digits`."
        )
    if config.objective and config.model.head not in models.CLOSED_FORM:
        find(config.objective, [AUTO])
    check(config)
    if config.method == AUTO:
        solver_checks.check_auto(config)
    if config.model.head in models.CLOSED_FORM:
        solver_checks.check_closed_form(config)
    if config.record != "none":
        solver_checks.check_has_epochs(config)
    if config.init_from and config.output and _same_folder(config.init_from, config.output):
        raise InputError(
            f"{config.output}: can't be both the run to start from (--init_from) and the folder of the new "
            "run (--output): name another --output."
        )


def _same_folder(first: str, second: str) -> bool:
    return Path(first).resolve() == Path(second).resolve()


# -- what data, backbone and method decide ---------------------------------------------------------------


def _default_method(config: Config, spec: models.BackboneSpec, data: Dataset, start: Start | None) -> str:
    """The method where none is stated: `auto` if features do not change and no setting asks for training."""
    model, recipe = config.model, recipes.read("default")
    fixed = data.kind == "feature" or (spec.is_pretrained and model.frozen != "no")
    same = replace(model, backbone="", weights="", frozen="auto") == ModelConfig(backbone="", weights="")
    trains = start or config.hp or config.optim.name == LBFGS or config.record != "none" or not same
    return str(recipe["trained" if trains or not fixed else "solved"])


def _why(method: str) -> str:
    """What is said where no method is stated."""
    meaning = "an ensemble of heads is solved" if method == AUTO else "the model is trained with its loss"
    return f"no method is stated, so it is {method}: {meaning} (`spml methods {method}`)"


def _without_effect(config: Config) -> list[str]:
    """Settings that say how to train, where they are stated although heads are solved."""
    unstated = replace(config, epochs=Config().epochs, patience=Config().patience, optim=OptimConfig())
    return [f"--{name}" for name in differences(config, unstated)]


def _data_settings(config: DataConfig, spec: models.BackboneSpec, data: Dataset) -> DataConfig:
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
    minimised = bool(config.objective) and config.optim.name == LBFGS
    if minimised:
        solver_checks.check_lbfgs(config, model.head)
    if data.kind == "image" and (minimised or not config.objective):
        solver_checks.check_frozen(config, model, spec)
    frozen = model.frozen
    if data.kind == "feature":
        frozen = "no"
    elif frozen == "auto":
        frozen = "yes" if spec.is_pretrained and not _needs_maps(config.method, model.head, needs) else "no"
    model = replace(model, backbone=spec.name, frozen=frozen)
    if config.method == AUTO:  # has scalings of its own
        return replace(model, scaling=models.RAW)
    if model.scaling == "auto" and data.kind == "image" and frozen == "no":
        return replace(model, scaling=models.RAW)
    if model.scaling == "auto" and data.kind == "feature":
        return replace(model, scaling=scaling_of(model.head, data.splits["train"].inputs))
    return model


def _optim_settings(
    config: Config, spec: models.BackboneSpec, model: ModelConfig, *, new_head: bool
) -> OptimConfig:
    optim, fine_tuned = config.optim, spec.is_pretrained and model.frozen == "no"
    rate = optim.lr
    if rate is None and model.scaling != "auto":
        rate = 1e-4 if fine_tuned else head_rate(model.scaling)
    return replace(
        optim,
        lr=rate,
        head_lr_factor=optim.head_lr_factor or (10.0 if fine_tuned and new_head else 1.0),
    )


def _check_needs(config: Config, needs: Needs) -> None:
    """Refuse a model that can't give what the method or the head needs."""
    if needs.latent and config.model.head != models.GAUSSIAN:
        raise InputError(
            f"method {config.method!r} needs a head with a random code, but --model.head is "
            f"{config.model.head!r}: pass --model.head {models.GAUSSIAN}."
        )
    consumer = _needs_maps(config.method, config.model.head, needs)
    if not consumer:
        return
    if config.model.backbone == "none":
        raise InputError(
            f"{consumer} needs the feature map of a convolutional backbone, but the data holds feature "
            "vectors: give the images that they were made from, or choose another head or method."
        )
    if config.model.frozen == "yes":
        raise InputError(
            f"{consumer} needs the feature map of the backbone in every step, but --model.frozen is 'yes', "
            "which keeps pooled features only: pass --model.frozen no."
        )


def _check_compile(config: Config, needs: Needs) -> None:
    """Refuse to compile where no network is trained, or only its parts are called."""
    model, maps = config.model, _needs_maps(config.method, config.model.head, needs)
    reason = ""
    if model.backbone == "none":
        reason = "the data holds feature vectors"
    elif model.frozen == "yes":
        reason = "the backbone is frozen (--model.frozen no trains it)"
    elif maps:
        reason = f"{maps} calls only the first part of the network, for its feature map"
    if reason:
        raise InputError(f"--compile yes compiles the network that is trained, but {reason}: leave it out.")


def _needs_maps(method: str, head: str, needs: Needs) -> str:
    if needs.class_maps:
        return f"method {method!r}"
    return f"head {head!r} (method {method!r})" if head == models.BOOSTED_CAM else ""
