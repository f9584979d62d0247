"""Records to be written, and the comparison with what is read back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, settings
from scipy.sparse import csr_matrix

from spml.data.matrix import FeatureMatrix
from spml.data.records import Records
from spml.data.writers import Inferred
from spml.labels import ObservedLabels

FILES = ("a.png", "b c.png", "sub/ä,ö;ü.png", 'sub/"d".png', "sub/deep/e+f%20.png", "1")
OUTPUTS = {
    "csv": "out.csv", "coco": "out.json", "labelstudio": "out.json", "nan": "out.npz",
}  # fmt: skip
CLASSES = ("cat", "d;o:g", "fox")
MATRIX = np.array([[1, 0, 0], [0, -1, 1], [0, 0, 0]])
# Of (a, cat), given, (b, d;o:g), a known negative, and (b, cat), (c, d;o:g), (c, fox), which are free.
GUESSED = Inferred(
    np.array([0, 1, 1, 2, 2]),
    np.array([0, 0, 1, 1, 2]),
    np.array([-1, 1, 1, 1, -1], np.int8),
    np.array([0.1, 0.75, 0.9, np.nan, np.nan]),
)


relaxed = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def image_records(
    folder: Path, matrix: object, classes: object, split: tuple[str, ...] | None = None
) -> Records:
    """Records of the first images of the folder."""
    names = FILES[: len(matrix)]
    return Records(
        source="source",
        name="set",
        ids=names,
        inputs=tuple(folder / name for name in names),
        classes=tuple(classes),
        classes_given=True,
        labels=ObservedLabels.from_ternary(matrix),
        split=split,
    )


def feature_records(
    matrix: object, classes: object, split: tuple[str, ...] | None = None, sparse: bool = False
) -> Records:
    """Records of feature vectors that differ from row to row."""
    inputs = np.arange(len(matrix) * 6, dtype=np.float32).reshape(-1, 6) % 7
    if sparse:
        inputs[:, 1:] = 0
    return Records(
        source="source",
        name="set",
        ids=tuple(f"row {row}" for row in range(len(matrix))),
        inputs=FeatureMatrix(csr_matrix(inputs) if sparse else inputs),
        classes=tuple(classes),
        classes_given=True,
        labels=ObservedLabels.from_ternary(matrix),
        split=split,
    )


def assert_same(records: Records, expected: Records) -> None:
    """Same classes, samples, splits and labels; samples may be in another order."""
    assert records.classes == expected.classes
    assert _by_sample(records) == _by_sample(expected)
    if not isinstance(expected.inputs, Sequence):
        assert records.inputs.fingerprint() == expected.inputs.fingerprint()


def _by_sample(records: Records) -> dict[str, tuple[list[int], str | None]]:
    """Labels and split of each sample, by its file or name."""
    keys = records.ids
    if isinstance(records.inputs, Sequence):
        keys = [os.path.realpath(path) for path in records.inputs]
    rows = records.labels.to_ternary().tolist()
    split = records.split or [None] * len(rows)
    assert len(set(keys)) == len(rows)
    return {key: (row, part) for key, row, part in zip(keys, rows, split, strict=True)}
