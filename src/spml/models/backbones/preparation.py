"""Preparation of images for a network, read from what its user or its library states.

Images are always resized to a square, scaled to [0, 1] and normalised. A centre that the network's own
preparation cuts out gives the size of the square; anything else is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from ...common.errors import InputError, nearest, quoted
from ...data.images.decoding import INTERPOLATIONS
from ..spec import BackboneSpec


class Preparation(NamedTuple):
    """Preparation of images for a network.

    Attributes:
        size: Side of the square in pixels.
        mean: Mean of each channel, on the scale from 0 to 1.
        std: Standard deviation of each channel.
        interpolation: Name of the interpolation.
        origin: Words for what states this.
    """

    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    interpolation: str
    origin: str

    def describe(self) -> str:
        """One line for the user."""
        mean, std = ("/".join(f"{value:.3g}" for value in values) for values in (self.mean, self.std))
        return f"images ({self.origin}): {self.size} pixels, {self.interpolation}, mean {mean}, std {std}"

    def spec(self, name: str, weights: str, size: int = 0, **further: Any) -> BackboneSpec:
        """Description of a backbone whose images are prepared like this; `size` = 0 keeps the size."""
        return BackboneSpec(
            name,
            size=size or self.size,
            mean=self.mean,
            std=self.std,
            interpolation=self.interpolation,
            weights=weights,
            **further,
        )


DEFAULT = Preparation(
    224, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), "bilinear", "defaults of spml, as nothing states them"
)
"""ImageNet's mean and deviation, at the size of most networks that were trained on it."""

_SETTINGS = ("size", "mean", "std", "interpolation")
_TIMM = ("input_size", "crop_pct", "crop_mode")
_STEPS = ("do_resize", "do_center_crop", "do_rescale", "do_normalize", "do_convert_rgb", "do_reduce_labels")
"""Steps of an image processor of transformers that are done here, or do not concern images."""

_NOT_NORMALISED: tuple[tuple[float, ...], tuple[float, ...]] = ((0.0,) * 3, (1.0,) * 3)
_RESAMPLE: dict[Any, str] = {number.value: name for name, number in INTERPOLATIONS.items()}


def default_preparation(module: Any) -> Preparation:
    """The preparation that a network carries: timm's configuration, or transformers' size; else defaults."""
    for name in ("pretrained_cfg", "default_cfg"):
        stated = getattr(module, name, None)
        if stated is not None and not isinstance(stated, Mapping):
            stated = getattr(stated, "to_dict", dict)()
        if isinstance(stated, Mapping) and stated.get("input_size"):
            known = {key: stated[key] for key in (*_SETTINGS[1:], *_TIMM) if stated.get(key) is not None}
            if known.get("interpolation") not in INTERPOLATIONS:
                known["interpolation"] = "bicubic"  # as timm does where it was random in training
            return read_settings(known, f"{name} of the network")
    size = getattr(getattr(module, "config", None), "image_size", None)
    if size is not None:
        return DEFAULT._replace(size=_side(size, "config.image_size"))
    return DEFAULT


def read_transform(transform: Any, default: Preparation = DEFAULT) -> Preparation:
    """Read what the user states about the preparation of images.

    Args:
        transform: Dictionary with `size`, `mean`, `std` and `interpolation`, or timm's with `input_size`; the
            preset of torchvision's weights (`weights.transforms()`); or an image processor of transformers.
        default: For what the transform leaves out.

    Raises:
        InputError: It is something else, or says what can't be done here.
    """
    if isinstance(transform, Mapping):
        if "image_mean" in transform or "image_processor_type" in transform:
            return read_processor(transform, "transform", default)
        return read_settings(transform, "transform", default)
    if hasattr(transform, "image_mean") and hasattr(transform, "to_dict"):
        return read_processor(transform.to_dict(), type(transform).__name__, default)
    if hasattr(transform, "crop_size") and hasattr(transform, "resize_size"):  # of torchvision's weights
        stated = {"size": transform.crop_size, "interpolation": transform.interpolation.value}
        return read_settings(stated | {"mean": transform.mean, "std": transform.std}, "transform", default)
    raise InputError(
        f"transform: {quoted(transform)} is not read, because what its steps do is not known. State it: "
        "transform={'size': 224, 'mean': [...], 'std': [...], 'interpolation': 'bicubic'}, the preset of "
        "torchvision's weights (weights.transforms()), or an image processor of transformers."
    )


