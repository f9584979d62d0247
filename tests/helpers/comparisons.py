"""A small comparison, and the content of its rows."""

from __future__ import annotations

import json
from pathlib import Path

from spml.bench.plan import CODE_VERSION
from spml.bench.rows import best_epoch
from spml.bench.state import read_state
from spml.bench.store import Store
from spml.bench.workers import Job, work

from ..bench.toys import TOY, save_spec, save_toy
from .commands import execute
from .features import records

FREQUENT = "  frequent: {observe: frequency, observe_power: 1.0}\n"


SMALL = TOY.replace(FREQUENT, "").replace("seeds: 2", "seeds: 1")
ONE_TRIAL = SMALL.replace("trials: 3", "trials: 1")


def job_in(folder, text=SMALL, code=None):
    save_toy(folder)
    path = save_spec(folder, text)
    output = folder / "out"
    output.mkdir(exist_ok=True)
    url = f"sqlite:///{output / 'store.sqlite'}"
    return Job(str(path), path.read_text(), str(folder), str(output), url, code or CODE_VERSION)


def state_of(job):
    return read_state(job.spec(), Store(job.url), Path(job.root))


def content(job):
    """Everything that must not depend on who made the runs, and when."""
    state = state_of(job)
    assert not state.missing
    return [
        json.dumps([row.key, row.series, row.trial, row.params, row.history, row.draws, row.facts])
        for row in state.rows
    ]


def train_as_printed(job, key, output, capsys, *options):
    """Train as `spml bench config` prints it; returns the records of the epochs, and the summary."""
    execute("bench config", job.folder, key, *options)
    config = output.with_suffix(".yaml")
    config.write_text(capsys.readouterr().out)
    execute("train --config", config, "--output", output)
    return records(output), json.loads((output / "summary.json").read_text())


def check_same_as_train(row, history, summary):
    """Check the numbers of a run of a comparison against those of `spml train`."""
    for name in ("val/SP", "val/naive_mAP", "val/mAP"):
        assert [record[name] for record in history] == row.history[name]
    assert summary["test"]["mAP"] == row.history["test/mAP"][best_epoch(row.history, "observed")]


def work_through(job):
    """Make runs until none is left; nothing may go wrong."""
    assert work(job) == []
