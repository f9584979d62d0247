"""Runs on a Ray cluster: every free core becomes a worker, and all share the store."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

from ..errors import InputError, SpmlError, missing_extra
from ..runs.console import Console
from .state import State
from .workers import Job, Problem, watch, work


def run_on_ray(job: Job, address: str, workers: int, console: Console) -> tuple[State, list[Problem]]:
    """Make all runs on a Ray cluster; gives where the comparison stands then, and what went wrong.

    The machines must all reach the store, the data and the output folder: on several machines that is a
    database server (`--store postgresql://...`) and a shared folder.

    Args:
        job: what is to be made.
        address: of the cluster, as `ray.init` takes it; empty = one is started on this machine.
        workers: how many; 0 = one per core of the cluster.
        console: told of progress.

    Raises:
        InputError: Ray is not installed, or there is no cluster at the address.
    """
    try:
        import ray
    except ImportError as error:
        raise missing_extra("ray", "ray") from error
    _check_reachable(address)
    try:
        ray.init(address=address or None, ignore_reinit_error=True, log_to_driver=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise InputError(f"--address {address}: there is no Ray cluster ({error}).") from error
    try:
        count = workers or int(ray.cluster_resources().get("CPU", 1))
        # A worker that dies is not started again by Ray: what it held is taken over by the others.
        remote = ray.remote(num_cpus=1, max_retries=0)(work)
        pending: list[Any] = [remote.remote(job) for _ in range(count)]
        started = list(pending)

        def alive() -> bool:
            nonlocal pending
            _, pending = ray.wait(pending, num_returns=len(pending), timeout=0) if pending else ([], [])
            return bool(pending)

        return watch(job, console, alive), list(_problems(ray, started))
    finally:
        ray.shutdown()


def _check_reachable(address: str) -> None:
    """Ray itself would wait for minutes for a cluster that is not there."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise InputError(f"--address {address}: there is no Ray cluster ({error}).") from error


def _problems(ray: Any, started: list[Any]) -> Iterator[Problem]:
    for one in started:
        try:
            yield from ray.get(one)
        except ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1]
            yield Problem(f"a worker ended before its time ({reason})", SpmlError.exit_code)
