"""A run that starts from another: what is carried over, what is not and why, what is refused."""

from __future__ import annotations

import hashlib
import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import spml
from spml.config import read_yaml
from spml.data import Samples
from spml.data.matrix import FeatureMatrix
from spml.engine.checkpoint import BLANK, load_checkpoint, write_checked
from spml.labels import ObservedLabels
from spml.runs.settle.init_from import fingerprint
from tests.helpers.commands import execute, fails
from tests.helpers.features import BACKBONE, HIDE, arrays_of, copy_features, make_weights, train_hidden
from tests.helpers.photos import make_photos

STILL = "--epochs 1 --optim.lr 1e-30"
ROLE = "--method role --mean_labels 2"


@pytest.fixture(scope="module")
def first(features, tmp_path_factory):
    """Phase 1: ROLE on features."""
    output = tmp_path_factory.mktemp("runs") / "first"
    return train_hidden(features, output, ROLE, "--epochs 6 --optim.lr 0.01 --model.dropout 0.1")


def summary(folder):
    return json.loads((folder / "summary.json").read_text())


def last(folder):
    return json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])


def scores_of(folder):
    return {key: value for key, value in summary(folder)["validation"].items() if key != "seconds"}


def test_the_state_of_the_best_epoch_is_kept(first):
    state, saved = load_file(first / "objective.safetensors"), load_checkpoint(first)
    assert list(state) == ["estimates"]
    assert state["estimates"].shape == (160, 4)
    assert torch.equal(state["estimates"], saved["loop"]["best_objective"]["estimates"])
    if saved["loop"]["best_epoch"] == 5:
        assert torch.equal(state["estimates"], saved["objective"]["estimates"])


def test_nothing_is_lost_when_nothing_is_learnt(first, features, tmp_path, capsys):
    output = train_hidden(features, tmp_path / "second", ROLE, STILL, "--init-from", first)
    assert "state of the method: carried" in capsys.readouterr().err
    assert scores_of(output) == scores_of(first)
    assert summary(output)["test"] == summary(first)["test"]
    one, two = (load_file(folder / "model.safetensors") for folder in (first, output))
    assert list(one) == list(two)
    assert "top.scaling.mean" in one
    for name in one:
        assert torch.equal(one[name], two[name]), name
    mine, theirs = (load_file(folder / "objective.safetensors") for folder in (output, first))
    assert [*mine] == [*theirs] == ["estimates"]
    assert torch.equal(mine["estimates"], theirs["estimates"])
    assert summary(output)["init_from"] == {
        "run": str(first),
        "weights_sha256": json.loads((first / "model.json").read_text())["weights_sha256"],
        "objective": "carried",
    }
    config = read_yaml(output / "config.yaml")
    assert config.init_from == str(first)
    assert (config.model.head, config.model.dropout, config.model.backbone) == ("linear", 0.1, "none")
    execute("train --config", output / "config.yaml", "--output", tmp_path / "third")
    assert scores_of(tmp_path / "third") == scores_of(first)


def test_the_bias_start_is_not_applied_again(first, features, tmp_path):
    options = STILL, "--method an --model.head_bias prior --init_from", first
    run = train_hidden(features, tmp_path / "run", *options)
    assert torch.equal(*(load_file(each / "model.safetensors")["top.head.bias"] for each in (first, run)))
    assert summary(run)["head_bias"] == {"start": "init_from"}


def test_scores_are_those_of_the_method_and_not_of_the_first_run(first, features, tmp_path):
    options = STILL, "--method softmax --init_from", first
    train_hidden(features, tmp_path / "own", *options)
    train_hidden(features, tmp_path / "chosen", *options, "--model.scores logits")
    found = [json.loads((tmp_path / name / "model.json").read_text())["top"] for name in ("own", "chosen")]
    assert [top["scores"] for top in found] == ["log_softmax", "logits"]
    assert json.loads((first / "model.json").read_text())["top"]["scores"] == "logits"
    assert read_yaml(tmp_path / "own" / "config.yaml").model.scores == "log_softmax"
    # What a user is shown are probabilities, and the threshold is one for them.
    predicted = [spml.load(tmp_path / name).predict(features) for name in ("own", "chosen")]
    np.testing.assert_allclose(predicted[0].scores.sum(1), 1.0, rtol=1e-5)
    assert np.abs(predicted[1].scores.sum(1) - 1.0).max() > 0.05
    assert sum(map(len, predicted[0].labels)) > 0


