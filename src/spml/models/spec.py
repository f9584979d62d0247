"""Which backbone a run means, and how it wants its inputs: everything about it but weights."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..config import ModelConfig
from ..data.dataset import Dataset
from ..data.images import INTERPOLATIONS
from ..errors import InputError, nearest
from ..files import sha256_file

NONE, SMALL_CNN = "none", "small_cnn"
# Options that change what a timm model computes from the same weights. Others are not taken from a file: some
# of them make timm open further files.
TIMM_OPTIONS = ("pad_type", "act_layer", "norm_layer", "bn_eps")


@dataclass(frozen=True)
class BackboneSpec:
    """All that is needed to build a backbone again, apart from its weights, and to prepare its inputs.

    Attributes:
        name: `none`, `small_cnn`, or a timm model.
        options: further arguments of the timm model.
        size: side of the images it takes, in pixels; 0 for feature vectors.
        mean, std: per channel, of pixels scaled to [0, 1]; what is subtracted, and what is then divided by.
        interpolation: how images are resized.
        weights: where the weights came from: `none`, `random`, `pretrained` (timm) or `file`.
        file: name of the file of weights; empty if there is none.
        sha256: of that file.
        width: length of feature vectors; 0 for images.

    Raises:
        ValueError: a value that no backbone can have.
    """

    name: str
    options: Mapping[str, str | float] = field(default_factory=dict)
    size: int = 0
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    interpolation: str = "bilinear"
    weights: str = "none"
    file: str = ""
    sha256: str = ""
    width: int = 0

    def __post_init__(self) -> None:
        for name in ("mean", "std"):
            object.__setattr__(self, name, tuple(float(value) for value in getattr(self, name)))
        for name in ("name", "interpolation", "weights", "file", "sha256"):
            if not isinstance(getattr(self, name), str):
                raise ValueError(f"{name} must be a string, got {getattr(self, name)!r}")
        image = self.name != NONE
        for name, least, most in (("size", image, 8192 * image), ("width", not image, 1 << 24)):
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= most:
                raise ValueError(f"{name} must be a whole number from {int(least)} to {most}, got {value!r}")
        if self.interpolation not in INTERPOLATIONS:
            raise ValueError(
                f"interpolation must be one of {', '.join(INTERPOLATIONS)}, got {self.interpolation!r}"
            )
        for name, value in self.options.items():
            if name not in TIMM_OPTIONS or not isinstance(value, str | float | int):
                raise ValueError(
                    f"option {name!r} = {value!r} is not one of {', '.join(TIMM_OPTIONS)} with a plain value"
                )
        channels = {NONE: 0, SMALL_CNN: max(len(self.mean), 1)}.get(self.name, 3)
        if not len(self.mean) == len(self.std) == channels:
            raise ValueError(f"mean and std must have {channels} numbers, got {self.mean} and {self.std}")
        if not all(map(math.isfinite, self.mean + self.std)) or min(self.std, default=1.0) <= 0:
            raise ValueError(f"mean and std must be finite and std positive, got {self.mean} and {self.std}")


def describe_backbone(config: ModelConfig, data: Dataset, *, size: int = 0) -> BackboneSpec:
    """The backbone that `config` means for this data. Nothing is downloaded, no weights are read.

    `auto` is `none` for feature vectors, `small_cnn` for small grey images, `resnet50` for photographs. A
    JSON beside a file of weights (same name) may give `timm_model` (what `auto` then is), `timm_kwargs`,
    `input_size`, `mean`, `std` and `interpolation`; what it does not give is timm's default for the model.

    Args:
        config: what the user chose.
        data: what is to be classified.
        size: side of the images in pixels if the user chose it; 0 = what the backbone was trained with.

    Raises:
        InputError: an unknown backbone, one that does not suit the data, or a damaged JSON.
    """
    inputs = next(iter(data.splits.values())).inputs
    width = int(inputs.fetch([0], None).shape[1])
    name = config.backbone
    if data.kind == "feature":
        if name not in ("auto", NONE):
            raise InputError(
                f"backbone {name!r} takes images, but {data.name} holds feature vectors: leave out "
                "--model.backbone, or say none."
            )
        return BackboneSpec(NONE, width=width)
    if name == NONE:
        raise InputError(
            f"backbone none takes feature vectors, but {data.name} holds images: leave out --model.backbone, "
            "or name a timm model."
        )
    weights = None if config.weights in ("pretrained", "random") else Path(config.weights)
    if name == SMALL_CNN or (name == "auto" and width == 1 and weights is None):
        if weights is not None:
            raise InputError(
                f"small_cnn starts from random weights only, but --model.weights is {weights}: leave it out, "
                "or name the backbone that these weights belong to."
            )
        return BackboneSpec(SMALL_CNN, {}, size or 40, (0.25,) * width, (0.25,) * width, weights="random")
    if weights is None:
        return _timm_spec("resnet50" if name == "auto" else name, {}, "", size, config.weights)
    _check_suffix(weights)
    sidecar = weights.with_suffix(".json")
    given = _read_sidecar(sidecar) if sidecar.is_file() else {}
    named = str(given.get("timm_model") or "resnet50")
    if name == "auto":
        name = named
    elif "timm_model" in given and name.split(".")[0] != named.split(".")[0]:
        raise InputError(
            f"{weights}: these are weights of {named} (says {sidecar.name}), not of {name}: leave out "
            "--model.backbone, or give other weights."
        )
    spec = _timm_spec(name, given, str(sidecar), size, "file")
    return replace(spec, file=weights.name, sha256=_sha256(weights))


def _timm_spec(name: str, given: Mapping[str, Any], where: str, size: int, weights: str) -> BackboneSpec:
    """A timm model with inputs as timm prepares them, or as `given` (read from file `where`) says."""
    import timm

    architecture, _, tag = name.partition(".")
    known = timm.list_models()
    if architecture not in known:
        raise InputError(
            f"unknown backbone {name!r}: neither small_cnn nor a timm model. {nearest(name, known)}"
        )
    tagged = timm.list_pretrained(f"{architecture}.*")
    if tag and name not in tagged:
        raise InputError(f"timm has no weights {name!r} for {architecture}. {nearest(name, tagged)}")
    defaults = timm.get_pretrained_cfg(name)
    if weights == "pretrained" and f"{architecture}.{defaults.tag}" in tagged:
        name = f"{architecture}.{defaults.tag}"
    resize = defaults.interpolation if defaults.interpolation in INTERPOLATIONS else "bicubic"
    try:
        return BackboneSpec(
            name,
            dict(given.get("timm_kwargs", {})),
            size or given.get("input_size", defaults.input_size)[-1],
            given.get("mean", defaults.mean),
            given.get("std", defaults.std),
            given.get("interpolation", resize),
            weights,
        )
    except (ValueError, TypeError, LookupError) as error:
        raise InputError(
            f"{where}: can't be understood ({error}). It may give timm_model, timm_kwargs, input_size, mean, "
            "std and interpolation."
        ) from error


def _read_sidecar(path: Path) -> dict[str, Any]:
    try:
        given = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not readable as JSON ({error}). Repair it, or remove it.") from error
    if not isinstance(given, dict):
        raise InputError(f"{path}: expected a JSON object, got {type(given).__name__}. Repair or remove it.")
    return given


def _check_suffix(path: Path) -> None:
    if path.suffix != ".safetensors":
        raise InputError(
            f"--model.weights must be pretrained, random, or a .safetensors file, got {str(path)!r}. Other "
            "formats are not opened, since they can hold programs."
        )


def _sha256(path: Path) -> str:
    try:
        return sha256_file(path)
    except OSError as error:
        raise InputError(
            f"{path}: can't be read ({error.strerror or error}): check --model.weights."
        ) from error
