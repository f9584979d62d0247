"""Training again like a finished run: what is carried along, what is stated, what is settled again."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

import spml
from spml.cli.main import main
from spml.config import differences, read_yaml
from spml.runs.folder.layout import read_config, write_config
from tests.helpers.commands import fails
from tests.helpers.features import HIDE, make_features


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("like")


@pytest.fixture(scope="module")
def features(folder):
    return make_features(folder / "x.npz")


@pytest.fixture(scope="module")
def run(folder, features):
    output = folder / "run"
    main([
        "train", str(features), *HIDE, "--data.observe_seed", "3", "--method", "gr", "--hp.q2", "0.6",
        "--epochs", "2", "--lr", "0.02", "--threads", "1", "--output", str(output),
    ])  # fmt: skip
    return output


def again(run, output, *words):
    main(["train", *words, "--like", str(run), "--output", str(output)])
    return read_yaml(output / "config.yaml")


def test_everything_is_carried_along(run, tmp_path):
    config = again(run, tmp_path / "again")
    assert differences(config, read_yaml(run / "config.yaml")) == ["output"]
    weights = [(folder / "model.safetensors").read_bytes() for folder in (run, tmp_path / "again")]
    assert weights[0] == weights[1]


def test_what_is_stated_takes_its_place(run, features, tmp_path):
    config = again(
        run, tmp_path / "again", str(features), "--epochs", "1", "--hp.q3", "0.9", "--data.val_share", "0.3"
    )
    assert differences(config, read_yaml(run / "config.yaml")) == [
        "data.val_share", "epochs", "hp.q3", "output",
    ]  # fmt: skip
    assert config.hp == {"q2": 0.6, "q3": 0.9}


def test_k_of_the_thresholds_is_carried_along_unless_it_is_only_assumed(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "run")
    assert again(copy, tmp_path / "assumed").mean_labels is None
    main(["thresholds", str(copy), "--mean_labels", "2.25"])
    assert again(copy, tmp_path / "stated").mean_labels == 2.25
    assert again(copy, tmp_path / "other", "--mean_labels", "3").mean_labels == 3
    (copy / "thresholds.json").unlink()
    assert again(copy, tmp_path / "missing").mean_labels is None


def test_with_another_method_its_settings_are_settled_again(run, tmp_path):
    config = again(run, tmp_path / "softmax", "--method", "softmax")
    assert (config.method, config.hp, config.model.scores) == ("softmax", {}, "log_softmax")
    assert (config.optim.lr, config.epochs, config.data.observe_seed) == (1e-3, 2, 3)
    config = again(run, tmp_path / "ridge", "--head", "ridge")
    assert (config.method, config.model.head, config.hp) == ("", "ridge", {})
    config = again(tmp_path / "ridge", tmp_path / "back", "--method", "an", "--epochs", "1")
    assert (config.method, config.model.head) == ("an", "linear")


def test_other_data_is_read_as_the_command_line_says(run, features, tmp_path):
    with np.load(features) as stored:
        arrays = dict(stored)
    arrays["Y"] = np.where(arrays["Y"] == 1, 1.0, np.nan).astype(np.float32)
    np.savez(tmp_path / "reviewed.npz", **arrays)
    config = again(run, tmp_path / "again", str(tmp_path / "reviewed.npz"))
    assert (config.data.unlisted, config.data.observe, config.data.observe_seed) == ("unknown", "none", 0)
    assert (config.method, config.hp, config.optim.lr) == ("gr", {"q2": 0.6}, 0.02)
    assert spml.load(tmp_path / "again").summary["data"]["observed"]["train"] == "partial"


def test_what_is_refused(run, tmp_path, capsys):
    message = fails(capsys, "train", "--like", str(tmp_path / "nothing"))
    assert f"{tmp_path / 'nothing'}: no such folder" in message
    generator = np.random.default_rng(0)
    spml.train(
        generator.normal(size=(80, 4)), np.arange(80) % 3, head="ridge", threads=1, quiet=True,
        output=tmp_path / "memory",
    )  # fmt: skip
    message = fails(capsys, "train", "--like", str(tmp_path / "memory"), "--output", str(tmp_path / "again"))
    assert (
        "was trained on data in memory, so `like` can't read it again. Name data: spml train DATA" in message
    )


def test_an_audit_and_its_target_are_repeated(tmp_path, capsys, caplog):
    """On the same data, and on a table of it in which the groups have another column."""
    features = make_features(tmp_path / "x.npz")
    with np.load(features) as stored:
        arrays = dict(stored)
    patients = np.array([f"p{row // 3}" for row in range(300)])
    np.savez(tmp_path / "x.npz", **arrays, patient=patients)
    first, words = tmp_path / "first", ["--head", "ridge", "--threads", "1"]
    main(["train", str(tmp_path / "x.npz"), *HIDE, "--data.group", "patient", *words, "--output", str(first)])
    main(["audit", "sample", str(first), "--rows", "30", "--output", str(tmp_path / "s.csv")])
    with (tmp_path / "s.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    with (tmp_path / "s.csv").open("w", newline="") as stream:
        table = csv.DictWriter(stream, rows[0])
        table.writeheader()
        for row in rows:
            names = np.flatnonzero(arrays["Y"][int(row["file"])])
            table.writerow(row | {"labels": "|".join("abcd"[c] for c in names), "complete": "yes"})
    main(["audit", "use", str(tmp_path / "s.csv"), str(first)])
    main(["thresholds", str(first), "--target", "recall=0.8"])
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

    np.savez(tmp_path / "y.npz", **arrays, group=patients)
    (tmp_path / "s.csv").write_text((tmp_path / "s.csv").read_text() + "\n")
    caplog.clear()
    config = again(first, tmp_path / "third", str(tmp_path / "y.npz"), *HIDE, "--data.observe_seed", "5")
    assert config.data.group == "group"
    third = spml.load(tmp_path / "third").thresholds
    assert (third.mean_labels, third.target) == (before.mean_labels, before.target)
    assert "s.csv: was changed since" in caplog.text
    assert "other labels of the held-out samples are known" in caplog.text

    config = again(
        first, tmp_path / "fourth", str(features), *HIDE, "--mean_labels", "2.5", "--data.group", ""
    )
    fourth = spml.load(tmp_path / "fourth").thresholds
    assert (fourth.mean_labels.value, fourth.mean_labels.source) == (2.5, "stated")
    assert (fourth.target, config.data.group) == (before.target, "")


def test_a_column_of_groups_that_other_data_lacks_is_named(run, features, tmp_path, caplog):
    copy = shutil.copytree(run, tmp_path / "run")
    config = read_config(copy)
    write_config(copy, replace(config, data=replace(config.data, group="patient")))
    shutil.copy(features, tmp_path / "other.npz")
    caplog.set_level("INFO", "spml")
    assert again(copy, tmp_path / "again", str(tmp_path / "other.npz"), *HIDE).data.group == ""
    assert "other.npz has no column 'patient' as the data of" in caplog.text


def test_settings_of_a_finished_run_are_not_taken_for_stated_ones(tmp_path, caplog):
    data = make_features(tmp_path / "x.npz")
    main(["train", str(data), *HIDE, "--threads", "1", "--output", str(tmp_path / "auto")])
    caplog.set_level("INFO", "spml")
    config = str(tmp_path / "auto" / "config.yaml")
    main(["train", "--config", config, "--output", str(tmp_path / "config")])
    assert "no effect" not in caplog.text
    main(["train", "--config", config, "--lr", "0.5", "--output", str(tmp_path / "stated")])
    assert "heads of method auto are solved, so optim.lr has no effect" in caplog.text


def test_damaged_thresholds_are_not_passed_over(features, folder, tmp_path, capsys):
    run = tmp_path / "run"
    main(["train", str(features), *HIDE, "--head", "ridge", "--mean_labels", "1.6", "--output", str(run)])
    (run / "thresholds.json").write_bytes((run / "thresholds.json").read_bytes()[:300])
    said = fails(capsys, "train", "--like", str(run), "--output", str(tmp_path / "again"))
    assert "thresholds.json: damaged" in said
