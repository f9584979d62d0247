"""A method in a file of the user's own: imported only where the user names it; its source is in the key."""

from __future__ import annotations

import multiprocessing.process
from pathlib import Path

import numpy as np
import pytest

import spml
from spml.bench.plan import all_series, own_source, plan_trial
from spml.bench.report import build_report
from spml.bench.report.page import report_page
from spml.bench.spec import read_spec
from spml.bench.state import read_state
from spml.bench.store import Store
from spml.common.errors import InputError
from spml.methods.registry import load_own, source_of
from tests.bench.toys import save_spec, save_toy
from tests.helpers.commands import execute, fails
from tests.helpers.processes import quick_workers

METHOD = '''
import spml
from spml.losses import an_loss


class Doubtful(spml.Objective):
    """AN, times a factor."""

    card = spml.Card(title="AN times a factor", paper="none", year=2026, equations="none")

    def forward(self, outputs: spml.Outputs, batch: spml.Batch):
        return {"an": FACTOR * an_loss(outputs.logits, batch.target)}
'''
SPEC = """
data:
  toy: {path: toy.npz, unlisted: negative, mean_labels: 1.6}
hiding:
  uniform: {observe: single}
candidates: [an, {name: mine, method: "mine.py:Doubtful"}]
baseline: an
seeds: 1
train: {epochs: 2, batch_size: 32, optim.lr: 1e-2}
"""


def write_method(folder, factor):
    (folder / "mine.py").write_text(METHOD.replace("FACTOR", factor))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    save_toy(tmp_path)
    write_method(tmp_path, "1.0")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.long
def test_a_changed_method_is_run_again(folder, monkeypatch):
    """Each comparison has a worker of its own, a process that knows neither version."""
    quick_workers(monkeypatch)
    # A worker begins in the folder in which Python was started: in that of the method, as of a command.
    monkeypatch.setattr(multiprocessing.process, "ORIGINAL_DIR", str(folder))
    path = save_spec(folder, SPEC)
    run = ("bench run", path, "--method mine.py:Doubtful --output out --workers 1")
    execute(*run)
    store = Store(f"sqlite:///{folder / 'out' / 'store.sqlite'}")
    assert store.count() == 2
    write_method(folder, "-1.0")
    execute(*run)
    assert store.count() == 3  # that of the built-in method is kept
    state = read_state(read_spec(path), store, Path())
    best = {row.series.candidate: np.nanmax(row.history["test/mAP"]) for row in state.rows}
    assert (state.missing, best["mine"] < best["an"] - 0.1) == ({}, True)
    page = report_page(build_report(state.rows, modes=["oracle"]), "T")
    assert f"| mine.py:Doubtful | {source_of('mine.py:Doubtful')} | 1 |" in page


def test_the_source_is_in_the_key_of_methods_outside_the_package_only(folder):
    load_own("mine.py:Doubtful")
    spec = read_spec(save_spec(folder, SPEC))
    an, mine = (plan_trial(spec, series, 0, [], folder) for series in all_series(spec))
    assert own_source(an.config) == "" != own_source(mine.config)
    assert plan_trial(spec, all_series(spec)[1], 0, [], folder).point == mine.point
    write_method(folder, "2.0")
    load_own("mine.py:Doubtful")  # the same process, after an edit
    assert plan_trial(spec, all_series(spec)[0], 0, [], folder).point == an.point
    assert plan_trial(spec, all_series(spec)[1], 0, [], folder).point != mine.point
    assert {source_of(name) for name in spml.methods.methods()} == {""}


def test_train_and_the_estimator(folder):
    write_method(folder, "3.0")
    run = spml.train(
        "toy.npz", method="mine.py:Doubtful", epochs=1, output="a", data={"unlisted": "negative"}
    )
    assert run.config.method == "mine.py:Doubtful"
    assert spml.load("a").predict("toy.npz").scores.shape[1] == 4
    with np.load("toy.npz") as arrays:
        x, y = arrays["X"], arrays["Y"]
    estimator = spml.sklearn.SinglePositiveClassifier(method="mine.py:Doubtful", epochs=1).fit(x, y)
    assert estimator.predict(x).shape == y.shape
    execute("train toy.npz --method mine.py:Doubtful --epochs 1")
    assert (folder / "runs" / "toy-Doubtful").is_dir()


def test_a_file_can_not_name_code(folder, capsys):
    (folder / "other.py").write_text((folder / "mine.py").read_text())
    words = "is code of your own, which is imported only where you name it yourself"
    with pytest.raises(InputError, match=words):
        read_spec(save_spec(folder, SPEC.replace("mine.py", "other.py")))
    (folder / "config.yaml").write_text("data: {path: toy.npz}\nmethod: other.py:Doubtful\n")
    assert words in fails(capsys, "train --config config.yaml")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("none.py:Doubtful", "there is no file"),
        ("mine.py:Doubtfull", "has no 'Doubtfull'. Did you mean Doubtful"),
        ("mine.py:an_loss", "is not a subclass of spml.Objective"),
        ("broken.py:X", "importing .*broken.py failed: ZeroDivisionError"),
    ],
)
def test_what_is_no_method(folder, name, words):
    (folder / "broken.py").write_text("1 / 0")
    with pytest.raises(InputError, match=words):
        load_own(name)
