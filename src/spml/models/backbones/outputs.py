"""Features in what a network returns, and checks of a network that is not known in advance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ...common.errors import InputError, first_line, quoted

WAYS = POOLED, FIRST_TOKEN, MEAN_OF_TOKENS, MAPS, TENSOR, EMBEDDING = (
    "pooler_output", "first token", "mean of the tokens", "mean of the feature map", "tensor", "image_embeds"
)  # fmt: skip
_TOLERANCE = 1e-3


def way_to_read(output: Any, module: nn.Module, name: str) -> str:
    """Way to read features from the output of a network; one of `WAYS`.

    Args:
        output: What the network returned for two images.
        module: The network.
        name: Name of the backbone in messages.
    """
    if isinstance(output, Tensor):
        return MAPS if output.ndim == 4 else TENSOR
    if not isinstance(output, Mapping):
        raise InputError(
            f"backbone {name}: returns a {type(output).__name__} instead of a tensor with features (B, D) or "
            "maps (B, D, h, w): wrap it in a module that returns these."
        )
    for way in (EMBEDDING, POOLED):
        if isinstance(output.get(way), Tensor):
            return way
    tokens = output.get("last_hidden_state")
    if isinstance(tokens, Tensor) and tokens.ndim == 4:
        return MAPS
    if isinstance(tokens, Tensor) and tokens.ndim == 3:
        names = [each for each, _ in module.named_parameters()]
        own = any(each.endswith(("cls_token", "class_embedding")) for each in names)
        return FIRST_TOKEN if own else MEAN_OF_TOKENS
    raise InputError(
        f"backbone {name}: returns {quoted(list(output))}, neither `pooler_output` nor `last_hidden_state`: "
        "pass a network without its classifier, such as AutoModel of transformers makes."
    )


def read_features(output: Any, way: str) -> Tensor:
    """Features (B, D) in what a network returned, as `way_to_read` says."""
    if isinstance(output, Mapping):
        output = output[way if way in (EMBEDDING, POOLED) else "last_hidden_state"]
    if not isinstance(output, Tensor):
        raise InputError(
            f"the backbone returns a {type(output).__name__} in training, but a tensor in evaluation: "
            "return a tensor in both."
        )
    if way == FIRST_TOKEN:
        output = output[:, 0]
    elif way == MEAN_OF_TOKENS:
        output = output.mean(1)
    if way in (MAPS, POOLED) and output.ndim == 4:  # some libraries keep the dimensions of what they pooled
        output = output.mean((2, 3))
    features: Tensor = output
    return features


@torch.no_grad()
def inspect(module: nn.Module, name: str, channels: int, size: int) -> tuple[str, int]:
    """Run a network in evaluation mode on images, and check what it returns.

    Args:
        module: Network on the CPU; it is in evaluation mode afterwards.
        name: Name of the backbone in messages.
        channels: Number of channels of its images.
        size: Side of its images in pixels.

    Returns:
        How features are read, and their number D.

    Raises:
        InputError: The network fails, or returns no finite features (B, D) or maps (B, D, h, w), or its
            features of an image depend on other images or on chance.
    """
    module.eval()
    images = pattern(channels, size)
    expected = f"features (2, D) or maps (2, D, h, w) of 2 images ({channels}, {size}, {size})"
    try:
        first = module(images)
        way = way_to_read(first, module, name)
        both = read_features(first, way)
    except InputError:
        raise
    except Exception as error:  # code of the user
        raise InputError(
            f"backbone {name}: fails on normalised images of shape {tuple(images.shape)} "
            f"({first_line(error)}). It must take float32 images of this shape; another size is stated by "
            "data.size, or in the transform."
        ) from error
    found = f"{str(both.dtype).removeprefix('torch.')} {tuple(both.shape)}"
    if both.ndim != 2 or len(both) != 2 or not both.shape[1]:
        raise InputError(f"backbone {name}: returns {found}, where {expected} were expected.")
    if not both.is_floating_point():
        raise InputError(f"backbone {name}: returns {found}, where features must be floating point.")
    if not both.isfinite().all():
        raise InputError(
            f"backbone {name}: returns NaN or infinity. Check its weights and how it normalises."
        )
    _check_alone(module, way, name, images, both)
    return way, both.shape[1]


def _check_alone(module: nn.Module, way: str, name: str, images: Tensor, both: Tensor) -> None:
    """Refuse a network whose features of an image depend on other images or on chance."""
    try:
        alone = read_features(module(images[:1]), way)
    except Exception as error:  # code of the user
        raise InputError(f"backbone {name}: takes two images but not one ({first_line(error)}).") from error
    if alone.shape != both[:1].shape:
        raise InputError(
            f"backbone {name}: returns {tuple(alone.shape)} for one image and {tuple(both.shape)} for two: "
            "the first dimension must be that of the images."
        )
    scale = float(both.abs().max())
    if not torch.allclose(alone[0].float(), both[0].float(), rtol=_TOLERANCE, atol=_TOLERANCE * scale):
        raise InputError(
            f"backbone {name}: the features of an image differ from one call to the next in evaluation mode, "
            "or depend on the other images of the batch. Leave out what is random in evaluation mode, such "
            "as dropout, and batch statistics."
        )


def pattern(channels: int, size: int) -> Tensor:
    """Two fixed images, float32 (2, channels, size, size), on the CPU: waves, and brighter ones upside down.

    With another mean, so that a network that centres the images of a batch is noticed.
    """
    steps = torch.linspace(0, 1, size, device="cpu")
    phase = torch.arange(channels, device="cpu").reshape(-1, 1, 1)
    image = torch.sin(7 * steps[:, None] + phase) + torch.cos(19 * steps[None, :] * (1 + phase))
    return torch.stack([image, 1 + image.flip(1) / 2]).contiguous()


def same_probe(first: list[float], second: list[float]) -> bool:
    """Whether two probes are equal up to rounding and the precision of devices."""
    scale = max(map(abs, first), default=0.0)
    pairs = zip(first, second, strict=False)
    return len(first) == len(second) and all(abs(a - b) <= 0.01 * scale + 1e-6 for a, b in pairs)
