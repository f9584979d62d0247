"""Small runs give what they gave when tests/frozen was stored.

    python -m tests.test_frozen [RUN ...]    # store again, where a change of these numbers is intended

Stored are the names of the files of each run, sums of its tensors, what summary.json and thresholds.json hold
(without costs, versions and sentences), predictions for new samples, and the top of the list of missing
labels. A run folder and a store of answers of 8e5862dc lie next to it: they are still read.
"""

from __future__ import annotations

import contextlib
import csv
import json
import math
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from safetensors import safe_open

import spml
from spml.cli.main import COMMANDS, find_parser, main
from tests.helpers.features import make_features, make_weights
from tests.helpers.photo_runs import write_photos
from tests.helpers.photos import make_photos
from tests.helpers.texts import make_texts, write_texts

STORED = Path(__file__).parent / "frozen"
HIDE = ["--data.unlisted", "negative", "--data.observe", "single"]
SMALL = [
    "--model.backbone", "small_cnn", "--model.weights", "random", "--data.size", "24", "--data.workers", "0",
]  # fmt: skip
COMMON = ["--threads", "1", "--accelerator", "cpu", "--seed", "3"]
AN, PHOTOS = ["--method", "an"], ["classes", "--data.workers", "0"]
RUNS = {
    "features-auto": ["x.npz", *HIDE, "--mean_labels", "1.8"],
    "features-an": ["x.npz", *HIDE, *AN, "--epochs", "3", "--lr", "1e-2"],
    "features-gr": ["x.npz", *HIDE, "--method", "gr", "--epochs", "3", "--mean_labels", "1.8"],
    "features-ridge": ["x.npz", *HIDE, "--head", "ridge"],
    "features-lda": ["x.npz", *HIDE, "--head", "lda", "--mean_labels", "1.8"],
    "photos-an": ["squares/labels.csv", *HIDE, *SMALL, "--data.separator", " ", *AN, "--epochs", "2"],
    "photos-auto": [*PHOTOS, "--weights", "w.safetensors", "--data.size", "64", "--mean_labels", "1.2"],
    "photos-queries": ["classes", *SMALL, "--head", "queries", *AN, "--epochs", "1", "--lr", "1e-4"],
    "text-auto": ["texts.csv", "--data.text", "title,abstract", "--mean_labels", "1.5"],
    "stopped": ["x.npz", *HIDE, "--method", "em_apl", "--epochs", "4", "--lr", "1e-2"],
}
NEW = {
    "features": ["x.npz"],
    "photos-an": ["squares"],
    "photos": ["classes/red", "classes/blue"],
    "text": ["new.csv"],
    "stopped": ["x.npz"],
}
LEFT_OUT = {"cost", "versions", "command", "warnings", "notes", "model", "sha256", "metrics_sha256"}


def make_data(folder: Path) -> None:
    """Write the data of all runs, with the same names everywhere, so that they are found from the folder."""
    make_features(folder / "x.npz")
    write_photos(folder / "squares", 40)
    make_photos(folder / "classes", 14)
    make_weights(folder / "w.safetensors", size=64)
    texts = make_texts(160)
    write_texts(folder / "texts.csv", texts)
    write_texts(folder / "new.csv", texts[:20], header=("id", "title", "abstract", "all"))


def make_run(name: str) -> dict[str, object]:
    """Train a run in the working directory, use it, and describe what came out."""
    folder = Path("runs", name)
    words = ["train", *RUNS[name], *COMMON, "--output", str(folder)]
    if name == "stopped":
        stop_and_resume(words)
    else:
        main(words)
    new = next(NEW[kind] for kind in NEW if name.startswith(kind))
    main(["predict", str(folder), *new, "--scores", "all", "--output", str(folder / "p.csv")])
    listed = []
    with contextlib.suppress(SystemExit):  # a run without K has no list
        main(["audit", str(folder), "--output", str(folder / "audit")])
        with open(folder / "audit" / "missing.csv", newline="") as stream:
            listed = list(csv.reader(stream))[:12]
    with open(folder / "p.csv", newline="") as stream:
        predictions = list(csv.reader(stream))[:9]
    summary = json.loads((folder / "summary.json").read_text())
    del summary["run"]  # follows from the pixels, which decoders differ in
    return {
        "files": sorted(path.name for path in folder.iterdir() if path.name not in {"p.csv", "audit"}),
        "weights": weights_of(folder / "model.safetensors"),
        "summary": flat(summary),
        "thresholds": flat(json.loads((folder / "thresholds.json").read_text())),
        "predictions": [[number(cell) for cell in row] for row in predictions],
        "missing": [[number(cell) for cell in row] for row in listed],
    }


