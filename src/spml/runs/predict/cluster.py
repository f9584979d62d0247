"""Batches computed by this process, or by the machines of a Ray cluster, in their order."""

from __future__ import annotations

import copy
import logging
import os
import platform
import socket
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from ...common.errors import InputError, SpmlError, missing_extra, unexpected
from ...common.messages import log
from ...common.signals import ended_by_signals
from ...data import Inputs
from ...data.dataset import Loaded
from ...data.images.feature_store import first_of_each
from ...data.images.image_files import NO_KEYS, FilePart, ImageFiles, MemoryImage
from ...data.names import FilesBelow
from ...engine import find_device
from ...engine.loader import Batches, Keys, load_batches
from ...engine.predict import autocast_to, compute
from ...version import __version__

_SAMPLES = 1024
"""Samples of a task, which is lost if its machine is: more would be computed again, fewer cost time each."""

_PER_SLOT = 4
"""Least tasks for each place in the cluster that computes one at a time, so that none is idle at the end."""

_AHEAD = 2  # tasks for each place that are started before their results are taken
_MOST_DECODERS = 8

# -- connection ------------------------------------------------------------------------------------------


def check_engine(engine: str, address: str) -> str | None:
    """Address of the cluster that computes, empty to start Ray on this machine; None = this process computes.

    Args:
        engine: `local` or `ray`.
        address: Address of a Ray cluster.

    Raises:
        InputError: The engine is unknown, or an address belongs to no cluster.
    """
    if engine not in ("local", "ray"):
        raise InputError(f"engine must be local or ray, got {engine!r}")
    if address and engine != "ray":
        raise InputError("`address` is the address of a Ray cluster: pass engine=ray as well.")
    return address if engine == "ray" else None


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Connect to a Ray cluster while the context lasts. Yields the module `ray`.

    A process that is connected already uses its connection, and keeps it. What Ray says about machines and
    tasks that were lost is logged, a line each.

    Args:
        address: Address of the cluster, as `ray.init` takes it; empty = start one on this machine; None =
            connect to none, because this process computes.

    Raises:
        InputError: Ray is not installed, or there is no cluster at the address.
    """
    if address is None:
        yield None
        return
    try:
        import ray
        from ray._private import worker
    except ImportError as error:
        raise missing_extra("ray", "ray") from error
    if ray.is_initialized():
        yield ray
        return
    host, _, port = address.rpartition(":")
    if host and "/" not in host and port.isdecimal():
        try:  # Ray itself would wait for minutes
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
        except (OSError, OverflowError) as error:
            raise InputError(f"address={address}: there is no Ray cluster ({error}).") from error

    def shorten(data: Any, **settings: Any) -> None:
        log.info(f"Ray: {' '.join(' '.join(map(str, data.get('lines', ()))).split())[:200]}")

    # Ray prints it on standard output, among results. This is no part of Ray's interface: another version
    # prints as it likes.
    worker.print_to_stdstream = shorten
    # Without an address, `ray.init` would still look for one in the environment.
    settings = {"address": address} if address else {"address": "local", "include_dashboard": False}
    with ExitStack() as stack:
        stack.enter_context(ended_by_signals())  # restores the handlers that Ray replaces
        try:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would report to its makers otherwise
            stack.callback(ray.shutdown)
            ray.init(**settings, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise InputError(f"address={address}: there is no Ray cluster ({error}).") from error
        stack.enter_context(ended_by_signals())  # in place of Ray's own handler, which aborts the process
        yield ray


# -- batches ---------------------------------------------------------------------------------------------


class Job(NamedTuple):
    """Everything that a machine needs to compute a batch as one process would.

    Attributes:
        network: Classifier, or its backbone, on CPU.
        files: Images, as `portable` makes them; None for other samples, which are sent with each task.
        device: Kind of device that computes, `cpu`, `cuda` or `mps`.
        threads: Threads of torch, on which sums of floating-point numbers may depend.
        versions: Versions that each machine must have.
        decoders: Processes that decode images while the device computes; 0 = this process decodes.
        known: Images that are not computed, by their keys.
        distinct: Whether only the first of equal images in a batch is computed.
        half: Type of autocast; None = float32.
    """

    network: nn.Module
    files: ImageFiles | None
    device: str
    threads: int
    versions: str
    decoders: int = 0
    known: Keys = NO_KEYS
    distinct: bool = False
    half: torch.dtype | None = None


def compute_batches(
    network: nn.Module,
    inputs: Inputs,
    batches: Batches | Sequence[Sequence[int]],
    *,
    cluster: str | None,
    device: torch.device,
    workers: int = -1,
    known: Keys = NO_KEYS,
    choose: Callable[[Loaded], Sequence[int]] | None = None,
    half: torch.dtype | None = None,
) -> Iterator[Loaded]:
    """Compute features or logits batch by batch, in this process or on a cluster.

    A cluster computes each batch as a whole, with as many threads as this process uses and on the same kind
    of device, so that the numbers are those of this process. Memory does not grow with the number of batches.
    What a lost machine had not handed over is computed again by others.

    Args:
        network: Classifier, or a backbone, on `device`.
        inputs: Samples.
        batches: Rows of the samples, batch by batch.
        cluster: Address of the cluster, empty to start Ray on this machine; None = this process computes.
        device: Device of this process.
        workers: Processes that decode images, as in `load_batches`. On a cluster, those of each GPU; -1 = the
            share of the cores that belongs to it. On CPU, the process that computes decodes.
        known: Images that need not be computed, by their keys.
        choose: Chooses the samples of a batch that are computed, as in `compute`. A cluster, which can't ask,
            computes the first of equal images in each batch.
        half: Type of autocast; None = float32.

    Raises:
        InputError: Ray is not installed, there is no cluster, no machine of it has enough cores or a GPU,
            has other versions, or lacks files that this machine has; or images are in memory.
        SpmlError: The cluster failed.
    """
    if cluster is None:
        loading = load_batches(inputs, batches, device, workers=workers, known=known)
        yield from compute(network, loading, device, autocast=autocast_to(half, device), choose=choose)
        return
    if not len(batches):
        return
    gpus = int(device.type == "cuda")
    job = Job(
        copy.deepcopy(network).cpu() if device.type != "cpu" else network,
        portable(inputs) if isinstance(inputs, ImageFiles) else None,
        device.type,
        torch.get_num_threads(),
        versions(),
        known=known,
        distinct=choose is not None,
        half=half,
    )
    with connected(cluster) as ray:
        machines, cpus = [node["Resources"] for node in ray.nodes() if node["Alive"]], job.threads
        if gpus:
            decoders = _decoders(workers, machines)
            job, cpus = job._replace(decoders=decoders), max(decoders, 1)
        slots = _slots(machines, cpus, gpus)
        # Closed before the connection is, so that tasks which nobody waits for are cancelled.
        with closing(_results(ray, job, inputs, batches, slots, cpus, gpus)) as results:
            for number, computed in enumerate(results):
                _check_same_files(inputs, batches[number], computed)
                yield computed


def batches_per_task(batches: Batches | Sequence[Sequence[int]], slots: int) -> int:
    """Number of batches of a task, for a number of places that compute one at a time."""
    size = len(batches[len(batches) // 2])  # the first may have one sample only
    return max(1, min(_SAMPLES // size, -(-len(batches) // (_PER_SLOT * slots))))


def _decoders(workers: int, machines: list[dict[str, float]]) -> int:
    """Processes that decode for a GPU."""
    shares = [each.get("CPU", 0) / each["GPU"] for each in machines if each.get("GPU", 0) >= 1]
    return min([_MOST_DECODERS, *map(int, shares)]) if workers < 0 else workers


def _slots(machines: list[dict[str, float]], cpus: int, gpus: int) -> int:
    """Number of tasks that a cluster computes at a time; with 0, the first one would wait forever."""
    slots = 0
    for each in machines:
        fitting = each.get("CPU", 0) // cpus
        slots += int(min(fitting, each.get("GPU", 0)) if gpus else fitting)
    if not slots:
        most = max((int(each.get("CPU", 0)) for each in machines), default=0)
        what = f"{cpus} cores and a GPU" if gpus else f"{cpus} cores"
        raise InputError(
            f"no machine of the Ray cluster has {what}; the largest offers {most}. A task takes as many as "
            "this process has threads, so that the numbers are the same: set OMP_NUM_THREADS=1 for one task "
            "per core" + (", or device=cpu." if gpus else ".")
        )
    return slots


def _results(
    ray: Any,
    job: Job,
    inputs: Inputs,
    batches: Batches | Sequence[Sequence[int]],
    slots: int,
    cpus: int,
    gpus: int,
) -> Generator[Loaded, None, None]:
    """Results of all batches in their order."""
    # A task of Ray rather than an actor: it can run again on any machine, and needs no new actor first.
    task, reference = ray.remote(num_cpus=cpus, num_gpus=gpus)(work_on), ray.put(job)
    size = batches_per_task(batches, slots)

    def start() -> Iterator[Any]:
        for first in range(0, len(batches), size):
            rows = [batches[number] for number in range(first, min(first + size, len(batches)))]
            values = None if job.files else [inputs.fetch(of_batch, None).numpy() for of_batch in rows]
            yield task.remote(reference, rows, values)

    started = start()
    pending = deque(islice(started, _AHEAD * slots))
    try:
        while pending:
            for result in ray.get(pending.popleft()):
                if isinstance(result, SpmlError):
                    raise result
                # Arrays that Ray hands over can't be written to.
                yield result._replace(values=torch.from_numpy(result.values.copy()))
            pending.extend(islice(started, 1))
    except ray.exceptions.RayError as error:
        reason = str(error).strip().splitlines()[-1]
        raise SpmlError(
            f"the Ray cluster failed ({reason}). Every machine needs the same packages. If one was lost, run "
            "the same command again."
        ) from error
    finally:
        for each in pending:
            ray.cancel(each)


def _check_same_files(inputs: Inputs, rows: Sequence[int], computed: Loaded) -> None:
    """Refuse a batch in which an image can't be read on a machine of the cluster, but can be read here."""
    for position, reason in computed.unreadable.items():
        assert isinstance(inputs, ImageFiles)
        source: Any = inputs.paths[rows[position]]
        if not reason.startswith("can't be read"):
            continue
        with suppress(OSError), open(source.file if isinstance(source, FilePart) else source, "rb") as stream:
            if stream.read(1):
                raise InputError(
                    f"{source}: {reason} on the machine {computed.machine} of the cluster, but it can be "
                    "read here. Every machine needs the images at the same paths, in a shared folder."
                )


