"""Scores that a run records: what they are, that they change nothing, and that damage is refused."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from scipy.special import expit, log_softmax

import spml
from spml.common.errors import InputError
from spml.config import from_dict
from spml.data import open_dataset
from spml.engine import make_fabric
from spml.engine.checkpoint import BLANK, write_checked
from spml.engine.loop import Trainer
from spml.runs.fit.build import Build
from spml.runs.fit.recording import read_recording, write_scores
from spml.runs.predict.batches import Engine
from spml.runs.settle.resolve import open_for_backbone, resolve
from spml.runs.train import run_training

EPOCHS, VAL, CLASSES = 3, 60, 4


def settings(features, output, **more):
    return {
        "data": {"path": str(features), "unlisted": "negative", "observe": "single"},
        "model": {"head": "mlp", "dropout": 0.3, "hidden": 8},
        "optim": {"lr": 0.01},
        "method": "an",
        "epochs": EPOCHS,
        "batch_size": 32,
        "threads": 1,
        "record": "scores",
        "output": str(output),
        **more,
    }


def train(features, output, *, resume=False, overwrite=False, **more):
    config = from_dict(settings(features, output, **more))
    return run_training(config, resume=resume, overwrite=overwrite)


@pytest.fixture(scope="module")
def run(features, tmp_path_factory):
    return train(features, tmp_path_factory.mktemp("runs") / "run")


def files(run):
    return {path.name: path.read_bytes() for path in sorted((run / "scores").iterdir())}


def close(recorded, logits):
    """Whether recorded logits are these to the precision of float16."""
    return np.allclose(recorded, logits, rtol=2**-11, atol=1e-6)


# -- what is recorded --------------------------------------------------------------------------------------


def test_samples_and_labels_are_those_of_the_validation_split(features, run):
    data = open_dataset(from_dict(settings(features, run)).data)
    recording = read_recording(run)
    assert recording.method == "an"
    assert recording.classes == data.classes == tuple("abcd")
    assert recording.ids == data.splits["val"].ids
    assert np.array_equal(recording.observed, data.splits["val"].observed.to_ternary())
    assert np.array_equal(recording.truth, data.truth["val"].to_multi_hot() == 1)
    assert recording.truth.dtype == bool
    assert np.array_equal(recording.unknown, recording.observed == 0)
    assert recording.unknown.sum() == VAL * (CLASSES - 1)
    assert recording.epochs == range(EPOCHS + 1)


def test_epoch_zero_is_the_model_before_training(features, run):
    config = from_dict(settings(features, run))
    resolved = resolve(config, open_for_backbone(config))
    build = Build(resolved, make_fabric("cpu")).place()
    recorded = read_recording(run).logits(0)
    assert recorded.dtype == np.float32
    assert close(recorded, build.predict("val"))


def test_the_best_epoch_is_what_the_finished_run_predicts(features, run):
    data = open_dataset(from_dict(settings(features, run)).data)
    best = json.loads((run / "summary.json").read_text())["selected"]["epoch"]
    logits = spml.load(run).logits(data.splits["val"], Engine(device="cpu"))
    recording = read_recording(run)
    assert [close(recording.logits(epoch), logits) for epoch in recording.epochs].count(True) == 1
    assert close(recording.logits(best), logits)
    assert np.allclose(recording.probabilities(best), expit(logits), atol=1e-3)


def test_log_probabilities_become_probabilities(features, tmp_path):
    run = train(features, tmp_path / "run", method="softmax", model={}, epochs=1)
    recording = read_recording(run)
    assert recording.normalised
    logits = recording.logits(1)
    assert np.allclose(logits, log_softmax(logits, axis=1), atol=5e-3)
    assert np.allclose(recording.probabilities(1).sum(1), 1, atol=5e-3)


def test_recording_changes_nothing_else(features, run, tmp_path):
    plain = train(features, tmp_path / "plain", record="none")
    assert not (plain / "scores").exists()
    weights = [load_file(folder / "model.safetensors") for folder in (plain, run)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    other = train(features, tmp_path / "other", record_samples="train,val")
    assert all(torch.equal(weights[0][n], w) for n, w in load_file(other / "model.safetensors").items())


def test_scores_of_the_validation_split_are_computed_once(features, tmp_path, monkeypatch):
    real, real_val, predicted = Trainer._predict, Trainer._predict_val, []
    monkeypatch.setattr(Trainer, "_predict", lambda self, s: predicted.append(len(s)) or real(self, s))
    monkeypatch.setattr(
        Trainer, "_predict_val", lambda self: predicted.append(len(self.val)) or real_val(self)
    )
    train(features, tmp_path / "val")
    assert predicted == [VAL] * (1 + EPOCHS)
    predicted.clear()
    train(features, tmp_path / "test", record_samples="test", epochs=1)
    assert predicted == [80, VAL, 80]


def test_without_full_labels_no_truth_is_recorded(tmp_path, features):
    with np.load(features) as arrays:
        np.savez(tmp_path / "single.npz", **{**arrays, "Y": arrays["Y"].argmax(1)})
    run = train(
        tmp_path / "single.npz", tmp_path / "run", data={"path": str(tmp_path / "single.npz")}, epochs=1
    )
    recording = read_recording(run)
    assert recording.truth is None
    assert recording.unknown.sum() == VAL * (CLASSES - 1)
    assert set(load_file(run / "scores" / "samples.safetensors")) == {"observed"}


def test_several_splits_are_recorded(features, run, tmp_path):
    data = open_dataset(from_dict(settings(features, run)).data)
    several = read_recording(train(features, tmp_path / "two", record_samples="val, test", epochs=1))
    assert several.ids == (*data.splits["val"].ids, *data.splits["test"].ids)
    assert close(several.logits(1)[:VAL], read_recording(run).logits(1)[:VAL])


def test_what_float16_cant_hold_is_clipped(features, tmp_path):
    config = from_dict(settings(features, tmp_path))
    data = open_dataset(config.data)
    logits = np.zeros((VAL, CLASSES), np.float32)
    logits[0] = 1e6, -np.inf, 65519.0, 7.5
    write_scores(tmp_path, config, data, ["val"], 0, logits)
    (tmp_path / "config.yaml").write_text("")
    assert read_recording(tmp_path).logits(0)[0].tolist() == [65504, -65504, 65504, 7.5]


def test_the_size_is_told_before_training(features, tmp_path, caplog):
    caplog.set_level("INFO", "spml")
    run = train(features, tmp_path / "run", record_samples="train,val,test", epochs=20)
    lines = caplog.messages
    (line,) = (line for line in lines if "recording" in line)
    assert line == f"recording the scores of 300 samples x 4 classes over 20 epochs: 0.1 MB in {run}/scores"
    assert lines.index(line) < next(i for i, text in enumerate(lines) if text.startswith("epoch"))
    written = sum(path.stat().st_size for path in (run / "scores").iterdir())
    assert 0.05e6 < 300 * 4 * (21 * 2 + 2) < written < 0.15e6 - 0.08e6


# -- runs that stop, continue, start again -----------------------------------------------------------------


class Killed(Exception):
    """Stands for kill -9."""


@pytest.mark.parametrize("step", [4, 12])
def test_a_killed_run_leaves_the_same_recording(features, run, tmp_path, monkeypatch, step):
    """160 samples in batches of 32 are 5 steps per epoch."""
    real, done = Trainer._train_step, []

    def die(self, *batch):
        done.append(None)
        if len(done) == step:
            raise Killed
        real(self, *batch)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_train_step", die)
        with pytest.raises(Killed):
            train(features, tmp_path / "run", checkpoint_steps=2)
    train(features, tmp_path / "run", checkpoint_steps=2, resume=True)
    assert files(tmp_path / "run") == files(run)


def test_a_run_killed_between_recording_and_checkpoint_leaves_the_same_recording(
    features, run, tmp_path, monkeypatch
):
    def die(trainer):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "save", die)
        with pytest.raises(Killed):
            train(features, tmp_path / "run")
    assert set(files(tmp_path / "run")) == {
        "samples.safetensors",
        "epoch-000.safetensors",
        "epoch-001.safetensors",
    }
    (tmp_path / "run" / "scores" / ".epoch-001.safetensors.7.a.tmp").write_text("half a file")
    train(features, tmp_path / "run", resume=True)
    assert files(tmp_path / "run") == files(run)


def test_overwriting_removes_a_recording_and_nothing_else(features, run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "run")
    train(features, copy, epochs=1, overwrite=True)
    assert set(files(copy)) == {"samples.safetensors", "epoch-000.safetensors", "epoch-001.safetensors"}
    (copy / "scores" / "notes.txt").write_text("mine")
    train(features, copy, record="none", overwrite=True)
    assert set(files(copy)) == {"notes.txt"}
    (copy / "scores" / "notes.txt").unlink()
    train(features, copy, record="none", overwrite=True)
    assert not (copy / "scores").exists()


def test_a_run_of_an_earlier_version_goes_on_without_recording(features, tmp_path):
    run = train(features, tmp_path / "run", record="none")
    *lines, _ = (run / "config.yaml").read_text().splitlines(keepends=True)  # without its checksum
    lines.remove("record: none\n")
    lines.remove("record_samples: val\n")
    (run / "config.yaml").write_text("".join(lines))
    assert run_training(from_dict({"output": str(run)}), resume=True) == run
    with pytest.raises(InputError, match=r"other settings; these differ from its config\.yaml: record\."):
        train(features, run, resume=True)


# -- what is refused ---------------------------------------------------------------------------------------


def test_a_split_that_is_not_there(features, tmp_path):
    with np.load(features) as arrays:
        split = np.where(arrays["split"] == "test", "train", arrays["split"])
        np.savez(tmp_path / "x.npz", **{**arrays, "split": split})
    with pytest.raises(
        InputError, match=r"has no 'test' split to record, but train, val \(`record_samples`\)"
    ):
        train(features, tmp_path / "run", data={"path": str(tmp_path / "x.npz")}, record_samples="test")


@pytest.mark.parametrize(
    ("more", "solver"),
    [
        ({"method": "", "model": {"head": "ridge"}}, "model.head=ridge"),
        ({"method": "softmax", "model": {}, "optim": {"name": "lbfgs"}}, "optim.name=lbfgs"),
    ],
)
def test_a_head_that_is_solved_has_no_epochs_to_record(features, tmp_path, more, solver):
    with pytest.raises(InputError, match=f"record=scores keeps the scores of every epoch, but {solver}"):
        train(features, tmp_path / "run", **more)


def test_a_folder_without_a_recording(features, tmp_path):
    with pytest.raises(InputError, match="holds no run"):
        read_recording(tmp_path / "nothing")
    run = train(features, tmp_path / "run", record="none", epochs=1)
    with pytest.raises(
        InputError, match=r"did not record its scores\. Train it with record=scores: spml train"
    ):
        read_recording(run)
    with pytest.raises(InputError, match=r"epoch 2 was not recorded, only 0 .* to 1"):
        read_recording(train(features, tmp_path / "short", epochs=1)).logits(2)


def rewrite(path, *, metadata=None, **tensors):
    """Change tensors or metadata of a file of recorded scores; a tensor that becomes None is removed."""
    with safe_open(path, framework="pt") as stored:
        metadata = about(path) if metadata is None else metadata
        tensors = {**{name: stored.get_tensor(name) for name in stored.keys()}, **tensors}  # noqa: SIM118
    tensors = {name: value for name, value in tensors.items() if value is not None}
    if BLANK in str(metadata):
        write_checked(path, tensors, metadata)
    else:
        save_file(tensors, path, metadata)


def about(path, **changes):
    """Description of a file in itself, to be written with another checksum."""
    with safe_open(path, framework="pt") as stored:
        content = json.loads(stored.metadata()["spml scores"])
    return {"spml scores": json.dumps({**content, "checksum": BLANK, **changes})}


def flip(path, byte):
    data = bytearray(path.read_bytes())
    data[byte] ^= 1
    path.write_bytes(data)


def labels(value):
    return torch.full((VAL, CLASSES), value, dtype=torch.int8)


DAMAGE = {
    "epoch cut off": lambda s, e: e.write_bytes(e.read_bytes()[:200]),
    "fewer rows": lambda s, e: rewrite(e, logits=torch.zeros(VAL - 1, CLASSES).half()),
    "other type": lambda s, e: rewrite(e, logits=torch.zeros(VAL, CLASSES)),
    "no logits": lambda s, e: rewrite(e, logits=None, other=torch.zeros(1)),
    "other format": lambda s, e: rewrite(e, metadata={"format": "pt"}),
    "newer version": lambda s, e: rewrite(e, metadata=about(e, version=3)),
    "no checksum": lambda s, e: rewrite(e, metadata=about(e, checksum="")),
    "a bit of a score": lambda s, e: flip(e, -1),
    "a bit of a label": lambda s, e: flip(s, -1),
    "another epoch": lambda s, e: rewrite(e, metadata=about(e, epoch=1)),
    "not finite": lambda s, e: rewrite(e, logits=torch.full((VAL, CLASSES), torch.nan).half()),
    "labels of other values": lambda s, e: rewrite(s, observed=labels(2)),
    "truth of other values": lambda s, e: rewrite(s, truth=labels(-1)),
    "truth of another shape": lambda s, e: rewrite(s, truth=labels(1)[1:]),
    "no observed labels": lambda s, e: rewrite(s, observed=None),
    "not JSON": lambda s, e: rewrite(s, metadata={"spml scores": "{"}),
    "deep JSON": lambda s, e: rewrite(s, metadata={"spml scores": "[" * 100_000}),
    "numbers as names": lambda s, e: rewrite(s, metadata=about(s, classes=[1, 2, 3, 4])),
    "half a character": lambda s, e: rewrite(s, metadata=about(s, classes=["a", "b", "c", "\ud800"])),
    "fewer names": lambda s, e: rewrite(s, metadata=about(s, ids=["1"])),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_files_are_refused(run, tmp_path, kind):
    copy = shutil.copytree(run, tmp_path / "run")
    DAMAGE[kind](copy / "scores" / "samples.safetensors", copy / "scores" / "epoch-002.safetensors")
    with pytest.raises(InputError, match=r"\.safetensors: damaged, or not written by this version of spml"):
        read_recording(copy).logits(2)


def test_a_missing_epoch_is_named(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "run")
    (copy / "scores" / "epoch-001.safetensors").unlink()
    with pytest.raises(InputError, match=r"epoch-001\.safetensors: is missing"):
        read_recording(copy)
    for path in (copy / "scores").glob("epoch-*"):
        path.unlink()
    with pytest.raises(InputError, match=r"epoch-000\.safetensors: is missing"):
        read_recording(copy)
