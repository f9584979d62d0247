"""Workers on a Ray cluster: one per free core, all of them sharing the store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..common.errors import SpmlError
from ..runs.compute.cluster.connection import connected
from ..runs.console import Console
from .state import State
from .workers import Job, Problem, watch, work


def run_on_ray(job: Job, address: str, workers: int, console: Console) -> tuple[State, list[Problem]]:
    """Make all runs on a Ray cluster.

    All machines must reach the store, the data and the output folder: with several machines, use a database
    server (`--store postgresql://...`) and a shared folder.

    Args:
        job: The comparison.
        address: Address of the cluster, as `ray.init` takes it; empty = start one on this machine.
        workers: Number of workers; 0 = one per core of the cluster.
        console: Console that shows progress.

    Returns:
        The state of the comparison afterwards, and the problems that occurred.

    Raises:
        InputError: Ray is not installed, or there is no cluster at the address.
    """
    with connected(address, console.line) as ray:
        count = workers or int(ray.cluster_resources().get("CPU", 1))
        # Ray does not restart a worker that dies: the other workers take over its series.
        remote = ray.remote(num_cpus=1, max_retries=0)(work)
        pending: list[Any] = [remote.remote(job) for _ in range(count)]
        started = list(pending)

        def alive() -> bool:
            nonlocal pending
            _, pending = ray.wait(pending, num_returns=len(pending), timeout=0) if pending else ([], [])
            return bool(pending)

        return watch(job, console, alive, count), list(_problems(ray, started))


def _problems(ray: Any, started: list[Any]) -> Iterator[Problem]:
    for task in started:
        try:
            yield from ray.get(task)
        except ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1]
            yield Problem(f"a worker ended early ({reason})", SpmlError.exit_code)