def test_training_goes_on_from_there(first, features, tmp_path):
    anew = last(train_hidden(features, tmp_path / "anew", ROLE, "--epochs 1"))
    on = last(train_hidden(features, tmp_path / "on", ROLE, "--epochs 1 --init_from", first))
    assert on["val/mAP"] > anew["val/mAP"] + 0.03
    assert on["train/loss"] < anew["train/loss"]


def not_carried(folder):
    reason = summary(folder)["init_from"]["objective"]
    assert reason.startswith("not carried: ")
    return reason


@pytest.mark.long
def test_a_state_is_carried_only_where_it_means_the_same(first, features, tmp_path, capsys):
    named = copy_features(features, tmp_path / "named.npz", names=[f"n{i}" for i in range(300)])
    other = "it had other training samples or labels"
    for source, options, reason in (
        (features, ("--method an",), "it was trained with role, this run with an"),
        (features, (ROLE, "--data.observe_seed 1"), other),
        (named, (ROLE,), other),
    ):
        run = train_hidden(source, tmp_path / "run", *options, STILL, "--overwrite --init_from", first)
        assert not_carried(run) == f"not carried: {reason}"
        assert f"not carried: {reason}" in capsys.readouterr().err
        assert scores_of(run)["val/mAP"] == scores_of(first)["val/mAP"]
    an = train_hidden(features, tmp_path / "an", "--method an", STILL)
    gr = train_hidden(features, tmp_path / "gr", "--method gr", STILL, "--init_from", an)
    assert summary(gr)["init_from"]["objective"] == "none"
    assert not (gr / "objective.safetensors").exists()


def test_a_state_of_another_shape_or_damaged_or_missing(first, features, tmp_path, capsys):
    copy = tmp_path / "copy"
    shutil.copytree(first, copy)
    state = load_file(first / "objective.safetensors")
    from safetensors import safe_open

    with safe_open(first / "objective.safetensors", framework="pt") as stored:
        about = {**stored.metadata(), "checksum": BLANK}
    again = ["train", features, *HIDE, ROLE, STILL, "--init_from", copy, "--output", tmp_path / "run"]
    for wrong in (
        {"estimates": state["estimates"][:, :3].contiguous()},
        {"estimates": state["estimates"].double()},
        {"others": state["estimates"]},
    ):
        write_checked(copy / "objective.safetensors", wrong, about)
        execute(*again, "--overwrite")
        assert "another kind or shape" in not_carried(tmp_path / "run")
    save_file(state, copy / "objective.safetensors", {**about, "checksum": ""})
    assert "its checksum is missing" in fails(capsys, *again, "--overwrite")
    (copy / "objective.safetensors").write_bytes(b"damaged")
    assert "objective.safetensors: damaged" in fails(capsys, *again, "--overwrite")
    (copy / "objective.safetensors").unlink()
    execute(*again, "--overwrite")
    assert "objective.safetensors is missing" in not_carried(tmp_path / "run")


