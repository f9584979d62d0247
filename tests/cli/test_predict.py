"""`spml predict` on many images: continued, reused, in several formats."""

from __future__ import annotations

import csv
import json
import shutil

import pytest

import spml
from spml.common.errors import InputError
from spml.models.backbones import Backbone
from spml.runs.predict.unfinished import Unfinished
from tests.helpers.commands import execute
from tests.helpers.records import read_rows
from tests.helpers.sidecars import subjects


def train(photos, output, frozen):
    model = {"backbone": "test_efficientnet", "weights": "random", "frozen": frozen}
    settings = {"method": "an", "epochs": 1, "threads": 1, "data": {"size": 32, "workers": 0}, "quiet": True}
    return spml.train(photos, model=model, output=output, **settings).folder


@pytest.fixture(scope="module")
def trained(photos, tmp_path_factory):
    """A run with a frozen backbone. It holds no features of `red`."""
    folder = tmp_path_factory.mktemp("runs")
    few = folder / "few"
    shutil.copytree(photos, few)
    for path in (few / "red").glob("0[4-7].png"):
        path.unlink()
    return train(few, folder / "run", "yes")


@pytest.fixture
def run(trained, tmp_path):
    """A copy, whose features a test may add to."""
    return shutil.copytree(trained, tmp_path / "runs" / "run")


@pytest.fixture
def computed(monkeypatch):
    """Number of images in each batch that the backbone computes."""
    sizes, forward = [], Backbone.forward
    monkeypatch.setattr(Backbone, "forward", lambda self, x: sizes.append(len(x)) or forward(self, x))
    return sizes


def predict(*arguments):
    execute("predict", *arguments, "--workers 0")


def fails(capsys, *arguments):
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        predict(*arguments)
    assert caught.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err


# -- features are reused ---------------------------------------------------------------------------------


def test_features_of_training_are_reused_and_new_ones_added(run, photos, tmp_path, computed, capsys):
    predict(run, photos, "--output", tmp_path / "one.csv", "--batch_size 10")
    assert sum(computed) == 4
    computed.clear()
    predict(run, photos / "red", photos / "blue", "--output", tmp_path / "two.csv")
    execute("evaluate", run, photos, "--workers 0")
    assert computed == []
    predict(run, photos, "--output", tmp_path / "three.csv", "--cache none")
    assert sum(computed) == 24
    one, three = read_rows(tmp_path / "one.csv"), read_rows(tmp_path / "three.csv")
    for found, direct in zip(one, three, strict=True):
        assert found["file"] == direct["file"]
        for name in ("blue", "green", "red"):
            assert float(found[name]) == pytest.approx(float(direct[name]), rel=1e-4)
    assert {row["file"] for row in read_rows(tmp_path / "two.csv")} < {row["file"] for row in one}


def test_features_in_another_folder_or_that_of_a_neighbour(run, photos, tmp_path, computed):
    predict(run, photos, "--output", tmp_path / "a.csv", "--cache", tmp_path / "cache")
    assert sum(computed) == 24
    computed.clear()
    shutil.copytree(run, run.parent / "next", ignore=shutil.ignore_patterns("features"))
    predict(run.parent / "next", photos / "blue", "--output", tmp_path / "b.csv")
    assert computed == []
    assert not (run.parent / "next" / "features").exists()


def test_a_folder_that_can_not_be_written_to(run, photos, tmp_path, computed, capsys, monkeypatch):
    def refuse(folder):
        raise InputError(f"{folder}: may not be written to.")

    monkeypatch.setattr("spml.runs.predict.features.check_folder", refuse)
    before = sorted(run.rglob("*"))
    for name in ("one.csv", "two.csv"):
        predict(run, photos, "--output", tmp_path / name)
    assert computed == [4, 4]
    assert sorted(run.rglob("*")) == before
    assert f"{run}/features: can't be written to, so features that are computed" in capsys.readouterr().err
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()


def test_a_trained_backbone_is_computed_directly(photos, tmp_path, computed):
    train(photos, tmp_path / "run", "no")
    computed.clear()
    for name in ("a.csv", "b.csv"):
        predict(tmp_path / "run", photos, "--output", tmp_path / name)
    assert sum(computed) == 48
    assert not (tmp_path / "run" / "features").exists()


# -- continued -------------------------------------------------------------------------------------------


def interrupt_after(monkeypatch, blocks):
    done, add = [], Unfinished.add

    def interrupted(self, content, samples, skipped):
        if len(done) == blocks:
            raise KeyboardInterrupt
        add(self, content, samples, skipped)
        if samples:  # the first bytes of the file belong to none
            done.append(samples)

    monkeypatch.setattr(Unfinished, "add", interrupted)


