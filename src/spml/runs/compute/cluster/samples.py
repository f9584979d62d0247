"""Samples in a form that other machines can open: by path where they lie in files, otherwise whole."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ....common.errors import InputError
from ....data import Inputs
from ....data.files.names import FilesBelow
from ....data.images.image_files import FilePart, ImageFiles, MemoryImage
from ....data.matrix import FeatureMatrix, FeatureParts


def portable(inputs: Inputs) -> Inputs:
    """The same samples for other machines.

    Images are opened by their absolute paths, and so are features that are mapped into memory. Other arrays
    are sent.

    Raises:
        InputError: Images are in memory.
    """
    if isinstance(inputs, (FeatureMatrix, FeatureParts)):
        return inputs.converted(by_path)
    if not isinstance(inputs, ImageFiles):
        return inputs
    if isinstance(inputs.paths, FilesBelow):
        files = FilesBelow(Path(os.path.abspath(inputs.paths.root)), inputs.paths.names)
        return replace(inputs, paths=files)
    paths: list[FilePart | str] = []
    for source in inputs.paths:
        if isinstance(source, MemoryImage):
            raise InputError(
                f"{source}: is an image in memory, which other machines can't read. Save the images to a "
                "folder that all machines share, or pass one array of them."
            )
        if isinstance(source, FilePart):
            paths.append(source._replace(file=os.path.abspath(source.file)))
        else:
            paths.append(os.path.abspath(source))
    return replace(inputs, paths=paths)


class MappedFile:
    """An array (N, D) in a file, mapped into memory by the process that reads rows of it.

    Args:
        path: The file.
        dtype: Type of the numbers.
        shape: (N, D).
        offset: Where the array starts, in bytes.
    """

    def __init__(self, path: str, dtype: np.dtype[Any], shape: tuple[int, ...], offset: int) -> None:
        self.path, self.shape, self.dtype, self._offset = path, shape, dtype, offset
        self._array: npt.NDArray[Any] | None = None

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> npt.NDArray[Any]:
        """Some rows, copied.

        Raises:
            InputError: The file is missing on this machine, or smaller.
        """
        if self._array is None:
            try:
                mapped = np.memmap(self.path, self.dtype, "r", self._offset, self.shape)
            except (OSError, ValueError) as error:
                raise InputError(
                    f"{self.path}: can't be read on the machine {socket.gethostname()} of the cluster "
                    f"({error}). Every machine needs the features at the same path, in a shared folder."
                ) from error
            self._array = np.asarray(mapped)
        return np.asarray(self._array[rows])


def by_path(array: npt.NDArray[Any]) -> Any:
    """An array by the path of its file, if it is mapped into memory from one; otherwise itself."""
    mapped = array
    while isinstance(mapped.base, np.ndarray):  # views of a memory map state its offset, not their own
        mapped = mapped.base
    same = (mapped.shape, mapped.dtype) == (array.shape, array.dtype)
    if not isinstance(mapped, np.memmap) or not mapped.filename or not same or not array.flags.c_contiguous:
        return array
    return MappedFile(os.path.abspath(mapped.filename), mapped.dtype, mapped.shape, mapped.offset)