# -- the work of a machine of the cluster ----------------------------------------------------------------


def versions() -> str:
    """Versions of what the numbers depend on."""
    return f"spml {__version__}, torch {torch.__version__}, Python {platform.python_version()}"


def work_on(job: Job, batches: Sequence[Sequence[int]], values: Sequence[Any] | None) -> list[Any]:
    """Compute some batches of a job, in a process of a machine.

    Args:
        job: The job.
        batches: Rows of each batch.
        values: Samples of each batch, arrays; None where they are images in files.

    Returns:
        What was computed of each batch, `Loaded` with an array in place of the tensor. An error takes the
        place of the batch in which it happened, and of those after it: Ray would add its traceback.
    """
    machine, own, results = socket.gethostname(), versions(), list[Any]()
    try:
        if own != job.versions:
            raise InputError(
                f"the machine {machine} of the cluster has {own}, but the command runs with {job.versions}. "
                "Install the same versions on all machines."
            )
        torch.set_num_threads(job.threads)
        device = find_device(job.device)
        if job.files is None:
            loading: Any = (
                Loaded(torch.from_numpy(each.copy()), list(range(len(each))), np.empty((0, 32), np.uint8), {})
                for each in values or ()
            )
        else:
            loading = load_batches(job.files, batches, device, workers=job.decoders, known=job.known)
        for computed in compute(
            job.network.to(device),
            loading,
            device,
            autocast=autocast_to(job.half, device),
            choose=(lambda batch: first_of_each(batch.identities, batch.rows)) if job.distinct else None,
        ):
            values_sent: Any = computed.values.cpu().numpy()
            results.append(computed._replace(values=values_sent, machine=machine))
    except Exception as error:
        results.append(error if isinstance(error, SpmlError) else SpmlError(unexpected(error)))
    return results


def portable(files: ImageFiles) -> ImageFiles:
    """The same images for other machines, which open them by their absolute paths.

    Raises:
        InputError: Images are in memory.
    """
    if isinstance(files.paths, FilesBelow):
        below = FilesBelow(Path(os.path.abspath(files.paths.root)), files.paths.names)
        return replace(files, paths=below)
    paths: list[FilePart | str] = []
    for source in files.paths:
        if isinstance(source, MemoryImage):
            raise InputError(
                f"{source}: is an image in memory, which other machines can't read. Save the images to a "
                "folder that all machines share, or pass one array of them."
            )
        if isinstance(source, FilePart):
            paths.append(source._replace(file=os.path.abspath(source.file)))
        else:
            paths.append(os.path.abspath(source))
    return replace(files, paths=paths)
