"""Label Studio exports: choices, regions, several annotators, and where the images are."""

from __future__ import annotations

import copy
import json

import pytest

from spml.common.errors import InputError
from tests.helpers.originals import DELETE, set_value
from tests.helpers.records import opened


def choice(*names):
    return {"type": "choices", "from_name": "c", "to_name": "image", "value": {"choices": list(names)}}


def region(*names):
    value = {"x": 1, "y": 2, "width": 3, "height": 4, "rectanglelabels": list(names)}
    return {"type": "rectanglelabels", "from_name": "r", "to_name": "image", "value": value}


def task(image, *annotations, **more):
    entries = [{"id": 1, "was_cancelled": False, "result": list(results)} for results in annotations]
    return {"id": 1, "data": {"image": image}, "annotations": entries, "predictions": [], **more}


TASKS = [
    task("b.png", [choice("dog", "cat ")], [choice("cow"), region("cat")]),
    task("a.png", [region("cat"), region("cat")]),
    task("c.png", []),
    task("d.png"),
]


@pytest.fixture
def write(folder_of):
    """Function that writes an export, and images in the same folder."""

    def make(tasks=TASKS, images="a.png b.png c.png d.png"):
        return folder_of(images, {"export.json": json.dumps(tasks)}) / "export.json"

    return make


