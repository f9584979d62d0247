"""Song et al. 2024: loss of IGNORE, the masked regions of an image, and the running means."""

from __future__ import annotations

import math

from spml.losses import ignore_loss
from tests.goldens import Case
from tests.loops import Labels, Matrix


def ignore(
    logits: Matrix, target: Labels, strong: Matrix, masked: Matrix | None, gap: float, means: list[float]
) -> float:
    """0.1 * plain view on known positives + strong view on labels that remain + 0.5 * squared difference."""
    plain, positives, assumed, remaining, between, count = 0.0, 0, 0.0, 0, 0.0, 0
    for b, labels in enumerate(target):
        for c, label in enumerate(labels):
            z, s = logits[b][c], strong[b][c]
            between, count = between + (s - z) ** 2, count + 1
            if label == 1:
                plain, positives = plain + math.log1p(math.exp(-z)), positives + 1
            if label == 0 and masked is not None and abs(z - masked[b][c]) > gap and z > means[c]:
                continue
            assumed += math.log1p(math.exp(-s if label == 1 else s))
            remaining += 1
    return 0.1 * plain / max(positives, 1) + assumed / max(remaining, 1) + 0.5 * between / count


def _scaled(values: Matrix) -> Matrix:
    """Values rescaled to [0, 1]; all 0 if they are equal."""
    flat = [value for row in values for value in row]
    low, high = min(flat), max(flat)
    return [[(value - low) / (high - low) if high > low else 0.0 for value in row] for row in values]


def _at(values: Matrix, y: float, x: float) -> float:
    """Interpolation between the centres of four cells; constant beyond the outermost centres."""
    y, x = min(max(y, 0.0), len(values) - 1), min(max(x, 0.0), len(values[0]) - 1)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, len(values) - 1), min(left + 1, len(values[0]) - 1)
    down, along = y - top, x - left
    above = values[top][left] * (1 - along) + values[top][right] * along
    below = values[bottom][left] * (1 - along) + values[bottom][right] * along
    return above * (1 - down) + below * down


def hidden(maps: list[Matrix], height: int, width: int, threshold: float) -> list[list[bool]]:
    """Mask of the hidden pixels of an image, from the class activation maps of its known positives."""
    if not maps:
        return [[False] * width for _ in range(height)]
    each = [_scaled(one) for one in maps]
    rows, columns = len(each[0]), len(each[0][0])
    largest = [[max(one[y][x] for one in each) for x in range(columns)] for y in range(rows)]
    large = [
        [
            _at(largest, (y + 0.5) * rows / height - 0.5, (x + 0.5) * columns / width - 0.5)
            for x in range(width)
        ]
        for y in range(height)
    ]
    return [[value > threshold for value in row] for row in _scaled(large)]


def running(values: list[float], decay: float) -> float:
    """Running mean that starts at 0, without bias correction."""
    mean = 0.0
    for value in values:
        mean = decay * mean + (1 - decay) * value
    return mean


def _ignore(case: Case) -> object:
    hp = {"Gap_T": 1.5, "Avg_T": -0.5}
    rejecting = "ep4" in case.name
    hidden = case.tensor("masked_logits") if rejecting else None
    settings = {"gap_threshold": hp["Gap_T"], "mean_logits": hp["Avg_T"], "eps": case.eps(1e-5)}
    target = case.tensor("obs")
    if case.record["wrt"] == "strong_logits":
        return lambda strong: ignore_loss(case.tensor("logits"), target, strong, hidden, **settings)
    return lambda logits: ignore_loss(logits, target, case.tensor("strong_logits"), hidden, **settings)


GOLDENS = [(r"ignore_ep[0-9]+(_wrt_strong)?", _ignore)]