@pytest.mark.long
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_an_interrupted_prediction_is_continued(trained, photos, tmp_path, capsys, monkeypatch, suffix):
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    (tmp_path / "new").mkdir()
    for path in photos.rglob("*.png"):
        shutil.copy(path, tmp_path / "new" / f"{path.parent.name}{path.name}")
    (tmp_path / "new" / "blue01.png").write_bytes(b"broken")
    (tmp_path / "new" / "photo.cr2").write_bytes(b"raw")
    runs = [shutil.copytree(trained, tmp_path / name / "run") for name in "ab"]
    whole, output = tmp_path / f"whole.{suffix}", tmp_path / f"out.{suffix}"
    predict(runs[0], tmp_path / "new", "--output", whole, "--batch_size 5")
    with monkeypatch.context() as patch:
        interrupt_after(patch, 3)
        with pytest.raises(SystemExit):
            predict(runs[1], tmp_path / "new", "--output", output, "--batch_size 5")
    assert "15 samples done so far; the same command continues after them" in capsys.readouterr().err
    assert not output.exists()
    predict(runs[1], tmp_path / "new", "--output", output, "--batch_size 5")
    said = capsys.readouterr().err
    assert f"{output}.partial: continuing after 15 samples done before" in said
    assert "Skipped 1 image:" in said
    assert "new: 1 file is not read: 1 .cr2." in said
    assert f"{output}: 23 samples" in said
    assert output.read_bytes() == whole.read_bytes()
    assert not list(tmp_path.glob("*.partial*"))


def test_other_settings_do_not_continue(run, photos, tmp_path, capsys, monkeypatch):
    output = tmp_path / "out.csv"
    for more in ("", "--top_k 1", "--batch_size 7"):
        with monkeypatch.context() as patch:
            interrupt_after(patch, 1)
            with pytest.raises(SystemExit):
                predict(run, photos, "--output", output, f"--batch_size 5 {more}")
        assert ("starting from the beginning" in capsys.readouterr().err) == bool(more)
    shutil.copy(photos / "red" / "00.png", tmp_path / "out.png")
    predict(run, tmp_path / "out.png", "--output", output, "--batch_size 7")
    assert "starting from the beginning" in capsys.readouterr().err
    assert len(read_rows(output)) == 1


def test_an_output_is_replaced_only_if_told_to(run, photos, tmp_path, capsys):
    output = tmp_path / "out.csv"
    output.write_text("mine")
    said = fails(capsys, run, photos, "--output", output)
    assert f"{output}: already exists. Replace it (`overwrite`), or name another `output`." in said
    assert output.read_text() == "mine"
    predict(run, photos, "--output", output, "--overwrite")
    assert len(read_rows(output)) == 24


# -- what is written -------------------------------------------------------------------------------------


def test_formats_by_suffix_and_the_scores_of_predicted_labels(run, photos, tmp_path, capsys):
    predict(run, photos, "--output", tmp_path / "a.jsonl", "--scores predicted --top_k 2")
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    predict(run, photos, "--output", tmp_path / "a.csv")
    for line, row in zip(lines, read_rows(tmp_path / "a.csv"), strict=True):
        highest = sorted(("blue", "green", "red"), key=lambda name: -float(row[name]))[:2]
        assert line == {
            "file": row["file"],
            "labels": highest,
            "scores": {name: float(row[name]) for name in highest},
        }
    predict(run, photos / "red", "--format jsonl --scores none --threshold 0.999")
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert printed[0] == {"file": f"{photos}/red/00.png", "labels": []}
    predict(run, photos / "red", "--threshold 0.999 --top1_fallback --scores predicted")
    table = list(csv.reader(capsys.readouterr().out.splitlines()))
    assert table[0] == ["file", "labels", "scores"]
    assert all(row[1] in ("blue", "green", "red") and float(row[2]) < 0.999 for row in table[1:])


def test_classes_without_a_training_positive_are_never_predicted(run, photos, capsys):
    card = json.loads((run / "model.json").read_text())
    del card["sha256"]
    (run / "model.json").write_text(json.dumps({**card, "without_positives": ["green"]}))
    predict(run, photos, "--top_k", "3")
    printed = capsys.readouterr()
    assert "Never predicted, because no training sample had it: green." in printed.err
    labels = [row["labels"] for row in csv.DictReader(printed.out.splitlines())]
    assert {frozenset(names.split(";")) for names in labels} == {frozenset({"red", "blue"})}


def test_a_table_of_files(run, photos, tmp_path, capsys):
    table = tmp_path / "new.csv"
    table.write_text("id,image\n1,red/00.png\n2,blue/03.png\n")
    assert "row 2: there is no file 'red/00.png'" in fails(capsys, run, table)
    predict(run, table, "--images", photos)
    printed = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [row["file"] for row in printed] == ["red/00.png", "blue/03.png"]
    predict(run, photos / "red" / "00.png")
    (direct,) = csv.DictReader(capsys.readouterr().out.splitlines())
    assert float(direct["red"]) == pytest.approx(float(printed[0]["red"]), rel=1e-4)