def test_labels(write):
    records = opened(write())
    assert records.ids == ("b.png", "a.png", "c.png", "d.png")
    assert records.classes == ("cat", "cow", "dog")
    assert not records.classes_given
    assert records.labels.to_ternary().tolist() == [[1, 1, 1], [1, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert records.notes == (
        "export.json was read as a Label Studio export.",
        "4 tasks with images in `image`, 1 of them not annotated.",
    )
    records = opened(write(), unlisted="negative")
    assert records.ids == ("b.png", "a.png", "c.png")
    assert records.labels.to_ternary().tolist() == [[1, 1, 1], [1, -1, -1], [-1, -1, -1]]
    assert (
        records.notes[2] == "1 of 4 samples has no label, so that nothing is known about it: d.png; left out."
    )
    assert records.skipped == (("d.png", "no label"),)


def test_what_is_ignored(write):
    tasks = copy.deepcopy(TASKS)
    tasks[0]["annotations"][0]["was_cancelled"] = True
    tasks[1]["predictions"] = [{"result": [choice("dog")]}]
    tasks[1]["annotations"][0]["result"] += [
        {"type": "textarea", "value": {"text": ["x"]}},
        {"type": "rectangle", "value": {}},
        {"type": "textarea", "value": {"text": ["y"]}},
        {"type": "rectanglelabels", "value": {"x": 1}},
    ]
    tasks[2]["annotations"] = None
    records = opened(write(tasks))
    assert records.labels.to_names(records.classes) == [["cat", "cow"], ["cat"], [], []]
    assert records.notes[1:] == (
        "4 tasks with images in `image`, 2 of them not annotated.",
        "Results without labels were ignored: 2 of type 'textarea', 1 of type 'rectangle'.",
    )


def test_taxonomies_and_questions(write):
    taxonomy = {"type": "taxonomy", "from_name": "t", "value": {"taxonomy": [["Animals", "Dog"], ["Sea"]]}}
    records = opened(write([task("a.png", [taxonomy])]))
    assert records.labels.to_names(records.classes) == [["Animals/Dog", "Sea"]]
    questions = [choice("yes"), choice("no") | {"from_name": "beach"}]
    assert opened(write([task("a.png", questions)])).classes == ("no", "yes")
    flat = taxonomy | {"value": {"taxonomy": ["Dog"]}}
    for wrong, message in ((choice("no"), r"\.choices: 'no' is a choice of both"), (flat, r"\.taxonomy")):
        tasks = [task("a.png", questions), task("b.png", [wrong])]
        with pytest.raises(InputError, match=r"\[1\]\.annotations\[0\]\.result\[0\]\.value" + message):
            opened(write(tasks))


@pytest.mark.parametrize(
    ("text", "file"),
    [
        ("x.png", "x.png"),
        ("sub/x.png", "sub/x.png"),
        ("x.png", "images/x.png"),
        ("/data/local-files/?d=set%20one/x.png", "set one/x.png"),
        ("/data/local-files/?d=set/x.png&y=1", "set/x.png"),
        ("http://localhost:8080/data/local-files/?d=x.png", "images/x.png"),
        ("/data/upload/3/1b2c3d4e-x.png", "3/1b2c3d4e-x.png"),
        ("/data/upload/3/1b2c3d4e-x.png", "1b2c3d4e-x.png"),
        ("/data/upload/1b2c3d4e-x.png", "images/1b2c3d4e-x.png"),
        ("/data/upload/3/1b2c3d4e-x.png", "x.png"),
        ("https://label.example.org/data/upload/x%20y.png", "x y.png"),
    ],
)
def test_where_images_are(write, tmp_path, text, file):
    path = write([task(text, [choice("cat")])], images="")
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_bytes(b"")
    records = opened(path)
    assert records.inputs == (tmp_path / file,)
    assert records.ids == (file.removeprefix("images/"),)
    (tmp_path / "store").mkdir()
    (tmp_path / file).rename(tmp_path / "store" / records.ids[0].rpartition("/")[2])
    if "/" not in records.ids[0]:
        assert opened(path, images=str(tmp_path / "store")).ids == records.ids


def test_the_key_of_the_image(write):
    other = task("", [choice("x")], data={"text": "a cat", "photo": "a.PNG"})
    records = opened(write([other], images="a.PNG"))
    assert records.ids == ("a.PNG",)
    assert "1 task with images in `photo`" in records.notes[1]
    other["data"]["second"] = "b.png"
    for data, keys in ((other["data"], "'text', 'photo', 'second'"), ({}, "there is no key")):
        with pytest.raises(InputError, match=rf"\[0\]\.data: ambiguous .* the image: {keys}\. Call"):
            opened(write([{**other, "data": data}]))


FIRST = [0, "annotations", 1, "result", 0]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ([1, "data"], DELETE, r"\[1\]: there is no field `data`"),
        ([1, "data"], {"img": "a.png"}, r"\[1\]\.data: there is no field `image`, which names"),
        ([1, "data", "image"], 5, r"\[1\]\.data\.image: expected a string, got an integer"),
        ([1, "data", "image"], "b.png", r"\[1\]\.data\.image: names 'b\.png', which .*\[0\]\.data\.im"),
        ([1, "data", "image"], "x.png", r"\[1\]\.data\.image: there is no file 'x\.png' in"),
        ([0, "data", "image"], "x.png", r"\[0\]\.data\.image: there is no file 'x\.png' in .*data\.images"),
        ([1, "data", "image"], "../a.png", r"\[1\]\.data\.image: '\.\./a\.png' lies outside"),
        ([1, "data", "image"], "/data/local-files/?d=%2e%2e/a.png", r"'\.\./a\.png' lies outside"),
        ([1, "data", "image"], "/data/local-files/?x=1", "the name of a file is empty"),
        ([1, "data", "image"], "https://x.org/a.png", r"data\.image: 'https://x.org/a.png' is an address"),
        ([1, "data", "image"], "s3://bucket/a.png", "is an address"),
        ([1, "data", "image"], "data:image/png;base64," + "A" * 10_000, "'data:image/png.*' is an address"),
        ([0, "annotations", 1, "result"], None, r"\[0\]\.annotations\[1\]\.result: expected a list"),
        ([*FIRST, "type"], DELETE, r"result\[0\]: there is no field `type`"),
        ([*FIRST, "type"], ["x"], r"result\[0\]\.type: expected a string, got a list"),
        ([*FIRST, "value"], DELETE, r"result\[0\]\.value: expected an object, got null"),
        ([*FIRST, "value"], "\ud800", r"result\[0\].value: '.ud800' is half of a surrogate pair"),
        ([*FIRST, "value", "choices"], ["a", 1], r"\[0\]\.value\.choices\[1\]: expected a string, got an"),
        ([*FIRST, "value", "choices"], [""], r"value\.choices\[0\]: the class name '' is empty"),
    ],
)  # fmt: skip
def test_bad_values(write, path, value, message):
    tasks = copy.deepcopy(TASKS)
    set_value(tasks, path, value)
    with pytest.raises(InputError, match=message) as caught:
        opened(write(tasks))
    assert "export.json: [" in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_nothing_is_labelled(write):
    with pytest.raises(InputError, match="no image has a label"):
        opened(write([task("a.png"), task("b.png", [])]))
