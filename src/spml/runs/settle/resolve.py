"""Settle every setting of a run in one visit, so that config.yaml is complete and repeats the run.

`check_stated` refuses what can be refused without data, `open_for_backbone` opens the data, and `resolve`
completes the settings. Only the scaling of features that a frozen backbone computes is left:
`Resolved.settle_scaling`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from torch import Tensor

from ... import models
from ...common.errors import InputError
from ...common.messages import log
from ...common.phrases import counted
from ...common.safe import quote
from ...config import AUTO, LBFGS, Config, DataConfig, ModelConfig, OptimConfig, differences
from ...data import MEMORY, Dataset, Inputs, Kind, Opening, Records, start_opening, wanted_names
from ...data.images.image_files import image_sides
from ...data.matrix import FeatureMatrix
from ...decisions import MeanLabels, assumed_for_thresholds, default_mean_labels
from ...methods.base import Needs, Objective
from ...methods.registry import create, find
from ...models.solved.moments import MOST_COLUMNS
from .. import recipes
from . import conflicts
from .init_from import Start, read_start

_ROWS, _IMAGES = 256, 8  # training samples by which the scaling of features is chosen


class Opened(NamedTuple):
    """Data, opened for a backbone, and this backbone with the preparation of its inputs.

    Attributes:
        sizes: Sizes of images, ascending, of which an auto head uses one or two, or all that are stated; none
            = that of `spec`, which is the largest one.
    """

    data: Dataset
    spec: models.BackboneSpec
    sizes: tuple[int, ...] = ()


@dataclass
class Resolved:
    """A run whose settings are complete.

    Attributes:
        config: Complete settings. The scaling of features from images over a frozen backbone, and the
            learning rate that follows from it, are open until `settle_scaling`.
        spec: Backbone, and how its inputs are prepared.
        data: Data set, opened for this backbone.
        objective: Method with its hyper-parameters, not started yet; None where heads are in closed form.
        start: Finished run that this one starts from, if there is one.
        notes: Remarks for the user.
        backbone: Backbone with the weights that the run starts from, once it has been made.
        sizes: As in `Opened`.
    """

    config: Config
    spec: models.BackboneSpec
    data: Dataset
    objective: Objective | None
    start: Start | None = None
    notes: tuple[str, ...] = ()
    backbone: models.Backbone | None = None
    sizes: tuple[int, ...] = ()

    @property
    def needs(self) -> Needs:
        """What the method needs; a head in closed form needs nothing."""
        return self.objective.needs if self.objective else Needs()

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
        return conflicts.needs_maps(self.config.method, self.config.model.head, self.needs)

    @property
    def top(self) -> dict[str, Any]:
        """Arguments of `models.Top` except its size."""
        model, on_features = self.config.model, self.frozen or self.data.kind == "feature"
        queries, codes = None, None
        if model.head == models.QUERIES:
            queries = msgspec.structs.replace(
                msgspec.convert(model, models.QuerySettings, from_attributes=True),
                code=model.code if self.needs.latent else 0,
                embedding=self.needs.embedding,
                posterior=self.needs.posterior,
            )
        if model.head == models.GAUSSIAN_PER_CLASS:
            codes = msgspec.convert(model, models.CodeSettings, from_attributes=True)
        return {
            "head": model.head if self.objective else models.LINEAR,
            "hidden": model.hidden,
            "dropout": model.dropout,
            "scaling": model.scaling if on_features else models.RAW,
            "scores": model.scores,
            "codes": codes,
            "queries": queries,
        }

    @property
    def threshold_mean_labels(self) -> MeanLabels:
        """K of thresholds: as stated, the mean of full validation labels, or what is assumed for them."""
        k = mean_labels_of(self.config, self.data, "val")
        return k if k.known else MeanLabels(assumed_for_thresholds(len(self.data.classes)), "default")

    @property
    def head_mean_labels(self) -> MeanLabels:
        """K of the head: a head in closed form knows that of training samples whose labels are all known."""
        return mean_labels_of(self.config, self.data, "" if self.objective else "train")

    @property
    def head_bias(self) -> dict[str, Any]:
        """Start of the head's bias, for the summary, with the K that it follows from."""
        if self.start:
            return {"start": "init_from"}
        k = self.head_mean_labels
        start = self.config.model.head_bias if self.objective else "solved"
        source = "training labels" if k.source == "labels" else k.source
        return {"start": start, "mean_labels": k.value, "source": source}

    @property
    def scaling_open(self) -> bool:
        """Whether the scaling of features waits for some that the backbone computes."""
        return self.config.model.scaling == "auto"

    def settle_scaling(self, features: Tensor) -> None:
        """Choose the scaling by the features (B, D) of some training samples, and the
        learning rate with it."""
        # Class means gain nothing from another scaling, and the SP-score falls.
        own = self.config.model.head == models.MEAN_DIFFERENCE
        self._scale(models.STANDARD if own else models.default_scaling(features))

    def _scale(self, scaling: Literal["standard", "sqrtl2", "unit", "tfidf"]) -> None:
        optim = replace(self.config.optim, lr=self.config.optim.lr or _head_rate(scaling))
        self.config = replace(self.config, model=replace(self.config.model, scaling=scaling), optim=optim)


