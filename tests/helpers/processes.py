"""`spml` in processes that need not import everything again: forks of one process that has.

Tests that start a dozen processes would spend most of their time on imports otherwise. Each fork is a process
of its own, which can be killed, and begins as every other one did.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from spml.cli.main import main

with suppress(ImportError):  # not on Windows
    import resource

_FORKS = "forkserver" in multiprocessing.get_all_start_methods()
_CONTEXT: Any = multiprocessing.get_context("forkserver" if _FORKS else "spawn")
_GET_CONTEXT = multiprocessing.get_context
if _FORKS:
    _CONTEXT.set_forkserver_preload(
        [
            *("spml.runs.train", "spml.runs.predict.batches", "spml.bench.runner"),
            *("spml.serve.app", "spml.review.app"),
            *("timm", "torch._dynamo", "matplotlib.pyplot", "optuna", "sqlalchemy"),
            "tests.helpers.training",  # which makes a fabric
        ]
    )


@contextmanager
def started(
    words: Sequence[str],
    said: Path,
    quick: bool = False,
    *,
    errors: Path | None = None,
    heeded: int = 0,
    ignored: int = 0,
    files: int = 0,
) -> Iterator[Any]:
    """A process of `multiprocessing` that runs a command; it and its own ones are killed in the end.

    Args:
        words: Words of the command, without `spml`.
        said: File for everything that it prints.
        quick: Whether the workers of a comparison are forks of that process.
        errors: File for what it prints on standard error; None = the same.
        heeded: Signal that it does not ignore even if the process that began the tests does; 0 = none.
        ignored: Signal that it ignores from its start; 0 = none.
        files: Files that it may open at once; 0 = as many as this process.
    """
    streams = str(said), str(errors or said)
    with _started(_run, [*words], streams, {**os.environ}, quick, heeded, ignored, files) as process:
        yield process


def finish(words: Sequence[str], said: Path, quick: bool = False) -> None:
    """Run a command in a process, which must succeed."""
    with started(words, said, quick) as process:
        process.join(300)
        assert process.exitcode == 0, said.read_text()


def finish_function(function: Callable[..., object], said: Path, *arguments: Any) -> None:
    """Call a function in a process, which must succeed, with a file for everything that it prints."""
    with _started(_call, function, str(said), arguments) as process:
        process.join(600)
        assert process.exitcode == 0, said.read_text()


def finish_all(function: Callable[..., object], *arguments: Any, processes: int) -> None:
    """Call a function in several processes at once, all of which must succeed."""
    with ExitStack() as stack:
        for process in [stack.enter_context(_started(function, *arguments)) for _ in range(processes)]:
            process.join(300)
            assert process.exitcode == 0


@contextmanager
def _started(function: Callable[..., object], *arguments: Any) -> Iterator[Any]:
    process = _CONTEXT.Process(target=_in_group, args=(function, *arguments))
    process.start()
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.join()


def _call(function: Callable[..., object], said: str, arguments: Sequence[Any]) -> None:
    _print_to(said, said)
    function(*arguments)


def _print_to(*streams: str) -> None:
    """Write standard output and standard error to files."""
    for name in streams:
        Path(name).write_bytes(b"")
    for number, name in enumerate(streams, 1):
        with open(name, "a") as stream:  # both may write to one file by turns
            os.dup2(stream.fileno(), number)


def _in_group(function: Callable[..., object], *arguments: Any) -> None:
    os.setsid()
    gc.freeze()  # a collection would copy all memory of the process that this one is a fork of
    multiprocessing.set_start_method(None, force=True)  # further processes start as they do by default
    function(*arguments)


def _run(
    words: list[str],
    streams: tuple[str, str],
    environment: dict[str, str],
    quick: bool,
    heeded: int,
    ignored: int,
    files: int,
) -> None:
    if heeded:
        signal.signal(heeded, signal.default_int_handler if heeded == signal.SIGINT else signal.SIG_DFL)
    if ignored:
        signal.signal(ignored, signal.SIG_IGN)
    _print_to(*streams)
    if files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    os.environ.clear()
    os.environ.update(environment)  # that of the test, not of the process that is forked
    tempfile.tempdir = None
    with pytest.MonkeyPatch.context() as patch:
        if quick and _FORKS:
            _replace_spawn(patch, _GET_CONTEXT("fork"))
        main(words)


def quick_workers(patch: pytest.MonkeyPatch) -> None:
    """Let the workers of a comparison in this process be forks that need not import everything, too."""
    _replace_spawn(patch, _CONTEXT)


def _replace_spawn(patch: pytest.MonkeyPatch, context: Any) -> None:
    patch.setattr(
        multiprocessing,
        "get_context",
        lambda method=None: context if method == "spawn" else _GET_CONTEXT(method),
    )
