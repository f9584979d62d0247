"""What a run is: every setting, its default, its meaning. Free of torch, so that `--help` is quick."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import yaml

from .errors import InputError, nearest

LBFGS = "lbfgs"
"""The optimiser that solves a head instead of training it."""


@dataclass
class DataConfig:
    """What to learn from.

    Attributes:
        path: a folder (one sub-folder per class, PASCAL VOC, COCO, Hugging Face), a table (CSV, TSV,
            Parquet), JSON of COCO or Label Studio, a CSV of OpenImages, features (.npz, .arff), or `digits`.
        images: folder of the images that a data file names, if it is not the file's own or one beside it. For
            an image folder: a further folder that links in it may lead to.
        unlisted: what a label that a file does not list means. `negative` makes the data fully labelled.
        observe: hide labels of fully labelled data; what is hidden serves evaluation only. Keep one positive
            per sample, drawn uniformly: `single`; by the frequency of its class: `frequency`; by a random
            salience of its class: `salience`; by the area of its largest box: `size`; by how close a box is
            to the centre of the image: `position`. Or keep some labels of both signs per sample: `counts`; a
            share of all labels: `fraction`; the answers to questions for one class after the other, up to
            the first yes: `questions`; what a benchmark's publication observed: `protocol`.
        observe_seed: seed of the draw of `observe`.
        observe_positives: positives that `counts` keeps of each sample, or all where there are fewer.
        observe_negatives: negatives that `counts` keeps likewise.
        observe_share: share of all labels that `fraction` keeps, positive and negative.
        observe_power: how much `frequency`, `size` and `position` prefer: the chance is proportional to that
            measure ^ power; 0 is `single`, and below 0 the rare, the small, the outer are preferred. For
            `salience` the standard deviation of its logarithm.
        val_share: share of the training samples held out for validation where the data has no split.
        test_share: share of all samples set aside for the test where the data has no split; 0 = no test.
        split_seed: seed of both.
        label_columns: attributes of an ARFF file that are labels: N for the first N, -N for the last N; 0 =
            as its .xml file or @relation says.
        separator: what separates several labels in one CSV cell; recognised if not stated.
        size: side in pixels to which images are resized; 0 = what the backbone was trained with.
        flip: mirror training images at random (never done for digits and feature files).
        max_unreadable: share of unreadable images above which reading stops.
        max_pixels: an image with more pixels is not opened.
        draft: decode a JPEG at 1/2, 1/4 or 1/8 of its size where twice `size` is left on both sides. Pays for
            photos of several megapixels; pixels differ by about 1 of 255 from those of plain resizing, which
            the papers and `spml predict` use.
        workers: processes that decode images; -1 = one per core, at most 8.
        cache: folder for computed features; default: `features` in the run's folder.
    """

    path: str = ""
    images: str | None = None
    unlisted: Literal["unknown", "negative"] = "unknown"
    observe: Literal[
        "none", "single", "counts", "fraction", "frequency", "salience", "size", "position", "questions",
        "protocol",
    ] = "none"  # fmt: skip
    observe_seed: int = 0
    observe_positives: int = 1
    observe_negatives: int = 0
    observe_share: float = 0.1
    observe_power: float = 1.0
    val_share: float = 0.2
    test_share: float = 0.0
    split_seed: int = 0
    label_columns: int = 0
    separator: str | None = None
    size: int = 0
    flip: bool = True
    max_unreadable: float = 0.01
    max_pixels: int = 100_000_000
    draft: bool = False
    workers: int = -1
    cache: str | None = None


@dataclass
class ModelConfig:
    """What maps a sample to one logit per class.

    Attributes:
        backbone: any timm model, `small_cnn`, or `none` for feature files; `auto` picks by the data.
        weights: `pretrained` (timm's own download), `random`, or a .safetensors file; a JSON of the same name
            beside the file may say how images are prepared. `small_cnn` always starts from random weights.
        frozen: compute the backbone's features once and train the head only; `auto` = yes for a pretrained
            backbone, unless head or method needs its feature map.
        head: `linear`; `mlp` with one hidden layer; `boosted_cam`, a linear layer at every place of the
            feature map with positive values times 5 (images only); `gaussian`, a random code and a linear
            layer; `auto` = what the method's card says. Two are solved in seconds instead of trained, on
            features of a pretrained, frozen backbone or of a file, without a method; epochs and `optim` do
            not matter then: `ridge`, regression of the observed labels (unknown = 0) with the best of 13
            penalties by the validation score, and `mean_difference`, the mean of the samples with a label
            minus that of all. Short on the command line: --head.
        hidden: width of the hidden layer of `mlp`, and of the code of `gaussian`.
        dropout: share of features dropped before the head.
        scores: what a model answers: the head's `logits`, or their `log_softmax`, log-probabilities over the
            classes of a sample. For losses that only compare classes of the same sample: they leave open how
            the logits of one sample lie to those of another. `auto` = what the method's card says.
        head_bias: bias that a new head starts with: `zero`, or `prior` = logit(K / C); `auto` = what the
            method's card says.
        standardise: scale each feature to mean 0 and deviation 1 over the training set (feature files and
            frozen backbones).
    """

    backbone: str = "auto"
    weights: str = "pretrained"
    frozen: Literal["auto", "yes", "no"] = "auto"
    head: Literal["auto", "linear", "mlp", "boosted_cam", "gaussian", "ridge", "mean_difference"] = "auto"
    hidden: int = 512
    dropout: float = 0.0
    scores: Literal["auto", "logits", "log_softmax"] = "auto"
    head_bias: Literal["auto", "zero", "prior"] = "auto"
    standardise: bool = True


@dataclass
class OptimConfig:
    """How weights are updated.

    Attributes:
        name: `adamw`, `adam` or `sgd` (momentum .9). `lbfgs` does not train but solves a linear head, on
            features of a pretrained, frozen backbone or of a file: to the minimum of the method's loss of the
            whole training set with an L2 penalty, for 13 penalties, of which the best by the validation score
            is kept. `epochs` says where a schedule ends, and the other settings here do not matter. For
            methods without a memory, views or parameters of their own.
        lr: learning rate; default 1e-3, or 1e-4 when a pretrained backbone is fine-tuned.
        weight_decay: decoupled for adamw, added to the gradient for the others.
        l1: adds l1 * sum |w| over the model's weights (biases and norms excepted) to the loss.
        l2: adds l2 * sum w^2 likewise. The optimiser sees the gradient of both, so that the minimum is that
            of the penalised loss, unlike with `weight_decay` and adamw; for them alone set that to 0.
        head_lr_factor: the head's learning rate is this times `lr`; default 10 when a pretrained backbone is
            fine-tuned with a new head, else 1.
        warmup_epochs: epochs over which the learning rate rises linearly from zero.
        schedule: `constant`, or `cosine` down to zero at the last step.
        clip: largest norm of the gradient; 0 = no clipping.
        ema: decay per step of an average of the weights that is used for validation and prediction; 0 = none.
    """

    name: Literal["adamw", "adam", "sgd", "lbfgs"] = "adamw"
    lr: float | None = None
    weight_decay: float = 1e-4
    l1: float = 0.0
    l2: float = 0.0
    head_lr_factor: float | None = None
    warmup_epochs: float = 0.0
    schedule: Literal["constant", "cosine"] = "constant"
    clip: float = 0.0
    ema: float = 0.0


@dataclass
class Config:
    """One training run.

    Attributes:
        data: what to learn from.
        model: what maps a sample to one logit per class.
        optim: how weights are updated.
        method: a registered method; `spml methods` lists them. None for a head that is solved.
        hp: hyper-parameters of the method; `spml methods NAME` lists them.
        epochs: passes over the training set.
        batch_size: samples per step, over all devices.
        seed: seed of everything random in training.
        select: how the best epoch is chosen: `observed` (SP-score, needs no full labels), `oracle` (mAP on
            fully labelled validation samples); `auto` = `oracle` only if the given validation labels are
            full.
        mean_labels: mean labels per sample K, if known; 2 (half of fewer than 4 classes) where it is
            needed and not stated.
        patience: stop after this many epochs without a better validation score; 0 = never.
        devices: processes or accelerators to train on.
        accelerator: `auto`, `cpu`, `cuda`, `mps`.
        precision: `32-true`, `bf16-mixed`, `16-mixed`.
        checkpoint_steps: also write a checkpoint every so many steps; 0 = after each epoch only.
        threads: threads of torch per process; 0 = as torch decides.
        init_from: folder of a finished run to start from: its whole model, whose settings are taken over,
            and, for the same method on the same training labels, what the method had inferred. First with
            a frozen backbone, then from that run with --model.frozen no, this is linear initialisation.
        output: folder of the run.
    """

    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    method: str = ""
    hp: dict[str, Any] = field(default_factory=dict)
    epochs: int = 20
    batch_size: int = 64
    seed: int = 0
    select: Literal["auto", "observed", "oracle"] = "auto"
    mean_labels: float | None = None
    patience: int = 0
    devices: int = 1
    accelerator: str = "auto"
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"
    checkpoint_steps: int = 0
    threads: int = 0
    init_from: str = ""
    output: str = ""


# -- making, checking, writing ---------------------------------------------------------------------------


def from_dict(settings: Mapping[str, Any]) -> Config:
    """A configuration from nested settings; what is not named has its default.

    Raises:
        InputError: an unknown key (with the nearest known ones), or a value of the wrong type.
    """
    config: Config = _fill(Config, settings, "")
    return config


def _fill(cls: Any, settings: Mapping[str, Any], prefix: str) -> Any:
    known = {f.name: f for f in fields(cls)}
    hints = get_type_hints(cls)
    values: dict[str, Any] = {}
    for key, value in settings.items():
        if key not in known:
            raise InputError(f"unknown setting {prefix + key!r}. {nearest(key, known)}")
        hint = hints[key]
        if is_dataclass(hint):
            if not isinstance(value, Mapping):
                raise InputError(f"{prefix + key}: expected settings by name, got {value!r}")
            values[key] = _fill(hint, value, f"{prefix}{key}.")
        else:
            values[key] = _typed(value, hint, prefix + key)
    return cls(**values)


def _typed(value: Any, hint: Any, name: str) -> Any:
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise InputError(f"{name} must be one of {', '.join(get_args(hint))}, got {value!r}")
        return value
    if isinstance(value, os.PathLike) and hint is str:
        return os.fspath(value)
    allowed = tuple(dict if get_origin(part) is dict else part for part in get_args(hint) or (hint,))
    if get_origin(hint) is dict:
        allowed = (dict,)
    if float in allowed and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
        names = " or ".join("nothing" if part is type(None) else part.__name__ for part in allowed)
        raise InputError(f"{name} must be of type {names}, got {value!r}")
    return value


def check(config: Config) -> None:
    """Check the settings that can be checked without data.

    Raises:
        InputError: names the setting, its value and what is allowed.
    """
    rules: list[tuple[str, Any, bool, str]] = [
        ("epochs", config.epochs, config.epochs >= 1, "at least 1"),
        ("batch_size", config.batch_size, config.batch_size >= 1, "at least 1"),
        ("devices", config.devices, config.devices >= 1, "at least 1"),
        ("patience", config.patience, config.patience >= 0, "at least 0"),
        ("seed", config.seed, 0 <= config.seed < 2**32, "from 0 to 2^32 - 1"),
        ("checkpoint_steps", config.checkpoint_steps, config.checkpoint_steps >= 0, "at least 0"),
        ("threads", config.threads, 0 <= config.threads <= 1024, "from 0 to 1024"),
        ("data.val_share", config.data.val_share, 0 < config.data.val_share < 1, "between 0 and 1"),
        ("data.test_share", config.data.test_share, 0 <= config.data.test_share < 1, "in [0, 1)"),
        ("data.size", config.data.size, 0 <= config.data.size <= 1 << 14, "from 0 to 16384"),
        (
            "data.max_unreadable",
            config.data.max_unreadable,
            0 <= config.data.max_unreadable <= 1,
            "in [0, 1]",
        ),
        ("data.max_pixels", config.data.max_pixels, config.data.max_pixels >= 1, "at least 1"),
        ("model.hidden", config.model.hidden, config.model.hidden >= 1, "at least 1"),
        ("model.dropout", config.model.dropout, 0 <= config.model.dropout < 1, "in [0, 1)"),
        ("optim.lr", config.optim.lr, config.optim.lr is None or config.optim.lr > 0, "greater than 0"),
        ("optim.weight_decay", config.optim.weight_decay, config.optim.weight_decay >= 0, "at least 0"),
        ("optim.l1", config.optim.l1, config.optim.l1 >= 0, "at least 0"),
        ("optim.l2", config.optim.l2, config.optim.l2 >= 0, "at least 0"),
        ("optim.warmup_epochs", config.optim.warmup_epochs, config.optim.warmup_epochs >= 0, "at least 0"),
        ("optim.clip", config.optim.clip, config.optim.clip >= 0, "at least 0"),
        ("optim.ema", config.optim.ema, 0 <= config.optim.ema < 1, "in [0, 1)"),
        (
            "optim.head_lr_factor",
            config.optim.head_lr_factor,
            config.optim.head_lr_factor is None or config.optim.head_lr_factor > 0,
            "greater than 0",
        ),
        (
            "mean_labels",
            config.mean_labels,
            config.mean_labels is None or config.mean_labels > 0,
            "greater than 0",
        ),
    ]
    for name, value, fine, expected in rules:
        if not fine:
            raise InputError(f"--{name} must be {expected}, got {value}")


def to_yaml(config: Config) -> str:
    """The complete configuration as YAML; `from_dict` of it gives an equal one."""
    return yaml.safe_dump(asdict(config), sort_keys=False, allow_unicode=True)


def read_yaml(path: Path) -> Config:
    """The configuration in a YAML file.

    Raises:
        InputError: missing, not YAML, or with unknown settings.
    """
    try:
        settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"{path}: not a readable configuration ({error})") from error
    if not isinstance(settings, dict):
        raise InputError(f"{path}: expected settings by name, got {type(settings).__name__}")
    try:
        return from_dict(settings)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def differences(one: Config, other: Config) -> list[str]:
    """Names of the settings that differ, such as `optim.lr`."""
    flat_one, flat_other = _flat(asdict(one)), _flat(asdict(other))
    return sorted(key for key in {*flat_one, *flat_other} if flat_one.get(key) != flat_other.get(key))


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        name = prefix + key
        flat |= _flat(value, name + ".") if isinstance(value, Mapping) else {name: value}
    return flat
