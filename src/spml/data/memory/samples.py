"""Samples in memory: features, paths of images, or images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import IterableDataset

from ...common.errors import InputError, quoted
from ...common.label_checks import as_array
from ...common.phrases import first_few
from ...common.safe import quote
from ...config import DataConfig
from ..files.names import RowNames
from ..files.places import images_folder
from ..images.image_files import ImageSource, MemoryImage
from ..matrix import FeatureMatrix
from ..readers.features import feature_matrix
from ..records import MEMORY
from ..tables.columns import find_text
from ..tables.rows import join_cells
from ..texts import Texts
from .frames import as_table, column_names, is_frame, is_series, numbers, row_names

ACCEPTED = (
    "a path; features (N, D), or (N, P, D) for P parts of each sample, as a NumPy array or torch tensor, or "
    "(N, D) as a SciPy matrix or DataFrame; a list of paths, PIL "
    "images or uint8 arrays (H, W, 3); or a torch Dataset of (image, label)"
)
_PEEK = 3  # images of a data set that are loaded twice, to see whether they change
_IMAGE = "images are uint8 of shape (H, W, 3) in NumPy and (3, H, W) in torch"
_FEATURES_ONLY = (
    "The columns of a DataFrame are features, unless it names image files and holds their labels (without y; "
    "data={'file_column': NAME, 'label_column': NAME} names them). Leave this column out; or pass paths "
    "alone, such as X['file']."
)


Content = tuple[Sequence[str], FeatureMatrix | Texts | tuple[ImageSource, ...]]
"""Names of samples, and their features, their texts or the sources of their images."""


def is_dataset(samples: object) -> bool:
    """Whether the samples are a data set of PyTorch; one without random access or length is refused."""
    if isinstance(samples, IterableDataset):
        raise InputError(
            f"X is {described(samples)}, an IterableDataset, whose samples have only one order: give a "
            "Dataset with __len__ and __getitem__."
        )
    if isinstance(samples, TorchDataset) and not hasattr(samples, "__len__"):
        raise InputError(f"X is {described(samples)} without a length: give its class a method __len__.")
    return isinstance(samples, TorchDataset)


def read_samples(samples: Any, config: DataConfig) -> Content:
    """Understand samples by their type, their shape and the type of the first one.

    `samples` is what the user passed as X; `config.images`, `config.missing` and `config.text` are used.
    """
    if config.text:
        return _texts(samples, config)
    if is_frame(samples):
        matrix = numbers(samples, "X", _FEATURES_ONLY)
        return row_names(samples), feature_matrix(matrix, MEMORY, column_names(samples))
    if is_dataset(samples):
        return _content(lambda row: _without_label(item_of(samples, row)), len(samples), config, samples)
    if hasattr(samples, "tocsr"):
        matrix = samples.tocsr()
        if not matrix.has_canonical_format:
            matrix = matrix.copy()  # it belongs to the user
            matrix.sum_duplicates()
        return _features(matrix)
    if is_series(samples):
        samples = samples.to_list() if hasattr(samples, "to_list") else list(samples)
    channels = 1 if isinstance(samples, torch.Tensor) else 3  # axis of images that holds them
    if isinstance(samples, torch.Tensor):
        samples = as_array(samples)
    if isinstance(samples, np.ndarray):
        if (samples.ndim == 2 and samples.dtype.kind in "biuf") or (
            samples.ndim == 3 and samples.dtype.kind == "f"  # integers may be grey images
        ):
            return _features(samples)
        if samples.ndim == 4 and samples.dtype == np.uint8 and samples.shape[channels] == 3:
            samples = list(np.moveaxis(samples, channels, 3))
        elif samples.ndim == 1 and samples.dtype.kind in "UO":
            samples = samples.tolist()
        else:
            raise InputError(
                f"X has the shape {samples.shape} and the type {samples.dtype}. Features are numbers of the "
                f"shape (N, D), or of floating point of the shape (N, P, D) for P parts; {_IMAGE}."
            )
    if isinstance(samples, (list, tuple)):
        return _content(samples.__getitem__, len(samples), config)
    raise InputError(f"X is {described(samples)}; expected {ACCEPTED}.")


def described(value: Any) -> str:
    """A value in a message: itself if it is short, otherwise its type, and its shape if it has one."""
    if value is None or isinstance(value, (str, int, float, Path)):
        return quoted(value)
    shape = f", shape {tuple(value.shape)}, dtype {value.dtype}" if hasattr(value, "dtype") else ""
    return f"a value of the type {type(value).__name__}{shape}"


def item_of(dataset: Any, row: int) -> Any:
    """Sample of a data set of PyTorch, whose exceptions become an `InputError`."""
    try:
        return dataset[row]
    except Exception as error:  # it is the code of the user
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(
            f"X[{row}]: the data set fails: {reason[:300]}. Remove or repair this sample."
        ) from error


def _texts(samples: Any, config: DataConfig) -> Content:
    """Texts in columns of a DataFrame, in a Series, or in a list."""
    if is_frame(samples):
        table, columns = as_table(samples)
        chosen = [columns[k] for k in find_text(table, config.text)]
        return row_names(samples), Texts.of(map(join_cells, zip(*chosen, strict=True)))
    texts = list(samples) if is_series(samples) or isinstance(samples, (list, tuple, np.ndarray)) else None
    if not texts or not all(isinstance(each, str) for each in texts):
        wrong = next((each for each in texts or () if not isinstance(each, str)), samples)
        raise InputError(
            f"X holds {described(wrong)} where a text is expected: give a DataFrame with the columns "
            f"{config.text}, or a list of texts."
        )
    return RowNames(len(texts)), Texts.of(texts)


def _features(matrix: Any) -> Content:
    features = feature_matrix(matrix, MEMORY)
    return RowNames(len(features)), features


def _content(load: Callable[[int], Any], count: int, config: DataConfig, dataset: Any = None) -> Content:
    """Understand samples that `load` gives by the first one; `dataset` is the data set that they are in."""
    if not count:
        raise InputError(f"X is empty; expected {ACCEPTED}.")
    first = load(0)
    if isinstance(first, (str, Path)):
        return _paths([load(row) for row in range(count)], config)
    if isinstance(first, Image.Image) or getattr(first, "ndim", 0) == 3:
        if dataset is None:
            images = [partial(_image, _checked_image(load(row), row), row) for row in range(count)]
        else:
            for row in range(min(count, _PEEK)):
                first_time, second_time = (np.asarray(_image(load(row), row)) for _ in range(2))
                if not np.array_equal(first_time, second_time):
                    raise InputError(
                        "X: the data set gives another image each time. Remove its random transforms: images "
                        "are mirrored in training as data.flip says."
                    )
            images = [partial(_image_in, dataset, row) for row in range(count)]
        sources = (MemoryImage(f"X[{row}]", image) for row, image in enumerate(images))
        return RowNames(count), tuple(sources)
    if not isinstance(first, (list, tuple)) and getattr(first, "ndim", 0) != 1:
        raise InputError(f"X[0] is {described(first)}; expected {ACCEPTED}.")
    rows = [load(row) for row in range(count)]
    rows = [as_array(row) if isinstance(row, torch.Tensor) else row for row in rows]
    try:
        matrix = np.asarray(rows)
    except ValueError as error:
        lengths = [len(row) if hasattr(row, "__len__") else 0 for row in rows]
        wrong = next((row for row, length in enumerate(lengths) if length != lengths[0]), 0)
        raise InputError(
            f"X[{wrong}] has {lengths[wrong]} features, but X[0] has {lengths[0]}: every row needs the same."
        ) from error
    return _features(matrix)


def _without_label(item: Any) -> Any:
    return item[0] if isinstance(item, (tuple, list)) else item


def _checked_image(item: Any, row: int) -> Any:
    """The same item, unless its type, shape or type of numbers is none of an image; decodes nothing."""
    axis, dtype = (0, torch.uint8) if isinstance(item, torch.Tensor) else (2, np.uint8)
    if not isinstance(item, Image.Image) and (
        getattr(item, "ndim", 0) != 3 or item.dtype != dtype or item.shape[axis] != 3 or 0 in item.shape
    ):
        raise InputError(f"X[{row}] is {described(item)}; {_IMAGE}.")
    return item


def _image(item: Any, row: int) -> Image.Image:
    """A PIL image of what the user passed as an image."""
    _checked_image(item, row)
    if isinstance(item, Image.Image):
        return item
    if isinstance(item, torch.Tensor):
        item = as_array(item).transpose(1, 2, 0)
    return Image.fromarray(np.ascontiguousarray(item))


def _image_in(dataset: Any, row: int) -> Image.Image:
    # An exception here concerns this image alone, which is left out as one that can't be read.
    return _image(_without_label(dataset[row]), row)


def _paths(items: Sequence[Any], config: DataConfig) -> Content:
    root = images_folder(config) or Path()
    first: dict[str, int] = {}
    files: list[Path] = []
    for row, item in enumerate(items):
        if not isinstance(item, (str, Path)):
            raise InputError(f"X[{row}] is {described(item)}, but X[0] is a path: give one kind of samples.")
        name = str(item)
        if first.setdefault(name, row) != row:
            raise InputError(
                f"X[{row}] and X[{first[name]}] are both {quote(name)}: name an image once, with all labels."
            )
        files.append(root / name)
    missing = [row for row, file in enumerate(files) if not file.is_file()]
    if missing and (config.missing == "stop" or len(missing) == len(files)):
        others = ""
        if len(missing) > 1:
            names = first_few([quote(str(items[row])) for row in missing], 3)
            others = f" ({len(missing):,} of {len(files):,} files are missing: {names})"
        raise InputError(
            f"X[{missing[0]}]: there is no file {quote(str(files[missing[0]]))}{others}. Add it, leave it "
            "out, or name the folder of the images: data={'images': FOLDER}."
        )
    return tuple(Path(item).as_posix() for item in items), tuple(files)
