"""Data in memory, turned into the same records as data in files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import IterableDataset

from ..common.documents import class_name
from ..common.errors import InputError, nearest, quoted
from ..common.label_checks import as_array
from ..common.phrases import counted, first_few
from ..common.safe import quote
from ..config import DataConfig
from ..labels import ObservedLabels, Unlisted
from .files import images_folder
from .groups import group_names
from .images.image_files import ImageSource, MemoryImage
from .matrix import FeatureMatrix
from .names import RowNames
from .readers.features import feature_matrix, split_column
from .records import MEMORY, Records, label_entries
from .rename import read_as_stated
from .tables.cells import Column, Rules, label_cells
from .tables.columns import find_file, find_text
from .tables.formats import Block, Table
from .tables.names import listed_names, names_files
from .tables.rows import join_cells, read_rows
from .texts import Texts
from .values import read_labels, text

# -- tables of pandas ------------------------------------------------------------------------------------


def is_missing(value: object) -> bool:
    """Whether a value is None, NaN, or what pandas has for a missing value."""
    return (
        value is None
        or type(value).__name__ in ("NAType", "NaTType")
        or (isinstance(value, float) and value != value)
    )


def is_frame(value: object) -> bool:
    """Whether a value is a DataFrame of pandas."""
    return _is(value, "DataFrame")


def is_series(value: object) -> bool:
    """Whether a value is a Series, an Index or a Categorical of pandas."""
    return _is(value, "Series", "Index", "Categorical")


def _is(value: object, *names: str) -> bool:
    kinds = type(value).__mro__
    return any(each.__name__ in names and each.__module__.partition(".")[0] == "pandas" for each in kinds)


def listed(values: Any) -> Any:
    """A Series or an array of one dimension as a list, and a tensor as an array; other values as they are."""
    if isinstance(values, torch.Tensor):
        values = as_array(values)
    if is_series(values):
        return values.to_list() if hasattr(values, "to_list") else list(values)
    return values.tolist() if isinstance(values, np.ndarray) and values.ndim == 1 else values


def column_names(frame: Any) -> tuple[str, ...]:
    """Names of the columns as text."""
    return tuple(str(name).strip() for name in frame.columns)


def row_names(frame: Any) -> tuple[str, ...]:
    """Names of the rows, which must be distinct."""
    names = tuple(map(str, frame.index))
    name, count = Counter(names).most_common(1)[0] if names else ("", 0)
    if count > 1:
        raise InputError(
            f"X: its index has {quote(name)} {count} times, but names of samples must be distinct: call "
            "X.reset_index(drop=True)."
        )
    return names


def split_off(frame: Any, label: str, argument: str) -> tuple[Any, list[Any]]:
    """Separate a column, which `argument` names, from the others."""
    if label not in frame.columns:
        raise InputError(
            f"{argument}: there is no column {quote(label)}. {nearest(label, column_names(frame))}"
        )
    return frame.drop(columns=label), cells_of(frame, list(frame.columns).index(label))


def numbers(frame: Any, name: str, advice: str) -> npt.NDArray[np.float64]:
    """Content of a table whose columns all hold numbers; a missing value is NaN.

    A message on another column names the argument `name` and ends with `advice`.
    """
    for position, column in enumerate(column_names(frame)):
        dtype = frame.iloc[:, position].dtype
        if getattr(dtype, "kind", "O") in "biuf":
            continue
        for cell in cells_of(frame, position)[:1]:
            if isinstance(cell, list):
                dtype, advice = "lists", f"Pass them as an array, numpy.stack({name}[{column!r}])."
        raise InputError(f"{name}: the column {quote(column)} holds {dtype}, not numbers. {advice}")
    return np.asarray(frame.to_numpy(dtype=np.float64, na_value=np.nan))


def has_files(samples: Any, config: DataConfig) -> bool:
    """Whether samples are a table of which a column names image files, or holds texts, as in a CSV file."""
    return is_frame(samples) and bool(config.text or names_files(column_names(samples), config.file_column))


def as_table(frame: Any) -> tuple[Table, list[list[Any]]]:
    """A DataFrame as the readers of tables take it, and the cells of its columns, which the table shares."""
    names = column_names(frame)
    columns = [cells_of(frame, position) for position in range(len(names))]
    scalar = (k for k, cells in enumerate(columns) if not any(isinstance(cell, list) for cell in cells))

    def blocks(positions: Sequence[int]) -> Iterator[Block]:
        yield Block(range(len(frame)), [columns[k] for k in positions])

    return Table(Path(MEMORY), names, frozenset(scalar), blocks, counted=" (counted from 0)"), columns


def read_frame(frame: Any, config: DataConfig) -> Records:
    """Read a table of texts, or of image files, and labels by the rules for CSV files.

    Files are relative to `config.images` or to the working folder, or absolute.
    """
    table, columns = as_table(frame)
    if config.text:
        return read_rows(table, Path(), config)
    root = (images_folder(config) or Path()).absolute()
    file = find_file(table, config.file_column, root)
    paths = [name and os.path.normpath(root / name) for name in map(text, columns[file])]
    if all(Path(path).is_relative_to(root) for path in filter(None, paths)):
        return read_rows(table, root, config)
    columns[file] = paths
    top = Path(root.anchor)
    records = read_rows(table, top, config)
    return replace(records, ids=tuple((top / name).as_posix() for name in records.ids))


def cells_of(frame: Any, position: int) -> list[Any]:
    """Cells of a column; None where a value is missing, and lists instead of arrays."""
    column = frame.iloc[:, position].astype(object)
    column = column.where(column.notna(), None)
    several = (tuple, set, frozenset, np.ndarray)
    return [list(cell) if isinstance(cell, several) else cell for cell in column.to_list()]


def refuse_polars(name: str, value: Any) -> None:
    """Refuse a table or column of polars, with what to call."""
    if type(value).__module__.partition(".")[0] == "polars":
        raise InputError(
            f"{name} is {described(value)} of polars, which is not read: call {name}.to_pandas()."
        )


# -- samples ---------------------------------------------------------------------------------------------


SAMPLES = (
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
    refuse_polars("X", samples)
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
    channels = 1 if isinstance(samples, torch.Tensor) else 3  # axis of images that holds them
    if isinstance(samples, torch.Tensor):
        samples = as_array(samples)
    elif is_series(samples) or (isinstance(samples, np.ndarray) and samples.dtype.kind in "UO"):
        samples = listed(samples)
    if isinstance(samples, np.ndarray):
        if (samples.ndim == 2 and samples.dtype.kind in "biuf") or (
            samples.ndim == 3 and samples.dtype.kind == "f"  # integers may be grey images
        ):
            return _features(samples)
        if samples.ndim != 4 or samples.dtype != np.uint8 or samples.shape[channels] != 3:
            raise InputError(
                f"X has the shape {samples.shape} and the type {samples.dtype}. Features are numbers of the "
                f"shape (N, D), or of floating point of the shape (N, P, D) for P parts; {_IMAGE}."
            )
        samples = list(np.moveaxis(samples, channels, 3))
    if isinstance(samples, (list, tuple)):
        return _content(samples.__getitem__, len(samples), config)
    raise InputError(f"X is {described(samples)}; expected {SAMPLES}.")


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
        raise InputError(f"X is empty; expected {SAMPLES}.")
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
        raise InputError(f"X[0] is {described(first)}; expected {SAMPLES}.")
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


# -- labels ----------------------------------------------------------------------------------------------


LABELS = (
    "class names, alone or with separators, class indices, a list of names or of indices for each sample, or"
    " a matrix (N, C) of {0, 1}, {-1, 0, 1} or {0, 1, NaN} as a NumPy array, torch tensor, SciPy matrix or"
    " DataFrame"
)


class Labels(NamedTuple):
    """Labels as they were understood."""

    classes: tuple[str, ...]  # class names
    given: bool  # whether the classes were listed; if not, they are the names that occur
    observed: ObservedLabels  # labels of all samples
    notes: tuple[str, ...]  # how they were understood, one line each


def understand_labels(
    labels: Any,
    classes: Sequence[str] | None,
    known: Sequence[str],
    unlisted: Unlisted,
    rules: Rules | None = None,
) -> Labels:
    """Understand labels by their type, their shape and the type of the first one.

    Text is read by the `rules` for the cells of a table, so it may hold several names. Without `classes`, the
    names of indices and columns are those of the columns of a DataFrame, or `known`, the classes of the run
    that the data is for, or else 0, 1, 2 ...; and the classes of names are those that occur, sorted.
    """
    refuse_polars("y", labels)
    stated = _class_names(classes)
    if is_frame(labels) and len(column_names(labels)) == 1:
        labels = cells_of(labels, 0)
    elif is_frame(labels):
        stated = stated or _class_names(column_names(labels))
        labels = numbers(labels, "y", "It must have one column of numbers for each class.")
    labels = listed(labels)
    names = stated or tuple(known)  # of indices and columns
    if isinstance(labels, np.ndarray) and labels.ndim == 2 and labels.shape[1] == 1 and len(names) != 1:
        labels = labels[:, 0].tolist()  # as df[["label"]].to_numpy() gives it
    if hasattr(labels, "tocsr") or (isinstance(labels, np.ndarray) and labels.ndim == 2):
        return _from_array(labels.tocsr() if hasattr(labels, "tocsr") else labels, names, unlisted)
    if not isinstance(labels, (list, tuple)) or not labels:
        what = "empty" if isinstance(labels, (list, tuple)) else described(labels)
        raise InputError(f"y is {what}; expected {LABELS}.")
    entries = [_plain(label) for label in labels]
    first = next((entry for entry in entries if not is_missing(entry)), entries[0])
    if isinstance(first, np.ndarray):
        for row, entry in enumerate(entries):
            if getattr(entry, "shape", None) != first.shape:
                raise InputError(
                    f"y[{row}] is {described(entry)}, but y[0] is {described(entries[0])}: the rows of a "
                    "matrix need the same length."
                )
        return _from_array(np.stack(entries), names, unlisted)
    lists = isinstance(first, list)
    kind = _kind_of_labels(entries, lists=lists)
    if kind is int and lists:
        return _from_index_lists(entries, names, unlisted)
    if kind is int:
        return _from_array(np.asarray(entries), names or tuple(map(str, range(max(entries) + 1))), unlisted)
    rules = rules or Rules()
    return _from_names(entries, stated, unlisted, rules._replace(keep={*rules.keep, *(stated or known)}))


def _class_names(classes: Sequence[str] | None) -> tuple[str, ...]:
    """Class names that the user listed, checked to be distinct; empty if there are none."""
    given = () if classes is None else classes
    names = [given] if isinstance(given, str) else list(given)
    first: dict[str, int] = {}
    for position, name in enumerate(names):
        if not isinstance(name, str) or first.setdefault(name, position) != position:
            wrong = "occurs twice" if isinstance(name, str) else "is not text"
            raise InputError(f"classes[{position}]: {quoted(name)} {wrong}: give distinct names as text.")
    return tuple(class_name(name, f"classes[{position}]") for position, name in enumerate(names))


def _plain(label: Any) -> Any:
    """A label or a list of labels with the types of Python; an array of several numbers stays one."""
    if isinstance(label, torch.Tensor):
        label = as_array(label)
    if isinstance(label, (np.generic, np.ndarray)) and label.ndim == 0:
        label = label.item()
    if isinstance(label, float) and label.is_integer():
        return int(label)  # pandas makes numbers of a column with a missing one floats
    if isinstance(label, np.ndarray) and label.dtype.kind in "UO":
        label = label.tolist()
    if isinstance(label, (set, frozenset)):
        label = sorted(label, key=str)
    return [_plain(entry) for entry in label] if isinstance(label, (list, tuple)) else label


def _kind_of_labels(entries: Sequence[Any], *, lists: bool) -> type:
    """Check that labels, or those in lists, are all names or all indices. Returns `str` or `int`."""
    kind: type | None = None
    verb = "holds" if lists else "is"
    for row, entry in enumerate(entries):
        if lists != isinstance(entry, list) and not is_missing(entry):
            raise InputError(
                f"y[{row}] is {described(entry)}: give a list of labels for each sample, or a label for each."
            )
        for label in entry if isinstance(entry, list) else (entry,):
            if is_missing(label):
                raise InputError(
                    f"y[{row}] {verb} {label}, but every sample needs a label. Leave out samples without "
                    "one, or give a list of labels for each sample, which may be empty."
                )
            if type(label) not in (str, int):
                raise InputError(f"y[{row}] {verb} {described(label)}; expected {LABELS}.")
            kind = kind or type(label)
            if type(label) is not kind:
                others = "class names" if kind is str else "class indices"
                raise InputError(
                    f"y[{row}] {verb} {described(label)}, but others are {others}: labels are all names or "
                    "all indices."
                )
    return kind or str


def _from_array(array: Any, classes: tuple[str, ...], unlisted: Unlisted) -> Labels:
    observed, note = read_labels([(MEMORY, array)], classes, unlisted)
    return Labels(classes or tuple(map(str, range(observed.num_classes))), True, observed, (note,))


def _from_index_lists(rows: list[list[int]], classes: tuple[str, ...], unlisted: Unlisted) -> Labels:
    """Labels in lists of indices of classes; refuses lists that look like the rows of a matrix."""
    classes = classes or tuple(map(str, range(max(label for row in rows for label in row) + 1)))
    repeats = next((row for row, labels in enumerate(rows) if len({*labels}) < len(labels)), None)
    if repeats is not None or {len(labels) for labels in rows} == {len(classes)}:
        what = "every list has an index of each class"
        raise InputError(
            f"y: {what if repeats is None else f'y[{repeats}] repeats a class index'}, as if it were the row "
            "of a matrix: lists hold the indices of the labels of a sample. Pass a matrix as an array: "
            "numpy.array(y)."
        )
    for row, labels in enumerate(rows):
        for index in labels:
            if not 0 <= index < len(classes):
                raise InputError(f"y[{row}]: class index {index} is outside 0 ... {len(classes) - 1}.")
    names = ([classes[index] for index in labels] for labels in rows)
    observed = ObservedLabels.from_names(names, classes, unlisted=unlisted)
    return Labels(classes, True, observed, ("y holds lists of class indices.",))


def _from_names(
    entries: Sequence[str | list[str]], stated: tuple[str, ...], unlisted: Unlisted, rules: Rules
) -> Labels:
    """Labels in text or in lists of text."""
    cells = Column(entries)
    found = label_cells(cells, "y: labels", lambda row: f"y[{row}]", rules)
    classes = stated or found.classes
    if not classes:
        raise InputError("y: no sample has a label. At least some must have one.")
    for row in found.unread.tolist():
        raise InputError(f"y[{row}]: {found.notes[-1]} Correct it, or leave the sample out.")
    known = {*classes}
    for code, names in enumerate(found.names):
        for name in names:
            if name not in known:
                raise InputError(
                    f"y[{cells.first[code]}]: {quote(name)} is not one of the {len(classes)} classes. "
                    f"{nearest(name, classes)}"
                )
    observed = label_entries(
        found.entries(classes),
        (len(entries), len(classes)),
        unlisted,
        negative=found.entries(classes, found.absent),
        unknown=found.entries(classes, found.doubtful),
    )
    return Labels(classes, bool(stated), observed, ("y holds class names.", *found.notes))


# -- records ---------------------------------------------------------------------------------------------


def read_memory(
    samples: Any,
    labels: Any,
    config: DataConfig,
    *,
    classes: Sequence[str] | None = None,
    known: Sequence[str] = (),
    split: Sequence[str] | None = None,
    groups: Sequence[Any] | None = None,
) -> Records:
    """Understand labelled samples.

    Args:
        samples: Samples; see `SAMPLES`. Without `labels`, a DataFrame with a column of files
            or, as `config.text` says, of texts; or a data set of PyTorch.
        labels: Labels; see `LABELS`. For a DataFrame, also the name of a column.
        config: Settings of the data.
        classes: Class names, in the order of indices and columns.
        known: Classes of the run that the data is for; empty if there is none.
        split: `train`, `val` or `test` for each sample; None = that of `config.split_column`, if it is set.
        groups: Group of each sample, as text or numbers; None = that of the column `config.group`, if it is
            set.

    Raises:
        InputError: Samples, labels or the split are of another type, or do not go together.
    """
    if labels is None and has_files(samples, config):
        if groups is not None:
            raise InputError("groups of a DataFrame of image files are a column: pass data={'group': NAME}.")
        if classes is not None:
            raise InputError(
                "classes has no effect on a DataFrame of image files, whose labels are names: leave it out."
            )
        return read_as_stated(partial(read_frame, samples), config)
    if labels is None and is_dataset(samples):
        labels, own = _labels_of(samples)
        classes = own if classes is None else classes
    if isinstance(labels, str) and is_frame(samples):
        samples, labels = split_off(samples, labels, "y")
    columns: dict[str, Any] = {"split": split, "groups": groups}
    for setting, argument in (("split_column", "split"), ("group", "groups")):
        if name := getattr(config, setting):
            if columns[argument] is not None or not is_frame(samples):
                raise InputError(
                    f"data.{setting} names a column of a DataFrame X: pass the {argument} of arrays as "
                    f"{argument}."
                )
            samples, columns[argument] = split_off(samples, name, f"data.{setting}")
    of_pandas = is_frame(samples) and hasattr(labels, "iloc")
    if of_pandas and len(samples) == len(labels) and not samples.index.equals(labels.index):
        raise InputError(
            "ambiguous: X and y have different indexes. Pass y.loc[X.index], or y.to_numpy() if their rows "
            "are in the same order."
        )
    ids, inputs = read_samples(samples, config)
    if isinstance(inputs, Texts) and (empty := [row for row, each in enumerate(inputs) if not each.strip()]):
        texts = counted(len(empty), "text is", "texts are")
        raise InputError(
            f"X: {texts} empty, such as that of {quote(ids[empty[0]])}. Leave them out, with their labels."
        )
    if labels is None:
        raise InputError(
            "y is missing: pass the labels of the samples. Only a torch Dataset of (image, label) and a "
            f"DataFrame of image files and labels hold them already. Labels are {LABELS}."
        )
    count = len(ids)
    if config.split == "ignore":
        columns["split"] = None
    for argument, column in columns.items():
        if column is not None and len(column) != count:
            entries = counted(len(column), "entry", "entries")
            raise InputError(f"X has {counted(count, 'sample')}, but {argument} has {entries}.")
    parts = None if columns["split"] is None else split_column([*map(str, columns["split"])], MEMORY)
    names = None
    if columns["groups"] is not None:
        cells = [None if is_missing(name) else name for name in listed(columns["groups"])]
        for row, name in enumerate(cells):
            if not isinstance(name, (str, int, float, np.generic, type(None))):
                raise InputError(
                    f"groups[{row}] is {described(name)}: name the group of each sample by text or a number."
                )
        names = group_names(cells)

    def understand(config: DataConfig) -> Records:
        one_hot = tuple(listed_names(config.one_hot))
        rules = Rules(config.separator, keep=config.rename, marks=config.marks, one_hot=one_hot)
        understood = understand_labels(labels, classes, known, config.default_label, rules)
        if len(understood.observed) != count:
            number = counted(len(understood.observed), "label")
            raise InputError(f"X has {counted(count, 'sample')}, but y has {number}.")
        return Records(
            source=MEMORY,
            name="memory",
            ids=ids,
            inputs=inputs,
            classes=understood.classes,
            classes_given=understood.given,
            labels=understood.observed,
            split=parts,
            groups=names,
            notes=understood.notes,
        )

    return read_as_stated(understand, config, known if classes is None else ())


def _labels_of(dataset: Any) -> tuple[list[Any], Sequence[str] | None]:
    """Labels of a data set of PyTorch, and the class names that it has for indices."""
    labels = []
    for row in range(len(dataset)):  # images are loaded and dropped, one after another
        item = item_of(dataset, row)
        if not isinstance(item, (tuple, list)) or len(item) != 2:
            raise InputError(
                f"X[{row}]: the data set gives {described(item)} instead of (image, label). Pass the labels "
                "as y, or correct it."
            )
        labels.append(item[1])
    while not hasattr(dataset, "classes") and is_dataset(getattr(dataset, "dataset", None)):
        dataset = dataset.dataset  # of which the data set is a torch Subset
    names = getattr(dataset, "classes", None)
    has_names = isinstance(names, (list, tuple)) and labels and not isinstance(labels[0], str)
    return labels, names if has_names else None
