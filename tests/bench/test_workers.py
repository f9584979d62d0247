"""Messages of the process that starts the workers while they work."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from spml.bench import workers
from spml.bench.plan import CODE_VERSION
from spml.bench.spec import read_spec
from spml.bench.store import Store
from spml.bench.workers import Job, watch
from spml.common.messages import shown
from tests.bench.toys import GRID, add_runs, save_spec


@pytest.fixture
def job(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "_POLL", 0.0)
    monkeypatch.setattr(workers, "_REST", 0)
    monkeypatch.setattr(workers, "_LINE_EVERY", -1.0)
    path = save_spec(tmp_path, GRID)
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    return Job(str(path), path.read_text(), str(tmp_path), str(tmp_path), url, CODE_VERSION)


def adding(job, *steps):
    """An `alive` that adds runs to the store at each call, and ends with the last; a step may be a signal."""
    waiting = list(steps)

    def alive():
        if not waiting:
            return False
        step = waiting.pop(0)
        if isinstance(step, BaseException):
            raise step
        spec, trials = step
        add_runs(Store(job.url), spec, Path(job.root), trials, seconds=10.0)
        return True

    return alive


def watched(job, *steps):
    stream = io.StringIO()
    try:
        with shown(stream):
            state = watch(job, adding(job, *steps))
    except (KeyboardInterrupt, SystemExit):
        state = None
    return state, stream.getvalue().splitlines()


def test_only_runs_of_this_specification_are_progress(job, tmp_path):
    """Once, the runs of another specification made it "649 of 648 runs, about -5 s left"."""
    spec = job.spec()
    other = read_spec(save_spec(tmp_path, GRID.replace("epochs: 3", "epochs: 4"), "other.yaml"))
    add_runs(Store(job.url), spec, tmp_path, {"an": [0, 1], "em slow": [0, 1]}, seconds=10.0)
    state, lines = watched(
        job,
        (other, {"an": [0, 1], "em slow": [0, 1, 2], "full": [0, 1]}),
        (spec, {"em slow": [2]}),
        (spec, {"full": [0, 1]}),
    )
    assert lines == [
        "4 of 7 runs are finished",
        "4 of 7 runs are finished",
        "5 of 7 runs are finished",
        "7 of 7 runs are finished",
    ]
    assert (state.finished, state.missing) == (7, {})


def test_the_bar_on_a_terminal_shows_the_same(job, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    add_runs(Store(job.url), job.spec(), Path(job.root), {"em slow": [0, 1, 2]}, seconds=10.0)
    stream = Terminal()
    with shown(stream):
        watch(job, adding(job, (job.spec(), {"full": [0, 1]})))
    text = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", stream.getvalue())
    assert re.findall(r"\d/7", text)[-1] == "5/7"


@pytest.mark.parametrize(
    ("stop", "name"),
    [(SystemExit(143), "SIGTERM"), (SystemExit(129), "SIGHUP"), (KeyboardInterrupt(), "Ctrl-C")],
)
def test_a_stop_is_announced_with_what_is_finished_and_how_to_continue(job, stop, name):
    state, lines = watched(job, (job.spec(), {"an": [0, 1]}), stop)
    assert state is None
    assert lines[-1] == (
        f"Stopped by {name}. 2 of 7 runs are finished. They are kept, runs in progress are not. Run the same "
        "command again to continue."
    )
