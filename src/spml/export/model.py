"""Model as exporters receive it: the network from photographs or features to labels, and its metadata."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ..decisions import Calibration, Policy, scores_of
from ..models import Classifier, Tfidf
from ..models.backbones.texts import SETTINGS
from ..version import __version__
from .resize import PillowResize

FORMAT = 1
"""Version of the metadata."""

IMAGES, FEATURES = "images", "features"
LOGITS, SCORES, PROBABILITIES, LABELS = "logits", "scores", "probabilities", "labels"


@dataclass(frozen=True)
class Model:
    """A trained model as it is exported.

    Attributes:
        folder: Folder of the run.
        classifier: Classifier in evaluation mode on the CPU.
        network: Network from prepared images, uint8 (B, 3, size, size), or features to logits.
        classes: Class names, in the order of the logits.
        thresholds: Logit of each class at and above which it is predicted; infinite = never.
        calibration: Map from logits to probabilities; None where K is not known.
        policy: Content of thresholds.json.
        card: Content of model.json.
        summary: Content of summary.json; None if the run has none.
    """

    folder: Path
    classifier: Classifier
    network: nn.Module
    classes: tuple[str, ...]
    thresholds: tuple[float, ...]
    calibration: Calibration | None
    policy: Policy
    card: dict[str, Any]
    summary: dict[str, Any] | None

    @property
    def size(self) -> int:
        """Side of the images in pixels that the network takes; 0 if it takes features."""
        return self.classifier.spec.size

    @property
    def input_name(self) -> str:
        """`images` or `features`."""
        return IMAGES if self.size else FEATURES

    def exported(self) -> Exported:
        """The network from photographs or features to logits, probabilities and labels."""
        return Exported(self).eval()

    def resize(self) -> nn.Module:
        """Network that prepares images as `network` takes them; features stay as they are."""
        return PillowResize(self.size, self.classifier.spec.interpolation) if self.size else nn.Identity()

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of what `exported` returns."""
        known = (PROBABILITIES,) if self.calibration is not None else ()
        return (LOGITS, SCORES, *known, LABELS)

    def example(self) -> torch.Tensor:
        """Two samples, by which the network is traced."""
        if self.size:
            return torch.zeros(2, self.size + 5, self.size + 11, 3, dtype=torch.uint8)
        return torch.zeros(2, *self.classifier.feature_shape)

    def trials(self) -> list[npt.NDArray[Any]]:
        """Random batches by which exported files are checked: images that shrink and grow, or features."""
        rng = np.random.default_rng(0)
        if not self.size:
            rows = rng.standard_normal((3, *self.classifier.feature_shape), np.float32)
            return [np.abs(rows), rows[:1]]
        size = self.size
        shapes = [(2, size, size), (1, 2 * size + 3, size + 1), (1, max(size // 2, 1), size + size // 3)]
        return [rng.integers(0, 256, (*shape, 3), np.uint8) for shape in shapes]

    @torch.inference_mode()
    def predict(self, inputs: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
        """Outputs of `spml predict` by name, for images (B, H, W, 3) or features (B, D) or (B, P, D)."""
        logits = self.network(self.resize()(torch.from_numpy(inputs))).numpy()
        outputs = {LOGITS: logits, SCORES: scores_of(logits, self.classifier.top.scale)}
        if self.calibration is not None:
            outputs[PROBABILITIES] = self.calibration(logits).astype(np.float32)
        outputs[LABELS] = logits >= np.asarray(self.thresholds, np.float32)
        return outputs

    def metadata(self) -> dict[str, Any]:
        """Metadata of an exported file, JSON-able."""
        spec = self.classifier.spec
        inputs: dict[str, Any] = {"name": self.input_name}
        if self.size:
            inputs |= {"type": "uint8", "shape": ["batch", "height", "width", 3], "meaning": _IMAGES}
        else:
            shape = ["batch", *self.classifier.feature_shape]
            inputs |= {"type": "float32", "shape": shape, "meaning": _FEATURES}
        if spec.kind == "text":
            inputs |= {"meaning": _TEXTS, "backbone": spec.name}
        network = self.classifier.backbone.network
        if isinstance(network, Tfidf):
            inputs |= {"tfidf": SETTINGS, "terms": network.terms, "idf": network.idf.tolist()}
        described: dict[str, Any] = {
            "format": FORMAT,
            "spml": __version__,
            "torch": torch.__version__,
            "weights_sha256": self.card["weights_sha256"],
            "classes": list(self.classes),
            "thresholds": [
                None if math.isinf(cut) else cut
                for cut in scores_of(self.thresholds, self.classifier.top.scale).tolist()
            ],
            "input": inputs,
            "outputs": {name: _OUTPUTS[name] for name in self.output_names},
            "scores": self.classifier.top.scale,
        }
        if self.size:
            described["preparation"] = {
                "size": self.size,
                "sizes": [each.size for each in self.classifier.sizes] or [self.size],
                "interpolation": spec.interpolation,
                "mean": list(spec.mean),
                "std": list(spec.std),
            }
        k = self.policy.mean_labels
        described["target"] = self.policy.target.describe()
        described["mean_labels"] = {"value": k.value, "source": k.source}
        described["warnings"] = list(self.policy.warnings)
        if self.calibration is None:
            described["no_probabilities"] = "K, the mean labels per sample, is not known"
        return described


_FEATURES = "features, made in the same way as those of the training samples"
_TEXTS = (
    "features of texts, which are not made inside, because no operation of ONNX or torch finds words: rows "
    "of TfidfVectorizer(**tfidf, vocabulary=terms) of scikit-learn, with idf_ = idf; or embeddings by the "
    "model of sentence-transformers that `backbone` names"
)
_IMAGES = (
    "decoded images, upright (EXIF orientation applied), RGB, of any height and width; they are resized and "
    "normalised inside"
)
_OUTPUTS = {
    LOGITS: "float32 (batch, classes)",
    SCORES: "float32 (batch, classes) in [0, 1]; they rank, but are not calibrated",
    PROBABILITIES: "float32 (batch, classes), calibrated",
    LABELS: "bool (batch, classes): whether the score reaches the threshold of the class",
}


class Exported(nn.Module):
    """The steps of `spml predict` between decoding an image and naming its labels, as one network.

    Args:
        model: Model that is exported.
    """

    thresholds: Tensor

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.network, self.resize = model.network, model.resize()
        self.log_probabilities = model.classifier.top.scale == "exp"
        self.calibrated = None if model.calibration is None else Interpolation(model.calibration)
        self.register_buffer("thresholds", torch.tensor(model.thresholds, dtype=torch.float32))

    def forward(self, inputs: Tensor) -> dict[str, Tensor]:
        """Compute all that is known of samples.

        Args:
            inputs: Images, uint8 RGB (B, H, W, 3) with any H and W, or features, float32 (B, D), or (B, P, D)
                where the network scores P parts.

        Returns:
            Logits, scores and, where K is known, calibrated probabilities, float32 (B, C), and whether each
            label is predicted, bool (B, C).
        """
        logits = self.network(self.resize(inputs))
        outputs = {LOGITS: logits, SCORES: logits.exp() if self.log_probabilities else logits.sigmoid()}
        if self.calibrated is not None:
            outputs[PROBABILITIES] = self.calibrated(logits)
        outputs[LABELS] = logits >= self.thresholds
        return outputs


class Interpolation(nn.Module):
    """A `Calibration` as a network: equal to `numpy.interp` up to the last digit of float64."""

    knots: Tensor
    values: Tensor
    slopes: Tensor

    def __init__(self, calibration: Calibration) -> None:
        super().__init__()
        knots, values = calibration.scores, calibration.probabilities
        steps, rises = np.diff(knots), np.diff(values)
        slopes = np.divide(rises, steps, out=np.zeros_like(rises), where=steps > 0)
        self._halvings = max(len(knots) - 1, 1).bit_length()
        beyond = np.full(2**self._halvings - len(knots), np.inf)
        for name, values_of in (
            ("knots", np.concatenate([knots, beyond])),
            ("values", values),
            ("slopes", np.append(slopes, 0.0)),
        ):
            self.register_buffer(name, torch.from_numpy(values_of))

    def forward(self, logits: Tensor) -> Tensor:
        """Return probabilities, float32, of logits of any shape."""
        scores = logits.double().clamp(min=self.knots[0])
        # Binary search of the last knot that is not above a score; ONNX has none.
        position = torch.zeros_like(scores, dtype=torch.int64)
        for halving in reversed(range(self._halvings)):
            further = position + 2**halving
            position = torch.where(self.knots[further] <= scores, further, position)
        return (self.values[position] + (scores - self.knots[position]) * self.slopes[position]).float()
