"""Inferred labels from files of predictions and of pseudo-labels."""

from __future__ import annotations

import json
import re
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spml.common.errors import InputError
from spml.runs.decide.inferred_labels import read_inferred
from tests.data.writers.samples import CLASSES, MATRIX, feature_records, image_records, relaxed


def entries(inferred):
    return [
        (int(r), int(c), int(v), None if s != s else round(float(s), 6))
        for r, c, v, s in zip(*inferred[:4], strict=True)
    ]


def test_predictions_as_csv_and_json_lines(folder, tmp_path):
    records = image_records(folder, MATRIX, ("cat", "dog", "fox"))
    rows = [
        (str(folder / "b c.png"), "cat;dog", [0.9, 0.8, 0.1]),
        ("a.png", "", [0.3, 0.2, 0.1]),
        ("elsewhere.png", "cat", [0.9, 0.2, 0.1]),
    ]
    table = ["file,labels,fox,dog,cat"]
    table += [f"{name},{names},{fox},{dog},{cat}" for name, names, (cat, dog, fox) in rows]
    (tmp_path / "p.csv").write_text("\n".join(table))
    with open(tmp_path / "p.jsonl", "w") as stream:
        for name, names, scores in rows:
            scores = dict(zip(("cat", "dog", "fox"), scores, strict=True))
            line = {"file": name, "labels": [*filter(None, names.split(";"))], "scores": scores}
            stream.write(json.dumps(line) + "\n")
    for name in ("p.csv", "p.jsonl"):
        inferred, notes = read_inferred(tmp_path / name, records)
        assert entries(inferred) == [(1, 0, 1, 0.9), (1, 1, 1, 0.8)]
        assert [re.sub(".*jsonl|.*csv", "", note) for note in notes] == [
            ": not in the data: 1 sample, such as 'elsewhere.png'.",
            ": has no prediction for 1 sample of the data.",
        ]


def test_predictions_may_name_files_from_where_one_is(folder, tmp_path, monkeypatch):
    """As `spml predict FOLDER` writes them."""
    monkeypatch.chdir(folder.parent)
    (tmp_path / "p.csv").write_text(f"file,labels,cat\n./{folder.name}/a.png,cat,0.7\n")
    inferred, _ = read_inferred(tmp_path / "p.csv", image_records(folder, MATRIX, ("cat", "dog", "fox")))
    assert entries(inferred) == [(0, 0, 1, 0.7)]


def test_wide_predictions_are_read_row_by_row(tmp_path):
    classes = [f"class {number}" for number in range(4000)]
    records = feature_records(np.zeros((120, 4000), np.int8), classes)
    cells = ",0.5" * 4000
    lines = [f"{name},class 7{cells}\n" for name in records.ids]
    (tmp_path / "p.csv").write_text(f"file,labels,{','.join(classes)}\n{''.join(lines)}")
    tracemalloc.start()
    inferred, _ = read_inferred(tmp_path / "p.csv", records)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert entries(inferred)[-1] == (119, 7, 1, 0.5)
    assert peak < 10e6  # a hundred rows of cells take 20 MB


def test_pseudo_labels(folder, tmp_path):
    np.savez(
        tmp_path / "p.npz",
        ids=np.array(["b c.png", "a.png", "sub/ä,ö;ü.png"]),
        classes=np.array(["fox", "cat"]),
        labels=np.array([[1, -1], [0, 0], [-1, 0]], np.int8),
    )
    inferred, notes = read_inferred(tmp_path / "p.npz", image_records(folder, MATRIX, ("cat", "dog", "fox")))
    assert notes == ()
    assert entries(inferred) == [(1, 0, -1, None), (1, 2, 1, None), (2, 2, -1, None)]


HEAD = "file,labels,cat,dog,fox\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.txt", "", "is not a predictions file"),
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
        ("p.jsonl", "{", "line 1: expected an object with file, labels and scores, .*truncated"),
        ("p.jsonl", "[" * 100_000, "line 1: expected an object with file, labels and scores, .*got `array`"),
        ("p.jsonl", '{"file": "a.png"}', "expected an object with file, labels and scores"),
        ("p.jsonl", '{"file": "a.png", "labels": [1], "scores": {}}',
         "Expected `str`, got `int` - at `.*labels"),
        ("p.jsonl", '{"file": "a.png", "labels": [], "scores": {"cat": 1e400}}', "[Nn]umber out of range"),
        ("p.npz", b"PK", r"is not a \.npz file, or can't be read"),
        ("p.npz", {"ids": ["a.png"], "classes": ["cat"]},
         "as pseudo-labels, since it lacks labels. Expected"),
        ("p.npz", {"ids": ["a.png"], "classes": ["cat"], "labels": [1]},
         "expected ids and classes as lists of strings"),
        ("p.npz", {"ids": ["a.png"], "classes": ["cat"], "labels": [[2]]}, "labels must be 1 .positive."),
    ],
)  # fmt: skip
def test_bad_predictions(folder, tmp_path, name, content, message):
    path = tmp_path / name
    if isinstance(content, dict):
        np.savez(path, **{key: np.array(value) for key, value in content.items()})
    elif content is not None:
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


@relaxed
@given(content=st.binary(max_size=200), head=st.sampled_from((b"", HEAD.encode(), b'{"file": "a.png", ')))
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "npz"])
def test_random_bytes_as_predictions(folder, tmp_path_factory, suffix, content, head):
    path = tmp_path_factory.getbasetemp() / f"fuzz.{suffix}"
    path.write_bytes(head + content)
    refusal = ""
    try:
        read_inferred(path, image_records(folder, MATRIX, CLASSES))
    except InputError as error:
        refusal = str(error)
    assert "\n" not in refusal
