"""The examples of the page on serving work, and its options and numbers are those of the program."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from spml.cli.main import parse
from spml.common.web import MAX_CONNECTIONS, PATIENCE
from spml.serve import Limits
from tests.serve.process import serving

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.S | re.M)


@pytest.fixture
def served(photo_run, photos, tmp_path, monkeypatch):
    """Address of a server, in a folder with the files that the page names."""
    (tmp_path / "new").mkdir()
    for name in ("blue", "red"):
        shutil.copy(photos / name / "00.png", tmp_path / "new" / f"{name}.png")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "photos").symlink_to(photo_run)
    monkeypatch.chdir(tmp_path)
    with serving(photo_run) as (address, _):
        yield address


def test_the_python_of_the_page(served, capsys):
    first, second = (text for kind, text in BLOCKS if kind == "python")
    names: dict = {}
    exec(compile(first.replace("http://127.0.0.1:8000", served), "serving.md", "exec"), names)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["new/blue.png", "new/red.png"]
    shown = json.loads(next(text for kind, text in BLOCKS if kind == "json"))
    answer = names["predict"](served, "new/blue.png")
    assert set(answer) == set(shown)
    assert set(answer["model"]) == set(shown["model"])
    assert set(answer["predictions"][0]) == set(shown["predictions"][0])
    exec(compile(second, "serving.md", "exec"), names)
    assert names["app"].title == "spml serve"


def test_the_commands_of_the_page(served):
    commands = [line for kind, text in BLOCKS if not kind for line in text.splitlines()]
    assert [command.split()[0] for command in commands] == ["pip", "spml", "curl", "curl"]
    parsed = parse(shlex.split(commands[1])[1:])
    assert f"http://{parsed.host}:{parsed.port}/" in PAGE
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    for command, names in zip(commands[2:], (["0"], ["blue.png", "red.png"]), strict=True):
        curl = shlex.split(command.replace("http://127.0.0.1:8000", served))
        answer = json.loads(subprocess.run([*curl, "-s"], check=True, capture_output=True).stdout)
        assert [each["name"] for each in answer["predictions"]] == names


def test_the_options_and_numbers_of_the_page():
    options = set(re.findall(r"`(--[a-z_]+)", PAGE))
    known = parse(["serve", "run"])
    assert options <= {f"--{name}" for name in vars(known)}
    assert {f"--{name}" for name in vars(Limits())} <= options
    limits = Limits()
    assert f"`--body_timeout {limits.body_timeout:g}`" in PAGE
    text = " ".join(PAGE.split())
    assert f"{limits.max_pixels // 10**6} million by default" in text
    assert f"closed after {PATIENCE:g} seconds. At most {MAX_CONNECTIONS} are open" in text


def test_the_page_of_results_is_made_from_the_committed_results(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import serving

    folder = ROOT / "benchmarks" / "results"
    results = json.loads((folder / "serving.json").read_text())
    page = (folder / "serving.md").read_text(encoding="utf-8")
    assert serving.page(results) == page, "run `python benchmarks/serving.py`"
