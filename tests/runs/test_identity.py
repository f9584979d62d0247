"""Every file of a run states which run it is of, and one of another run in its folder is refused."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from spml import load
from spml.common.errors import InputError
from spml.config import from_dict
from spml.engine.checkpoint import load_checkpoint, save_checkpoint
from spml.runs.fit.recording import read_recording
from spml.runs.predict.batches import Engine
from spml.runs.report.page import renew_report
from spml.runs.train import run_training
from tests.helpers.features import make_features
from tests.helpers.training import stopping_after

RUN = re.compile(r"is of run (\w{8}-\w{8}), but \S+ is of run (\w{8}-\w{8})\.")


def train(folder, name, resume=False, **more):
    data = {"path": str(folder / "x.npz"), "unlisted": "negative", "observe": "single"}
    data["rename"] = {"a": name}
    settings = {"data": data, "method": "an", "epochs": 2, "threads": 1, "mean_labels": 2.0}
    settings |= {"record": "scores", **more}
    return run_training(from_dict({**settings, "output": str(folder / name)}), resume=resume, pictures=False)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folder with the runs `one` and `two` of the same data, with other seeds and names of a class."""
    folder = tmp_path_factory.mktemp("runs")
    make_features(folder / "x.npz")
    train(folder, "one")
    train(folder, "two", seed=1)
    return folder


def use_all(folder):
    run = load(folder)
    assert run.predict(make_features(folder.parent / "x.npz"))
    for name in ("summary", "history", "config", "thresholds"):
        getattr(run, name)
    run.set_thresholds(target="recall=0.7")
    recording = read_recording(folder)
    recording.logits(1)


FILES = {
    "config.yaml": RUN,
    "names.csv": r"names\.csv: damaged, or of another run",
    "summary.json": RUN,
    "metrics.jsonl": "does not have the SHA-256 that summary.json states",
    "model.safetensors": "is not the file that model.json next to it describes",
    "model.json": "is not the file that model.json next to it describes",
    "held_out.safetensors": RUN,
    "thresholds.json": "thresholds of other classes|was decided for another model",
    "scores/samples.safetensors": RUN,
    "scores/epoch-001.safetensors": RUN,
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_run_is_refused(runs, tmp_path, name):
    folder = shutil.copytree(runs / "one", tmp_path / "copy")
    shutil.copy(runs / "x.npz", tmp_path)
    use_all(folder)
    shutil.copy(runs / "two" / name, folder / name)
    with pytest.raises(InputError, match=FILES[name]) as caught:
        use_all(folder)
    if FILES[name] is RUN:
        own, other = (
            json.loads((runs / each / "summary.json").read_text())["run"] for each in ("one", "two")
        )
        assert {*RUN.search(str(caught.value)).groups()} == {own, other}


def test_model_and_description_of_another_run_are_refused(runs, tmp_path):
    folder = shutil.copytree(runs / "one", tmp_path / "copy")
    for name in ("model.safetensors", "model.json"):
        shutil.copy(runs / "two" / name, folder / name)
    with pytest.raises(InputError, match=RUN):
        load(folder)


def test_evaluation_and_audit_of_another_run_are_not_reported(runs, tmp_path, caplog):
    folder = shutil.copytree(runs / "one", tmp_path / "copy")
    (folder / "report.html").write_text("")
    for name in ("evaluation.json", "audited.json"):
        (folder / name).write_text(json.dumps({"run": "0" * 8 + "-" + "1" * 8}))
    caplog.set_level("INFO", "spml")
    renew_report(load(folder), Engine())
    told = [message for message in caplog.messages if RUN.search(message)]
    assert [message.split(": ")[0] for message in told] == [
        "report.html does not show evaluation.json",
        "report.html does not show audited.json",
    ]


def test_equal_runs_have_the_same_identity_wherever_they_lie(runs, tmp_path):
    shutil.copy(runs / "x.npz", tmp_path)
    again = train(tmp_path, "one", threads=2)
    assert load(again).identity == load(runs / "one").identity != load(runs / "two").identity
    use_all(shutil.copytree(runs / "one", tmp_path / "moved"))


# -- resuming ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """Folder with runs that were stopped after their first epoch."""
    folder = tmp_path_factory.mktemp("stopped")
    make_features(folder / "x.npz")
    for name, settings in {"own": {}, "rate": {"optim": {"lr": 0.05}}, "method": {"method": "gr"}}.items():
        with stopping_after(1):
            train(folder, name, **settings)
    return folder


@pytest.mark.parametrize("other", ["rate", "method"])
def test_the_checkpoint_of_another_run_is_not_resumed(stopped, tmp_path, other):
    folder = shutil.copytree(stopped / "own", tmp_path / "own")
    shutil.copy(stopped / other / "checkpoint.safetensors", folder)
    with pytest.raises(InputError, match=RUN):
        run_training(from_dict({"output": str(folder)}), resume=True)


def edit(folder, before, after):
    """Change a setting as the last line of config.yaml says."""
    *lines, last = (folder / "config.yaml").read_text().splitlines(keepends=True)
    assert "remove this line to keep a change of your own" in last
    text = "".join(lines)
    assert before in text
    (folder / "config.yaml").write_text(text.replace(before, after))


def test_settings_that_were_changed_in_the_file_are_not_resumed(stopped, tmp_path):
    folder = shutil.copytree(stopped / "own", tmp_path / "own")
    edit(folder, "method: an", "method: gr")
    with pytest.raises(InputError, match="can't be resumed with other settings: they were changed"):
        run_training(from_dict({"output": str(folder)}), resume=True)


def test_settings_of_the_machine_may_be_changed(stopped, tmp_path):
    folder = shutil.copytree(stopped / "own", tmp_path / "own")
    edit(folder, "threads: 1", "threads: 2")
    run_training(from_dict({"output": str(folder)}), resume=True, pictures=False)
    assert load(folder).config.threads == 2


def test_a_run_of_an_earlier_version_is_resumed(stopped, tmp_path):
    folder = shutil.copytree(stopped / "own", tmp_path / "own")
    state = load_checkpoint(folder)
    del state["run"]
    save_checkpoint(folder, state)
    text = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text("".join(line for line in text.splitlines(True) if line[0] != "#"))
    shutil.rmtree(folder / "scores")  # made without a record of its run
    run_training(from_dict({"output": str(folder)}), resume=True, pictures=False)
    assert load(folder).identity == ""
