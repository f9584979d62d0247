"""A small comparison, and the content of its rows."""

from __future__ import annotations

import json
from pathlib import Path

from spml.bench.plan import CODE_VERSION
from spml.bench.state import read_state
from spml.bench.store import Store
from spml.bench.workers import Job, work

from ..bench.toys import TOY, save_spec, save_toy

FREQUENT = "  frequent: {observe: frequency, observe_power: 1.0}\n"


SMALL = TOY.replace(FREQUENT, "").replace("seeds: 2", "seeds: 1")


def job_in(folder, text=SMALL, code=None):
    save_toy(folder)
    path = save_spec(folder, text)
    output = folder / "out"
    output.mkdir(exist_ok=True)
    url = f"sqlite:///{output / 'store.sqlite'}"
    return Job(str(path), path.read_text(), str(folder), str(output), url, code or CODE_VERSION)


def content(job):
    """Everything that must not depend on who made the runs, and when."""
    state = read_state(job.spec(), Store(job.url), Path(job.root))
    assert not state.missing
    return [
        json.dumps([row.key, row.series, row.trial, row.params, row.history, row.draws, row.facts])
        for row in state.rows
    ]


def work_through(job):
    """Make runs until none is left; nothing may go wrong."""
    assert work(job) == []
