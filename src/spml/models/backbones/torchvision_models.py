"""Classification networks of torchvision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from ...common.errors import InputError, nearest
from ...config import ModelConfig
from ..spec import TORCHVISION, BackboneSpec
from .preparation import Preparation, read_transform
from .weights import check_fit, read_weights, with_file

_HEADS = ("fc", "classifier", "heads", "head")
_FURTHER = ("AuxLogits", "aux1", "aux2")
"""Further classifiers of two networks, for training from scratch."""

_EXAMPLES = 3


def describe(config: ModelConfig, size: int) -> BackboneSpec:
    """Describe a network of torchvision, with images prepared as for its newest weights, but not cropped.

    Raises:
        InputError: torchvision has no such network, or its own weights are asked for.
    """
    name = _known(config.backbone)
    prepared = preparation(name)
    weights = config.weights if config.weights in ("pretrained", "random") else "file"
    if weights == "pretrained":
        raise InputError(
            f"{config.backbone}: torchvision publishes its pretrained weights as pickles, which can contain "
            f"programs and are not opened. {_instead(name)}, or pass --model.weights FILE.safetensors or "
            "random."
        )
    spec = BackboneSpec(
        config.backbone,
        {},
        size or prepared.size,
        prepared.mean,
        prepared.std,
        prepared.interpolation,
        weights,
    )
    return with_file(spec, Path(config.weights)) if weights == "file" else spec


def preparation(name: str) -> Preparation:
    """How torchvision prepares images for its newest weights of a network. Needs no weights."""
    from torchvision.models import get_model_weights

    weights: Any = list(get_model_weights(name))
    return read_transform(weights[-1].transforms())._replace(origin="as for torchvision's weights")


def create(spec: BackboneSpec) -> tuple[nn.Module, str, int]:
    """Create a network with random weights and without its classifier.

    Returns:
        The network, the name of the layer that was removed, and the number of features.

    Raises:
        InputError: torchvision has no such network, or it does not take images of this size, or has no
            features behind which a classifier could be removed.
    """
    from torchvision.models import get_model

    name = _known(spec.name)
    options: dict[str, Any] = {}
    if name.startswith("vit_"):
        options["image_size"] = spec.size
    if name in ("googlenet", "inception_v3"):
        options["init_weights"] = True  # stated, because a change of the default is announced by a warning
    try:
        model: nn.Module = get_model(name, weights=None, **options)
    except (AssertionError, ValueError, RuntimeError) as error:
        raise InputError(
            f"backbone {spec.name} does not take images of {spec.size} pixels ({error}): leave out "
            "--data.size."
        ) from error
    removed = remove_classifier(model)
    if removed is None:
        raise InputError(
            f"backbone {spec.name} ends without a linear classifier, so it has no features that could be "
            "used in its place. Choose another one."
        )
    return model, *removed


def fill(model: nn.Module, classifier: str, spec: BackboneSpec, path: Path) -> None:
    """Load a weights file into a network without classifier; all must fit, except the classifier's.

    Args:
        model: The network.
        classifier: Name of the layer that was removed from it.
        spec: Its description.
        path: Weights file.

    Raises:
        InputError: The file can't be read, or its weights do not fit.
    """
    expected = model.state_dict()
    weights = {
        name: tensor
        for name, tensor in read_weights(path).items()
        if name in expected or not name.startswith((f"{classifier}.", *(f"{part}." for part in _FURTHER)))
    }
    advice = "Pass weights that were made for this model."
    check_fit(expected, weights, f"{path}: these weights do not fit {spec.name}", advice)
    model.load_state_dict(weights, strict=False)


def remove_classifier(model: nn.Module) -> tuple[str, int] | None:
    """Replace the last linear layer of a classifier of torchvision by the identity.

    Returns:
        Name of the layer and number of its inputs; None if there is none, and the network is as it was.
    """
    if getattr(model, "aux_logits", False):
        model.aux_logits = False  # type: ignore[assignment]
        for name in _FURTHER:
            if hasattr(model, name):
                setattr(model, name, None)
    for head in _HEADS:
        part = getattr(model, head, None)
        if isinstance(part, nn.Linear):
            setattr(model, head, nn.Identity())
            return head, part.in_features
        if isinstance(part, nn.Sequential) and len(part):
            last, layer = list(part.named_children())[-1]
            if isinstance(layer, nn.Linear):
                setattr(part, last, nn.Identity())
                return f"{head}.{last}", layer.in_features
    return None


def _known(name: str) -> str:
    """Name of a network in torchvision's own list.

    Raises:
        InputError: It is not there.
    """
    from torchvision import models

    short = name.removeprefix(f"{TORCHVISION}/")
    known = models.list_models(module=models)
    if short not in known:
        raise InputError(f"torchvision has no classification network {short!r}. {nearest(short, known)}")
    return short


def _instead(name: str) -> str:
    """Which weights of timm to take in place of torchvision's."""
    import timm

    same = [each for each in timm.list_pretrained(f"{name}.*") if each.partition(".")[2].startswith("tv")]
    others = same or timm.list_pretrained(f"{name}.*")
    if not others:
        return "Take a network of timm (such as --model.backbone resnet50)"
    known = "the same weights" if same else "weights for the same network"
    return f"timm has {known}: --model.backbone {' or '.join(others[:_EXAMPLES])}"
