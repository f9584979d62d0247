"""The work of a machine of the cluster: load batches of samples, and compute their features or logits."""

from __future__ import annotations

import platform
import socket
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from itertools import islice
from typing import Any, Literal, NamedTuple, overload

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from ....common.errors import InputError, SpmlError, unexpected
from ....data import Inputs
from ....data.images.image_files import ImageFiles, LoadedImages
from ....engine import make_fabric
from ....version import __version__


class Batches(Sequence[Sequence[int]]):
    """Rows of samples, cut into batches.

    Args:
        rows: Rows of all samples.
        size: Rows of a batch; the last one may have fewer.
    """

    def __init__(self, rows: Sequence[int], size: int) -> None:
        self.rows, self.size = rows, size

    def __len__(self) -> int:
        return -(-len(self.rows) // self.size)

    @overload
    def __getitem__(self, number: int) -> Sequence[int]: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Sequence[int]]: ...
    def __getitem__(self, number: int | slice) -> Any:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        if not 0 <= number < len(self):
            raise IndexError(number)
        return self.rows[number * self.size : (number + 1) * self.size]


class Job(NamedTuple):
    """What every machine needs in order to compute a batch as one process would.

    Attributes:
        model: Classifier, or its backbone, on CPU and in evaluation mode.
        output: What is computed: `logits` of the classifier, or `features` of the backbone.
        inputs: Samples, as `portable` makes them.
        batches: All batches.
        device: Kind of device that computes, `cpu`, `cuda` or `mps`.
        threads: Threads of torch, on which sums of floating-point numbers may depend.
        decoders: Threads that decode images while the device computes; 0 = none.
        known: Sorted first 8 bytes of the identities of images whose features are not needed.
        half: Type of autocast; None = float32.
        versions: Versions that each machine must have.
    """

    model: nn.Module
    output: Literal["logits", "features"]
    inputs: Inputs
    batches: Batches
    device: str
    threads: int
    decoders: int = 0
    known: npt.NDArray[np.uint64] = np.empty(0, np.uint64)
    half: torch.dtype | None = None
    versions: str = ""


class Computed(NamedTuple):
    """Result of a batch.

    Attributes:
        rows: Which samples of the batch the values belong to, as positions in it. Of images that are equal,
            features are computed once.
        values: Logits or features, float32 (len(rows), ...).
        identities: As in `LoadedImages`; empty for other samples.
        unreadable: Reason for each position in the batch whose image can't be used.
        machine: Name of the machine that computed it.
    """

    rows: list[int]
    values: npt.NDArray[np.float32]
    identities: npt.NDArray[np.uint8]
    unreadable: dict[int, str]
    machine: str = ""


def versions() -> str:
    """Versions of what the numbers depend on."""
    return f"spml {__version__}, torch {torch.__version__}, Python {platform.python_version()}"


class Worker:
    """Computes batches of a job, in a process of its own.

    Args:
        job: The job.

    Raises:
        InputError: This machine has other versions than the one that started the job, or no such device.
    """

    def __init__(self, job: Job) -> None:
        here = versions()
        if here != job.versions:
            raise InputError(
                f"the machine {socket.gethostname()} of the cluster has {here}, but the command runs with "
                f"{job.versions}. Install the same versions on all machines."
            )
        torch.set_num_threads(job.threads)
        self._job, self._device = job, make_fabric(job.device).device
        self._model = job.model.to(self._device).eval()

    def results(self, numbers: Sequence[int]) -> Iterator[Computed]:
        """Compute batches, given by their numbers.

        Raises:
            SpmlError: A file of features is missing, or a sample can't be loaded.
        """
        for loaded in self._load_all(numbers):
            yield self._compute(loaded)

    def _load_all(self, numbers: Sequence[int]) -> Iterator[LoadedImages | torch.Tensor]:
        ahead = self._job.decoders
        if not ahead:
            yield from map(self._load, numbers)
            return
        with ThreadPoolExecutor(ahead) as pool:
            left = iter(numbers)
            pending = deque(pool.submit(self._load, number) for number in islice(left, ahead))
            while pending:
                loaded = pending.popleft().result()
                pending.extend(pool.submit(self._load, number) for number in islice(left, 1))
                yield loaded

    def _load(self, number: int) -> LoadedImages | torch.Tensor:
        inputs, rows = self._job.inputs, self._job.batches[number]
        if isinstance(inputs, ImageFiles):
            return inputs.load(rows, self._job.known)
        return inputs.fetch(rows, None)

    @torch.inference_mode()
    def _compute(self, loaded: LoadedImages | torch.Tensor) -> Computed:
        machine = socket.gethostname()
        if not isinstance(loaded, LoadedImages):
            every = list(range(len(loaded)))
            return Computed(every, self._values(loaded), np.empty((0, 32), np.uint8), {}, machine)
        rows, pixels = loaded.rows, loaded.pixels
        if self._job.output == "features":
            first: dict[bytes, int] = {}
            for place, row in enumerate(rows):
                first.setdefault(loaded.identities[row].tobytes(), place)
            places = list(first.values())
            rows, pixels = [rows[place] for place in places], pixels[places]
        values = self._values(pixels) if rows else np.empty((0, 0), np.float32)
        return Computed(rows, values, loaded.identities, loaded.unreadable, machine)

    def _values(self, samples: torch.Tensor) -> npt.NDArray[np.float32]:
        half = self._job.half
        with torch.autocast(self._device.type, half) if half else nullcontext():
            output = self._model(samples.to(self._device))
        values = output.logits if self._job.output == "logits" else output
        array: npt.NDArray[np.float32] = values.float().cpu().numpy()
        return array


def describe_error(error: Exception) -> tuple[str, int]:
    """Message and exit code of an exception."""
    return (str(error), error.exit_code) if isinstance(error, SpmlError) else (unexpected(error), 1)