def check_stated(config: Config) -> tuple[Config, Start | None]:
    """Check settings as far as no data is needed, and read the finished run that they start from.

    Returns:
        The settings, with the wanted names of classes in place of their file; and the finished run.

    Raises:
        InputError: A setting is outside its domain or does not go together with another one, or a file that
            it names can't be read.
    """
    conflicts.check_stated(config)
    config = replace(config, data=replace(config.data, rename=wanted_names(config.data) or ""))
    return config, read_start(Path(config.init_from)) if config.init_from else None


def open_for_backbone(
    config: Config,
    start: Start | None = None,
    records: Records | None = None,
    *,
    several: bool = False,
) -> Opened:
    """Open the data of a run with images of the size that its backbone takes.

    Args:
        config: Settings; only those of data and model are used.
        start: Finished run whose backbone is used instead of the one that `config` names.
        records: Data in memory; None = what `config.data.path` names.
        several: Whether an auto head may use several sizes of images.

    Raises:
        InputError: The data can't be opened, the backbone does not suit it, or several sizes are stated for
            another model than the auto head.
    """
    opening = start_opening(config.data, records=records)
    if start:
        start.check(opening)
        spec = start.spec(config.data.side)
    else:
        spec = models.describe_backbone(
            config.model,
            opening.kind,
            opening.width,
            size=config.data.side,
            source=opening.name,
        )
    sizes = config.data.sizes
    auto = settle_method(config, opening.kind, spec, start) == AUTO and len(opening.classes) <= MOST_COLUMNS
    averages = several and auto and opening.kind == "image" and models.takes_any_size(spec)
    chooses = config.data.size == "auto" and spec.is_pretrained and config.model.frozen != "no"
    if len(sizes) > 1 and not averages:
        raise InputError(
            f"data.size={config.data.size}: several sizes are averaged by the auto head on a network of timm "
            "that takes any size, trained by `spml train` with labels. State one size."
        )
    if averages and chooses:
        sizes = sizes_for(opening, spec.size)
        spec = replace(spec, size=sizes[-1])
    data = opening.finish(size=spec.size, interpolation=spec.interpolation)
    return Opened(data, spec, sizes if len(sizes) > 1 else ())


def settle_method(config: Config, kind: Kind, spec: models.BackboneSpec, start: Start | None) -> str:
    """The method that is stated, or follows from the other settings; empty for a head in closed form.

    Heads are solved if features do not change and no setting asks for training.
    """
    if config.method or config.model.head in models.CLOSED_FORM:
        return config.method
    model = config.model
    fixed = kind == "feature" or (spec.is_pretrained and model.frozen != "no")
    free = ModelConfig(
        backbone=model.backbone, weights=model.weights, frozen=model.frozen, local=model.local,
        names=model.names, names_file=model.names_file, prompts=model.prompts,
    )  # fmt: skip
    asks = start or config.hp or config.optim.name == LBFGS or config.record != "none" or model != free
    return str(recipes.read("default")["trained" if asks or not fixed else "solved"])


