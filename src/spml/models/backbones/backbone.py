"""A backbone: a network of any origin that maps samples to features; and a small network for small images."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

import torch
from torch import Tensor, nn

from ...common.errors import InputError
from ..spec import NONE, BackboneSpec
from .code import code_of
from .outputs import MAPS, TENSOR, probe, read_features


class Backbone(nn.Module):
    """Network that maps samples to features (B, D).

    Images are uint8 of shape (B, channels, H, W). They are normalised here, on the device, so that few bytes
    are transferred. A grey image is copied to all channels of a network for colour images; a colour image is
    averaged for a network for grey images. Feature vectors are returned unchanged.

    Args:
        spec: Description from which the network was built.
        network: Network from normalised images to features.
        num_features: Number of features D.
        way: How features are read from what the network returns, as `outputs.way_to_read` says.

    Attributes:
        spec: Description from which the network was built.
        num_features: Number of features D.
    """

    _mean: Tensor
    _std: Tensor

    def __init__(
        self, spec: BackboneSpec, network: nn.Module, num_features: int, *, way: str = TENSOR
    ) -> None:
        super().__init__()
        # This memory layout makes convolutions a quarter to a third faster on CPU.
        self.network = network.to(memory_format=torch.channels_last)
        self.spec, self.num_features, self._way = spec, num_features, way
        # Not persistent, because they follow from the spec.
        shape = (1, -1, 1, 1)
        self.register_buffer("_mean", torch.tensor(spec.mean).mul(255).reshape(shape), persistent=False)
        self.register_buffer("_std", torch.tensor(spec.std).mul(255).reshape(shape), persistent=False)

    @property
    def device(self) -> torch.device:
        """Device that the network computes on, which may have no parameters."""
        return self._mean.device

    def forward(self, inputs: Tensor) -> Tensor:
        """Return features, float of shape (B, D) (half precision under autocast)."""
        if self.spec.name == NONE:
            return inputs
        return read_features(self.network(self._normalised(inputs)), self._way)

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
            shape = shape or self._why_no_maps()
            raise InputError(
                f"backbone {self.spec.name} has no feature map of {self.num_features} channels x height x "
                f"width{shape}: choose a convolutional backbone such as resnet50 (--model.backbone "
                "resnet50), and do not freeze it (--model.frozen no)."
            )
        return maps

    def unpooled(self, inputs: Tensor) -> Any:
        """Return what the network computes of images before pooling.

        Maps (B, D, h, w) or (B, h, w, D), tokens (B, n, D), or something else; its width may differ from
        `num_features`. None if the network does not tell.
        """
        if self._is_split:
            return self.network.forward_features(self._normalised(inputs))  # type: ignore[operator]
        if self._way != MAPS:
            return None
        output = self.network(self._normalised(inputs))
        return output if isinstance(output, Tensor) else output["last_hidden_state"]

    def pool(self, maps: Tensor) -> Tensor:
        """Return the features (B, D) of maps (B, D, h, w)."""
        if self._is_split:
            features: Tensor = self.network.forward_head(maps)  # type: ignore[operator]
            return features
        return read_features(maps, MAPS)

    @property
    def _is_split(self) -> bool:
        """Whether the network says what it computes before pooling and after it, as those of timm do."""
        return hasattr(self.network, "forward_features") and hasattr(self.network, "forward_head")

    def _why_no_maps(self) -> str:
        if self.spec.name == NONE or self._is_split:
            return ""
        return " (its network returns no maps, and has no forward_features and forward_head as those of timm)"

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
        digest = hashlib.sha256(json.dumps(self.spec.to_dict(), sort_keys=True).encode())
        if self.spec.is_own:
            digest.update(code_of(self.network).encode())
        for name, tensor in sorted(self.state_dict().items()):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()

    def probe(self) -> list[float]:
        """Some features of a fixed image, by which a change of the code of the network is noticed."""
        return probe(self.network, self._way, max(len(self.spec.mean), 1), self.spec.size)

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
