"""The documentation works as shown: doctests, every command and Python block of the README and the pages.

Generated pages are up to date with their generators.
"""

from __future__ import annotations

import ast
import csv
import doctest
import importlib
import importlib.util
import json
import pkgutil
import re
import shlex
import shutil
import sys
import xml.etree.ElementTree as ElementTree
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import save_model

import spml
from spml.cli.audit import _WORTH
from spml.cli.main import main, parse
from spml.config import from_dict
from spml.data.readers import readers
from spml.engine import loader
from spml.methods.cards import NOTATION
from spml.methods.registry import create, hyper_parameters, methods
from spml.review.labelling import Labelling
from spml.review.progress import Selection
from spml.review.session import Review
from tests.helpers.members import few_members
from tests.helpers.photos import make_photos
from tests.helpers.processes import quick_workers
from tests.helpers.texts import make_texts, write_texts

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "docs"), str(ROOT / "benchmarks")]
make_methods = importlib.import_module("make_methods")
method_pictures = importlib.import_module("method_pictures")
PAGES = ROOT / "docs" / "methods"
RESULTS = ROOT / "benchmarks" / "results"
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
    "weights.safetensors",
    "--epochs",
    "1",
    "--threads",
    "1",
]
FLAGS += ["--data.size", "32", "--data.workers", "0"]


def blocks(language: str, text: str = README) -> list[str]:
    """The code blocks of a page that are in this language; empty for those without one."""
    every = re.findall(r"^```(\w*)[^\n]*\n(.*?)^```$", text, re.S | re.M)
    return [block for name, block in every if name == language]


