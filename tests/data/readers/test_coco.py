"""COCO JSON: labels, boxes, where images are, and every way to get a file wrong."""

from __future__ import annotations

import copy
import json
import math
import tracemalloc

import numpy as np
import pytest

from spml.common import documents
from spml.common.documents import load_json, read_outline
from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import open_dataset
from spml.data.readers.coco import KEYS, Document
from tests.helpers.originals import DELETE, set_value
from tests.helpers.records import opened, sizes_of

IMAGES = [
    {"id": 7, "file_name": "a.png", "width": 20, "height": 10},
    {"id": 3, "file_name": "b.png", "width": 20, "height": 10},
    {"id": 5, "file_name": "c.png", "width": 20, "height": 10},
]
CATEGORIES = [{"id": 9, "name": "dog "}, {"id": 2, "name": "cat"}, {"id": 4, "name": "bird"}]
ANNOTATIONS = [
    {"id": 1, "image_id": 3, "category_id": 2, "bbox": [0, 0, 10, 5], "iscrowd": 0},
    {"id": 2, "image_id": 7, "category_id": 9, "bbox": [15, 0, 10, 10], "segmentation": [[1, 2, 3, 4]]},
    {"id": 3, "image_id": 3, "category_id": 2, "bbox": [5.0, 2.5, 10, 5], "iscrowd": 1},
    {"id": 4, "image_id": 3, "category_id": 4, "bbox": [-5, -5, 2, 2]},
]


def document(**changes):
    full = {"images": IMAGES, "categories": CATEGORIES, "annotations": ANNOTATIONS, "info": {}}
    return copy.deepcopy({**full, **changes})


@pytest.fixture
def write(folder_of):
    """Function that writes a document, and images without their suffix .png below the same folder."""

    def make(content=None, name="instances_x.json", images="a b c"):
        files = " ".join(f"{image}.png" for image in images.split())
        return folder_of(files, {name: json.dumps(document() if content is None else content)}) / name

    return make


def test_labels_and_order(write):
    records = opened(write())
    assert records.classes == ("dog", "cat", "bird")
    assert records.classes_given
    assert records.ids == ("a.png", "b.png", "c.png")
    assert [path.name for path in records.inputs] == ["a.png", "b.png", "c.png"]
    assert records.labels.to_ternary().tolist() == [[1, 0, 0], [0, 1, 1], [0, 0, 0]]
    assert records.split is None
    assert records.name == "x"
    assert records.notes == (
        "instances_x.json was read as COCO JSON.",
        f"3 images in {records.inputs[0].parent}, 3 categories.",
        "1 image has no annotation.",
    )
    full = opened(write(), unlisted="negative")
    assert full.labels.to_ternary().tolist() == [[1, -1, -1], [-1, 1, 1], [-1, -1, -1]]
    assert full.labels.full


def test_boxes_are_clipped_and_measured(write):
    objects = opened(write()).objects
    assert objects.row.tolist() == [1, 0, 1, 1]
    assert objects.column.tolist() == [1, 0, 1, 2]
    assert objects.area.tolist() == [0.25, 0.25, 0.25, 0.0]
    half = math.hypot(20, 10) / 2
    expected = [math.hypot(5, 2.5) / half, 7.5 / half, 0.0, 1.0]
    assert objects.distance.tolist() == pytest.approx(expected)


def test_annotations_without_box(write):
    content = document()
    del content["annotations"][1]["bbox"]
    content["annotations"][2]["bbox"] = None
    objects = opened(write(content)).objects
    assert (objects.row.tolist(), objects.column.tolist()) == ([1, 1], [1, 2])
    assert objects.area.tolist() == [0.25, 0.0]
    for annotation in content["annotations"]:
        annotation.pop("bbox", None)
    records = opened(write(content))
    assert records.objects is None
    assert not any("usable" in note for note in records.notes)


