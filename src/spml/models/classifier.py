"""The classifier: a backbone and a top; saving and loading."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import accumulate, islice
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ..common.documents import load_json
from ..common.errors import InputError, closest
from ..common.files import check_json_sha256, sha256_file, write_bytes, write_checked_json
from ..common.safe import CONTROL, quote
from ..common.torch_draws import borrowed_generators
from ..methods.base import Outputs
from .backbones import Backbone, check_fit, create_backbone, needed
from .backbones.backbone import resized, same_probe
from .backbones.hugging_face import require_transformers
from .heads import LINEAR, CodeSettings, QuerySettings
from .local import LocalSettings
from .scaling import STANDARD
from .solved.ensemble import EnsembleSettings
from .spec import HUGGING_FACE, LARGEST_SIZE, BackboneSpec, origin_of
from .top import LOG_SOFTMAX, LOGITS, Top

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
    codes: CodeSettings | None = None
    queries: QuerySettings | None = None
    local: LocalSettings | None = None


class SizeSettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A size in pixels that a model resizes images to, and the weight of its logits."""

    size: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_SIZE)]
    weight: Annotated[float, msgspec.Meta(gt=0, le=1)]


class _ModelFile(msgspec.Struct):
    """The part of model.json from which the classifier is built."""

    format: int
    classes: list[str]
    weights_sha256: str
    backbone: BackboneSpec
    top: _TopSettings
    probe: list[float] | None = None
    sizes: list[SizeSettings] = []
    others: list[_TopSettings] = []

    def __post_init__(self) -> None:
        if len(self.sizes) != len(self.others) + bool(self.sizes or self.others):
            raise ValueError(f"{len(self.sizes)} sizes for {len(self.others)} further heads")
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
        frozen_parts: Names of parts of the backbone that are never trained, as `Backbone.parts` takes them.
        sizes: Sizes that images are resized to, the one of `top` first; empty = the size that they have. The
            logits are the weighted sum of those at each size.
        others: Tops of the further sizes.

    Raises:
        ValueError: A top is for another number of features.
        InputError: The backbone has no such part.
    """

    def __init__(
        self,
        backbone: Backbone,
        top: Top,
        *,
        frozen: bool = False,
        frozen_parts: str = "",
        sizes: Sequence[SizeSettings] = (),
        others: Sequence[Top] = (),
    ) -> None:
        super().__init__()
        for each in (top, *others):
            if backbone.num_features != each.num_features:
                raise ValueError(
                    f"a top for {each.num_features} features on a backbone of {backbone.num_features}"
                )
        self.backbone, self.top = backbone, top
        self.sizes, self.others = tuple(sizes), nn.ModuleList(others)
        # Kept in a tuple, which does not register them a second time.
        self._frozen: tuple[nn.Module, ...] = (backbone,) if frozen else (*backbone.parts(frozen_parts),)
        for part in self._frozen:
            part.requires_grad_(False).eval()

    @property
    def spec(self) -> BackboneSpec:
        """Description of the backbone and of the preparation of its inputs."""
        return self.backbone.spec

    @property
    def feature_shape(self) -> tuple[int, ...]:
        """Shape of a sample of a model that takes features: (D,), or (P, D) if it scores P parts."""
        local = self.top.local
        parts = () if local is None else (local.settings.windows.width,)
        return (*parts, self.top.num_features)

    @property
    def tops(self) -> list[Top]:
        """The top of each size."""
        return [self.top, *self.others]

    @property
    def locates(self) -> bool:
        """Whether the model scores windows, so that it can tell where in an image a label is."""
        return any(top.local for top in self.tops)

    def places(self) -> npt.NDArray[np.float32]:
        """Windows of all sizes of images, (n, 4), each as `Windows.places` gives them."""
        found = [top.local.settings.windows.places() for top in self.tops if top.local]
        return np.concatenate([np.empty((0, 4), np.float32), *found])

    def of_one_size(self) -> Classifier:
        """The classifier for images of the size with the largest weight, which come first."""
        if not self.sizes:
            return self
        spec = replace(self.spec, size=self.sizes[0].size)
        backbone = copy.copy(self.backbone)
        backbone.spec = spec
        return Classifier(backbone, self.top)

    def train(self, mode: bool = True) -> Classifier:
        """Set training mode; what is frozen stays in evaluation mode."""
        super().train(mode)
        for part in self._frozen:
            part.eval()
        return self

    def forward(self, inputs: Tensor, class_maps: bool = False, trained_maps: bool = False) -> Outputs:
        """Compute logits (B, C) and features (B, D) in float32, and class maps if requested.

        Class maps have a gradient if `trained_maps`.

        Raises:
            InputError: Class maps are requested, or the head takes feature maps, and the backbone has none.
        """
        if self.sizes:
            parts, logits = [], torch.zeros(())
            for each, top in zip(self.sizes, self.tops, strict=True):
                maps = class_maps and top is self.top
                parts.append(self._of_size(top, resized(inputs, each.size), maps, trained_maps))
                logits = logits + each.weight * parts[-1].logits
            return parts[0]._replace(logits=logits, windows=self._strongest(parts))
        return self._of_size(self.top, inputs, class_maps, trained_maps)

    def _strongest(self, parts: Sequence[Outputs]) -> Tensor | None:
        """The window that speaks most for each class, (B, C), as `places` counts them: of the size with the
        highest logit."""
        located = [(top.local, part) for top, part in zip(self.tops, parts, strict=True) if top.local]
        if not located:
            return None
        counts = [sum(local.settings.windows.counts) for local, _ in located]
        starts = accumulate(counts[:-1], initial=0)
        numbers = []
        for (_, part), start in zip(located, starts, strict=True):
            assert part.windows is not None
            numbers.append(part.windows + start)
        best = torch.stack([part.logits for _, part in located]).argmax(0)
        return torch.stack(numbers).gather(0, best[None])[0]

    def _of_size(self, top: Top, inputs: Tensor, class_maps: bool, trained_maps: bool) -> Outputs:
        """Outputs of one of the tops for images of its size."""
        outputs: Outputs
        if top.local and not class_maps:
            outputs = top(*top.local.settings.windows.features(self.backbone, inputs))
            return outputs
        if not (class_maps or top.takes_maps):
            outputs = top(self.backbone(inputs))
            return outputs
        maps = self.backbone.maps(inputs)
        if top.takes_maps:
            maps = self.backbone.features_by_position(maps)
            outputs = top(maps)
        else:
            outputs = top(self.backbone.pool(maps))
            maps = self.backbone.features_by_position(maps if trained_maps else maps.detach())
        if not class_maps:
            return outputs
        with torch.set_grad_enabled(trained_maps and torch.is_grad_enabled()):
            return outputs._replace(class_maps=top.class_maps(maps))


class Located(nn.Module):
    """Logits, followed by the numbers of the windows that speak most for each class, (B, 2 C).

    Args:
        classifier: Classifier that scores windows.
    """

    def __init__(self, classifier: Classifier) -> None:
        super().__init__()
        self.classifier = classifier

    def forward(self, inputs: Tensor) -> Tensor:
        """Compute both, float32, of images uint8 (B, channels, H, W)."""
        outputs = self.classifier(inputs)
        return torch.cat([outputs.logits, outputs.windows], 1)  # whole numbers below 2^24 stay exact


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
    tensors: dict[str, Tensor] = {}
    written: set[int] = set()
    for name, tensor in classifier.state_dict().items():
        tensor = tensor.detach().cpu().contiguous()
        address = tensor.untyped_storage().data_ptr()
        # Tensors that share memory, such as tied weights, are copied: the file keeps each by itself.
        tensors[name] = tensor.clone() if address in written else tensor
        written.add(address)
    write_bytes(folder / WEIGHTS, save(tensors))
    model = {
        "format": FORMAT,
        "weights_sha256": sha256_file(folder / WEIGHTS),
        "backbone": spec.to_dict(),
        "top": classifier.top.settings(),
    }
    if classifier.sizes:
        model["sizes"] = msgspec.to_builtins(classifier.sizes)
        model["others"] = [top.settings() for top in classifier.tops[1:]]
    if spec.is_own:
        model["probe"] = classifier.backbone.probe()
    write_checked_json(folder / CARD, {**card, **model})


class Outline(NamedTuple):
    """What model.json alone says of a classifier.

    Attributes:
        spec: Backbone, and how images are prepared for it.
        scale: As in `Top`.
        places: Windows, as in `Classifier`; none of one that scores images as a whole.
    """

    spec: BackboneSpec
    scale: Literal["sigmoid", "exp"]
    places: npt.NDArray[np.float32]

    @classmethod
    def of(cls, classifier: Classifier) -> Outline:
        """Outline of a classifier in memory."""
        return cls(classifier.spec, classifier.top.scale, classifier.places())


def read_outline(folder: Path) -> tuple[Outline, dict[str, Any]]:
    """Read what the folder of a classifier says of it, without loading it.

    Returns:
        The outline, and the content of model.json.

    Raises:
        InputError: A file is missing, or model.json is damaged or of another version.
    """
    card, model = _card_in(folder)
    found = [top.local.windows.places() for top in (model.top, *model.others) if top.local]
    places = np.concatenate([np.empty((0, 4), np.float32), *found])
    scale: Literal["sigmoid", "exp"] = (
        "exp" if model.top.scores == LOG_SOFTMAX and not model.top.local else "sigmoid"
    )
    return Outline(model.backbone, scale, places), card


def _card_in(folder: Path) -> tuple[dict[str, Any], _ModelFile]:
    """Read model.json of a folder that holds a trained model: its whole content, and the checked part from
    which the classifier is built."""
    if not folder.is_dir():
        raise InputError(no_folder(folder))
    if any("\ud800" <= letter <= "\udfff" for letter in str(folder)):  # as Python shows other bytes
        raise InputError(f"{folder}: its name is not UTF-8, so its weights can't be read. Rename the folder.")
    for name in (CARD, WEIGHTS):
        if not (folder / name).is_file():
            raise InputError(
                f"{folder}: contains no trained model ({name} is missing). Name the folder of a "
                "finished run, the `output` of its training."
            )
    path = folder / CARD
    card = load_json(path, dict[str, Any], advice="The file is damaged: train again.")
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


def load_classifier(folder: Path) -> tuple[Classifier, dict[str, Any]]:
    """Load the classifier in a folder. Needs no network access. No content of the files is executed.

    A network of the user's own is a copy of the one at hand (`at_hand`), with the weights of the folder.

    Returns:
        Classifier in evaluation mode on the CPU, and the content of its model.json.

    Raises:
        InputError: A file is missing, damaged, of another version, or the two files do not belong together;
            a weight is NaN; or a network of the user's own was not passed, or is another one.
    """
    from safetensors import safe_open
    from safetensors.torch import load_file

    weights, (card, model) = folder / WEIGHTS, _card_in(folder)
    with _readable(folder):
        digest = sha256_file(weights)
    if model.weights_sha256 != digest:
        raise InputError(
            f"{weights}: is not the file that {CARD} next to it describes: damaged, or from another run. "
            "Restore both files from one run, or train again."
        )
    name = model.backbone.name
    what, advice = f"{weights}: does not fit {CARD}", "Train again."
    own = model.backbone.is_own
    if own:
        needed(name, str(folder))
        what = f"{weights}: does not fit the network that was passed for {name}"
        advice = "Pass the network that the run was trained with."
    if origin_of(name) == HUGGING_FACE:
        require_transformers()
    with _readable(folder, own=own):
        expected, stored = _sizes_of(model), {}
        with safe_open(weights, framework="pt") as file:
            for key in file.keys():  # noqa: SIM118
                stored[key] = torch.empty(file.get_slice(key).get_shape(), device="meta")
    # Checked by their sizes alone, before memory is allocated for the model or its weights.
    check_fit(expected, stored, what, advice)
    with _readable(folder, own=own), borrowed_generators():
        classifier = _assemble(create_backbone(model.backbone), model)
        classifier.load_state_dict(load_file(weights))
    for key, tensor in classifier.state_dict().items():
        if tensor.isnan().any():
            raise InputError(f"{weights}: holds NaN in {key}, so predictions would be NaN. Train again.")
    if own and model.probe is not None and not same_probe(model.probe, classifier.backbone.probe()):
        # The weights fit, but the network computes something else with them.
        raise InputError(
            f"{folder}: the network that was passed for {name} computes other features of the same image "
            "with the same weights than when the run was trained: its code was changed. Pass the network "
            "that the run was trained with."
        )
    return classifier.eval(), card


def no_folder(folder: Path) -> str:
    """Say that a folder does not exist, with the nearest of those next to it that hold a model."""
    if folder.exists():
        return f"{folder}: is a file; name the folder of a run, such as {folder.parent}."
    try:
        others = [path.name for path in islice(folder.parent.iterdir(), 10_000) if (path / CARD).is_file()]
    except OSError:
        return f"{folder}: no such folder, nor a folder {folder.parent}."
    # The names of others are shown only where one of them may be meant.
    return f"{folder}: no such folder. {closest(folder.name, others) or 'Name the folder of a run.'}"


@contextmanager
def _readable(folder: Path, *, own: bool = False) -> Iterator[None]:
    """Turn what damaged files of a model raise into one clear message.

    If the network is the user's `own`, a message about it is not about the files.
    """
    from safetensors import SafetensorError

    try:
        yield
    except OSError as error:  # of the disk: the files may be as they were
        raise InputError(
            f"{folder}: the model can't be read ({error.strerror or error}). Check the disk, or restore a "
            "copy of the folder."
        ) from error
    except (SafetensorError, TypeError, ValueError, LookupError, RuntimeError) as error:
        if own and isinstance(error, InputError):
            raise InputError(f"{folder}: {error}") from error
        raise InputError(f"{folder}: the model can't be read ({error}). Train again.") from error


def _assemble(backbone: Backbone, model: _ModelFile) -> Classifier:
    """Build the classifier that model.json describes, with random weights of the top."""
    if model.backbone.is_own and backbone.num_features != model.top.num_features:
        raise InputError(
            f"the network that was passed for {model.backbone.name} gives {backbone.num_features} features, "
            f"but that of the run gave {model.top.num_features}. Pass the network that the run was trained "
            "with."
        )
    top, *others = (Top(**msgspec.structs.asdict(each)) for each in (model.top, *model.others))
    return Classifier(backbone, top, sizes=model.sizes, others=others)


def _sizes_of(model: _ModelFile) -> dict[str, Tensor]:
    """Tensors of the sizes that model.json describes, without memory."""
    with torch.device("meta"):
        try:
            backbone = create_backbone(model.backbone)
        except RuntimeError:
            if model.backbone.architecture:  # of any size, unlike those that have a name
                raise
            # Some models are built from values that are read back, which takes memory.
            with torch.device("cpu"):
                backbone = create_backbone(model.backbone)
        return _assemble(backbone, model).state_dict()
