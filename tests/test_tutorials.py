"""The tutorials run as notebooks, give what their pages say, and the pages show them as they are."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.helpers.processes import finish

jupytext = pytest.importorskip("jupytext")
pytest.importorskip("nbclient")
InteractiveShell = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell
Config = pytest.importorskip("traitlets.config").Config

ROOT = Path(__file__).resolve().parents[1]
spec = importlib.util.spec_from_file_location("make_tutorials", ROOT / "docs" / "make_tutorials.py")
make_tutorials = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make_tutorials)
SOURCES = sorted(make_tutorials.TUTORIALS.glob("*.py"))


@pytest.mark.parametrize("source", SOURCES, ids=[source.stem for source in SOURCES])
def test_the_page_shows_the_notebook(source):
    def words(text):
        return " ".join(text.split())

    page = words(source.with_suffix(".md").read_text(encoding="utf-8"))
    for cell in jupytext.read(source).cells:
        code = f"```python {words(cell.source)} ```" if cell.cell_type == "code" else None
        assert (code or words(cell.source.partition("\n")[2])) in page
    for picture in re.findall(r"\(([\w-]+\.webp)\)", page):
        assert (make_tutorials.TUTORIALS / picture).is_file()
    assert not re.search(r"/(tmp|home|work|root)/", page)


@pytest.mark.long
def test_a_notebook_has_its_outputs(tmp_path):
    """By a kernel of Jupyter, whose process would import everything again for a tutorial."""
    source = '# %% [markdown]\n# # Title\n\n# %%\nSETTINGS = {}\n\n# %%\nprint(SETTINGS)\nSETTINGS["b"]\n'
    (tmp_path / "tiny.py").write_text(source, encoding="utf-8")
    notebook = make_tutorials.run_tutorial(tmp_path / "tiny.py", tmp_path, "{'b': 1}")
    _, _, cell = notebook.cells
    said, shown = cell.outputs
    assert (said.text, shown.data["text/plain"]) == ("{'b': 1}\n", "1")
    assert (tmp_path / "examples" / "scenes").is_dir()


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """The shell of a kernel in this process, in an empty folder with the examples."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # where the shell puts its own
    work = tmp_path / "work"
    work.mkdir()
    (work / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(work)
    shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    yield shell
    InteractiveShell.clear_instance()
    for known in (sys.modules, sys.path_importer_cache):  # which are of the folder of this test
        for name in ("make_scenes", "examples/scenes"):
            known.pop(name, None)


def printed(name, shell, smaller):
    """Everything that the cells of a tutorial print, where some words of it are replaced to save time."""
    source = (make_tutorials.TUTORIALS / name).read_text(encoding="utf-8")
    for old, new in smaller.items():
        assert old in source
        source = source.replace(old, new)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        for cell in jupytext.reads(source, "py:percent").cells:
            if cell.cell_type == "code":
                shell.run_cell(cell.source, store_history=True).raise_error()
    return said.getvalue()


@pytest.mark.long
def test_photographs(shell, shared):
    weights = shared / "data/models/mobilenetv2_100_tf_bncal.safetensors"
    settings = {
        "model": {"backbone": "mobilenetv2_100", "weights": str(weights)},
        "data": {"workers": 0, "size": 192},  # one size, and less than that of the network
        "pictures": False,
    }
    fewer = {
        'Path("photos"), 400': 'Path("photos"), 200',
        'Path("new"), 200': 'Path("new"), 50',
        "SETTINGS = {}": f"SETTINGS = {settings}",
    }
    text = printed("photos.py", shell, fewer)
    score, f1 = map(float, re.search(r"mAP ([\d.]+), micro F1 ([\d.]+)", text).groups())
    assert score > 90
    assert f1 > 80


@pytest.mark.long
def test_features(shell):
    fewer = {'"scenes"), 1000': '"scenes"), 400', "700": "250", "epochs=20": "epochs=5"}
    text = printed("features.py", shell, fewer)
    usual, default, chosen = map(float, re.findall(r"mAP ([\d.]+)", text))
    assert default > usual + 3  # as the text says
    assert default > chosen
    few, most = map(float, re.findall(r"predicts ([\d.]+) labels", text))
    assert few < 0.5
    assert abs(most - 3) < 0.5


@pytest.mark.long
def test_own_loss(shell, monkeypatch):
    # Features in place of digits: a run of the comparison takes a second instead of ten.
    save_features("scenes.npz")
    fewer = {
        "{path: digits, mean_labels: 2.34}": "{path: scenes.npz, unlisted: negative, mean_labels: 3.2}",
        "trials: 2": "trials: 1",
        "low: 1e-3, high: 1e-2": "low: 2e-2, high: 3e-2",
        "epochs: 3": "epochs: 8",
        '"--output", "bench"': '"--output", "bench", "--workers", "1"',
        # A fork in place of a process that would import everything again.
        '.run([sys.executable, "-m", "spml", *words], capture_output=True, text=True)': ".fork(words)",
    }
    monkeypatch.setattr(subprocess, "fork", fork, raising=False)
    text = printed("own_loss.py", shell, fewer)
    assert "8 of 8 runs are finished" in text
    found = re.findall(r"^(\w[\w ]*?) +(?:\(.*?\) +)?([\d.]+) ±", make_tutorials.strip_ansi(text), re.M)
    scores = {name: float(score) for name, score in found}
    assert scores["full labels"] > scores["gr"] > scores["an"]


def fork(words):
    """What a command printed."""
    said = Path("said.txt")
    finish(words, said, quick=True)
    return SimpleNamespace(stdout=said.read_text(encoding="utf-8"), stderr="")


def save_features(path):
    """1,000 rows of features that tell twelve classes with some noise, three of them per row."""
    generator = np.random.default_rng(0)
    truth = generator.random((1000, 12)) < 0.2
    truth[np.arange(1000), generator.integers(0, 12, 1000)] = True
    features = truth @ generator.normal(size=(12, 24)) + generator.normal(size=(1000, 24))
    split = np.repeat(["train", "val", "test"], [600, 200, 200])
    classes = np.array(list("abcdefghijkl"))
    np.savez(path, X=features.astype(np.float32), Y=truth.astype(np.uint8), classes=classes, split=split)
