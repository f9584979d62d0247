"""Folders with hostile files or names: Hugging Face data sets, PASCAL VOC, class folders."""

from __future__ import annotations

import contextlib
import io
import json
from itertools import count
from pathlib import Path

import pytest
from hypothesis import strategies as st
from PIL import Image

from tests.data.hostile.fuzzing import changes, damage, fuzz, open_or_refuse


def save_dataset(path: Path) -> None:
    """Write four images as `datasets` does."""
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


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A Hugging Face data set, and the content of its files."""
    pytest.importorskip("pyarrow", reason="pyarrow, which reads Arrow files, is not installed")
    path = tmp_path_factory.mktemp("saved")
    save_dataset(path)
    return path, {file.name: file.read_bytes() for file in path.iterdir()}


@fuzz(
    name=st.sampled_from(["dataset_info.json", "state.json", *["data.arrow"] * 4]),
    changes=changes,
)
def test_damaged_hugging_face_data(saved, name, changes):
    path, originals = saved
    (path / name).write_bytes(damage(originals[name], changes))
    try:
        open_or_refuse(path, max_unreadable=0.5)
    finally:
        (path / name).write_bytes(originals[name])


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


@fuzz(some_read=False, value=values, label=values, whole=st.sampled_from([True, False, False]))
def test_random_features_of_hugging_face_data(saved, value, label, whole):
    path, originals = saved
    features = {"image": {"_type": "Image"}, "labels": label, "other": value}
    info = path / "dataset_info.json"
    info.write_text(json.dumps(value if whole else {"features": features}))
    try:
        open_or_refuse(path)
    finally:
        info.write_bytes(originals[info.name])


letters = st.sampled_from(
    ["a", "B", " ", ".", "train", "test", "é", "e\u0301", "\n", "\udcff", "ß", "\u202e"]
)
name = st.lists(letters, min_size=1, max_size=3).map("".join).filter(lambda text: set(text) != {"."})
CLASSES = [("cat", "1", ".png"), ("dog", "2", ".png")]
NUMBERS = count()


@fuzz(
    everyday=100,
    more=st.sampled_from([CLASSES, []]),
    files=st.lists(st.tuples(name, name, st.sampled_from([".png", ""])), max_size=6),
)
def test_random_names_in_folders(tmp_path, folder, more, files):
    root = tmp_path / str(next(NUMBERS))
    root.mkdir()
    picture = (folder / "a.png").read_bytes()
    for number, (label, file, suffix) in enumerate([*more, *files]):
        (root / label).mkdir(exist_ok=True)
        with contextlib.suppress(IsADirectoryError):
            (root / label / f"{file}{suffix}").write_bytes(picture + bytes([number]))
    open_or_refuse(root)
