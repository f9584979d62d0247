"""`spml train`: its two helps, and what it says before and after training."""

from __future__ import annotations

import re

import pytest
import yaml

from spml.cli.arguments import parse
from spml.cli.main import main, make_parser
from spml.config import read_yaml
from tests.runs.test_closed_form_runs import make_features

QUICK = ["--data.unlisted", "negative", "--data.observe", "single", "--epochs", "1", "--threads", "1"]


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    return make_features(tmp_path_factory.mktemp("data") / "features.npz")


def help_of(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        main(["train", *arguments])
    assert stopped.value.code == 0
    return capsys.readouterr().out


def test_the_short_help_lists_a_dozen_options_and_three_examples(capsys):
    text = help_of(capsys, "--help")
    options = re.findall(r"^  (--[\w.-]+)", text, re.M)
    assert 12 <= len(options) <= 16
    assert {"--method", "--head", "--backbone", "--weights", "--frozen", "--lr", "--mean_labels"} <= {
        *options
    }
    examples = re.findall(r"^  spml (train .+?)  +", text, re.M)
    assert len(examples) == 3
    for example in examples:
        assert parse(make_parser(with_figures=False), example.split()).train.path == example.split()[1]
    assert "--frozen {auto,yes,no}" in text
    assert "Number of passes over the training set. (default: 20)" in " ".join(text.split())
    assert "--help-all" in text
    assert len(text.splitlines()) < 60
    assert help_of(capsys, "photos", "-h") == text


def test_the_full_help_lists_every_setting_and_its_other_name(capsys):
    text = help_of(capsys, "--help-all")
    options = {*re.findall(r"--[\w.-]+", text)}
    assert {"--data.observe_noise", "--optim.schedule", "--record_samples", "--print_config"} <= options
    for setting, short in {"optim.lr": "lr", "model.frozen": "frozen", "init_from": "init-from"}.items():
        assert re.search(rf"--{setting} [\w{{,}}]+, --{short} ", text)


def test_print_config_shows_the_configuration_of_the_run_that_would_follow(features, tmp_path, capsys):
    command = ["train", str(features), *QUICK, "--lr", "0.02", "--output", str(tmp_path / "run")]
    main([*command, "--print_config"])
    captured = capsys.readouterr()
    assert not (tmp_path / "run").exists()
    settings = yaml.safe_load(captured.out)
    assert settings["optim"]["lr"] == 0.02
    assert settings["model"]["backbone"] == "none"
    (tmp_path / "printed.yaml").write_text(captured.out)
    main(["train", "--config", str(tmp_path / "printed.yaml")])
    assert (tmp_path / "run" / "config.yaml").read_text() == captured.out
    main(["train", "--output", str(tmp_path / "run"), "--resume", "--print-config"])
    assert capsys.readouterr().out == captured.out
    assert read_yaml(tmp_path / "printed.yaml").output == str(tmp_path / "run")


def test_print_config_of_data_that_is_not_there_is_an_error(tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["train", str(tmp_path / "nowhere"), "--print_config"])
    captured = capsys.readouterr()
    assert (stopped.value.code, captured.out) == (2, "")
    assert "no such file or folder" in captured.err
