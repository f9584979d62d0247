"""Random files give data or one clear error, never anything else, in bounded memory and time."""

from __future__ import annotations

import contextlib
import io
import json
import signal
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from spml.config import DataConfig
from spml.data import open_dataset
from spml.data.images import check_images
from spml.errors import InputError

MEMORY = 100e6  # bytes, of Python and of Arrow, that no file of a few kilobytes may need
SECONDS = 20.0  # far more than any takes, also where all cores are busy

often = pytest.mark.parametrize("examples", [100, pytest.param(5000, marks=pytest.mark.long)])


OUTCOMES: Counter[str] = Counter()


def fuzz(
    examples: int, *, some_read: bool = True, **strategies: Any
) -> Callable[[Callable[..., None]], None]:
    """Call a function with so many random arguments; some of them must make a file that can be read."""
    quiet = settings(
        max_examples=examples, deadline=None, database=None, derandomize=examples <= 100,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )  # fmt: skip

    def run(attempt: Callable[..., None]) -> None:
        before = OUTCOMES["read"]
        quiet(given(**strategies)(attempt))()
        assert OUTCOMES["read"] > before or not some_read

    return run


def arrow_bytes() -> int:
    """What Arrow has allocated, of which Python knows nothing."""
    try:
        import pyarrow
    except ImportError:
        return 0
    return pyarrow.total_allocated_bytes()


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Fail if memory or time is out of proportion."""

    def too_long(*_: object) -> None:
        pytest.fail(f"took more than {SECONDS} s")  # which no `except Exception` catches

    arrow = arrow_bytes()
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, too_long)
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
    tracemalloc.start()
    try:
        yield
        used = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        if hasattr(signal, "SIGALRM"):
            signal.setitimer(signal.ITIMER_REAL, 0)
    assert used < MEMORY, f"{used:,} bytes"
    assert arrow_bytes() - arrow < MEMORY


def open_or_refuse(path: Path, **options: object) -> None:
    refusal = ""
    with bounded():
        try:
            data = open_dataset(DataConfig(path=str(path), **options), size=8)
        except InputError as error:
            refusal = str(error)
    OUTCOMES["refused" if refusal else "read"] += 1
    assert "\n" not in refusal
    assert len(refusal) < 2000
    if not refusal:
        assert len(data.splits["train"]) > 0
        assert len(data.splits["val"]) > 0
        assert not any("\n" in note or len(note) > 2000 for note in data.notes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("fuzz")
    for number, name in enumerate("abcd"):
        Image.new("RGB", (4, 4), (number, 0, 0)).save(place / f"{name}.png")
    return place


def damaged(data: bytes, changes: list[tuple[int, int, bytes]]) -> bytes:
    """Some bytes replaced, left out or put in, at places counted modulo the length."""
    found = bytearray(data)
    for place, length, new in changes:
        at = place % (len(found) + 1)
        found[at : at + length] = new
    return bytes(found)


extreme = st.sampled_from(
    [
        (n % (1 << 8 * size)).to_bytes(size, "little")
        for size in (1, 2, 4, 8)
        for n in (-1, 0, 1, 127, 1 << 30)
    ]
)
# Most changes keep the length, so that what follows is still found.
same_length = extreme.map(lambda new: (len(new), new))
other_length = st.tuples(st.integers(0, 40), st.one_of(st.binary(max_size=20), extreme))
changes = st.lists(
    st.tuples(st.integers(0, 100_000), st.one_of(same_length, same_length, other_length)).map(
        lambda change: (change[0], *change[1])
    ),
    min_size=1,
    max_size=4,
)
pieces = st.sampled_from(
    [
        b"",
        b"0",
        b"1",
        b"2",
        b"-",
        b".",
        b" ",
        b"?",
        b"'",
        b'"',
        b",",
        b";",
        b"\n",
        b"a.png",
        b"{",
        b"}",
        b"<",
        b"/",
    ]
)
text_changes = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 2), pieces), max_size=3)
meaning = st.sampled_from(["unknown", "negative"])


# -- tables -----------------------------------------------------------------------------------------------

files = st.sampled_from(["a.png", "b.png", "c.png", "d.png", "./a.png", "a.png", "b.png", "x.png", "..", ""])
labels = st.sampled_from(["cat", "dog", "cat;dog", "dog;cow", "cat", "dog", "cat dog", "Cat", ""])
splits = st.sampled_from(["train", "train", "train", "val", "test", "x"])
TABLE = b"""file,labels,split
a.png,cat;dog,train
b.png,"dog",train
c.png,big cow;cat,val
d.png,dog,train
"""
WIDE = b"""file,cat,dog,cow,width
a.png,1,0,,4
b.png,0,1,1,5
c.png,,1,0,6
d.png,1,1,0,7
"""


@often
def test_random_bytes_as_table(folder, examples):
    headers = [b"", b"file,label\n", b"file;labels\n", b"file,a,b\n"]

    @fuzz(examples, some_read=False, content=st.binary(max_size=200), header=st.sampled_from(headers))
    def attempt(content, header):
        (folder / "x.csv").write_bytes(header + content)
        open_or_refuse(folder / "x.csv")


@often
def test_damaged_tables(folder, examples):
    either = st.one_of(changes, text_changes, text_changes)

    @fuzz(examples, table=st.sampled_from([TABLE, WIDE]), changes=either, unlisted=meaning)
    def attempt(table, changes, unlisted):
        (folder / "x.tsv").write_bytes(damaged(table, changes))
        open_or_refuse(folder / "x.tsv", unlisted=unlisted)


@often
def test_random_rows_as_table(folder, examples):
    observe = ["none", "single", "counts", "fraction", "frequency", "salience", "questions"]

    @fuzz(
        examples,
        some_read=False,
        rows=st.lists(st.tuples(files, labels, splits), max_size=6),
        header=st.sampled_from(["file,label", "file,labels", "file,labels,split", "file,split,labels"]),
        unlisted=meaning,
        observe=st.sampled_from(observe),
    )
    def attempt(rows, header, unlisted, observe):
        width = header.count(",") + 1
        text = [header, *(",".join(row[:width]) for row in rows)]
        (folder / "y.csv").write_text("\n".join(text))
        open_or_refuse(folder / "y.csv", unlisted=unlisted, observe=observe)


@often
def test_random_marks_as_table(folder, examples):
    mark = st.sampled_from(["1", "0", "", "1", "0", "", "-1", "yes", "NaN", "2", "x"])
    row = st.tuples(st.sampled_from(["a.png", "b.png", "c.png", "d.png"]), mark, mark, mark).map(",".join)

    @fuzz(examples, rows=st.lists(row, min_size=2, max_size=6), unlisted=meaning)
    def attempt(rows, unlisted):
        (folder / "y.csv").write_text("\n".join(["file,cat,dog,cow", *rows]))
        open_or_refuse(folder / "y.csv", unlisted=unlisted)


def parquet_files() -> list[bytes]:
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
    found = []
    for compression in ("none", "snappy", "zstd"):
        for table in tables:
            stream = io.BytesIO()
            parquet.write_table(table, stream, compression=compression, row_group_size=3)
            found.append(stream.getvalue())
    return found


@often
def test_damaged_parquet(folder, examples):
    pytest.importorskip("pyarrow", reason="pyarrow, which reads Parquet, is not installed")
    path = folder / "x.parquet"

    @fuzz(examples, table=st.sampled_from(parquet_files()), changes=changes, unlisted=meaning)
    def attempt(table, changes, unlisted):
        path.write_bytes(damaged(table, changes))
        open_or_refuse(path, unlisted=unlisted)

    @fuzz(examples // 4, some_read=False, content=st.binary(max_size=300))
    def attempt_bytes(content):
        path.write_bytes(b"PAR1" + content + b"PAR1")
        open_or_refuse(path)


# -- features ---------------------------------------------------------------------------------------------


@often
def test_random_bytes_as_feature_file(folder, examples):
    @fuzz(examples, some_read=False, content=st.binary(max_size=300))
    def attempt(content):
        (folder / "x.npz").write_bytes(content)
        open_or_refuse(folder / "x.npz")


def feature_files() -> list[bytes]:
    labels = np.tile(np.eye(3, dtype=np.uint8), (2, 1))
    matrix = scipy.sparse.csr_matrix(np.eye(6))
    sparse = {key: getattr(matrix, key) for key in ("data", "indices", "indptr", "shape")}
    found = []
    for arrays in (
        {"X": np.eye(6), "Y": labels, "classes": np.array(list("abc"))},
        {**sparse, "Y": labels.astype(float), "test": np.arange(6) > 4},
        {"X": np.eye(6), **{f"Y_{key}": value for key, value in sparse.items()}},
    ):
        for save in (np.savez, np.savez_compressed):
            stream = io.BytesIO()
            save(stream, **arrays)
            found.append(stream.getvalue())
    return found


@often
def test_damaged_feature_file(folder, examples):
    @fuzz(examples, content=st.sampled_from(feature_files()), changes=changes, unlisted=meaning)
    def attempt(content, changes, unlisted):
        (folder / "y.npz").write_bytes(damaged(content, changes))
        open_or_refuse(folder / "y.npz", unlisted=unlisted)


arrays = st.one_of(
    st.sampled_from(
        [
            np.eye(4),
            np.eye(4)[0],
            np.zeros((4, 0)),
            np.array(3),
            np.full((4, 2), np.nan),
            np.array(["a", "b"]),
        ]
    ),
    st.sampled_from(
        [np.array([4, 4]), np.array([-1, 4]), np.array([0, 1, 2, 3, 4]), np.array([0, 9, 2, 3, 4])]
    ),
    st.sampled_from(
        [
            np.array([b"\xff", b"a"]),
            np.array([2**62] * 4),
            np.array([1.5]),
            np.array([True] * 4),
            np.array("csr"),
        ]
    ),
)
SPARSE = ["data", "indices", "indptr", "shape"]
keys = st.sampled_from(
    [
        "X",
        "Y",
        *SPARSE,
        *(f"Y_{key}" for key in SPARSE),
        "format",
        "classes",
        "labels",
        "names",
        "split",
        "test",
    ]
)


@often
def test_random_arrays_as_feature_file(folder, examples):
    bases = [{}, {"X": np.eye(4)}, {"X": np.eye(4), "Y": np.eye(4)[:, :2]}]

    @fuzz(
        examples,
        base=st.sampled_from(bases),
        content=st.dictionaries(keys, arrays, max_size=8),
        unlisted=meaning,
    )
    def attempt(base, content, unlisted):
        np.savez(folder / "z.npz", **{**content, **base})
        open_or_refuse(folder / "z.npz", unlisted=unlisted)


ARFF = b"""@relation 'x: -C 2'
@attribute 'a b' {0,1}
@attribute c {1,0}
@attribute x numeric
@attribute "y" {p,'q r',s}
@attribute z string
@data
0,1,.5,p,'a, b'
1,0,-1e3,'q r',?
{0 1, 2 4, 3 s}
{1 0,4 "x"}
1,?,7,s,u
"""
words = st.sampled_from(
    ["@relation", "@attribute", "@data", "'", '"', "{", "}", ",", " ", "\n", "0", "1", "?", "a", "numeric",
     "{0,1}", "-C 1", "%", "\\", "1 1", "nan", "1e999", "\t", "\0", "é"]
)  # fmt: skip


@often
def test_damaged_arff(folder, examples):
    either = st.one_of(changes, text_changes, text_changes)

    @fuzz(examples, changes=either, unlisted=meaning, columns=st.sampled_from([0, 0, 0, 1, -3, 9]))
    def attempt(changes, unlisted, columns):
        (folder / "x.arff").write_bytes(damaged(ARFF, changes))
        open_or_refuse(folder / "x.arff", unlisted=unlisted, label_columns=columns)

    header = b"@relation '-C 1'\n@attribute a {0,1}\n@attribute b {0,1}\n@attribute c numeric\n@data\n"

    @fuzz(
        examples,
        some_read=False,
        start=st.sampled_from([b"", header]),
        text=st.lists(words, max_size=40).map("".join),
    )
    def attempt_words(start, text):
        (folder / "y.arff").write_bytes(start + text.encode())
        open_or_refuse(folder / "y.arff")


@often
def test_random_lists_of_labels_of_arff(folder, examples):
    (folder / "z.arff").write_bytes(ARFF)
    xml = b'<?xml version="1.0"?><labels><label name="a b"></label><label name="c"/></labels>'

    @fuzz(examples, changes=st.one_of(changes, text_changes))
    def attempt(changes):
        (folder / "z.xml").write_bytes(damaged(xml, changes))
        open_or_refuse(folder / "z.arff")


# -- folders ----------------------------------------------------------------------------------------------


def saved_dataset(path: Path) -> None:
    """What `datasets` writes, with four images."""
    import pyarrow as pa

    images = []
    for number in range(4):
        stream = io.BytesIO()
        Image.new("RGB", (4, 4), (number, 0, 0)).save(stream, format="png")
        images.append({"bytes": stream.getvalue(), "path": None})
    kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    table = pa.table(
        {"image": pa.array(images, kind), "labels": [[0], [0, 1], [1], []], "note": list("abcd")}
    )
    path.mkdir(exist_ok=True)
    with pa.ipc.new_stream(path / "data.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=3)
    names = {"feature": {"names": ["cat", "dog"], "_type": "ClassLabel"}, "_type": "List"}
    info = {"features": {"image": {"_type": "Image"}, "labels": names, "note": {"_type": "Value"}}}
    (path / "dataset_info.json").write_text(json.dumps(info))
    (path / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data.arrow"}]}))


@often
def test_damaged_hugging_face_data(folder, examples):
    pytest.importorskip("pyarrow", reason="pyarrow, which reads Arrow files, is not installed")
    path = folder / "saved"
    saved_dataset(path)
    originals = {file: file.read_bytes() for file in path.iterdir()}
    arrow = path / "data.arrow"

    @fuzz(examples, file=st.sampled_from([*originals, arrow, arrow, arrow]), changes=changes)
    def attempt(file, changes):
        file.write_bytes(damaged(originals[file], changes))
        try:
            open_or_refuse(path, max_unreadable=0.5)
        finally:
            file.write_bytes(originals[file])


values = st.recursive(
    st.sampled_from([None, True, 0, -1, 1e400, "", "x", "Image", "ClassLabel", "List", "Sequence", "string"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["_type", "feature", "names", "image", "labels", "dtype", "features"]), inner
        ),
    ),
    max_leaves=12,
)


@often
def test_random_features_of_hugging_face_data(folder, examples):
    pytest.importorskip("pyarrow", reason="pyarrow, which reads Arrow files, is not installed")
    path = folder / "features"
    saved_dataset(path)

    @fuzz(examples, some_read=False, value=values, label=values, whole=st.sampled_from([True, False, False]))
    def attempt(value, label, whole):
        features = {"image": {"_type": "Image"}, "labels": label, "other": value}
        (path / "dataset_info.json").write_text(json.dumps(value if whole else {"features": features}))
        open_or_refuse(path)


@often
def test_random_names_in_folders(tmp_path, examples):
    letters = st.sampled_from(
        ["a", "B", " ", ".", "train", "test", "é", "e\u0301", "\n", "\udcff", "ß", "\u202e"]
    )
    name = st.lists(letters, min_size=1, max_size=3).map("".join).filter(lambda text: set(text) != {"."})
    picture = io.BytesIO()
    Image.new("RGB", (4, 4)).save(picture, format="png")
    number = iter(range(10**9))

    more = [("cat", "1", ".png"), ("dog", "2", ".png")]

    @fuzz(
        examples,
        more=st.sampled_from([more, []]),
        files=st.lists(st.tuples(name, name, st.sampled_from([".png", ""])), max_size=6),
    )
    def attempt(more, files):
        root = tmp_path / str(next(number))
        root.mkdir()
        for label, file, suffix in [*more, *files]:
            (root / label).mkdir(exist_ok=True)
            with contextlib.suppress(IsADirectoryError):
                (root / label / f"{file}{suffix}").write_bytes(picture.getvalue())
        open_or_refuse(root)


# -- images -----------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
@often
def test_damaged_images_have_a_reason(folder, examples):
    @fuzz(
        examples,
        some_read=False,
        suffix=st.sampled_from(["jpeg", "png", "webp", "gif", "tiff", "bmp"]),
        changes=changes,
    )
    def attempt(suffix, changes):
        stream = io.BytesIO()
        Image.effect_noise((16, 16), 50).convert("RGB").save(stream, format=suffix)
        path = folder / "image"
        path.write_bytes(damaged(stream.getvalue(), changes))
        with bounded():
            digests, wrong = check_images([path], max_pixels=10**6)
        assert bool(digests[0]) != bool(wrong)
        assert all(reason and "\n" not in reason for reason in wrong.values())
