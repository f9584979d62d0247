"""The classifier: a backbone and a top; saving and loading."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import msgspec
import torch
from torch import Tensor, nn

from ..data.safe import CONTROL, quote
from ..errors import InputError
from ..files import check_json_sha256, sha256_file, write_bytes, write_checked_json
from ..methods.base import Outputs
from .backbones import Backbone, check_fit, create_backbone
from .heads import LINEAR
from .scaling import STANDARD
from .solved.ensemble import EnsembleSettings
from .spec import BackboneSpec, read_json
from .top import LOGITS, Top

WEIGHTS, CARD, FORMAT = "model.safetensors", "model.json", 2
_Count = Annotated[int, msgspec.Meta(ge=1)]


class _TopSettings(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of `Top` in model.json."""

    num_features: _Count
    num_classes: _Count
    head: str = LINEAR
    hidden: _Count = 512
    dropout: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    scaling: str = STANDARD
    scores: str = LOGITS
    ensemble: EnsembleSettings | None = None


class _ModelFile(msgspec.Struct):
    """The part of model.json from which the classifier is built."""

    format: int
    classes: list[str]
    weights_sha256: str
    backbone: BackboneSpec
    top: _TopSettings

    def __post_init__(self) -> None:
        if len(self.classes) != self.top.num_classes:
            raise ValueError(f"{len(self.classes)} class names for {self.top.num_classes} logits")
        before: set[str] = set()
        for position, name in enumerate(self.classes):
            wrong = "occurs twice" if name in before else "" if name else "is empty"
            if wrong or CONTROL.search(name):
                wrong = wrong or "holds control characters"
                raise ValueError(f"the class name {quote(name)} {wrong} - at `$.classes[{position}]`")
            before.add(name)


class Classifier(nn.Module):
    """Network that maps samples to logits: a backbone and a top.

    Args:
        backbone: Network that maps samples to features.
        top: Network that maps features to logits.
        frozen: Whether the backbone is never trained: it has no gradient, and its batch normalisation and
            dropout stay in evaluation mode.

    Raises:
        ValueError: Backbone and top have different numbers of features.
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
        """Description of the backbone and of the preparation of its inputs."""
        return self.backbone.spec

    def train(self, mode: bool = True) -> Classifier:
        """Set training mode; a frozen backbone stays in evaluation mode."""
        super().train(mode)
        if self.frozen:
            self.backbone.eval()
        return self

    def forward(self, inputs: Tensor, class_maps: bool = False) -> Outputs:
        """Compute logits (B, C) and features (B, D) in float32, and class maps if requested.

        Raises:
            InputError: Class maps are requested, or the head takes feature maps, and the backbone has none.
        """
        if not (class_maps or self.top.takes_maps):
            outputs: Outputs = self.top(self.backbone(inputs))
            return outputs
        maps = self.backbone.maps(inputs)
        if self.top.takes_maps:
            maps = self.backbone.features_by_position(maps)
            outputs = self.top(maps)
        else:
            outputs = self.top(self.backbone.pool(maps))
            maps = self.backbone.features_by_position(maps.detach())
        return outputs._replace(class_maps=self.top.class_maps(maps) if class_maps else None)


def save_classifier(folder: Path, classifier: Classifier, spec: BackboneSpec, card: dict[str, Any]) -> None:
    """Write model.safetensors and model.json to a folder.

    Args:
        folder: Existing folder.
        classifier: Classifier in any mode and on any device.
        spec: Description of its backbone.
        card: Further content of model.json, JSON-able, with at least `classes`, the names in the order of the
            logits.

    Raises:
        ValueError: The number of classes differs from the number of logits.
        SpmlError: A file could not be written.
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
    write_checked_json(folder / CARD, {**card, **model})


def load_classifier(folder: Path) -> tuple[Classifier, dict[str, Any]]:
    """Load the classifier in a folder. Needs no network access. No content of the files is executed.

    Returns:
        Classifier in evaluation mode on the CPU, and the content of its model.json.

    Raises:
        InputError: A file is missing, damaged, of another version, or the two files do not belong together;
            or a weight is NaN.
    """
    from safetensors.torch import load_file

    weights, path = folder / WEIGHTS, folder / CARD
    for file in (path, weights):
        if not file.is_file():
            raise InputError(f"{folder}: contains no trained model ({file.name} is missing).")
    card, model = _read_card(path)
    if model.weights_sha256 != sha256_file(weights):
        raise InputError(
            f"{weights}: is not the file that {CARD} next to it describes: damaged, or from another run. "
            "Restore both files from one run, or train again."
        )
    with _readable(folder):
        expected, stored = _sizes_of(model), _sizes_in(weights)
    # Checked before memory is allocated for the model or its weights.
    check_fit(expected, stored, f"{weights}: does not fit {CARD}", "Train again.")
    with _readable(folder):
        classifier = _make(model)
        classifier.load_state_dict(load_file(weights))
    for name, tensor in classifier.state_dict().items():
        if tensor.isnan().any():
            raise InputError(f"{weights}: holds NaN in {name}, so predictions would be NaN. Train again.")
    return classifier.eval(), card


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
    """Turn what damaged files of a model raise into one clear message."""
    from safetensors import SafetensorError

    try:
        yield
    except (SafetensorError, OSError, TypeError, ValueError, LookupError, RuntimeError) as error:
        raise InputError(f"{folder}: the model can't be read ({error}). Train again.") from error


def _make(model: _ModelFile) -> Classifier:
    """Build the classifier that model.json describes, with random weights."""
    return Classifier(create_backbone(model.backbone), Top(**msgspec.structs.asdict(model.top)))


def _sizes_of(model: _ModelFile) -> dict[str, Tensor]:
    """Tensors of the sizes that model.json describes, without memory."""
    try:
        with torch.device("meta"):
            return _make(model).state_dict()
    except RuntimeError:
        # Early versions of timm build some models from values that they read back, which takes memory.
        return _make(model).state_dict()


def _sizes_in(weights: Path) -> dict[str, Tensor]:
    """Tensors of the sizes that the header of a file states, without memory."""
    from safetensors import safe_open

    with safe_open(weights, framework="pt") as stored:
        names = stored.keys()
        return {name: torch.empty(stored.get_slice(name).get_shape(), device="meta") for name in names}


def _read_card(path: Path) -> tuple[dict[str, Any], _ModelFile]:
    """Read model.json: its whole content, and the checked part from which the classifier is built."""
    card = read_json(path, dict[str, Any], "The file is damaged: train again.")
    # Checked first, because another format may have other fields.
    if card.get("format", FORMAT) != FORMAT:
        raise InputError(
            f"{path}: has format {quote(card['format'])}, but this version of spml reads format {FORMAT}: "
            "use the version that wrote it."
        )
    try:
        model = msgspec.convert(card, _ModelFile)
        if unknown := card["backbone"].keys() - asdict(model.backbone).keys():
            raise ValueError(f"unknown field {min(unknown)!r} - at `$.backbone`")
        check_json_sha256(card)
    except ValueError as error:
        raise InputError(f"{path}: damaged: {error}. Train again.") from error
    return card, model
