"""NaN matrix: .npz file with labels 1, 0 and NaN (unknown), as scikit-learn users write missing labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..matrix import FeatureMatrix, chunks
from ..records import Records
from . import Files, register_writer
from .samples import Inferred, image_files, image_names

MAX_DENSITY = 1 / 3  # share of values that are not 0 up to which features are written as CSR


@register_writer("nan", "a NaN matrix", suffix=".npz", holds_groups=True)
def write_nan(records: Records, inferred: Inferred, output: Path) -> tuple[Files, tuple[str, ...]]:
    """Write `Y`, float32 (N, C) in {0, 1, NaN}, `names`, `classes`, perhaps `split` and `group`; features as
    `X` or CSR.

    Names of features, if the data has them, are in `feature_names`.

    Inferred labels are in `inferred` and `inferred_score`, both float32 (N, C), NaN where there is none.
    """
    arrays: dict[str, Any] = {"Y": records.labels.to_nan(), "classes": np.array(records.classes, "U")}
    names: Sequence[str] = records.ids
    notes: tuple[str, ...] = ()
    if image_files(records) is not None:
        names, notes = image_names(records, output.parent)
    elif isinstance(records.inputs, FeatureMatrix):
        arrays |= _feature_arrays(records.inputs)
        if records.feature_names:
            arrays["feature_names"] = np.array(records.feature_names, "U")
    else:
        notes = ("The images are not in files of their own, so only their names and labels are written.",)
    arrays["names"] = np.array(names, "U")
    if records.split is not None:
        arrays["split"] = np.array(records.split, "U")
    if records.groups is not None:
        arrays["group"] = np.array(records.groups, "U")
    if len(inferred.rows):
        for key, values in (("inferred", inferred.values == 1), ("inferred_score", inferred.scores)):
            arrays[key] = np.full((len(names), len(records.classes)), np.nan, np.float32)
            arrays[key][inferred.rows, inferred.columns] = values
    if records.labels.full:
        notes = (*notes, "Every label is known: read it with data.unlisted=negative.")
    return {output: lambda stream: np.savez_compressed(stream, **arrays)}, notes


def _feature_arrays(features: FeatureMatrix) -> dict[str, Any]:
    """The matrix, dense or as the arrays of a CSR matrix, whichever is smaller; all parts, if there are."""
    from scipy.sparse import csr_matrix, vstack

    if features.num_parts:
        return {"X": features.by_part().fetch(np.arange(len(features))).numpy()}
    blocks = [*chunks(len(features), features.width)]
    nonzero = sum(int(np.count_nonzero(features.dense(rows))) for rows in blocks)
    if nonzero > MAX_DENSITY * len(features) * features.width:
        return {"X": np.concatenate([features.dense(rows) for rows in blocks])}
    matrix = vstack([csr_matrix(features.dense(rows)) for rows in blocks], format="csr")
    arrays = {key: getattr(matrix, key) for key in ("data", "indices", "indptr")}
    return {**arrays, "shape": np.array(matrix.shape), "format": np.array("csr")}
