"""XMP sidecars: what a parser of XML reads back, and what is refused before anything is written."""

from __future__ import annotations

import os
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from spml.common.errors import InputError, SpmlError
from spml.data.images.image_files import ImageFiles
from spml.data.matrix import FeatureMatrix
from spml.runs.predict.sidecars import Sidecars, packet
from tests.helpers.sidecars import subjects


def photos(*paths):
    return ImageFiles([Path(path) for path in paths], [""] * len(paths), size=8)


@pytest.mark.parametrize(
    "labels",
    [
        [],
        ["cat"],
        ["salt & pepper", "a < b > c", 'the "best"', "it's", "</rdf:li>", "]]>", "{subject}"],
        ["Bär", "猫", "🦊", "a, b; c|d", " two  blanks "],
    ],
)
def test_labels_are_read_back(labels):
    assert subjects(packet(labels).encode()) == labels


def test_characters_that_xml_does_not_have_are_replaced():
    assert subjects(packet(["a\x00b\x1bc\ufffe"]).encode()) == ["a\ufffdb\ufffdc\ufffd"]


def test_the_packet_is_the_one_of_the_standard():
    """The attributes of the wrapper, and one description of the resource itself (`rdf:about` is empty)."""
    text = packet(["cat"])
    assert text.startswith('<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>\n')
    assert text.endswith('<?xpacket end="w"?>\n')
    [rdf] = ElementTree.fromstring(text.encode())
    assert [child.get("{http://www.w3.org/1999/02/22-rdf-syntax-ns#}about") for child in rdf] == [""]


def test_rows_find_their_photos_and_keep_the_suffix(tmp_path):
    names = ["a.jpg", "a.png", "b.jpg"]
    writer = Sidecars(photos(*(tmp_path / name for name in names)), overwrite=False)
    writer.write(np.array([0, 2]), [["cat"], []])
    writer.write(np.array([1]), [["dog", "fox"]])
    files = {path.name: subjects(path.read_bytes()) for path in tmp_path.iterdir()}
    assert files == {"a.jpg.xmp": ["cat"], "a.png.xmp": ["dog", "fox"], "b.jpg.xmp": []}


def test_existing_sidecars_are_named_and_counted(tmp_path):
    files = [tmp_path / f"{number}.jpg" for number in range(6)]
    for number in range(1, 6):
        Path(f"{files[number]}.xmp").write_text("of another program")
    with pytest.raises(
        InputError, match=r"5 sidecars exist already \(.*1\.jpg\.xmp, .*3\.jpg\.xmp, \.\.\.\)\. Pass"
    ):
        Sidecars(photos(*files), overwrite=False)
    Sidecars(photos(*files), overwrite=True).write(np.array([1]), [["cat"]])
    assert subjects((tmp_path / "1.jpg.xmp").read_bytes()) == ["cat"]
    assert (tmp_path / "2.jpg.xmp").read_text() == "of another program"


def test_a_sidecar_that_appears_in_the_meantime_is_left_as_it_is(tmp_path):
    writer = Sidecars(photos(tmp_path / "a.jpg", tmp_path / "b.jpg"), overwrite=False)
    (tmp_path / "a.jpg.xmp").write_text("ratings")
    writer.write(np.array([0, 1]), [["cat"], ["dog"]])
    assert (tmp_path / "a.jpg.xmp").read_text() == "ratings"
    assert (writer.written, writer.left) == (1, [str(tmp_path / "a.jpg.xmp")])


def test_links_are_never_written_through(tmp_path):
    """A photo that is a link has its sidecar next to the link; a sidecar that is one is replaced itself."""
    elsewhere, here = tmp_path / "elsewhere", tmp_path / "here"
    elsewhere.mkdir()
    here.mkdir()
    (here / "a.jpg").symlink_to(elsewhere / "a.jpg")
    (here / "a.jpg.xmp").symlink_to(elsewhere / "target.xmp")  # which does not exist
    with pytest.raises(InputError, match="1 sidecar exists"):
        Sidecars(photos(here / "a.jpg"), overwrite=False)
    Sidecars(photos(here / "a.jpg"), overwrite=True).write(np.array([0]), [["cat"]])
    assert [*elsewhere.iterdir()] == []
    assert not (here / "a.jpg.xmp").is_symlink()
    assert subjects((here / "a.jpg.xmp").read_bytes()) == ["cat"]


def test_a_folder_that_may_not_be_written_to(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(InputError, match=r"photos: may not be written to.*Make it writable"):
        Sidecars(photos(tmp_path / "photos" / "a.jpg"), overwrite=False)


def test_a_sidecar_that_can_not_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    (tmp_path / "a.jpg.xmp").write_text("old")
    writer = Sidecars(photos(tmp_path / "a.jpg"), overwrite=True)

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SpmlError, match=r"a\.jpg\.xmp: could not be written \(No space left on device\)"):
        writer.write(np.array([0]), [["cat"]])
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.jpg.xmp": "old"}


def test_features_have_no_photos():
    with pytest.raises(InputError, match="the samples are features"):
        Sidecars(FeatureMatrix(np.zeros((2, 3), np.float32)), overwrite=False)
