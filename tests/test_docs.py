"""What the documentation shows works: doctests, and every command and Python block of the README."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import shlex
from pathlib import Path

import pytest
import torch

import spml
from spml.cli import main
from tests.faults.test_kill import make_photos

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
MODULES = [
    name for _, name, _ in pkgutil.walk_packages(spml.__path__, "spml.") if not name.endswith("__main__")
]
# No network in tests: the README's commands use the default backbone, whose weights would be downloaded.
SMALL = {
    "model": {"backbone": "test_efficientnet", "weights": "random"},
    "epochs": 1,
    "threads": 1,
    "quiet": True,
}
FLAGS = [
    "--model.backbone",
    "test_efficientnet",
    "--model.weights",
    "random",
    "--epochs",
    "1",
    "--threads",
    "1",
]
FLAGS += ["--data.size", "32", "--data.workers", "0"]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.S | re.M)


@pytest.mark.parametrize("name", MODULES)
def test_doctests(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_doctests():
    finder = doctest.DocTestFinder()
    counts = {
        name: sum(len(t.examples) for t in finder.find(importlib.import_module(name))) for name in MODULES
    }
    assert counts["spml.losses.robust"] >= 2
    assert counts["spml.labels"] >= 2


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder as the README supposes it."""
    photos = make_photos(tmp_path / "photos", per_class=10)
    (tmp_path / "new").mkdir()
    for name in ("blue", "green", "red"):
        (photos / name / "00.png").rename(tmp_path / "new" / f"{name}.png")
    rows = "".join(f"new/{name}.png,{name}\n" for name in ("blue", "green", "red"))
    (tmp_path / "labelled.csv").write_text("file,labels\n" + rows)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_commands_of_the_readme(folder):
    commands = [
        line.split("#")[0].strip()
        for block in blocks("")
        for line in block.splitlines()
        if line.startswith("spml ")
    ]
    assert len(commands) >= 2
    for command in commands:
        arguments = shlex.split(command)[1:]
        main([*arguments, *(FLAGS if arguments[0] == "train" else [])])
    assert (folder / "tags.csv").read_text().startswith("file,labels,blue,green,red\n")


def test_the_python_of_the_readme(folder, monkeypatch):
    real = importlib.import_module("spml.api").train

    def small(source, /, **settings):
        return real(source, **{**settings, **SMALL, "data": {"size": 32, "workers": 0}})

    monkeypatch.setattr(spml, "train", small, raising=False)
    model = torch.nn.Linear(4, 3)
    names = {"model": model, "images": torch.randn(5, 4), "positive_class": torch.tensor([0, 1, 2, 1, 0])}
    python = blocks("python")
    assert len(python) == 2
    for block in python:
        exec(compile(block, "README.md", "exec"), names)
    assert model.weight.grad.abs().sum() > 0


def test_the_numbers_of_the_readme_come_from_the_committed_results():
    table = (ROOT / "docs" / "demo" / "table.md").read_text().strip()
    assert table in README
