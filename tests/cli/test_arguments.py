"""A wrong command line gives one line: what was found, what was expected, what comes nearest."""

from __future__ import annotations

import argparse

import pytest
from jsonargparse import ArgumentParser

from spml.cli.arguments import find_command, join_words, parse, subcommands
from spml.cli.main import main, make_parser
from spml.common.errors import InputError


def refuse(capsys, *arguments):
    """Run a command that must fail with exit code 2 and one line, which is returned."""
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    captured = capsys.readouterr()
    assert stopped.value.code == 2
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err.rstrip("\n")


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("trian photos", "spml: unknown command 'trian'. Did you mean train?"),
        ("train photos --epoch 3", "spml train: unknown option --epoch. Did you mean --epochs?"),
        ("train --modle.head ridge", "spml train: unknown option --modle.head. Did you mean --model.head?"),
        ("train -epochs 3", "spml train: unknown option -epochs. Did you mean --epochs?"),
        ("train --dropout .1", "spml train: unknown option --dropout. Did you mean --model.dropout?"),
        ("train --mean-label 2", "spml train: unknown option --mean-label. Did you mean --mean_labels?"),
        (
            "train --zzz 3 photos",
            "spml train: unknown option --zzz. `spml train --help-all` lists the options.",
        ),
        ("train photos --epochs ten", "spml train: --epochs must be a whole number, got 'ten'"),
        ("train photos --epochs 1.5", "spml train: --epochs must be a whole number, got 1.5"),
        ("train photos --lr high", "spml train: --lr must be a number, got 'high'"),
        ("train photos --mean-labels=two", "spml train: --mean_labels must be a number, got 'two'"),
        ("train photos --data.flip maybe", "spml train: --data.flip must be true or false, got 'maybe'"),
        (
            "train photos --frozen perhaps",
            "spml train: --frozen must be one of auto, yes, no, got 'perhaps'",
        ),
        (
            "train photos --optim.name adamm",
            "spml train: --optim.name must be one of adamw, adam, sgd, lbfgs, got 'adamm'. "
            "Did you mean adam or adamw?",
        ),
        ("train photos --seed", "spml train: --seed needs a value: a whole number."),
        ("train photos --output --resume", "spml train: --output needs a value."),
        ("train --resume=yes", "spml train: --resume takes no value, got 'yes'."),
        (
            "train my photos",
            "spml train: unexpected argument 'photos'. Put quotes round a name with spaces; "
            "`spml train --help` shows what the command takes.",
        ),
        ("data inpsect photos", "spml data: unknown command 'inpsect'. Did you mean inspect?"),
        ("data", "spml data: name a command: inspect, prepare, convert."),
        ("bench rn quick", "spml bench: unknown command 'rn'. Did you mean run?"),
        ("bench run quick --worker 2", "spml bench run: unknown option --worker. Did you mean --workers?"),
        (
            "predict",
            "spml predict: RUN is missing: folder of the run. `spml predict --help` shows how to call it.",
        ),
        ("evaluate run --splt val", "spml evaluate: unknown option --splt. Did you mean --split?"),
        (
            "data prepare voc2012",
            "spml data prepare: --root is required: folder that holds the official folders.",
        ),
        ("demo --processes all", "spml demo: --processes must be a whole number, got 'all'"),
        ("--versoin", "spml: unknown option --versoin. Did you mean --version?"),
    ],
)
def test_a_wrong_command_line(line, answer, capsys):
    assert refuse(capsys, *line.split()) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("optim:\n  lr: 1e-3\nepochs: ten\n", "epochs must be a whole number, got 'ten'"),
        ("optm:\n  lr: 0.1\n", "unknown setting 'optm'. Did you mean optim?"),
        ("model:\n  haed: ridge\n", "unknown setting 'model.haed'. Did you mean head?"),
        (
            "model: {frozen: no}\n",
            "model.frozen must be one of auto, yes, no, got False. YAML reads yes and no as true and false: "
            "write 'no'.",
        ),
        ("optim: {lr: fast}\n", "optim.lr must be a number, got 'fast'"),
        ("path: photos\nmethod: 3\n", "method must be text, got 3"),
        ("", "expected settings by name, got nothing"),
        (None, "can't be read (No such file or directory)."),
    ],
)
def test_a_wrong_file_of_settings(text, answer, tmp_path, capsys):
    path = tmp_path / "settings.yaml"
    if text is not None:
        path.write_text(text)
    assert refuse(capsys, "train", "photos", "--config", str(path)).startswith(
        f"spml train: {path}: {answer}"
    )


def test_settings_that_name_another_file(tmp_path, capsys):
    (tmp_path / "other.yaml").write_text("the content of another file")
    path = tmp_path / "settings.yaml"
    path.write_text(f"config: {tmp_path / 'other.yaml'}\n")
    assert refuse(capsys, "train", "photos", "--config", str(path)) == (
        f"spml train: {path}: names another configuration file (`config`), which is not supported. Copy its "
        "settings."
    )


