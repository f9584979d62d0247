"""PASCAL VOC folders: objects, `difficult`, splits, and hostile XML."""

from __future__ import annotations

import math
import os

import pytest

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import open_dataset
from tests.helpers.records import opened, sizes_of


def thing(name, box=(1, 1, 10, 10), **more):
    """One object; `box` is xmin, ymin, xmax, ymax."""
    corners = "".join(
        f"<{key}>{value}</{key}>"
        for key, value in zip(("xmin", "ymin", "xmax", "ymax"), box or (), strict=False)
    )
    rest = "".join(f"<{key}>{value}</{key}>" for key, value in more.items())
    return f"<object><name>{name}</name>{rest}{f'<bndbox>{corners}</bndbox>' if box else ''}</object>"


def annotation(*things, size=(20, 10), filename=""):
    shape = f"<size><width>{size[0]}</width><height>{size[1]}</height><depth>3</depth></size>" if size else ""
    return f"<annotation><filename>{filename}</filename>{shape}{''.join(things)}</annotation>"


@pytest.fixture
def devkit(tmp_path, picture):
    """Write annotations by name, an image for each, and lists of splits."""

    def make(annotations, lists=None, suffix=".jpg"):
        (tmp_path / "Annotations").mkdir(exist_ok=True)
        (tmp_path / "JPEGImages").mkdir(exist_ok=True)
        for name, content in annotations.items():
            data = content if isinstance(content, bytes) else content.encode()
            (tmp_path / "Annotations" / f"{name}.xml").write_bytes(data)
            if suffix:
                picture(f"JPEGImages/{name}{suffix}")
        for name, lines in (lists or {}).items():
            path = tmp_path / "ImageSets" / "Main" / f"{name}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(lines))
        return tmp_path

    return make


THREE = {
    "2008_2": annotation(thing("dog"), thing("cat", difficult=1), thing("dog", difficult=1)),
    "2008_1": annotation(thing(" cat ", difficult=0), thing("person", parts="<name>head</name>")),
    "2008_3": annotation(),
}


def test_labels(devkit):
    records = opened(devkit(THREE))
    assert records.classes == ("cat", "dog", "person")
    assert records.ids == ("2008_1.jpg", "2008_2.jpg", "2008_3.jpg")
    assert records.labels.to_ternary().tolist() == [[1, 0, 1], [0, 1, 0], [0, 0, 0]]
    assert records.split is None
    assert records.notes[0].endswith("was read as a PASCAL VOC folder.")
    assert records.notes[1].startswith("3 images in ")
    assert "5 objects, 2 of them difficult" in records.notes[1]
    records = opened(devkit(THREE), unlisted="negative")
    assert records.labels.to_ternary().tolist() == [[1, -1, 1], [0, 1, -1], [-1, -1, -1]]


def test_boxes(devkit):
    things = [
        thing("cat", (1, 1, 20, 10)),
        thing("dog", (11, 6, 20, 10)),
        thing("dog", (5.5, "1", 200, 10.0)),
    ]
    path = devkit(
        {
            "a": annotation(*things, thing("cat", difficult=1), thing("cow", box=None)),
            "b": annotation(thing("cat"), size=None),
            "c": annotation(thing("cat"), size=(0, 0)),
            "d": annotation(thing("cat"), size=(-20, 10)),
        }
    )
    objects = opened(path).objects
    assert objects.row.tolist() == [0, 0, 0]
    assert objects.column.tolist() == [0, 2, 2]
    assert objects.area.tolist() == pytest.approx([1, 0.25, 15.5 / 20])
    half = math.hypot(20, 10) / 2
    assert objects.distance.tolist() == pytest.approx([0, 0.5, 2.25 / half])
    bare = opened(devkit({name: annotation(thing("cat", box=None)) for name in "abcd"}))
    assert bare.objects is None
    assert not any("usable" in note for note in bare.notes)


