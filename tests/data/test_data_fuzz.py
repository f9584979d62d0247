"""Random files give data or one clear error, never anything else."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from spml.config import DataConfig
from spml.data import open_dataset
from spml.data.images import check_images
from spml.errors import InputError

relaxed = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def open_or_refuse(path: Path, **options: object) -> None:
    refusal = ""
    try:
        data = open_dataset(DataConfig(path=str(path), **options), size=8)
    except InputError as error:
        refusal = str(error)
    assert "\n" not in refusal
    if not refusal:
        assert len(data.splits["train"]) > 0
        assert len(data.splits["val"]) > 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("fuzz")
    for name in "abcd":
        Image.new("RGB", (4, 4)).save(place / f"{name}.png")
    return place


cells = st.sampled_from(
    ["a.png", "b.png", "c.png", "x.png", "..", "cat", "dog", "cat;dog", "cat dog", "train", "val", ""]
)
lines = st.lists(cells, max_size=4).map(",".join)


@relaxed
@given(content=st.binary(max_size=200), header=st.sampled_from([b"", b"file,label\n", b"file;labels\n"]))
def test_random_bytes_as_table(folder, content, header):
    path = folder / "x.csv"
    path.write_bytes(header + content)
    open_or_refuse(path)


@relaxed
@given(
    rows=st.lists(lines, max_size=6),
    header=st.sampled_from(["file,label", "file,labels", "file,labels,split", "split,file,label"]),
    unlisted=st.sampled_from(["unknown", "negative"]),
    observe=st.sampled_from(["none", "single"]),
)
def test_random_rows_as_table(folder, rows, header, unlisted, observe):
    path = folder / "y.csv"
    path.write_text("\n".join([header, *rows]))
    open_or_refuse(path, unlisted=unlisted, observe=observe)


@relaxed
@given(content=st.binary(max_size=300))
def test_random_bytes_as_feature_file(folder, content):
    path = folder / "x.npz"
    path.write_bytes(content)
    open_or_refuse(path)


@relaxed
@given(place=st.integers(0, 10_000), value=st.integers(0, 255), cut=st.integers(1, 10_000))
def test_damaged_feature_file(folder, place, value, cut):
    stream = io.BytesIO()
    np.savez(stream, X=np.eye(6), Y=np.eye(6, dtype=np.uint8), classes=np.array(list("abcdef")))
    data = bytearray(stream.getvalue())
    data[place % len(data)] = value
    path = folder / "y.npz"
    path.write_bytes(bytes(data[: max(1, len(data) - cut % 400)]))
    open_or_refuse(path)
    path.write_bytes(bytes(data))
    open_or_refuse(path)


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
keys = st.sampled_from(
    ["X", "Y", "data", "indices", "indptr", "shape", "format", "classes", "labels", "names", "split", "test"]
)


@relaxed
@given(content=st.dictionaries(keys, arrays, max_size=8), unlisted=st.sampled_from(["unknown", "negative"]))
def test_random_arrays_as_feature_file(folder, content, unlisted):
    path = folder / "z.npz"
    np.savez(path, **content)
    open_or_refuse(path, unlisted=unlisted)


@pytest.mark.filterwarnings("ignore")
@relaxed
@given(
    suffix=st.sampled_from(["jpeg", "png", "webp", "gif", "tiff", "bmp"]),
    place=st.integers(0, 10_000),
    value=st.integers(0, 255),
)
def test_damaged_images_have_a_reason(folder, suffix, place, value):
    stream = io.BytesIO()
    Image.effect_noise((16, 16), 50).convert("RGB").save(stream, format=suffix)
    data = bytearray(stream.getvalue())
    data[place % len(data)] = value
    path = folder / "image"
    path.write_bytes(bytes(data))
    digests, wrong = check_images([path], max_pixels=10**6)
    assert bool(digests[0]) != bool(wrong)
    assert all(reason and "\n" not in reason for reason in wrong.values())
