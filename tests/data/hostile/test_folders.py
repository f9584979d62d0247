"""Folders with hostile files or names: Hugging Face data sets, PASCAL VOC, class folders."""

from __future__ import annotations

import contextlib
import json
from itertools import count

import pytest
from hypothesis import strategies as st
from PIL import Image

from spml.config import DataConfig
from spml.data import open_dataset
from tests.data.hostile.fuzzing import changes, damage, fuzz, open_or_refuse
from tests.helpers.originals import save_dataset


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
CLASSES = [("cat", "1", ".png"), ("cat", "2", ".png"), ("dog", "1", ".png"), ("dog", "2", ".png")]
"""Enough to train on, so that some examples can be read whatever the random names are."""
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


def test_the_note_about_a_hidden_folder_is_one_line(tmp_path):
    for folder, name, suffix in (*CLASSES, (".\n", "a", ".png")):
        (tmp_path / folder).mkdir(exist_ok=True)
        Image.new("RGB", (4, 4), (ord(folder[0]), int(name, 36), 0)).save(
            tmp_path / folder / f"{name}{suffix}"
        )
    notes = open_dataset(DataConfig(path=str(tmp_path)), size=8).notes
    assert r"1 hidden or system folder is left out: .\n." in notes