@pytest.mark.parametrize(
    "box",
    [[], [1, 2, 3], [1, 2, 3, 4, 5], {}, 5, "1234", [1, 2, None, 4], [1, 2, [3], 4], [1, 2, "3", 4],
     [1, 2, math.nan, 4], [math.inf, 2, 3, 4], [10, 2, -3, 4], [1, 10, 3, -4]],
)  # fmt: skip
def test_labels_of_annotations_without_usable_box_are_used(write, box):
    content = document()
    content["annotations"][0]["bbox"] = box
    records = opened(write(content))
    assert records.labels.to_ternary().tolist() == [[1, 0, 0], [0, 1, 1], [0, 0, 0]]
    assert records.objects.row.tolist() == [0, 1, 1]
    assert records.notes[2] == "1 annotation without a usable box: labels are used, boxes are not."
    del content["annotations"][1]["bbox"]
    assert "2 annotations without a usable box: labels are used, b" in " ".join(opened(write(content)).notes)
    for annotation in content["annotations"]:
        annotation["bbox"] = box
    path = write(content)
    assert opened(path).objects is None
    assert "4 annotations without a usable box: labels are used, boxes are not." in opened(path).notes


@pytest.mark.parametrize("size", [None, 0, -1, math.nan, "20", [], True, 1 << 64])
def test_boxes_in_images_of_a_wrong_size_are_not_measured(write, size):
    content = document()
    content["images"][1]["width"] = size
    records = opened(write(content))
    assert records.objects.area.tolist() == pytest.approx([0, 0.25, 0, 0] if size == 1 << 64 else [0.25])
    assert not any("usable" in note for note in records.notes)


def test_categories_of_the_same_name_are_one_class(write):
    content = document(categories=[*CATEGORIES, {"id": 5, "name": " cat"}])
    content["annotations"][1]["category_id"] = 5
    content["images"][2]["neg_category_ids"] = [5]
    records = opened(write(content))
    assert records.classes == ("dog", "cat", "bird")
    assert records.labels.to_ternary().tolist() == [[0, 1, 0], [0, 1, 1], [0, -1, 0]]
    assert records.objects.column.tolist() == [1, 1, 1, 2]
    assert records.notes[2] == "The categories 2 and 5 have the same name 'cat': one class."
    content["images"][1]["neg_category_ids"] = [5]
    with pytest.raises(InputError, match=r"images\[1\]: 'cat' is in neg_category_ids"):
        opened(write(content))


def grouped(*unused):
    """A document whose categories have the supercategories that Roboflow writes."""
    return [
        {"id": 0, "name": "animals", "supercategory": "none"},
        *({**category, "supercategory": "animals"} for category in CATEGORIES),
        *unused,
    ]


def test_a_category_that_only_groups_others_is_no_class(write):
    content = document(categories=grouped({"id": 8, "name": "cow", "supercategory": "cow"}))
    content["images"][2]["neg_category_ids"] = [4]
    records = opened(write(content))
    assert records.classes == ("dog", "cat", "bird", "cow")
    assert records.labels.to_ternary().tolist() == [[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, -1, 0]]
    assert records.objects.column.tolist() == [1, 0, 1, 2]
    assert "'animals' is a supercategory of others without annotations: left out." in records.notes
    content["annotations"][0]["category_id"] = 0
    assert opened(write(content)).classes == ("animals", "dog", "cat", "bird", "cow")
    del content["annotations"][0]
    content["images"][0]["neg_category_ids"] = [0]
    assert opened(write(content)).classes == ("animals", "dog", "cat", "bird", "cow")


@pytest.mark.parametrize(("one", "other"), [(["y"], ""), ({}, ""), (5, ""), ("y", "x")])
def test_supercategories_that_group_nothing(write, one, other):
    """They are no names, or each category is that of the other."""
    categories = [
        {"id": 1, "name": "x", "supercategory": one},
        {"id": 2, "name": "y", "supercategory": other},
    ]
    assert opened(write(document(categories=categories, annotations=[]))).classes == ("x", "y")


