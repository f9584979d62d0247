"""The work of a machine of the cluster: load batches of samples, and compute their features or logits."""

from __future__ import annotations

import platform
import socket
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import nn

from ....common.errors import InputError
from ....data import Inputs
from ....data.dataset import Loaded
from ....data.images.feature_store import first_of_each
from ....engine import find_device
from ....engine.loader import NO_KEYS, Batches, Keys, load_batches
from ....engine.predict import autocast_to, compute
from ....version import __version__


class Job(NamedTuple):
    """Everything that a machine needs to compute a batch as one process would.

    Attributes:
        network: Classifier, or its backbone, on CPU.
        inputs: Samples, as `portable` makes them.
        batches: All batches.
        device: Kind of device that computes, `cpu`, `cuda` or `mps`.
        threads: Threads of torch, on which sums of floating-point numbers may depend.
        decoders: Processes that decode images while the device computes; 0 = this process decodes.
        known: Images that are not computed, by their keys.
        distinct: Whether only the first of equal images in a batch is computed.
        half: Type of autocast; None = float32.
        versions: Versions that each machine must have.
    """

    network: nn.Module
    inputs: Inputs
    batches: Batches
    device: str
    threads: int
    decoders: int = 0
    known: Keys = NO_KEYS
    distinct: bool = False
    half: torch.dtype | None = None
    versions: str = ""


def versions() -> str:
    """Versions of what the numbers depend on."""
    return f"spml {__version__}, torch {torch.__version__}, Python {platform.python_version()}"


def work_on(job: Job, numbers: Sequence[int]) -> Iterator[Loaded]:
    """Compute batches of a job, given by their numbers, in a process of its own.

    Raises:
        InputError: This machine has other versions than the one that started the job, or no such device.
        SpmlError: A file of features is missing, or a sample can't be loaded.
    """
    machine, here = socket.gethostname(), versions()
    if here != job.versions:
        raise InputError(
            f"the machine {machine} of the cluster has {here}, but the command runs with {job.versions}. "
            "Install the same versions on all machines."
        )
    torch.set_num_threads(job.threads)
    device = find_device(job.device)
    rows = [job.batches[number] for number in numbers]
    loading = load_batches(job.inputs, rows, device, workers=job.decoders, known=job.known)
    for computed in compute(
        job.network.to(device),
        loading,
        device,
        autocast=autocast_to(job.half, device),
        choose=(lambda batch: first_of_each(batch.identities, batch.rows)) if job.distinct else None,
    ):
        yield computed._replace(values=computed.values.cpu(), machine=machine)
