"""What a run starts from: the objective that has seen the observed labels, the head on its features."""

from __future__ import annotations

from typing import Any

import torch

from .. import models
from ..config import LBFGS, Config
from ..data import Dataset
from ..decisions.selection import default_mean_labels
from ..engine.lbfgs_path import check_solvable
from ..methods.base import Facts, Objective
from ..methods.registry import create
from .resolve import check_needs


def start_objective(config: Config, data: Dataset) -> Objective:
    """The method of a run, started on the observed labels of its training samples.

    Raises:
        InputError: hyper-parameters out of their domain; data or model do not give what the method needs, or
            L-BFGS can't minimise it.
    """
    train = data.splits["train"]
    objective = create(config.method, config.hp)
    check_needs(config, objective.needs)
    torch.manual_seed(config.seed)  # an objective may draw its start
    objective.on_fit_start(Facts(train.observed, train.ids, data.classes, config.mean_labels))
    if config.optim.name == LBFGS:
        check_solvable(objective, config.method, train, config.epochs)
    return objective


def make_top(config: Config, data: Dataset, num_features: int) -> tuple[models.Top, dict[str, Any]]:
    """A new top with its features standardised and its head at its start, and where that start came from.

    Args:
        config: complete (`with_data`).
        data: as the top takes it: features, or images of a backbone that is trained.
        num_features: D.
    """
    observed = data.splits["train"].observed
    torch.manual_seed(config.seed)
    top = models.Top(
        num_features,
        len(data.classes),
        head=config.model.head if config.method else "linear",
        hidden=config.model.hidden,
        dropout=config.model.dropout,
        standardise=config.model.standardise and data.kind == "feature",
        scores=config.model.scores if config.method else "logits",
    )
    top.fit_standardise(data.splits["train"].inputs)
    mean_labels, source = config.mean_labels, "stated"
    if mean_labels is None:
        mean_labels, source = default_mean_labels(len(data.classes)), "default"
    start: str = config.model.head_bias
    if config.method:
        models.start_bias(top.head, start, mean_labels)
    else:
        start = "solved"
        if config.mean_labels is None and observed.full:
            mean_labels, source = float(observed.positives_per_sample().mean()), "training labels"
    return top, {"start": start, "mean_labels": mean_labels, "source": source}
