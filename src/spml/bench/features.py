"""Features on disk, once for all workers: rows are gathered from a memory map that they share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from ..data import Dataset
from ..data.matrix import FeatureMatrix
from ..files import write_with

_ROWS = 4096
LARGEST = 1 << 34  # bytes; a wider set stays as it is (sparse)


def shared(data: Dataset, folder: Path) -> Dataset:
    """The same data with its features in float32 in `folder`, written by whichever process comes first.

    Files are named by what they hold, so ways of hiding labels share them.

    Raises:
        SpmlError: the disk is full, or the file can't be written.
    """
    if data.kind != "feature":
        return data
    splits = {}
    for name, samples in data.splits.items():
        inputs = samples.inputs
        assert isinstance(inputs, FeatureMatrix)
        if 4 * len(inputs) * inputs.width > LARGEST:
            return data
        path = folder / f"{inputs.fingerprint()[:32]}.npy"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            write_with(path, _Writer(inputs).write)
        mapped = np.load(path, mmap_mode="r")
        splits[name] = replace(samples, inputs=FeatureMatrix(np.asarray(mapped)))
    return replace(data, splits=splits)


class _Writer:
    def __init__(self, inputs: FeatureMatrix) -> None:
        self.inputs = inputs

    def write(self, stream: object) -> None:
        shape = (len(self.inputs), self.inputs.width)
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(stream, header)  # type: ignore[arg-type]
        for start in range(0, shape[0], _ROWS):
            rows = range(start, min(start + _ROWS, shape[0]))
            stream.write(self.inputs.dense(rows).tobytes())  # type: ignore[attr-defined]
