"""Definition of a failure, and trying inputs in a process of their own, with limits of time and memory."""

from __future__ import annotations

import faulthandler
import json
import mmap
import os
import random
import re
import resource
import signal
import struct
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import spml
from spml.common.errors import CONTROL, LONGEST, SpmlError
from tests.hostile.fuzz.change import Change

SECONDS = 4.0
"""Seconds of the processor, of all threads, that no input may take."""
WAIT = 120.0
"""Seconds of the clock after which an input that does not use the processor hangs."""
MEMORY = 1 << 30
"""Bytes of address space that no input may take."""

_STATE = struct.Struct("<qq")  # number of the input that is tried, and of those refused so far
_PACKAGE = str(Path(spml.__file__).parent)
_FRAME = re.compile(r'File "([^"]*/([^/"]+)\.py)", line (\d+)(?: in (\S+))?')


class Target(NamedTuple):
    """Something that reads what others wrote.

    Attributes:
        name: Unique name.
        suffix: Suffix of a file that holds an input, such as `.csv`.
        seeds: Valid inputs.
        change: Makes an input of them.
        attempt: Reads an input. Returns what a user is shown, or raises what a command would raise.
        weight: Share of the inputs; small for what is slow.
    """

    name: str
    suffix: str
    seeds: Sequence[bytes]
    change: Change
    attempt: Callable[[bytes], Sequence[str]]
    weight: float = 1.0


class Failure(NamedTuple):
    """Describe the fault in an answer to an input.

    Attributes:
        kind: Exception and line that raised it; equal kinds are the same failure.
        text: All about it.
    """

    kind: str
    text: str


class Result(NamedTuple):
    """Outcome of a batch.

    Attributes:
        tried: Number of inputs that were tried.
        refused: Number of them that were refused with a message.
        failures: Number of the input and failure; each kind once.
    """

    tried: int
    refused: int
    failures: list[tuple[int, Failure]]


def make_input(target: Target, seed: int, number: int) -> bytes:
    """The input of a number."""
    return target.change(random.Random(f"{seed} {target.name} {number}"), target.seeds)


def refusal_of(target: Target, data: bytes) -> str:
    """Try an input. Returns the message with which it was refused; empty if it was accepted.

    Raises:
        BaseException: The input was neither accepted nor refused, or a message is not fit to be shown.
    """
    refusal = ""
    try:
        texts = target.attempt(data)
    except SpmlError as error:
        refusal = str(error)
        check_texts([refusal], error)
    except OSError as error:  # of which the command line says the file
        if error.filename is None:
            raise
        refusal = f"{error.filename}: {error.strerror}."
        check_texts([refusal], error)
    else:
        check_texts(texts)
    return refusal


class BadMessage(Exception):
    """A message that is not fit to be shown."""


def check_texts(texts: Sequence[str], cause: Exception | None = None) -> None:
    """Check what a user is shown.

    Raises:
        BadMessage: A text is very long, or holds control characters; its traceback is that of `cause`.
    """
    for text in texts:
        wrong = f"has {len(text):,} characters" if len(text) > LONGEST else ""
        if found := CONTROL.search(text):
            wrong = f"holds the character {found[0]!r}"
        if wrong:
            problem = BadMessage(f"a message {wrong}: {text[:5000]!r}")
            raise problem.with_traceback(cause.__traceback__ if cause else None)


def judge(target: Target, data: bytes) -> tuple[str, Failure | None]:
    """Try an input. Returns the message with which it was refused, and what is wrong with that."""
    try:
        return refusal_of(target, data), None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # Rust code raises what is no Exception
        text = "".join(traceback.format_exception(error, limit=-30))
        frames = [
            f'File "{frame.filename}", line {frame.lineno}'
            for frame in traceback.extract_tb(error.__traceback__)
        ]
        return "", Failure(f"{type(error).__name__}-{_place(frames[::-1])}", text[-20_000:])


