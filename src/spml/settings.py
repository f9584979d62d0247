"""What the user left open, filled in, so that config.yaml repeats the run."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from pathlib import Path

from . import models, recipes
from .config import Config, DataConfig, ModelConfig, OptimConfig, check
from .data import Dataset
from .errors import InputError
from .objective import find


def with_defaults(config: Config) -> Config:
    """Settings that can be filled in and checked before the data is read: method and folder.

    Raises:
        InputError: no data named, an unknown method, a setting outside its domain.
    """
    if not config.data.path:
        raise InputError(
            "nothing to learn from: name a folder with one sub-folder per class, a CSV file, a .npz feature "
            "file, or `digits`."
        )
    method = config.method or recipes.read("default")["method"]
    find(method)
    name = Path(config.data.path).resolve().stem or "run"
    config = replace(config, method=method, output=config.output or f"runs/{name}-{method}")
    check(config)
    return config


def with_data(config: Config, data: Dataset, spec: models.BackboneSpec) -> Config:
    """Settings that depend on the data and the backbone: image size, learning rates, head bias, workers."""
    card = find(config.method).card
    pretrained = spec.weights in ("pretrained", "file")
    frozen = config.model.frozen
    if data.kind == "feature":
        frozen = "no"
    elif frozen == "auto":
        frozen = "yes" if pretrained else "no"
    fine_tuned = pretrained and frozen == "no"
    optim = OptimConfig(**asdict(config.optim))
    optim.lr = config.optim.lr or (1e-4 if fine_tuned else 1e-3)
    optim.head_lr_factor = config.optim.head_lr_factor or (10.0 if fine_tuned else 1.0)
    model = ModelConfig(**asdict(config.model))
    model.backbone, model.frozen = spec.name, frozen
    model.head_bias = card.head_bias if model.head_bias == "auto" else model.head_bias  # type: ignore[assignment]
    settings = DataConfig(**asdict(config.data))
    settings.size = config.data.size or spec.size
    if not data.decoded:
        settings.workers = 0
    elif settings.workers < 0:
        settings.workers = min(os.cpu_count() or 1, 8)
    return replace(config, data=settings, model=model, optim=optim)


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
