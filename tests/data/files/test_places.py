"""Files: listing of folders, hints at where missing ones may be, and leaving them out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import files as places
from spml.data import open_dataset
from spml.data.files import find_folder, images_folder, list_images, locate_names, note_unread
from spml.data.readers import find_files
from tests.helpers.records import opened


@pytest.mark.parametrize(
    ("there", "name", "hint"),
    [
        ("a.jpg", "a.JPG", "That folder holds 'a.jpg'. If the images are elsewhere, pass data.images with"),
        ("images/A.jpg", "images\\a.jpg", "That folder holds 'A.jpg'."),
        ("cafe\u0301.jpg", "caf\u00e9.jpg", "holds 'cafe\\u0301.jpg'."),
        ("caf\u00e9.jpg", "cafe\u0301.jpg", "holds 'caf\u00e9.jpg'."),
        ("0007.jpg", "7", "That folder holds '0007.jpg'. If the images are elsewhere"),
        ("sub/a.jpg", "a.jpg", "That folder holds 'sub'."),
        ("a.jpg", "nowhere/b.jpg", "There is no folder 'nowhere' in it. If"),
        ("photo.jpg", "https://host/a.jpg", "This is an address: download the images, and write"),
    ],
)
def test_what_may_be_meant_by_a_missing_file(tmp_path, there, name, hint):
    (tmp_path / there).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / there).write_bytes(b"x")
    if (tmp_path / name).exists():
        pytest.skip("this file system does not tell the names apart")
    with pytest.raises(InputError, match="row 0: there is no file ") as caught:
        locate_names(tmp_path, [[name]], "row {}".format)
    assert hint in str(caught.value)


def test_a_missing_file_in_a_large_folder(tmp_path, monkeypatch):
    """Which is listed instead of asked for each file."""
    looked_for, real = [], places.is_file
    monkeypatch.setattr(places, "is_file", lambda path: looked_for.append(path.name) or real(path))
    names = [f"photo_{number}.jpg" for number in range(600)]
    for name in names:
        (tmp_path / name).touch()
    names[123] = "photo_123.JPG"
    with pytest.raises(InputError, match=r"'photo_123\.JPG' in .* That folder holds 'photo_0\.jpg', "):
        locate_names(tmp_path, [[name] for name in names], "row {}".format)
    assert locate_names(tmp_path, [[name] for name in names], "row {}".format, "skip") == names
    assert {*looked_for} == {"photo_123.JPG"}


@pytest.mark.parametrize("many", [1, 100])
def test_a_name_that_fits_two_files_is_refused(tmp_path, monkeypatch, many):
    monkeypatch.setattr(places, "MANY", many)
    for name in ("1.jpg", "2.jpg", "2.png"):
        (tmp_path / name).write_bytes(b"x")
    names = [[number, f"{number}.jpg", f"{number}.png"] for number in "12"]
    assert locate_names(tmp_path, names[:1], "row {}".format) == ["1.jpg"]
    with pytest.raises(InputError, match=r"row 1: '2' fits '2\.jpg' and '2\.png'\. Write the suffix"):
        locate_names(tmp_path, names, "row {}".format)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.jpg").write_bytes(b"y")
    with pytest.raises(InputError, match=r"x: fits '.*1\.jpg' and '.*a/1\.jpg'\. Pass data\.images"):
        find_folder([tmp_path, tmp_path / "a"], [["1.jpg"]], "x")
    assert find_folder([tmp_path, tmp_path / "a" / ".."], [["1.jpg"]], "x") == tmp_path


def test_labels_do_not_depend_on_what_is_missing(table):
    lines = ("file,labels", *(f"{name}.png,x;y;z" for name in "axbcd"))
    observed = {}
    for images in ("a b c d", "a x b c d"):
        path = table(*lines, images=images)
        config = DataConfig(
            path=str(path), unlisted="negative", observe="single", missing="skip", separator=";"
        )
        data = open_dataset(config, size=8)
        for samples in data.splits.values():
            for name, label in zip(samples.ids, samples.observed.index.tolist(), strict=True):
                assert observed.setdefault(name, label) == label
    assert len(observed) == 5


@pytest.mark.parametrize("images", ["", "none", "a.png", "a\0b"])
def test_a_folder_of_images_that_is_none(tmp_path, monkeypatch, images):
    (tmp_path / "a.png").write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"data\.images: '.*' is not a folder\."):
        images_folder(DataConfig(images=images))
    assert images_folder(DataConfig()) is None
    assert images_folder(DataConfig(images=".")) == Path()


PARTS = [{"image_id": k, "category_id": k % 2} for k in range(3)]
RESULT = [{"type": "choices", "value": {"choices": ["dog"]}}]
XML = "<annotation><filename>{}.png</filename><object><name>dog</name></object></annotation>"
READERS = {
    "table": ("x.csv", {"x.csv": "file,label\nx.png,dog\na.png,cat\nb.png,dog\n"}),
    "COCO": ("x.json", {"x.json": json.dumps({
        "images": [{"id": k, "file_name": f"{name}.png"} for k, name in enumerate("xab")],
        "annotations": PARTS, "categories": [{"id": k, "name": f"c{k}"} for k in (0, 1)],
    })}),
    "Label Studio": ("x.json", {"x.json": json.dumps(
        [{"data": {"image": f"{name}.png"}, "annotations": [{"result": RESULT}]} for name in "xab"]
    )}),
    "VOC": ("", {f"Annotations/{name}.xml": XML.format(name) for name in "abx"}),
}  # fmt: skip


@pytest.mark.parametrize(("path", "texts"), READERS.values(), ids=READERS)
def test_one_policy_for_all_readers(folder_of, path, texts):
    folder = folder_of("a.png b.png", texts)
    path, images = folder / path, str(folder)
    with pytest.raises(InputError, match=r"there is no file 'x\.\w+'.*data\.missing=skip\.$"):
        opened(path, images=images)
    assert {path.stem for path in opened(path, images=images, missing="skip").inputs} == {"a", "b", "x"}
    for name in "ab":
        (folder / f"{name}.png").unlink()
    with pytest.raises(InputError, match="3 of 3 files are missing") as caught:
        opened(path, images=images, missing="skip")
    assert "data.missing" not in str(caught.value)


def test_find_files_of_other_packages_stops(tmp_path):
    (tmp_path / "a.png").write_bytes(b"x")
    with pytest.raises(InputError, match="entry 1: there is no file"):
        find_files(tmp_path, [["a.png"], ["b.png"]], lambda row: f"entry {row}")
    paths = find_files(tmp_path, [["a.png"], ["b.png", "b.jpg"]], str, "skip")
    assert [path.name for path in paths] == ["a.png", "b.png"]


ODD_NAMES = [
    "a.jpg", "sub/b.jpg", "./a.jpg", "sub//b.jpg", "sub/../a.jpg", "sub/b.jpg/", "sub", "missing.jpg",
    "sub\\b.jpg", "/a.jpg", "..", "../outside.jpg", "out.jpg", "out/outside.jpg", "within/b.jpg",
    "within.jpg", "C:a.jpg", "odd:name.jpg", "odd\\name.jpg", "", ".hidden.jpg", "sub\\..\\a.jpg", "a\n.jpg",
    "{root}/a.jpg", "{root}/sub/b.jpg", "x" * 300,
]  # fmt: skip


@pytest.mark.parametrize("name", ODD_NAMES)
def test_listing_folders_finds_what_looking_for_each_file_finds(tmp_path, name, monkeypatch):
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    for file in ("a.jpg", "sub/b.jpg", "odd:name.jpg", "odd\\name.jpg", ".hidden.jpg", "C:a.jpg", "a\n.jpg"):
        (root / file).touch()
    (tmp_path / "outside.jpg").touch()
    for link, target in {
        "out.jpg": "../outside.jpg", "out": "..", "within": "sub", "within.jpg": "sub/b.jpg"
    }.items():  # fmt: skip
        (root / link).symlink_to(target)
    monkeypatch.chdir(tmp_path)
    found = []
    for many in (1, 100):
        monkeypatch.setattr("spml.data.files.MANY", many)
        try:
            found.append(locate_names(root, [[name.format(root=root)], ["a.jpg"]], "row {}".format, "skip"))
        except InputError as error:
            found.append(str(error))
    assert found[0] == found[1]


# -- listing ---------------------------------------------------------------------------------------------


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
