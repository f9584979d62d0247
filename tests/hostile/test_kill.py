"""kill -9 at random moments, resumed each time: the weights are those of a run that was never touched.

The searches `points` and `flips` kill at every operation on files, and damage every file; here is a sample.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.helpers.photos import make_photos
from tests.helpers.processes import finish, finish_function, started
from tests.hostile import flips, points

KILLS = 4


def command(photos: Path, output: Path, *more: str) -> list[str]:
    settings = {
        "--method": "gr",
        "--model.backbone": "test_efficientnet",
        "--model.weights": "random",
        "--model.dropout": "0.2",
        "--data.size": "32",
        "--data.workers": "1",
        "--optim.ema": "0.9",
        "--optim.schedule": "cosine",
        "--epochs": "8",
        "--batch_size": "16",
        "--checkpoint_steps": "1",
        "--record": "scores",
        "--threads": "1",
        "--output": str(output),
    }
    return ["train", str(photos), *(x for pair in settings.items() for x in pair), *more]


def without_times(path: Path) -> list[dict]:
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: value for key, value in record.items() if key != "seconds"} for record in records]


def modified(path: Path) -> int:
    """When a file was written, 0 if it is not there: for a moment, only the predecessor is."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


@pytest.mark.long
def test_killed_four_times(tmp_path):
    photos = make_photos(tmp_path / "photos")
    finish(command(photos, tmp_path / "whole"), tmp_path / "said")
    output, kills = tmp_path / "killed", 0
    checkpoint = output / "checkpoint.safetensors"
    moments = random.Random(0)
    while kills < KILLS:
        before = modified(checkpoint)
        with started(command(photos, output, *(["--resume"] if kills else [])), tmp_path / "said") as process:
            while process.is_alive() and modified(checkpoint) in (0, before):
                time.sleep(0.005)
            # In the first steps of this attempt, checkpoints are written at each step: many kills hit one.
            time.sleep(moments.uniform(0, 0.25))
            assert process.is_alive(), f"the run ended after {kills} kills: {(tmp_path / 'said').read_text()}"
        kills += 1
    finish(command(photos, output, "--resume"), tmp_path / "said")
    whole = tmp_path / "whole"
    assert (output / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert without_times(output / "metrics.jsonl") == without_times(whole / "metrics.jsonl")
    scores = [
        {path.name: path.read_bytes() for path in (run / "scores").iterdir()} for run in (output, whole)
    ]
    assert scores[0] == scores[1]
    assert len(scores[0]) == 10  # before the first epoch, after 8, and which samples these are
    leftovers = [path.name for path in output.iterdir() if path.name.startswith(".")]
    assert not leftovers


@pytest.mark.long
@pytest.mark.parametrize("frozen", ["yes", "no"])
def test_a_prediction_killed_three_times_writes_the_same_file(tmp_path, frozen):
    photos = make_photos(tmp_path / "photos", per_class=100)
    train = command(make_photos(tmp_path / "few", per_class=8), tmp_path / "run", "--model.frozen", frozen)
    train[train.index("--epochs") + 1] = "1"
    finish([*train, "--optim.ema", "0"], tmp_path / "said")
    for name in ("whole", "killed"):
        shutil.copytree(tmp_path / "run", tmp_path / name / "run")

    def predict(name):
        return [
            *("predict", str(tmp_path / name / "run"), str(photos)),
            *("--output", str(tmp_path / f"{name}.csv"), "--batch_size", "2", "--workers", "1"),
        ]

    finish(predict("whole"), tmp_path / "said")
    partial, output = tmp_path / "killed.csv.partial", tmp_path / "killed.csv"
    kills, moments, sizes = 0, random.Random(0), []
    while kills < 3:
        before = partial.stat().st_size if partial.exists() else 0
        with started(predict("killed"), tmp_path / "said") as process:
            while process.is_alive() and not (partial.exists() and partial.stat().st_size > before):
                time.sleep(0.002)
            time.sleep(moments.uniform(0, 0.03))
        assert not output.exists(), f"the prediction ended after {kills} kills"
        kills += 1
        sizes.append(partial.stat().st_size)
    assert sizes == sorted(sizes)
    finish(predict("killed"), tmp_path / "said")
    assert output.read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert len(output.read_text().splitlines()) == 301
    assert not list(tmp_path.glob("*.partial*"))


@pytest.mark.long
def test_ctrl_c_finishes_the_checkpoint_and_says_how_to_go_on(tmp_path):
    photos, output = make_photos(tmp_path / "photos"), tmp_path / "run"
    with started(command(photos, output), tmp_path / "said", heeded=signal.SIGINT) as process:
        while process.is_alive() and not (output / "checkpoint.safetensors").exists():
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGINT)
        process.join(60)
        assert process.exitcode == 130
    said = (tmp_path / "said").read_text()
    assert "everything up to here is saved" in said
    assert "--resume" in said
    assert "Traceback" not in said
    finish(command(photos, output, "--resume"), tmp_path / "said")
    assert len(without_times(output / "metrics.jsonl")) == 8


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs fork and /proc")
@pytest.mark.parametrize(
    ("search", "words"),
    [
        (points.main, "network predict convert --every 80"),
        (flips.main, "auto sample review unfinished --places 1"),
    ],
    ids=["kills", "damage"],
)
def test_a_sample_of_kills_at_every_operation_and_of_damage_to_every_file(tmp_path, search, words):
    finish_function(search, tmp_path / "said", [str(tmp_path / "work"), *words.split()])
    assert ", 0 wrong" in (tmp_path / "said").read_text()
