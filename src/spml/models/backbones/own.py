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
from ..spec import LARGEST_SIZE, OWN, BackboneSpec, origin_of
from . import timm_models, torchvision_models
from .backbone import Backbone
from .outputs import inspect
from .preparation import Preparation, default_preparation, read_transform
from .weights import check_fit, read_weights, with_file


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
        self.name = name or _name_of(type(module))
        self.used = False
        self._module = module
        self._preparation = default_preparation(module)
        if transform is not None:
            self._preparation = read_transform(transform, self._preparation._replace(differs=""))

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
        prepared = self._prepared(size)
        try:
            spec = BackboneSpec(
                self.name,
                {},
                prepared.size,
                prepared.mean,
                prepared.std,
                prepared.interpolation,
                config.weights,
                sha256=_sha256(self._module),
            )
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
                _fill(module, weights, spec)
            way, width = inspect(module, spec.name, len(spec.mean), spec.size)
        _check_state(module, spec.name)
        return Backbone(spec, module, width, way=way)

    def line(self, spec: BackboneSpec, num_features: int) -> str:
        """What the user is told of the network."""
        state = {
            "pretrained": "its own, which count as trained (--weights random if they are not)",
            "random": "its own, which count as untrained",
        }.get(spec.weights, spec.file)
        trained = [parameter.requires_grad for parameter in self._module.parameters()]
        fixed = f"; {trained.count(False)} of {len(trained)} parameters have requires_grad=False"
        return (
            f"backbone {spec.name}: a copy of the {type(self._module).__name__} that was passed, "
            f"{num_features} features; weights: {state}{fixed if not all(trained) else ''}; "
            f"{self._prepared(spec.size).describe()}"
        )

    def _prepared(self, size: int) -> Preparation:
        prepared = self._preparation
        if size and size != prepared.size:
            prepared = prepared._replace(size=size)
        if prepared.size > LARGEST_SIZE:
            raise InputError(f"images must have at most {LARGEST_SIZE} pixels, got {prepared.size}.")
        return prepared

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
            torchvision_models.remove_classifier(module)
        elif library == "transformers":
            module = getattr(module, "base_model", module)
        network: nn.Module = module
        return network


def _fill(module: nn.Module, weights: str, spec: BackboneSpec) -> None:
    """Load a weights file into a network."""
    tensors = read_weights(Path(weights))
    what = f"{weights}: these weights do not fit {spec.name}"
    check_fit(module.state_dict(), tensors, what, "Pass weights that were saved from this network.")
    module.load_state_dict(tensors, strict=False)


def _name_of(cls: type) -> str:
    """Name of a class as the command line would call it."""
    module, name = cls.__module__, cls.__qualname__.rpartition("<locals>.")[2]
    stated = f"{module}:{name}"
    return stated if origin_of(stated) == OWN else "own:Network"


def _check_state(module: nn.Module, name: str) -> None:
    """Refuse a network whose state can't be written as tensors."""
    for key, value in module.state_dict().items():
        if not isinstance(value, Tensor):
            raise InputError(
                f"backbone {name}: its state has {key!r}, which is a {type(value).__name__} and not a "
                "tensor, so it can't be saved. Remove get_extra_state."
            )


def _sha256(module: nn.Module) -> str:
    """SHA-256 of the weights of a network."""
    digest = hashlib.sha256()
    for name, tensor in module.state_dict().items():
        if isinstance(tensor, Tensor) and not nn.parameter.is_lazy(tensor):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            data = tensor.detach().cpu().contiguous().reshape(-1)
            digest.update(data.view(torch.uint8).numpy().data)
    return digest.hexdigest()


# -- the network at hand ---------------------------------------------------------------------------------

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

    Raises:
        InputError: None was passed.
    """
    network = _AT_HAND.get()
    if network is not None:
        return network
    if where:
        raise InputError(
            f"{where}: its backbone {name} is a network of the user's own, and no file of a run can bring "
            "its code along: pass the network, in Python as spml.load(folder, backbone=module), on the "
            "command line as --backbone module:callable."
        )
    raise InputError(
        f"backbone {name!r} is code of your own, which is imported only where you name it yourself, never "
        f"because a file does: write it on the command line (--backbone {name}), or pass the network in "
        "Python (backbone=module)."
    )
