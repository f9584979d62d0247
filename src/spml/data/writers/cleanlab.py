"""Arrays for cleanlab: given labels as class indices, and the scores of all classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...common.errors import InputError
from ...common.phrases import counted
from ...common.safe import quote
from ..records import Records
from . import Files, register_writer
from .samples import Inferred, image_files, image_names


@register_writer("cleanlab", "arrays for cleanlab", suffix=".npz", needs_scores=True)
def write_cleanlab(records: Records, inferred: Inferred, output: Path) -> tuple[Files, tuple[str, ...]]:
    """Write what `cleanlab.multilabel_classification.filter.find_label_issues` takes, without pickle.

    `labels` is there a list with the classes of each sample. Here, those of sample i are
    `label_columns[label_offsets[i] : label_offsets[i + 1]]`, int64 (M,) and (N + 1,). `pred_probs` is float32
    (N, C) in [0, 1]; `classes` and `ids` are the names of its columns and rows.
    """
    scores = inferred.all_scores
    if scores is None:
        scores = np.full((len(records.ids), len(records.classes)), np.nan, np.float32)
    missing = np.isnan(scores)
    if missing.any():
        rows = np.flatnonzero(missing.any(axis=1))
        column = int(np.argmax(missing[rows[0]]))
        raise InputError(
            f"{records.source}: cleanlab needs the score of every class for every sample, but "
            f"{counted(len(rows), 'sample lacks some', 'samples lack some')}, such as "
            f"{quote(records.ids[rows[0]])}: no score of {quote(records.classes[column])}. Pass "
            "`predictions` with the folder of a run, or with what `spml predict --scores all` wrote of all "
            "samples."
        )
    rows, columns = records.labels.entries(1)
    ids = records.ids if image_files(records) is None else image_names(records, output.parent)[0]
    arrays: dict[str, Any] = {
        "label_columns": columns,
        "label_offsets": np.searchsorted(rows, np.arange(len(ids) + 1)),
        "pred_probs": scores,
        "classes": np.array(records.classes, "U"),
        "ids": np.array(ids, "U"),
    }
    notes = []
    if not records.labels.full:
        notes.append("cleanlab treats every label that is not given as absent, the unknown ones included.")
    return {output: lambda stream: np.savez_compressed(stream, **arrays)}, tuple(notes)
