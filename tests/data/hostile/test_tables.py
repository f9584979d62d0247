"""Random and damaged tables give data or one clear error, in bounded memory and time."""

from __future__ import annotations

import io

import pytest
from hypothesis import strategies as st

from tests.data.hostile.fuzzing import changes, damage, fuzz, open_or_refuse, text_changes, unlisted
from tests.helpers.originals import TABLE, WIDE

files = st.sampled_from(["a.png", "b.png", "c.png", "d.png", "./a.png", "a.png", "b.png", "x.png", "..", ""])
labels = st.sampled_from(["cat", "dog", "cat;dog", "dog;cow", "cat", "dog", "cat dog", "Cat", ""])
splits = st.sampled_from(["train", "train", "train", "val", "test", "x"])


HEADERS = [b"", b"file,label\n", b"file;labels\n", b"file,a,b\n"]
HIDINGS = ["none", "single", "counts", "fraction", "frequency", "salience", "questions"]
COLUMNS = ["file,label", "file,labels", "file,labels,split", "file,split,labels"]


@fuzz(some_read=False, content=st.binary(max_size=200), header=st.sampled_from(HEADERS))
def test_random_bytes_as_table(folder, content, header):
    (folder / "x.csv").write_bytes(header + content)
    open_or_refuse(folder / "x.csv")


@fuzz(
    table=st.sampled_from([TABLE, WIDE]),
    changes=st.one_of(changes, text_changes, text_changes),
    unlisted=unlisted,
)
def test_damaged_tables(folder, table, changes, unlisted):
    (folder / "x.tsv").write_bytes(damage(table, changes))
    open_or_refuse(folder / "x.tsv", unlisted=unlisted)


@fuzz(
    some_read=False,
    rows=st.lists(st.tuples(files, labels, splits), max_size=6),
    header=st.sampled_from(COLUMNS),
    unlisted=unlisted,
    observe=st.sampled_from(HIDINGS),
)
def test_random_rows_as_table(folder, rows, header, unlisted, observe):
    width = header.count(",") + 1
    text = [header, *(",".join(row[:width]) for row in rows)]
    (folder / "y.csv").write_text("\n".join(text))
    open_or_refuse(folder / "y.csv", unlisted=unlisted, observe=observe)


mark = st.sampled_from(["1", "0", "", "1", "0", "", "-1", "yes", "NaN", "2", "x"])
marked_row = st.tuples(st.sampled_from(["a.png", "b.png", "c.png", "d.png"]), mark, mark, mark).map(",".join)


@fuzz(rows=st.lists(marked_row, min_size=2, max_size=6), unlisted=unlisted)
def test_random_marks_as_table(folder, rows, unlisted):
    (folder / "y.csv").write_text("\n".join(["file,cat,dog,cow", *rows]))
    open_or_refuse(folder / "y.csv", unlisted=unlisted)


@pytest.fixture(scope="module")
def parquet_tables() -> list[bytes]:
    """Two tables, with each of three compressions."""
    pytest.importorskip("pyarrow", reason="pyarrow, which reads Parquet, is not installed")
    import pyarrow as pa
    from pyarrow import parquet

    files = [f"{name}.png" for name in "abcd"]
    lists = [["cat", "dog"], ["dog"], ["cow"], ["cat"]]
    tables = [
        pa.table({"file": files, "labels": lists, "split": ["train", "train", "val", "train"]}),
        pa.table(
            {"file": files, "cat": [1, None, 0, 1], "dog": [True, False, None, True], "w": [4, 5, 6, 7]}
        ),
    ]
    contents = []
    for compression in ("none", "snappy", "zstd"):
        for table in tables:
            stream = io.BytesIO()
            parquet.write_table(table, stream, compression=compression, row_group_size=3)
            contents.append(stream.getvalue())
    return contents


@fuzz(number=st.integers(0, 5), changes=changes, unlisted=unlisted)
def test_damaged_parquet(folder, parquet_tables, number, changes, unlisted):
    (folder / "x.parquet").write_bytes(damage(parquet_tables[number], changes))
    open_or_refuse(folder / "x.parquet", unlisted=unlisted)


@fuzz(some_read=False, everyday=25, long=1250, content=st.binary(max_size=300))
def test_random_bytes_as_parquet(folder, parquet_tables, content):
    (folder / "x.parquet").write_bytes(b"PAR1" + content + b"PAR1")
    open_or_refuse(folder / "x.parquet")
