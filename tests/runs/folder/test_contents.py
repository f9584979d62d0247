"""Additions of a run to model.json, and its summary, are checked where they are read."""

from __future__ import annotations

import hashlib
import json
import os

import pytest

import spml
from spml.common.errors import InputError
from spml.common.files import write_checked_json
from spml.config import Config, to_yaml
from spml.runs.folder.contents import read_metrics, read_summary
from spml.runs.folder.layout import read_config, write_config
from tests.helpers.commands import refusal
from tests.helpers.run_folders import SUMMARY, change, save_run


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("threshold", None, "Object missing required field `threshold`"),
        ("threshold", 0.5, "Expected `object`, got `float` - at `$.threshold`"),
        ("threshold.labels_per_sample", 0, "Expected `float` > 0.0 - at `$.threshold.labels_per_sample`"),
        ("threshold.curve", [], "Expected `array` of length >= 1 - at `$.threshold.curve`"),
        ("threshold.curve", [[1.0]], "Expected `array` of length 2, got 1 - at `$.threshold.curve[0]`"),
        (
            "threshold.curve", [[2, 1.0], [1, 0.0]],
            "the numbers of labels per sample must rise - at `$.threshold.curve`",
        ),
        ("method.name", None, "Object missing required field `name` - at `$.method`"),
        ("without_positives", None, "Object missing required field `without_positives`"),
        ("without_positives", ["a", "x"], "there is no class 'x' - at `$.without_positives[1]`"),
        ("feature_names", ["x", "y"], "2 names for 64 features - at `$.feature_names`"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_explained(tmp_path, path, value, words):
    change(save_run(tmp_path), path, value)
    message = refusal(spml.load, tmp_path)
    assert words in message
    assert message.startswith(f"{tmp_path / 'model.json'}: damaged: ")
    assert message.endswith(". Train again.")


def test_a_summary_that_was_damaged_is_refused(tmp_path):
    path = tmp_path / "summary.json"
    write_checked_json(path, SUMMARY)
    written = json.loads(path.read_text())
    assert read_summary(tmp_path) == written
    path.write_text(json.dumps({**written, "test": {"mAP": 0.9}}))
    with pytest.raises(InputError, match="its content does not have the SHA-256 that it states"):
        read_summary(tmp_path)
    for content in ("", "[]", "{}", "[" * 100_000):
        path.write_text(content)
        assert f"{path}: can't be read (" in refusal(read_summary, tmp_path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"selected": None}, "Expected `object`, got `null` - at `$.selected`"),
        ({"data": 1}, "Expected `object`, got `int` - at `$.data`"),
        ({"selected": {}}, "Object missing required field `metric` - at `$.selected`"),
        ({"selected": {"metric": "val/mAP"}}, "there is no number of 'val/mAP' - at `$.validation`"),
        ({"validation": {"val/SP": "good"}}, "there is no number of 'val/SP' - at `$.validation`"),
        ({"data": {"fingerprint": 5}}, "Expected `str`, got `int` - at `$.data.fingerprint`"),
        ({"test": [1]}, "Expected `object | null`, got `array` - at `$.test`"),
        ({"candidates": [{"run": "head"}]}, "Object missing required field `kept` - at `$.candidates[0]`"),
    ],
)
def test_a_wrong_summary_is_explained(tmp_path, changes, words):
    path = tmp_path / "summary.json"
    path.write_text(json.dumps(SUMMARY))
    assert read_summary(tmp_path) == SUMMARY
    path.write_text(json.dumps({**SUMMARY, **changes}))
    assert refusal(read_summary, tmp_path) == (
        f"{path}: can't be read ({words}). Name the folder of a finished run, or train it again."
    )


def test_settings_are_those_that_were_written(tmp_path):
    config = Config(method="em", seed=12, output="é")
    write_config(tmp_path, config)
    assert read_config(tmp_path) == config
    text = (tmp_path / "config.yaml").read_text(encoding="utf-8")
    assert text.startswith(to_yaml(config))

    (tmp_path / "config.yaml").write_text(text.replace("seed: 12", "seed: 13"), encoding="utf-8")
    assert refusal(read_config, tmp_path) == (
        f"{tmp_path / 'config.yaml'}: damaged: its settings do not have the SHA-256 that its last line "
        "states. Restore it, or remove that line to keep a change of your own."
    )
    # With a change that is meant.
    (tmp_path / "config.yaml").write_text(to_yaml(config).replace("seed: 12", "seed: 13"), encoding="utf-8")
    assert read_config(tmp_path).seed == 13


def test_metrics_are_those_of_the_summary(tmp_path):
    lines = b'{"epoch": 1, "train/loss": 0.5}\n{"epoch": 2, "train/loss": 0.25}\n'
    (tmp_path / "metrics.jsonl").write_bytes(lines)
    records = [{"epoch": 1, "train/loss": 0.5}, {"epoch": 2, "train/loss": 0.25}]
    assert read_metrics(tmp_path) == records  # of a run that has not finished
    summary = {"selected": {"metric": "a"}, "validation": {"a": 1}, "data": {"fingerprint": ""}}
    summary["metrics_sha256"] = hashlib.sha256(lines).hexdigest()
    write_checked_json(tmp_path / "summary.json", summary)
    assert read_metrics(tmp_path) == records

    (tmp_path / "metrics.jsonl").write_bytes(lines.replace(b"0.25", b"0.35"))
    assert refusal(read_metrics, tmp_path) == (
        f"{tmp_path / 'metrics.jsonl'}: damaged: it does not have the SHA-256 that summary.json states. "
        "Train again."
    )
    (tmp_path / "metrics.jsonl").write_bytes(b"[1]\n")
    with pytest.raises(InputError, match=r"metrics\.jsonl: damaged \(a line holds no JSON object\)"):
        read_metrics(tmp_path)


def test_a_run_with_a_pipe_is_refused(tmp_path):
    folder = save_run(tmp_path)
    (folder / "thresholds.json").unlink()
    os.mkfifo(folder / "thresholds.json")
    assert refusal(spml.load, folder) == (
        f"{folder / 'thresholds.json'}: is a device or a pipe, which no run has. Remove it."
    )
