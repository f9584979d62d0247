"""Batches computed by this process, or by the machines of a Ray cluster with Ray Data, in their order."""

from __future__ import annotations

import copy
import logging
import os
import platform
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from ...common.errors import InputError, SpmlError, missing_extra, unexpected
from ...common.messages import log
from ...data import Inputs
from ...data.dataset import Loaded
from ...data.files.names import FilesBelow
from ...data.images.feature_store import first_of_each
from ...data.images.image_files import FilePart, ImageFiles, MemoryImage
from ...data.matrix import FeatureMatrix, FeatureParts
from ...engine import find_device
from ...engine.loader import NO_KEYS, Batches, Keys, load_batches
from ...engine.predict import autocast_to, compute
from ...engine.signals import ended_by_signals
from ...version import __version__

_SAMPLES = 1024
"""Samples of a task, which is lost if its machine is: more would be computed again, fewer cost time each."""

_MOST_TASKS = 10_000
_PER_SLOT = 4
"""Least tasks for each place in the cluster that computes one at a time, so that none is idle at the end."""

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
    # Without an address, `ray.init` would still look for one in the environment.
    settings = {"address": address} if address else {"address": "local", "include_dashboard": False}
    with ExitStack() as stack:
        stack.enter_context(ended_by_signals())  # restores the handlers that Ray replaces
        try:
            stack.enter_context(_logged())
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would report to its makers otherwise
            stack.callback(ray.shutdown)
            ray.init(**settings, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise InputError(f"address={address}: there is no Ray cluster ({error}).") from error
        stack.enter_context(ended_by_signals())  # in place of Ray's own handler, which aborts the process
        yield ray


@contextmanager
def _logged() -> Iterator[None]:
    """Log what Ray prints on standard output, among results, shortened to a line each."""
    from ray._private import worker

    name = "print_to_stdstream"
    before = getattr(worker, name, None)  # not part of Ray's interface: elsewhere, it prints as it likes

    def shorten(data: Any, *settings: Any, **more: Any) -> None:
        log.info(f"Ray: {' '.join(' '.join(map(str, data.get('lines', ()))).split())[:200]}")

    if before is not None:
        setattr(worker, name, shorten)
    try:
        yield
    finally:
        if before is not None:
            setattr(worker, name, before)


# -- batches ---------------------------------------------------------------------------------------------


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
    batches: Batches | Sequence[Sequence[int]]
    device: str
    threads: int
    decoders: int = 0
    known: Keys = NO_KEYS
    distinct: bool = False
    half: torch.dtype | None = None
    versions: str = ""


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
        portable(inputs),
        batches,
        device.type,
        torch.get_num_threads(),
        known=known,
        distinct=choose is not None,
        half=half,
        versions=versions(),
    )
    with connected(cluster) as ray:
        machines, cpus = [node["Resources"] for node in ray.nodes() if node["Alive"]], job.threads
        if gpus:
            decoders = _decoders(workers, machines)
            job, cpus = job._replace(decoders=decoders), max(decoders, 1)
        for number, computed in enumerate(_results(ray, job, _slots(machines, cpus, gpus), cpus, gpus)):
            _check_same_files(inputs, batches[number], computed)
            yield computed