def stop_and_resume(words: list[str]) -> None:
    """Train, stop after the second epoch as the interrupt key does, and resume."""
    from spml.engine.loop import Trainer

    real, count = Trainer._end_epoch, [0]

    def stop(self: Trainer, metrics: object) -> None:
        real(self, metrics)  # type: ignore[arg-type]
        count[0] += 1
        if count[0] == 2:
            self.save()
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "_end_epoch", stop)
        with pytest.raises(SystemExit):
            main(words)
    assert count == [2]
    main([*words, "--resume"])


def weights_of(path: Path) -> dict[str, list[float]]:
    with safe_open(path, "np") as stored:
        tensors = {name: stored.get_tensor(name).astype("float64") for name in stored.keys()}  # noqa: SIM118
    return {
        name: [value.size, round(float(value.sum()), 6), round(float(abs(value).sum()), 6)]
        for name, value in tensors.items()
    }


def flat(value: object, key: str = "") -> dict[str, object]:
    """Every leaf of a document by its path, but for what differs between machines, and sentences."""
    if isinstance(value, dict):
        parts = {f"{key}.{name}".lstrip("."): inner for name, inner in value.items() if name not in LEFT_OUT}
    elif isinstance(value, list) and len(value) <= 20:
        parts = {f"{key}.{place}": inner for place, inner in enumerate(value)}
    else:
        return {key: len(value) if isinstance(value, list) else number(value)}
    return {path: leaf for name, inner in parts.items() for path, leaf in flat(inner, name).items()}


def number(value: object) -> object:
    """A float with six digits, where the value or cell is one."""
    try:
        return value if isinstance(value, (bool, int)) or value is None else float(f"{float(value):.6g}")  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return value


def differences(stored: object, found: object, key: str = "") -> list[str]:
    """Paths at which two descriptions differ, numbers by more than rounding explains."""
    if isinstance(stored, dict) and isinstance(found, dict):
        pairs = [
            (f"{key}/{name}", stored.get(name, "-"), found.get(name, "-")) for name in {**stored, **found}
        ]
    elif isinstance(stored, list) and isinstance(found, list) and len(stored) == len(found):
        pairs = [(f"{key}/{place}", *pair) for place, pair in enumerate(zip(stored, found, strict=True))]
    elif isinstance(stored, float) or isinstance(found, float):
        with contextlib.suppress(TypeError, ValueError):
            if math.isclose(float(stored), float(found), rel_tol=2e-3, abs_tol=2e-3):  # type: ignore[arg-type]
                return []
        return [f"{key}: {stored} -> {found}"]
    else:
        return [] if stored == found else [f"{key}: {stored!r} -> {found!r}"]
    return [line for path, before, after in pairs for line in differences(before, after, path)]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("frozen")
    make_data(folder)
    return folder


@pytest.mark.usefixtures("all_trees")
@pytest.mark.parametrize("name", RUNS)
def test_run(name, data, monkeypatch):
    monkeypatch.chdir(data)
    stored = json.loads((STORED / f"{name}.json").read_text())
    assert differences(stored, json.loads(json.dumps(make_run(name)))) == []


def test_public_names_and_options():
    stored = json.loads((STORED / "names.json").read_text())
    missing = [name for name in stored["spml"] if name not in spml.__all__]
    missing += [
        f"{command} {option}"
        for command, options in stored["commands"].items()
        for option in options
        if option not in options_of(command)
    ]
    assert missing == []


def options_of(command: str) -> list[str]:
    parser = find_parser(command)
    return sorted(word for action in parser._actions for word in action.option_strings)


def test_a_run_folder_of_8e5862dc(data, monkeypatch, capsys):
    monkeypatch.chdir(data)
    shutil.copytree(STORED / "old_run", data / "old_run")
    stored = json.loads((STORED / "old_run.json").read_text())
    main(["predict", "old_run", "x.npz", "--scores", "all", "--output", "old.csv"])
    with open("old.csv", newline="") as stream:
        found = [[number(cell) for cell in row] for row in list(csv.reader(stream))[:9]]
    assert differences(stored["predictions"], found) == []
    main(["thresholds", "old_run", "--target", "precision=0.8"])
    main(["audit", "old_run"])
    assert (data / "old_run" / "audit" / "missing.csv").exists()


def test_a_store_of_answers_of_8e5862dc(tmp_path, monkeypatch):
    shutil.copytree(STORED / "old_review", tmp_path / "rev")
    monkeypatch.chdir(tmp_path)
    main(["review", "export", "rev/audit", "now.csv", "--format", "csv", "--data", "rev/photos/labels.csv"])
    assert (tmp_path / "now.csv").read_text() == (tmp_path / "rev" / "reviewed.csv").read_text()


def store(names: list[str]) -> None:
    commands = {command: options_of(command) for command in COMMANDS if command != "analyse"}
    (STORED / "names.json").write_text(
        json.dumps({"spml": sorted(spml.__all__), "commands": commands}) + "\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        make_data(Path(folder))
        for name in names or RUNS:
            (STORED / f"{name}.json").write_text(json.dumps(make_run(name)) + "\n")


if __name__ == "__main__":
    store(sys.argv[1:])