@pytest.mark.parametrize(
    "box", [(5, 5, 4, 9), (5, 5, 9), (5, 5, "x", 9), (5, 5, "nan", 9), (5, 5, "inf", 9), (1, 9, 5, 5)]
)
def test_labels_of_objects_without_usable_box_are_used(devkit, box):
    path = devkit({"a": annotation(thing("cat", box), thing("dog"), thing("cow", box=None))})
    records = opened(path)
    assert records.labels.to_names(records.classes) == [["cat", "cow", "dog"]]
    assert records.objects.column.tolist() == [2]
    assert records.notes[-1] == "2 objects without a usable box: labels are used, boxes are not."
    records = opened(devkit({"a": annotation(thing("cat", box))}))
    assert records.objects is None
    assert records.notes[-1] == "1 object without a usable box: labels are used, boxes are not."


def test_difficult_that_is_not_specified(devkit):
    things = thing("cat", difficult="Unspecified"), thing("dog", difficult=""), thing("cow", difficult="1")
    records = opened(devkit({"a": annotation(*things)}), unlisted="negative")
    assert records.labels.to_ternary().tolist() == [[1, 0, 1]]
    assert "3 objects, 1 of them difficult" in records.notes[1]


def test_splits(devkit):
    path = devkit(THREE, {"train": ["2008_1", "", "2008_2 "], "trainval": ["2008_1", "2008_2"], "val": []})
    records = opened(path)
    assert records.ids == ("2008_1.jpg", "2008_2.jpg")
    assert records.split == ("train", "train")
    assert "1 annotated image in no list of ImageSets/Main: left out." in records.notes
    path = devkit(THREE, {"train": ["2008_2", "2008_1"], "val": ["2008_3"], "cat_train": ["2008_1 -1"]})
    assert opened(path).split == ("train", "train", "val")
    data = open_dataset(DataConfig(path=str(path), unlisted="negative"), size=8)
    assert sizes_of(data) == {"train": 2, "val": 1}
    path = devkit(THREE, {"train": ["2008_2"], "val": [], "test": ["2008_3", "2008_1"]})
    assert opened(path).split == ("test", "train", "test")


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ({"train": ["2008_1"], "val": ["2008_1"]}, r"val\.txt: line 1: '2008_1' is also in train\.txt"),
        ({"train": ["2008_1", "2008_9"]}, r"train\.txt: line 2: there is no Annotations/2008_9\.xml"),
        ({"train": ["2008_1 1"]}, r"there is no Annotations/2008_1 1\.xml\. Expected one name per line"),
        ({"train": ["../x"]}, r"train\.txt: line 1: there is no Annotations/\.\./x\.xml"),
    ],
)
def test_bad_lists(devkit, lists, message):
    with pytest.raises(InputError, match=message):
        opened(devkit(THREE, lists))


@pytest.mark.parametrize(
    ("filename", "message"),
    [
        ("", r"c\.xml: there is no file 'c\.jpg' in .*JPEGImages"),
        ("x.png", r"c\.xml: there is no file 'c\.jpg'"),
        ("a.jpg", r"c\.xml: names 'a\.jpg', which .*a\.xml names, too"),
        ("../secret.png", r"c\.xml: '\.\./secret\.png' lies outside the folder .*JPEGImages"),
        ("link.jpg", r"c\.xml: .*is a link to .*secret\.png', outside"),
    ],
)
def test_images_that_are_not_there(devkit, picture, tmp_path, filename, message):
    devkit({"a": annotation(thing("cat"))})
    path = devkit({"c": annotation(thing("dog"), filename=filename)}, suffix="")
    (tmp_path / "JPEGImages" / "link.jpg").symlink_to(picture("secret.png"))
    with pytest.raises(InputError, match=message):
        opened(path)


def test_missing_folders(devkit, tmp_path):
    path = devkit({"a": annotation(thing("cat")), "b": annotation(thing("dog"))})
    (tmp_path / "JPEGImages").rename(tmp_path / "images")
    with pytest.raises(InputError, match=r"there is no file 'a\.jpg' in .*/JPEGImages.* pass data\.images"):
        opened(path)
    (tmp_path / "Annotations" / "b.xml").unlink()
    os.mkfifo(tmp_path / "Annotations" / "b.xml")
    with pytest.raises(InputError, match=r"b\.xml: is not a file"):
        opened(path, images=str(tmp_path / "images"))


