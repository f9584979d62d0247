"""Backbones: timm models, a small network for small images, or the identity for feature vectors."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..config import ModelConfig
from ..errors import InputError, nearest
from .spec import NONE, SMALL_CNN, BackboneSpec

_EXAMPLES = 3  # names of weights in a message


class Backbone(nn.Module):
    """Network that maps samples to features (B, D).

    Images are uint8 of shape (B, channels, H, W). They are normalised here, on the device, so that few bytes
    are transferred. A grey image is copied to all channels of a network for colour images; a colour image is
    averaged for a network for grey images. Feature vectors are returned unchanged.

    Attributes:
        spec: Description from which the network was built.
        num_features: Number of features D.
    """

    _mean: Tensor
    _std: Tensor

    def __init__(self, spec: BackboneSpec, network: nn.Module, num_features: int) -> None:
        super().__init__()
        # This memory layout makes convolutions a quarter to a third faster on CPU.
        self.network = network.to(memory_format=torch.channels_last)
        self.spec, self.num_features = spec, num_features
        # Not persistent, because they follow from the spec.
        shape = (1, -1, 1, 1)
        self.register_buffer("_mean", torch.tensor(spec.mean).mul(255).reshape(shape), persistent=False)
        self.register_buffer("_std", torch.tensor(spec.std).mul(255).reshape(shape), persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return features, float of shape (B, D) (half precision under autocast)."""
        if self.spec.name == NONE:
            return inputs
        features: Tensor = self.network(self._normalised(inputs))
        return features

    def maps(self, inputs: Tensor) -> Tensor:
        """Return the last feature map, float of shape (B, D, h, w).

        `pool` of it equals `forward` to the bit.

        Raises:
            InputError: The backbone has no such map: it is a transformer of tokens, or pooling is followed by
                further layers, or the inputs are feature vectors.
        """
        maps = None if self.spec.name == NONE else self.unpooled(inputs)
        if not isinstance(maps, Tensor) or maps.ndim != 4 or maps.shape[1] != self.num_features:
            shape = f", but values of shape {tuple(maps.shape[1:])}" if isinstance(maps, Tensor) else ""
            raise InputError(
                f"backbone {self.spec.name} has no feature map of {self.num_features} channels x height x "
                f"width{shape}: choose a convolutional backbone such as resnet50 (--model.backbone "
                "resnet50), and do not freeze it (--model.frozen no)."
            )
        return maps

    def unpooled(self, inputs: Tensor) -> Any:
        """Return what the network computes of images before pooling.

        Maps (B, D, h, w) or (B, h, w, D), tokens (B, n, D), or something else; its width may differ from
        `num_features`.
        """
        return self.network.forward_features(self._normalised(inputs))  # type: ignore[operator]

    def pool(self, maps: Tensor) -> Tensor:
        """Return the features (B, D) of maps (B, D, h, w)."""
        features: Tensor = self.network.forward_head(maps)  # type: ignore[operator]
        return features

    def features_by_position(self, maps: Tensor) -> Tensor:
        """Apply `pool` to each position of the maps separately; the result has the same shape.

        This is the identity where the network ends with pooling. Some networks (ConvNeXt) normalise after
        pooling, so a head trained on their features can't be applied to the maps themselves.
        """
        rows, _, height, width = maps.shape
        features = self.pool(maps.permute(0, 2, 3, 1).flatten(0, 2)[..., None, None])
        return features.reshape(rows, height, width, self.num_features).permute(0, 3, 1, 2)

    @torch.no_grad()
    def check_maps(self) -> None:
        """Check with one black image that the backbone has feature maps.

        Raises:
            InputError: It has none.
        """
        was_training = self.training
        self.eval()
        channels, size = max(len(self.spec.mean), 1), self.spec.size
        self.maps(torch.zeros(1, channels, size, size, dtype=torch.uint8, device=self._mean.device))
        self.train(was_training)

    def key(self) -> str:
        """Return the SHA-256 of everything that the features depend on, apart from the samples."""
        digest = hashlib.sha256(json.dumps(asdict(self.spec), sort_keys=True).encode())
        for name, tensor in sorted(self.state_dict().items()):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()

    def _normalised(self, inputs: Tensor) -> Tensor:
        # One copy, then in place: on CPU, allocating memory takes longer than the arithmetic.
        pixels = inputs.to(torch.float32, copy=True)
        if len(self.spec.mean) == 1:
            pixels = pixels.mean(1, keepdim=True)
        elif pixels.shape[1] == 1:
            pixels = pixels.repeat(1, len(self.spec.mean), 1, 1)
        return pixels.sub_(self._mean).div_(self._std)


