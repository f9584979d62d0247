"""A wrong command line gives one line: what was found, what was expected, what comes nearest."""

from __future__ import annotations

from pathlib import Path

import pytest

from spml.cli.arguments import Parser
from spml.cli.main import COMMANDS, find_parser, main, parse, split_command
from spml.cli.shared import Decision
from spml.config import from_dict
from spml.config.read import parts_of
from tests.helpers.commands import execute, refusal


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
        ("train --zzz 3 photos",
         "spml train: unknown option --zzz. `spml train --help-all` lists the options."),
        ("train photos --epochs ten", "spml train: --epochs must be a whole number, got 'ten'"),
        ("train photos --epochs 1.5", "spml train: --epochs must be a whole number, got 1.5"),
        ("train photos --lr high", "spml train: --lr must be a number, got 'high'"),
        ("train photos --mean-labels=two", "spml train: --mean_labels must be a number, got 'two'"),
        ("train photos --data.flip maybe", "spml train: --data.flip must be true or false, got 'maybe'"),
        ("train photos --frozen perhaps", "spml train: --frozen must be one of auto, yes, no, got 'perhaps'"),
        (
            "train photos --optim.name adamm",
            "spml train: --optim.name must be one of adamw, adam, adamax, sgd, lbfgs, got 'adamm'. "
            "Did you mean adam or adamw or adamax?",
        ),
        ("train photos --seed", "spml train: --seed needs a value: a whole number."),
        ("train photos --output --resume", "spml train: --output needs a value."),
        ("train --resume=yes", "spml train: --resume takes no value, got 'yes'."),
        (
            "train my photos",
            "spml train: unexpected argument 'photos'. Put quotes round a name with spaces. "
            "`spml train --help` shows what the command takes.",
        ),
        (
            "train photos resume",
            "spml train: unexpected argument 'resume'. Did you mean --resume? `spml train --help` shows what "
            "the command takes.",
        ),
        ("data inpsect photos", "spml data: unknown command 'inpsect'. Did you mean inspect?"),
        ("data", "spml data: name a command: inspect, prepare, convert."),
        ("bench rn quick", "spml bench: unknown command 'rn'. Did you mean run?"),
        ("predict",
         "spml predict: RUN is missing: folder of the run. `spml predict --help` shows how to call it."),
        ("data prepare voc2012",
         "spml data prepare: --root is required: folder that holds the official folders."),
        ("demo --workers all", "spml demo: --workers must be a whole number, got 'all'"),
        ("--versoin", "spml: unknown option --versoin. Did you mean --version?"),
        ("train photos -o out", "spml train: unknown option -o. Did you mean --output?"),
        ("train photos --device gpu", "spml train: unknown option --device. Did you mean --accelerator?"),
        ("train --data photos",
         "spml train: unknown option --data. What it names stands alone: `spml train [options] [path]`."),
        (
            "predict --model run",
            "spml predict: unknown option --model. What it names stands alone: "
            "`spml predict [options] run paths ...`.",
        ),
        (
            "export run model.onnx",
            "spml export: unexpected argument 'model.onnx'. To write to this file, pass --output model.onnx. "
            "`spml export --help` shows what the command takes.",
        ),
        ("train photos --frozen true",
         "spml train: --frozen must be one of auto, yes, no, got 'true'. Write yes."),
        ("train photos --data.val_share 20%",
         "spml train: --data.val_share must be a number, got '20%'. Write 0.2."),
        ("train photos --method ridge",
         "spml train: 'ridge' is a head, not a method: pass head=ridge instead."),
    ],
)  # fmt: skip
def test_a_wrong_command_line(line, answer, capsys):
    assert refuse(capsys, *line.split()) == answer


def test_two_folders_of_data(tmp_path, capsys):
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
    answer = refuse(capsys, "train", str(tmp_path / "cat"), str(tmp_path / "dog"))
    assert f"The data is one folder or file: pass the folder that holds both, such as {tmp_path}." in answer


def test_data_in_front_of_its_run(tmp_path, capsys):
    run, data = tmp_path / "run", tmp_path / "data"
    for folder in (run, data):
        folder.mkdir()
    (run / "config.yaml").touch()
    for command in ("predict", "evaluate"):
        assert refuse(capsys, command, str(data), str(run)) == (
            f"spml {command}: {data}: holds no run, but {run} does. Name the run first: {run} {data}."
        )


