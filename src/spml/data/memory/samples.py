"""Samples in memory: features, paths of images, or images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import IterableDataset

from ...config import DataConfig
from ...errors import InputError, quoted
from ..images import ImageSource, MemoryImage
from ..matrix import FeatureMatrix
from ..names import RowNames
from ..phrases import first_few
from ..readers.features import feature_matrix
from ..readers.places import images_folder
from ..safe import quote
from .frames import column_names, is_frame, is_series, numbers, row_names

ACCEPTED = (
    "a path; features (N, D) as a NumPy array, torch tensor, SciPy matrix or DataFrame; a list of paths, PIL "
    "images or uint8 arrays (H, W, 3); or a torch Dataset of (image, label)"
)
_PEEK = 3  # images of a data set that are loaded twice, to see whether they change
_IMAGE = "images are uint8 of shape (H, W, 3) in NumPy and (3, H, W) in torch"
_FEATURES_ONLY = (
    "The columns of a DataFrame are features, unless it names image files and holds their labels (without y; "
    "data={'file_column': NAME, 'label_column': NAME} names them). Leave this column out; or pass paths "
    "alone, such as X['file']."
)


class Content(NamedTuple):
    """Samples without labels.

    Attributes:
        ids: Names of the samples.
        inputs: Features, or the sources of images.
    """

    ids: Sequence[str]
    inputs: FeatureMatrix | tuple[ImageSource, ...]


def is_dataset(samples: object) -> bool:
    """Whether the samples are a data set of PyTorch.

    Raises:
        InputError: It is one that can only be gone through in its own order.
    """
    if isinstance(samples, IterableDataset):
        raise InputError(
            f"X is {described(samples)}, an IterableDataset, whose samples have only one order: give a "
            "Dataset with __len__ and __getitem__."
        )
    return isinstance(samples, TorchDataset)


def read_samples(samples: Any, config: DataConfig, source: str) -> Content:
    """Understand samples by their type, their shape and the type of the first one.

    Args:
        samples: What the user passed as X.
        config: Settings of the data, of which `images` and `missing` are used.
        source: Name of the data, for messages.

    Raises:
        InputError: They are of another type or shape than those in `ACCEPTED`, or a file is missing.
    """
    if is_frame(samples):
        matrix = numbers(samples, "X", _FEATURES_ONLY)
        return Content(row_names(samples), feature_matrix(matrix, source, column_names(samples)))
    if is_dataset(samples):
        return _content([_DatasetItem(samples, row) for row in range(length_of(samples))], config, source)
    if hasattr(samples, "tocsr"):
        matrix = samples.tocsr()
        if not matrix.has_canonical_format:
            matrix = matrix.copy()  # it belongs to the user
            matrix.sum_duplicates()
        return _rows(feature_matrix(matrix, source))
    if isinstance(samples, torch.Tensor):
        return _array(as_numpy(samples), (1, 3), config, source)
    if is_series(samples):
        samples = samples.to_list() if hasattr(samples, "to_list") else list(samples)
    if isinstance(samples, np.ndarray):
        return _array(samples, (3, 3), config, source)
    if isinstance(samples, (list, tuple)):
        return _content(samples, config, source)
    raise InputError(f"X is {described(samples)}; expected {ACCEPTED}.")


def as_numpy(tensor: torch.Tensor) -> npt.NDArray[Any]:
    """Content of a tensor on any device; bfloat16, which NumPy lacks, as float32."""
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def described(value: Any) -> str:
    """A value in a message: itself if it is short, otherwise its type, and its shape if it has one."""
    if value is None or isinstance(value, (str, int, float, Path)):
        return quoted(value)
    shape = f", shape {tuple(value.shape)}, dtype {value.dtype}" if hasattr(value, "dtype") else ""
    return f"a value of the type {type(value).__name__}{shape}"


def item_of(dataset: Any, row: int) -> Any:
    """Sample of a data set of PyTorch.

    Raises:
        InputError: The data set raises an exception.
    """
    try:
        return dataset[row]
    except Exception as error:  # it is the code of the user
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(
            f"X[{row}]: the data set fails: {reason[:300]}. Remove or repair this sample."
        ) from error


class _DatasetItem(NamedTuple):
    """Sample of a data set of PyTorch, loaded when it is needed."""

    dataset: Any
    row: int


def length_of(dataset: Any) -> int:
    """Number of samples of a data set of PyTorch.

    Raises:
        InputError: It does not say.
    """
    try:
        return len(dataset)
    except TypeError as error:
        raise InputError(
            f"X is {described(dataset)} without a length: give its class a method __len__."
        ) from error


def _rows(features: FeatureMatrix) -> Content:
    return Content(RowNames(len(features)), features)


def _array(array: npt.NDArray[Any], channels: tuple[int, int], config: DataConfig, source: str) -> Content:
    """Understand an array; `channels` are the axis and the length of the channels of images."""
    if array.ndim == 1 and array.dtype.kind in "UO":
        return _content(array.tolist(), config, source)
    if array.ndim == 2 and array.dtype.kind in "biuf":
        return _rows(feature_matrix(array, source))
    axis, count = channels
    if array.ndim == 4 and array.dtype == np.uint8 and array.shape[axis] == count:
        if axis == 1:
            array = array.transpose(0, 2, 3, 1)
        return _content(list(array), config, source)
    raise InputError(
        f"X has the shape {array.shape} and the type {array.dtype}. Features are numbers of the shape (N, "
        f"D); {_IMAGE}."
    )


def _content(items: Sequence[Any], config: DataConfig, source: str) -> Content:
    """Understand a list by its first entry."""
    if not len(items):
        raise InputError(f"X is empty; expected {ACCEPTED}.")
    first = _loaded(items[0])
    if isinstance(first, (str, Path)):
        return _paths([_loaded(item) for item in items], config)
    if isinstance(first, Image.Image) or getattr(first, "ndim", 0) == 3:
        return Content(RowNames(len(items)), tuple(_images(items)))
    if isinstance(first, (list, tuple)) or getattr(first, "ndim", 0) == 1:
        return _rows(feature_matrix(_stacked(items), source))
    raise InputError(f"X[0] is {described(first)}; expected {ACCEPTED}.")


def _images(items: Sequence[Any]) -> Iterator[MemoryImage]:
    if isinstance(items[0], _DatasetItem):
        for item in items[:_PEEK]:
            first, second = (np.asarray(_image(_loaded(item), item.row)) for _ in range(2))
            if not np.array_equal(first, second):
                raise InputError(
                    "X: the data set gives another image each time. Remove its random transforms: images are "
                    "mirrored in training as data.flip says."
                )
    for row, item in enumerate(items):
        if isinstance(item, _DatasetItem):
            yield MemoryImage(f"X[{row}]", partial(_loaded_image, item))
        else:
            _check_image(item, row)
            yield MemoryImage(f"X[{row}]", partial(_image, item, row))


def _loaded(item: Any) -> Any:
    return _without_label(item_of(*item)) if isinstance(item, _DatasetItem) else item


def _loaded_image(item: _DatasetItem) -> Image.Image:
    return _image(_without_label(item.dataset[item.row]), item.row)


def _without_label(item: Any) -> Any:
    return item[0] if isinstance(item, (tuple, list)) else item


def _stacked(items: Sequence[Any]) -> npt.NDArray[Any]:
    rows = [_loaded(item) for item in items]
    rows = [as_numpy(row) if isinstance(row, torch.Tensor) else row for row in rows]
    try:
        return np.asarray(rows)
    except ValueError as error:
        lengths = [len(row) if hasattr(row, "__len__") else 0 for row in rows]
        wrong = next((row for row, length in enumerate(lengths) if length != lengths[0]), 0)
        raise InputError(
            f"X[{wrong}] has {lengths[wrong]} features, but X[0] has {lengths[0]}: every row needs the same."
        ) from error


def _check_image(item: Any, row: int) -> None:
    """Refuse what is not an image, without decoding one.

    Raises:
        InputError: It has another type, shape or type of numbers.
    """
    if isinstance(item, Image.Image):
        return
    axis, dtype = (0, torch.uint8) if isinstance(item, torch.Tensor) else (2, np.uint8)
    if getattr(item, "ndim", 0) != 3 or item.dtype != dtype or item.shape[axis] != 3 or 0 in item.shape:
        raise InputError(f"X[{row}] is {described(item)}; {_IMAGE}.")


def _image(item: Any, row: int) -> Image.Image:
    """A PIL image of what the user passed as an image."""
    _check_image(item, row)
    if isinstance(item, Image.Image):
        return item
    if isinstance(item, torch.Tensor):
        item = as_numpy(item).transpose(1, 2, 0)
    return Image.fromarray(np.ascontiguousarray(item))


def _paths(items: Sequence[Any], config: DataConfig) -> Content:
    root = images_folder(config) or Path()
    first: dict[str, int] = {}
    files: list[ImageSource] = []
    for row, item in enumerate(items):
        if not isinstance(item, (str, Path)):
            raise InputError(f"X[{row}] is {described(item)}, but X[0] is a path: give one kind of samples.")
        name = str(item)
        if first.setdefault(name, row) != row:
            raise InputError(
                f"X[{row}] and X[{first[name]}] are both {quote(name)}: name an image once, with all labels."
            )
        files.append(root / name)
    missing = [row for row, file in enumerate(files) if not Path(str(file)).is_file()]
    if missing and (config.missing == "stop" or len(missing) == len(files)):
        others = first_few([quote(str(items[row])) for row in missing], 3)
        count = (
            f" ({len(missing):,} of {len(files):,} files are missing: {others})" if len(missing) > 1 else ""
        )
        raise InputError(
            f"X[{missing[0]}]: there is no file {quote(str(files[missing[0]]))}{count}. Add it, leave it "
            "out, or name the folder of the images: data={'images': FOLDER}."
        )
    return Content(tuple(Path(item).as_posix() for item in items), tuple(files))
