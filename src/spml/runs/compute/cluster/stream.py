"""Batches computed by this process, or by the machines of a Ray cluster with Ray Data, in their order."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from ....common.errors import InputError, SpmlError, unexpected
from ....data import Inputs
from ....data.dataset import Loaded
from ....data.images.image_files import FilePart, ImageFiles
from ....engine.loader import NO_KEYS, Batches, Keys, load_batches
from ....engine.predict import autocast_to, compute
from .connection import connected
from .samples import portable
from .work import Job, versions, work_on

_SAMPLES = 1024
"""Samples of a task, which is lost if its machine is: more would be computed again, fewer cost time each."""

_MOST_TASKS = 10_000
_PER_SLOT = 4
"""Least tasks for each place in the cluster that computes one at a time, so that none is idle at the end."""

_MOST_DECODERS = 8


def compute_batches(
    network: nn.Module,
    inputs: Inputs,
    batches: Batches,
    *,
    cluster: str | None,
    device: torch.device,
    workers: int = -1,
    known: Keys = NO_KEYS,
    choose: Callable[[Loaded], Sequence[int]] | None = None,
    half: torch.dtype | None = None,
    report: Callable[[str], None] = lambda line: None,
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
        report: Callback for messages.

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
    with connected(cluster, report) as ray:
        cores = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        cpus = job.threads
        if gpus:
            decoders = _decoders(workers, cores)
            job, cpus = job._replace(decoders=decoders), max(decoders, 1)
        slots = _slots(cores, cpus, gpus)
        for number, computed in enumerate(_results(ray, job, slots, cpus, gpus)):
            _check_same_files(inputs, batches[number], computed)
            yield computed


def tasks_of(batches: Batches, slots: int) -> int:
    """Number of tasks that batches are divided into, for a number of places that compute one at a time."""
    per_task = max(1, _SAMPLES // batches.size)
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
                    yield result.computed()
        except ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1]
            raise SpmlError(
                f"the Ray cluster failed ({reason}). Every machine needs the same packages. If one "
                "was lost, run the same command again."
            ) from error
    if expected != len(job.batches):
        raise SpmlError(f"Ray returned {expected} of {len(job.batches)} batches. Run the same command again.")


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
        for number, computed in zip(numbers, work_on(_job[1], numbers), strict=True):
            yield _table(_Result.of(number, computed))
    except Exception as error:
        # As a row it comes after the batches before it, as in one process; and Ray adds no traceback to it.
        text, code = (str(error), error.exit_code) if isinstance(error, SpmlError) else (unexpected(error), 1)
        yield _table(_Result(error=text, code=code))


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
    def of(cls, number: int, computed: Loaded) -> _Result:
        values, identities = computed.values.numpy(), computed.identities.tobytes()
        more = computed.rows, identities, computed.unreadable, computed.machine
        return cls(number, values.shape, values.tobytes(), *more)

    def computed(self) -> Loaded:
        values = torch.from_numpy(np.frombuffer(self.values, np.float32).reshape(self.shape).copy())
        identities = np.frombuffer(self.identities, np.uint8).reshape(-1, 32)
        return Loaded(values, self.rows, identities, self.unreadable, self.machine)


def _table(result: _Result) -> Any:
    """Table of Arrow with one row, whose bytes may be of any size."""
    import pyarrow

    content = msgspec.msgpack.encode(result)
    return pyarrow.table({"result": pyarrow.array([content], pyarrow.large_binary())})


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