def test_a_group_that_one_split_uses_is_a_class(write, tmp_path):
    for number, part in enumerate(("train", "val")):
        images = [{"id": 1, "file_name": f"{'ab'[number]}.png"}]
        annotations = [{"image_id": 1, "category_id": category} for category in (2, 0)[: number + 1]]
        content = document(images=images, annotations=annotations, categories=grouped())
        write(content, f"annotations/instances_{part}.json")
    assert opened(tmp_path).classes == ("animals", "dog", "cat", "bird")
    content["annotations"].pop()
    write(content, "annotations/instances_val.json")
    records = opened(tmp_path)
    assert records.classes == ("dog", "cat", "bird")
    assert records.labels.to_ternary().tolist() == [[0, 1, 0], [0, 1, 0]]


@pytest.mark.parametrize("path", ["x.json", "./x.json", "../here/x.json", "{}/here/x.json"])
def test_a_file_in_the_current_folder(write, picture, tmp_path, monkeypatch, path):
    write(name="here/x.json", images="here/a here/b here/c")
    monkeypatch.chdir(tmp_path / "here")
    records = opened(path.format(tmp_path))
    assert records.ids == ("a.png", "b.png", "c.png")
    assert all(file.is_file() for file in records.inputs)
    for image in "abc":
        (tmp_path / f"here/{image}.png").rename(tmp_path / f"{image}.png")
    (tmp_path / "here").rename(tmp_path / "annotations")
    records = opened(path.format(tmp_path).replace("/here/", "/annotations/"))
    assert records.ids == ("a.png", "b.png", "c.png")
    assert all(file.is_file() for file in records.inputs)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "annotations/x.json").rename(tmp_path / "annotations/instances_x.json")
    assert opened(".").ids == ("a.png", "b.png", "c.png")


def test_names_that_lead_back_to_the_folder(write, picture, monkeypatch, tmp_path):
    content = document()
    content["images"][1]["file_name"] = "..\\label\\b.png"
    content["images"][2]["file_name"] = "../../label/x/../../label/c.png"
    path = write(content, "label/x.json", "label/a label/b")
    with pytest.raises(InputError, match=r"images\[2\]: '\.\./\.\./label/x/.*lies outside the folder"):
        opened(path)
    content["images"][2]["file_name"] = "../label/x/../c.png"
    picture("label/c.png")
    path = write(content, "label/x.json", "")
    assert opened(path).ids == ("a.png", "b.png", "c.png")
    monkeypatch.chdir(tmp_path / "label")
    assert opened("x.json").ids == ("a.png", "b.png", "c.png")


@pytest.mark.parametrize(
    ("name", "images"),
    [
        ("x.json", "images/{}"),
        ("annotations/x.json", "images/{}"),
        ("annotations/instances_val2017.json", "val2017/{}"),
        ("annotations/instances_val2017.json", "images/val2017/{}"),
        ("annotations/instances_val2017.json", "val/{}"),
        ("annotations/instances_x.json", "x/{}"),
        ("annotations/x.json", "{}"),
    ],
)
def test_where_images_are(write, name, images):
    records = opened(write(name=name, images=" ".join(map(images.format, "abc"))))
    assert records.ids == ("a.png", "b.png", "c.png")
    assert all(path.is_file() for path in records.inputs)


HERE, ELSEWHERE = {"images": "{}/img"}, {"images": "nowhere"}


@pytest.mark.parametrize(
    ("name", "images", "first", "options", "message"),
    [
        ("other/x.json", "a b c", "a.png", {}, r"images\[0\]: there is no file 'a\.png' in .*/other \(3 of 3 "
         r".* holds 'x\.json'\."),
        ("x.json", "a b c", "a.png", ELSEWHERE, r"data\.images: 'nowhere' is not a folder"),
        ("annotations/x.json", "img/a", "C:\\Users\\me\\a.png", HERE,
         r"images\[0\]: 'C:.*/img\. It is a path on another machine"),
        ("annotations/x.json", "images/a", "C:\\Users\\me\\a.png", {},
         r"images\[0\]: 'C:.* lies outside the folder .*/"),
    ],
)  # fmt: skip
def test_images_that_are_not_there(write, tmp_path, name, images, first, options, message):
    content = document()
    content["images"][0]["file_name"] = first
    path = write(content, name, images)
    with pytest.raises(InputError, match=message):
        opened(path, **{key: value.format(tmp_path) for key, value in options.items()})


