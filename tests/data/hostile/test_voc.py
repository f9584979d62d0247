"""PASCAL VOC folders with random, damaged and hostile files."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data.readers import read, voc
from tests.data.hostile.fuzzing import bounded, fuzz
from tests.helpers.originals import CAT, GOOD, PIECES

DEPTH = 100_000
ATTRIBUTES = "".join(f' k{number}=""' for number in range(100_000))


@pytest.fixture
def devkit(tmp_path, picture):
    """A folder with two annotated images and a list of one of them."""
    path = tmp_path / "voc"
    for folder in ("Annotations", "ImageSets/Main"):
        (path / folder).mkdir(parents=True)
    for name in ("1", "2"):
        (path / "Annotations" / f"{name}.xml").write_bytes(GOOD)
        picture(f"voc/JPEGImages/{name}.jpg")
    (path / "ImageSets/Main/train.txt").write_text("1")
    return path


def opened(devkit, content):
    (devkit / "Annotations/1.xml").write_bytes(content)
    with bounded():
        return read(DataConfig(path=str(devkit)))


def test_a_file_that_is_too_large(devkit):
    with pytest.raises(InputError, match=r"has 4,194,305 bytes, more than the limit of 4,194,304"):
        opened(devkit, b" " * (voc.MAX_BYTES + 1))


@pytest.mark.parametrize(
    "content",
    [
        b"<annotation>" + b"<a>" * DEPTH + b"</a>" * DEPTH + CAT.encode() + b"</annotation>",
        f"<annotation>{CAT}<a{ATTRIBUTES}/></annotation>".encode(),
    ],
)
def test_deep_and_wide_files_are_read(devkit, content):
    assert opened(devkit, content).classes == ("cat",)


@pytest.mark.parametrize("encoding", ["ascii", "utf-8", "utf-16"])
def test_a_billion_laughs(devkit, encoding):
    levels = [(f"l{level}", f"&l{level - 1};" * 10) for level in range(1, 10)]
    entities = "".join(f'<!ENTITY {name} "{value}">' for name, value in [("l0", "lol"), *levels])
    text = f"<!DOCTYPE x [{entities}]><annotation><filename>&l9;</filename></annotation>"
    with pytest.raises(InputError, match=r"1\.xml: has a document type or entities"):
        opened(devkit, text.encode(encoding))


def test_no_file_is_read_through_an_entity(devkit, tmp_path):
    (tmp_path / "secret").write_text("secret")
    entity = f'<!ENTITY a SYSTEM "{tmp_path}/secret">'
    text = f"<!DOCTYPE x [{entity}]><annotation><filename>&a;</filename></annotation>"
    with pytest.raises(InputError, match=r"1\.xml: has a document type or entities"):
        opened(devkit, text.encode())


@fuzz(
    some_read=False,
    content=st.binary(max_size=200), inside=st.booleans(), name=st.sampled_from(["x", "train"]),
)  # fmt: skip
def test_random_bytes(devkit, read_or_refuse, content, inside, name):
    data = b"<annotation>" + content + b"</annotation>" if inside else content
    (devkit / "Annotations/1.xml").write_bytes(data)
    (devkit / "ImageSets/Main" / f"{name}.txt").write_bytes(content)
    with bounded():
        read_or_refuse(devkit)


@fuzz(
    some_read=False,
    start=st.integers(0, len(GOOD)), end=st.integers(0, len(GOOD)),
    filling=st.lists(st.sampled_from(PIECES), max_size=5),
)  # fmt: skip
def test_changed_annotations(devkit, read_or_refuse, start, end, filling):
    (devkit / "Annotations/1.xml").write_bytes(GOOD[:start] + b"".join(filling) + GOOD[end:])
    with bounded():
        read_or_refuse(devkit)