def resolve(config: Config, opened: Opened, start: Start | None = None) -> Resolved:
    """Complete and check the settings of a run.

    Args:
        config: Settings from `check_stated`.
        opened: Data, opened for the backbone of the run.
        start: Finished run that this one starts from.

    Raises:
        InputError: A setting does not go together with another one, with the data, with the backbone or with
            the method.
    """
    data, spec = opened.data, opened.spec
    given = [samples.observed for name, samples in data.splits.items() if name != "test"]
    conflicts.check_mean_labels(config.mean_labels, len(data.classes), given)
    notes: list[str] = []
    recipe, train = recipes.read("default"), data.splits["train"]

    # The method.
    if not config.method and config.model.head not in models.CLOSED_FORM:
        config = replace(config, method=settle_method(config, data.kind, spec, start))
        meaning = "the model is trained with its loss"
        if config.method == AUTO:
            meaning = "an ensemble of heads is solved"
        notes.append(
            f"no method was passed, so {config.method} is used: {meaning} (`spml methods {config.method}`)"
        )
    objective = create(config.objective, config.hp) if config.objective else None
    needs = objective.needs if objective else Needs()

    # The model.
    if start:
        start.check_needs(config.method, needs)
        config = replace(config, model=start.model_settings(config.model))
    model = config.model
    if objective:
        card = find(config.objective).card
        from_card = {name: getattr(card, name) for name in ("head", "scores", "head_bias")}
        model = replace(
            model, **{name: value for name, value in from_card.items() if getattr(model, name) == "auto"}
        )
    else:
        model = replace(model, scores="log_softmax" if model.head == models.LDA else "logits")
    frozen, scaling = model.frozen, model.scaling
    if data.kind == "feature":
        frozen = "no"
    elif frozen == "auto":
        maps = conflicts.needs_maps(config.method, model.head, needs)
        frozen = "yes" if spec.is_pretrained and not maps else "no"
    has_parts = isinstance(train.inputs, FeatureMatrix) and train.inputs.num_parts > 0
    windows = has_parts or (frozen == "yes" and data.kind == "image")
    local = "off" if model.local == "auto" and not windows else model.local
    trained = data.kind == "image" and frozen == "no" and scaling == "auto"
    if config.method == AUTO or trained:  # the auto head has scalings of its own
        scaling = models.RAW
    elif spec.name == models.TFIDF and scaling == "auto":  # weighed, and of length 1 already
        scaling = models.UNIT
    model = replace(model, backbone=spec.name, frozen=frozen, local=local, scaling=scaling)

    # Learning rates.
    fine_tuned = spec.is_pretrained and model.frozen == "no"
    rate = 1e-4 if fine_tuned else None if model.scaling == "auto" else _head_rate(model.scaling)
    factor = 10.0 if fine_tuned and start is None and config.method != AUTO else 1.0
    optim = replace(
        config.optim,
        lr=rate if config.optim.lr is None else config.optim.lr,
        head_lr_factor=config.optim.head_lr_factor or factor,
    )
    if config.method == AUTO and not (data.kind == "image" and model.frozen == "no"):
        # Settings that say how to train, where a person has stated them although heads are solved. The
        # config.yaml of a run states all of them as they are settled here.
        untouched = replace(
            config,
            epochs=Config().epochs,
            patience=Config().patience,
            optim=OptimConfig(lr=rate, head_lr_factor=factor),
        )
        if idle := differences(replace(config, optim=optim), untouched):
            notes.append(
                f"heads of method {AUTO} are solved, so {', '.join(idle)} {'have' if idle[1:] else 'has'} no "
                f"effect: to train instead, name a method, such as method={recipe['trained']}"
            )

    settled = settle_data(config.data, spec, data)
    if opened.sizes or (config.method == AUTO and data.kind == "image" and frozen == "no"):
        settled = replace(settled, size=config.data.size)  # chosen when features are known
    config = replace(config, data=settled, model=model, optim=optim)
    conflicts.check_settled(config, needs, spec, data.kind, train.inputs)
    if objective and (remark := missed_warmup(config, objective)):
        notes.append(remark)
    if needs.features and data.kind == "image" and model.frozen == "no":
        notes.append(
            f"method {config.method!r} uses the features of all training samples, which change while the "
            "backbone is trained (model.frozen=no), so its form without features is used"
        )
    if remark := assumed_mean_labels(config, data, new_head=start is None):
        notes.append(remark)
    run = Resolved(config, spec, data, objective, start, tuple(notes), sizes=opened.sizes)
    if run.scaling_open and objective is None and models.is_wide(train):
        run._scale(models.sparse_scaling(train))
    elif run.scaling_open and data.kind == "feature":
        run.settle_scaling(some_rows(train.inputs, _ROWS))
    return run


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
    method = config.method.rpartition(":")[2]  # of a method in a file, its class
    parts = (name, method or head, "continued" if config.init_from else "")
    return Path("runs", "-".join(part for part in parts if part))


def settle_data(config: DataConfig, spec: models.BackboneSpec, data: Dataset) -> DataConfig:
    """Settle the size of images and the number of processes that decode them."""
    workers = config.workers
    if not data.decoded:
        workers = 0
    elif workers < 0:
        workers = min(os.cpu_count() or 1, 8)
    return replace(config, size=config.side or spec.size, workers=workers)


