"""Networks of the user's own: passed as an `nn.Module`, never named by a file.

A run records the name `module:callable` and the weights of such a network, but no code. Whoever loads the run
passes the network again, and it is at hand for everything that happens inside `at_hand`.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...common.errors import InputError, quoted
from ...config import ModelConfig
from ..spec import OWN, BackboneSpec, origin_of
from . import timm_models
from .backbone import Backbone, hash_tensors, inspect_network
from .preparation import default_preparation, read_transform
from .weights import fill, with_file


class OwnNetwork:
    """A network of the user's own.

    It is copied before it is changed: training leaves the module of the user as it is. A classifier of timm,
    torchvision or transformers is removed from the copy.

    Args:
        module: Network from float32 normalised images (B, 3, size, size) to features (B, D), to maps (B, D,
            h, w), of which the mean is taken, or to an output of transformers.
        transform: How images are prepared, as `read_transform` understands it; None = as the module states
            (`pretrained_cfg` of timm), or else ImageNet's mean and deviation at 224 pixels.
        name: Name, `module:callable`; empty = that of the class.

    Attributes:
        name: Name, `module:callable`.
        used: Whether something has asked for the network.

    Raises:
        InputError: `module` is no network, or `transform` can't be expressed here.
    """

    def __init__(self, module: Any, transform: Any = None, *, name: str = "") -> None:
        if isinstance(module, type) and issubclass(module, nn.Module):
            raise InputError(f"backbone: {module.__name__} is a class, not a network: pass an object of it.")
        if not isinstance(module, nn.Module):
            raise InputError(f"backbone must be a name or an nn.Module, got {quoted(module)}")
        cls = type(module)
        of_class = f"{cls.__module__}:{cls.__qualname__.rpartition('<locals>.')[2]}"
        self.name = name or (of_class if origin_of(of_class) == OWN else "own:Network")
        self.used = False
        self._module = module
        self._preparation = default_preparation(module)
        if transform is not None:
            self._preparation = read_transform(transform, self._preparation)

    def describe(self, config: ModelConfig, size: int) -> BackboneSpec:
        """Description of the network as a backbone.

        Args:
            config: Settings, of which `weights` are used: `pretrained`, the weights that the module has;
                `random`, the same, if they have not been trained; or a .safetensors file for the module.
            size: Side of the images in pixels if the user chose it; 0 = as the transform says.

        Raises:
            InputError: The preparation of images is impossible, or the weights file can't be read.
        """
        self.used = True
        known = {
            name: tensor
            for name, tensor in self._module.state_dict().items()
            if isinstance(tensor, Tensor) and not nn.parameter.is_lazy(tensor)
        }
        sha256 = hash_tensors(known, hashlib.sha256())
        try:
            spec = self._preparation.spec(self.name, config.weights, size, sha256=sha256)
        except ValueError as error:
            raise InputError(f"transform of backbone {self.name}: {error}.") from error
        if config.weights not in ("pretrained", "random"):
            return with_file(spec, Path(config.weights))
        return spec

    def build(self, spec: BackboneSpec, weights: str = "") -> Backbone:
        """Copy the network for images of the size of `spec`.

        Args:
            spec: Description; its name may be another one under which the network was passed before.
            weights: Weights file to load; empty = the network keeps its own.

        Raises:
            InputError: The network can't be copied, does not take such images, does not return features, or
                the weights file does not fit.
        """
        self.used = True
        # A network may make tensors while it computes; a caller may be building others without memory.
        with torch.device("cpu"):
            module = self._copy(spec)
            if weights:
                removed = self._module.state_dict().keys() - module.state_dict().keys()
                advice = "Pass weights that were saved from this network."
                fill(module, spec.name, Path(weights), advice, removed)
            way, width = inspect_network(module, spec.name, len(spec.mean), spec.size)
        for key, value in module.state_dict().items():
            if not isinstance(value, Tensor):
                raise InputError(
                    f"backbone {spec.name}: its state has {key!r}, which is a {type(value).__name__} and not "
                    "a tensor, so it can't be saved. Remove get_extra_state."
                )
        return Backbone(spec, module, width, way=way)

    def line(self, spec: BackboneSpec, num_features: int) -> str:
        """Description of the network for the user."""
        state = {
            "pretrained": "its own, which count as trained (weights=random if they are not)",
            "random": "its own, which count as untrained",
        }.get(spec.weights, spec.file)
        trained = [parameter.requires_grad for parameter in self._module.parameters()]
        fixed = f"; {trained.count(False)} of {len(trained)} parameters have requires_grad=False"
        return (
            f"backbone {spec.name}: a copy of the {type(self._module).__name__} that was passed, "
            f"{num_features} features; weights: {state}{fixed if not all(trained) else ''}; "
            f"{self._preparation._replace(size=spec.size).describe()}"
        )

    def _copy(self, spec: BackboneSpec) -> nn.Module:
        """Copy of the network on the CPU without the classifier of its library."""
        try:
            module: Any = copy.deepcopy(self._module).cpu()
        except Exception as error:  # code of the user
            raise InputError(
                f"backbone {self.name}: can't be copied ({type(error).__name__}: {error}), and the network "
                "that was passed is never changed. Pass one that copy.deepcopy takes."
            ) from error
        library = type(module).__module__.partition(".")[0]
        if library == "timm" and hasattr(module, "reset_classifier"):
            module.reset_classifier(0)
            timm_models.set_size(spec.name, module, spec.size)
        elif library == "torchvision":
            _remove_torchvision_classifier(module)
        elif library == "transformers":
            module = getattr(module, "base_model", module)
        network: nn.Module = module
        return network


def _remove_torchvision_classifier(model: nn.Module) -> None:
    """Replace the last linear layer of a network of torchvision by the identity, if it has one."""
    if getattr(model, "aux_logits", False):  # further classifiers, for training from scratch
        model.aux_logits = False  # type: ignore[assignment]
        for name in ("AuxLogits", "aux1", "aux2"):
            if hasattr(model, name):
                setattr(model, name, None)
    for name in ("fc", "classifier", "heads", "head"):
        part = getattr(model, name, None)
        if isinstance(part, nn.Linear):
            setattr(model, name, nn.Identity())
            return
        if isinstance(part, nn.Sequential) and len(part) and isinstance(part[-1], nn.Linear):
            part[-1] = nn.Identity()
            return


_AT_HAND: ContextVar[OwnNetwork | None] = ContextVar("own_network", default=None)


@contextmanager
def at_hand(network: OwnNetwork | None) -> Iterator[None]:
    """Use a network wherever a backbone of the user's own is called for; None changes nothing."""
    token = _AT_HAND.set(network or _AT_HAND.get())
    try:
        yield
    finally:
        _AT_HAND.reset(token)


def needed(name: str, where: str = "") -> OwnNetwork:
    """The network that the user passed, for a backbone of this name.

    Args:
        name: Name of the backbone, which is not imported.
        where: Folder of the run that needs it; empty = a training.
    """
    network = _AT_HAND.get()
    if network is not None:
        return network
    if where:
        raise InputError(
            f"{where}: its backbone {name} is a network of the user's own, and no file of a run can bring "
            "its code along: pass the network, in Python as spml.load(folder, backbone=module), on the "
            "command line as `--backbone module:callable`."
        )
    raise InputError(
        f"backbone {name!r} is code of your own, which is imported only where you name it yourself, never "
        f"because a file does: write it on the command line (`--backbone {name}`), or pass the network in "
        "Python (backbone=module)."
    )
