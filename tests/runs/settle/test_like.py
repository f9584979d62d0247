"""Training again like a finished run: what is carried along, what is stated, what is settled again."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

import spml
from spml.config import differences, read_yaml
from spml.runs.folder.layout import read_config, write_config
from tests.helpers.audits import fill_in
from tests.helpers.commands import execute, fails
from tests.helpers.features import HIDE, arrays_of, copy_features, train_hidden


@pytest.fixture(scope="module")
def run(features, tmp_path_factory):
    options = "--data.observe_seed 3 --method gr --hp.q2 0.6 --epochs 2 --lr 0.02"
    return train_hidden(features, tmp_path_factory.mktemp("like") / "run", options)


def again(run, output, *words):
    execute("train", *words, "--like", run, "--output", output)
    return read_yaml(output / "config.yaml")


@pytest.mark.long
def test_everything_is_carried_along(run, tmp_path):
    config = again(run, tmp_path / "again")
    assert differences(config, read_yaml(run / "config.yaml")) == ["output"]
    weights = [(folder / "model.safetensors").read_bytes() for folder in (run, tmp_path / "again")]
    assert weights[0] == weights[1]


def test_what_is_stated_takes_its_place(run, features, tmp_path):
    options = "--epochs 1 --hp.q3 0.9 --data.val_share 0.3"
    config = again(run, tmp_path / "again", features, options)
    assert differences(config, read_yaml(run / "config.yaml")) == [
        "data.val_share", "epochs", "hp.q3", "output",
    ]  # fmt: skip
    assert config.hp == {"q2": 0.6, "q3": 0.9}


@pytest.mark.long
def test_k_of_the_thresholds_is_carried_along_unless_it_is_only_assumed(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "run")
    assert again(copy, tmp_path / "assumed").mean_labels is None
    execute("thresholds", copy, "--mean_labels 2.25")
    assert again(copy, tmp_path / "stated").mean_labels == 2.25
    assert again(copy, tmp_path / "other", "--mean_labels 3").mean_labels == 3
    (copy / "thresholds.json").unlink()
    assert again(copy, tmp_path / "missing").mean_labels is None


def test_with_another_method_its_settings_are_settled_again(run, tmp_path):
    config = again(run, tmp_path / "softmax", "--method softmax")
    assert (config.method, config.hp, config.model.scores) == ("softmax", {}, "log_softmax")
    assert (config.optim.lr, config.epochs, config.data.observe_seed) == (1e-3, 2, 3)
    config = again(run, tmp_path / "ridge", "--head ridge")
    assert (config.method, config.model.head, config.hp) == ("", "ridge", {})
    config = again(tmp_path / "ridge", tmp_path / "back", "--method an --epochs 1")
    assert (config.method, config.model.head) == ("an", "linear")


def test_other_data_is_read_as_the_command_line_says(run, features, tmp_path):
    labels = np.where(arrays_of(features)["Y"] == 1, 1.0, np.nan).astype(np.float32)
    config = again(run, tmp_path / "again", copy_features(features, tmp_path / "reviewed.npz", Y=labels))
    assert (config.data.unlisted, config.data.observe, config.data.observe_seed) == ("unknown", "none", 0)
    assert (config.method, config.hp, config.optim.lr) == ("gr", {"q2": 0.6}, 0.02)
    assert spml.load(tmp_path / "again").summary["data"]["observed"]["train"] == "partial"


def test_what_is_refused(run, feature_run, tmp_path, capsys):
    nothing = tmp_path / "nothing"
    assert f"{nothing}: no such folder" in fails(capsys, "train --like", nothing)
    message = fails(capsys, "train --like", feature_run, "--output", tmp_path / "again")
    assert "data in memory, so `like` can't read it again. Name data: spml train DATA" in message
    damaged = shutil.copytree(run, tmp_path / "damaged")
    execute("thresholds", damaged, "--mean_labels 1.6")
    (damaged / "thresholds.json").write_bytes((damaged / "thresholds.json").read_bytes()[:300])
    said = fails(capsys, "train --like", damaged, "--output", tmp_path / "again")
    assert "thresholds.json: damaged" in said


@pytest.mark.long
def test_an_audit_and_its_target_are_repeated(features, tmp_path, capsys, caplog):
    """On the same data, and on a table of it in which the groups have another column."""
    patients = np.array([f"p{row // 3}" for row in range(300)])
    grouped = copy_features(features, tmp_path / "x.npz", patient=patients)
    first = train_hidden(grouped, tmp_path / "first", "--data.group patient --head ridge")
    execute("audit sample", first, "--rows 30 --output", tmp_path / "s.csv")
    truth = arrays_of(features)["Y"]
    fill_in(tmp_path / "s.csv", {str(row): np.array([*"abcd"])[own == 1] for row, own in enumerate(truth)})
    execute("audit use", tmp_path / "s.csv", first)
    execute("thresholds", first, "--target recall=0.8")
    caplog.set_level("INFO", "spml")
    again(first, tmp_path / "second")
    before, after = (spml.load(tmp_path / name).thresholds for name in ("first", "second"))
    assert after.mean_labels == before.mean_labels
    assert (after.target, after.gamma, after.rows.audited) == (before.target, before.gamma, 30)
    assert [cut.share for cut in after.classes] == [cut.share for cut in before.classes]
    told = [json.loads((tmp_path / name / "audited.json").read_text()) for name in ("first", "second")]
    for each in told:
        del each["run"], each["sha256"], each["thresholds_sha256"]
    assert told[0] == told[1]
    k = before.mean_labels.value
    assert f"as in {first}: K = {k:.3g} from 30 audited samples, thresholds for recall=0.8" in caplog.text
    assert "the two scores can be compared" in caplog.text
    assert "no effect" not in caplog.text

    other = copy_features(features, tmp_path / "y.npz", group=patients)
    (tmp_path / "s.csv").write_text((tmp_path / "s.csv").read_text() + "\n")
    caplog.clear()
    config = again(first, tmp_path / "third", other, *HIDE, "--data.observe_seed 5")
    assert config.data.group == "group"
    third = spml.load(tmp_path / "third").thresholds
    assert (third.mean_labels, third.target) == (before.mean_labels, before.target)
    assert "s.csv: was changed since" in caplog.text
    assert "other labels of the held-out samples are known" in caplog.text

    config = again(first, tmp_path / "fourth", grouped, *HIDE, "--mean_labels 2.5 --data.group", "")
    fourth = spml.load(tmp_path / "fourth").thresholds
    assert (fourth.mean_labels.value, fourth.mean_labels.source) == (2.5, "stated")
    assert (fourth.target, config.data.group) == (before.target, "")


def test_a_column_of_groups_that_other_data_lacks_is_named(run, features, tmp_path, caplog):
    copy = shutil.copytree(run, tmp_path / "run")
    config = read_config(copy)
    write_config(copy, replace(config, data=replace(config.data, group="patient")))
    other = shutil.copy(features, tmp_path / "other.npz")
    caplog.set_level("INFO", "spml")
    assert again(copy, tmp_path / "again", other, *HIDE).data.group == ""
    assert "other.npz has no column 'patient' as the data of" in caplog.text


@pytest.mark.long
def test_settings_of_a_finished_run_are_not_taken_for_stated_ones(auto_run, tmp_path, caplog):
    caplog.set_level("INFO", "spml")
    config = auto_run / "config.yaml"
    execute("train --config", config, "--output", tmp_path / "config")
    assert "no effect" not in caplog.text
    execute("train --config", config, "--lr 0.5 --output", tmp_path / "stated")
    assert "heads of method auto are solved, so optim.lr has no effect" in caplog.text
