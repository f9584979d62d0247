"""Who makes the runs: processes of this machine, or a Ray cluster. All of them share one store."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from ..engine import Interrupted
from ..errors import InputError, SpmlError, unexpected
from ..runs.console import Console
from .plan import Series, Trial, all_series, code_version, content, next_trial, pseudo_labels, run_key
from .read_spec import read_spec
from .rows import Row
from .spec import Spec
from .state import State, read_state
from .store import Store

_POLL = 1.0  # seconds between two looks at the store
_SAY = 30.0  # seconds between two lines of progress where there is no terminal
_PATIENCE = 10.0  # seconds for workers to end what they do
_WAIT = 2.0  # seconds that a worker waits for what others hold


@dataclass(frozen=True)
class Job:
    """A comparison in progress; all of it can be sent to another process or machine.

    Attributes:
        path, text: of the specification.
        root: folder that its paths start from.
        folder: of results and features.
        url: of the store.
        code: version that all workers must have.
    """

    path: str
    text: str
    root: str
    folder: str
    url: str
    code: str

    def spec(self) -> Spec:
        """The specification, read again."""
        return read_spec(Path(self.path), self.text)


class Problem(NamedTuple):
    """Why a series can't be finished, with the exit code that stands for it."""

    text: str
    exit_code: int


def work(job: Job, wanted: Callable[[], bool] = lambda: True) -> list[Problem]:
    """Make runs until none is left, and give what went wrong.

    A problem with one data set does not keep the others from being finished.

    Args:
        job: what is to be made.
        wanted: asked before every run; after a no, none is begun.

    Raises:
        Interrupted: by a signal; the run in progress leaves nothing behind.
    """
    from .run import Runner

    if code_version() != job.code:
        text = (
            f"a worker has another version of spml ({code_version()}) than the process that started it "
            f"({job.code}): install the same one everywhere, and don't change it while it runs"
        )
        return [Problem(text, SpmlError.exit_code)]
    spec, store = job.spec(), Store(job.url)
    runner = Runner(spec, Path(job.folder) / "features", report=lambda line: None)
    problems: dict[Problem, None] = {}
    with store.alive():
        missing = read_state(spec, store, Path(job.root)).missing
        left = [series for series in all_series(spec) if series.key in missing]
        while left and wanted():
            busy = []
            for series in left:
                if not wanted():
                    break
                if not store.claim(series.key):
                    busy.append(series)
                    continue
                try:
                    _finish(spec, series, store, runner, Path(job.root), wanted)
                except Interrupted:
                    raise
                except SpmlError as error:
                    problems[Problem(str(error), error.exit_code)] = None
                except Exception as error:
                    text = f"{'/'.join(map(str, series.key))}: {unexpected(error)}"
                    problems[Problem(text, SpmlError.exit_code)] = None
                finally:
                    store.release(series.key)
            left = busy
            if left:
                # Whoever holds them may be killed: then their series are taken over.
                time.sleep(_WAIT)
    return list(problems)


def check_data(job: Job) -> None:
    """Look whether the data, weights and pseudo-labels that runs were made from are still the same.

    Raises:
        InputError: they changed, or can't be opened any more.
    """
    spec, root = job.spec(), Path(job.root)
    rows = read_state(spec, Store(job.url), root).rows
    firsts: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        files = row.config["model"]["weights"], row.config["hp"].get("pseudo_labels")
        firsts.setdefault((row.series.data, *files), row)
    if not firsts:
        return
    from .run import Runner

    runner = Runner(spec, Path(job.folder) / "features", report=lambda line: None)
    every = {series.key: series for series in all_series(spec)}
    for first in firsts.values():
        before = [row for row in rows if row.series == first.series and row.trial < first.trial]
        trial = next_trial(spec, every[first.series], before, root)
        assert trial is not None
        facts = runner.facts(trial)
        if content(facts) != content(first.facts):
            raise _changed(trial, first, facts)


def raise_problems(found: Iterable[Problem]) -> None:
    """Raise what workers met, each problem once: as wrong input if all of them are that.

    Raises:
        SpmlError: there was a problem.
    """
    problems = list(dict.fromkeys(found))
    if problems:
        wrong = all(problem.exit_code == InputError.exit_code for problem in problems)
        raise (InputError if wrong else SpmlError)("\n".join(problem.text for problem in problems))


def _finish(
    spec: Spec, series: Series, store: Store, runner: Any, root: Path, wanted: Callable[[], bool]
) -> None:
    """Make the runs of a series that are missing."""
    before: list[Row] = []
    while wanted() and (trial := next_trial(spec, series, before, root)):
        before.append(_row(store, series, trial, runner, before))


