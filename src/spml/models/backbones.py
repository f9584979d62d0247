"""Backbones: timm models, a small network for small images, or nothing at all for feature vectors."""

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

_SHOWN = 3


class Backbone(nn.Module):
    """Samples to features (B, D).

    Images are uint8 (B, channels, H, W); they are normalised here, on the device, so that few bytes travel. A
    grey image goes into all channels of a network that takes colour, a coloured one is averaged for a network
    that takes grey. Feature vectors pass through unchanged.

    Attributes:
        spec: how it was built.
        num_features: D.
    """

    _mean: Tensor
    _std: Tensor

    def __init__(self, spec: BackboneSpec, network: nn.Module, num_features: int) -> None:
        super().__init__()
        # Weights laid out so make convolutions a quarter to a third faster on a processor.
        self.network = network.to(memory_format=torch.channels_last)
        self.spec, self.num_features = spec, num_features
        # Not persistent: they follow from the spec.
        shape = (1, -1, 1, 1)
        self.register_buffer("_mean", torch.tensor(spec.mean).mul(255).reshape(shape), persistent=False)
        self.register_buffer("_std", torch.tensor(spec.std).mul(255).reshape(shape), persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """Features, float (B, D) (half precision under autocast)."""
        if self.spec.name == NONE:
            return inputs
        features: Tensor = self.network(self._normalised(inputs))
        return features

    def maps(self, inputs: Tensor) -> Tensor:
        """The last feature map, float (B, D, h, w); `pool` of it is what `forward` gives, bit by bit.

        Raises:
            InputError: the backbone has no such map: it is a transformer of tokens, or further layers follow
                on pooling, or the inputs are feature vectors.
        """
        found: Any = None
        if self.spec.name != NONE:
            found = self.network.forward_features(self._normalised(inputs))  # type: ignore[operator]
        if not isinstance(found, Tensor) or found.ndim != 4 or found.shape[1] != self.num_features:
            raise InputError(
                f"backbone {self.spec.name} has no feature map of {self.num_features} channels x height x "
                f"width{_but(found)}: choose a convolutional backbone such as resnet50 (--model.backbone "
                "resnet50), and do not freeze it (--model.frozen no)."
            )
        return found

    def pool(self, maps: Tensor) -> Tensor:
        """Features (B, D) of maps (B, D, h, w)."""
        features: Tensor = self.network.forward_head(maps)  # type: ignore[operator]
        return features

    def at_places(self, maps: Tensor) -> Tensor:
        """The features that `pool` gives for each place of maps alone, the same shape.

        The maps themselves where pooling is all that follows on them. Some networks (ConvNeXt) normalise
        after pooling: a head that was trained on their features would make nothing of the maps themselves.
        """
        rows, _, height, width = maps.shape
        places = self.pool(maps.permute(0, 2, 3, 1).flatten(0, 2)[..., None, None])
        return places.reshape(rows, height, width, self.num_features).permute(0, 3, 1, 2)

    @torch.no_grad()
    def check_maps(self) -> None:
        """Find out by one black image whether there are feature maps.

        Raises:
            InputError: there are none.
        """
        was_training = self.training
        self.eval()
        channels, size = max(len(self.spec.mean), 1), self.spec.size
        self.maps(torch.zeros(1, channels, size, size, dtype=torch.uint8, device=self._mean.device))
        self.train(was_training)

    def key(self) -> str:
        """SHA-256 over everything that its features depend on apart from the samples."""
        digest = hashlib.sha256(json.dumps(asdict(self.spec), sort_keys=True).encode())
        for name, tensor in sorted(self.state_dict().items()):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()

    def _normalised(self, inputs: Tensor) -> Tensor:
        # One copy, then in place: on a processor fresh memory costs more than the arithmetic.
        pixels = inputs.to(torch.float32, copy=True)
        if len(self.spec.mean) == 1:
            pixels = pixels.mean(1, keepdim=True)
        elif pixels.shape[1] == 1:
            pixels = pixels.repeat(1, len(self.spec.mean), 1, 1)
        return pixels.sub_(self._mean).div_(self._std)


class SmallCNN(nn.Module):
    """A network for small images that one processor core trains in seconds: (B, channels, H, W) to (B, 64).

    Max pooling stands before batch normalisation and ReLU, which then have a quarter of the work. The pooling
    over the image is a generalised mean with exponent 3 (GeM; Radenović, Tolias, Chum, TPAMI 2019): between
    mean and maximum, so that something small is not averaged away, and yet its surroundings learn.
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
        """Features, float32 (B, 64)."""
        return self.forward_head(self.forward_features(images))

    def forward_features(self, images: Tensor) -> Tensor:
        """The feature map, float32 (B, 64, h, w). Named as in timm's models, as the next is."""
        maps: Tensor = self.layers(images).float()
        return maps

    def forward_head(self, maps: Tensor) -> Tensor:
        """Maps pooled, (B, 64)."""
        pooled: Tensor = torch.linalg.vector_norm(maps, 3, dim=(2, 3)) / math.prod(maps.shape[2:]) ** (1 / 3)
        return pooled


def build_backbone(
    spec: BackboneSpec, config: ModelConfig, *, report: Callable[[str], None] = lambda line: None
) -> Backbone:
    """The backbone with the weights that it starts from, on the CPU.

    Random weights come from torch's global random state. Weights of a file must fit exactly; only those of
    its classifier are left out. Pretrained weights are timm's own, as safetensors files.

    Args:
        spec: from `describe_backbone`.
        config: says where the file of weights is.
        report: told where weights come from, before a download starts.

    Raises:
        InputError: weights that can't be downloaded, are damaged or do not fit; a size that the backbone
            does not take.
    """
    if spec.weights == "pretrained":
        report(f"weights: {spec.name}, pretrained; timm downloads them once (Hugging Face cache)")
        return _with_size(spec, _pretrained(spec))
    if spec.weights != "file":
        return create_backbone(spec)
    path = Path(config.weights)
    told = "as its JSON says" if path.with_suffix(".json").is_file() else "timm's defaults, no JSON beside it"
    report(
        f"weights: {path} for {spec.name}; images ({told}): {spec.size} pixels, {spec.interpolation}, mean "
        f"{_short(spec.mean)}, std {_short(spec.std)}"
    )
    model = _create_timm(spec)
    _fill(model, spec, path)
    return _with_size(spec, model)


def create_backbone(spec: BackboneSpec) -> Backbone:
    """The backbone with random weights, on the CPU; needs no network and no file.

    Raises:
        InputError: timm does not know the model, or options or size do not suit it.
    """
    if spec.name == NONE:
        return Backbone(spec, nn.Identity(), spec.width)
    if spec.name == SMALL_CNN:
        if spec.size < 8:
            raise InputError(f"small_cnn halves thrice: --data.size must be at least 8, got {spec.size}.")
        return Backbone(spec, SmallCNN(len(spec.mean)), SmallCNN.num_features)
    return _with_size(spec, _create_timm(spec))


def _create_timm(spec: BackboneSpec) -> Any:
    """A timm model without its classifier, for images of the size it was trained with."""
    import timm

    # Without the tag, which a later timm may not know. A name such as hf-hub:... would use the network.
    name = spec.name.split(".")[0]
    known = timm.list_models()
    if name not in known:
        raise InputError(f"unknown backbone {name!r}. {nearest(name, known)}")
    try:
        model = timm.create_model(name, pretrained=False, **spec.options)
    except (TypeError, ValueError, KeyError) as error:
        raise InputError(f"backbone {name}: does not take options {dict(spec.options)} ({error})") from error
    model.reset_classifier(0)
    return model


def _with_size(spec: BackboneSpec, model: Any) -> Backbone:
    """A timm model that takes images of the size of the spec; most take any."""
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
    from huggingface_hub import hf_hub_download

    known = timm.get_pretrained_cfg(spec.name)
    advice = "Give a file (--model.weights FILE.safetensors), or say --model.weights random."
    if not known.hf_hub_id:
        raise InputError(f"timm has no pretrained weights for {spec.name}. {advice}")
    # Left alone, timm falls back to a pickle, and leaves out layers whose shape differs.
    file = (known.hf_hub_filename or "pytorch_model.bin").replace("pytorch_model.bin", "model.safetensors")
    try:
        path = hf_hub_download(known.hf_hub_id, file)
        overlay = {"file": path, "custom_load": False}
        model = timm.create_model(spec.name, pretrained=True, pretrained_cfg_overlay=overlay)
        model.reset_classifier(0)
        return model
    except Exception as error:  # the hub's client lets through whatever its HTTP library raises
        first = str(error).strip().split("\n")[0]
        raise InputError(
            f"pretrained weights of {spec.name} could not be downloaded or loaded "
            f"({type(error).__name__}: {first}). Check the connection. {advice}"
        ) from error


def _fill(model: Any, spec: BackboneSpec, path: Path) -> None:
    """Load weights of a file into a timm model without classifier, strictly."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        found = load_file(path)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path}: not a readable .safetensors file ({error}). Get it again.") from error
    classifiers = model.pretrained_cfg.get("classifier") or ()
    classifiers = (classifiers,) if isinstance(classifiers, str) else classifiers
    expected = model.state_dict()
    found = {
        name: tensor
        for name, tensor in found.items()
        if name in expected or not name.startswith(tuple(f"{prefix}." for prefix in classifiers))
    }
    advice = "Give weights that were made for this model."
    check_fit(expected, found, f"{path}: these weights do not fit {spec.name}", advice)
    model.load_state_dict(found)


def check_fit(expected: Mapping[str, Tensor], found: Mapping[str, Tensor], what: str, advice: str) -> None:
    """Refuse weights whose names or shapes differ from those of the model.

    Raises:
        InputError: `what`, then the first names that differ and how many there are, then `advice`.
    """
    # Files of other programs may lack these counters, which nothing here reads.
    missing = [n for n in expected if n not in found and not n.endswith("num_batches_tracked")]
    unexpected = [name for name in found if name not in expected]
    shapes = [
        f"{name} {tuple(found[name].shape)} instead of {tuple(expected[name].shape)}"
        for name in expected
        if name in found and found[name].shape != expected[name].shape
    ]
    parts = [
        f"{len(names)} {label}: {', '.join(names[:_SHOWN])}{', ...' if len(names) > _SHOWN else ''}"
        for label, names in (("missing", missing), ("unexpected", unexpected), ("of another shape", shapes))
        if names
    ]
    if parts:
        raise InputError(f"{what} ({'; '.join(parts)}). {advice}")


def _but(found: Any) -> str:
    return f", but values of shape {tuple(found.shape[1:])}" if isinstance(found, Tensor) else ""


def _short(values: tuple[float, ...]) -> str:
    return "/".join(f"{value:.3g}" for value in values)
