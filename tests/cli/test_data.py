"""The commands of `spml data`."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from spml.config import DataConfig
from spml.data.readers import read
from tests.helpers import write_image, write_odd_photos
from tests.helpers.commands import execute, fails
from tests.helpers.features import HIDE

FILES = ("a.png", "b c.png", "sub/ä,ö;ü.png")


@pytest.fixture
def photos(tmp_path):
    return write_odd_photos(tmp_path)


@pytest.fixture
def tagged(tmp_path, monkeypatch):
    """The current folder, with a table of three images."""
    monkeypatch.chdir(tmp_path)
    lines = [f'"{name}",{labels}' for name, labels in zip(FILES, ("cat", "cat;fox", "fox"), strict=True)]
    for name in FILES:
        write_image(tmp_path / name)
    Path("tags.csv").write_text("\n".join(["file,labels", *lines]) + "\n", encoding="utf-8")
    return tmp_path


# -- inspect ---------------------------------------------------------------------------------------------


def test_inspect_writes_complete_tables(photos, tmp_path, capsys):
    out = tmp_path / "out" / "inspect"
    execute("data inspect", photos, "--output", out, "--data.max_unreadable 0.5")
    text = capsys.readouterr().out
    assert "data: 6 images; train 4, val 1, test 1" in text
    assert "1 group of class names may mean the same: 'Traffic Light' (3) and 'traffic_light' (1)." in text
    assert "duplicates: 2 groups of equal samples" in text
    assert "  a.png (train), copy.png (test)" in text
    assert "unreadable: 1 of 6 images\n  broken.png: not an image" in text
    assert {path.name for path in out.iterdir()} == {
        "inspect.json", "inspect.png", "classes.csv", "duplicates.csv", "unreadable.csv",
        "skipped.csv",
    }  # fmt: skip
    document = json.loads((out / "inspect.json").read_text())
    assert document["labels_per_sample"] == {"1": 5, "2": 1}
    assert document["duplicates"][0]["ids"] == ["a.png", "copy.png"]
    rows = list(csv.reader((out / "classes.csv").open()))
    assert rows[:2] == [
        ["class", "positive", "negative", "unknown", "train", "val", "test", "training"],
        ["horse", "3", "0", "3", "2", "1", "0", "1"],
    ]
    assert list(csv.reader((out / "duplicates.csv").open()))[1:] == [
        ["1", "a.png", "train", "1", "1"],
        ["1", "copy.png", "test", "1", "1"],
        ["2", "c.png", "train", "0", "0"],
        ["2", "same.png", "train", "0", "0"],
    ]
    assert list(csv.reader((out / "unreadable.csv").open()))[1][0] == "broken.png"
    assert list(csv.reader((out / "skipped.csv").open()))[1][0] == "broken.png"


def test_inspect_prints_no_characters_that_a_terminal_obeys(tmp_path, capsys):
    reversing = "\u202ered"
    np.savez(
        tmp_path / "x.npz", X=np.eye(4), Y=np.eye(4, 2), classes=np.array([reversing, "[bold]b"]),
        names=np.array([f"{reversing}.txt", "b", "c", "d"]),
    )  # fmt: skip
    execute("data inspect", tmp_path / "x.npz")
    text = capsys.readouterr().out
    assert "\u202e" not in text
    assert "\n\ufffdred " in text
    assert "\n[bold]b " in text


def test_inspect_shortens_long_tables(tmp_path, capsys):
    names = [f"class {chr(0x4E00 + i)}" for i in range(60)]
    np.savez(
        tmp_path / "x.npz",
        X=np.arange(1830)[:, None],
        Y=np.repeat(np.eye(60), np.arange(1, 61), axis=0).astype(np.uint8),
        classes=np.array(names),
    )
    execute("data inspect", tmp_path / "x.npz")
    text = capsys.readouterr().out
    listed = [number for number, name in enumerate(names) if f"\n{name} " in text]
    assert listed == [*range(10), *range(30, 60)], "the 30 most and the 10 least frequent"
    assert "(20 more classes; with --output, all are in classes.csv)" in text


def test_inspect_prints_observed_and_hidden_labels(tmp_path, capsys):
    path = tmp_path / "x.npz"
    np.savez(
        path, X=np.eye(4), Y=[[1, 1, 1], [1, 0, 1], [0, 1, 1], [1, 0, 0]], split=["train"] * 2 + ["val"] * 2
    )
    execute("data inspect", path, "--data.unlisted negative --data.observe single")
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    header = (
        "mean per sample samples positives negatives observed positives observed negatives hidden positives"
    )
    assert header.split() in lines
    assert ["train", "2", "2.50", "0.50", "1.00", "0.00", "1.50"] in lines
    execute("data inspect", path)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["train", "2", "unknown", "unknown", "2.50", "0.00", "unknown"] in lines


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("nothing", "nothing: no such file or folder"),
        ("data.csv --data.path other.csv", "the data is named twice: data.csv and --data.path other.csv"),
        ("data.csv --output data.csv", "data.csv: is a file; `output` must name a folder"),
        ("data.csv --data.val_share 1.5", "data.val_share must be between 0 and 1, got 1.5"),
        ("data.csv --data.sample_classes 2", "unknown option --data.sample_classes"),
        ("data.csv --data.file_column fil", "no column has this name; found: file"),
    ],
)
def test_inspect_wrong_input_ends_with_2(photos, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(photos.parent)
    assert message in fails(capsys, "data inspect", arguments)


# -- prepare ---------------------------------------------------------------------------------------------


def test_prepare_names_what_is_missing_and_the_next_command(tmp_path, monkeypatch, capsys):
    assert "is missing" in fails(capsys, "data prepare voc2012 --root", tmp_path)

    def prepare(name, root):
        assert (name, root) == ("voc2012", "my data")
        return Path(root) / "spml-voc2012.json"

    monkeypatch.setattr("spml.data.benchmarks.prepare", prepare)
    execute("data prepare voc2012 --root", ["my data"])
    assert capsys.readouterr().out.splitlines() == [
        "my data/spml-voc2012.json: written. Train on it with the labels that the publications observed:",
        "  spml train 'my data/spml-voc2012.json' --data.observe protocol --output runs/voc2012",
    ]


# -- convert ---------------------------------------------------------------------------------------------


def test_convert_with_predictions(tagged, capsys):
    Path("p.csv").write_text("file,labels,cat,fox\na.png,cat;fox,0.9,0.7\n")
    execute("data convert tags.csv out.json --format coco --overwrite --predictions p.csv")
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        "out.json: 3 samples, 2 classes",
        "1 inferred label written, 1 left out in favour of given labels.",
    ]
    assert "p.csv: has no prediction for 2 samples of the data." in printed.err
    document = json.loads(Path("out.json").read_text())
    assert [a["category_id"] for a in document["annotations"]] == [1, 1, 2, 2]
    assert document["inferred_annotations"] == [
        {"id": 1, "image_id": 1, "category_id": 2, "inferred": True, "score": 0.7}
    ]
    assert "neg_category_ids" not in document["images"][0]


def test_convert_with_names_that_a_spreadsheet_would_run(tagged, capsys):
    write_image(tagged / "+a.png")
    Path("odd.csv").write_text("file,=1+1,cat\n+a.png,1,\na.png,-1,1\n")
    execute("data convert odd.csv out.csv --format csv")
    assert "note: in the CSV or TSV files, 2 cells begin as a formula does" in capsys.readouterr().err
    with open("out.csv", newline="") as stream:
        rows = list(csv.reader(stream))
    assert rows == [["file", "=1+1", "cat"], ["+a.png", "1", ""], ["a.png", "-1", "1"]]


def test_an_output_of_convert_that_can_not_be_written_is_told_first(tmp_path, capsys):
    output = tmp_path / ("a" * 240 + ".csv")
    said = fails(capsys, "data convert", ["no data"], output, "--format csv")
    assert f"{output}: can't be written (File name too long)" in said


def test_convert_writes_hidden_labels(tagged, capsys):
    execute("data convert tags.csv out.csv --format csv --overwrite", *HIDE)
    assert "one positive label" in capsys.readouterr().err.lower()
    read_back = read(DataConfig(path="out.csv"))
    assert read_back.labels.single_positive
    assert (read_back.labels.to_ternary().sum(axis=1) == 1).all()


def test_convert_names_files_from_a_root(tagged, capsys):
    execute("data convert tags.csv out.csv --format csv --root ..")
    assert capsys.readouterr().out.splitlines()[1] == (
        f"File names are relative to ..: read it with data.images={tagged.parent}"
    )
    with open("out.csv", encoding="utf-8") as stream:
        assert [row[0] for row in csv.reader(stream)][1:] == [f"{tagged.name}/{name}" for name in FILES]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("tags.csv new.csv --format cleanlab", "unknown format 'cleanlab'. Known: coco, csv, "),
        ("tags.csv new.csv --format labelstudo", "unknown format 'labelstudo'. Did you mean labelstudio?"),
        ("tags.csv new.csv --format csv --root none", "root=none: is not a folder"),
        ("tags.csv new.csv --format csv --root sub", "root=sub: 2 images lie outside this folder, such as "),
        ("tags.csv new.csv --format csv --predictions no.csv", "no.csv: no such file"),
        ("tags.csv tags.csv --format csv", "tags.csv: already exists"),
        ("no.csv new.csv --format csv", "no.csv: no such file or folder"),
        ("tags.csv new.csv --format csv --data.observe single", "hides labels of fully labelled"),
    ],
)
def test_convert_wrong_input_ends_with_2(tagged, capsys, arguments, message):
    assert message in fails(capsys, "data convert", arguments)
    assert not Path("new.csv").exists()


OUTSIDE_WRITER = '''
from spml.data.writers import image_names, known_by_sample, register_writer

@register_writer("lines", "a file with one line per image", suffix=".txt")
def write_lines(records, inferred, output):
    """One line per image: its name, its positive labels and, with question marks, the inferred ones."""
    names, notes = image_names(records, output.parent)
    lines = []
    for name, columns, guesses in zip(
        names, known_by_sample(records.labels, 1), inferred.by_sample(len(names))
    ):
        given = [records.classes[column] for column in columns]
        guessed = [records.classes[column] + "?" for column, value, score in guesses if value == 1]
        lines.append(" ".join([name, *given, *guessed]) + "\\n")
    return {output: "".join(lines)}, notes
'''


@pytest.mark.long
def test_a_writer_of_another_package_is_found_by_its_entry_point(tagged):
    """A package that is only on the path, as pip would install it."""
    package = tagged / "package"
    info = package / "their_writer-1.0.dist-info"
    info.mkdir(parents=True)
    (package / "their_writer.py").write_text(OUTSIDE_WRITER)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-writer\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[spml.writers]\nlines = their_writer\n")
    Path("p.csv").write_text("file,labels,cat,fox\na.png,cat;fox,0.9,0.7\n")
    command = ["data", "convert", "tags.csv", "out.txt", "--format", "lines", "--predictions", "p.csv"]
    start = f"import sys; sys.path.insert(0, {str(package)!r})\nfrom spml.cli import main\n"
    twice = f"main({command!r})\n" * 2
    done = subprocess.run([sys.executable, "-c", start + twice], capture_output=True, text=True)
    assert "1 inferred label written" in done.stdout
    lines = Path("out.txt").read_text(encoding="utf-8").splitlines()
    assert lines == ["a.png cat fox?", "b c.png cat fox", "sub/ä,ö;ü.png fox"]
    assert done.returncode == 2
    assert "out.txt: already exists" in done.stderr
