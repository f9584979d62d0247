"""Description of a backbone and of how its inputs are prepared: everything about it except its weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from ..config import ModelConfig
from ..data.dataset import Kind
from ..data.images import INTERPOLATIONS
from ..errors import InputError, nearest
from ..files import sha256_file

NONE, SMALL_CNN = "none", "small_cnn"
# Options that change what a timm model computes from the same weights. Others are not accepted from a file,
# because some of them make timm open further files.
TIMM_OPTIONS = ("pad_type", "act_layer", "norm_layer", "bn_eps")
_LARGEST_SIZE, _LARGEST_WIDTH = 8192, 1 << 24
T = TypeVar("T")


@dataclass(frozen=True)
class BackboneSpec:
    """All that is needed to build a backbone again, apart from its weights, and to prepare its inputs.

    Attributes:
        name: `none`, `small_cnn`, or the name of a timm model.
        options: Further arguments of the timm model.
        size: Side of its input images in pixels; 0 for feature vectors.
        mean: Mean of each channel, subtracted from pixels scaled to [0, 1].
        std: Standard deviation of each channel, by which the difference is divided.
        interpolation: Interpolation with which images are resized.
        weights: Origin of the weights: `none`, `random`, `pretrained` (timm) or `file`.
        file: Name of the weights file; empty if there is none.
        sha256: SHA-256 of that file.
        width: Length of feature vectors; 0 for images.

    Raises:
        ValueError: A value is impossible for any backbone.
    """

    name: str
    options: Mapping[str, str | int | float] = field(default_factory=dict)
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
        image = self.name != NONE
        limits = {"size": (image, _LARGEST_SIZE * image), "width": (not image, _LARGEST_WIDTH)}
        for name, (lowest, highest) in limits.items():
            value = getattr(self, name)
            if not lowest <= value <= highest:
                raise ValueError(f"{name} must be from {int(lowest)} to {highest}, got {value}")
        if self.interpolation not in INTERPOLATIONS:
            raise ValueError(
                f"interpolation must be one of {', '.join(INTERPOLATIONS)}, got {self.interpolation!r}"
            )
        for name in self.options:
            if name not in TIMM_OPTIONS:
                raise ValueError(f"option {name!r} is not one of {', '.join(TIMM_OPTIONS)}")
        channels = {NONE: 0, SMALL_CNN: max(len(self.mean), 1)}.get(self.name, 3)
        if not len(self.mean) == len(self.std) == channels:
            raise ValueError(f"mean and std must have {channels} numbers, got {self.mean} and {self.std}")
        if not all(map(math.isfinite, self.mean + self.std)) or min(self.std, default=1.0) <= 0:
            raise ValueError(f"mean and std must be finite and std positive, got {self.mean} and {self.std}")

    @property
    def is_pretrained(self) -> bool:
        """Whether the weights come from timm or from a file."""
        return self.weights in ("pretrained", "file")


class _Sidecar(msgspec.Struct):
    """JSON file next to a weights file. What it leaves out is timm's default for the model."""

    timm_model: str | None = None
    timm_kwargs: dict[str, str | int | float] = {}
    input_size: Annotated[list[int], msgspec.Meta(min_length=1)] | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    interpolation: str | None = None


