"""Formats of predictions, read back by `spml data convert`."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spml.common.spreadsheets import csv_cells
from spml.data.records import Records
from spml.labels import ObservedLabels
from spml.runs.decide.inferred_labels import read_inferred
from spml.runs.predict.files import FORMATS
from spml.runs.predict.predictions import Predictions
from tests.data.writers.samples import FILES, MATRIX, image_records

CLASSES = ("cat", "dog", "fox")
SCORES = np.array([[0.9, 0.125, 1e-7], [0.25, 0.5, 0.75], [0.1, 0.2, 0.3]], np.float32)
PREDICTIONS = Predictions(("a.png", 'b "c", d.png', "é.png"), CLASSES, SCORES, [["cat"], ["fox", "dog"], []])


def write(path: Path, scores: str, ids: tuple[str, ...] = PREDICTIONS.ids) -> bytes:
    """Write the predictions in two blocks, in the format that the suffix names."""
    form = FORMATS[path.suffix[1:]](CLASSES, scores)
    content = form.start()
    for rows in (slice(0, 2), slice(2, 3)):
        part = Predictions(ids[rows], CLASSES, SCORES[rows], PREDICTIONS.labels[rows])
        content += form.block(part)
    empty = Predictions((), CLASSES, SCORES[:0], [])
    content += form.block(empty)
    path.with_suffix(".blocks").write_bytes(content)
    form.complete(path.with_suffix(".blocks"), path)
    return path.read_bytes()


PROBABILITIES = np.array([[0.8, 0.5, 0], [0.4, 0.6, 0.7], [0.25, 0.3, 0.35]], np.float32)


def write_calibrated(path: Path, scores: str) -> bytes:
    """Write the predictions with probabilities."""
    form = FORMATS[path.suffix[1:]](CLASSES, scores, calibrated=True)
    content = form.start() + form.block(replace(PREDICTIONS, probabilities=PROBABILITIES))
    path.with_suffix(".blocks").write_bytes(content)
    form.complete(path.with_suffix(".blocks"), path)
    return path.read_bytes()


def test_probabilities_follow_the_scores(tmp_path: Path) -> None:
    def rows(scores: str) -> list[list[str]]:
        return list(csv.reader(io.StringIO(write_calibrated(tmp_path / "p.csv", scores).decode())))

    columns = ["probability of cat", "probability of dog", "probability of fox"]
    assert rows("all")[0] == ["file", "labels", "cat", "dog", "fox", *columns]
    assert rows("all")[2] == ['b "c", d.png', "fox;dog", "0.25", "0.5", "0.75", "0.4", "0.6", "0.7"]
    assert rows("predicted") == [
        ["file", "labels", "scores", "probabilities"],
        ["a.png", "cat", "0.9", "0.8"],
        ['b "c", d.png', "fox;dog", "0.75;0.5", "0.7;0.6"],
        ["é.png", "", "", ""],
    ]
    assert rows("none")[:2] == [["file", "labels"], ["a.png", "cat"]]
    lines = write_calibrated(tmp_path / "p.jsonl", "predicted").decode().splitlines()
    assert json.loads(lines[1]) == {
        "file": 'b "c", d.png',
        "labels": ["fox", "dog"],
        "scores": {"fox": 0.75, "dog": 0.5},
        "probabilities": {"fox": 0.7, "dog": 0.6},
    }
    assert json.loads(write_calibrated(tmp_path / "p.jsonl", "all").decode().splitlines()[0])[
        "probabilities"
    ] == {"cat": 0.8, "dog": 0.5, "fox": 0}
    parquet = pytest.importorskip("pyarrow.parquet")
    write_calibrated(tmp_path / "p.parquet", "all")
    table = parquet.read_table(tmp_path / "p.parquet")
    assert table.column_names == ["file", "labels", *CLASSES, *columns]
    assert table["probability of dog"].to_pylist() == pytest.approx([0.5, 0.6, 0.3])
    write_calibrated(tmp_path / "p.parquet", "predicted")
    table = parquet.read_table(tmp_path / "p.parquet")
    assert table["probabilities"].to_pylist() == [pytest.approx([0.8]), pytest.approx([0.7, 0.6]), []]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("scores", ["all", "predicted"])
def test_inferred_labels_carry_the_probability(suffix: str, scores: str, tmp_path: Path) -> None:
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    records = image_records(tmp_path, np.zeros((3, 3), np.int8), CLASSES)
    ids = tuple(records.ids)
    calibrated = replace(PREDICTIONS, ids=ids, probabilities=PROBABILITIES)
    form = FORMATS[suffix](CLASSES, scores, calibrated=True)
    path = tmp_path / f"p.{suffix}"
    path.with_suffix(".blocks").write_bytes(form.start() + form.block(calibrated))
    form.complete(path.with_suffix(".blocks"), path)
    inferred, _ = read_inferred(path, records)
    assert (inferred.rows.tolist(), inferred.columns.tolist()) == ([0, 1, 1], [0, 1, 2])
    assert inferred.scores == pytest.approx([0.8, 0.6, 0.7])


def test_csv(tmp_path: Path) -> None:
    def rows(scores: str) -> list[list[str]]:
        return list(csv.reader(io.StringIO(write(tmp_path / "p.csv", scores).decode())))

    assert rows("all") == [
        ["file", "labels", "cat", "dog", "fox"],
        ["a.png", "cat", "0.9", "0.125", "1e-07"],
        ['b "c", d.png', "fox;dog", "0.25", "0.5", "0.75"],
        ["é.png", "", "0.1", "0.2", "0.3"],
    ]
    assert rows("predicted") == [
        ["file", "labels", "scores"],
        ["a.png", "cat", "0.9"],
        ['b "c", d.png', "fox;dog", "0.75;0.5"],
        ["é.png", "", ""],
    ]
    assert rows("none")[:2] == [["file", "labels"], ["a.png", "cat"]]


def test_json_lines(tmp_path: Path) -> None:
    def objects(scores: str) -> list[dict[str, object]]:
        return [json.loads(line) for line in write(tmp_path / "p.jsonl", scores).decode().splitlines()]

    assert objects("all")[0] == {
        "file": "a.png", "labels": ["cat"], "scores": {"cat": 0.9, "dog": 0.125, "fox": 1e-7},
    }  # fmt: skip
    assert objects("predicted")[1]["scores"] == {"fox": 0.75, "dog": 0.5}
    assert objects("none")[2] == {"file": "é.png", "labels": []}


def test_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "p.parquet"
    content = write(path, "all")
    assert write(path, "all") == content
    table = parquet.read_table(path)
    assert table.column_names == ["file", "labels", *CLASSES]
    assert table["file"].to_pylist() == list(PREDICTIONS.ids)
    assert table["labels"].to_pylist() == PREDICTIONS.labels
    np.testing.assert_array_equal(np.stack([table[name].to_numpy() for name in CLASSES], 1), SCORES)
    write(path, "predicted")
    assert parquet.read_table(path)["scores"].to_pylist() == [[np.float32(0.9)], [0.75, 0.5], []]
    write(path, "none")
    assert parquet.read_table(path).column_names == ["file", "labels"]


@pytest.mark.parametrize("scores", ["all", "predicted", "none"])
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_what_is_written_is_read_as_inferred_labels(tmp_path: Path, suffix: str, scores: str) -> None:
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"p.{suffix}"
    write(path, scores, FILES[:3])
    inferred, notes = read_inferred(path, image_records(tmp_path, MATRIX, CLASSES))
    assert notes == ()
    assert inferred.rows.tolist() == [0, 1, 1]
    assert inferred.columns.tolist() == [0, 1, 2]
    expected = [np.nan] * 3 if scores == "none" else [0.9, 0.5, 0.75]
    np.testing.assert_allclose(inferred.scores, expected, rtol=1e-6)


def test_many_classes_are_written_without_a_column_each(tmp_path: Path) -> None:
    for count, columns in ((100, 102), (101, 3)):
        form = FORMATS["csv"]([f"c{k}" for k in range(count)], "auto")
        assert len(form.start().decode().split(",")) == columns


def test_names_that_are_no_text_are_escaped(tmp_path: Path) -> None:
    odd = Predictions(("caf\udce9.png",), CLASSES, SCORES[:1], [["cat"]])
    for name in ("csv", "jsonl"):
        assert b"caf\\udce9.png" in FORMATS[name](CLASSES, "all").block(odd)


# -- any names -------------------------------------------------------------------------------------------

TAKEN = ("file", "Labels", "scores", "probabilities", "cat", "probability of cat", "score of file")


def test_columns_of_classes_never_have_the_name_of_another() -> None:
    assert FORMATS["csv"](TAKEN, "all", calibrated=True).start().decode().split(",")[2:9] == [
        "score of file", "score of Labels", "score of scores", "score of probabilities", "cat",
        "score of probability of cat", "score of score of file",
    ]  # fmt: skip


def test_columns_of_a_frame_are_those_of_the_files() -> None:
    pytest.importorskip("pandas")
    frame = Predictions(("a",), ("labels", "x"), SCORES[:1, :2], [["x"]]).to_frame()
    assert list(frame.columns) == ["labels", "score of labels", "x"]


LETTERS = st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"])
WORDS = st.one_of(
    st.text(LETTERS, min_size=1, max_size=9),
    st.text(st.sampled_from("=+-@';,|[]\"{: a\u202e\u200b"), min_size=1, max_size=5),
    st.sampled_from([*TAKEN, "=1+1", "'=1", "-1", "unnamed: 0", "FILE"]),
).filter(lambda name: name == name.strip())


@st.composite
def predictions(draw: st.DrawFn) -> Predictions:
    """Predictions of three samples with any names."""
    classes = draw(st.lists(WORDS, min_size=1, max_size=4, unique=True))
    ids = draw(st.lists(WORDS, min_size=3, max_size=3, unique=True))
    chosen = draw(st.lists(st.sets(st.sampled_from(classes)), min_size=3, max_size=3))
    scores = np.linspace(0.125, 0.875, 3 * len(classes), dtype=np.float32).reshape(3, -1)
    return Predictions(
        tuple(ids),
        tuple(classes),
        scores,
        [sorted(labels) for labels in chosen],
        probabilities=draw(st.sampled_from([None, scores / 2])),
    )


def write_any(path: Path, written: Predictions, scores: str) -> None:
    form = FORMATS[path.suffix[1:]](written.classes, scores, calibrated=written.probabilities is not None)
    path.with_suffix(".blocks").write_bytes(form.start() + form.block(written))
    form.complete(path.with_suffix(".blocks"), path)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
@settings(deadline=None, max_examples=60)
@given(written=predictions(), scores=st.sampled_from(["all", "predicted", "none"]))
def test_any_names_are_read_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, written: Predictions, scores: str
) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path_factory.mktemp("any") / f"p{suffix}"
    write_any(path, written, scores)
    records = Records(
        source="source",
        name="set",
        ids=written.ids,
        inputs=tuple(map(Path, written.ids)),
        classes=written.classes,
        classes_given=True,
        labels=ObservedLabels.from_ternary(np.zeros(written.scores.shape, np.int8)),
    )
    inferred, notes = read_inferred(path, records)
    assert notes == ()
    found: list[list[str]] = [[], [], []]
    for row, column in zip(inferred.rows, inferred.columns, strict=True):
        found[row].append(written.classes[column])
    assert [sorted(labels) for labels in found] == written.labels
    if scores == "all":
        expected = written.scores if written.probabilities is None else written.probabilities
        np.testing.assert_allclose(inferred.scores, expected[inferred.rows, inferred.columns], rtol=1e-5)


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_formulas_are_guarded_on_demand(
    tmp_path: Path, suffix: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "spml")
    path = tmp_path / f"p{suffix}"
    written = Predictions(("=a", "b"), ("cat", "=x"), SCORES[:2, :2], [["cat", "=x"], []])
    with csv_cells(False):
        write_any(path, written, "all")
    # The header, a name, and the labels of a sample, which other separators would cut.
    assert caplog.messages[0].startswith(
        "note: in the CSV or TSV files, 3 cells begin as a formula does, the first is '=x'"
    )
    with csv_cells(True):
        write_any(path, written, "all")
    rows = list(csv.reader(path.open(newline=""), delimiter="," if suffix == ".csv" else "\t"))
    assert rows[0] == ["file", "labels", "cat", "'=x"]
    assert rows[1][:2] == ["'=a", "cat;'=x"]
    assert len(caplog.messages) == 1


ODD = ("a;b", "c, d", 'say "x"', "it's", "=1+1", "[x]", "plain", "with space")


@pytest.mark.parametrize("scores", ["all", "predicted", "none"])
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_odd_class_names_survive(suffix: str, scores: str, tmp_path: Path) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    labels = [list(ODD), ["c, d"], []]
    shown = np.full((3, len(ODD)), 0.5, np.float32)
    path = tmp_path / f"p{suffix}"
    form = FORMATS[suffix[1:]](ODD, scores)
    content = form.start() + form.block(Predictions(tuple(FILES[:3]), ODD, shown, labels))
    path.with_suffix(".blocks").write_bytes(content)
    form.complete(path.with_suffix(".blocks"), path)
    records = image_records(tmp_path, np.zeros((3, len(ODD)), np.int8), ODD)
    inferred, _ = read_inferred(path, records)
    found = [[ODD[column] for column in inferred.columns[inferred.rows == row]] for row in range(3)]
    assert found == [list(ODD), ["c, d"], []]
