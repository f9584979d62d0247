"""Workers that make the runs of a comparison, here or on a Ray cluster; all of them share one store."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from ..common.errors import InputError, SpmlError, quoted, unexpected
from ..common.messages import bars_are_shown, log, muted, progress
from ..common.signals import ended_by_signals, ending_signals
from ..config import AUTO
from ..engine import Interrupted
from ..engine.distributed import import_fabric
from ..methods.registry import load_own, source_of
from .plan import (
    CODE_VERSION,
    CONTENT,
    Series,
    Trial,
    all_series,
    content,
    next_trial,
    plan_trial,
    pseudo_labels,
    run_key,
)  # fmt: skip
from .rows import Row
from .spec import Spec, chosen, read_spec
from .state import State, read_state
from .store import Store

_POLL = 1.0  # seconds between two queries of the store
_REST = 10  # a look at a large comparison takes seconds; so many times as long leaves the cores to the runs
_LINE_EVERY = 30.0  # seconds between two lines of progress where there is no terminal
_GRACE = 10.0  # seconds for workers to end before they are killed
_WAIT = 2.0  # seconds that a worker waits for series that others hold
_TERMINATED = 128 + signal.SIGTERM  # exit code of a process that SIGTERM ended


@dataclass(frozen=True)
class Job:
    """A comparison in progress, which can be sent to another process or machine.

    Attributes:
        path, text: File and content of the specification.
        root: Folder that its paths start from.
        folder: Folder for results and features.
        url: URL of the store.
        code: Version of the code that all workers must have.
        candidates, seeds: Those of the specification that are wanted, as `chosen` takes them.
        own: Methods in files that the user named (`file.py:Class`), by their names the SHA-256 of their
            sources, which all workers must have.
    """

    path: str
    text: str
    root: str
    folder: str
    url: str
    code: str
    candidates: str = ""
    seeds: str = ""
    own: Mapping[str, str] = field(default_factory=dict)

    def spec(self) -> Spec:
        """Read the specification."""
        return chosen(read_spec(Path(self.path), self.text), self.candidates, self.seeds)


def _uses_accelerators(spec: Spec) -> bool:
    return spec.train.get("accelerator", AUTO) in (AUTO, "cuda")


def own_accelerators(spec: Spec) -> list[str]:
    """Names of the accelerators of this machine, as CUDA_VISIBLE_DEVICES has them, of which workers have one
    each; none where the specification computes on CPU."""
    if not _uses_accelerators(spec):
        return []
    count, visible = torch.cuda.device_count(), os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",")[:count] if visible else [str(number) for number in range(count)]


@muted()
def work(job: Job, proceed: Callable[[], bool] = lambda: True, decoders: int = 0) -> list[SpmlError]:
    """Make runs until none is left or `proceed`, called before each, returns False; return what went wrong.

    A problem with one data set does not keep the others from being finished.

    Args:
        job: The comparison.
        proceed: Whether to make a further run.
        decoders: Processes that decode the images of a run, where the data leaves their number open.

    Raises:
        Interrupted: A signal arrived; the run in progress leaves nothing behind.
    """
    from .runner import Runner

    if job.code != CODE_VERSION:
        problem = SpmlError(
            f"a worker has another version of spml ({CODE_VERSION}) than the process that started it "
            f"({job.code}): install the same version everywhere, and don't change it during a comparison"
        )
        return [problem]
    for name, source in job.own.items():
        if source_of(load_own(name)) != source:
            return [SpmlError(f"{name}: a worker has another version of this file: copy it to all machines")]
    spec, store = job.spec(), Store(job.url)
    runner = Runner(spec, Path(job.folder) / "features", decoders)
    problems: dict[str, SpmlError] = {}
    missing = read_state(spec, store, Path(job.root)).missing
    left = [series for series in all_series(spec) if series.key in missing]
    if left:
        import_fabric()  # before the store has a thread
    with store.alive():
        while left and proceed():
            busy = []
            for series in left:
                if not proceed():
                    break
                if not store.claim(series.key):
                    busy.append(series)
                    continue
                try:
                    before: list[Row] = []
                    while proceed() and (trial := next_trial(spec, series, before, Path(job.root))):
                        before.append(_row(store, series, trial, runner, before))
                except Interrupted:
                    raise
                except SpmlError as error:
                    # Without its traceback, which would keep the data of the run in memory.
                    problems[str(error)] = type(error)(str(error))
                except Exception as error:
                    text = f"{'/'.join(map(str, series.key))}: {unexpected(error)}"
                    problems[text] = SpmlError(text)
                finally:
                    store.release(series.key)
            left = busy
            if left:
                # Their workers may be killed, and then this one takes their series over.
                time.sleep(_WAIT)
    return list(problems.values())


@muted()
def check_data(job: Job) -> None:
    """Check that the data, weights and pseudo-labels that runs were made from are still the same."""
    spec, root = job.spec(), Path(job.root)
    rows = read_state(spec, Store(job.url), root).rows
    firsts: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        firsts.setdefault((row.series.data, *used_files(row, job)), row)
    if not firsts:
        return
    from .runner import Runner

    runner = Runner(spec, Path(job.folder) / "features")
    every = {series.key: series for series in all_series(spec)}
    for first in firsts.values():
        before = [row for row in rows if row.series == first.series and row.trial < first.trial]
        trial = plan_trial(spec, every[first.series], first.trial, before, root)
        facts = runner.facts(trial)
        if content(facts) != content(first.facts):
            raise _changed(trial, first, facts)


def used_files(row: Row, job: Job) -> tuple[str, str]:
    """Weights and pseudo-labels that a run was made from."""
    try:
        return str(row.config["model"]["weights"]), str(row.config["hp"].get("pseudo_labels"))
    except (LookupError, TypeError, AttributeError) as error:
        raise InputError(
            f"{job.url}: the run {quoted(row.key)} is damaged: it does not state its settings. Delete this "
            "row from the table `runs`, so that the run is made again."
        ) from error


def raise_problems(problems: Iterable[SpmlError]) -> None:
    """Raise the problems of workers, each once: as `InputError` if all of them are wrong input."""
    problems = list(problems)
    if problems:
        wrong_input = all(isinstance(problem, InputError) for problem in problems)
        raise (InputError if wrong_input else SpmlError)(" ".join(dict.fromkeys(map(str, problems))))


def _row(store: Store, series: Series, trial: Trial, runner: Any, before: Sequence[Row]) -> Row:
    """Return the row of a trial, from the store or from a run that is made now."""
    stored = store.find([trial.point]).get(trial.point, [])
    facts = runner.facts(trial)
    key = run_key(trial.point, content(facts))
    for row in stored:
        if row.key == key:
            return replace(row, trial=trial.number)  # the same settings may be proposed twice
    changed = [row for row in stored if row.versions["code"] == CODE_VERSION]
    if changed:
        raise _changed(trial, changed[0], facts)
    new: Row = runner.run(series, trial, before)
    if not store.add(new, trial.point):
        # Another worker considered this one dead and was faster. The same run gives the same numbers.
        return next(row for row in store.find([trial.point])[trial.point] if row.key == key)
    return new


def _changed(trial: Trial, row: Row, facts: Mapping[str, Any]) -> InputError:
    paths = (
        trial.config.data.path,
        trial.config.model.weights,
        pseudo_labels(trial.config),
        trial.config.data.path,
    )
    path, what = next(
        (path, what)
        for path, (name, what) in zip(paths, CONTENT.items(), strict=True)
        if row.facts.get(name) != facts.get(name)
    )
    return InputError(
        f"{path}: its content changed since runs of this comparison were made from it. Those runs are kept, "
        f"and none is added to them. Put the {what} back, or write to another `output`."
    )


def run_all(job: Job, workers: int) -> tuple[State, list[SpmlError]]:
    """Make all runs with processes of this machine.

    Args:
        job: The comparison.
        workers: Number of processes, which take turns if there are more of them than accelerators; 0 = one
            per accelerator, or per core where there is none.

    Returns:
        The state of the comparison afterwards, and the problems that occurred.

    Raises:
        KeyboardInterrupt, SystemExit: A signal arrived; the workers have been stopped.
    """
    context = multiprocessing.get_context("spawn")
    messages = context.SimpleQueue()
    accelerators, cores = own_accelerators(job.spec()), os.cpu_count() or 1
    workers = workers or len(accelerators) or cores
    # Each core makes a run of its own where there is no accelerator, so that no run starts processes.
    decoders = _decoders(cores, workers) if accelerators else 0
    processes = [
        context.Process(target=_process, args=(job, messages, place, decoders))
        for _, place in zip(range(workers), itertools.cycle(accelerators or [""]), strict=False)
    ]
    problems: list[SpmlError] = []

    def alive() -> bool:
        # A worker whose problems exceed the buffer of the pipe blocks until they are read.
        problems.extend(_drain(messages))
        return any(process.is_alive() for process in processes)

    with ended_by_signals():
        try:
            for process in processes:
                process.start()
            state = watch(job, alive)
        finally:  # the processes are no daemons, which could not have processes that decode
            begun = [process for process in processes if process.pid]
            for process in begun:
                process.terminate()  # an unfinished run leaves nothing behind
            deadline = time.monotonic() + _GRACE
            for process in begun:
                process.join(max(0.0, deadline - time.monotonic()))
                process.kill()
                process.join()
    return state, [*problems, *_drain(messages)]


def _decoders(cores: int, workers: int) -> int:
    """Number of decoding processes of each of `workers` that share `cores`, as of a run: at most 8."""
    return min(max(cores // workers - 1, 0), 8)


def _process(job: Job, messages: Any, accelerator: str, decoders: int) -> None:
    if accelerator:  # before anything asks CUDA for its devices
        os.environ["CUDA_VISIBLE_DEVICES"] = accelerator
    stopped = threading.Event()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process stops its workers
    # The handler does not raise: the exception could be lost in the code that the signal interrupts. Training
    # has a handler of its own, and stops at the next step.
    for number in ending_signals():
        signal.signal(number, lambda *_: stopped.set())
    parent = multiprocessing.parent_process()
    try:
        # A parent process that was killed can't stop its workers, so they look whether it is alive.

        def proceed() -> bool:
            return not stopped.is_set() and (parent is None or parent.is_alive())

        messages.put(work(job, proceed, decoders))
    except Interrupted:
        stopped.set()
    except SpmlError as error:
        messages.put([error])
    if stopped.is_set():
        sys.exit(_TERMINATED)


def _drain(messages: Any) -> list[SpmlError]:
    problems: list[SpmlError] = []
    while not messages.empty():
        problems += messages.get()
    return problems


def run_on_ray(job: Job, address: str, workers: int) -> tuple[State, list[SpmlError]]:
    """Make all runs on a Ray cluster.

    All machines must reach the store, the data and the output folder: with several machines, use a database
    server (`--store postgresql://...`) and a shared folder.

    Args:
        job: The comparison.
        address: Address of the cluster, as `ray.init` takes it; empty = start one on this machine.
        workers: Number of workers, which share the accelerators of the cluster if there are some; 0 = one
            per accelerator, or per core.
    """
    from ..runs.predict.cluster import connected

    with connected(address) as ray:
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if _uses_accelerators(job.spec()) and any("GPU" in node for node in nodes):
            nodes = [node for node in nodes if "GPU" in node]
            count = workers or int(sum(node["GPU"] for node in nodes))
            share = min(sum(node["GPU"] for node in nodes) / count, 1)
            # The machine with the fewest cores for each of its workers decides how many all of them have.
            cores = max(int(min(node.get("CPU", 1) / node["GPU"] for node in nodes) * share), 1)
        else:
            count, share, cores = workers or int(sum(node.get("CPU", 0) for node in nodes)) or 1, 0, 1
        # Ray shows each worker its accelerator, and restarts none that dies: the others take over its series.
        remote = ray.remote(num_cpus=cores, num_gpus=share, max_retries=0)(work)
        pending: list[Any] = [remote.remote(job, decoders=_decoders(cores, 1)) for _ in range(count)]
        started = list(pending)

        def alive() -> bool:
            nonlocal pending
            _, pending = ray.wait(pending, num_returns=len(pending), timeout=0) if pending else ([], [])
            return bool(pending)

        state, problems = watch(job, alive), list[SpmlError]()
        for task in started:
            try:
                problems += ray.get(task)
            except ray.exceptions.RayError as error:
                reason = str(error).strip().splitlines()[-1]
                problems.append(SpmlError(f"a worker ended early ({reason})"))
        return state, problems


def watch(job: Job, alive: Callable[[], bool]) -> State:
    """Show progress as long as workers are alive, and return the state of the comparison afterwards.

    `alive` is called about once a second.

    Raises:
        KeyboardInterrupt, SystemExit: A signal arrived; a line says what is finished and how to continue.
    """
    spec, store, root = job.spec(), Store(job.url), Path(job.root)
    state: State | None = None
    try:
        started, count = time.monotonic(), store.count()
        state = read_state(spec, store, root)
        log.info(state.describe())
        last_look = last_line = time.monotonic()
        pause = _REST * (last_look - started)
        with progress(state.total, spec.title) as advance:
            advance(state.finished)
            while alive():
                time.sleep(_POLL)
                if time.monotonic() - last_look >= pause and store.count() != count:
                    before, count = state.finished, store.count()
                    state, last_look = read_state(spec, store, root), time.monotonic()
                    advance(state.finished - before)
                if not bars_are_shown() and time.monotonic() - last_line > _LINE_EVERY:
                    last_line = time.monotonic()
                    log.info(state.describe())
    except (KeyboardInterrupt, SystemExit) as stop:
        name = signal.Signals(int(stop.code or 0) - 128).name if isinstance(stop, SystemExit) else "Ctrl-C"
        kept = f" {state.describe()}. They are kept, runs in progress are not." if state else ""
        log.info(f"Stopped by {name}.{kept} Run the same command again to continue.")
        raise
    return read_state(spec, store, root)
