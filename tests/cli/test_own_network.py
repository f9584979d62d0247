"""`--backbone module:callable`: the command line is the one place that imports code which a user names."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.helpers.commands import execute, fails
from tests.helpers.photos import make_photos

NETS = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3, stride=2)

    def forward(self, images):
        return self.convolution(images).relu()


def make():
    return Net(), {"size": 16}


class holder:
    make = staticmethod(make)


ready = Net()


def fails():
    return 1 / 0


def number():
    return 3
"""
FLAGS = "--threads 1 --data.workers 0 --epochs 1 --method an"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with photos, a module with networks, and a run with one of them."""
    folder = tmp_path_factory.mktemp("own")
    make_photos(folder / "photos", per_class=8)
    (folder / "my_nets.py").write_text(NETS)
    (folder / "broken_nets.py").write_text("import torch\n\n\nfrom no_such_package import x\n")
    return folder


@pytest.fixture(autouse=True)
def there(folder, monkeypatch):
    monkeypatch.chdir(folder)
    path = list(sys.path)
    yield
    assert sys.path == path
    for name in ("my_nets", "broken_nets"):
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def run(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        execute(f"train photos {FLAGS} --backbone my_nets:make --output run")
    return "run"


def fail(capsys, *arguments):
    """The last line of what a command says that is refused."""
    return fails(capsys, *arguments).splitlines()[-1]


LONG = pytest.mark.long
COMMANDS = {
    "predict": "predict run photos",
    "evaluate": "evaluate run photos --data.unlisted negative --split test",
    "thresholds": "thresholds run --mean_labels 1.5",
    "audit": "audit run --mean_labels 1.5 --folds 0 --overwrite",
    "init-from": f"train photos {FLAGS} --init-from run --output second --overwrite",
    "resume": "train --output run --resume",
    "analyse": "analyse maps run --overwrite",
    "export": "export run --format torch-export --overwrite",
    "serve": "serve run --port 0",
}
SLOW = ("audit", "init-from", "analyse", "export")


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=LONG if name in SLOW else ()) for name in COMMANDS]
)
def test_every_command_that_loads_a_run_asks_for_its_network(run, capsys, monkeypatch, name):
    if name == "serve":
        from spml.serve import server

        monkeypatch.setattr(server.Server, "run", lambda self, sockets: None)
    sys.modules.pop("my_nets", None)
    line = fail(capsys, COMMANDS[name])
    if name == "resume":
        assert "backbone 'my_nets:make' is code of your own" in line
    else:
        assert "run: its backbone my_nets:make is a network of the user's own" in line
    assert "my_nets" not in sys.modules
    execute(COMMANDS[name], "--backbone my_nets:make")
    assert "my_nets" in sys.modules


def test_only_one_process_serves_a_network_of_the_user(run, capsys):
    line = fail(capsys, "serve run --port 0 --workers 2 --backbone my_nets:make")
    assert line == (
        "spml serve: run: its backbone is a network of your own, which other processes don't have: leave out "
        "`workers`."
    )


def test_an_audit_sample_takes_the_network_too(run, capsys):
    assert "its backbone my_nets:make" in fail(capsys, "audit sample run")
    # Read, and refused for another reason.
    line = fail(capsys, "audit sample run --rows 3 --backbone my_nets:make")
    assert "3 samples are too few" in line


@pytest.mark.parametrize("name", ["my_nets:Net", "my_nets:holder.make", "my_nets:ready"])
def test_classes_attributes_and_networks_will_do(run, capsys, name):
    execute("predict run photos/red --backbone", name)
    other = capsys.readouterr().out
    execute("predict run photos/red --backbone=my_nets:make")
    assert capsys.readouterr().out == other


@LONG
def test_the_seed_makes_the_weights(run, capsys):
    weights = []
    for seed in ("0", "0", "1"):
        execute(f"train photos {FLAGS} --backbone my_nets:make --seed {seed} --output seeded --overwrite")
        weights.append(Path("seeded/model.safetensors").read_bytes())
    assert weights[0] == weights[1] != weights[2]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("resnet18", "--backbone names the code of a network of your own (module:callable), got 'resnet18'"),
        ("no_nets:make", "no_nets:make: ModuleNotFoundError: No module named 'no_nets'"),
        ("my_nets:mak", "AttributeError: module 'my_nets' has no attribute 'mak'"),
        (
            "my_nets:fails",
            "my_nets:fails: ZeroDivisionError: division by zero (my_nets.py, ",
        ),
        ("my_nets:number", "must return an nn.Module, or a pair of it and its transform, got 3"),
        ("my_nets:__name__", "TypeError: 'str' object is not callable"),
        (
            "broken_nets:make",
            "broken_nets:make: ModuleNotFoundError: No module named 'no_such_package'",
        ),
    ],
)
def test_what_makes_no_network_is_explained(run, capsys, name, words):
    assert words in fail(capsys, "predict run photos --backbone", name)


@LONG
def test_a_configuration_may_be_used_with_the_name_on_the_command_line(run, capsys):
    line = fail(capsys, "train --config run/config.yaml --output third")
    assert "write it on the command line (`--backbone my_nets:make`)" in line
    assert not Path("third").exists()
    execute("train --config run/config.yaml --model.backbone my_nets:make --output third")
    assert Path("third/model.json").is_file()


def test_a_file_of_the_current_folder_takes_no_place_of_an_installed_package(run, folder, capsys):
    (folder / "timm.py").write_text("raise SystemExit('not timm')\n")
    try:
        execute("predict run photos/red --backbone my_nets:make")
    finally:
        (folder / "timm.py").unlink()
    assert "file,labels," in capsys.readouterr().out
