"""The network that is exported: from photographs or features to logits, probabilities and labels."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from ..decisions import Calibration
from .resize import PillowResize

IMAGES, FEATURES = "images", "features"
LOGITS, SCORES, PROBABILITIES, LABELS = "logits", "scores", "probabilities", "labels"


class Exported(nn.Module):
    """The steps of `spml predict` between decoding an image and naming its labels, as one network.

    Args:
        network: Network from prepared images, uint8 (B, 3, size, size), or from features to logits.
        resize: Prepares images; None where the network takes features.
        thresholds: Logit of each class at and above which it is predicted; infinite = never.
        log_probabilities: Whether logits are logarithms of probabilities that sum to 1 over the classes.
        calibration: Map from logits to probabilities; None where K is not known.
    """

    thresholds: Tensor

    def __init__(
        self,
        network: nn.Module,
        resize: PillowResize | None,
        thresholds: tuple[float, ...],
        *,
        log_probabilities: bool,
        calibration: Calibration | None,
    ) -> None:
        super().__init__()
        self.network, self.resize, self.log_probabilities = network, resize, log_probabilities
        self.calibrated = None if calibration is None else Interpolation(calibration)
        self.register_buffer("thresholds", torch.tensor(thresholds, dtype=torch.float32))

    def forward(self, inputs: Tensor) -> dict[str, Tensor]:
        """Compute all that is known of samples.

        Args:
            inputs: Images, uint8 RGB (B, H, W, 3) with any H and W, or features, float32 (B, D), or (B, P, D)
                where the network scores P parts.

        Returns:
            Logits, scores and, where K is known, calibrated probabilities, float32 (B, C), and whether each
            label is predicted, bool (B, C).
        """
        logits = self.network(inputs if self.resize is None else self.resize(inputs))
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