class SmallCNN(nn.Module):
    """Network for small images, (B, channels, H, W) to (B, 64), that one CPU core trains in seconds.

    Max pooling precedes batch normalisation and ReLU, which then process a quarter of the values. The pooling
    over the image is a generalised mean with exponent 3 (GeM; Radenović, Tolias, Chum, TPAMI 2019). It lies
    between mean and maximum, so that small objects are not averaged away, but their surroundings still
    receive gradient.
    """

    num_features = 64

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, 16, 5, stride=2, padding=2, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(inplace=True),
            nn.Conv2d(16, 32, 3, padding=1, bias=False),
            nn.MaxPool2d(2),
            nn.BatchNorm2d(32),
            nn.ReLU(inplace=True),
            nn.Conv2d(32, self.num_features, 3, padding=1, bias=False),
            nn.MaxPool2d(2),
            nn.BatchNorm2d(self.num_features),
            nn.ReLU(inplace=True),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Return features, float32 of shape (B, 64)."""
        return self.forward_head(self.forward_features(images))

    def forward_features(self, images: Tensor) -> Tensor:
        """Return the feature map, float32 of shape (B, 64, h, w). Named as in timm's models."""
        maps: Tensor = self.layers(images).float()
        return maps

    def forward_head(self, maps: Tensor) -> Tensor:
        """Pool feature maps to features (B, 64). Named as in timm's models."""
        pooled: Tensor = torch.linalg.vector_norm(maps, 3, dim=(2, 3)) / math.prod(maps.shape[2:]) ** (1 / 3)
        return pooled


def build_backbone(
    spec: BackboneSpec, config: ModelConfig, *, report: Callable[[str], None] = lambda line: None
) -> Backbone:
    """Build a backbone with its initial weights, on the CPU.

    Random weights are drawn from torch's global random state. Weights of a file must fit exactly; only those
    of its classifier are left out. Pretrained weights are timm's own, as safetensors files.

    Args:
        spec: Description from `describe_backbone`.
        config: Settings of the model, with the path of the weights file.
        report: Callback for a line about the origin of the weights, called before a download starts.

    Raises:
        InputError: The weights can't be downloaded, are damaged or do not fit, or the backbone does not
            accept images of this size.
    """
    if spec.weights == "pretrained":
        report(f"weights: {spec.name}, pretrained; timm downloads them once (Hugging Face cache)")
        return _with_size(spec, _pretrained(spec))
    if spec.weights != "file":
        return create_backbone(spec)
    path = Path(config.weights)
    sidecar = path.with_suffix(".json")
    origin = f"as in {sidecar.name}" if sidecar.is_file() else f"timm's defaults, no {sidecar.name}"
    report(
        f"weights: {path} for {spec.name}; images ({origin}): {spec.size} pixels, {spec.interpolation}, mean "
        f"{_rounded(spec.mean)}, std {_rounded(spec.std)}"
    )
    model = _create_timm(spec)
    _fill(model, spec, path)
    return _with_size(spec, model)


