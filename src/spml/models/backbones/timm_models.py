"""Backbones of timm."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec

from ...common.documents import load_json
from ...common.errors import InputError, first_line, nearest
from ...common.messages import log
from ...config import ModelConfig
from ...data.images.decoding import INTERPOLATIONS
from ..spec import TIMM, BackboneSpec, origin_of
from .backbone import Backbone
from .preparation import DEFAULT, Preparation
from .weights import check_suffix, fill, hub_file, with_file


class _Sidecar(msgspec.Struct):
    """JSON file next to a weights file. What it leaves out is timm's default for the model."""

    timm_model: str | None = None
    timm_kwargs: dict[str, str | int | float | bool] = {}
    input_size: Annotated[list[int], msgspec.Meta(min_length=1)] | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    interpolation: str | None = None


def describe(config: ModelConfig, size: int) -> BackboneSpec:
    """Describe a timm model, with its pretrained, random or a file's weights.

    Images are prepared as timm says, unless the JSON file next to a weights file says otherwise.

    Args:
        config: Settings of the user.
        size: Side of the images in pixels; 0 = as the JSON file or timm says.

    Raises:
        InputError: timm does not know the model or its weights, or one of the files can't be read or does not
            belong to the model.
    """
    name = config.backbone
    if config.weights in ("pretrained", "random"):
        return _describe("resnet50" if name == "auto" else name, config.weights, size, _Sidecar())
    weights = Path(config.weights)
    check_suffix(weights)
    path, sidecar = weights.with_suffix(".json"), _Sidecar()
    if path.is_file():
        sidecar = load_json(path, _Sidecar, advice="Correct the file, or remove it.")
    if name == "auto":
        name = sidecar.timm_model or "resnet50"
    elif sidecar.timm_model and name.split(".")[0] != sidecar.timm_model.split(".")[0]:
        raise InputError(
            f"{weights}: according to {path.name} these are weights of {sidecar.timm_model}, not of {name}: "
            "leave out model.backbone, or pass other weights."
        )
    try:
        spec = _describe(name, "file", size, sidecar)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"{path}: {error}. Correct the file, or remove it.") from error
    return with_file(spec, weights)


def _describe(name: str, weights: str, size: int, sidecar: _Sidecar) -> BackboneSpec:
    import timm

    architecture, _, tag = name.partition(".")
    known = timm.list_models()
    if architecture not in known:
        near = nearest(name.rpartition("/")[2], known)
        raise InputError(f"unknown backbone {name!r}: neither small_cnn nor a timm model. {near}")
    tagged = timm.list_pretrained(f"{architecture}.*")
    if tag and name not in tagged:
        raise InputError(f"timm has no weights {name!r} for {architecture}. {nearest(name, tagged)}")
    # None for an architecture for which timm states nothing.
    stated: Any = timm.get_pretrained_cfg(name)
    side, mean, std, resize = DEFAULT.size, DEFAULT.mean, DEFAULT.std, DEFAULT.interpolation
    if stated is not None:
        side, mean, std = stated.input_size[-1], stated.mean, stated.std
        resize = stated.interpolation if stated.interpolation in INTERPOLATIONS else "bicubic"
        if weights == "pretrained" and f"{architecture}.{stated.tag}" in tagged:
            name = f"{architecture}.{stated.tag}"
    return BackboneSpec(
        name,
        sidecar.timm_kwargs,
        size or (sidecar.input_size or [side])[-1],
        mean if sidecar.mean is None else sidecar.mean,
        std if sidecar.std is None else sidecar.std,
        resize if sidecar.interpolation is None else sidecar.interpolation,
        weights,
    )


