"""A run is continued from its folder alone."""

from __future__ import annotations

import json
import re
import shutil

import numpy as np
import pytest

from spml.common.errors import InputError
from spml.config import from_dict, read_yaml
from spml.engine import Interrupted
from spml.engine.checkpoint import CURRENT, NEW, PREVIOUS, load_checkpoint, save_checkpoint
from spml.engine.loop import Trainer
from spml.runs.folder.layout import METRICS, MODEL, SUMMARY, read_config
from spml.runs.train import run_training
from tests.helpers.commands import refusal
from tests.helpers.features import arrays_of, make_features
from tests.helpers.training import stopping_after


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folder with the features that all runs here learn from."""
    folder = tmp_path_factory.mktemp("resumed")
    make_features(folder / "x.npz")
    return folder


@pytest.fixture
def settings(folder):
    data = {"path": str(folder / "x.npz"), "unlisted": "negative", "observe": "single"}
    return {"data": data, "method": "an", "epochs": 3, "threads": 1}


@pytest.fixture
def whole(folder, settings):
    """Folder of a finished run."""
    if not (folder / "whole").exists():
        run_training(from_dict({**settings, "output": str(folder / "whole")}))
    return folder / "whole"


@pytest.fixture
def stopped(folder, settings, tmp_path):
    """Folder of the same run that was stopped after its second epoch, with two checkpoints."""
    if not (folder / "stopped").exists():
        with stopping_after(2):
            run_training(from_dict({**settings, "output": str(folder / "stopped")}))
    return shutil.copytree(folder / "stopped", tmp_path / "stopped")


def resume(folder):
    return run_training(from_dict({"output": str(folder)}), resume=True)


def weights_of(run):
    return json.loads((run / "model.json").read_text())["weights_sha256"]


def damage(path):
    """Flip the last bit, which belongs to a tensor."""
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def test_a_folder_that_was_moved_is_continued_where_it_lies(whole, stopped, tmp_path):
    moved = stopped.rename(tmp_path / "moved")
    assert resume(moved) == moved
    assert not stopped.exists()
    assert weights_of(moved) == weights_of(whole)
    assert read_config(moved).output == str(moved)


def test_a_run_that_was_killed_at_its_last_checkpoint_is_completed(whole, tmp_path):
    """Between the two renames of the checkpoint, before the last epoch was written to metrics.jsonl."""
    killed = shutil.copytree(whole, tmp_path / "killed")
    (killed / CURRENT).rename(killed / NEW)
    lines = (killed / METRICS).read_text().splitlines(keepends=True)
    (killed / METRICS).write_text("".join(lines[:-1]))
    for name in (*MODEL, SUMMARY):
        (killed / name).unlink()
    resume(killed)
    assert len(lines) == 3
    assert (killed / METRICS).read_text().splitlines(keepends=True) == lines
    assert {path.name for path in killed.iterdir()} == {path.name for path in whole.iterdir()}
    assert weights_of(killed) == weights_of(whole)


def test_instead_of_a_damaged_checkpoint_the_one_before_is_continued(whole, stopped, caplog):
    damage(stopped / CURRENT)
    caplog.set_level("INFO", "spml")
    resume(stopped)
    assert (
        f"{stopped / CURRENT}: damaged (its content does not match its checksum); continuing from {PREVIOUS} "
        "instead"
    ) in caplog.messages
    assert weights_of(stopped) == weights_of(whole)


def test_a_run_without_a_sound_checkpoint_is_refused(stopped):
    for name in (CURRENT, PREVIOUS):
        damage(stopped / name)
    reason = "damaged (its content does not match its checksum)"
    assert refusal(resume, stopped) == (
        f"no checkpoint can be read. {stopped / CURRENT}: {reason}; {stopped / PREVIOUS}: {reason}. Restore "
        "one of them, or start again with `overwrite`."
    )


def test_shards_are_resumed_in_mid_epoch_with_the_weights_of_one_file(settings, whole, tmp_path, monkeypatch):
    """The training data does not depend on how the features are stored, nor on where a run is killed."""
    content = arrays_of(settings["data"]["path"])
    folder = tmp_path / "shards"
    folder.mkdir()
    for name in ("X", "Y", "split"):
        for number, part in enumerate(np.split(content[name], (90, 200))):
            np.save(folder / f"{name}_{number}.npy", part)
    np.savetxt(folder / "classes.txt", content["classes"], fmt="%s")
    settings["data"]["path"] = str(folder)
    real = Trainer._train_step

    def stop_in_the_second_epoch(self, *batch):
        real(self, *batch)
        if self.state.step == 4:
            self._request_stop()

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_train_step", stop_in_the_second_epoch)
        with pytest.raises(Interrupted, match="stopped in epoch 2, step 4"):
            run_training(from_dict({**settings, "output": str(tmp_path / "killed")}))
    killed = resume(tmp_path / "killed")
    assert weights_of(killed) == weights_of(whole)
    np.save(folder / "X_1.npy", -np.load(folder / "X_1.npy"))
    with pytest.raises(InputError, match="the data changed since this run was started"):
        resume(killed)


def rename_classes(settings, **names):
    path = settings["data"]["path"]
    content = arrays_of(path)
    content["classes"] = np.array([names.get(name, name) for name in content["classes"]])
    np.savez(path, **content)


def test_a_run_is_not_resumed_with_renamed_classes(settings, whole, stopped):
    rename_classes(settings, b="x", d="y")
    assert refusal(resume, stopped) == (
        f"{stopped}: can't be resumed, because the class names changed since this run was started: class 1 "
        "(counted from 0) is 'x' instead of 'b', class 3 (counted from 0) is 'y' instead of 'd'. Restore "
        "them, or start again with `overwrite`."
    )
    rename_classes(settings, x="b", y="d")
    resume(stopped)
    assert weights_of(stopped) == weights_of(whole)


def halve(state):
    state["model"] = {name: value[..., :2] for name, value in state["model"].items()}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (halve, "RuntimeError: "),
        # A random state that no generator has, and best weights of another model.
        (lambda state: state["random"]["python"][1].__setitem__(0, 1 << 70), "OverflowError: "),
        (lambda state: state["loop"].update(best_epoch=0, best={}), "RuntimeError: .*Missing key"),
        (
            lambda state: state["loop"].update(batch="x"),
            r"ValidationError: Expected `int`, got `str` - at `\$.batch` \(",
        ),
        (
            lambda state: state["loop"].update(history=[{"val/SP": "x"}]),
            r"ValidationError: Expected `int \| float`, got `str` - at `\$.history\[0\]\[...\]` \(",
        ),
        (
            lambda state: state["loop"].update(history=[{1: 0.5}]),
            r"ValidationError: Expected `str`, got `int` - at `key` in `\$.history\[0\]` \(",
        ),
        (
            lambda state: state["loop"].update(history=[{"val/SP": 0.5}]),
            r"ValueError: a record of its history lacks train/loss \(",
        ),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_explained(stopped, change, reason):
    state = load_checkpoint(stopped)
    change(state)
    save_checkpoint(stopped, state)
    message = refusal(resume, stopped)
    assert message.startswith(f"{stopped}: its checkpoint does not fit this run (")
    assert re.search(r"does not fit this run \(" + reason, message)
    assert message.endswith("). Restore it, or start again with `overwrite`.")
    assert "\n" not in message


def test_the_configuration_names_the_folder_and_a_run_never_starts_from_its_own(
    settings, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    settings["epochs"] = 1
    folder = run_training(from_dict(settings))
    assert read_yaml(folder / "config.yaml").output == str(folder) == "runs/x-an"
    folder = folder.rename("runs/x-an-continued")
    with pytest.raises(InputError, match="can't be both the run to start from"):
        run_training(from_dict({**settings, "init_from": str(folder)}), overwrite=True)
    assert (folder / "model.safetensors").is_file()


def test_other_epochs_are_refused(settings, whole):
    folder, before = str(whole), (whole / "config.yaml").read_text()
    with pytest.raises(InputError, match=r"differ from its config\.yaml: epochs\..*init_from="):
        run_training(from_dict({**settings, "epochs": 4, "output": folder}), resume=True)
    with pytest.raises(InputError, match="with its own settings: epochs would have no effect"):
        run_training(from_dict({"epochs": 4, "output": folder}), resume=True)
    assert (whole / "config.yaml").read_text() == before