def test_huge_boxes_stay_finite(write):
    content = document()
    content["annotations"][0]["bbox"] = [1e308, -1e308, 1e308, 1.7e308]
    content["images"][1].update(width=1e308, height=1.7e308)
    objects = opened(write(content)).objects
    assert objects.area[0] == 0
    assert objects.distance[0] == pytest.approx(math.hypot(0.5, 0.5) / math.hypot(0.5, 0.85))
    assert np.isfinite(objects.distance).all()


def test_negative_and_not_exhaustive_categories(write):
    content = document()
    content["images"][0].update(neg_category_ids=[4], not_exhaustive_category_ids=[2, 9])
    content["images"][2].update(neg_category_ids=[9, 9], not_exhaustive_category_ids=None)
    records = opened(write(content))
    assert records.labels.to_ternary().tolist() == [[1, 0, -1], [0, 1, 1], [-1, 0, 0]]
    assert records.notes[2:4] == (
        "neg_category_ids are known negatives.",
        "not_exhaustive_category_ids without an annotation stay unknown.",
    )
    records = opened(write(content), unlisted="negative")
    assert records.labels.to_ternary().tolist() == [[1, 0, -1], [-1, 1, 1], [-1, -1, -1]]
    assert not records.labels.full


def test_names_of_lvis(tmp_path, picture):
    content = document()
    for image, name in zip(content["images"], ("train2017/1", "val2017/2", "val2017/3"), strict=True):
        del image["file_name"]
        image["coco_url"] = f"http://images.cocodataset.org/{name}.png"
        picture(f"coco/{name}.png")
    path = tmp_path / "lvis.json"
    path.write_text(json.dumps(content))
    records = opened(path, images=str(tmp_path / "coco"))
    assert records.ids == ("train2017/1.png", "val2017/2.png", "val2017/3.png")


def test_folder_with_splits(write, picture, tmp_path):
    for part, name in (("train2017", "1"), ("train2017", "2"), ("val2017", "1"), ("test", "9")):
        picture(f"images/{part}/{name}.png")
    parts = {"train2017": ["1", "2"], "val2017": ["1"], "test": ["9"]}
    for part, names in parts.items():
        images = [
            {"id": row, "file_name": f"{name}.png", "width": 10, "height": 10}
            for row, name in enumerate(names)
        ]
        annotations = [
            {"image_id": row, "category_id": (9, 2)[row], "bbox": [0, 0, 1, 2 + 2 * row]}
            for row in range(len(names))
        ]
        if part == "test":
            del annotations[0]["bbox"]
        write(document(images=images, annotations=annotations), f"annotations/instances_{part}.json", "")
    records = opened(tmp_path)
    assert records.notes[0] == f"{tmp_path.name} was read as a folder with COCO annotations."
    assert records.name == tmp_path.name
    assert dict(zip(records.ids, records.split, strict=True)) == {
        "images/test/9.png": "test",
        "images/train2017/1.png": "train",
        "images/train2017/2.png": "train",
        "images/val2017/1.png": "val",
    }
    assert records.labels.to_ternary().tolist() == [[1, 0, 0], [1, 0, 0], [0, 1, 0], [1, 0, 0]]
    assert (records.objects.row.tolist(), records.objects.column.tolist()) == ([1, 2, 3], [0, 1, 0])
    assert records.objects.area.tolist() == pytest.approx([0.02, 0.04, 0.02])
    assert sizes_of(open_dataset(DataConfig(path=str(tmp_path)), size=8)) == {"train": 2, "val": 1, "test": 1}
    stated = opened(tmp_path, images=str(tmp_path / "images"))
    assert stated.ids[0] == "test/9.png"
    (tmp_path / "annotations" / "instances_minival.json").write_text("{}")
    with pytest.raises(InputError, match=r"instances_minival\.json is not named after a split"):
        opened(tmp_path)