def some_rows(inputs: Inputs, count: int = _IMAGES) -> Tensor:
    """Return about `count` samples, evenly spaced."""
    return inputs.fetch(range(0, len(inputs), max(1, len(inputs) // count)), None)


def _head_rate(scaling: str) -> float:
    """Learning rate of a head; samples of length 1 need a larger one, since their features are small."""
    return 1e-3 if scaling in (models.RAW, models.STANDARD) else 1e-2


# -- mean labels per sample, and remarks -----------------------------------------------------------------


def mean_labels_of(config: Config, data: Dataset, split: str = "") -> MeanLabels:
    """Return K as stated, or the mean of the labels of `split` if all are known, or the default."""
    if config.mean_labels is not None:
        return MeanLabels(config.mean_labels, "stated")
    if split and (observed := data.splits[split].observed).full:
        return MeanLabels(float(observed.positives_per_sample().mean()), "labels")
    return MeanLabels(default_mean_labels(len(data.classes)), "default")


def assumed_mean_labels(config: Config, data: Dataset, *, new_head: bool) -> str:
    """A remark on the mean number of labels per sample K that is assumed; empty if it is stated or not used.

    Args:
        config: Complete settings.
        data: Data set with its splits.
        new_head: Whether the head of the model is a new one.
    """
    full, model = {name for name, samples in data.splits.items() if samples.observed.full}, config.model
    uses = {
        "the SP-score": config.select == "observed" or (config.select == "auto" and "val" not in full),
        "the bias that the head starts with": config.method and model.head_bias == "prior" and new_head,
        "the bias of the head": not config.method and model.head != models.LDA and "train" not in full,
    }
    what = " and ".join(name for name, used in uses.items() if used)
    if config.mean_labels is not None or not what:
        return ""
    labels = default_mean_labels(len(data.classes))
    assumed = f"{labels:g} label{'' if labels == 1 else 's'} per sample assumed"
    if labels < 2:
        assumed += f" (half of the {len(data.classes)} classes)"
    return f"{assumed} for {what}: pass mean_labels=K if you know better"


def missed_warmup(config: Config, objective: Objective) -> str:
    """A remark if training ends before the warm-up of the method does; empty otherwise."""
    if config.optim.name == LBFGS or objective.warmup < config.epochs:
        return ""
    return (
        f"method {config.method!r} infers nothing before epoch {objective.warmup + 1} (hp.warmup is "
        f"{objective.warmup}), and epochs is {config.epochs}: train longer, or set a shorter warmup"
    )


# -- sizes of images that an auto head may use, from those of the photographs -----------------------------

_STRIDE = 32
_FACTORS = 1.4, 2
_LARGEST = 1.15
"""Largest size as a share of the longer side of photographs, and least ratio of neighbouring sizes."""

_SOME = 200  # photographs whose headers are read
_SMALL = 32  # pixels of the longer side below which photographs say little
_SPREAD = 4  # ratio of long to short photographs from which one size hardly suits all


def candidate_sizes(own: int, longer_side: float) -> tuple[int, ...]:
    """Sizes to choose from, ascending: the network's own, 1.4 and 2 times it in multiples of 32 pixels, but
    no larger than about the longer side of the photographs, and each clearly larger than the one before.

    Example:
        >>> candidate_sizes(224, 341), candidate_sizes(224, 320), candidate_sizes(224, 128)
        ((224, 320, 384), (224, 320), (224,))
    """
    largest, sizes = int(_LARGEST * longer_side) // _STRIDE * _STRIDE, [own]
    for factor in _FACTORS:
        size = min(math.ceil(factor * own / _STRIDE) * _STRIDE, largest, models.LARGEST_SIZE)
        if size >= _LARGEST * sizes[-1]:
            sizes.append(size)
    return tuple(sizes)


def sizes_for(opening: Opening, own: int) -> tuple[int, ...]:
    """Sizes to choose from for photographs in files, by the median of their longer sides. A line says
    where most are tiny, or where one size hardly suits all."""
    files = opening.records.inputs
    if not isinstance(files, Sequence):
        return (own,)
    chosen = np.unique(np.linspace(0, len(files) - 1, min(len(files), _SOME)).astype(np.int64))
    sides = image_sides([files[row] for row in chosen.tolist()], opening.config.max_pixels)
    if not sides:
        return (own,)
    low, median, high = np.quantile([max(each) for each in sides], (0.1, 0.5, 0.9)).tolist()
    if median < _SMALL:
        log.info(
            f"note: half of the photographs have less than {_SMALL} pixels on the longer side (median "
            f"{median:g}) and are enlarged to {own}, the size of the network. Take larger ones if there are "
            "any."
        )
    elif high > _SPREAD * low:
        log.info(
            f"note: photographs differ much in size: of {counted(len(sides), 'photograph')}, four in five "
            f"have {low:g} to {high:g} pixels on the longer side. Sizes are chosen by the median, {median:g}."
        )
    return candidate_sizes(own, median)
