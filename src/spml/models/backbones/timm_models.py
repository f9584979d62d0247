"""Backbones of timm."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec

from ...common.errors import InputError, nearest
from ...data.images.decoding import INTERPOLATIONS
from ..spec import BackboneSpec, read_json
from .download import hub_file
from .preparation import DEFAULT
from .weights import check_fit, check_suffix, read_weights, with_file


class _Sidecar(msgspec.Struct):
    """JSON file next to a weights file. What it leaves out is timm's default for the model."""

    timm_model: str | None = None
    timm_kwargs: dict[str, str | int | float] = {}
    input_size: Annotated[list[int], msgspec.Meta(min_length=1)] | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    interpolation: str | None = None


def describe(name: str, weights: str, size: int, sidecar: _Sidecar | None = None) -> BackboneSpec:
    """Describe a timm model, with inputs prepared as in timm unless the sidecar says otherwise.

    Args:
        name: Name of the model, with or without the tag of its weights.
        weights: `pretrained`, `random` or `file`.
        size: Side of the images in pixels; 0 = as timm says.
        sidecar: Content of the JSON file next to a weights file.

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
    if defaults is None:  # an architecture for which timm states nothing
        defaults = timm.models.PretrainedCfg(
            input_size=(3, DEFAULT.size, DEFAULT.size),
            mean=DEFAULT.mean,
            std=DEFAULT.std,
            interpolation=DEFAULT.interpolation,
        )
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


def describe_file(name: str, weights: Path, size: int) -> BackboneSpec:
    """Describe a timm model with the weights of a file and, if there is one, the JSON file next to it.

    Raises:
        InputError: One of the files can't be read, or they do not belong to the model.
    """
    check_suffix(weights)
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
        spec = describe(name, "file", size, sidecar)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"{path}: {error}. Correct the file, or remove it.") from error
    return with_file(spec, weights)


def create(spec: BackboneSpec) -> Any:
    """Create a timm model without its classifier, for images of the size it was trained with."""
    import timm

    # Without the tag, which a later timm may not know. A name such as hf-hub:... would access the network.
    name = spec.name.split(".")[0]
    known = timm.list_models()
    if name not in known:
        raise InputError(f"unknown backbone {name!r}. {nearest(name, known)}")
    try:
        model = timm.create_model(name, pretrained=False, **spec.options)
    except (TypeError, ValueError, KeyError) as error:
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


def width_of(model: Any) -> int:
    """Number of features of a timm model without classifier."""
    return int(getattr(model, "head_hidden_size", None) or model.num_features)


def set_size(name: str, model: Any, size: int) -> None:
    """Set the input size of a timm model that takes images of one size. Most models take any size.

    Raises:
        InputError: The model does not take images of this size.
    """
    config = _config(model)
    default = (config.get("input_size") or (size,))[-1]
    if config.get("fixed_input_size") and size != default:
        try:
            model.set_input_size(img_size=size)
        except (AttributeError, AssertionError, ValueError, TypeError, RuntimeError) as error:
            raise InputError(
                f"backbone {name} takes images of {default} pixels, not of {size}: leave out "
                "--data.size, or choose another backbone."
            ) from error


def _config(model: Any) -> Any:
    """What timm states about a model; empty for one without."""
    return getattr(model, "pretrained_cfg", None) or {}


def pretrained(spec: BackboneSpec) -> Any:
    """Create a timm model with its pretrained weights, which are downloaded once.

    Raises:
        InputError: There are none, or they can't be downloaded or do not fit.
    """
    import timm

    known = timm.get_pretrained_cfg(spec.name)
    advice = "Pass a file that you have (--model.weights FILE.safetensors), or --model.weights random."
    if known is None or not known.hf_hub_id:
        raise InputError(f"timm has no pretrained weights for {spec.name}. {advice}")
    # By default timm falls back to a pickle, and leaves out layers whose shape differs.
    file = (known.hf_hub_filename or "pytorch_model.bin").replace("pytorch_model.bin", "model.safetensors")
    try:
        path = hub_file(known.hf_hub_id, file)
        overlay = {"file": path, "custom_load": False}
        model = timm.create_model(spec.name, pretrained=True, pretrained_cfg_overlay=overlay)
        model.reset_classifier(0)
        return model
    except Exception as error:  # the hub's client passes on all exceptions of its HTTP library
        first_line = str(error).strip().split("\n")[0]
        raise InputError(
            f"pretrained weights of {spec.name} could not be downloaded or loaded "
            f"({type(error).__name__}: {first_line}). Check the connection. {advice}"
        ) from error


def fill(model: Any, spec: BackboneSpec, path: Path) -> None:
    """Load the weights of a file into a timm model without classifier; all must fit.

    Raises:
        InputError: The file can't be read, or its weights do not fit.
    """
    weights = read_weights(path)
    classifiers = _config(model).get("classifier") or ()
    classifiers = (classifiers,) if isinstance(classifiers, str) else classifiers
    expected = model.state_dict()
    weights = {
        name: tensor
        for name, tensor in weights.items()
        if name in expected or not name.startswith(tuple(f"{prefix}." for prefix in classifiers))
    }
    advice = "Pass weights that were made for this model."
    check_fit(expected, weights, f"{path}: these weights do not fit {spec.name}", advice)
    model.load_state_dict(weights)