@pytest.mark.long
def test_doctests():
    results = {name: doctest.testmod(importlib.import_module(name)) for name in MODULES}
    assert not {name for name, result in results.items() if result.failed}
    assert results["spml.losses.robust"].attempted >= 2
    assert results["spml.labels"].attempted >= 2


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch):
    """Images are decoded here: what is read is the same, and predictions would start processes otherwise."""

    def in_no_process(dataset, batches, workers, pin):
        return data_loader(dataset, batches, 0, pin)

    data_loader = loader._data_loader
    monkeypatch.setattr(loader, "_data_loader", in_no_process)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with the files that the README and the page on training use."""
    photos = make_photos(tmp_path / "photos", per_class=10)
    (tmp_path / "new").mkdir()
    for name in ("blue", "green", "red"):
        (photos / name / "00.png").rename(tmp_path / "new" / f"{name}.png")
    rows = "".join(f"new/{name}.png,{name}\n" for name in ("blue", "green", "red"))
    (tmp_path / "labelled.csv").write_text("file,labels\n" + rows)
    (tmp_path / "new.csv").write_text("id,image\n1,blue.png\n2,red.png\n")
    torch.manual_seed(0)
    save_model(timm.create_model("test_efficientnet", pretrained=False), tmp_path / "weights.safetensors")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def fast_exports(folder):
    """Without the weights of pixels, and with the best members of an auto head only, exports are fast."""
    (folder / "weights.json").write_text('{"interpolation": "nearest"}')
    with few_members():
        yield


def answer_first(audit):
    """Confirm the first entry of an audit, as a person would on the page."""
    review = Review(audit, "reader")
    review.decide(
        int(review.lists["missing"].entries.rows[0]),
        int(review.lists["missing"].entries.columns[0]),
        "yes",
        Selection(),
    )


def label_in_full(sheet):
    """Tick a second class in every other photo of a sample, and complete all, as a person would."""
    page = Labelling(sheet, "reader")
    for number, sample in enumerate(page.shown()[0]):
        if number % 2:
            (card,) = page.cards([sample])
            page.decide(sample, next(column for column in range(3) if column not in card.given), "yes")
        page.complete(sample, complete=True)
    page.store.close()


def run_commands(text):
    """Run every `spml` command in the code blocks of a page, with a small backbone; gives the commands."""
    lines = [line for block in blocks("", text) for line in block.splitlines() if line.startswith("spml ")]
    commands = [shlex.split(line, comments=True)[1:] for line in lines]
    for command in commands:
        if command == ["bench", "run", "quick"]:  # tests/bench/test_runs.py runs it
            continue
        if command[0] == "review" and command[1] != "export":  # tests/review/test_serve.py serves the page
            answer_first(Path(command[1]))
            continue
        fewer = ["--data.sample_rows", "200"] if command[1] == "digits" else []
        main([*command, *(FLAGS if command[0] == "train" else []), *fewer])
    return commands


def test_the_commands_of_the_readme(folder):
    commands = [command[0] for command in run_commands(README)]
    story = ["train", "thresholds", "audit", "review", "review", "train"]
    assert commands == ["train", "predict", *story, "bench", "train", "analyse", "analyse"]
    rows = list(csv.DictReader((folder / "reviewed.csv").open()))
    known = [sum(row[name] == "1" for name in ("blue", "green", "red")) for row in rows]
    assert sorted(known) == [1] * (len(rows) - 1) + [2]
    assert (folder / "tags.csv").read_text().startswith("file,labels,blue,green,red\n")
    assert (folder / "analysis" / "separation.png").is_file()


@pytest.mark.long
@pytest.mark.usefixtures("fast_exports")
def test_the_quick_start(folder, capsys):
    """Follows the page literally, from the second step on; a person answers where a page is opened."""
    page = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
    shutil.rmtree(folder / "photos")
    make_photos(folder / "photos", per_class=20)
    said = {}
    for line in (line for block in blocks("", page) for line in block.splitlines()):
        command = shlex.split(line)
        if command[0] != "spml":
            continue
        if command[:2] == ["spml", "review"] and command[2] != "export":
            (label_in_full if command[2].endswith(".csv") else answer_first)(folder / command[2])
            continue
        main([*command[1:], *(FLAGS if command[1] == "train" and "--like" not in command else [])])
        said[" ".join(command[1:3])] = capsys.readouterr().out
    assert "K 1.50" in said["audit use"]
    header, *rows = csv.reader((folder / "tags.csv").open())
    assert header[:2] == ["file", "labels"]
    assert len(rows) == 3
    target = json.loads((folder / "runs" / "first" / "thresholds.json").read_text())["target"]
    assert (target["name"], target["value"]) == ("precision", 0.8)
    assert (folder / "runs" / "second" / "export" / "model.onnx").is_file()
    names: dict[str, object] = {}
    for block in blocks("python", page):
        exec(compile(block, "quickstart.md", "exec"), names)
    assert len(capsys.readouterr().out.splitlines()) == 1


@pytest.mark.long
def test_the_page_on_training(folder):
    page = (ROOT / "docs" / "train.md").read_text(encoding="utf-8")
    commands = run_commands(page)
    assert [command[0] for command in commands] == [
        *("train", "predict", *["train"] * 9, "analyse"),
        *("predict", "predict", "predict"),
        "evaluate",
    ]
    assert len([*(folder / "new").glob("*.png.xmp")]) == len([*(folder / "new").glob("*.png")])
    listed = re.findall(r"`([\w.]+)`", page.partition("## The run folder")[2].partition("\n\nA run can")[0])
    assert {"config.yaml", "summary.json"} <= set(listed)
    written = {path.name for path in (folder / "runs" / "photos").iterdir()}
    logs = {"logs.json", "tensorboard", "wandb", "mlflow.db"}
    assert {*listed} - {"scores", "features", "thresholds.png", *logs} <= written
    assert "thresholds.png" not in written  # K is not stated
    assert len((folder / "top.jsonl").read_text().splitlines()) == 2
    assert (folder / "runs" / "recorded" / "scores" / "samples.safetensors").is_file()


@pytest.mark.long
def test_the_page_on_the_loop(folder, capsys):
    page = (ROOT / "docs" / "loop.md").read_text(encoding="utf-8")
    begin, use, review, go_on = [line for block in blocks("", page) for line in block.splitlines()]
    main([*shlex.split(begin)[1:], *FLAGS])
    sheet = folder / "work" / "sample.csv"
    header, *rows = sheet.read_text().splitlines()
    other = {"blue": "green", "green": "red", "red": "blue"}
    filled = [f"{name},{label}|{other[label]},yes" for name, label, _ in (row.split(",") for row in rows)]
    sheet.write_text("\n".join([header, *filled, ""]))
    for command in (use, go_on):
        main(shlex.split(command)[1:])
        assert f"next: {review}\nnext: {go_on}\n" in capsys.readouterr().out.replace(
            "round-2/audit", "round-1/audit"
        )
        answer_first(Path(shlex.split(review)[2]))
    table = page.partition("## The folder")[2]
    listed = re.findall(r"`([\w./-]+\.(?:json|csv|txt)|round-\d/\w+)`", table)
    assert len(listed) == 10
    for name in listed:
        assert (folder / "work" / name).exists(), name


@pytest.mark.long
def test_the_page_on_decisions(folder, capsys):
    page = (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8")
    main(["train", "photos", *FLAGS, "--data.workers", "0", "--output", "runs/photos"])
    capsys.readouterr()
    commands = run_commands(page)
    assert [command[0] for command in commands] == ["thresholds", "thresholds", "predict", "predict"]
    for name in ("tags.csv", "other.csv"):
        header = (folder / name).read_text().splitlines()[0].split(",")
        assert header[2:5] == ["blue", "green", "red"]
        assert header[5:] == ["probability of blue", "probability of green", "probability of red"]
    (python,) = blocks("python", page)
    capsys.readouterr()
    exec(compile(python, "decisions.md", "exec"), {})
    assert capsys.readouterr().out.startswith("blue ")
    policy = spml.load("runs/photos").thresholds
    assert (policy.target.describe(), policy.mean_labels.value) == ("labels", 2.4)
    listed = re.findall(r"^\| `(\w+)", page, re.M)
    assert listed == ["f1", "labels", "recall", "precision"]


@pytest.mark.long
def test_the_page_on_texts(tmp_path, monkeypatch, capsys):
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    write_texts(tmp_path / "papers.csv", make_texts(60))
    for name, seed in (("new", 1), ("labelled", 2)):
        write_texts(tmp_path / f"{name}.csv", make_texts(20, seed), column=4)
    page = (ROOT / "docs" / "text.md").read_text(encoding="utf-8")
    commands = [shlex.split(line)[1:] for block in blocks("", page) for line in block.splitlines()]
    for command in commands:
        main([*command, *(["--threads", "1"] if command[0] == "train" else [])])
    assert [command[0] for command in commands] == ["train", "predict", "evaluate", "audit"]
    assert len((tmp_path / "tags.csv").read_text().splitlines()) == 21
    (python,) = blocks("python", page)
    capsys.readouterr()
    exec(compile(python, "text.md", "exec"), {})
    assert len(ast.literal_eval(capsys.readouterr().out)) == 2


@pytest.mark.long
def test_the_page_on_choosing(folder):
    page = (ROOT / "docs" / "choose.md").read_text(encoding="utf-8")
    commands = run_commands(page)
    assert [command[0] for command in commands] == [
        *("train", "train", "train", "evaluate", "train", "train", "evaluate"),
    ]
    named = set(re.findall(r"`((?:vit|convnext)_\w+\.\w+)`", page))
    assert len(named) >= 8
    assert named <= set(timm.list_pretrained())


def test_the_python_of_the_readme(folder, monkeypatch):
    train = importlib.import_module("spml.runs.api").train

    def train_small(source, y=None, /, **settings):
        small = {**SMALL, "data": {"size": 32, "workers": 0}} if y is None else {"quiet": True}
        return train(source, y, **{**settings, **small})

    monkeypatch.setattr(spml, "train", train_small, raising=False)
    model = torch.nn.Linear(4, 3)
    names = {"model": model, "images": torch.randn(5, 4), "positive_class": torch.tensor([0, 1, 2, 1, 0])}
    features, classes = np.random.default_rng(0).normal(size=(60, 4)), np.arange(60) % 3
    names |= {"X": features, "y": classes, "X_new": features[:2]}
    python = blocks("python")
    assert len(python) == 2
    for block in python:
        exec(compile(block, "README.md", "exec"), names)
    assert model.weight.grad.abs().sum() > 0


def test_the_numbers_of_the_demo_come_from_the_committed_results():
    table = (ROOT / "docs" / "demo" / "table.md").read_text().strip()
    assert table in (ROOT / "docs" / "install.md").read_text()


# -- bring your own data ---------------------------------------------------------------------------------

DATA_PAGE = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")


def make_images(names):
    for number, name in enumerate(names):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        noise = np.random.default_rng(number).integers(0, 256, (16, 20, 3), np.uint8)
        Image.fromarray(noise).save(name)


class HuggingFace:
    """The part of `datasets` that the page uses, for when it is not installed; writes the same files."""

    @staticmethod
    def ClassLabel(names):
        return {"names": names, "_type": "ClassLabel"}

    @staticmethod
    def Sequence(feature):
        return {"feature": feature, "_type": "Sequence"}

    @staticmethod
    def Image():
        return {"_type": "Image"}

    Features = dict

    class Dataset:
        @classmethod
        def from_dict(cls, rows, features):
            dataset = cls()
            dataset.rows, dataset.features = rows, features
            return dataset

        def save_to_disk(self, folder):
            from tests.helpers.huggingface import write

            pictures = [{"bytes": Path(name).read_bytes(), "path": None} for name in self.rows["image"]]
            write(Path(folder), self.rows["labels"], self.features, pictures=pictures)


def run_data_page(command, capsys):
    """Run a command of the page; gives what it printed."""
    arguments = shlex.split(command)[1:]
    capsys.readouterr()
    main([*arguments, *(FLAGS if arguments[0] == "train" else [])])
    return capsys.readouterr().out


@pytest.mark.long
def test_the_page_on_data(tmp_path, monkeypatch, capsys):
    """Writes every file and runs every command in the order of the page."""
    pytest.importorskip("pyarrow", reason="pyarrow, which the page uses, is not installed")
    from tests.data.benchmarks import layouts

    monkeypatch.chdir(tmp_path)
    if importlib.util.find_spec("datasets") is None:
        monkeypatch.setitem(sys.modules, "datasets", HuggingFace)
    layouts.voc2012(tmp_path / "benchmarks")
    save_model(timm.create_model("test_efficientnet", pretrained=False), tmp_path / "weights.safetensors")
    inspected, ran, blocks = {}, [], {}
    for kind, name, text in re.findall(r'^```(\w*)(?: title="(\S+)")?\n(.*?)^```', DATA_PAGE, re.S | re.M):
        if name:
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text(text, encoding="utf-8")
        elif kind == "text":
            make_images(text.split())
        elif kind == "python":
            exec(compile(text, "data.md", "exec"), blocks)
        elif kind == "":
            for command in text.splitlines():
                printed = run_data_page(command, capsys)
                ran.append(command)
                if " inspect " in command:
                    inspected[command.split()[3]] = printed
    assert len(ran) >= 20
    for path, printed in inspected.items():
        assert "training is refused" not in printed, path
    # What the page says of known negatives and of unknown labels.
    for path, (name, *counts) in {
        "photos/tags.csv": ("beach", 2, 2, 0),
        "photos/wide.csv": ("dog", 3, 1, 0),
        "photos/coco.json": ("dog", 2, 1, 1),
        "photos/oi.csv": ("Boat", 1, 1, 2),
        "photos/tasks.json": ("beach", 2, 0, 1),
        "photos/fiftyone.jsonl": ("beach", 2, 0, 1),
        "features.npz": ("sea", 0, 1, 3),
        "weather.arff": ("rain", 2, 1, 1),
        "voc": ("boat", 1, 0, 2),
        "hf": ("dog", 2, 0, 1),
        "photos/typed.csv": ("dog", 2, 0, 2),
    }.items():
        row = re.search(rf"^{name} +(\d+) +(\d+) +(\d+)", inspected[path], re.M)
        assert [int(count) for count in row.groups()] == counts, path
    assert "training: 2 groups by 'author', the largest of 2 samples." in inspected["photos/authors.csv"]
    tasks = json.loads(Path("review.json").read_text(encoding="utf-8"))
    images = [task["data"]["image"] for task in tasks]
    assert images == [f"/data/local-files/?d=photos/{k}.jpg" for k in range(1, 5)]
    assert blocks["labels"] == [[0], [0, 1], [1], [1]]
    assert blocks["pred_probs"].shape == (4, 2)
    assert json.loads(Path("photos/fiftyone.json").read_text()) == {
        "classes": ["beach", "dog", "sea"], "labels": {"1": [0], "2": [0, 1], "3": [1], "4": [1]},
    }  # fmt: skip
    assert {"inspect.json", "inspect.png"} <= {path.name for path in Path("looked").iterdir()}


def test_every_format_that_is_read_is_on_the_page():
    headings = {
        "arff": "ARFF", "coco": "COCO JSON", "coco_folder": "COCO JSON",
        "features": "NumPy", "folder": "Folder per class",
        "huggingface": "Hugging Face", "labelstudio": "Label Studio", "manifest": "The benchmarks",
        "shards": "Feature shards", "table": "CSV: several labels",
        "voc": "PASCAL VOC", "yolo": "Exports in a folder",
    }  # fmt: skip
    assert set(readers()) == set(headings)
    assert not [text for text in headings.values() if f"\n## {text}\n" not in DATA_PAGE]


# -- choose a model --------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_page_on_selection(tmp_path, monkeypatch, capsys):
    """Runs every block in the order of the page; each does what the page says."""
    page = (ROOT / "docs" / "selection.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    names, printed = {}, []
    for kind, text in re.findall(r"^```(\w*)\n(.*?)^```", page, re.S | re.M):
        if kind == "python":
            exec(compile(text, "selection.md", "exec"), names)
            continue
        for command in text.splitlines():
            arguments = shlex.split(command)[1:]
            capsys.readouterr()
            main([*arguments, *(["--threads", "1"] if arguments[0] == "train" else [])])
            printed.append(capsys.readouterr().out)
    training, (compared, one, full, with_k, hidden, other) = printed[:3], printed[3:]
    assert len(training) == 3
    for column in ("SP-score", "95 % interval", "P", "A", "naive mAP", "behind", "z", "tie set"):
        assert column in compared.splitlines()[2]
    assert {path.name for path in Path("compared").iterdir()} == {"comparison.json", "comparison.png"}
    assert "naive mAP" in one
    assert "tie set" not in one
    for column in ("mAP", "behind", "micro F1", "precision", "recall", "macro F1", "P@1", "R@3", "tie set"):
        assert column in full.splitlines()[2]
    assert "K is not known, so thresholds are placed as for 1.5 labels per sample" in full
    assert "K is not known" not in with_k
    assert "1 class left out with" in other
    assert "its true labels were not used" in hidden
    assert (
        json.loads(Path("compared/comparison.json").read_text())["tie_set"] == names["comparison"]["tie_set"]
    )


@pytest.mark.long
def test_the_page_on_comparisons(tmp_path, monkeypatch, capsys):
    """Runs the specification, with less to train, and every command in the order of the page."""
    quick_workers(monkeypatch)
    page = (ROOT / "docs" / "bench.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", page, re.S | re.M)
    quick, python, specification, mine, part, again, study = (text for kind, text in blocks if kind != "text")
    exec(compile(python, "bench.md", "exec"), {})
    for more, less in (("seeds: 2", "seeds: 1"), ("trials: 3", "trials: 2"), ("epochs: 5", "epochs: 2")):
        assert more in specification
        specification = specification.replace(more, less)
    Path("mine.yaml").write_text(specification)
    assert quick == "spml bench run quick --output bench/quick\n"  # tests/bench/test_runs.py runs it
    for command in mine.splitlines():
        main(shlex.split(command)[1:])
    printed = capsys.readouterr().out
    assert "candidate" in printed
    assert "24 of 24 runs are finished" in printed
    with open("bench/mine/results.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    row = next(row for row in rows if row["candidate"] == "gr" and row["selection"] == "observed")
    main(shlex.split(part)[1:])
    assert "| gr | 1 |" in Path("bench/mine/report.md").read_text()
    capsys.readouterr()
    printing, training = again.splitlines()
    main(shlex.split(printing.partition(">")[0].replace("KEY", row["key"][:12]))[1:])
    Path("run.yaml").write_text(capsys.readouterr().out)
    main(shlex.split(training)[1:])
    summary = json.loads(Path("runs/again/summary.json").read_text())
    assert summary["test"]["mAP"] == pytest.approx(float(row["test_mAP"]), abs=1e-6)
    main(shlex.split(study)[1:])
    with open("analysis/sensitivity.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert {row["kind"] for row in rows if row["candidate"] == "ridge"} == {"reference"}
    assert sum(row["candidate"] == "an" for row in rows) == 2  # trials of the search


@pytest.mark.long
def test_the_page_of_results_is_made_from_the_committed_results():
    tables = importlib.import_module("tables")
    assert tables.page() == tables.PAGE.read_text(encoding="utf-8"), "run `python benchmarks/tables.py`"


def test_the_page_on_correlations_is_made_from_the_committed_results():
    correlation = importlib.import_module("correlation")
    about = json.loads((RESULTS / "correlation.json").read_text())
    page = (RESULTS / "correlation.md").read_text(encoding="utf-8")
    assert correlation.page(about) == page, "run `python benchmarks/correlation.py FOLDER`"
    scores = {
        row["candidate"]: row["test mAP by seed"]
        for row in about["results"]
        if (row["data"], row["selection"]) == ("emotions", "oracle")
    }
    gains = [100 * (scores["gr, correlated"][seed] - scores["gr"][seed]) for seed in "01234"]
    assert f"| gr | {np.mean(gains):+.2f} ± {np.std(gains, ddof=1):.2f} |" in page


def test_the_page_on_labels_is_made_from_the_committed_results():
    labels = importlib.import_module("labels")
    about = json.loads((RESULTS / "labels.json").read_text())
    page = (RESULTS / "labels.md").read_text(encoding="utf-8")
    assert labels.page(about) == page, "run `python benchmarks/labels.py FEATURES.npz`"
    scores = [row["one label"] for row in about["shares"] if row["share"] == 1]
    assert f"| {100 * np.mean(scores):.1f} ± {100 * np.std(scores, ddof=1):.1f} |" in page


@pytest.mark.long
def test_the_page_on_audits(tmp_path, monkeypatch, capsys):
    page = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    truth = generator.random((400, 6)) < 0.3
    truth[np.arange(400), generator.integers(0, 6, 400)] = True
    features = truth @ generator.normal(size=(6, 12)) + 0.5 * generator.normal(size=(400, 12))
    known = np.argmax(truth * generator.random(truth.shape), axis=1)
    np.savez("features.npz", X=features.astype(np.float32), Y=known, classes=np.array(list("abcdef")))
    for kind, text in re.findall(r"^```(\w*)\n(.*?)^```", page, re.S | re.M):
        if kind == "python":
            capsys.readouterr()
            exec(compile(text, "audit.md", "exec"), {})
            yield_of_example, right = capsys.readouterr().out.splitlines()
            assert f"# {yield_of_example.partition('points')[0]}" in text
            assert f"# {right}\n" in text
            continue
        for command in text.splitlines():
            main([*shlex.split(command)[1:], *(["--threads", "1"] if " train " in command else [])])
    for folder in (Path("runs/features/audit"), Path("audits/first")):
        assert {path.name for path in folder.iterdir()} == {
            "audit.json", "audit.png", "classes.csv", "missing.csv", "wrong.csv",
        }  # fmt: skip


def test_the_page_on_audit_samples_is_made_from_the_committed_results():
    audit_sample = importlib.import_module("audit_sample")
    measured = json.loads((RESULTS / "audit_sample.json").read_text())
    page = (RESULTS / "audit_sample.md").read_text(encoding="utf-8")
    assert audit_sample.page(measured) == page, "run `python benchmarks/audit_sample.py DIR`"
    guide = (ROOT / "docs" / "audit-sample.md").read_text(encoding="utf-8")
    told = audit_sample.medians(measured)
    printed = (
        f"{told['shift']} points above mAP of all samples, ±{told['margin']} points, and a difference of "
        f"{told['difference']} points between two models was found with probability 80 %."
    )
    assert printed in _WORTH
    assert printed in " ".join(guide.split())
    for rows in ("50", "100", "200"):
        for hiding in ("uniform", "frequency"):
            row = next(line for line in page.splitlines() if line.startswith(f"| {rows} | {hiding} |"))
            numbers = row.split("|")[4:]
            words = "uniform" if hiding == "uniform" else "frequent classes preferred"
            assert f"| {rows} | {words} |{'|'.join(numbers)}" in guide


@pytest.mark.long
def test_the_page_on_audit_samples(tmp_path, monkeypatch, capsys):
    """Runs every block in the order of the page; a person fills in each table that a command writes."""
    page = (ROOT / "docs" / "audit-sample.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    truth = generator.random((600, 6)) < 0.3
    truth[np.arange(600), generator.integers(0, 6, 600)] = True
    features = truth @ generator.normal(size=(6, 12)) + 0.5 * generator.normal(size=(600, 12))
    classes = np.array(list("abcdef"))
    known = np.argmax(truth * generator.random(truth.shape), axis=1)
    np.savez("features.npz", X=features.astype(np.float32), Y=known, classes=classes)
    for name, more in (("ridge", ["--head", "ridge"]), ("gr", ["--method", "gr", "--epochs", "2"])):
        main(["train", "features.npz", *more, "--threads", "1", "--output", f"runs/{name}"])
    for kind, text in re.findall(r"^```(\w*)\n(.*?)^```", page, re.S | re.M):
        if kind == "python":
            names: dict[str, np.ndarray] = {}
            exec(compile(text, "audit-sample.md", "exec"), names)
            assert 0 < names["low"] < names["k"] < names["high"]
            assert names["shares"].shape == (12,)
            continue
        for command in text.splitlines():
            arguments = shlex.split(command)[1:]
            capsys.readouterr()
            if arguments[0] == "review":  # tests/review serves the page
                page = Labelling(Path(arguments[1]), "reader")
                page.complete(page.shown()[0][0], complete=True)
                page.store.close()
                continue
            main(arguments)
            said = capsys.readouterr().out
            if arguments[1] == "sample":
                sheet = Path(said.partition(":")[0])
                _fill_in(sheet, truth, classes)
    assert "SP-score and audit" in said
    for name in ("ridge", "gr"):
        told = json.loads(Path("runs", name, "audited.json").read_text())
        assert told["samples"] == 100
        assert told["mean_labels"]["low"] < truth.sum(1).mean() < told["mean_labels"]["high"]


def _fill_in(sheet, truth, classes):
    """Write all labels of each row of an audit sample."""
    with open(sheet, newline="") as stream:
        header, *rows = csv.reader(stream)
    assert len(rows) == 100
    with open(sheet, "w", newline="") as stream:
        filled = [[row, "|".join(classes[truth[int(row)]]), "yes"] for row, *_ in rows]
        csv.writer(stream).writerows([header, *filled])


# -- the pages of the methods ----------------------------------------------------------------------------


@pytest.mark.long
def test_the_pages_of_the_methods_are_what_the_generator_makes():
    pages = make_methods.pages()
    stale = [name for name, text in pages.items() if not _has(PAGES / name, text)]
    assert not stale, f"run `python docs/make_methods.py`: {', '.join(stale)}"
    assert {path.name for path in PAGES.glob("*.md")} == set(pages), "pages of methods that no longer exist"


def _has(path, text):
    return path.is_file() and path.read_text(encoding="utf-8") == text


def test_every_method_has_a_page_and_a_small_picture_without_a_date():
    total = 0
    for name in methods():
        page = (PAGES / f"{name}.md").read_text(encoding="utf-8")
        if name == make_methods.COMBINATION:
            assert "There is no picture" in page
            continue
        assert f"]({name}.svg)" in page
        svg = (PAGES / f"{name}.svg").read_bytes()
        assert ElementTree.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg"
        assert b"date" not in svg
        assert len(svg) <= 25_000
        total += len(svg)
    assert total < 1_000_000


@pytest.mark.long
def test_a_picture_is_the_same_file_each_time():
    first, second = (method_pictures.picture("em") for _ in range(2))
    assert first == second
    assert first.count("<path") > 10


@pytest.mark.long
def test_all_pictures_have_one_scale():
    drawn = {name: method_pictures.figure(name).axes for name in ("an", "em", "wan", "iu", "crisp")}
    assert {axes[0].get_ylim() for axes in drawn.values()} == {method_pictures.LOSS}
    assert {each.get_ylim() for axes in drawn.values() for each in axes[1:]} == {method_pictures.GRADIENT}
    assert {name: len(axes) for name, axes in drawn.items()} == {
        "an": 2, "em": 3, "wan": 3, "iu": 2, "crisp": 2,
    }  # fmt: skip
    # A weak gradient is drawn again, and so is AN's next to it.
    title, (_, compared, line) = drawn["em"][2].get_title(loc="left"), drawn["em"][2].lines
    assert title == "gradient, 40 times larger"
    np.testing.assert_allclose(line.get_ydata(), 40 * method_pictures.curves("em")[1].gradient)
    np.testing.assert_allclose(compared.get_ydata(), 40 * np.array(method_pictures.PROBABILITIES))
    assert [text.get_text() for text in drawn["crisp"][1].texts] == ["\N{UPWARDS ARROW} 5"]
    assert not drawn["an"][1].texts


@pytest.mark.parametrize(
    ("largest", "factor"), [(0.0, 0), (1.0, 0), (0.33, 0), (0.32, 4), (0.1, 10), (0.013, 100), (1e-6, 400)]
)
def test_how_much_larger_a_weak_gradient_is_drawn(largest, factor):
    assert method_pictures.magnification([np.array([0.0, -largest])]) == factor


@pytest.mark.parametrize("name", ["ll_ct", "ll_cp"])
def test_the_curve_of_a_corrected_label_starts_with_the_loss_of_another(name):
    """Where the label is not corrected, the next of the others has l+ in place of l-: a difference of -z."""
    start = float(method_pictures.curves(name, (1e-9, 1 - 1e-9))[1].loss[0])
    logits = make_methods.start_logits().fill_diagonal_(-np.inf)
    logits[0, 2] = -np.inf  # the label that is varied
    assert min(abs(start + z) for z in logits.flatten().topk(12).values.tolist()) < 1e-6
    assert start == pytest.approx(1.1, abs=0.05)
    assert "another label of the batch is corrected in its place" in (PAGES / f"{name}.md").read_text()


def test_every_method_has_its_formula_in_plain_characters_and_in_latex():
    assert sorted(make_methods.FORMULAS) == sorted(methods())
    assert len(make_methods.NOTATION) == len(NOTATION)


@pytest.mark.parametrize("name", methods())
def test_both_formulas_of_a_method_have_the_same_hyper_parameters(name):
    names, latex = hyper_parameters(methods()[name]), make_methods.FORMULAS[name]
    in_plain = set(re.findall(r"\w+", methods()[name].card.formula)) & set(names)
    latex = re.sub(r"\\text|[{}]", "", latex).replace("\\lambda", "lam")
    in_latex = {name for name in names if re.search(rf"(?<![a-zA-Z_]){name}(?![a-zA-Z_])", latex)}
    in_latex |= {name for name in names if name[-1].isdigit() and f"{name[:-1]}_{name[-1]}" in latex}
    assert in_latex == in_plain


P = np.array([0.05, 0.3, 0.5, 0.8, 0.97])


def pulled_down(p):
    """Derivative of p^2 l-."""
    return p**2 * (p - 2 * (1 - p) * np.log(1 - p))


def pulled_up(p):
    """Derivative of (1 - p)^2 l+."""
    return -pulled_down(1 - p)


def robust(k, mu, sigma):
    """GR's gradient on an unknown label with q2 = 0.01 and q3 = 1."""
    return np.exp(-((P - mu) ** 2) / (2 * sigma**2)) * (1 - P) * ((1 - k) * P - k * P**0.01)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


