"""A run is continued from its folder alone."""

from __future__ import annotations

import json
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
from tests.helpers.features import make_features


@pytest.fixture
def settings(tmp_path):
    data = {"path": str(make_features(tmp_path / "x.npz")), "unlisted": "negative", "observe": "single"}
    return {"data": data, "method": "an", "epochs": 3, "threads": 1}


@pytest.fixture
def stopped(settings, tmp_path, monkeypatch):
    """Folder of a run that was stopped after its first epoch, with two checkpoints."""
    real = Trainer._end_epoch

    def stop_after_the_first(self, metrics):
        self.save()
        real(self, metrics)
        self.save()
        raise Interrupted("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_end_epoch", stop_after_the_first)
        with pytest.raises(Interrupted):
            run_training(from_dict({**settings, "output": str(tmp_path / "stopped")}))
    return tmp_path / "stopped"


def weights_of(run):
    return json.loads((run / "model.json").read_text())["weights_sha256"]


def damage(path):
    """Flip the last bit, which belongs to a tensor."""
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def test_a_folder_that_was_moved_is_continued_where_it_lies(settings, stopped, tmp_path):
    whole = run_training(from_dict({**settings, "output": str(tmp_path / "whole")}))
    moved = stopped.rename(tmp_path / "moved")
    assert run_training(from_dict({"output": str(moved)}), resume=True) == moved
    assert not stopped.exists()
    assert weights_of(moved) == weights_of(whole)
    assert read_config(moved).output == str(moved)


def test_a_run_that_was_killed_at_its_last_checkpoint_is_completed(settings, tmp_path):
    """Between the two renames of the checkpoint, before the last epoch was written to metrics.jsonl."""
    whole = run_training(from_dict({**settings, "output": str(tmp_path / "whole")}))
    killed = shutil.copytree(whole, tmp_path / "killed")
    (killed / CURRENT).rename(killed / NEW)
    lines = (killed / METRICS).read_text().splitlines(keepends=True)
    (killed / METRICS).write_text("".join(lines[:-1]))
    for name in (*MODEL, SUMMARY):
        (killed / name).unlink()
    run_training(from_dict({"output": str(killed)}), resume=True)
    assert len(lines) == 3
    assert (killed / METRICS).read_text().splitlines(keepends=True) == lines
    assert {path.name for path in killed.iterdir()} == {path.name for path in whole.iterdir()}
    assert weights_of(killed) == weights_of(whole)


def test_instead_of_a_damaged_checkpoint_the_one_before_is_continued(settings, stopped, tmp_path, caplog):
    whole = run_training(from_dict({**settings, "output": str(tmp_path / "whole")}))
    damage(stopped / CURRENT)
    caplog.set_level("INFO", "spml")
    run_training(from_dict({"output": str(stopped)}), resume=True)
    assert (
        f"{stopped / CURRENT}: damaged (its content does not match its checksum); continuing from {PREVIOUS} "
        "instead"
    ) in caplog.messages
    assert weights_of(stopped) == weights_of(whole)


def test_a_run_without_a_sound_checkpoint_is_refused(stopped):
    for name in (CURRENT, PREVIOUS):
        damage(stopped / name)
    reason = "damaged (its content does not match its checksum)"
    with pytest.raises(InputError) as caught:
        run_training(from_dict({"output": str(stopped)}), resume=True)
    assert str(caught.value) == (
        f"no checkpoint can be read. {stopped / CURRENT}: {reason}; {stopped / PREVIOUS}: {reason}. Restore "
        "one of them, or start again with `overwrite`."
    )


def test_shards_are_resumed_in_mid_epoch_with_the_weights_of_one_file(settings, tmp_path, monkeypatch):
    """The training data does not depend on how the features are stored, nor on where a run is killed."""
    with np.load(settings["data"]["path"]) as arrays:
        content = dict(arrays)
    folder = tmp_path / "shards"
    folder.mkdir()
    for name in ("X", "Y", "split"):
        for number, part in enumerate(np.split(content[name], (90, 200))):
            np.save(folder / f"{name}_{number}.npy", part)
    np.savetxt(folder / "classes.txt", content["classes"], fmt="%s")
    whole = run_training(from_dict({**settings, "output": str(tmp_path / "whole")}))
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
    killed = run_training(from_dict({"output": str(tmp_path / "killed")}), resume=True)
    assert weights_of(killed) == weights_of(whole)
    np.save(folder / "X_1.npy", -np.load(folder / "X_1.npy"))
    with pytest.raises(InputError, match="the data changed since this run was started"):
        run_training(from_dict({"output": str(killed)}), resume=True)


