"""Description of a backbone and of how its inputs are prepared: everything about it except its weights."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ..data.dataset import Kind
from ..data.images.decoding import INTERPOLATIONS

NONE, SMALL_CNN = "none", "small_cnn"
TIMM, HUGGING_FACE, OWN = "timm", "hf", "own"
TFIDF, SENTENCES = "tfidf", "sentence-transformers"
# Options that change what a timm model computes from the same weights. Others are not accepted from a file,
# because some of them make timm open further files.
TIMM_OPTIONS = ("pad_type", "act_layer", "norm_layer", "bn_eps", "global_pool", "fc_norm")
_POOLINGS = ("avg", "avgmax", "catavgmax", "max", "token")  # those that give one vector
LARGEST_SIZE, _LARGEST_WIDTH = 8192, 1 << 24
_CALLABLE = re.compile(r"[A-Za-z_]\w*(\.\w+)*:[A-Za-z_]\w*(\.\w+)*")


def origin_of(name: str) -> str:
    """Where the code of a backbone comes from, by its name.

    Returns:
        `none` (feature vectors), `small_cnn`, `timm`, `hf` (`hf/FOLDER`), `tfidf` or `sentence-transformers`
        (`sentence-transformers:NAME`) for texts, or `own` for code of the user (`module:callable`).
    """
    if name in (NONE, SMALL_CNN, TFIDF):
        return name
    if name.startswith(f"{SENTENCES}:"):
        return SENTENCES
    if name.startswith(f"{HUGGING_FACE}/"):
        return HUGGING_FACE
    return OWN if _CALLABLE.fullmatch(name) else TIMM


@dataclass(frozen=True)
class BackboneSpec:
    """All that is needed to build a backbone again, apart from its weights, and to prepare its inputs.

    Attributes:
        name: `none`, `small_cnn`, the name of a timm model, `hf/FOLDER`, `tfidf`,
            `sentence-transformers:NAME`, or `module:callable` for a network of the user's own.
        options: Further arguments of the timm model.
        size: Side of its input images in pixels; 0 for feature vectors and texts.
        mean: Mean of each channel, subtracted from pixels scaled to [0, 1].
        std: Standard deviation of each channel, by which the difference is divided.
        interpolation: Interpolation with which images are resized.
        weights: Origin of the weights: `none`, `random`, `file`, or `pretrained`: of timm, in the Hugging
            Face folder, of the training texts, or as the network of the user came.
        file: Name of the weights file; empty if there is none.
        sha256: SHA-256 of that file; of a Hugging Face folder and of an embedding, that of its weights; of a
            network of the user, that of the weights it came with.
        width: Length of feature vectors; 0 for images and texts.
        architecture: Configuration of a Hugging Face network, how its features are read and their number; the
            terms of TF-IDF; the number of features of an embedding; empty for others.

    Raises:
        ValueError: A value is impossible for any backbone.
    """

    name: str
    options: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    size: int = 0
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    interpolation: str = "bilinear"
    weights: str = "none"
    file: str = ""
    sha256: str = ""
    width: int = 0
    architecture: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("mean", "std"):
            object.__setattr__(self, name, tuple(float(value) for value in getattr(self, name)))
        image, vectors = self.kind == "image", self.kind == "feature"
        limits = {"size": (image, LARGEST_SIZE * image), "width": (vectors, _LARGEST_WIDTH * vectors)}
        for name, (lowest, highest) in limits.items():
            value = getattr(self, name)
            if not lowest <= value <= highest:
                raise ValueError(f"{name} must be from {int(lowest)} to {highest}, got {value}")
        if self.interpolation not in INTERPOLATIONS:
            raise ValueError(
                f"interpolation must be one of {', '.join(INTERPOLATIONS)}, got {self.interpolation!r}"
            )
        for name in self.options:
            if name not in TIMM_OPTIONS:
                raise ValueError(f"option {name!r} is not one of {', '.join(TIMM_OPTIONS)}")
        if (pooling := self.options.get("global_pool", "avg")) not in _POOLINGS:
            raise ValueError(f"option global_pool must be one of {', '.join(_POOLINGS)}, got {pooling!r}")
        if bool(self.architecture) and origin_of(self.name) != HUGGING_FACE and self.kind != "text":
            raise ValueError(f"{self.name!r} has no architecture")
        # A network of the user may be one for grey images.
        any_number = self.name == SMALL_CNN or (origin_of(self.name) == OWN and len(self.mean) == 1)
        channels = 0 if not image else max(len(self.mean), 1) if any_number else 3
        if not len(self.mean) == len(self.std) == channels:
            raise ValueError(f"mean and std must have {channels} numbers, got {self.mean} and {self.std}")
        if not all(map(math.isfinite, self.mean + self.std)) or min(self.std, default=1.0) <= 0:
            raise ValueError(f"mean and std must be finite and std positive, got {self.mean} and {self.std}")

    @property
    def kind(self) -> Kind:
        """Kind of the samples that it takes."""
        origin = origin_of(self.name)
        return "feature" if origin == NONE else "text" if origin in (TFIDF, SENTENCES) else "image"

    @property
    def is_pretrained(self) -> bool:
        """Whether training starts from weights that have been learned, as far as that is known."""
        return self.weights in ("pretrained", "file")

    @property
    def is_own(self) -> bool:
        """Whether the code of the network is the user's, which no file of a run can name to be imported."""
        return origin_of(self.name) == OWN

    def to_dict(self) -> dict[str, Any]:
        """Content of model.json, without what only other libraries need."""
        return {name: value for name, value in asdict(self).items() if name != "architecture" or value}