def test_folder_with_one_file(write, tmp_path):
    write(name="annotations/instances_all.json")
    assert (opened(tmp_path).split, opened(tmp_path).ids) == (None, ("a.png", "b.png", "c.png"))


def test_folder_whose_files_list_categories_in_another_order(write, tmp_path):
    write(document(images=IMAGES[:2]), "annotations/instances_train.json")
    cat = [{"image_id": 5, "category_id": 2}]
    content = document(images=IMAGES[2:], categories=CATEGORIES[::-1], annotations=cat)
    records = opened(write(content, "annotations/instances_val.json").parent.parent, unlisted="negative")
    assert records.classes == ("dog", "cat", "bird")
    assert records.labels.to_ternary().tolist() == [[1, -1, -1], [-1, 1, 1], [-1, 1, -1]]


def test_folder_whose_files_do_not_fit(write, tmp_path):
    write(name="annotations/instances_train.json")
    write(document(categories=CATEGORIES[:2], annotations=[]), "annotations/instances_val.json")
    with pytest.raises(InputError, match=r"val\.json: its categories are not .* only one of them has 'bird'"):
        opened(tmp_path)
    write(document(images=IMAGES[1:], annotations=[]), "annotations/instances_val.json")
    with pytest.raises(InputError, match=r"'b\.png' .* with different splits, 'train' and 'val'\. A s"):
        opened(tmp_path)


BAD = [
    (["images"], {}, r": images: expected a list, got an object"),
    (["images"], [], r": images is empty"),
    (["categories"], [], r": categories is empty"),
    (["annotations"], None, r": annotations: expected a list, got null"),
    (["images", 1, "id"], DELETE, r"images\[1\]: there is no field `id`"),
    (["images", 1, "id"], True, r"images\[1\]\.id: expected an integer or a string, got true or false"),
    (["images", 1, "id"], 7, r"images\[1\]\.id: 7 is also the id of .*images\[0\]\."),
    (["images", 1, "file_name"], DELETE, r"images\[1\]: there is no field `file_name`"),
    (["images", 1, "file_name"], "a.png", r"images\[1\]: names 'a\.png', which .*images\[0\] names, too"),
    (["images", 1, "file_name"], "./a.png", r"images\[1\]: names 'a\.png', which"),
    (["images", 1, "file_name"], "x.png", r"images\[1\]: there is no file 'x\.png' in"),
    (["images", 0, "file_name"], "x.png", r"images\[0\]: there is no file 'x\.png' in .*data\.images"),
    (["images", 1, "file_name"], "../a.png", r"images\[1\]: '\.\./a\.png' lies outside .*data\.images"),
    (["images", 1, "neg_category_ids"], [9, 8], r"neg_category_ids\[1\]: there is no category with the id 8"),
    (["images", 1, "neg_category_ids"], [9, 2], r"images\[1\]: 'cat' is in neg_category_ids.*an annotation"),
    (["categories", 1, "name"], " ", r"categories\[1\]\.name: the class name ' ' is empty"),
    (["categories", 1, "name"], "a\nb", r"categories\[1\]\.name: the class name 'a\\nb' holds control"),
    (["categories", 1, "id"], 9, r"categories\[1\]\.id: 9 is also the id of .*categories\[0\]\."),
    (["annotations", 2, "image_id"], "3", r"annotations\[2\]\.image_id: there is no image with the id '3'"),
    (["images", 2], {**IMAGES[2], "neg_category_ids": [9], "not_exhaustive_category_ids": [9]},
     r"images\[2\]: 'dog' is in neg_category_ids.*not_exhaustive_category_ids"),
    (["images"], [{**IMAGES[0], "neg_category_ids": [4, 2]}, IMAGES[1],
                  {**IMAGES[2], "neg_category_ids": [4, 8]}],
     r"images\[2\]\.neg_category_ids\[1\]: there is no category .* 8\."),
    (["annotations", 2, "category_id"], 17, r"annotations\[2\]\.category_id: there is no category .* 17"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "message"), BAD)
