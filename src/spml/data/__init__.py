"""Data sets: read, checked, with labels hidden and split. `open_dataset` is the one way in."""

from .dataset import Augment, Dataset, Inputs, Kind, Samples
from .inspection import Inspection, inspect
from .memory import read_memory
from .open import Opening, list_inputs, list_samples, open_dataset, open_inputs, start_opening
from .records import MEMORY, Records
from .rename import read_names, wanted_names, write_names

__all__ = [
    "MEMORY",
    "Augment",
    "Dataset",
    "Inputs",
    "Inspection",
    "Kind",
    "Opening",
    "Records",
    "Samples",
    "inspect",
    "list_inputs",
    "list_samples",
    "open_dataset",
    "open_inputs",
    "read_memory",
    "read_names",
    "start_opening",
    "wanted_names",
    "write_names",
]