def build(spec: BackboneSpec, config: ModelConfig) -> Backbone:
    """Build a timm model with its pretrained weights, which are downloaded once, or those of a file.

    Raises:
        InputError: The weights can't be downloaded or read, or do not fit.
    """
    if spec.weights == "pretrained":
        log.info(f"weights: {spec.name}, pretrained; timm downloads them once (Hugging Face cache)")
        return _backbone(spec, _pretrained(spec))
    path = Path(config.weights)
    sidecar = path.with_suffix(".json")
    origin = f"as in {sidecar.name}" if sidecar.is_file() else f"timm's defaults, no {sidecar.name}"
    prepared = Preparation(spec.size, spec.mean, spec.std, spec.interpolation, origin)
    log.info(f"weights: {path} for {spec.name}; {prepared.describe()}")
    model = _create(spec)
    classifiers = (getattr(model, "pretrained_cfg", None) or {}).get("classifier") or ()
    classifiers = (classifiers,) if isinstance(classifiers, str) else classifiers
    layers = [f"{layer}." for layer in classifiers]
    fill(model, spec.name, path, "Pass weights that were made for this model.", layers)
    return _backbone(spec, model)


def create(spec: BackboneSpec) -> Backbone:
    """Create a timm model with random weights."""
    return _backbone(spec, _create(spec))


def _backbone(spec: BackboneSpec, model: Any) -> Backbone:
    set_size(spec.name, model, spec.size)
    return Backbone(spec, model, int(getattr(model, "head_hidden_size", None) or model.num_features))


def _create(spec: BackboneSpec) -> Any:
    """Create a timm model without its classifier, for images of the size it was trained with."""
    import timm

    # Without the tag, which a later timm may not know. A name such as hf-hub:... would access the network.
    name = spec.name.split(".")[0]
    known = timm.list_models()
    if name not in known:
        raise InputError(f"unknown backbone {name!r}. {nearest(name, known)}")
    try:
        model = timm.create_model(name, pretrained=False, **spec.options)
    except (TypeError, ValueError, KeyError, AssertionError) as error:
        raise InputError(
            f"backbone {name} does not accept the options {dict(spec.options)} ({error})"
        ) from error
    if not hasattr(model, "reset_classifier"):  # registered in timm by another package
        raise InputError(
            f"backbone {name} is registered in timm, but has no reset_classifier to remove its classifier: "
            "pass a network without one in Python (backbone=module)."
        )
    model.reset_classifier(0)
    return model


def takes_any_size(spec: BackboneSpec) -> bool:
    """Whether a network takes images of any size, as most convolutional ones of timm do."""
    if origin_of(spec.name) != TIMM:
        return False
    import timm

    stated = timm.get_pretrained_cfg(spec.name.split(".")[0])
    return stated is not None and not stated.fixed_input_size


def set_size(name: str, model: Any, size: int) -> None:
    """Set the input size of a timm model that takes images of one size. Most models take any size."""
    stated = getattr(model, "pretrained_cfg", None) or {}
    default = (stated.get("input_size") or (size,))[-1]
    if stated.get("fixed_input_size") and size != default:
        try:
            model.set_input_size(img_size=size)
        except (AttributeError, AssertionError, ValueError, TypeError, RuntimeError) as error:
            raise InputError(
                f"backbone {name} takes images of {default} pixels, not of {size}: leave out "
                "data.size, or choose another backbone."
            ) from error


def _pretrained(spec: BackboneSpec) -> Any:
    import timm

    known = timm.get_pretrained_cfg(spec.name)
    advice = "Pass a file that you have (model.weights=FILE.safetensors), or model.weights=random."
    if known is None or not known.hf_hub_id:
        raise InputError(f"timm has no pretrained weights for {spec.name}. {advice}")
    # By default timm falls back to a pickle, and leaves out layers whose shape differs.
    file = (known.hf_hub_filename or "pytorch_model.bin").replace("pytorch_model.bin", "model.safetensors")
    try:
        overlay = {"file": hub_file(known.hf_hub_id, file), "custom_load": False}
        model = timm.create_model(spec.name, pretrained=True, pretrained_cfg_overlay=overlay)
        model.reset_classifier(0)
        return model
    except Exception as error:  # the hub's client passes on all exceptions of its HTTP library
        raise InputError(
            f"pretrained weights of {spec.name} could not be downloaded or loaded "
            f"({first_line(error)}). Check the connection. {advice}"
        ) from error
