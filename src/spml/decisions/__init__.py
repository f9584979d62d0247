"""From scores to decisions: which model to choose, and where to cut."""

from .selection import Judge, default_mean_labels
from .thresholds import global_threshold

__all__ = ["Judge", "default_mean_labels", "global_threshold"]
