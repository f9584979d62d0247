"""Data: what users have, read, split and hidden as they say. `open_dataset` is the one way in."""

from .cache import cached_features
from .dataset import Augment, Dataset, Inputs, Kind, Samples
from .inspection.report import Inspection, inspect
from .open import open_dataset, open_inputs

__all__ = [
    "Augment",
    "Dataset",
    "Inputs",
    "Inspection",
    "Kind",
    "Samples",
    "cached_features",
    "inspect",
    "open_dataset",
    "open_inputs",
]
