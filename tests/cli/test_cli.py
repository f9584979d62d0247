"""The command line and its Python mirror, as a new user would use them."""

from __future__ import annotations

import gc
import json
import subprocess
import sys

import numpy as np
import pytest
import yaml

import spml
from spml.config import from_dict
from spml.data.writers import writers
from spml.runs.fit.recording import read_recording
from tests.helpers.commands import execute, fails
from tests.helpers.features import HIDE, arrays_of, train_hidden
from tests.helpers.processes import finish_all


@pytest.fixture(scope="module")
def feature_run(features, tmp_path_factory):
    options = "--method gr --epochs 15 --batch_size 16 --optim.lr 0.01 --mean_labels 2.1"
    return train_hidden(features, tmp_path_factory.mktemp("runs") / "features", options)


@pytest.mark.long
def test_help_is_quick_because_it_imports_little():
    script = """
import contextlib, io, sys, spml
from spml.cli.main import main, parse
heavy = {"torch", "timm", "lightning_fabric", "sklearn", "scipy", "matplotlib", "numpy"}
parse(["methods", "gr"])
names = {name.rpartition(".")[2] for name in sys.modules if name.startswith("spml.cli.")}
assert names == {"arguments", "main", "methods", "own_network", "shared"}, names
for words in (["train", "--help-all"], ["data", "convert", "--help"], ["audit", "--help"]):
    with contextlib.suppress(SystemExit):
        main(words)
    assert not heavy & set(sys.modules), (words, heavy & set(sys.modules))
spml.audit.find_missing_labels
"""
    said = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert "SP-score" in said
    assert all(f"{name} (" in " ".join(said.split()) for name in writers())


@pytest.mark.long
def test_a_command_that_predicts_starts_without_what_is_slow(feature_run, features, tmp_path, monkeypatch):
    """Fabric and the compiler take long to import, and collections of garbage what torch makes."""
    script = (
        "import gc, sys; from spml.cli.main import main; main(sys.argv[1:]); "
        "print(*sorted({'torch._dynamo', 'lightning_fabric', 'sklearn', 'matplotlib'} & set(sys.modules)), "
        "gc.isenabled(), gc.get_freeze_count() > 50_000)"
    )
    words = ["predict", str(feature_run), str(features), "--output", str(tmp_path / "labels.csv")]
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True True"
    assert (tmp_path / "labels.csv").is_file()
    monkeypatch.setattr(gc, "freeze", lambda: pytest.fail("torch is imported already"))
    execute("methods an")