def test_bad_values(write, path, value, message):
    content = document()
    set_value(content, path, value)
    with pytest.raises(InputError, match=message) as caught:
        opened(write(content))
    assert "instances_x.json" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not valid JSON: Expecting value at line 1, column 1"),
        (b'{"images":\n [}', "is not valid JSON: .* at line 2, column 3"),
        (b"\xff\xfe{", "is not UTF-8: byte 0xff at position 0"),
        (b"3", "not a known kind of JSON; found 3. Known are COCO"),
        (b"[]", "not a known kind of JSON; found a list"),
        (b"{}", "not a known kind of JSON; found the keys none"),
        (b'{"images": [], "annotation": []}', "found the keys 'images', 'annotation'. Known are COCO"),
        (b'{"a":' * 500_000, "nested too deeply"),
        (b'[{"data": {}}, ' + b"[" * 500_000, "nested too deeply|expected an object, got a list"),
        (b'{"images": ' + b"9" * 5000 + b"}", "found the keys 'images'"),
        (b"9" * 5000, "is not valid JSON|out of range|of a known kind"),
        (b'{"' + b"a" * 1_000_000 + b'": 1}', "found the keys 'aaa"),
        (b'{"images": [], "images": NaN, "categories": [], "annotations": []}', "images: expected a list"),
        (b'{"images": [], "annotations": [{"x": "\xff"}], "categories": []}', "is not UTF-8: byte 0xff"),
        (b'{"images": [{"id": 1, "file_name": "a', "is not valid JSON: Unterminated string"),
    ],
)
def test_other_files(tmp_path, content, message):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=message) as caught:
            opened(path)
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()
    assert len(str(caught.value)) < 1000


def test_bom_and_size(write, monkeypatch):
    path = write()
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert len(opened(path).ids) == 3
    monkeypatch.setattr(documents, "MAX_BYTES", 100)
    with pytest.raises(InputError, match=r"bytes, more than the limit of 100"):
        opened(path)


@pytest.mark.parametrize("area", [1.5, math.nan])  # NaN, as Python writes it, needs the standard library
def test_masks_are_not_kept(write, area):
    content = document()
    content["annotations"] *= 40
    for annotation in content["annotations"]:
        annotation["segmentation"] = [[0.5] * 2000]
    content["annotations"][0]["area"] = area
    path = write(content)
    size = path.stat().st_size
    tracemalloc.start()
    assert len(load_json(path, Document).annotations) == 160
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * size


def test_fields_that_are_not_read_may_hold_anything(write):
    content = document()
    content["annotations"][0].update(score=math.nan, area="large", attributes={"id": [None]})
    content["images"][0]["date_captured"] = 10**30
    assert opened(write(content)).labels == opened(write()).labels


def test_recognising_reads_keys_only(write, tmp_path):
    outline = read_outline(write())
    assert (outline.kind, {*KEYS} <= {*outline.keys}) == ("an object", True)
    path = tmp_path / "tasks.json"
    path.write_text(' [ {"data": {"x": NaN}, "annotations": []}, 3, what is this')
    assert read_outline(path) == ("a list", ("data", "annotations"))
    path.write_text('{"a": NaN, "b": {"c": 1}}')
    assert read_outline(path) == ("an object", ("a", "b"))


@pytest.mark.shared
def test_coco128(shared):
    folder = shared / "data/images/coco128"
    records = opened(folder / "annotations/instances_train2017.json", unlisted="negative")
    assert len(records.ids) == 128
    assert len(records.classes) == 80
    assert records.classes[:3] == ("person", "bicycle", "car")
    assert records.labels.positives_per_sample().mean() == pytest.approx(2.83, abs=0.005)
    assert records.labels.positives_per_class().max() == 61
    assert "2 images have no annotation." in records.notes
    data = open_dataset(DataConfig(path=str(folder)), size=16)
    assert sizes_of(data) == {"train": 126, "val": 128}
