"""Connection to a Ray cluster, or to a Ray that is started on this machine."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from ....common.errors import InputError, missing_extra
from ....engine.signals import ended_by_signals


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
def connected(address: str | None, report: Callable[[str], None] = lambda line: None) -> Iterator[Any]:
    """Connect to a Ray cluster while the context lasts. Yields the module `ray`.

    A process that is connected already uses its connection, and keeps it.

    Args:
        address: Address of the cluster, as `ray.init` takes it; empty = start one on this machine; None =
            connect to none, because this process computes.
        report: Called with what Ray says about machines and tasks that were lost, a line each.

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
    _check_reachable(address)
    # Without an address, `ray.init` would still look for one in the environment.
    settings = {"address": address} if address else {"address": "local", "include_dashboard": False}
    with ExitStack() as stack:
        stack.enter_context(ended_by_signals())  # restores the handlers that Ray replaces
        try:
            stack.enter_context(_messages_to(report))
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would report to its makers otherwise
            stack.callback(ray.shutdown)
            ray.init(**settings, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise InputError(f"address={address}: there is no Ray cluster ({error}).") from error
        stack.enter_context(ended_by_signals())  # in place of Ray's own handler, which aborts the process
        yield ray


def _check_reachable(address: str) -> None:
    """Fail at once if there is no cluster; Ray itself would wait for minutes."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise InputError(f"address={address}: there is no Ray cluster ({error}).") from error


@contextmanager
def _messages_to(report: Callable[[str], None]) -> Iterator[None]:
    """Shorten what Ray prints on standard output, among results, to a line each that goes elsewhere."""
    from ray._private import worker

    name = "print_to_stdstream"
    before = getattr(worker, name, None)  # not part of Ray's interface: elsewhere, it prints as it likes

    def shorten(data: Any, *settings: Any, **more: Any) -> None:
        text = " ".join(" ".join(map(str, data.get("lines", ()))).split())
        report(f"Ray: {text[:200]}")

    if before is not None:
        setattr(worker, name, shorten)
    try:
        yield
    finally:
        if before is not None:
            setattr(worker, name, before)
