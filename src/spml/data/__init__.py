"""Data sets: read, checked, with labels hidden and split. `open_dataset` is the one way in."""

from .cache import cached_features
from .dataset import Augment, Dataset, Inputs, Kind, Samples
from .inspection.inspect import inspect
from .inspection.report import Inspection
from .open import Opening, list_inputs, open_dataset, open_inputs, start_opening

__all__ = [
    "Augment",
    "Dataset",
    "Inputs",
    "Inspection",
    "Kind",
    "Opening",
    "Samples",
    "cached_features",
    "inspect",
    "list_inputs",
    "open_dataset",
    "open_inputs",
    "start_opening",
]
