"""Data in memory, turned into the same records as data in files.

- `samples`: arrays, matrices, lists of paths or images, data sets of PyTorch
- `labels`: names, indices, lists of these, matrices
- `frames`: tables of pandas and polars
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from ...common.errors import InputError
from ...common.label_checks import as_array
from ...common.phrases import counted
from ...common.safe import quote
from ...config import DataConfig
from ..groups import group_names
from ..readers.features import split_column
from ..records import MEMORY, Records
from ..rename import read_as_stated
from ..tables.cells import Rules
from ..tables.names import listed_names
from ..texts import Texts
from .frames import has_files, is_frame, is_missing, read_frame, split_off
from .labels import ACCEPTED, understand_labels
from .samples import described, is_dataset, item_of, read_samples


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
        samples: Samples; see `samples.ACCEPTED`. Without `labels`, a DataFrame with a column of files
            or, as `config.text` says, of texts; or a data set of PyTorch.
        labels: Labels; see `labels.ACCEPTED`. For a DataFrame, also the name of a column.
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
    if config.checked_column:
        raise InputError(
            f"data.unlisted={config.unlisted!r} names a column of a DataFrame of image files: pass one "
            "alone, without y, or use unknown, negative or negative:CLASS,CLASS."
        )
    if labels is None and is_dataset(samples):
        labels, own = _labels_of(samples)
        classes = own if classes is None else classes
    if isinstance(labels, str) and is_frame(samples):
        samples, labels = split_off(samples, labels, "y")
    if config.split_column:
        if split is not None or not is_frame(samples):
            raise InputError(
                "data.split_column names a column of a DataFrame X: pass the split of arrays as split."
            )
        samples, split = split_off(samples, config.split_column, "data.split_column")
    if config.group:
        if groups is not None or not is_frame(samples):
            raise InputError(
                "data.group names a column of a DataFrame X: pass the groups of arrays as groups."
            )
        samples, groups = split_off(samples, config.group, "data.group")
    of_pandas = is_frame(samples) and hasattr(samples, "iloc") and hasattr(labels, "iloc")
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
            f"DataFrame of image files and labels hold them already. Labels are {ACCEPTED}."
        )
    count = len(ids)
    parts = None
    if split is not None and config.split != "ignore":
        if len(split) != count:
            entries = counted(len(split), "entry", "entries")
            raise InputError(f"X has {counted(count, 'sample')}, but the split has {entries}.")
        parts = split_column([*map(str, split)], MEMORY)
    names = None if groups is None else _read_groups(groups, count)

    def understand(config: DataConfig) -> Records:
        rules = Rules(
            config.separator, keep=config.rename, marks=config.marks, one_hot=(*listed_names(config.one_hot),)
        )
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


def _read_groups(groups: Any, count: int) -> tuple[str, ...]:
    if len(groups) != count:
        entries = counted(len(groups), "entry", "entries")
        raise InputError(f"X has {counted(count, 'sample')}, but groups has {entries}.")
    names = as_array(groups).tolist() if isinstance(groups, torch.Tensor) else list(groups)
    for row, name in enumerate(names):
        if is_missing(name):
            names[row] = None
        elif not isinstance(name, (str, int, float, np.generic)):
            raise InputError(
                f"groups[{row}] is {described(name)}: name the group of each sample by text or a number."
            )
    return group_names(names)


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
