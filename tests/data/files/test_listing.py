"""Listing of folders: order, what is left out, and the note on files that are not read."""

from __future__ import annotations

import pytest

from spml.common.errors import InputError
from spml.data import list_inputs
from spml.data.files import list_images, note_unread
from spml.data.names import FilesBelow, PackedNames


def test_folders_and_the_positions_of_their_images(tmp_path, picture):
    for name in ("b/2.png", "b/a/3.png", "b/a/1.png", "a.png", "c/d/4.JPG", "b-/5.png"):
        picture(name)
    (tmp_path / "b" / "notes.txt").write_text("")
    (tmp_path / "e").mkdir()
    listing = list_images(tmp_path)
    assert listing.images == ["a.png", "b/2.png", "b/a/1.png", "b/a/3.png", "b-/5.png", "c/d/4.JPG"]
    folders = {
        folder.prefix: (list(folder.images), list(folder.below), folder.files, folder.name)
        for folder in listing.root.walk()
    }
    assert folders == {
        "": ([0], [0, 1, 2, 3, 4, 5], [], ""),
        "b/": ([1], [1, 2, 3], ["notes.txt"], "b"),
        "b/a/": ([2, 3], [2, 3], [], "a"),
        "b-/": ([4], [4], [], "b-"),
        "c/": ([], [5], [], "c"),
        "c/d/": ([5], [5], [], "d"),
        "e/": ([], [], [], "e"),
    }
    assert [folder.name for folder in listing.root.full] == ["b", "b-", "c"]
    assert listing.notes() == ["1 file is not read: 1 .txt."]
    assert listing.notes(["b/notes.txt"]) == []


def test_notes_by_suffix():
    names = ["a.cr2", "b.CR2", "x", "c.svg", "d.txt", "e.txt", "f.txt", "archive.tar.gz"]
    assert note_unread(names) == ("8 files are not read: 3 .txt, 2 .cr2, 1 without a suffix, 1 .svg, 1 .gz.")
    assert note_unread(["a.HEIC"]) == "1 file is not read: 1 .heic; pip install pillow-heif reads .heic."
    assert note_unread([]) == ""


def test_links_to_folders_are_followed_on_demand(tmp_path, picture):
    picture("a/1.png")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "a" / "up").symlink_to("..")
    listing = list_images(tmp_path)
    assert listing.images == ["a/1.png"]
    assert listing.notes() == ["2 hidden, system or linked entries are left out: b, a/up."]
    listing = list_images(tmp_path, follow=2)
    assert listing.images == ["a/1.png", "b/1.png"]
    assert listing.links == [tmp_path / "b"]
    (tmp_path / "loop").symlink_to("loop")
    assert list_images(tmp_path).root.files == ["loop"]
    with pytest.raises(InputError, match="missing: can't be listed: No such file"):
        list_images(tmp_path / "missing")


def test_prediction_names_what_is_left_out(tmp_path, picture):
    picture("in/1.png")
    picture("in/@eaDir/1.png")
    (tmp_path / "in" / "photo.cr2").write_bytes(b"x")
    lines = []
    ids, inputs = list_inputs([f"{tmp_path}/in"], report=lines.append)
    assert list(ids) == [f"{tmp_path}/in/1.png"]
    assert isinstance(ids, PackedNames)
    assert isinstance(inputs.paths, FilesBelow), "no Python object per file of a folder"
    assert lines == [
        f"{tmp_path}/in: 1 file is not read: 1 .cr2.",
        f"{tmp_path}/in: 1 hidden, system or linked entry is left out: @eaDir.",
    ]
    (tmp_path / "in" / "1.png").unlink()
    with pytest.raises(InputError, match=r"holds no image \(.*\)\. .*1 file is not read: 1 \.cr2"):
        list_inputs([f"{tmp_path}/in"])
