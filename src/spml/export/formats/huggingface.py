"""safetensors-hf: a folder as on the Hugging Face hub, with weights, configuration and a model card."""

from __future__ import annotations

import json
from typing import Any

import torch
from PIL import Image
from safetensors.torch import save
from torch import nn

from ...common.errors import InputError, SpmlError
from ..graph import TOLERANCE
from ..model import Model
from ..model_card import model_card
from ..registry import Files, register_exporter

_METADATA = (
    *("format", "spml", "torch", "weights_sha256", "thresholds", "scores"),
    *("target", "mean_labels", "no_probabilities", "warnings"),
)
"""Fields about the model; the other metadata is about inputs and outputs of a graph."""

_RUN = ("model.safetensors", "model.json", "thresholds.json", "summary.json")
"""Files of a run that `spml.load` needs to predict. Its settings stay behind: they name folders."""

_FILES = (*_RUN, "preprocessor_config.json", "README.md", "config.json")


@register_exporter("safetensors-hf", "a folder for the Hugging Face hub", output="huggingface", files=_FILES)
def make_huggingface(model: Model) -> Files:
    """Make the files of a folder.

    A linear head on a network of timm becomes a model that timm and transformers load. Any other model keeps
    the layout of its run, which `spml.load` reads.

    Raises:
        SpmlError: The model of timm computes something else than the model.
    """
    network, reason = _as_timm(model)
    described: dict[str, Any] = {
        "problem_type": "multi_label_classification",
        "num_classes": len(model.classes),
        "num_features": model.classifier.top.num_features,
        "id2label": {str(column): name for column, name in enumerate(model.classes)},
        "label2id": {name: column for column, name in enumerate(model.classes)},
        "spml": {name: value for name, value in model.metadata().items() if name in _METADATA},
    }
    files = (model.folder / name for name in (_RUN if network is None else ("thresholds.json",)))
    try:
        content = {file.name: file.read_bytes() for file in files if file.is_file()}
    except OSError as error:
        raise InputError(f"{model.folder}: can't be read ({error.strerror}). Check the disk.") from error
    if network is None:
        head = f"{model.classifier.top.settings()['head']} head"
        architecture = model.classifier.spec.name if model.size else head
        described |= {"library_name": "spml", "architecture": architecture, "loads_with": "spml.load"}
        note = f"layout of a run, which spml.load reads ({reason})"
    else:
        weights = {name: tensor.contiguous() for name, tensor in network.state_dict().items()}
        content["model.safetensors"] = save(weights, {"format": "pt"})
        described |= {"library_name": "timm", **_timm_config(model, network), "loads_with": "timm"}
        note = "layout of timm, which timm and transformers read, too"
    if model.size:
        spec = model.classifier.spec
        channels = max(1, 3 // len(spec.mean))
        content["preprocessor_config.json"] = _encode(
            {
                "image_processor_type": "ViTImageProcessor",
                "do_resize": True,
                "size": {"height": spec.size, "width": spec.size},
                "resample": Image.Resampling[spec.interpolation.upper()].value,
                "do_rescale": True,
                "rescale_factor": 1 / 255,
                "do_normalize": True,
                "image_mean": list(spec.mean) * channels,
                "image_std": list(spec.std) * channels,
                "do_convert_rgb": True,
            }
        )
    content["README.md"] = model_card(model, with_timm=network is not None, reason=reason).encode()
    content["config.json"] = _encode(described)  # last, because nothing loads without it
    return Files(content, (note,))


def _encode(value: dict[str, Any]) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()


def _timm_config(model: Model, network: Any) -> dict[str, Any]:
    """Fields of config.json that timm reads."""
    spec = model.classifier.spec
    return {
        "architecture": spec.name.split(".")[0],
        "label_names": list(model.classes),
        "model_args": _timm_arguments(model),
        "pretrained_cfg": {
            "tag": "spml",
            "custom_load": False,
            "input_size": [3, spec.size, spec.size],
            "fixed_input_size": bool(network.pretrained_cfg.get("fixed_input_size")),
            "interpolation": spec.interpolation,
            "crop_pct": 1.0,
            "crop_mode": "squash",
            "mean": list(spec.mean),
            "std": list(spec.std),
            "num_classes": len(model.classes),
            "pool_size": None,
            "first_conv": network.pretrained_cfg.get("first_conv"),
            "classifier": network.pretrained_cfg.get("classifier"),
        },
    }


def _timm_arguments(model: Model) -> dict[str, Any]:
    """Arguments with which timm creates the network."""
    spec = model.classifier.spec
    default = model.classifier.backbone.network.pretrained_cfg
    sized = default.get("fixed_input_size") and default["input_size"][-1] != spec.size  # type: ignore[operator,union-attr,index]
    return {**spec.options, **({"img_size": spec.size} if sized else {})}


def _as_timm(model: Model) -> tuple[Any, str]:
    """The model as a network of timm.

    Returns:
        The network, or None and the reason why timm can't express the model.
    """
    import timm

    classifier = model.classifier
    spec, top = classifier.spec, classifier.top
    if not model.size:
        return None, "timm has no models of features"
    architecture = spec.name.split(".")[0]
    if not timm.is_model(architecture) or not hasattr(classifier.backbone.network, "pretrained_cfg"):
        return None, f"the backbone {spec.name} is not one of timm's"
    settings = top.settings()
    if not isinstance(top.head, nn.Linear):
        return None, f"timm has no head {settings['head']}"
    if settings["scaling"] != "raw":
        return None, f"timm has no scaling {settings['scaling']} of features"
    if classifier.sizes:
        return None, "timm's models do not resize images"
    if top.local:
        return None, "timm's models do not score windows"
    if model.classifier.top.scale == "exp":
        return None, "timm's models give logits, and this one log-probabilities"
    try:
        arguments = {"num_classes": len(model.classes), **_timm_arguments(model)}
        network = timm.create_model(architecture, pretrained=False, **arguments).eval()
        network.load_state_dict(classifier.backbone.network.state_dict(), strict=False)
        last = network.get_classifier()
        last.weight.data, last.bias.data = top.head.weight.data, top.head.bias.data
    except (AttributeError, RuntimeError, TypeError, ValueError) as error:
        return None, f"timm's {spec.name} can't take its weights: {str(error).splitlines()[0]}"
    _check(model, network)
    return network, ""


@torch.inference_mode()
def _check(model: Model, network: nn.Module) -> None:
    """Check that a network of timm computes the logits of the model."""
    spec = model.classifier.spec
    mean, std = (torch.tensor(values).reshape(1, -1, 1, 1) for values in (spec.mean, spec.std))
    pixels = torch.from_numpy(model.trials()[0]).permute(0, 3, 1, 2)
    expected = model.network(pixels)
    difference = (network((pixels / 255 - mean) / std) - expected).abs() / expected.abs().clamp(min=1)
    if not float(difference.max()) <= TOLERANCE:
        raise SpmlError(
            f"{model.folder}: as a model of timm its logits differ by {float(difference.max()):.2g}, so "
            "nothing was written. Other versions of timm may load it correctly."
        )