@pytest.mark.parametrize(("value", "stated"), [("true", True), ("false", False)])
def test_a_flag_with_a_value(value, stated):
    parsed = parse(["predict", "run", "photos", "--top1_fallback", value])
    assert (parsed.top1_fallback, parsed.paths) == (stated, ["photos"])


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
    assert parse(words.split()).settings == {
        "mean_labels": 2.0, "batch_size": 8, "data": {"val_share": 0.1}, "hp": {"some_rate": 3},
        "init_from": "run",
    }  # fmt: skip
    words = "train photos --lr 0.1 --backbone vit --weights a.safetensors --frozen yes --head linear"
    assert parse(words.split()).settings == {
        "optim": {"lr": 0.1},
        "model": {"backbone": "vit", "weights": "a.safetensors", "frozen": "yes", "head": "linear"},
    }


def test_settings_may_be_stated_as_messages_do():
    words = ["epochs=3", "hp.some_rate=3", "--like", "lr=0.1", "lr=0.2", "output=a=b"]
    parsed = parse(["train", "data.images=my photos", *words])
    assert (parsed.path, parsed.like) == ("", "lr=0.1")
    assert parsed.settings == {
        "data": {"images": "my photos"}, "epochs": 3, "hp": {"some_rate": 3}, "optim": {"lr": 0.2},
        "output": "a=b",
    }  # fmt: skip
    assert parse(["train", "x=1", "lr=0.2"]).path == "x=1"  # no option of this name
    assert parse(["train", "--", "epochs=3"]).path == "epochs=3"
    assert parse(["thresholds", "run", "--target", "precision=0.9"]).target == "precision=0.9"


def test_values_are_left_as_they_are():
    words = ["--output", "some-where/run-1", "--hp.w", "-1", "--mean_labels", "-2"]
    parsed = parse(["train", "my-photos and-more", *words])
    assert parsed.path == "my-photos and-more"
    assert parsed.settings == {"output": "some-where/run-1", "hp": {"w": -1}, "mean_labels": -2.0}


def test_options_override_the_file_wherever_they_stand(tmp_path):
    file = tmp_path / "settings.yaml"
    file.write_text("epochs: 7\nhp: {q: 1e-3, w: [1e-2, 2]}\noptim: {lr: 1}\nresume: true\npath: photos\n")
    words = ["--optim.lr", "2", "--hp.q", "5e-1", "--config", str(file), "--select", "oracle"]
    parsed = parse(["train", *words])
    assert from_dict(parsed.settings) == from_dict(
        {"epochs": 7, "hp": {"q": 0.5, "w": [0.01, 2]}, "optim": {"lr": 2.0}, "select": "oracle"}
    )
    assert (parsed.resume, parsed.overwrite, parsed.path) == (True, False, "photos")
    assert parsed.stated.keys() == {"optim.lr", "hp.q", "config", "select"}
    parsed = parse(["train", "mine", "--config", str(file), "--hp", "{q: 2}"])
    assert (parsed.path, parsed.settings["hp"]) == ("mine", {"q": 2})


def test_a_value_that_is_not_yaml():
    assert refusal(parse, ["train", "photos", "--hp", "[1"]) == "--hp must be settings by name, got '[1'"


@pytest.mark.parametrize(
    ("line", "command", "rest"),
    [
        ("audit sample run", "audit sample", ["run"]),
        ("audit-sample run", "audit sample", ["run"]),
        ("audit run sample", "audit", ["run", "sample"]),
        ("audit", "audit", []),
        ("data inspect photos --x", "data inspect", ["photos", "--x"]),
        ("data --x inspect", "data", ["--x", "inspect"]),
        ("analyse maps run", "analyse maps", ["run"]),
        ("analyse --list", "analyse", ["--list"]),
        ("--help", "", ["--help"]),
    ],
)
def test_the_command_of_a_line(line, command, rest):
    assert split_command(line.split()) == (command, rest)


@pytest.mark.parametrize("command", ["", "data", "analyse", "analyse maps", *COMMANDS])
def test_every_command_has_a_help(command, capsys):
    with pytest.raises(SystemExit) as stopped:
        execute(*command.split(), "--help")
    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: {' '.join(['spml', *command.split()])} ")


