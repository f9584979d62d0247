"""Pseudo-labels that the user made outside, for example with a vision-language model."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from .base import Facts

_FORM = (
    "Expected an .npz file with `ids` (strings, one per sample), `classes` (strings) and `labels`, integers "
    "of shape (samples, classes) with 1 = positive, -1 = negative, 0 = no pseudo-label."
)


def read_pseudo_labels(path: str, facts: Facts) -> Tensor:
    """The pseudo-labels of the training samples, in their order and that of the classes.

    Args:
        path: an .npz file with `ids`, `classes` and `labels`. It may hold further samples and classes.
        facts: of the training set.

    Returns:
        int8 (N, C) in {-1, 0, +1}.

    Raises:
        InputError: the file can't be read, has another form, or lacks a training sample or a class.
    """
    ids, classes, labels = _load(path)
    rows = _places(path, "ids", ids, facts.ids)
    columns = _places(path, "classes", classes, facts.classes)
    chosen = labels[np.ix_(rows, columns)]
    if not np.isin(chosen, (-1, 0, 1)).all():
        row, column = np.argwhere(~np.isin(chosen, (-1, 0, 1)))[0]
        raise InputError(
            f"{path}: labels: {chosen[row, column]} for sample {facts.ids[row]!r}, class "
            f"{facts.classes[column]!r}. {_FORM}"
        )
    return torch.from_numpy(chosen.astype(np.int8))


def _load(path: str) -> tuple[Any, Any, Any]:
    try:
        with np.load(path, allow_pickle=False) as file:
            ids, classes, labels = file["ids"], file["classes"], file["labels"]
    except (OSError, ValueError, EOFError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: no pseudo-labels could be read: {error}. {_FORM}") from error
    if ids.dtype.kind != "U" or classes.dtype.kind != "U" or ids.ndim != 1 or classes.ndim != 1:
        raise InputError(f"{path}: ids and classes are {ids.dtype} and {classes.dtype}. {_FORM}")
    if labels.dtype.kind not in "iu" or labels.shape != (len(ids), len(classes)):
        raise InputError(
            f"{path}: labels are {labels.dtype} {labels.shape}, with {len(ids)} ids and {len(classes)} "
            f"classes. {_FORM}"
        )
    return ids, classes, labels


def _places(path: str, key: str, listed: Any, wanted: Sequence[str]) -> list[int]:
    place = {name: number for number, name in enumerate(listed.tolist())}
    if len(place) < len(listed):
        raise InputError(f"{path}: {key} repeat a name; names must be distinct. {_FORM}")
    missing = [name for name in wanted if name not in place]
    if missing:
        raise InputError(
            f"{path}: {key} lack {len(missing)} of {len(wanted)} that the training data have, the first of "
            f"them {missing[0]!r}. Add them; a row of zeros says that nothing is known."
        )
    return [place[name] for name in wanted]
