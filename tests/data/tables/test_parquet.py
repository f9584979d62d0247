"""Tables in Parquet: the same as in CSV, and files that claim or unpack to excessive sizes."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data.tables import formats as reader
from spml.data.tables.rows import read_file_list, read_table
from tests.helpers.records import names_of

pa = pytest.importorskip("pyarrow", reason="pyarrow, which reads Parquet, is not installed")
parquet = pytest.importorskip("pyarrow.parquet")

FILES = ["a.png", "b.png", "c.png"]


@pytest.fixture
def save(tmp_path, picture):
    def write(schema=None, options=None, **columns):
        for name in "abc":
            picture(f"{name}.png")
        parquet.write_table(pa.table(columns, schema=schema), tmp_path / "data.parquet", **(options or {}))
        return tmp_path / "data.parquet"

    return write


TEXT, LISTS = pa.string(), pa.list_(pa.string())


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array(["cat", " dog", None]), [["cat"], ["dog"], []]),
        (pa.array(["cat", " dog", "cat"], pa.large_string()), [["cat"], ["dog"], ["cat"]]),
        (pa.array(["cat", " dog", "cat"]).cast(pa.dictionary(pa.int8(), TEXT)), [["cat"], ["dog"], ["cat"]]),
        (pa.array(["cat;dog", "cow", "dog"]), [["cat", "dog"], ["cow"], ["dog"]]),
        (pa.array([["cat", "dog"], [], None], LISTS), [["cat", "dog"], [], []]),
        (pa.array([["cat"], [], ["dog"]], pa.large_list(pa.large_string())), [["cat"], [], ["dog"]]),
        (pa.array([[3, 11], [2], [2]], pa.list_(pa.int64())), [["11", "3"], ["2"], ["2"]]),
    ],
)
def test_kinds_of_labels(save, column, expected):
    path = save(FILE=FILES, labels=column, split=["train", "dev", "TEST"], width=[3, 4, 5])
    records = read_table(path, DataConfig())
    assert [*names_of(records).values()] == expected
    assert records.split == ("train", "val", "test")
    assert "data.parquet: columns that are not used: width (numbers)." in records.notes
    negative = read_table(path, DataConfig(unlisted="negative"))
    assert negative.labels.full
    assert names_of(negative) == names_of(records)


def test_columns_of_files(save):
    for columns in ({"image": FILES}, {"id": FILES, "size": [1, 0, 1]}):
        assert read_table(save(**columns, tags=FILES[::-1]), DataConfig()).ids == tuple(FILES)
    path = save(image=[b"1", b"2", b"3"], id=FILES, label=FILES)
    assert read_table(path, DataConfig(file_column="id")).ids == tuple(FILES)
    path = save(n=[1, 2, 3], path=["b.png", "a.png", "b.png"])
    assert read_file_list(path, None)[0] == ("b.png", "a.png")


def test_one_column_per_class(save):
    path = save(
        file=FILES,
        __index_level_0__=[0, 1, 0],
        cat=pa.array([1, None, 0], pa.int8()),
        dog=[True, None, False],
        cow=[np.nan, 1.0, 0.0],
        hen=pa.array(["yes", "", None]),
        fox=pa.array([None, None, None], pa.null()),
        box=[[1], [2], [3]],
        note=["far", None, "near"],
    )
    with pytest.raises(InputError, match=r"pass data\.label_column=cat,dog,cow,hen; or the labels in 'box'"):
        read_table(path, DataConfig())
    records = read_table(path, DataConfig(label_column="cat,dog,cow,hen,fox"))
    assert records.classes == ("cat", "dog", "cow", "hen", "fox")
    assert records.labels.to_ternary().tolist() == [[1, 1, 0, 1, 0], [0, 0, 1, 0, 0], [-1, -1, -1, 0, 0]]
    assert records.notes[0] == (
        "data.parquet: columns that are not used: box (lists), note (text). If one of them holds labels, "
        "name it with data.label_column."
    )


def test_the_same_as_csv(save, tmp_path):
    rng = np.random.default_rng(0)
    values = rng.integers(0, 2, (3, 4))
    path = save(file=FILES, split=["train", "train", "test"], **{f"c{k}": values[:, k] for k in range(4)})
    lines = [
        "file,split,c0,c1,c2,c3",
        *(f"{file},{split},{','.join(map(str, row))}" for file, split, row in zip(
            FILES, ["train", "train", "test"], values.tolist(), strict=True)),
    ]  # fmt: skip
    (tmp_path / "data.csv").write_text("\n".join(lines))
    ours, csv = read_table(path, DataConfig()), read_table(tmp_path / "data.csv", DataConfig())
    assert ours.labels == csv.labels
    assert (ours.ids, ours.classes, ours.split, ours.inputs) == (csv.ids, csv.classes, csv.split, csv.inputs)


def test_batches_join(save, monkeypatch):
    path = save(
        options={"row_group_size": 2},
        file=[*FILES, "b.png", "a.png"], labels=[["cat"], ["dog"], ["cat", "cow"], ["cow"], ["dog"]],
    )  # fmt: skip
    whole = read_table(path, DataConfig())
    monkeypatch.setattr(reader, "_BATCH", 2)
    assert read_table(path, DataConfig()).labels == whole.labels
    assert names_of(whole) == {"a.png": ["cat", "dog"], "b.png": ["cow", "dog"], "c.png": ["cat", "cow"]}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"picture_of": ["x.png", "y.png", "z.png"], "label": FILES},
         r"has no column `file` .*found: picture_of, label\. Pass data\.file_column=picture_of"),
        ({"file": FILES[:0], "label": pa.array([], pa.string())}, "has no rows"),
        ({"file": [None, "a.png", "b.png"], "label": FILES},
         r"row 0 \(counted from 0\): the name of a file is empty"),
        ({"file": FILES, "label": [{"a": 1}] * 3}, "the column 'label' holds nested objects"),
        ({"file": FILES, "labels": [[["a"]]] * 3}, "the column 'labels' holds nested objects"),
        ({"file": FILES, "label": [b"a"] * 3}, "the column 'label' holds nested objects or bytes"),
        ({"file": FILES, "Label": FILES, "label": FILES}, "'Label' and 'label' may hold the labels"),
        ({"file": FILES, "cat": [1, 0, 1], "dog": [1, 0.5, 0]},
         r"label_column=cat,dog data\.present_above=0\.5"),
        ({"file": FILES, "when": pa.array([1, 2, 3], pa.timestamp("s"))}, "no other column holds"),
        ({"file": ["../a.png", *FILES[1:]], "label": FILES}, "lies outside the folder"),
        ({"image": [b"1", b"2", b"3"], "id": FILES, "label": FILES}, "no column `file`.*'image' holds bytes"),
        ({"image": [b"1"] * 3, "label": FILES}, "no column `file`; found: image, .*'image' holds .*save_t"),
        ({"image": [{"bytes": b"1", "path": "a.png"}] * 3, "label": FILES}, "'image' holds .*save_to_disk"),
    ],
)  # fmt: skip
def test_bad_tables(save, columns, message):
    with pytest.raises(InputError, match=message) as caught:
        read_table(save(**columns), DataConfig())
    assert "data.parquet" in str(caught.value)


def test_long_lists_join(save, monkeypatch):
    """More names than a dictionary holds, over several batches of several row groups."""
    many = [[f"x{row % 7}", f"name {row}"] for row in range(9000)]
    options = {"row_group_size": 5000, "dictionary_pagesize_limit": 1000}
    path = save(options=options, file=[FILES[row % 3] for row in range(9000)], labels=many)
    monkeypatch.setattr(reader, "_BATCH", 3000)
    assert [cell for _, (cell,) in reader.open_parquet(path).rows([1])] == many


def test_text_that_is_not_utf8(save, tmp_path):
    wrong = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")]
    )
    with pytest.raises(InputError, match="can't be read as a Parquet file: 'utf-8' codec can't decode"):
        read_table(save(file=["a.png"], label=wrong), DataConfig())


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1", b"file,label\na.png,cat"])
def test_files_that_are_not_parquet(tmp_path, content):
    (tmp_path / "data.parquet").write_bytes(content)
    with pytest.raises(InputError, match=r"data\.parquet: can't be read as a Parquet file"):
        read_table(tmp_path / "data.parquet", DataConfig())


def test_a_file_that_unpacks_to_far_more_than_it_has(save):
    options = {"compression": "zstd", "use_dictionary": False}
    path = save(options=options, file=["a.png"], label=["x" * 10_000_000])
    with pytest.raises(InputError, match=r"claims to have 10,000,\d+ bytes when unpacked, more than the"):
        read_table(path, DataConfig())


def test_a_list_that_is_far_longer_than_its_file_is_refused(save):
    same = pa.DictionaryArray.from_arrays(np.zeros(1_000_001, np.int32), pa.array(["x"]))
    path = save(file=FILES[:2], labels=pa.ListArray.from_arrays([0, 1_000_000, 1_000_001], same))
    with pytest.raises(InputError, match=r"column .labels. has more than [\d,]+ values, the limit"):
        read_table(path, DataConfig())


def test_without_pyarrow(save, monkeypatch):
    path = save(file=FILES, label=FILES)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"data\.parquet: reading this needs .* pip install pyarrow pandas"):
        read_table(path, DataConfig())
