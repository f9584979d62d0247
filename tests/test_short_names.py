"""Short names of settings stand for the same settings everywhere."""

from __future__ import annotations

import ast
import re
from io import StringIO
from pathlib import Path

import pytest

import spml
from spml.cli.main import parse
from spml.cli.train import COMMON
from spml.common.errors import InputError
from spml.config import from_dict
from spml.runs.console import Console
from spml.short_names import SHORT_NAMES, command_line, from_arguments, python_names, with_arguments


def test_every_short_name_is_one_of_a_setting_and_of_an_option():
    values = {"head": "mlp", "backbone": "resnet18", "weights": "random", "frozen": "no", "local": "off"}
    values["names"] = "clip"
    values["lr"] = 0.5
    assert values.keys() == SHORT_NAMES.keys()
    config = from_dict(from_arguments(values))
    assert (config.model.head, config.model.backbone, config.optim.lr) == ("mlp", "resnet18", 0.5)
    options = [f"--{name}={value}" for name, value in values.items()]
    assert from_dict(parse(["train", *options]).settings) == config
    assert {f"--{name}" for name in values} <= {*COMMON, "--names"}  # too long for the short help


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": {"head": "mlp"}, "head": "mlp"}, "model.head is stated twice"),
        ({"head": "mlp", "model": {"head": "mlp"}}, "model.head is stated twice"),
        ({"lr": 1.0, "optim": 3}, "optim.lr is part of optim, which is stated as a whole as well"),
        ({"optim.lr": 1.0}, "unknown setting 'optim.lr'. Did you mean optim?"),
        ({"clases": 1}, "unknown setting 'clases'. Did you mean classes or names?"),
    ],
)
def test_a_setting_is_stated_once_and_known(settings, message):
    with pytest.raises(InputError) as error:
        from_arguments(settings, ["classes"])
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Pass --data.separator ';' or rename", "Pass data={'separator': ';'} or rename"),
        ("names them (--data.label_column).", "names them (data={'label_column': ...})."),
        ("use --model.head linear.", "use head='linear'."),
        ("raise --mean_labels, or name another --output.", "raise mean_labels, or name another output."),
        ("state it (--mean_labels K)", "state it (mean_labels=K)"),
        ("replace it (--overwrite)", "replace it (overwrite=True)"),
        ("pass --data.images FOLDER", "pass data={'images': FOLDER}"),
        ("a smaller --model.hidden 64", "a smaller model={'hidden': 64}"),
        ("Run `spml data inspect x --data.missing skip`.", "Run `spml data inspect x --data.missing skip`."),
        ("a--b -- c", "a--b -- c"),
    ],
)
def test_messages_name_arguments(message, expected):
    assert with_arguments(message) == expected


def test_settings_of_data_are_arguments_of_some_functions():
    message = "Pass --data.unlisted negative, or --data.images."
    assert with_arguments(message, data_by_name=True) == "Pass unlisted='negative', or images."


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("hold out more (--data.val_share).", "hold out more (settings={'data': {'val_share': ...}})."),
        ("use --data.unlisted negative.", "use unlisted='negative'."),
        ("use --model.head linear.", "use head='linear'."),
        ("raise --mean_labels, or --patience 3.", "raise mean_labels, or settings={'patience': 3}."),
    ],
)
def test_a_class_may_take_other_settings_as_one_argument(message, expected):
    @python_names(arguments=["mean_labels", "unlisted", "head"])
    def fail():
        with python_names():  # of a function that it calls
            raise InputError(message)

    with pytest.raises(InputError) as error:
        fail()
    assert str(error.value) == expected
    with command_line(["spml"]), pytest.raises(InputError) as error:
        fail()
    assert str(error.value) == message


def test_progress_lines_name_arguments():
    stream = StringIO()
    Console(stream).line("pass --mean_labels K")
    with command_line(["spml"]):
        Console(stream).line("pass --mean_labels K")
    assert stream.getvalue() == "pass mean_labels=K\npass --mean_labels K\n"


def test_messages_of_a_command_keep_its_options():
    def fail():
        with python_names():
            raise InputError("pass --data.images FOLDER")

    with pytest.raises(InputError, match=r"^pass data=\{'images': FOLDER\}$"):
        fail()
    with command_line(["spml"]), pytest.raises(InputError, match=r"^pass --data\.images FOLDER$"):
        fail()
    with pytest.raises(InputError, match="data="):
        fail()


def test_no_message_of_the_package_keeps_an_option():
    """Every text of the modules that Python reaches, as it would be shown."""
    skipped = {"cli", "bench", "review", "analysis", "testing"}
    seen = 0
    package = Path(spml.__file__).parent
    for path in package.rglob("*.py"):
        if skipped & set(path.relative_to(package).parts):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and re.search(r"--[a-z]", node.value)
            ):
                shown = re.sub("`spml [^`]*(`|$)", "", with_arguments(str(node.value)))
                assert not re.search(r"(?<![\w-])--[a-z]", shown), (path, node.lineno)
                seen += 1
    assert seen > 100