def rename_classes(settings, **names):
    path = settings["data"]["path"]
    with np.load(path) as arrays:
        content = dict(arrays)
    content["classes"] = np.array([names.get(name, name) for name in content["classes"]])
    np.savez(path, **content)


def test_a_run_is_not_resumed_with_renamed_classes(settings, stopped, tmp_path):
    whole = run_training(from_dict({**settings, "output": str(tmp_path / "whole")}))
    rename_classes(settings, b="x", d="y")
    with pytest.raises(InputError) as caught:
        run_training(from_dict({"output": str(stopped)}), resume=True)
    assert str(caught.value) == (
        f"{stopped}: can't be resumed, because the class names changed since this run was started: class 1 "
        "(counted from 0) is 'x' instead of 'b', class 3 (counted from 0) is 'y' instead of 'd'. Restore "
        "them, or start again with `overwrite`."
    )
    rename_classes(settings, x="b", y="d")
    run_training(from_dict({"output": str(stopped)}), resume=True)
    assert weights_of(stopped) == weights_of(whole)


def test_a_checkpoint_of_another_model_is_explained(stopped):
    state = load_checkpoint(stopped)
    state["model"] = {name: value[..., :2] for name, value in state["model"].items()}
    save_checkpoint(stopped, state)
    with pytest.raises(InputError) as caught:
        run_training(from_dict({"output": str(stopped)}), resume=True)
    assert str(caught.value).startswith(f"{stopped}: its checkpoint does not fit this run (RuntimeError: ")
    assert str(caught.value).endswith("). Restore it, or start again with `overwrite`.")
    assert "\n" not in str(caught.value)


def test_a_checkpoint_with_a_random_state_that_no_generator_has(stopped):
    state = load_checkpoint(stopped)
    state["random"]["python"][1][0] = 1 << 70
    save_checkpoint(stopped, state)
    with pytest.raises(InputError, match=r"its checkpoint does not fit this run \(OverflowError: "):
        run_training(from_dict({"output": str(stopped)}), resume=True)


def test_best_weights_of_another_model_are_found_before_training_goes_on(stopped):
    state = load_checkpoint(stopped)
    state["loop"] |= {"best_epoch": 0, "best": {}}
    save_checkpoint(stopped, state)
    with pytest.raises(InputError, match=r"does not fit this run \(RuntimeError: .*Missing key"):
        run_training(from_dict({"output": str(stopped)}), resume=True)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"batch": "x"}, "ValidationError: Expected `int`, got `str` - at `$.batch`"),
        (
            {"history": [{"val/SP": "x"}]},
            "ValidationError: Expected `int | float`, got `str` - at `$.history[0][...]`",
        ),
        ({"history": [{1: 0.5}]}, "ValidationError: Expected `str`, got `int` - at `key` in `$.history[0]`"),
        ({"history": [{"val/SP": 0.5}]}, "ValueError: a record of its history lacks train/loss"),
    ],
)
def test_a_checkpoint_with_counters_of_other_types(stopped, change, reason):
    state = load_checkpoint(stopped)
    state["loop"] |= change
    save_checkpoint(stopped, state)
    with pytest.raises(InputError) as caught:
        run_training(from_dict({"output": str(stopped)}), resume=True)
    assert f"its checkpoint does not fit this run ({reason} (" in str(caught.value)


def test_the_configuration_names_the_folder_and_a_run_never_starts_from_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = {"path": str(make_features(tmp_path / "x.npz")), "unlisted": "negative", "observe": "single"}
    settings = {"data": data, "method": "an", "epochs": 1, "threads": 1}
    folder = run_training(from_dict(settings))
    assert read_yaml(folder / "config.yaml").output == str(folder) == "runs/x-an"
    folder = folder.rename("runs/x-an-continued")
    with pytest.raises(InputError, match="can't be both the run to start from"):
        run_training(from_dict({**settings, "init_from": str(folder)}), overwrite=True)
    assert (folder / "model.safetensors").is_file()


def test_other_epochs_are_refused(settings, tmp_path):
    folder = str(run_training(from_dict({**settings, "output": str(tmp_path / "run")})))
    before = (tmp_path / "run" / "config.yaml").read_text()
    with pytest.raises(InputError, match=r"differ from its config\.yaml: epochs\..*init_from="):
        run_training(from_dict({**settings, "epochs": 4, "output": folder}), resume=True)
    with pytest.raises(InputError, match="with its own settings: epochs would have no effect"):
        run_training(from_dict({"epochs": 4, "output": folder}), resume=True)
    assert (tmp_path / "run" / "config.yaml").read_text() == before
