"""`spml train`: its two helps, and what it says before and after training."""

from __future__ import annotations

import re
from contextlib import contextmanager

import pytest
import yaml

from spml.cli.main import parse
from spml.config import from_dict, read_yaml
from spml.runs.train import run_training
from tests.helpers.commands import execute, run
from tests.helpers.features import HIDE
from tests.helpers.training import stopping_after

QUICK = [*HIDE, "--method gr --epochs 1 --threads 1"]


def help_of(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        execute("train", *arguments)
    assert stopped.value.code == 0
    return capsys.readouterr().out


def test_the_short_help_lists_a_dozen_options_and_three_examples(capsys):
    text = help_of(capsys, "--help")
    options = re.findall(r"^  (--[\w.-]+)", text, re.M)
    assert 20 <= len(options) <= 27
    assert {"--method", "--head", "--backbone", "--weights", "--frozen", "--lr", "--mean_labels"} <= {
        *options
    }
    examples = re.findall(r"^  spml (train .+?)  +", text, re.M)
    assert len(examples) == 3
    for example in examples:
        assert parse(example.split()).path == example.split()[1]
    assert "--frozen, --model.frozen {auto,yes,no}" in text
    assert "Number of passes over the training set (default: 20)" in " ".join(text.split())
    assert "--help-all" in text
    assert len(text.splitlines()) < 80
    assert help_of(capsys, "photos", "-h") == text


def test_print_config_shows_the_configuration_of_the_run_that_would_follow(features, tmp_path, capsys):
    execute("train", features, *QUICK, "--lr 0.02 --print_config --output", tmp_path / "run")
    captured = capsys.readouterr()
    assert not (tmp_path / "run").exists()
    settings = yaml.safe_load(captured.out)
    assert settings["optim"]["lr"] == 0.02
    assert settings["model"]["backbone"] == "none"
    (tmp_path / "printed.yaml").write_text(captured.out)
    execute("train --config", tmp_path / "printed.yaml")
    *settings, _, _ = (tmp_path / "run" / "config.yaml").read_text().splitlines(keepends=True)
    assert "".join(settings) == captured.out  # the last lines name the run, and a checksum
    execute("train --output", tmp_path / "run", "--resume --print-config")
    assert capsys.readouterr().out == captured.out
    assert read_yaml(tmp_path / "printed.yaml").output == str(tmp_path / "run")


def test_print_config_of_data_that_is_not_there_is_an_error(tmp_path, capsys):
    code, out, err = run(capsys, "train", tmp_path / "nowhere", "--print_config")
    assert (code, out) == (2, "")
    assert "no such file or folder" in err


def stop_in(monkeypatch, name, *command):
    """Train, and press Ctrl-C in a function of the program."""

    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(name, interrupt)
        with pytest.raises(SystemExit) as stopped:
            execute(*command)
    assert stopped.value.code == 130


def test_ctrl_c_after_the_last_epoch_says_what_is_saved(features, tmp_path, capsys, monkeypatch):
    output = tmp_path / "run"
    command = ["train", features, *QUICK, "--output", output]
    stop_in(monkeypatch, "spml.runs.train.write_results", *command)
    assert capsys.readouterr().err.splitlines()[-1] == (
        "spml train: stopped after the last epoch: training is complete, the final predictions and the "
        "summary are missing; everything up to here is saved. Continue with the same command and --resume."
    )
    trained = (output / "metrics.jsonl").read_bytes()
    execute(*command, "--resume")
    assert "epoch   1/1" not in capsys.readouterr().err
    assert (output / "metrics.jsonl").read_bytes() == trained
    assert (output / "summary.json").is_file()


def test_ctrl_c_while_nothing_is_saved_says_so(features, tmp_path, capsys, monkeypatch):
    output = tmp_path / "run"
    command = ["train", features, "--head ridge --threads 1 --output", output]
    stop_in(monkeypatch, "spml.runs.train.resolve", *command)
    assert capsys.readouterr().err == "spml train: interrupted; nothing was written.\n"
    for name in ("spml.runs.fit.build.Solver", "spml.runs.train.write_results"):
        stop_in(monkeypatch, name, *command, "--overwrite")
        assert capsys.readouterr().err.splitlines()[-1] == (
            f"spml train: interrupted; {output} holds no checkpoint yet. Start again with the same command "
            "and --overwrite."
        )


def test_the_bar_of_a_resumed_run_starts_where_it_stopped(features, tmp_path, monkeypatch):
    shown = []

    @contextmanager
    def progress(total, label):
        shown.append((total, []))
        yield shown[-1][1].append

    monkeypatch.setattr("spml.runs.train.progress", progress)
    settings = from_dict({
        "data": {"path": str(features), "unlisted": "negative", "observe": "single"},
        "method": "an", "epochs": 3, "threads": 1, "output": str(tmp_path / "run"),
    })  # fmt: skip
    with stopping_after(2):
        run_training(settings)
    run_training(settings, resume=True)
    (total, first), (same, second) = shown
    assert total == same == 3 * 160
    assert sum(first) == second[0] == 2 * 160
    assert sum(second) == total
