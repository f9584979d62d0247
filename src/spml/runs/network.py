"""The network of a run for code of the user's own, and how an image becomes its input."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from ..common.errors import InputError
from ..data.images.decoding import UnreadableImageError, resized
from ..models import Classifier, Top


class Network(nn.Module):
    """Network from prepared images, uint8 (B, 3, size, size), or features, float32 (B, D), to logits (B, C).

    Pixels are normalised inside. Where the method trains log-probabilities, the logits are these.

    Args:
        classifier: Classifier, or its part behind the backbone, which takes features. Parameters are shared.
    """

    def __init__(self, classifier: Classifier | Top) -> None:
        super().__init__()
        self.classifier = classifier

    def forward(self, inputs: Tensor) -> Tensor:
        """Compute logits, float32 (B, C)."""
        logits: Tensor = self.classifier(inputs).logits
        return logits


@dataclass(frozen=True)
class Transform:
    """Prepares an image as for training and prediction: upright, RGB, square.

    Attributes:
        size: Side in pixels.
        interpolation: `nearest`, `bilinear`, `bicubic` or `lanczos`.
    """

    size: int
    interpolation: str

    def __call__(self, image: Image.Image) -> Tensor:
        """Turn an image of Pillow into a uint8 tensor (3, size, size).

        Raises:
            InputError: It is not an image of Pillow, or its pixels can't be used.
        """
        if not isinstance(image, Image.Image):
            raise InputError(
                f"expected an image of Pillow, got {type(image).__name__}: PIL.Image.fromarray(...)"
            )
        try:
            pixels = np.array(resized(image, self.size, self.interpolation))
        except UnreadableImageError as error:
            raise InputError(f"the image can't be used: {error}") from error
        return torch.from_numpy(pixels).permute(2, 0, 1)