@pytest.mark.parametrize("command", ["train", "loop", "evaluate", "thresholds", "audit", "data inspect"])
def test_a_command_with_many_settings_has_a_short_and_a_full_help(command, capsys):
    texts = []
    for option in ("--help", "--help-all"):
        with pytest.raises(SystemExit):
            execute(*command.split(), option)
        texts.append(capsys.readouterr().out)
    short, full = texts
    assert len(short.splitlines()) < 80
    assert len(full.splitlines()) > 160
    assert "--data.unlisted" in short
    assert "--data.observe_noise" not in short
    assert "--data.observe_noise" in full
    assert ("--data.flip" in full) == (
        command in ("train", "loop")
    )  # nothing is augmented without a training
    for text in texts:
        assert "--quiet, -q" in text
        assert "Attributes:" not in text


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ("help", "--help"),
        ("help train", "train --help"),
        ("version", "--version"),
        ("inspect -h", "data inspect -h"),
    ],
)
def test_what_a_user_may_type_first(line, same, capsys):
    said = []
    for words in (line, same):
        with pytest.raises(SystemExit) as stopped:
            main(words.split())
        assert stopped.value.code == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]


AS_TYPED = ["#", "~", " # ", "null", "#pics", "yes", "1.0", "[a", "{", "- x", ": ", "'", '"', "!x"] + [
    *("&a", "*a", "%", "@", "", "\t", r"\t", "{a: b}", "2001-01-01")
]


def test_text_is_taken_as_it_is_typed():
    """By every option and argument of every command that takes text."""
    tried = set()
    for command in COMMANDS:
        parser = find_parser(command)
        texts = {
            name: action for name, action in parser.actions.items()
            if {str, Path} & {*parts_of(parser.hints.get(action.dest, int))} and name != "--config"
            and parser.hints[action.dest] != str | dict[str, str]
        }  # fmt: skip
        tried |= {(command, action.dest) for action in texts.values()}
        for number, text in enumerate(AS_TYPED):
            line = []
            for name, action in texts.items():
                if not name.startswith("-"):
                    line.append(text)
                elif name == action.option_strings[-1]:
                    line += [f"{name}={text}"] if number % 2 else [name, text]
            if command == "completion":
                line.append("bash")
            stated = parser.parse(line).stated
            for action in texts.values():
                is_path = Path in parts_of(parser.hints[action.dest])
                expected = [text] if action.nargs == "+" else Path(text) if is_path and text else text
                if is_path and not text:
                    expected = None
                assert stated[action.dest] == expected, (command, action.dest)
    assert tried >= {
        ("train", "data.separator"),
        ("data inspect", "data.images"),
        ("data convert", "output"),
        ("predict", "cache"),
        ("predict", "paths"),
        ("evaluate", "data.label_column"),
        ("serve", "host"),
        ("bench config", "key"),
    }


def test_a_configuration_file_keeps_the_meaning_of_yaml(tmp_path):
    file = tmp_path / "settings.yaml"
    for text, value in [("null", None), ("~", None), ("'#'", "#"), ("'null'", "null"), ('"\\t"', "\t")]:
        file.write_text(f"data:\n  separator: {text}\n")
        parsed = parse(["train", "photos", "--config", str(file)])
        assert parsed.settings == {"data": {"separator": value}}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], {}),
        (["--mean_labels", "1.5", "--top_k", "3", "--top1_fallback"],
         {"mean_labels": 1.5, "top_k": 3, "top1_fallback": True}),
        (["--threshold", "0.25"], {"threshold": 0.25}),
        (["--thresholds", "global"], {"thresholds": "global"}),
        (["--thresholds", "0.5"], {"thresholds": "0.5"}),
    ],
)  # fmt: skip
def test_options_become_arguments_of_a_decision(options: list[str], expected: dict[str, object]) -> None:
    def run(*, decision: Decision) -> None:
        """Nothing."""

    parser = Parser("x", run)
    defaults = dict.fromkeys(("mean_labels", "threshold", "thresholds"))
    settings = {**defaults, "top_k": 0, "top1_fallback": False, **expected}
    assert vars(parser.values(run, parser.parse(options))["decision"]) == settings