def test_what_does_not_fit_is_refused(first, features, tmp_path, capsys):
    start, output = [*HIDE, "--init_from", first], ["--output", tmp_path / "run"]
    arrays = arrays_of(features)
    for changed, told in (
        ({"classes": list("acbd")}, "class 1 (counted from 0) is 'b' instead of 'c'"),
        ({"classes": list("abce")}, "class 3 (counted from 0) is 'd' instead of 'e'"),
        ({"Y": np.hstack([arrays["Y"]] * 2), "classes": list("abcdefgh")}, "4 instead of 8"),
        ({"X": arrays["X"][:, :9]}, "takes 10 features per sample, but other has 9"),
    ):
        other = copy_features(features, tmp_path / "other.npz", **changed)
        assert told in fails(capsys, "train", other, *start, *output)
    for setting, value, theirs in (
        ("head", "mlp", "'linear'"), ("dropout", "0.5", "0.1"), ("scaling", "raw", "'standard'"),
        ("hidden", "7", "512"), ("backbone", "resnet18", "'none'"),
    ):  # fmt: skip
        said = fails(capsys, "train", features, *start, f"--model.{setting}", value, *output)
        assert f"model.{setting} is" in said
        assert f"{first} (`init_from`) has {theirs}" in said
    assert "solved from scratch" in fails(capsys, "train", features, *start, "--head ridge", *output)
    assert "can't be both" in fails(capsys, "train", features, *start, "--overwrite --output", first)
    assert (first / "model.json").exists()
    assert not (tmp_path / "run").exists()


def test_folders_that_hold_no_finished_run(first, features, tmp_path, capsys):
    output = ["--output", tmp_path / "run"]
    for nothing, message in (
        (tmp_path / "missing", "no such folder"),
        (features, "is a file; name the folder of a run"),
        (tmp_path, "holds no finished run to start from"),
    ):
        said = fails(capsys, "train", features, *HIDE, "--init_from", nothing, *output)
        assert message in said
    copy = tmp_path / "copy"
    for missing in (("summary.json",), ("summary.json", "model.json", "model.safetensors")):
        shutil.copytree(first, copy)
        for name in missing:
            (copy / name).unlink()
        said = fails(capsys, "train", features, *HIDE, "--init_from", copy, *output)
        assert f"spml train --output {copy} --resume" in said
        shutil.rmtree(copy)
    shutil.copytree(first, copy)
    (copy / "model.safetensors").write_bytes(b"damaged")
    assert "model.safetensors" in fails(capsys, "train", features, *HIDE, "--init_from", copy, *output)


def test_the_fingerprint_is_of_names_and_labels():
    names = ('a "b".jpg', "ü.jpg", "c", "d")
    samples = Samples(names, FeatureMatrix(np.eye(4)), ObservedLabels.from_index([0, 1, 0, 1], 2))
    expected = hashlib.sha256(json.dumps(names).encode() + samples.observed.fingerprint().encode())
    assert fingerprint(samples) == expected.hexdigest()


def test_a_run_that_started_from_another_is_resumed_only_with_that_one(first, features, tmp_path, capsys):
    start, run = tmp_path / "start", tmp_path / "run"
    shutil.copytree(first, start)
    command = ["train", features, *HIDE, ROLE, "--epochs 2 --threads 1 --init_from", start, "--output", run]
    execute(*command)
    before = (run / "model.safetensors").read_bytes()
    execute(*command, "--resume")
    assert (run / "model.safetensors").read_bytes() == before
    shutil.rmtree(start)
    train_hidden(features, start, ROLE, "--epochs 1 --model.dropout 0.1")
    assert "the run that it started from" in fails(capsys, *command, "--resume")


@pytest.fixture(scope="module")
def frozen(tmp_path_factory):
    """Photos, and phase 1 on them: ROLE on the features of a frozen backbone."""
    folder = tmp_path_factory.mktemp("frozen")
    photos, weights = make_photos(folder / "photos", per_class=12), make_weights(folder / "tiny.safetensors")
    run = spml.train(
        photos, method="role", mean_labels=1.5, epochs=3, threads=1, model={"weights": str(weights)},
        data={"workers": 0}, optim={"lr": 0.03}, output=str(folder / "first"), quiet=True,
    )  # fmt: skip
    return photos, weights, run.folder