ENTROPY = 0.1 * P * (1 - P) * np.log(P / (1 - P))
# Gradients on an unknown label in the first and the last epoch, from the formulas: where a known positive
# with p = 1/2 has -1/2, methods that sum and those that average are alike.
GRADIENTS = {
    "an": (P, P),
    "wan": (P / 19, P / 19),
    "em": (ENTROPY, ENTROPY),
    "em_apl": (ENTROPY, np.where(P < 0.1, 0, ENTROPY)),
    "gr": (robust(sigmoid(-2), 0.53, 1.85), robust(sigmoid(1.8 * P - 2), 0.8, 0.5)),
    "focal": (-0.5 * pulled_down(P) / pulled_up(0.5),) * 2,
    "splc": (
        -0.5 * pulled_down(P) / pulled_up(sigmoid(-1)),
        -0.5 * np.where(P > 0.6, pulled_up(P), pulled_down(P)) / pulled_up(sigmoid(-1)),
    ),
    "en": (P, np.where(P < 0.27, P, 0)),
    "ll_r": (P, np.where(P < 0.27, P, 0)),
    "ll_cp": (P, np.where(P < 0.27, P, P - 1)),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_the_curves_are_those_of_the_formulas(name):
    curves = method_pictures.curves(name, tuple(P))
    for curve, expected in zip(curves, GRADIENTS[name], strict=True):
        np.testing.assert_allclose(curve.gradient, expected, rtol=1e-9, atol=1e-12)
        assert curve.loss.min() == 0


def test_the_loss_that_is_drawn():
    loss = method_pictures.curves("an", tuple(P))[0].loss
    np.testing.assert_allclose(loss, -np.log(1 - P) + np.log(1 - P[0]), rtol=1e-9, atol=1e-12)
    assert method_pictures.gradient_is_slope("an")
    assert not method_pictures.gradient_is_slope("gr")


@pytest.mark.parametrize("name", methods())
def test_the_examples_of_a_page(name):
    page = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    (command,) = (block for block in blocks("", page) if block.startswith("spml train"))
    parsed = from_dict(parse(shlex.split(command, comments=True)[1:]).settings)
    assert parsed.method == name
    create(name, parsed.hp)

    training, *losses = blocks("python", page)
    call = ast.parse(training).body[1].value
    settings = {argument.arg: ast.literal_eval(argument.value) for argument in call.keywords}
    config = from_dict(settings)
    assert (config.method, config.hp, config.mean_labels) == (name, dict(parsed.hp), parsed.mean_labels)

    logits = torch.randn(6, 4, requires_grad=True)
    names = {
        "logits": logits,
        "target": torch.tensor([0, 1, 2, 3, 0, 1]),
        "mean_labels": 2.0,
        "rate": 0.1,
        "soft": torch.full((6, 4), 0.5),
        "drawn": torch.full((6, 4), 0.5),
        "a": torch.ones(6, 4),
        "b": torch.ones(6, 4),
        "pseudo": torch.zeros(6, 4, dtype=torch.int8),
        "estimates": torch.zeros(6, 4),
        "strong_logits": torch.randn(6, 4),
        "mean": torch.zeros(6, 2),
        "std": torch.ones(6, 2),
        "prior": torch.full((4,), 0.5),
    }
    for block in losses:
        exec(compile(block, f"{name}.md", "exec"), names)
        assert logits.grad.abs().sum() > 0


# -- in your code ----------------------------------------------------------------------------------------


def run_block(block, names, capsys):
    """Run a block of Python; it prints the comments in it."""
    capsys.readouterr()
    exec(compile(block, "a page", "exec"), names)
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert printed == [line[2:] for line in block.splitlines() if line.startswith("# ")], block


def run_page(name, capsys):
    """Run the blocks of Python of a page in their order."""
    names = {}
    for block in blocks("python", (ROOT / "docs" / name).read_text(encoding="utf-8")):
        run_block(block, names, capsys)


@pytest.mark.long
def test_the_page_on_data_in_memory(folder, monkeypatch, capsys):
    pytest.importorskip("pandas", reason="pandas, which the page uses, is not installed")
    train = importlib.import_module("spml.runs.api").train

    def train_small(source, y=None, **settings):
        images = {**SMALL, "data": {"size": 32, "workers": 0}} if "head" not in settings else {"quiet": True}
        return train(source, y, **settings, **images)

    monkeypatch.setattr(spml, "train", train_small, raising=False)
    run_page("in-your-code.md", capsys)


def test_the_page_on_own_loops(capsys):
    run_page("own-loop.md", capsys)


@pytest.mark.long
@pytest.mark.usefixtures("all_trees")
def test_the_page_on_scikit_learn(capsys):
    run_page("scikit-learn.md", capsys)


@pytest.mark.long
def test_the_page_on_own_networks(folder, monkeypatch, capsys):
    pytest.importorskip("transformers", reason="transformers, which the page uses, is not installed")
    page = (ROOT / "docs" / "own-network.md").read_text(encoding="utf-8")
    train = importlib.import_module("spml.runs.api").train
    quiet = partial(train, quiet=True, threads=1)
    monkeypatch.setattr(spml, "train", quiet, raising=False)
    names = {"__name__": "own_network_page"}
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```", page, re.S | re.M):
        if language == "python":
            run_block(block, names, capsys)
            continue
        for command in block.splitlines():
            quick = ["--threads", "1", "--epochs", "1", "--data.workers", "0"] if " train " in command else []
            quick += ["--data.size", "32"] if quick and "--data.size" not in command else []
            main([*shlex.split(command)[1:], *quick])
    sys.modules.pop("my_nets")  # another test has a module of this name


@pytest.mark.long
@pytest.mark.usefixtures("folder", "fast_exports")
def test_the_page_on_export(capsys):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    page = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")
    main(["train", "photos", "--output", "runs/photos", *FLAGS])
    assert len(run_commands(page)) == 3
    assert Path("photos.pt2").stat().st_size
    assert json.loads(Path("hub/photos/config.json").read_text())["loads_with"] in page
    run_page("export.md", capsys)
