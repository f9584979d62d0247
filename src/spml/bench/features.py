"""Features on disk, written once for all workers, which gather rows from a memory map that they share."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..common.files import write_with
from ..data import Dataset
from ..data.matrix import FeatureMatrix

_ROWS = 4096

MAX_BYTES = 1 << 34
"""A larger set stays as it is (sparse)."""


def shared(data: Dataset, folder: Path) -> Dataset:
    """Keep the features of a data set as float32 in a folder; the first process to need them writes them.

    Files are named by their content, so that ways of hiding labels share them.

    Raises:
        SpmlError: The disk is full, or the file can't be written.
    """
    if data.kind != "feature":
        return data
    splits = {}
    for name, samples in data.splits.items():
        inputs = samples.inputs
        assert isinstance(inputs, FeatureMatrix)
        if 4 * len(inputs) * inputs.width > MAX_BYTES:
            return data
        path = folder / f"{inputs.fingerprint()[:32]}.npy"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            write_with(path, partial(_write, inputs))
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        splits[name] = replace(samples, inputs=FeatureMatrix(np.asarray(mapped)))
    return replace(data, splits=splits)


def _write(inputs: FeatureMatrix, stream: BinaryIO) -> None:
    shape = (len(inputs), inputs.width)
    header: dict[str, Any] = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    for start in range(0, shape[0], _ROWS):
        stream.write(inputs.dense(range(start, min(start + _ROWS, shape[0]))).tobytes())