def test_other_files_of_images(devkit, picture, tmp_path):
    path = devkit({"a": annotation(thing("cat")), "b": annotation(thing("dog"))}, suffix=".PNG")
    assert opened(path).ids == ("a.PNG", "b.PNG")
    devkit({"c": annotation(thing("dog"), filename="other name.bmp")}, suffix="")
    picture("JPEGImages/other name.bmp")
    picture("elsewhere/a.png"), picture("elsewhere/b.png"), picture("elsewhere/c.jpg")
    assert opened(path).ids == ("a.PNG", "b.PNG", "other name.bmp")
    assert opened(path, images=str(tmp_path / "elsewhere")).ids == ("a.png", "b.png", "c.jpg")
    (tmp_path / "Annotations" / "._a.xml").write_bytes(b"\0")
    assert len(opened(path).ids) == 3


def test_the_folder_above(devkit, tmp_path):
    devkit(THREE)
    inner = tmp_path / "above" / "inner"
    inner.mkdir(parents=True)
    for name in ("Annotations", "JPEGImages"):
        (tmp_path / name).rename(inner / name)
    with pytest.raises(InputError, match=f"holds a PASCAL VOC folder. Did you mean {inner}?"):
        opened(inner.parent)


LAUGHS = (
    b'<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY lol "lol"><!ENTITY lol2 "&lol;&lol;&lol;&lol;">]>'
    b"<annotation><object><name>&lol2;</name></object></annotation>"
)
BAD = [
    ("", r"a\.xml: is not valid XML: no element found"),
    ("<annotation>", r"a\.xml: is not valid XML"),
    ("<a/>", r"a\.xml: its outermost element is <a>, not <annotation>"),
    (LAUGHS, r"a\.xml: has a document type or entities"),
    (b"<!  doctype a><annotation/>", r"a\.xml: is not valid XML"),
    (annotation(thing("&lol;")), r"a\.xml: is not valid XML: undefined entity"),
    (LAUGHS.decode().encode("utf-16"), r"a\.xml: has a document type or entities"),
    (annotation(thing("cat")).encode() + b"\0", r"a\.xml: is not valid XML"),
    (b'<?xml version="1.0" encoding="utf-99"?><annotation/>', r"a\.xml: can't be read: unknown encoding"),
    (b'<?xml version="1.0" encoding="shift_jis"?><annotation/>', r"a\.xml: can't be read: multi-byte"),
    (b'<?xml version="1.0" encoding="cp037"?><annotation/>', r"a\.xml: is not valid XML"),
    (annotation("<object/>"), r"a\.xml: object 1: <name>: the class name '' is empty"),
    (annotation(thing("cat"), thing("a&#10;b")), r"object 2: <name>: the class name 'a\\nb' holds control"),
    (annotation(thing("cat", difficult=2)), r"a\.xml: object 1: <difficult> must be 0 or 1, but is '2'"),
    (annotation(), "no annotation has an object"),
]


@pytest.mark.parametrize(("content", "message"), BAD)
def test_bad_annotations(devkit, content, message):
    with pytest.raises(InputError, match=message) as caught:
        opened(devkit({"a": content}))
    assert "\n" not in str(caught.value)


def test_other_encodings(devkit):
    text = '<?xml version="1.0" encoding="{}"?>' + annotation(thing("bébé"))
    path = devkit({name: text.format(name).encode(name) for name in ("utf-16", "latin-1")})
    assert opened(path).classes == ("bébé",)


def test_a_hundred_thousand_attributes_are_read(devkit):
    attributes = "".join(f' k{number}=""' for number in range(100_000))
    assert opened(devkit({"a": annotation(thing("cat"), f"<a{attributes}/>")})).classes == ("cat",)
