"""From scores to decisions: which model to choose, and where to cut."""

from .decide import Decision, threshold_at, threshold_curve
from .selection import Judge, default_mean_labels
from .thresholds import global_threshold

__all__ = [
    "Decision",
    "Judge",
    "default_mean_labels",
    "global_threshold",
    "threshold_at",
    "threshold_curve",
]