def test_hyphens_and_underscores_and_short_names_are_the_same_options():
    words = (
        "train photos --mean-labels 2 --batch_size=8 --data.val-share 0.1 --hp.some-rate 3 --init-from run"
    )
    settings = parse(make_parser(), words.split()).train
    assert (settings.mean_labels, settings.batch_size, settings.data.val_share) == (2.0, 8, 0.1)
    assert (settings.hp, settings.init_from) == ({"some_rate": 3}, "run")
    words = "train photos --lr 0.1 --backbone vit --weights a.safetensors --frozen yes --head linear"
    settings = parse(make_parser(), words.split()).train
    assert settings.optim.lr == 0.1
    model = settings.model
    assert (model.backbone, model.weights, model.frozen, model.head) == (
        "vit", "a.safetensors", "yes", "linear"
    )  # fmt: skip


def test_values_are_left_as_they_are():
    words = [
        "train",
        "my-photos and-more",
        "--output",
        "some-where/run-1",
        "--hp.w",
        "-1",
        "--mean_labels",
        "-2",
    ]
    settings = parse(make_parser(), words).train
    assert (settings.path, settings.output) == ("my-photos and-more", "some-where/run-1")
    assert (settings.hp, settings.mean_labels) == ({"w": -1}, -2.0)


def test_a_message_that_no_rule_explains_is_shown_in_one_line():
    with pytest.raises(InputError) as caught:
        parse(make_parser(), ["train", "photos", "--hp", "[1"])
    assert "hp" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_command_is_found_behind_options():
    command = find_command(make_parser(), ["data", "--unknown", "inspect", "photos", "--x"])
    assert (command.name, command.arguments) == ("spml data inspect", ["photos", "--x"])


def test_a_command_of_two_words():
    parser = ArgumentParser()
    commands = parser.add_subcommands()
    for name in ("audit", "audit-sample"):
        commands.add_subcommand(name, ArgumentParser())
    assert join_words(parser, ["audit", "sample", "run"]) == ["audit-sample", "run"]
    assert join_words(parser, ["audit", "run", "sample"]) == ["audit", "run", "sample"]
    assert join_words(parser, ["audit"]) == ["audit"]
    assert find_command(parser, ["audit-sample", "run"]).name == "spml audit sample"


AS_TYPED = ["#", "~", " # ", "null", "#pics", "yes", "1.0", "[a", "{", "- x", ": ", "'", '"', "!x"] + [
    *("&a", "*a", "%", "@", "", "\t", r"\t", "{a: b}", "2001-01-01")
]


def commands(parser, words=()):
    """Words and parser of each command."""
    for name, each in subcommands(parser).items():
        yield from commands(each, (*words, name)) if subcommands(each) else [((*words, name), each)]


def takes_text(action):
    hint = getattr(action, "_typehint", None) or (isinstance(action, argparse._StoreAction) and str)
    return hint in (str, str | None) and not action.choices


def test_text_is_taken_as_it_is_typed():
    """By every option and argument of every command that takes text."""
    tried = set()
    for words, parser in commands(make_parser(with_figures=False)):
        texts = {action.dest: action for action in parser._actions if takes_text(action)}
        tried |= {(words, name) for name in texts}
        for number, text in enumerate(AS_TYPED):
            line = []
            for action in parser._actions:
                if action.option_strings and action.dest in texts:
                    option = action.option_strings[-1]
                    line += [f"{option}={text}"] if number % 2 else [option, text]
                elif action.dest in texts and not action.option_strings:
                    line.append(text)
                elif not action.option_strings and action.choices and action.nargs != "?":
                    line.append(next(iter(action.choices)))
            parsed = parse(parser, line)
            for name, action in texts.items():
                expected = [text] if action.nargs in ("+", "*") else text
                assert parsed[name] == expected, (words, name)
    assert tried >= {
        (("train",), "data.separator"),
        (("data", "inspect"), "data.images"),
        (("data", "convert"), "output"),
        (("predict",), "cache"),
        (("predict",), "paths"),
        (("evaluate",), "data.label_column"),
        (("serve",), "host"),
        (("bench", "config"), "key"),
    }


def test_a_configuration_file_keeps_the_meaning_of_yaml(tmp_path):
    file = tmp_path / "settings.yaml"
    for text, value in [("null", None), ("~", None), ("'#'", "#"), ("'null'", "null"), ('"\\t"', "\t")]:
        file.write_text(f"data:\n  separator: {text}\n")
        parsed = parse(make_parser(), ["train", "photos", "--config", str(file)]).train
        assert parsed.data.separator == value
