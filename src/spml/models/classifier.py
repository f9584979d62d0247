"""The classifier: backbone, standardised features, head; how it starts, and how it is kept in a folder."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..data.dataset import Inputs
from ..errors import InputError
from ..files import sha256_file, write_bytes, write_json
from ..methods.base import Outputs
from .backbones import Backbone, check_fit, create_backbone
from .heads import LINEAR, BoostedCAM, GaussianHead, last_layer, make_head
from .spec import BackboneSpec

WEIGHTS, CARD, FORMAT = "model.safetensors", "model.json", 1
SCORES = LOGITS, LOG_SOFTMAX = "logits", "log_softmax"
_CLAMP = 10.0
_CHUNK = 256  # rows at a time: what stays in the processor's cache takes a tenth of the time


class Standardise(nn.Module):
    """Each feature to mean 0 and deviation 1 over the training set, then cut off at -10 and 10.

    A feature that is nearly always 0 would otherwise give rare samples values of a hundred and more. A
    constant feature becomes 0.

    Attributes:
        mean, std: float32 (D,).
    """

    mean: Tensor
    std: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("std", torch.ones(width))

    @torch.no_grad()
    def fit(self, batches: Iterable[Tensor]) -> None:
        """Set mean and deviation from feature batches (B, D), in one pass and in float64.

        The batches' moments are merged (Chan, Golub, LeVeque 1979), which does not cancel where the mean is
        much larger than the deviation.
        """
        count, mean, squares = 0, torch.zeros_like(self.mean, dtype=torch.float64), torch.tensor(0.0)
        for batch in batches:
            values = batch.to(mean.device, torch.float64)
            here = values.mean(0)
            total = count + len(values)
            shift = here - mean
            squares = squares + (values - here).square().sum(0) + shift.square() * count * len(values) / total
            mean = mean + shift * len(values) / total
            count = total
        std = (squares / max(count, 1)).sqrt().float()
        self.mean.copy_(mean)
        self.std.copy_(torch.where(std > 0, std, torch.ones_like(std)))

    def forward(self, features: Tensor) -> Tensor:
        """Standardised features, the same shape."""
        # In place, for fresh memory costs more than the arithmetic.
        return (features - self.mean).div_(self.std).clamp_(-_CLAMP, _CLAMP)


class Top(nn.Module):
    """Features to logits: standardised features, dropout, head. All that is trained on a frozen backbone.

    Weights of the head start as torch draws them from its global random state (uniform, +- 1 / sqrt(D)); for
    its bias see `start_bias`. Everything is computed in float32, under autocast too.

    Args:
        num_features: D.
        num_classes: C.
        head: `linear`; `mlp` with one hidden layer and ReLU; `boosted_cam`, which takes feature maps (see
            `BoostedCAM`); `gaussian` with a random code (see `GaussianHead`).
        hidden: width of the hidden layer of `mlp`, and of the code of `gaussian`.
        dropout: share of features dropped before the head, in training.
        standardise: scale features by `fit_standardise`; otherwise they are taken as they are, as feature
            maps always are.
        scores: what is answered, the head's `logits` or their `log_softmax` over the classes.

    Raises:
        ValueError: no such head or scores.
    """

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        *,
        head: str = LINEAR,
        hidden: int = 512,
        dropout: float = 0.0,
        standardise: bool = True,
        scores: str = LOGITS,
    ) -> None:
        super().__init__()
        if scores not in SCORES:
            raise ValueError(f"scores must be one of {', '.join(SCORES)}, got {scores!r}")
        self.scores = scores
        self.num_features, self.num_classes = num_features, num_classes
        self.head = make_head(head, num_features, num_classes, hidden)
        standardise = standardise and not self.takes_maps
        self.standardise = Standardise(num_features) if standardise else None
        # A feature of a map is dropped at all places.
        self.dropout = nn.Dropout2d(dropout) if self.takes_maps else nn.Dropout(dropout)
        self._settings = {"head": head, "hidden": hidden, "dropout": dropout, "standardise": standardise}

    @property
    def takes_maps(self) -> bool:
        """Whether it is given feature maps (B, D, h, w) instead of features (B, D)."""
        return isinstance(self.head, BoostedCAM)

    def settings(self) -> dict[str, Any]:
        """The arguments that make a top like this one."""
        sizes = {"num_features": self.num_features, "num_classes": self.num_classes}
        return {**sizes, **self._settings, "scores": self.scores}

    def fit_standardise(self, inputs: Inputs) -> None:
        """Learn mean and deviation of the training features; nothing to do without `standardise`."""
        if self.standardise is not None:
            starts = range(0, len(inputs), _CHUNK)
            self.standardise.fit(
                inputs.fetch(range(start, min(start + _CHUNK, len(inputs))), None) for start in starts
            )

    def forward(self, features: Tensor) -> Outputs:
        """Logits (B, C) or log-probabilities, and what the head was given, before dropout (B, D); float32.

        Args:
            features: (B, D), or (B, D, h, w) for a head that takes maps, whose mean is then given.
        """
        with torch.autocast(features.device.type, enabled=False):
            given = features.float()
            if self.standardise is not None:
                given = self.standardise(given)
            kept, latent = self.dropout(given), None
            if isinstance(self.head, GaussianHead):
                logits, latent = self.head(kept)
            else:
                logits = self.head(kept)
            if self.scores == LOG_SOFTMAX:
                logits = functional.log_softmax(logits, 1)
            return Outputs(logits, given.mean((2, 3)) if self.takes_maps else given, latent=latent)

    @torch.no_grad()
    def class_maps(self, maps: Tensor) -> Tensor:
        """The head's logits for each place of feature maps (B, D, h, w) alone, float32 (B, C, h, w).

        Without dropout and random codes, and without gradient.
        """
        with torch.autocast(maps.device.type, enabled=False):
            places = maps.float().permute(0, 2, 3, 1)
            if self.standardise is not None:
                places = self.standardise(places)
            scores: Tensor = getattr(self.head, "at_places", self.head)(places)
            return scores.permute(0, 3, 1, 2).contiguous()


def start_bias(head: nn.Module, start: str, mean_labels: float) -> None:
    """Set the bias of the head's last layer.

    Args:
        head: of a `Top`.
        start: `zero`, or `prior` = logit(K / C), where every class starts with probability K / C.
        mean_labels: mean labels per sample K; used by `prior` only.

    Raises:
        InputError: K does not lie between 0 and C.
    """
    last = last_layer(head)
    value, classes = 0.0, last.out_features
    if start == "prior":
        if not 0 < mean_labels < classes:
            raise InputError(
                f"a head bias of logit(K / C) needs mean labels per sample K between 0 and the {classes} "
                f"classes, got {mean_labels:g}: state another --mean_labels, or say --model.head_bias zero."
            )
        value = math.log(mean_labels / (classes - mean_labels))
    nn.init.constant_(last.bias, value)


class Classifier(nn.Module):
    """Samples to logits: a backbone and a top.

    Args:
        backbone: samples to features.
        top: features to logits.
        frozen: the backbone is never trained: no gradient, and its batch normalisation and dropout stay in
            evaluation mode.

    Raises:
        ValueError: the two have different numbers of features.
    """

    def __init__(self, backbone: Backbone, top: Top, *, frozen: bool = False) -> None:
        super().__init__()
        if backbone.num_features != top.num_features:
            raise ValueError(
                f"a top for {top.num_features} features on a backbone of {backbone.num_features}"
            )
        self.backbone, self.top, self.frozen = backbone, top, frozen
        if frozen:
            backbone.requires_grad_(False).eval()

    @property
    def spec(self) -> BackboneSpec:
        """How inputs are prepared."""
        return self.backbone.spec

    def train(self, mode: bool = True) -> Classifier:
        """Set training mode; a frozen backbone stays in evaluation mode."""
        super().train(mode)
        if self.frozen:
            self.backbone.eval()
        return self

    def forward(self, inputs: Tensor, class_maps: bool = False) -> Outputs:
        """Logits (B, C) and features (B, D), float32; with `class_maps`, those too.

        Raises:
            InputError: class maps are asked for, or the head takes feature maps, and the backbone has none.
        """
        if not (class_maps or self.top.takes_maps):
            outputs: Outputs = self.top(self.backbone(inputs))
            return outputs
        maps = self.backbone.maps(inputs)
        if self.top.takes_maps:
            maps = self.backbone.at_places(maps)
            outputs = self.top(maps)
        else:
            outputs = self.top(self.backbone.pool(maps))
            maps = self.backbone.at_places(maps.detach())
        return outputs._replace(class_maps=self.top.class_maps(maps) if class_maps else None)


def save_classifier(folder: Path, classifier: Classifier, spec: BackboneSpec, card: dict[str, Any]) -> None:
    """Write model.safetensors and model.json to `folder`.

    Args:
        folder: exists.
        classifier: what is kept, in whatever mode and on whatever device.
        spec: of its backbone.
        card: what else model.json says, JSON-able; `classes` (names in the order of the logits) at least.

    Raises:
        ValueError: `classes` are not as many as the logits.
        SpmlError: a file could not be written.
    """
    from safetensors.torch import save

    if len(card["classes"]) != classifier.top.num_classes:
        raise ValueError(f"{len(card['classes'])} class names for {classifier.top.num_classes} logits")
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in classifier.state_dict().items()}
    write_bytes(folder / WEIGHTS, save(tensors))
    model = {
        "format": FORMAT,
        "weights_sha256": sha256_file(folder / WEIGHTS),
        "backbone": asdict(spec),
        "top": classifier.top.settings(),
    }
    write_json(folder / CARD, {**card, **model})


def load_classifier(folder: Path) -> tuple[Classifier, dict[str, Any]]:
    """The classifier in a folder, in evaluation mode on the CPU, and all that its model.json says.

    Needs no network. Nothing in the files is executed.

    Raises:
        InputError: a file is missing, damaged, of a later version, or the two do not belong together.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    weights, path = folder / WEIGHTS, folder / CARD
    for file in (path, weights):
        if not file.is_file():
            raise InputError(f"{folder}: holds no trained model ({file.name} is missing).")
    card = _read_card(path)
    if card.get("weights_sha256") != sha256_file(weights):
        raise InputError(
            f"{weights}: is not the file that {CARD} beside it describes: damaged, or from another run. "
            "Restore both files from one run, or train again."
        )
    try:
        classifier = Classifier(create_backbone(BackboneSpec(**card["backbone"])), Top(**card["top"]))
        found = load_file(weights)
    except (SafetensorError, OSError, TypeError, ValueError, LookupError, RuntimeError) as error:
        raise InputError(f"{folder}: the model can't be read ({error}). Train again.") from error
    check_fit(classifier.state_dict(), found, f"{weights}: does not fit {CARD}", "Train again.")
    classifier.load_state_dict(found)
    return classifier.eval(), card


def _read_card(path: Path) -> dict[str, Any]:
    try:
        card: dict[str, Any] = json.loads(path.read_bytes())
        if card["format"] != FORMAT:
            raise InputError(
                f"{path}: has format {card['format']}, but this version of spml reads format {FORMAT}: use "
                "the version that wrote it."
            )
        if len(card["classes"]) != card["top"]["num_classes"]:
            raise ValueError("class names and logits differ in number")
    except InputError:
        raise
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise InputError(f"{path}: damaged ({type(error).__name__}: {error}). Train again.") from error
    return card
