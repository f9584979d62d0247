"""Columns and features that the page shows with a sample."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from spml.common.errors import InputError
from spml.data.matrix import FeatureMatrix
from spml.data.records import Records
from spml.labels import ObservedLabels
from spml.review.contents import MOST_CHARACTERS, MOST_FEATURES, Contents
from spml.review.queue import Selection
from spml.review.session import Review, open_data
from tests.review.conftest import make_audit


def records(matrix, names=()):
    count = matrix.shape[0]
    return Records(
        source="rows.npz",
        name="rows",
        ids=tuple(f"row {row}" for row in range(count)),
        inputs=FeatureMatrix(matrix, names=names),
        classes=("a", "b"),
        classes_given=True,
        labels=ObservedLabels.from_index(np.zeros(count, np.int64), 2),
        split=None,
    )


def table(folder, *lines, name="texts.csv"):
    path = folder / name
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path


@pytest.mark.parametrize("store", [np.asarray, csr_matrix])
def test_the_most_unusual_features_come_first(store):
    # Means 2, .25, 0, 0; standard deviations 0, sqrt(3) / 4, 0, 5.
    matrix = store(np.array([[2, 1, 0, 5], [2, 0, 0, -5], [2, 0, 0, 5], [2, 0, 0, -5]], np.float32))
    contents = Contents(records(matrix, ("always", "rare", "never", "often")), None, range(4))
    assert contents.available
    assert contents.of(0) == [("rare", "1"), ("often", "5"), ("always", "2")]
    assert contents.of(1) == [("often", "-5"), ("always", "2")]


def test_few_of_many_features_are_shown():
    matrix = np.eye(50, dtype=np.float32) * 3 + 1
    names = tuple(f"word {column}" for column in range(50))
    shown = Contents(records(matrix, names), None, range(50)).of(7)
    assert len(shown) == MOST_FEATURES
    assert shown[0] == ("word 7", "4")


def test_features_without_names_are_not_shown():
    contents = Contents(records(np.ones((2, 3), np.float32)), None, range(2))
    assert not contents.available
    assert contents.of(0) == []


def test_columns_of_a_table_come_before_features(tmp_path):
    rows = table(
        tmp_path,
        "id;text;year",
        "row 1;  two words ;",
        "row 0;first;1999",
        "row 9;not asked for;1",
        "row 9;nor this;1",
    )
    contents = Contents(records(np.eye(3, dtype=np.float32), ("x", "y", "z")), rows, [0, 1])
    assert contents.of(0) == [("text", "first"), ("year", "1999"), ("x", "1")]
    assert contents.of(1) == [("text", "two words"), ("y", "1")]


def test_a_long_text_is_cut(tmp_path):
    rows = table(tmp_path, "file,text", f"row 0,{'x' * (MOST_CHARACTERS + 1)}")
    ((name, text),) = Contents(records(np.ones((1, 1), np.float32)), rows, [0]).of(0)
    assert (name, text) == ("text", "x" * MOST_CHARACTERS + " …")


def test_a_parquet_table(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    arrow = pytest.importorskip("pyarrow")
    cells = {"name": ["row 0", "row 1"], "text": ["one", None], "share": [0.5, float("nan")]}
    parquet.write_table(arrow.table(cells), tmp_path / "texts.parquet")
    contents = Contents(records(np.ones((2, 1), np.float32)), tmp_path / "texts.parquet", [0, 1])
    assert contents.of(0) == [("text", "one"), ("share", "0.5")]
    assert contents.of(1) == []


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["id,text", "row 0,a", "row 0,b"], r"rows 2 and 3: both are 'row 0'\. Remove one\."),
        (
            ["id,text", "row 0,a"],
            r"has no row for 1 sample of the list, such as 'row 1'\. The first column, 'id', must hold the "
            r"names that the samples have in the data\.",
        ),
        (["id", "row 0"], r"has only the column id\. Expected names of samples in the first column"),
        ([""], "the file is empty"),
    ],
)
def test_tables_that_do_not_fit(tmp_path, lines, message):
    rows = table(tmp_path, *lines)
    with pytest.raises(InputError, match=f"^{rows}: {message}"):
        Contents(records(np.ones((2, 1), np.float32)), rows, [0, 1])


def test_a_table_that_does_not_exist(tmp_path):
    with pytest.raises(
        InputError, match=r"texts\.csv: no such file\. Pass a CSV, TSV or Parquet file as --rows\."
    ):
        Contents(records(np.ones((2, 1), np.float32)), tmp_path / "texts.csv", [0])


def test_photos_have_columns_too(tmp_path):
    audit = make_audit(tmp_path, {"a.png": ("cat", {"dog": 0.9}), "b.png": ("dog", {})})
    # b.png is not on the list, so the table may lack it.
    rows = table(tmp_path, "photo,taken", "a.png,at night")
    review = Review(audit, open_data(audit), "ann", rows=rows)
    (card,) = review.cards([0], Selection())
    assert card.content == [("taken", "at night")]
    review.store.close()