def describe_backbone(
    config: ModelConfig, kind: Kind, width: int, *, size: int = 0, source: str = "the data"
) -> BackboneSpec:
    """Determine the backbone that `config` chooses for data of this kind.

    Downloads no weights and reads none. `auto` is `none` for feature vectors, `small_cnn` for grey images and
    `resnet50` for colour images. A JSON file next to a weights file, with the same name, may contain
    `timm_model` (the meaning of `auto`), `timm_kwargs`, `input_size`, `mean`, `std` and `interpolation`.

    Args:
        config: Settings of the user.
        kind: Kind of the samples.
        width: Length of the feature vectors, or number of colour channels of the images (3 for image files).
        size: Side of the images in pixels if the user chose it; 0 = the size the backbone was trained with.
        source: Name of the data in messages.

    Raises:
        InputError: The backbone is unknown or does not suit the data, the size is too large, or the JSON file
            is damaged.
    """
    if size > _LARGEST_SIZE:
        raise InputError(f"--data.size must be at most {_LARGEST_SIZE} pixels, got {size}.")
    name = config.backbone
    if kind == "feature":
        if name not in ("auto", NONE):
            raise InputError(
                f"backbone {name!r} takes images, but {source} holds feature vectors: leave out "
                "--model.backbone, or pass --model.backbone none."
            )
        return BackboneSpec(NONE, width=width)
    if name == NONE:
        raise InputError(
            f"backbone none takes feature vectors, but {source} holds images: leave out --model.backbone, "
            "or pass the name of a timm model."
        )
    weights = None if config.weights in ("pretrained", "random") else Path(config.weights)
    if name == SMALL_CNN or (name == "auto" and width == 1 and weights is None):
        if weights is not None:
            raise InputError(
                f"small_cnn starts from random weights only, but --model.weights is {weights}: leave it out, "
                "or pass the backbone of these weights to --model.backbone."
            )
        return BackboneSpec(SMALL_CNN, {}, size or 40, (0.25,) * width, (0.25,) * width, weights="random")
    if weights is None:
        return _timm_spec("resnet50" if name == "auto" else name, config.weights, size)
    return _spec_of_file(name, weights, size)


def read_json(path: Path, content: type[T], advice: str) -> T:
    """Read a JSON file of a known structure.

    Args:
        path: File to read.
        content: Type of its content, as msgspec understands it.
        advice: Last sentence of the message if the file can't be read.

    Raises:
        InputError: The file can't be read, is not JSON, or has another structure.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=content)
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: {error}. {advice}") from error
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not readable as JSON ({error}). {advice}") from error


def _spec_of_file(name: str, weights: Path, size: int) -> BackboneSpec:
    """Describe a timm model with the weights of a file and, if there is one, the JSON file next to it."""
    if weights.suffix != ".safetensors":
        raise InputError(
            f"--model.weights must be pretrained, random, or a .safetensors file, got {str(weights)!r}. "
            "Other formats are not opened, because they can contain programs."
        )
    path = weights.with_suffix(".json")
    sidecar = _Sidecar()
    if path.is_file():
        sidecar = read_json(path, _Sidecar, "Correct the file, or remove it.")
    if name == "auto":
        name = sidecar.timm_model or "resnet50"
    elif sidecar.timm_model and name.split(".")[0] != sidecar.timm_model.split(".")[0]:
        raise InputError(
            f"{weights}: according to {path.name} these are weights of {sidecar.timm_model}, not of {name}: "
            "leave out --model.backbone, or pass other weights."
        )
    try:
        spec = _timm_spec(name, "file", size, sidecar)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"{path}: {error}. Correct the file, or remove it.") from error
    try:
        return replace(spec, file=weights.name, sha256=sha256_file(weights))
    except OSError as error:
        raise InputError(
            f"{weights}: can't be read ({error.strerror or error}): check --model.weights."
        ) from error


def _timm_spec(name: str, weights: str, size: int, sidecar: _Sidecar | None = None) -> BackboneSpec:
    """Describe a timm model, with inputs prepared as in timm unless the sidecar says otherwise.

    Raises:
        InputError: timm does not know the model or its weights.
        ValueError: A value of the sidecar is impossible.
    """
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
    defaults: Any = timm.get_pretrained_cfg(name)
    if weights == "pretrained" and f"{architecture}.{defaults.tag}" in tagged:
        name = f"{architecture}.{defaults.tag}"
    prepared = msgspec.structs.asdict(sidecar) if sidecar else {}
    prepared = {key: value for key, value in prepared.items() if value is not None}
    resize = defaults.interpolation if defaults.interpolation in INTERPOLATIONS else "bicubic"
    return BackboneSpec(
        name,
        prepared.get("timm_kwargs", {}),
        size or prepared.get("input_size", defaults.input_size)[-1],
        prepared.get("mean", defaults.mean),
        prepared.get("std", defaults.std),
        prepared.get("interpolation", resize),
        weights,
    )
