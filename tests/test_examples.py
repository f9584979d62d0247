"""Each script in examples/ runs, and does what its docstring says."""

from __future__ import annotations

import csv
import importlib.util
import re
from pathlib import Path

import pytest
from PIL import Image

from spml.data import readers as reader_registry
from spml.methods import registry as method_registry

FOLDER = Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs `main` of an example; gives its result and what it printed. What it registers is removed again."""
    monkeypatch.setattr(method_registry._REGISTRY, "entries", dict(method_registry._REGISTRY.entries))
    reader_registry.readers()  # a registry fills itself once only
    monkeypatch.setattr(reader_registry._REGISTRY, "entries", dict(reader_registry._REGISTRY.entries))

    def run_example(name, **fewer):
        spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for constant, value in fewer.items():
            monkeypatch.setattr(module, constant, value)
        return module.main(), capsys.readouterr().out

    return run_example


def test_every_example_is_listed_and_opens_with_its_command():
    listed = re.findall(r"`python (examples/[\w/]+\.py)[^`]*`", (FOLDER / "README.md").read_text())
    assert sorted(listed) == sorted(str(path.relative_to(FOLDER.parent)) for path in FOLDER.rglob("*.py"))
    for name in listed:
        docstring = (FOLDER.parent / name).read_text().split('"""')[1]
        assert re.search(rf"\n\n    python {name}( [A-Z].*)?\n\n", docstring)


@pytest.mark.long
def test_losses_in_your_loop(run):
    scores, printed = run("losses_in_your_loop", EPOCHS=30)
    assert list(scores) == ["an", "em", "gr", "softmax", "epr"]
    assert min(scores.values()) > 0.8  # a model without training has about 0.2
    assert f"gr       test mAP {100 * scores['gr']:.1f}" in printed


def test_objective_in_your_loop(run):
    _, printed = run("objective_in_your_loop")
    counts = [int(count.replace(",", "")) for count in re.findall(r"([\d,]+) pseudo-negatives", printed)]
    assert len(counts) == 5
    assert counts[0] == 0  # the warm-up
    assert 0 < counts[1] < counts[2] < counts[3]
    source = (FOLDER / "objective_in_your_loop.py").read_text()
    loop = source.partition("    for epoch in range")[2].partition("        print(")[0]
    assert len(loop.splitlines()) <= 14  # the README says that a loop takes about 12 lines


@pytest.mark.long
@pytest.mark.parametrize("name", ["lightning_module", "hf_trainer"])
def test_objective_under_another_trainer(run, name):
    _, printed = run(name)
    counts = [int(count.replace(",", "")) for count in re.findall(r"([\d,]+) pseudo-negatives", printed)]
    plain = re.findall(r"([\d,]+) pseudo-negatives", run("objective_in_your_loop")[1])
    assert counts == [int(count.replace(",", "")) for count in plain]


def test_your_own_method(run):
    trained, printed = run("your_own_method")
    assert "trusting_an passes the suite" in printed
    assert trained.classes == tuple("abcde")


def test_your_own_reader(run):
    data, printed = run("your_own_reader")
    assert data.classes == ("beach", "dog")
    assert "holiday.tags was read as a tags file" in printed
    # The labels repeat: "beach", "dog", "beach dog"; a label that is not named is unknown.
    expected = {0: [1, 0], 1: [0, 1], 2: [1, 1]}
    for samples in data.splits.values():
        for name, labels in zip(samples.ids, samples.observed.to_ternary().tolist(), strict=True):
            assert labels == expected[int(name.removesuffix(".png")) % 3]


@pytest.mark.long
@pytest.mark.parametrize("path", sorted((FOLDER / "in_memory").glob("*.py")), ids=lambda path: path.stem)
def test_samples_in_memory(path, capsys):
    """Each cell prints the comment at its end."""
    if path.stem.split("_")[0] in ("pandas", "table"):
        pytest.importorskip("pandas")
    names = {}
    for cell in path.read_text(encoding="utf-8").split("# %%")[1:]:
        capsys.readouterr()
        title, _, code = cell.partition("\n")
        exec(compile(code, path.name, "exec"), names)
        expected = [line[2:] for line in code.splitlines() if line.startswith("# ")]
        assert capsys.readouterr().out.splitlines() == expected, title


def test_scenes(tmp_path):
    spec = importlib.util.spec_from_file_location("make_scenes", FOLDER / "scenes" / "make_scenes.py")
    scenes = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(scenes)
    scenes.make_photos(tmp_path / "photos", 40)
    with (tmp_path / "photos.csv").open() as table:
        shown = {row["file"]: row["labels"].split("|") for row in csv.DictReader(table)}
    assert len(shown) == 40
    assert {name for names in shown.values() for name in names} == {*scenes.GROUNDS, *scenes.THINGS}
    for file, names in shown.items():
        assert Path(file).parent.name in names
        assert len({*names} & {*scenes.GROUNDS}) == 1
        assert 1 <= len({*names} & {*scenes.THINGS}) <= 3
        with Image.open(tmp_path / file) as photo:
            assert photo.size == scenes.SIZE
