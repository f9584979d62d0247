"""What the user left open, filled in, so that config.yaml repeats the run."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from pathlib import Path

from .. import models
from ..config import LBFGS, Config, DataConfig, ModelConfig, OptimConfig, check
from ..data import Dataset
from ..errors import InputError
from ..methods.base import Needs, Objective
from ..methods.registry import find
from . import recipes


def with_defaults(config: Config) -> Config:
    """Settings that can be filled in and checked before the data is read: method and folder.

    Raises:
        InputError: no data named, an unknown method, a setting outside its domain, or one that a head in
            closed form has no use for; a run that is to start from itself.
    """
    if not config.data.path:
        raise InputError(
            "nothing to learn from: name a folder with one sub-folder per class, a CSV file, a .npz feature "
            "file, or `digits`."
        )
    method: str = config.method
    if config.model.head in models.CLOSED_FORM:
        _check_closed_form(config)
    else:
        method = method or recipes.read("default")["method"]
        find(method)
    name = Path(config.data.path).resolve().stem or "run"
    name = f"runs/{name}-{method or config.model.head}" + ("-continued" if config.init_from else "")
    config = replace(config, method=method, output=config.output or name)
    if config.init_from and Path(config.init_from).resolve() == Path(config.output).resolve():
        raise InputError(
            f"{config.output}: can't be both the run to start from (--init_from) and the folder of the new "
            "run (--output): name another --output."
        )
    check(config)
    return config


def _check_closed_form(config: Config) -> None:
    head = f"--model.head {config.model.head}"
    if config.method or config.hp:
        named = f"--method {config.method}" if config.method else "--hp"
        raise InputError(
            f"{head} is solved without any method, but {named} is given: leave out one of the two."
        )
    if config.init_from:
        raise InputError(
            f"{head} is solved anew and starts from nothing, but --init_from {config.init_from} is given: "
            "leave out --model.head to train the head of that run further."
        )


def with_data(config: Config, data: Dataset, spec: models.BackboneSpec) -> Config:
    """Settings that depend on data, backbone and method: image size, head, learning rates, workers.

    Raises:
        InputError: a head that is solved on images whose backbone is to be trained, or was not; settings that
            such a head has no use for.
    """
    needs, model = Needs(), ModelConfig(**asdict(config.model))
    pretrained = spec.weights in ("pretrained", "file")
    if config.method:
        objective = find(config.method)
        card, needs = objective.card, objective.needs
        model.head = card.head if model.head == "auto" else model.head  # type: ignore[assignment]
        model.scores = card.scores if model.scores == "auto" else model.scores  # type: ignore[assignment]
        model.head_bias = card.head_bias if model.head_bias == "auto" else model.head_bias  # type: ignore[assignment]
    solved = config.method and config.optim.name == LBFGS
    if solved:
        _check_lbfgs(config, model.head)
    if data.kind == "image" and (solved or not config.method):
        head = "" if solved else config.model.head
        _check_frozen(config.model, spec, pretrained, head)
    frozen = config.model.frozen
    if data.kind == "feature":
        frozen = "no"
    elif frozen == "auto":
        frozen = "yes" if pretrained and not _wants_maps(config.method, model.head, needs) else "no"
    fine_tuned = pretrained and frozen == "no"
    optim = OptimConfig(**asdict(config.optim))
    optim.lr = config.optim.lr or (1e-4 if fine_tuned else 1e-3)
    new_head = fine_tuned and not config.init_from
    optim.head_lr_factor = config.optim.head_lr_factor or (10.0 if new_head else 1.0)
    model.backbone, model.frozen = spec.name, frozen
    settings = DataConfig(**asdict(config.data))
    settings.size = config.data.size or spec.size
    if not data.decoded:
        settings.workers = 0
    elif settings.workers < 0:
        settings.workers = min(os.cpu_count() or 1, 8)
    return replace(config, data=settings, model=model, optim=optim)


def _check_frozen(model: ModelConfig, spec: models.BackboneSpec, pretrained: bool, head: str) -> None:
    """Refuse a backbone whose features a head that is solved (`head` in closed form, else by L-BFGS) would
    have no use for.
    """
    who = f"--model.head {head}" if head else f"--optim.name {LBFGS}"
    instead = "--model.head linear" if head else "--optim.name adamw"
    if not pretrained:
        raise InputError(
            f"{who} solves a head on the features of a backbone that has learnt before, but {spec.name} "
            "starts from random weights: choose a pretrained one (--model.backbone resnet50, or "
            f"--model.weights FILE), give a feature file, or train both ({instead})."
        )
    if model.frozen == "no":
        raise InputError(
            f"{who} needs features that stay as they are, but --model.frozen is 'no': leave it out. To train "
            "the backbone too, start a second run from this one (--init_from RUN --model.frozen no)."
        )


def _check_lbfgs(config: Config, head: str) -> None:
    """Refuse settings that a head that is solved by L-BFGS has no use for; `head` is the kind of head."""
    who = f"--optim.name {LBFGS}"
    if head != models.LINEAR:
        raise InputError(
            f"{who} solves a linear head, but the head of method {config.method!r} is {head!r} here: say "
            "--model.head linear, or train it (--optim.name adamw)."
        )
    if config.init_from:
        raise InputError(
            f"{who} starts from nothing, but --init_from {config.init_from} is given: leave it out, or train "
            "further (--optim.name adamw)."
        )
    penalties = {
        "optim.l1": config.optim.l1,
        "optim.l2": config.optim.l2,
        "model.dropout": config.model.dropout,
    }
    for name, value in penalties.items():
        if value:
            raise InputError(
                f"{who} tries L2 penalties of its own and no other ones, but --{name} is {value:g}: leave it "
                "out, or train (--optim.name adamw)."
            )


def check_needs(config: Config, needs: Needs) -> None:
    """Refuse a model that can't give what the method or the head needs.

    Args:
        config: as `with_data` gives it.
        needs: of the objective.

    Raises:
        InputError: no head with a random code where one is needed; feature vectors or a frozen backbone
            where a feature map is.
    """
    if needs.latent and config.model.head != models.GAUSSIAN:
        raise InputError(
            f"method {config.method!r} needs a head with a random code, but --model.head is "
            f"{config.model.head!r}: say --model.head {models.GAUSSIAN}."
        )
    who = _wants_maps(config.method, config.model.head, needs)
    if not who:
        return
    if config.model.backbone == "none":
        raise InputError(
            f"{who} needs the feature map of a convolutional backbone, but the data holds feature vectors: "
            "give the images that they were made from, or choose another head or method."
        )
    if config.model.frozen == "yes":
        raise InputError(
            f"{who} needs the feature map of the backbone in every step, but --model.frozen is 'yes', which "
            "keeps pooled features only: say --model.frozen no."
        )


def never_infers(config: Config, objective: Objective) -> str:
    """What to tell of a method whose warm-up is not over before training is; else nothing."""
    if config.optim.name == LBFGS or objective.warmup < config.epochs:
        return ""
    return (
        f"method {config.method!r} infers nothing before epoch {objective.warmup + 1} (hp.warmup is "
        f"{objective.warmup}), and epochs is {config.epochs}: train longer, or set a shorter warmup"
    )


def check_maps(config: Config, needs: Needs, backbone: models.Backbone) -> None:
    """Refuse a backbone without a feature map where the method or the head needs one.

    Raises:
        InputError: see `Backbone.maps`.
    """
    who = _wants_maps(config.method, config.model.head, needs)
    if who:
        try:
            backbone.check_maps()
        except InputError as error:
            raise InputError(f"{who} needs a feature map, but {error}") from error


def _wants_maps(method: str, head: str, needs: Needs) -> str:
    """Who needs the feature map of the backbone; empty if nobody does."""
    if needs.class_maps:
        return f"method {method!r}"
    return f"head {head!r} (method {method!r})" if head == models.BOOSTED_CAM else ""


def check_mean_labels(mean_labels: float | None, classes: int) -> None:
    """Refuse a mean number of labels per sample K that these classes can't have.

    Raises:
        InputError: K does not lie between 0 and the number of classes.
    """
    if mean_labels is not None and not 0 < mean_labels < classes:
        raise InputError(
            f"--mean_labels is the mean number of labels per sample, between 0 and the {classes} classes, "
            f"got {mean_labels:g}. State another, or leave it out if it is not known."
        )