def read_settings(settings: Mapping[str, Any], origin: str, default: Preparation = DEFAULT) -> Preparation:
    """Read a dictionary of settings.

    Args:
        settings: `size` or timm's `input_size`, `mean`, `std`, and `interpolation`.
        origin: Words for where they come from.
        default: For what is left out, or None.
    """
    for key in settings:
        if key not in (*_SETTINGS, *_TIMM):
            raise InputError(f"{origin}: unknown setting {key!r}. {nearest(str(key), _SETTINGS)}")
    size = settings.get("size", settings.get("input_size"))
    interpolation = settings.get("interpolation")
    if interpolation is None:
        interpolation = default.interpolation
    if interpolation not in INTERPOLATIONS:
        known = ", ".join(INTERPOLATIONS)
        raise InputError(f"{origin}: interpolation must be one of {known}, got {interpolation!r}")
    return Preparation(
        default.size if size is None else _side(size, f"{origin}: size"),
        _channels(settings.get("mean", default.mean), f"{origin}: mean"),
        _channels(settings.get("std", default.std), f"{origin}: std"),
        interpolation,
        origin,
    )


def read_processor(processor: Mapping[str, Any], origin: str, default: Preparation = DEFAULT) -> Preparation:
    """Read an image processor of transformers, such as the content of preprocessor_config.json."""
    further = {name for name, value in processor.items() if name.startswith("do_") and value}
    if further := further - {*_STEPS}:
        raise InputError(
            f"{origin}: {min(further)} can't be done here: images are resized and normalised only."
        )
    factor = processor.get("rescale_factor", 1 / 255)
    scales = isinstance(factor, float) and math.isclose(factor, 1 / 255) and processor.get("do_rescale", True)
    if not scales or processor.get("rescale_offset"):
        raise InputError(
            f"{origin}: it does not scale pixels to [0, 1] (do_rescale, rescale_factor 1/255, without "
            "rescale_offset), which is what happens here. Pass a dictionary: transform={'size': ..., "
            "'mean': ..., 'std': ...}."
        )
    mean, std = _NOT_NORMALISED
    if processor.get("do_normalize", True):
        mean = _channels(processor.get("image_mean"), f"{origin}: image_mean")
        std = _channels(processor.get("image_std"), f"{origin}: image_std")
        if processor.get("include_top"):  # of EfficientNet, which is divided by the deviation twice
            std = tuple(value**2 for value in std)
    size = processor.get("size") if processor.get("do_resize", True) else None
    if processor.get("do_center_crop") and processor.get("crop_size") is not None:
        size = processor["crop_size"]
    number = processor.get("resample")
    stated = {"size": size, "mean": mean, "std": std, "interpolation": _RESAMPLE.get(number, number)}
    return read_settings(stated, origin, default)


def _side(size: Any, what: str) -> int:
    """Side of a square from any of the forms in which libraries state it."""
    if isinstance(size, Mapping):
        size = [size[key] for key in ("shortest_edge", "height", "width") if size.get(key) is not None]
    sides = list(size) if isinstance(size, (list, tuple)) else [size]
    sides = sides[-2:]  # of (channels, height, width)
    if not sides or any(isinstance(side, bool) or not isinstance(side, int) or side < 1 for side in sides):
        raise InputError(f"{what} must be a whole number of pixels, got {quoted(size)}")
    if len(set(sides)) > 1:
        raise InputError(f"{what} must be that of a square, as images are resized to, got {quoted(size)}")
    return int(sides[0])


def _channels(values: Any, what: str) -> tuple[float, ...]:
    if hasattr(values, "tolist"):  # of float32, which has 7 digits
        values = [float(f"{value:.7g}") for value in values.reshape(-1).tolist()]
    values = list(values) if isinstance(values, (list, tuple)) else [values]
    if len(values) not in (1, 3) or any(
        isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value)
        for value in values
    ):
        raise InputError(f"{what} must be three numbers, or one for grey images, got {quoted(values)}")
    return tuple(float(value) for value in values)
