"""Data as functions in Python take it: named by its path, or in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from PIL import Image

from ..common.errors import InputError
from ..config import DataConfig, from_dict
from ..data import MEMORY, Inputs, Records, list_inputs, list_samples, read_memory, wanted_names
from ..data.memory import is_series
from ..data.tables.formats import SUFFIXES as TABLES
from ..models import BackboneSpec

_LONGEST = 1000  # characters of a path


def labelled(
    data: Any,
    y: Any,
    settings: Mapping[str, Any],
    *,
    classes: Sequence[str] | None = None,
    known: Sequence[str] = (),
    names: Mapping[str, str] = MappingProxyType({}),
    text: str = "",
    split: Sequence[str] | None = None,
    groups: Sequence[Any] | None = None,
) -> tuple[DataConfig, Records | None]:
    """Understand labelled data.

    Args:
        data: Path, complete `DataConfig`, or samples in memory as in `spml.train`.
        y: Labels of samples in memory.
        settings: Fields of `DataConfig` by name.
        classes: Class names, in the order of the indices or columns of `y`.
        known: Classes of the run that the data is for; empty if there is none.
        names: Wanted names of classes by given ones, as the run has them; those in the settings come first.
        text: Columns that hold the texts which the run takes; empty if it takes none.
        split: Split of each sample in memory.
        groups: Group of each sample in memory.

    Returns:
        Settings of the data, and its content if it is in memory; it has not been opened.

    Raises:
        InputError: A setting is unknown or has the wrong type, or samples and labels do not suit.
    """
    if isinstance(data, (DataConfig, str, Path)):
        if any(argument is not None for argument in (y, classes, split, groups)):
            raise InputError(
                "y, classes, split and groups belong to samples in memory, but the data is named by its "
                "path: leave them out, or pass the samples themselves."
            )
        if not isinstance(data, DataConfig):
            data = from_dict({"data": {**settings, "path": str(data)}}).data
        return as_in_run(data, names, text), None
    # Processes would have to be given all samples before they can decode any.
    config = from_dict({"data": {"workers": 0, **settings, "path": MEMORY}}).data
    config = as_in_run(config, names, text)
    records = read_memory(data, y, config, classes=classes, known=known, split=split, groups=groups)
    return config, records


def as_in_run(config: DataConfig, names: Mapping[str, str], text: str) -> DataConfig:
    """Settings of data for a run: its wanted names of classes, and the columns that hold the texts which it
    takes, apply where the settings state no other.

    Raises:
        InputError: A file of names that the settings name can't be read.
    """
    config = replace(config, text=config.text or text)
    return replace(config, rename={**names, **wanted_names(config)}) if names else config


def unlabelled(
    samples: Any, spec: BackboneSpec, text: str = "", report: Callable[[str], None] = lambda line: None
) -> tuple[Sequence[str], Inputs, bool]:
    """Find or understand samples to predict, without loading any image.

    Args:
        samples: Paths as in `spml.data.list_inputs`, or samples in memory as in `spml.train`.
        spec: Backbone that they are prepared for.
        text: Columns of tables that hold texts, if it takes texts: then text in a list is a sample, unless it
            names a table.
        report: Receives a line for what is left out of each folder.

    Returns:
        Their names, the samples, and whether they are in memory.

    Raises:
        InputError: A path is missing, or the samples are of a type that is not understood.
    """
    if isinstance(samples, (Iterator, Set)):
        samples = list(samples)
    samples = _several(samples, features=spec.kind == "feature")
    paths = [samples] if isinstance(samples, (str, Path)) else samples
    if text:
        if is_series(samples) and {*text.split(",")} <= {*map(str, getattr(samples, "index", ()))}:
            paths = samples.to_frame().T  # a row of a DataFrame
        one = paths[0] if isinstance(paths, (list, tuple)) and len(paths) == 1 else ""
        is_path = isinstance(one, (str, Path)) and Path(str(one)[:_LONGEST]).suffix.lower() in TABLES
        samples = paths
    else:
        is_path = isinstance(paths, (list, tuple)) and all(isinstance(path, (str, Path)) for path in paths)
    preparation: dict[str, Any] = {"size": spec.size, "interpolation": spec.interpolation}
    if is_path:
        names, config = [str(path) for path in paths], DataConfig(text=text)
        return *list_inputs(names, config, **preparation, report=report), False
    return *list_samples(samples, text, **preparation), True


def _several(samples: Any, *, features: bool) -> Any:
    """Samples of which there may have been a single one: an image, a vector, or a row of a DataFrame."""
    if isinstance(samples, Image.Image):
        return [samples]
    numbers = (int, float, np.number)
    if features and isinstance(samples, (list, tuple)) and all(isinstance(each, numbers) for each in samples):
        return np.asarray([samples], np.float64) if samples else samples
    if features and is_series(samples) and hasattr(samples, "to_frame") and hasattr(samples, "index"):
        return samples.to_frame().T.infer_objects()
    if isinstance(samples, (np.ndarray, torch.Tensor)):
        is_image = samples.ndim == 3 and samples.dtype in (np.uint8, torch.uint8)
        is_vector = features and samples.ndim == 1 and samples.dtype != np.object_
        return samples[None] if is_image or is_vector else samples
    return samples
