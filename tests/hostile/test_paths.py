"""Paths that data files name: what is taken, and every way out of the folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spml.common import safe
from spml.common.errors import InputError
from spml.common.safe import inside, quote, refuse_leaving_link
from spml.config import DataConfig
from spml.data.readers import read
from spml.data.readers.features import read_unlabelled
from spml.data.readers.folder import read_folder
from tests.helpers import write_image
from tests.helpers.commands import refusal


@pytest.fixture
def root(tmp_path):
    """A folder with files, links within it, links that leave it, and a file beside it."""
    folder = tmp_path / "root"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.png").write_text("a")
    (folder / "sub" / "b.png").write_text("b")
    (tmp_path / "secret.png").write_text("secret")
    (folder / "within.png").symlink_to("sub/b.png")
    (folder / "leaving.png").symlink_to(tmp_path / "secret.png")
    (folder / "leaving").symlink_to(tmp_path)
    (folder / "indirect.png").symlink_to("leaving.png")
    (folder / "sub" / "up").symlink_to("..")
    (folder / "loop").symlink_to("loop")
    return folder


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.png", "a.png"),
        ("./a.png", "a.png"),
        ("sub//b.png", "sub/b.png"),
        ("sub/../a.png", "a.png"),
        ("sub\\b.png", "sub/b.png"),
        ("missing/../nothing.png", "nothing.png"),
        ("../root/a.png", "a.png"),
        ("..\\root\\sub\\b.png", "sub/b.png"),
        ("../x/../root/a.png", "a.png"),
        ("within.png", "within.png"),
        ("sub/up/a.png", "sub/up/a.png"),
        ("..a.png", "..a.png"),
        ("... .png", "... .png"),
        ("ä 猫.png", "ä 猫.png"),
        ("file:///etc/passwd", "file:/etc/passwd"),  # an odd folder, but one below the root
        ("x" * 255, "x" * 255),
    ],
)
def test_taken(root, text, expected):
    assert inside(root, text, "x") == root / expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the name of a file is empty"),
        (".", "'.' is the folder .* but must be a file"),
        ("sub/..", "is the folder"),
        ("..", "lies outside the folder"),
        ("../secret.png", r"'\.\./secret\.png' lies outside the folder .*root\. Name files.*data.images"),
        ("sub/../../secret.png", "lies outside the folder"),
        ("sub\\..\\..\\secret.png", "lies outside the folder"),
        ("../root-too/a.png", "lies outside the folder"),
        ("/etc/passwd", r"lies outside the folder .*root\. Name files relative to that folder"),
        ("/kaggle/a.png", r"root\. It is a path on another machine\. Name files relative"),
        ("D:\\x\\sub\\b.png", r"machine\. Name files relative to that folder"),
        ("D:\\x\\c.png", r"It is a path on another machine\. Name files relative to that folder"),
        ("/data/local-files/?d=sub/b.png", "of Label Studio, whose JSON export is read as it is"),
        ("/data/..//secret.png", r"another machine\. Name files"),
        ("../root", "is the folder"),
        ("../root/../secret.png", "lies outside the folder"),
        ("../root/leaving.png", "is a link to"),
        ("//etc/passwd", "lies outside the folder"),
        ("\\\\server\\share\\a.png", "lies outside the folder"),
        ("C:\\a.png", "lies outside the folder"),
        ("C:a.png", "lies outside the folder"),
        ("leaving.png", r"leaving\.png' is a link to '.*secret\.png', outside the folder .*data\.images"),
        ("indirect.png", "is a link to '.*secret.png'"),
        ("leaving/secret.png", "is a link to '.*secret.png'"),
        ("sub/up/leaving/x", "is a link to"),
        ("a\0.png", r"'a\\x00\.png' holds a character that no file name has"),
        ("a\n.png", "holds a character"),
        ("a\u2028.png", "holds a character"),
        ("\ud800.png", r"'\\ud800\.png' holds a character"),
        ("x" * 256, r"'x+\.\.\.' is longer than a file name can be \(255 bytes"),
        ("ä" * 128, "is longer than a file name"),
        ("x/" * 2100 + "y", "is longer than a file name"),
    ],
)  # fmt: skip
def test_refused(root, text, message):
    with pytest.raises(InputError, match=message) as caught:
        inside(root, text, "t.csv: row 3")
    assert str(caught.value).startswith("t.csv: row 3: ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 800


def test_absolute_paths_below_the_folder(root, monkeypatch):
    assert inside(root, str(root / "sub" / "b.png"), "x") == root / "sub" / "b.png"
    assert inside(root, f"{root}/sub/../a.png", "x") == root / "a.png"
    with pytest.raises(InputError, match="lies outside"):
        inside(root, f"{root}/../secret.png", "x")
    with pytest.raises(InputError, match="lies outside"):
        inside(root, f"{root}-too/a.png", "x")
    with pytest.raises(InputError, match="is a link to"):
        inside(root, f"{root}/leaving.png", "x")
    with pytest.raises(InputError, match="is the folder"):
        inside(root, str(root), "x")
    monkeypatch.chdir(root)
    assert inside(Path("."), str(root / "a.png"), "x") == Path("a.png")
    assert inside(Path("sub"), str(root / "sub" / "b.png"), "x") == Path("sub/b.png")


def test_the_folder_may_be_a_link(root, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(root)
    assert inside(link, "a.png", "x") == link / "a.png"
    assert inside(link, "within.png", "x") == link / "within.png"
    assert inside(link, f"{root}/a.png", "x") == link / "a.png"
    assert inside(root, f"{link}/a.png", "x") == root / "a.png"
    with pytest.raises(InputError, match="is a link to"):
        inside(link, "leaving.png", "x")


def test_a_link_to_itself_is_no_file(root):
    path = inside(root, "loop", "x")
    assert not os.path.isfile(path)


def test_image_folders_refuse_links_that_leave(tmp_path):
    for name in ("data/cat/1.png", "data/dog/2.png", "store/3.png"):
        write_image(tmp_path / name)
    data = tmp_path / "data"
    (data / "dog" / "within.png").symlink_to("../cat/1.png")
    assert len(read_folder(data, DataConfig()).ids) == 3
    link = data / "cat" / "3.png"
    link.symlink_to(tmp_path / "store" / "3.png")
    with pytest.raises(InputError, match=r"3\.png' is a link to '.*store/3\.png', outside .*data\.images"):
        read_folder(data, DataConfig())
    assert len(read_folder(data, DataConfig(images=str(tmp_path / "store"))).ids) == 4
    link.unlink()
    (tmp_path / "split").mkdir()
    (tmp_path / "split" / "test").symlink_to(data)
    with pytest.raises(InputError, match=r"split/test' is a link to '.*data', outside"):
        read_folder(tmp_path / "split", DataConfig())
    assert set(read_folder(tmp_path / "split", DataConfig(images=str(data))).split) == {"test"}
    (data / "cow").symlink_to(tmp_path / "store")
    with pytest.raises(InputError, match=r"cow' is a link to '.*store', outside"):
        read_folder(data, DataConfig())
    assert read_folder(data, DataConfig(images=str(tmp_path / "store"))).classes == ("cat", "cow", "dog")


def test_refuse_leaving_link_takes_several_roots(root, tmp_path):
    refuse_leaving_link(root / "leaving.png", [root, tmp_path], "x")
    with pytest.raises(InputError, match="x: "):
        refuse_leaving_link(root / "leaving.png", [root, root / "sub"], "x")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "null"),
        (True, "true"),
        ("a\n", r"'a\n'"),
        ("x" * 101, "'" + "x" * 97 + "...'"),
        (1.5, "1.5"),
        (10**50, "1" + "0" * 39),
        ([[1]], "a list"),
        ({}, "an object"),
        ((), "tuple"),
    ],
)
def test_shown(value, expected):
    assert quote(value) == expected


PIECES = "..|.|\\|sub|up|leaving|leaving.png|a.png|loop|root|C:|~"
pieces = st.sampled_from(("", "/", "\0", *PIECES.split("|")))


@settings(max_examples=300, deadline=None)
@given(text=st.one_of(st.text(max_size=20), st.lists(pieces, max_size=8).map("/".join)))
def test_nothing_gets_out(tmp_path_factory, text):
    root = tmp_path_factory.getbasetemp() / "fuzz" / "root"
    if not root.exists():
        (root / "sub").mkdir(parents=True)
        (root / "leaving").symlink_to(root.parent)
        (root / "leaving.png").symlink_to("/etc/passwd")
        (root / "sub" / "up").symlink_to("..")
        (root / "loop").symlink_to("loop")
    path, refusal = None, ""
    try:
        path = inside(root, text, "x")
    except InputError as error:
        refusal = str(error)
    assert "\n" not in refusal
    if not path:
        return
    assert ".." not in path.parts
    assert Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))


@pytest.mark.parametrize("name", ["x.npz", "x.csv", "x.txt", "x.json", "x.parquet", "x.arff", "x"])
def test_an_unreadable_file_is_not_taken_for_a_wrong_one(tmp_path, monkeypatch, name):
    def refuse(path, mode):
        raise PermissionError(13, "Permission denied", str(path))

    path = tmp_path / name
    path.write_text("content")
    monkeypatch.setattr(safe, "open", refuse, raising=False)
    assert refusal(read, DataConfig(path=str(path))) == f"{path}: can't be read: Permission denied."
    if name == "x.npz":
        with pytest.raises(InputError, match=r"x\.npz: can't be read: Permission denied\.$"):
            read_unlabelled(path)


def test_a_folder_that_can_not_be_listed(tmp_path, monkeypatch, recwarn):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(safe.os, "scandir", refuse)
    assert refusal(read, DataConfig(path=str(tmp_path))) == f"{tmp_path}: can't be read: Permission denied."
    assert not recwarn.list
