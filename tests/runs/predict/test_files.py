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

from spml.common.spreadsheets import note_formulas
from spml.data.records import Records
from spml.labels import ObservedLabels
from spml.runs.decide.inferred_labels import read_inferred
from spml.runs.predict.files import FORMATS
from spml.runs.predict.predictions import Predictions

CLASSES = ("cat", "dog", "fox")
SCORES = np.array([[0.9, 0.125, 1e-7], [0.25, 0.5, 0.75], [0.1, 0.2, 0.3]], np.float32)
PREDICTIONS = Predictions(("a.png", 'b "c", d.png', "é.png"), CLASSES, SCORES, [["cat"], ["fox", "dog"], []])


def write(path: Path, scores: str, written: Predictions = PREDICTIONS) -> bytes:
    """Write predictions in three blocks, the last one empty, in the format that the suffix names."""
    form = FORMATS[path.suffix[1:]](written.classes, scores, calibrated=written.probabilities is not None)
    content = form.start()
    for rows in (slice(0, 2), slice(2, None), slice(0, 0)):
        parts = {name: getattr(written, name)[rows] for name in ("ids", "scores", "labels")}
        if written.probabilities is not None:
            parts["probabilities"] = written.probabilities[rows]
        content += form.block(replace(written, **parts))
    path.with_suffix(".blocks").write_bytes(content)
    form.complete(path.with_suffix(".blocks"), path)
    return path.read_bytes()


PROBABILITIES = np.array([[0.8, 0.5, 0], [0.4, 0.6, 0.7], [0.25, 0.3, 0.35]], np.float32)
CALIBRATED = replace(PREDICTIONS, probabilities=PROBABILITIES)


def test_probabilities_follow_the_scores(tmp_path: Path) -> None:
    def rows(scores: str) -> list[list[str]]:
        return list(csv.reader(io.StringIO(write(tmp_path / "p.csv", scores, CALIBRATED).decode())))

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
    lines = write(tmp_path / "p.jsonl", "predicted", CALIBRATED).decode().splitlines()
    assert json.loads(lines[1]) == {
        "file": 'b "c", d.png',
        "labels": ["fox", "dog"],
        "scores": {"fox": 0.75, "dog": 0.5},
        "probabilities": {"fox": 0.7, "dog": 0.6},
    }
    assert json.loads(write(tmp_path / "p.jsonl", "all", CALIBRATED).decode().splitlines()[0])[
        "probabilities"
    ] == {"cat": 0.8, "dog": 0.5, "fox": 0}
    parquet = pytest.importorskip("pyarrow.parquet")
    write(tmp_path / "p.parquet", "all", CALIBRATED)
    table = parquet.read_table(tmp_path / "p.parquet")
    assert table.column_names == ["file", "labels", *CLASSES, *columns]
    assert table["probability of dog"].to_pylist() == pytest.approx([0.5, 0.6, 0.3])
    write(tmp_path / "p.parquet", "predicted", CALIBRATED)
    table = parquet.read_table(tmp_path / "p.parquet")
    assert table["probabilities"].to_pylist() == [pytest.approx([0.8]), pytest.approx([0.7, 0.6]), []]


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


LETTERS = st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"])
WORDS = st.one_of(
    st.text(LETTERS, min_size=1, max_size=9),
    st.text(st.sampled_from("=+-@';,|[]\"{: a\u202e\u200b"), min_size=1, max_size=5),
    st.sampled_from([*TAKEN, "=1+1", "'=1", "-1", "unnamed: 0", "FILE", "a;b", "c, d", 'say "x"', "[x]"]),
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


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
@settings(deadline=None, max_examples=40)
@given(written=predictions(), scores=st.sampled_from(["all", "predicted", "none"]))
def test_any_names_are_read_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, written: Predictions, scores: str
) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path_factory.mktemp("any") / f"p{suffix}"
    write(path, scores, written)
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
    expected = written.scores if written.probabilities is None else written.probabilities
    expected = np.full_like(expected, np.nan) if scores == "none" else expected
    np.testing.assert_allclose(inferred.scores, expected[inferred.rows, inferred.columns], rtol=1e-5)


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_formulas_are_noted(tmp_path: Path, suffix: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "spml")
    path = tmp_path / f"p{suffix}"
    written = Predictions(("=a", "b"), ("cat", "=x"), SCORES[:2, :2], [["cat", "=x"], []])
    with note_formulas():
        write(path, "all", written)
    # The header, a name, and the labels of a sample, which other separators would cut.
    assert caplog.messages[0].startswith(
        "note: in the CSV or TSV files, 3 cells begin as a formula does, the first is '=x'"
    )