def tasks_of(batches: Batches | Sequence[Sequence[int]], slots: int) -> int:
    """Number of tasks that batches are divided into, for a number of places that compute one at a time."""
    per_task = max(1, _SAMPLES // len(batches[len(batches) // 2]))  # the first may have one sample only
    return min(max(-(-len(batches) // per_task), _PER_SLOT * slots), len(batches), _MOST_TASKS)


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


def _results(ray: Any, job: Job, slots: int, cpus: int, gpus: int) -> Iterator[Loaded]:
    """Results of all batches in their order."""
    import ray.data as ray_data

    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # it prints tracebacks of what is raised below
    context = ray_data.DataContext.get_current().copy()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    reference = ray.put(job)
    with ray_data.DataContext.current(context):
        # A task of Ray rather than an actor: it can run again on any machine, and needs no new actor first.
        numbers = ray_data.range(len(job.batches), override_num_blocks=tasks_of(job.batches, slots))
        tasks = numbers.map_batches(
            _compute_task,
            batch_size=None,
            batch_format="numpy",
            fn_kwargs={"reference": [reference]},
            num_cpus=cpus,
            num_gpus=gpus or None,
        )
        expected = 0
        try:
            for table in tasks.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=1):
                for content in table["result"].to_pylist():
                    result = msgspec.msgpack.decode(content, type=_Result)
                    if result.error:
                        raise (InputError if result.code == InputError.exit_code else SpmlError)(result.error)
                    if result.number != expected:
                        raise SpmlError(f"Ray returned batch {result.number} in place of batch {expected}")
                    expected += 1
                    yield result.batch()
        except ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1]
            raise SpmlError(
                f"the Ray cluster failed ({reason}). Every machine needs the same packages. If one "
                "was lost, run the same command again."
            ) from error
    if expected != len(job.batches):
        raise SpmlError(f"Ray returned {expected} of {len(job.batches)} batches. Run the same command again.")


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


class _Result(msgspec.Struct):
    """A computed batch on its way from a machine, or the error that ended a task."""

    number: int = -1
    shape: tuple[int, ...] = ()
    values: bytes = b""
    rows: list[int] = []
    identities: bytes = b""
    unreadable: dict[int, str] = {}
    machine: str = ""
    error: str = ""
    code: int = 0

    @classmethod
    def of(cls, number: int, batch: Loaded) -> _Result:
        values, identities = batch.values.numpy(), batch.identities.tobytes()
        more = batch.rows, identities, batch.unreadable, batch.machine
        return cls(number, values.shape, values.tobytes(), *more)

    def batch(self) -> Loaded:
        values = torch.from_numpy(np.frombuffer(self.values, np.float32).reshape(self.shape).copy())
        identities = np.frombuffer(self.identities, np.uint8).reshape(-1, 32)
        return Loaded(values, self.rows, identities, self.unreadable, self.machine)

    def table(self) -> Any:
        """Table of Arrow with one row, whose bytes may be of any size."""
        import pyarrow

        content = msgspec.msgpack.encode(self)
        return pyarrow.table({"result": pyarrow.array([content], pyarrow.large_binary())})


_job: tuple[str, Job] | None = None


def _compute_task(block: dict[str, npt.NDArray[np.int64]], reference: list[Any]) -> Iterator[Any]:
    """Compute the batches of a task, in a process of the cluster that keeps the model for the next task."""
    global _job
    numbers = block["id"].tolist()
    try:
        key = reference[0].hex()
        if _job is None or _job[0] != key:
            import ray

            _job = None  # the memory of an earlier job is free before that of this one is taken
            _job = key, ray.get(reference[0])
        for number, batch in zip(numbers, work_on(_job[1], numbers), strict=True):
            yield _Result.of(number, batch).table()
    except Exception as error:
        # As a row it comes after the batches before it, as in one process; and Ray adds no traceback to it.
        text, code = (str(error), error.exit_code) if isinstance(error, SpmlError) else (unexpected(error), 1)
        yield _Result(error=text, code=code).table()


def versions() -> str:
    """Versions of what the numbers depend on."""
    return f"spml {__version__}, torch {torch.__version__}, Python {platform.python_version()}"


def work_on(job: Job, numbers: Sequence[int]) -> Iterator[Loaded]:
    """Compute batches of a job, given by their numbers, in a process of its own.

    Raises:
        InputError: This machine has other versions than the one that started the job, or no such device.
        SpmlError: A file of features is missing, or a sample can't be loaded.
    """
    machine, own = socket.gethostname(), versions()
    if own != job.versions:
        raise InputError(
            f"the machine {machine} of the cluster has {own}, but the command runs with {job.versions}. "
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


# -- samples in a form that other machines can open ------------------------------------------------------


def portable(inputs: Inputs) -> Inputs:
    """The same samples for other machines: by path where they lie in files, otherwise whole.

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