def create_backbone(spec: BackboneSpec) -> Backbone:
    """Build a backbone with random weights, on the CPU. Needs no network access and no file.

    Raises:
        InputError: timm does not know the model, or the model does not accept the options or the size.
    """
    if spec.name == NONE:
        return Backbone(spec, nn.Identity(), spec.width)
    if spec.name == SMALL_CNN:
        if spec.size < 8:
            raise InputError(
                f"small_cnn halves images three times: --data.size must be at least 8, got {spec.size}."
            )
        return Backbone(spec, SmallCNN(len(spec.mean)), SmallCNN.num_features)
    return _with_size(spec, _create_timm(spec))


def _create_timm(spec: BackboneSpec) -> Any:
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
    model.reset_classifier(0)
    return model


def _with_size(spec: BackboneSpec, model: Any) -> Backbone:
    """Set the input size of a timm model. Most models accept any size."""
    default = model.pretrained_cfg["input_size"][-1]
    if model.pretrained_cfg.get("fixed_input_size") and spec.size != default:
        try:
            model.set_input_size(img_size=spec.size)
        except (AttributeError, AssertionError, ValueError, TypeError, RuntimeError) as error:
            raise InputError(
                f"backbone {spec.name} takes images of {default} pixels, not of {spec.size}: leave out "
                "--data.size, or choose another backbone."
            ) from error
    return Backbone(spec, model, int(model.head_hidden_size))


def _pretrained(spec: BackboneSpec) -> Any:
    import timm

    known = timm.get_pretrained_cfg(spec.name)
    advice = "Pass a file that you have (--model.weights FILE.safetensors), or --model.weights random."
    if not known.hf_hub_id:
        raise InputError(f"timm has no pretrained weights for {spec.name}. {advice}")
    # By default timm falls back to a pickle, and leaves out layers whose shape differs.
    file = (known.hf_hub_filename or "pytorch_model.bin").replace("pytorch_model.bin", "model.safetensors")
    try:
        path = _download(known.hf_hub_id, file)
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


def _download(repository: str, file: str) -> str:
    """Path of a file of the Hugging Face hub, downloaded unless it is in the cache."""
    import huggingface_hub

    path = huggingface_hub.try_to_load_from_cache(repository, file)
    if isinstance(path, str):
        return path
    # Asks once and fails at once without a network, where the download would ask again for a minute.
    huggingface_hub.get_hf_file_metadata(huggingface_hub.hf_hub_url(repository, file))
    return huggingface_hub.hf_hub_download(repository, file)


def _fill(model: Any, spec: BackboneSpec, path: Path) -> None:
    """Load the weights of a file into a timm model without classifier; all must fit."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        weights = load_file(path)
    except (OSError, SafetensorError) as error:
        raise InputError(
            f"{path}: not a readable .safetensors file ({error}). Download or copy it again."
        ) from error
    classifiers = model.pretrained_cfg.get("classifier") or ()
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


def check_fit(expected: Mapping[str, Tensor], weights: Mapping[str, Tensor], what: str, advice: str) -> None:
    """Check that weights have the names and shapes that a model expects.

    Args:
        expected: State of the model.
        weights: Weights to be loaded.
        what: First part of the message.
        advice: Last sentence of the message.

    Raises:
        InputError: Names or shapes differ; the message counts them and names the first.
    """
    # Files of other programs may lack these counters, which are never used.
    missing = [n for n in expected if n not in weights and not n.endswith("num_batches_tracked")]
    unexpected = [name for name in weights if name not in expected]
    shapes = [
        f"{name} {tuple(weights[name].shape)} instead of {tuple(expected[name].shape)}"
        for name in expected
        if name in weights and weights[name].shape != expected[name].shape
    ]
    parts = [
        f"{len(names)} {label}: {', '.join(names[:_EXAMPLES])}{', ...' if len(names) > _EXAMPLES else ''}"
        for label, names in (("missing", missing), ("unexpected", unexpected), ("of another shape", shapes))
        if names
    ]
    if parts:
        raise InputError(f"{what} ({'; '.join(parts)}). {advice}")


def _rounded(values: tuple[float, ...]) -> str:
    return "/".join(f"{value:.3g}" for value in values)
