"""The tutorials run as notebooks, give what their pages say, and the pages show them as they are."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

jupytext = pytest.importorskip("jupytext")
pytest.importorskip("nbclient")
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


def printed(name, folder, smaller, settings="{}"):
    """Everything that the cells of a tutorial print, where some words of it are replaced to save time."""
    source = (make_tutorials.TUTORIALS / name).read_text(encoding="utf-8")
    for old, new in smaller.items():
        assert old in source
        source = source.replace(old, new)
    (folder / name).write_text(source, encoding="utf-8")
    notebook = make_tutorials.run_tutorial(folder / name, folder, settings)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return "".join(output.get("text", "") for output in outputs)


@pytest.mark.long
def test_photographs(tmp_path, shared):
    weights = shared / "data/models/mobilenetv2_100_tf_bncal.safetensors"
    settings = {
        "model": {"backbone": "mobilenetv2_100", "weights": str(weights)},
        "data": {"workers": 0},
        "pictures": False,
    }
    fewer = {'Path("photos"), 400': 'Path("photos"), 200', 'Path("new"), 200': 'Path("new"), 50'}
    text = printed("photos.py", tmp_path, fewer, str(settings))
    score, f1 = map(float, re.search(r"mAP ([\d.]+), micro F1 ([\d.]+)", text).groups())
    assert score > 90
    assert f1 > 85


@pytest.mark.long
def test_features(tmp_path):
    fewer = {'"scenes"), 1000': '"scenes"), 500', "700": "350", "epochs=20": "epochs=5"}
    text = printed("features.py", tmp_path, fewer)
    usual, default, chosen = map(float, re.findall(r"mAP ([\d.]+)", text))
    assert default > usual + 3  # as the text says
    assert default > chosen
    few, most = map(float, re.findall(r"predicts ([\d.]+) labels", text))
    assert few < 0.5
    assert abs(most - 3) < 0.5


@pytest.mark.long
def test_own_loss(tmp_path):
    # Features in place of digits: a run of the comparison takes a second instead of ten.
    save_features(tmp_path / "scenes.npz")
    fewer = {
        "{path: digits, mean_labels: 2.34}": "{path: scenes.npz, unlisted: negative, mean_labels: 3.2}",
        "trials: 2": "trials: 1",
        "low: 1e-3, high: 1e-2": "low: 2e-2, high: 3e-2",
        "epochs: 3": "epochs: 8",
        '"--output", "bench"': '"--output", "bench", "--workers", "1"',
    }
    text = printed("own_loss.py", tmp_path, fewer)
    assert "8 of 8 runs are finished" in text
    found = re.findall(r"^(\w[\w ]*?) +(?:\(.*?\) +)?([\d.]+) ±", make_tutorials.strip_ansi(text), re.M)
    scores = {name: float(score) for name, score in found}
    assert scores["full labels"] > scores["gr"] > scores["an"]


def save_features(path):
    """1,000 rows of features that tell twelve classes with some noise, three of them per row."""
    generator = np.random.default_rng(0)
    truth = generator.random((1000, 12)) < 0.2
    truth[np.arange(1000), generator.integers(0, 12, 1000)] = True
    features = truth @ generator.normal(size=(12, 24)) + generator.normal(size=(1000, 24))
    split = np.repeat(["train", "val", "test"], [600, 200, 200])
    classes = np.array(list("abcdefghijkl"))
    np.savez(path, X=features.astype(np.float32), Y=truth.astype(np.uint8), classes=classes, split=split)