def test_wrong_usage(run, photos, tmp_path, capsys):
    (tmp_path / "broken.png").write_bytes(b"broken")
    output = tmp_path / "out.csv"
    assert "No usable image among 1 file" in fails(capsys, run, tmp_path / "broken.png", "--output", output)
    assert [path.name for path in tmp_path.glob("out.*")] == []
    assert "pass --output FILE.parquet" in fails(capsys, run, photos, "--format parquet")
    assert "not both" in fails(capsys, run, photos, "--threshold 0.5 --mean_labels 2")
    assert "batch_size must be at least 1" in fails(capsys, run, photos, "--batch_size 0")


@pytest.mark.parametrize(
    ("output", "more", "message"),
    [
        ("p.txt", (), r"its name does not say what to write. Name a file that ends in .csv, .tsv, .jsonl"),
        ("p", (), "its name does not say what to write"),
        ("p.csv", ("--format jsonl",), "is named as csv, but --format is jsonl"),
        ("none/p.csv", (), "no such folder"),
        ("runs", (), "its name does not say"),
        ("folder.csv", (), "is a folder"),
    ],
)
def test_an_output_that_can_not_be_written_is_refused_first(
    capsys, run, photos, tmp_path, computed, output, more, message
):
    (tmp_path / "folder.csv").mkdir()
    assert message in fails(capsys, run, photos, "--output", tmp_path / output, *more)
    assert not computed


def test_names_that_a_spreadsheet_would_run(run, photos, tmp_path, capsys):
    shutil.copy(photos / "red" / "00.png", tmp_path / "=1+1.png")
    (tmp_path / "t.csv").write_text("file\n=1+1.png\n")
    output = tmp_path / "p.csv"
    predict(run, tmp_path / "t.csv", "--output", output)
    assert "1 cell begins as a formula does, the first is '=1+1.png'" in capsys.readouterr().err
    assert read_rows(output)[0]["file"] == "=1+1.png"


def test_tsv_is_written_by_its_name(run, photos, tmp_path):
    predict(run, photos / "blue", "--output", tmp_path / "p.tsv")
    predict(run, photos / "blue", "--output", tmp_path / "p.csv")
    with open(tmp_path / "p.tsv", newline="") as one, open(tmp_path / "p.csv", newline="") as other:
        assert list(csv.reader(one, delimiter="\t")) == list(csv.reader(other))


# -- sidecars --------------------------------------------------------------------------------------------


def test_sidecars_hold_what_a_table_holds(run, photos, tmp_path, capsys):
    """Labels of every photo, none of an image that can't be read; the photos stay as they are."""
    own = shutil.copytree(photos, tmp_path / "own")
    (own / "broken.jpg").write_bytes(b"no image")
    before = {path: path.read_bytes() for path in own.rglob("*.*")}
    predict(run, own, "--output", tmp_path / "table.jsonl", "--threshold", "0.6")
    capsys.readouterr()
    predict(run, own, "--sidecars", "--threshold", "0.6")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Skipped 1 image" in printed.err
    assert "24 sidecars written" in printed.err
    table = [json.loads(line) for line in (tmp_path / "table.jsonl").read_text().splitlines()]
    assert {len(row["labels"]) for row in table} >= {0, 1}
    for row in table:
        assert subjects(sidecar_of(row["file"])) == row["labels"]
    assert {path for path in own.rglob("*.*") if path not in before} == {
        path.with_name(f"{path.name}.xmp") for path in before if path.name != "broken.jpg"
    }
    assert {path: path.read_bytes() for path in before} == before


def sidecar_of(photo):
    with open(f"{photo}.xmp", "rb") as stream:
        return stream.read()


def test_sidecars_are_replaced_only_if_told_to(run, photos, tmp_path, computed, capsys):
    """As after a kill, which leaves some of them."""
    own = shutil.copytree(photos / "red", tmp_path / "own")
    old = own / "03.png.xmp"
    old.write_text("ratings")
    (tmp_path / "list.csv").write_text("file\nown/03.png\nown/../own/03.png\nown/03.png\n")
    message = fails(capsys, run, own, "--sidecars")
    assert f"1 sidecar exists already ({old}). Pass `overwrite` to replace them" in message
    assert old.read_text() == "ratings"
    assert [path.name for path in own.glob("*.xmp")] == [old.name]
    assert computed == []
    predict(run, tmp_path / "list.csv", "--sidecars", "--overwrite", "--top_k", "1")
    assert len(subjects(old.read_bytes())) == 1
    assert [path.name for path in own.glob("*.xmp")] == [old.name]
    assert "1 sidecar written" in capsys.readouterr().err


def test_sidecars_and_a_table_are_two_commands(run, photos, tmp_path, capsys):
    for further in (["--output", tmp_path / "x.csv"], ["--scores all"], ["--format csv"], ["--where"]):
        assert "--sidecars writes no table" in fails(capsys, run, photos, "--sidecars", *further)
    assert [*photos.rglob("*.xmp")] == []