def second(frozen, output, size=0, **settings):
    photos, _, first = frozen
    return spml.train(
        photos, method="role", mean_labels=1.5, threads=1, data={"workers": 0, "size": size, "flip": False},
        init_from=str(first), output=str(output), quiet=True, **settings,
    ).folder  # fmt: skip


@pytest.mark.long
def test_linear_initialisation_from_a_frozen_backbone_to_all_weights(frozen, tmp_path):
    _, weights, first = frozen
    still = {"epochs": 1, "optim": {"lr": 1e-30}}
    again = second(frozen, tmp_path / "again", **still)
    assert scores_of(again) == scores_of(first)
    assert read_yaml(again / "config.yaml").model.frozen == "yes"
    tuned = second(frozen, tmp_path / "tuned", model={"frozen": "no", "weights": str(weights)}, **still)
    assert summary(tuned)["init_from"]["objective"] == "carried"
    one, two = (load_file(folder / "model.safetensors") for folder in (first, tuned))
    parameters = [name for name in one if "running" not in name and "num_batches" not in name]
    assert len(parameters) > 20
    for name in parameters:
        assert torch.allclose(one[name], two[name], rtol=0, atol=1e-20), name
    config = read_yaml(tuned / "config.yaml")
    assert (config.model.frozen, config.model.backbone.split(".")[0]) == ("no", BACKBONE)
    assert config.optim.head_lr_factor == 1.0
    moved = second(frozen, tmp_path / "moved", model={"frozen": "no"}, epochs=1)
    assert read_yaml(moved / "config.yaml").optim.lr == 1e-4
    two = load_file(moved / "model.safetensors")
    assert not torch.equal(one["backbone.network.conv_stem.weight"], two["backbone.network.conv_stem.weight"])
    assert not torch.equal(one["top.head.weight"], two["top.head.weight"])


@pytest.mark.long
def test_images_may_be_larger_in_the_second_phase(frozen, tmp_path):
    larger = second(frozen, tmp_path / "larger", size=48, model={"frozen": "no"}, epochs=1)
    assert summary(larger)["init_from"]["objective"] == "carried"
    assert json.loads((larger / "model.json").read_text())["backbone"]["size"] == 48


@pytest.mark.long
def test_a_solved_head_can_be_fine_tuned(frozen, tmp_path):
    photos, weights, _ = frozen
    settings = {"threads": 1, "data": {"workers": 0}, "quiet": True}
    ridge = spml.train(
        photos, model={"head": "ridge", "weights": str(weights)}, output=str(tmp_path / "ridge"), **settings
    )
    still = spml.train(
        photos, method="an", init_from=str(ridge.folder), epochs=1, optim={"lr": 1e-30},
        output=str(tmp_path / "still"), **settings,
    )  # fmt: skip
    assert scores_of(still.folder) == scores_of(ridge.folder)
    tuned = spml.train(
        photos, method="an", init_from=str(ridge.folder), model={"frozen": "no"}, epochs=1,
        output=str(tmp_path / "tuned"), **settings,
    )  # fmt: skip
    assert summary(tuned.folder)["init_from"]["objective"] == "none"
    assert summary(tuned.folder)["method"] == "an"


def test_other_weights_and_features_in_place_of_images_are_refused(frozen, features, tmp_path, capsys):
    photos, _, first = frozen
    output, start = ["--output", tmp_path / "run"], ["--init_from", first]
    said = fails(capsys, "train", photos, *start, "--model.weights random", *output)
    assert "model.weights is 'random'" in said
    assert "has 'tiny.safetensors'" in said
    arrays = {
        "X": np.zeros((9, 4), np.float32), "Y": np.eye(3, dtype=np.uint8)[np.arange(9) % 3],
        "classes": np.array(["blue", "green", "red"]),
    }  # fmt: skip
    np.savez(tmp_path / "colours.npz", **arrays)
    said = fails(capsys, "train", tmp_path / "colours.npz", *start, *output)
    assert "takes images, but colours holds features" in said