def test_a_run_folder_holds_what_the_readme_says(feature_run):
    names = {path.name for path in feature_run.iterdir()}
    assert names == {
        "config.yaml", "metrics.jsonl", "summary.json", "curves.png", "model.safetensors", "model.json",
        "held_out.safetensors", "thresholds.json", "thresholds.png", "report.html",
        "checkpoint.safetensors", "checkpoint.previous.safetensors",
    }  # fmt: skip
    summary = json.loads((feature_run / "summary.json").read_text())
    assert summary["selected"]["mode"] == "observed"
    assert summary["selected"]["mean_labels"] == 2.1
    assert summary["selected"]["mean_labels_source"] == "stated"
    assert summary["data"]["observed"] == dict.fromkeys(("train", "val", "test"), "single-positive")
    assert summary["test"]["mAP"] > 0.9
    card = json.loads((feature_run / "model.json").read_text())
    assert card["classes"] == list("abcd")
    assert card["method"]["name"] == "gr"
    lines = [json.loads(line) for line in (feature_run / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == list(range(1, 16))
    best = max(lines, key=lambda line: line["val/SP"])
    assert summary["selected"]["epoch"] == best["epoch"]


@pytest.mark.parametrize(("epochs", "told"), [(2, True), (3, False)])
def test_a_warmup_that_outlasts_training_is_told(features, tmp_path, capsys, epochs, told):
    train_hidden(features, tmp_path / "run", f"--method mime --epochs {epochs}")
    note = "note: method 'mime' infers nothing before epoch 3 (hp.warmup is 2), and epochs is 2: "
    assert (note in capsys.readouterr().err) == told


def test_the_threshold_gives_the_stated_number_of_labels_per_validation_sample(feature_run, features):
    run = spml.load(feature_run)
    labels = run.predict(arrays_of(features, "val")["X"], thresholds="global").labels
    assert np.mean([len(row) for row in labels]) == pytest.approx(2.1, abs=1 / 60)


def test_methods_lists_and_shows_cards(capsys):
    execute("methods")
    listed = capsys.readouterr().out
    for name in ("an", "bce", "em", "gr"):
        assert f"\n{name} " in f"\n{listed}"
    assert "--model.head ridge, --model.head lda, --model.head mean_difference." in listed.splitlines()[-1]
    execute("methods gr")
    card = capsys.readouterr().out
    assert "IJCAI 2024" in card
    assert "--hp.q2  (default 0.01)" in card
    assert "--hp.w  (default [0, 2])" in card
    assert "    L = mean over B C of [L1 on P, v (k L2 + (1 - k) L3) on U]\n    k = sigmoid(w p + b)" in card
    assert "lasso" in fails(capsys, "methods lasso")


def test_a_method_of_another_package_is_found_by_its_entry_point(tmp_path):
    """A package that is only on the path, as pip would install it."""
    (tmp_path / "their_method.py").write_text(
        "from spml.losses import an_loss\n"
        "from spml.methods import Card, Objective, register\n"
        "@register('theirs')\n"
        "class Theirs(Objective):\n"
        "    '''Theirs.'''\n"
        "    card = Card(title='Theirs', paper='them', year=2026, equations='1', formula='L')\n"
        "    def forward(self, outputs, batch):\n"
        "        return {'theirs': an_loss(outputs.logits, batch.target)}\n"
    )
    info = tmp_path / "their_method-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-method\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[spml.methods]\ntheirs = their_method\n")
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import spml\n"
        "from spml.methods import methods\n"
        "assert 'theirs' in methods()\n"
        "spml.check_objective('theirs')\n"
    )
    finish_all(exec, script, processes=1)


def test_no_command_prints_help_and_exits_with_2(capsys):
    with pytest.raises(SystemExit) as caught:
        execute()
    assert caught.value.code == 2
    assert "train" in capsys.readouterr().out


def test_config_round_trip_and_types():
    config = from_dict({"optim": {"lr": 1}, "hp": {"w": [0, 2]}, "method": "gr"})
    assert config.optim.lr == 1.0
    assert isinstance(config.optim.lr, float)
    from spml.config import to_yaml

    assert from_dict(yaml.safe_load(to_yaml(config))) == config
    for wrong in (
        {"epochs": "many"},
        {"optim": 3},
        {"select": "best"},
        {"data": {"flip": 1}},
        {"epochs": True},
    ):
        with pytest.raises(spml.InputError):
            from_dict(wrong)


@pytest.mark.long
def test_two_devices_on_the_command_line(features, tmp_path):
    options = "--epochs 3 --batch_size 16 --threads 1 --accelerator cpu --optim.name sgd --record scores"
    command = ["train", str(features), *HIDE, *options.split()]
    execute(*command, "--devices 1 --output", tmp_path / "1")
    by_two = ["--devices", "2", "--output", str(tmp_path / "2")]
    subprocess.run([sys.executable, "-m", "spml", *command, *by_two], check=True, timeout=300)
    one, two = (
        [json.loads(line) for line in (tmp_path / n / "metrics.jsonl").read_text().splitlines()] for n in "12"
    )
    for mine, theirs in zip(one, two, strict=True):
        assert mine["train/loss"] == pytest.approx(theirs["train/loss"], rel=1e-5)
        assert mine["val/SP"] == pytest.approx(theirs["val/SP"], rel=1e-4)
    recordings = [read_recording(tmp_path / devices) for devices in "12"]
    assert recordings[0].ids == recordings[1].ids
    for epoch in range(4):
        first, second = (recording.logits(epoch) for recording in recordings)
        assert second == pytest.approx(first, rel=2**-10, abs=1e-4)
