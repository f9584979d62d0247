"""Inferred labels from files of predictions."""

from __future__ import annotations

import re
import tracemalloc

import numpy as np
import pytest

from spml.common.errors import InputError
from spml.runs.decide.inferred_labels import read_inferred
from tests.data.writers.samples import MATRIX, feature_records, image_records


def entries(inferred):
    return [
        (int(r), int(c), int(v), None if s != s else round(float(s), 6))
        for r, c, v, s in zip(*inferred[:4], strict=True)
    ]


def test_predictions_as_csv(folder, tmp_path):
    records = image_records(folder, MATRIX, ("cat", "dog", "fox"))
    rows = [
        (str(folder / "b c.png"), "cat;dog", [0.9, 0.8, 0.1]),
        ("a.png", "", [0.3, 0.2, 0.1]),
        ("elsewhere.png", "cat", [0.9, 0.2, 0.1]),
    ]
    table = ["file,labels,fox,dog,cat"]
    table += [f"{name},{names},{fox},{dog},{cat}" for name, names, (cat, dog, fox) in rows]
    (tmp_path / "p.csv").write_text("\n".join(table))
    inferred, notes = read_inferred(tmp_path / "p.csv", records)
    assert entries(inferred) == [(1, 0, 1, 0.9), (1, 1, 1, 0.8)]
    assert [re.sub(".*csv", "", note) for note in notes] == [
        ": not in the data: 1 sample, such as 'elsewhere.png'.",
        ": has no prediction for 1 sample of the data.",
    ]


def test_predictions_may_name_files_from_where_one_is(folder, tmp_path, monkeypatch):
    """As `spml predict FOLDER` writes them."""
    monkeypatch.chdir(folder.parent)
    (tmp_path / "p.csv").write_text(f"file,labels,cat\n./{folder.name}/a.png,cat,0.7\n")
    inferred, _ = read_inferred(tmp_path / "p.csv", image_records(folder, MATRIX, ("cat", "dog", "fox")))
    assert entries(inferred) == [(0, 0, 1, 0.7)]


@pytest.mark.long
def test_wide_predictions_are_read_row_by_row(tmp_path):
    classes = [f"class {number}" for number in range(1500)]
    records = feature_records(np.zeros((120, 1500), np.int8), classes)
    cells = ",0.5" * 1500
    lines = [f"{name},class 7{cells}\n" for name in records.ids]
    (tmp_path / "p.csv").write_text(f"file,labels,{','.join(classes)}\n{''.join(lines)}")
    tracemalloc.start()
    inferred, _ = read_inferred(tmp_path / "p.csv", records)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert entries(inferred)[-1] == (119, 7, 1, 0.5)
    assert peak < 5e6  # a hundred rows of cells take 8 MB


HEAD = "file,labels,cat,dog,fox\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.jsonl", "", "is not a predictions table. Expected .csv, .tsv or .parquet"),
        ("q.csv", None, "no such file"),
        ("p.csv", "", "expected the columns file, labels, and scores or one per class"),
        ("p.csv", "name,labels,cat\n", "expected the columns file, labels"),
        ("p.csv", HEAD, "names none of the samples of source: found none, expected, for example, 'a.png'"),
        ("p.csv", HEAD + "x.png,,0,0,0\n", "found 'x.png', expected"),
        ("p.csv", HEAD + "a.png,,0,0\n", "row 2 has 4 cells, but the header has 5"),
        ("p.csv", HEAD + "a.png,,0,0,x\n", "row 2: a score must be a number from 0 to 1, but is 'x'"),
        ("p.csv", HEAD + "a.png,,0,0,nan\n", "a score must be a number"),
        ("p.csv", HEAD + "a.png,,0,,1\n", "a score must be a number from 0 to 1, but is ''"),
        ("p.csv", "file,labels,scores\na.png,cat;dog,0.5\n", "row 2 has 1 score, but 2 labels"),
        ("p.csv", HEAD + "a.png,cta,0,0,1\n", "the label 'cta' has no score. Did you mean cat"),
        ("p.csv", HEAD + "a.png,,0,0,1\na.png,,0,0,1\n", "holds 'a.png' twice"),
        ("p.csv", "file,labels,cow\na.png,cow,1\n", "has the class 'cow', which source does not have"),
        ("p.csv", b"file,labels,cat\n\xff", "is not UTF-8"),
    ],
)  # fmt: skip
def test_bad_predictions(folder, tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InputError, match=message) as caught:
        read_inferred(path, image_records(folder, MATRIX, ("cat", "dog", "fox")))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"file": [7], "labels": [["cat"]]}, r"row 0 .counted from 0.: expected a name and a list of labels"),
        ({"file": ["a.png"], "labels": [3]}, "expected a name and a list of labels"),
        ({"file": ["a.png"], "labels": [["cat"]], "cat": [None]}, "a score must be .*, but is null"),
        ({"file": ["a.png"], "labels": [["cat"]], "scores": [[0.5, 0.5]]}, "has 2 scores, but 1 label"),
    ],
)
def test_bad_predictions_in_parquet(folder, tmp_path, columns, message):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(columns), tmp_path / "p.parquet")
    with pytest.raises(InputError, match=message):
        read_inferred(tmp_path / "p.parquet", image_records(folder, MATRIX, ("cat", "dog", "fox")))