def _place(frames: Sequence[str], *, in_time: bool = False) -> str:
    """File and line of the innermost frame in the package, or of the innermost one.

    Args:
        frames: Lines of a traceback, the innermost frame first.
        in_time: Whether a timer chose the line, so that the function says more.
    """
    found = [match for match in map(_FRAME.search, frames) if match]
    found = [match for match in found if match[1].startswith(_PACKAGE)] or found
    return f"{found[0][2]}-{found[0][4 if in_time else 3]}" if found else "unknown"


def run_batch(target: Target, inputs: Callable[[int], bytes], numbers: range, folder: Path) -> Result:
    """Try inputs in forks of this process: after one that kills its process, another fork goes on.

    Args:
        target: What reads them.
        inputs: Returns the input of a number.
        numbers: Numbers of the inputs.
        folder: Folder for files that say how far it came.
    """
    failures: dict[str, tuple[int, Failure]] = {}
    start, refused = numbers.start, 0
    state_path, trace, found = (folder / name for name in ("state", "trace.txt", "found.jsonl"))
    while start < numbers.stop:
        state_path.write_bytes(_STATE.pack(start, 0))
        for path in (trace, found):
            path.write_bytes(b"")
        child = os.fork()
        if not child:
            try:
                _try_all(target, inputs, range(start, numbers.stop), state_path, trace, found)
            except KeyboardInterrupt:
                os._exit(0)
            except BaseException:
                found.write_text(json.dumps([start, "script", traceback.format_exc()]) + "\n")
            os._exit(0)
        try:
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        except KeyboardInterrupt:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise
        number, more = _STATE.unpack(state_path.read_bytes())
        refused += more
        for line in found.read_text().splitlines():
            at, kind, text = json.loads(line)
            failures.setdefault(kind, (at, Failure(kind, text)))
        if code == 0:
            break
        text = trace.read_text(errors="replace")
        kind = f"{_ending(code)}-{_place(text.splitlines(), in_time=code in _TOO_LONG)}"
        failures.setdefault(kind, (number, Failure(kind, f"The process ended with {code}.\n{text}")))
        start = number + 1
    return Result(len(numbers), refused, list(failures.values()))


_TOO_LONG = (-signal.SIGPROF, -signal.SIGALRM)


def _ending(code: int) -> str:
    if code == -signal.SIGPROF:
        return "slow"
    if code == -signal.SIGALRM:
        return "hangs"
    return signal.Signals(-code).name if code < 0 else f"exit{code}"


def _try_all(
    target: Target, inputs: Callable[[int], bytes], numbers: range, state_path: Path, trace: Path, found: Path
) -> None:
    """Try inputs in this process, which a limit may end; the number of each is in a file before."""
    set_limits(trace)
    refused, kinds = 0, set()
    with open(state_path, "r+b") as stream:
        state = mmap.mmap(stream.fileno(), _STATE.size)
    for number in numbers:
        data = inputs(number)
        state[:] = _STATE.pack(number, refused)
        refusal, failure = judge_in_time(target, data)
        refused += bool(refusal)
        if failure and failure.kind not in kinds:
            kinds.add(failure.kind)
            with open(found, "a") as problems:
                problems.write(json.dumps([number, *failure]) + "\n")
    state[:] = _STATE.pack(numbers.stop, refused)


def set_limits(trace: Path) -> None:
    """Limit this process, which prints nothing from now on, and says in a file where a signal ends it."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    traces = open(trace, "w")  # noqa: SIM115 (stays open, as long as the process)
    faulthandler.enable(traces)
    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
        faulthandler.register(number, traces, chain=True)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 26, 1 << 26))


def judge_in_time(target: Target, data: bytes) -> tuple[str, Failure | None]:
    """As `judge`, but a signal ends the process if that takes too long."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.setitimer(signal.ITIMER_REAL, WAIT)
    judged = judge(target, data)
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return judged
