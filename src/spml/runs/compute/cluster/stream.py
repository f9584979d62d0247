"""Batches computed by the machines of a Ray cluster with Ray Data, in their order."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from ....common.errors import InputError, SpmlError
from ....data import Inputs
from ....data.images.cache import Compute
from ....data.images.image_files import FilePart, ImageFiles
from .connection import connected
from .samples import portable
from .work import Batches, Computed, Job, Worker, describe_error, versions

_SAMPLES = 1024
"""Samples of a task, which is lost if its machine is: more would be computed again, fewer cost time each."""

_MOST_TASKS = 10_000
_PER_SLOT = 4
"""Least tasks for each place in the cluster that computes one at a time, so that none is idle at the end."""

_MOST_DECODERS = 8


def compute_batches(
    model: nn.Module,
    output: Literal["logits", "features"],
    inputs: Inputs,
    batches: Batches,
    *,
    address: str,
    device: torch.device,
    workers: int = -1,
    known: npt.NDArray[np.uint64] | None = None,
    half: torch.dtype | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> Iterator[Computed]:
    """Compute the features or logits of batches on a cluster, in the order of the batches.

    Each batch is computed as a whole, with as many threads as this process uses and on the same kind of
    device, so that the numbers are those of this process. Memory does not grow with the number of batches.
    What a lost machine had not handed over is computed again by others.

    Args:
        model: Classifier, or its backbone.
        output: What is computed: `logits` of the classifier, or `features` of the backbone.
        inputs: Samples.
        batches: Rows of the samples, batch by batch.
        address: Address of the cluster; empty = start Ray on this machine.
        device: Device of this process.
        workers: Threads that decode images for a GPU; -1 = the share of the cores that belongs to it. On CPU,
            the process that computes decodes, too.
        known: Sorted first 8 bytes of the identities of images whose features are not needed.
        half: Type of autocast; None = float32.
        report: Callback for messages.

    Raises:
        InputError: Ray is not installed, there is no cluster, no machine of it has enough cores or a GPU,
            has other versions, or lacks files that this machine has; or images are in memory.
        SpmlError: The cluster failed.
    """
    if not len(batches):
        return
    gpus = int(device.type == "cuda")
    job = Job(
        copy.deepcopy(model).cpu() if device.type != "cpu" else model,
        output,
        portable(inputs),
        batches,
        device.type,
        torch.get_num_threads(),
        known=np.empty(0, np.uint64) if known is None else known,
        half=half,
        versions=versions(),
    )
    with connected(address, report) as ray:
        cores = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        cpus = job.threads
        if gpus:
            decoders = _decoders(workers, cores)
            job, cpus = job._replace(decoders=decoders), max(decoders, 1)
        slots = _slots(cores, cpus, gpus)
        for number, computed in enumerate(_results(ray, job, slots, cpus, gpus)):
            _check_same_files(inputs, batches[number], computed)
            yield computed


def features_computed_by(cluster: str | None, report: Callable[[str], None]) -> Compute | None:
    """What computes features of a frozen backbone for `cached_features`; None = this process.

    Args:
        cluster: Address of a Ray cluster; empty = start Ray on this machine; None = this process computes.
        report: Callback for messages.
    """
    if cluster is None:
        return None

    def compute(
        backbone: nn.Module, inputs: Inputs, rows: Sequence[int], size: int, half: torch.dtype | None
    ) -> Iterator[tuple[Sequence[int], npt.NDArray[np.float32]]]:
        # A network of the user's own may have no parameters, but its mean and deviation are buffers.
        device = next(chain(backbone.parameters(), backbone.buffers())).device
        batches = Batches(rows, size)
        results = compute_batches(
            backbone, "features", inputs, batches, address=cluster, device=device, half=half, report=report
        )
        for batch, computed in zip(batches, results, strict=True):
            if len(computed.rows) < len(batch):
                inputs.fetch(batch, None)  # says what is wrong with the image
                raise SpmlError(f"{computed.machine}: {next(iter(computed.unreadable.values()))}")
            yield batch, computed.values

    return compute


def tasks_of(batches: Batches, slots: int) -> int:
    """Number of tasks that batches are divided into, for a number of places that compute one at a time."""
    per_task = max(1, _SAMPLES // batches.size)
    return min(max(-(-len(batches) // per_task), _PER_SLOT * slots), len(batches), _MOST_TASKS)


def _decoders(workers: int, machines: list[dict[str, float]]) -> int:
    """Threads that decode for a GPU."""
    shares = [each.get("CPU", 0) / each["GPU"] for each in machines if each.get("GPU", 0) >= 1]
    return min([_MOST_DECODERS, *map(int, shares)]) if workers < 0 else workers


def _slots(machines: list[dict[str, float]], cpus: int, gpus: int) -> int:
    """Number of tasks that a cluster computes at a time.

    Raises:
        InputError: It is 0, so that the first task would wait forever.
    """
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
            "per core" + (", or --device cpu." if gpus else ".")
        )
    return slots


def _results(ray: Any, job: Job, slots: int, cpus: int, gpus: int) -> Iterator[Computed]:
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
                for row in table.to_pylist():
                    if row["error"]:
                        raise (InputError if row["code"] == InputError.exit_code else SpmlError)(row["error"])
                    if row["number"] != expected:
                        raise SpmlError(f"Ray returned batch {row['number']} in place of batch {expected}")
                    expected += 1
                    yield _decode(row)
        except ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1]
            raise SpmlError(
                f"the Ray cluster failed ({reason}). Every machine needs the same packages. If one "
                "was lost, run the same command again."
            ) from error
    if expected != len(job.batches):
        raise SpmlError(f"Ray returned {expected} of {len(job.batches)} batches. Run the same command again.")


_worker: tuple[str, Worker] | None = None


def _compute_task(block: dict[str, npt.NDArray[np.int64]], reference: list[Any]) -> Iterator[Any]:
    """Compute the batches of a task, in a process of the cluster that keeps the model for the next task."""
    global _worker
    numbers = block["id"].tolist()
    try:
        key = reference[0].hex()
        if _worker is None or _worker[0] != key:
            import ray

            _worker = None  # the memory of an earlier job is free before that of this one is taken
            _worker = key, Worker(ray.get(reference[0]))
        for number, computed in zip(numbers, _worker[1].results(numbers), strict=True):
            yield _encode(number, computed)
    except Exception as error:
        # As a row it comes after the batches before it, as in one process; and Ray adds no traceback to it.
        nothing = Computed([], np.empty((0, 0), np.float32), np.empty((0, 32), np.uint8), {})
        yield _encode(-1, nothing, *describe_error(error))


def _encode(number: int, computed: Computed, error: str = "", code: int = 0) -> Any:
    """Table of Arrow with one row: the arrays are bytes, which may be of any size."""
    import pyarrow

    values, numbers = np.ascontiguousarray(computed.values), pyarrow.list_(pyarrow.int64())
    return pyarrow.table(
        {
            "number": pyarrow.array([number], pyarrow.int64()),
            "shape": pyarrow.array([values.shape], numbers),
            "values": pyarrow.array([values.tobytes()], pyarrow.large_binary()),
            "identities": pyarrow.array([computed.identities.tobytes()], pyarrow.large_binary()),
            "rows": pyarrow.array([computed.rows], numbers),
            "unreadable": pyarrow.array([list(computed.unreadable)], numbers),
            "reasons": pyarrow.array([list(computed.unreadable.values())], pyarrow.list_(pyarrow.string())),
            "machine": [computed.machine],
            "error": [error],
            "code": pyarrow.array([code], pyarrow.int64()),
        }
    )


def _decode(row: dict[str, Any]) -> Computed:
    values = np.frombuffer(row["values"], np.float32).reshape(row["shape"]).copy()
    identities = np.frombuffer(row["identities"], np.uint8).reshape(-1, 32)
    unreadable = dict(zip(row["unreadable"], row["reasons"], strict=True))
    return Computed(row["rows"], values, identities, unreadable, row["machine"])


def _check_same_files(inputs: Inputs, rows: Any, computed: Computed) -> None:
    """Refuse a batch in which an image can't be read on a machine of the cluster, but can be read here."""
    if not isinstance(inputs, ImageFiles):
        return
    for position, reason in computed.unreadable.items():
        source = inputs.paths[rows[position]]
        if reason.startswith("can't be read") and _is_readable(source):
            raise InputError(
                f"{source}: {reason} on the machine {computed.machine} of the cluster, but it can be read "
                "here. Every machine needs the images at the same paths, in a shared folder."
            )


def _is_readable(source: Any) -> bool:
    try:
        with Path(source.file if isinstance(source, FilePart) else source).open("rb") as stream:
            return bool(stream.read(1))
    except OSError:
        return False