def _row(store: Store, series: Series, trial: Trial, runner: Any, before: Sequence[Row]) -> Row:
    """The row of a trial: from the store, or of a run made now.

    Raises:
        InputError: the store holds this run on other data, or from other weights.
    """
    known = store.find([trial.point]).get(trial.point, [])
    facts = runner.facts(trial)
    key = run_key(trial.point, content(facts), code_version())
    for row in known:
        if row.key == key:
            return replace(row, trial=trial.number)  # the same settings may be proposed twice
    changed = [row for row in known if row.versions["code"] == code_version()]
    if changed:
        raise _changed(trial, changed[0], facts)
    made: Row = runner.run(series, trial, before)
    if not store.add(made, trial.point):
        # Somebody thought that this process was gone, and was quicker. The same run gives the same numbers.
        return next(row for row in store.find([trial.point])[trial.point] if row.key == key)
    return made


def _changed(trial: Trial, row: Row, facts: Mapping[str, Any]) -> InputError:
    path, what = trial.config.data.path, "data"
    if row.facts["fingerprint"] == facts["fingerprint"]:
        path, what = trial.config.model.weights, "weights"
        if row.facts.get("backbone") == facts.get("backbone"):
            path, what = str(pseudo_labels(trial.config)), "pseudo-labels"
    return InputError(
        f"{path}: its content changed since runs of this comparison were made from it. They are kept as "
        f"they are, and none is added to them. Put the {what} back, or write to another --output."
    )


def run_all(job: Job, workers: int, console: Console) -> tuple[State, list[Problem]]:
    """Make all runs with processes of this machine; gives where the comparison stands then, and what went
    wrong.

    Raises:
        SpmlError: the store can't be read; what was finished is kept.
        KeyboardInterrupt, SystemExit: by a signal, after the workers were stopped.
    """
    context = multiprocessing.get_context("spawn")
    messages = context.SimpleQueue()
    processes = [context.Process(target=_process, args=(job, messages), daemon=True) for _ in range(workers)]
    for process in processes:
        process.start()
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    problems: list[Problem] = []

    def alive() -> bool:
        # A worker that has more to tell than a pipe holds waits until it is read.
        problems.extend(_drain(messages))
        return any(process.is_alive() for process in processes)

    try:
        state = watch(job, console, alive)
    finally:
        for process in processes:
            process.terminate()
        deadline = time.monotonic() + _PATIENCE
        for process in processes:
            process.join(max(0.0, deadline - time.monotonic()))
            process.kill()  # a run that takes longer leaves nothing behind
            process.join()
        signal.signal(signal.SIGTERM, before)
    return state, [*problems, *_drain(messages)]


def _process(job: Job, messages: Any) -> None:
    stopped = threading.Event()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process tells the others to stop
    # Nothing is raised here: an exception could be lost in whatever code the signal meets. Training has a
    # handler of its own, and stops at the next step.
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    parent = multiprocessing.parent_process()
    try:
        # Where the first process was killed, nobody tells.
        messages.put(work(job, lambda: not stopped.is_set() and (parent is None or parent.is_alive())))
    except Interrupted:
        sys.exit(1)
    except SpmlError as error:
        messages.put([Problem(str(error), error.exit_code)])


def _drain(messages: Any) -> list[Problem]:
    found: list[Problem] = []
    while not messages.empty():
        found += messages.get()
    return found


def watch(job: Job, console: Console, alive: Callable[[], bool]) -> State:
    """Show progress until all is done or nobody works any more."""
    spec, store, root = job.spec(), Store(job.url), Path(job.root)
    state = read_state(spec, store, root)
    console.line(state.describe())
    started = said = time.monotonic()
    done = 0
    with console.progress(state.total, spec.title) as advance:
        advance(state.finished)
        while alive():
            time.sleep(_POLL)
            now = store.count() - state.stored
            advance(now - done)
            done = now
            if not console.terminal and time.monotonic() - said > _SAY:
                said = time.monotonic()
                console.line(_progress(state, done, said - started))
    return read_state(spec, store, root)


def _progress(state: State, done: int, seconds: float) -> str:
    finished = state.finished + done
    text = f"{finished:,} of {state.total:,} runs"
    if done:
        left = seconds / done * (state.total - finished)
        text += f", about {left / 60:.0f} min left" if left >= 90 else f", about {left:.0f} s left"
    return text
