"""Short names of settings stand for the same settings everywhere."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import spml
from spml.cli.arguments import COMMON
from spml.cli.main import parse
from spml.common.errors import InputError
from spml.config import from_dict
from spml.config.read import SHORT_NAMES, from_arguments


def test_every_short_name_is_one_of_a_setting_and_of_an_option():
    values = {"head": "mlp", "backbone": "resnet18", "weights": "random", "frozen": "no", "local": "off"}
    values["names"] = "clip"
    values["lr"] = 0.5
    assert values.keys() == SHORT_NAMES.keys()
    config = from_dict(from_arguments(values))
    assert (config.model.head, config.model.backbone, config.optim.lr) == ("mlp", "resnet18", 0.5)
    options = [f"--{name}={value}" for name, value in values.items()]
    assert from_dict(parse(["train", *options]).settings) == config
    assert {*SHORT_NAMES.values()} <= {*COMMON, "model.names"}  # too long for the short help


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": {"head": "mlp"}, "head": "mlp"}, "model.head is stated twice"),
        ({"head": "mlp", "model": {"head": "mlp"}}, "model.head is stated twice"),
        ({"lr": 1.0, "optim": 3}, "optim.lr is part of optim, which is stated as a whole as well"),
        ({"optim.lr": 1.0, "lr": 1.0}, "optim.lr is stated twice"),
        ({"optin.lr": 1.0}, "unknown setting 'optin.lr'. Did you mean optim or compile or patience?"),
        ({"clases": 1}, "unknown setting 'clases'. Did you mean classes or names?"),
    ],
)
def test_a_setting_is_stated_once_and_known(settings, message):
    with pytest.raises(InputError) as error:
        from_arguments(settings, ["classes"])
    assert str(error.value) == message


def test_names_with_dots_are_settings_in_python():
    assert from_arguments({"optim.lr": 1.0, "data.images": "x"}) == {
        "optim": {"lr": 1.0}, "data": {"images": "x"},
    }  # fmt: skip


def test_messages_name_settings_as_config_yaml_does():
    """Options appear only in commands, and in rooms that nothing but the command line reaches."""
    skipped, found = {"cli", "bench", "analysis", "testing", "methods"}, []
    package = Path(spml.__file__).parent
    for path in package.rglob("*.py"):
        if skipped & set(path.relative_to(package).parts):
            continue
        tree = ast.parse(path.read_text())
        skipped_nodes = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):  # outer nodes come first
            if isinstance(node, ast.JoinedStr):
                text = ast.unparse(node)
                skipped_nodes |= {id(part) for part in ast.walk(node)}
            elif isinstance(node, ast.Constant) and id(node) not in skipped_nodes:
                text = str(node.value)
            else:
                continue
            prose = re.sub("`[^`]*`|```.*|spml [a-z]+.*|same command and --.*", "", text, flags=re.S)
            if re.search(r"(?<![\w`'-])--[a-z]", prose) and not re.fullmatch(r"--\w+", text):
                found.append((path, node.lineno, prose))
    assert not found
