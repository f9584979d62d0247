"""FiftyOne exports: fields, types, splits by tags, and where the images are."""

from __future__ import annotations

import copy
import json
import shutil

import pytest

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import open_dataset
from spml.data.readers import read
from tests.data.hostile.fuzzing import DELETE, set_value


def labels(*names, **more):
    """A field as FiftyOne writes it."""
    entries = [{"_id": {"$oid": "6b03"}, "_cls": "Classification", "tags": [], "label": n} for n in names]
    return {"_cls": "Classifications", "classifications": entries, **more}


def sample(file, *names, **more):
    return {
        "_id": {"$oid": "6b0345bc965fad760440161a"}, "filepath": f"data/{file}", "tags": [],
        "_media_type": "image", "_rand": 0.9995, "ground_truth": labels(*names),
        "created_at": {"$date": "2026-11-22T19:42:52.206Z"}, **more,
    }  # fmt: skip


SAMPLES = [
    sample("b.png", "dog", "cat ", negatives=labels("cow"), predictions=labels("newt"), tags=["train", "x"]),
    sample("a.png", "cat", tags=["Training"], metadata={"_cls": "ImageMetadata", "width": 4}),
    sample("c.png", tags=["validation"]),
    sample("d.png", ground_truth=None, tags=["test"], logits=[float("nan")]),
]


@pytest.fixture
def write(tmp_path, picture):
    """Write an export with its images, and return its folder."""

    def make(samples=None, metadata=None, images="a.png b.png c.png d.png"):
        for image in images.split():
            picture(f"export/data/{image}")
        folder = tmp_path / "export"
        folder.mkdir(exist_ok=True)
        document = {"samples": SAMPLES if samples is None else samples}
        (folder / "samples.json").write_text(json.dumps(document))
        if metadata is not None:
            (folder / "metadata.json").write_text(json.dumps(metadata))
        return folder

    return make


def opened(path, **options):
    return read(DataConfig(path=str(path), **options))


def test_labels(write):
    folder = write(metadata={"version": "1.22.1", "default_classes": ["dog", "newt"], "classes": {}})
    records = opened(folder)
    assert records.name == "export"
    assert records.ids == ("data/b.png", "data/a.png", "data/c.png", "data/d.png")
    assert records.classes == ("dog", "newt", "cat", "cow")
    assert records.classes_given
    known = [[1, 0, 1, -1], [0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert records.labels.to_ternary().tolist() == known
    assert records.split == ("train", "train", "val", "test")
    assert records.notes == (
        "export was read as a FiftyOne dataset.",
        "4 samples with labels in the field 'ground_truth', 1 of them not labelled. Known negatives are in "
        "'negatives'. Ignored: 'predictions'.",
    )
    assert opened(folder / "samples.json").labels == records.labels


def test_classes_of_the_field_come_before_those_of_all_fields(write):
    metadata = {"classes": {"ground_truth": ["cow", "dog", "cat"]}, "default_classes": ["x"]}
    assert opened(write(metadata=metadata)).classes == ("cow", "dog", "cat")
    assert opened(write(metadata={"classes": {"other": ["x"]}})).classes == ("cat", "cow", "dog")
    assert not opened(write(metadata={})).classes_given


def test_a_field_that_is_not_set_says_nothing_and_an_empty_one_that_nothing_applies(write):
    records = opened(write(), unlisted="negative")
    assert records.ids == ("data/b.png", "data/a.png", "data/c.png")
    assert records.labels.to_ternary().tolist() == [[1, -1, 1], [1, -1, -1], [-1, -1, -1]]
    assert records.skipped == (("data/d.png", "no label"),)
    with pytest.raises(InputError, match=r"1 of 4 samples has no label.*d\.png.*data\.unlabelled=skip"):
        opened(write(), unlisted="negative", unlabelled="stop")


def test_a_single_label_per_sample(write):
    single = [
        sample("a.png", ground_truth=None, kind={"_cls": "Classification", "label": "cat"}),
        sample(
            "b.png", ground_truth=None, kind={"_cls": "Classification", "label": "dog", "confidence": 0.5}
        ),
        sample("c.png", ground_truth=None, kind={"_cls": "Classification", "label": None}),
        sample("d.png", ground_truth=None),
    ]
    records = opened(write(single))
    assert records.labels.to_names(records.classes) == [["cat"], ["dog"], [], []]
    assert "in the field 'kind', 2 of them not labelled." in records.notes[1]


def test_the_field_of_the_labels(write):
    several = copy.deepcopy(SAMPLES)
    several[1]["weather"] = labels("sun")
    with pytest.raises(
        InputError,
        match=r"samples\.json: expected one field .* with given labels; "
        r"found 'ground_truth' .*, 'weather' .*pass --data\.label_column FIELD\.",
    ):
        opened(write(several))
    records = opened(write(several), label_column="weather")
    assert records.labels.to_names(records.classes) == [[], ["sun"], [], []]
    assert opened(write(several), label_column="predictions").classes == ("cow", "newt")
    with pytest.raises(
        InputError, match=r"no sample has a field 'wether' of type Classifications or Classif.*weather"
    ):
        opened(write(several), label_column="wether")
    with pytest.raises(InputError, match=r"'wether' of type .* There is none at all\."):
        opened(write([sample("a.png", ground_truth=None)]), label_column="wether")
    boxes = {"_cls": "Detections", "detections": []}
    others = [sample("a.png", ground_truth=None, boxes=boxes, predictions=labels("cat"))]
    with pytest.raises(
        InputError,
        match=r"with given labels; found 'boxes' \(Detections\), 'predictions' \(Classifications\)\.",
    ):
        opened(write(others))
    with pytest.raises(InputError, match="found no labels at all"):
        opened(write([sample("a.png", ground_truth=None)]))


def test_the_negatives_of_a_field_of_that_name(write):
    """With --data.label_column negatives, they are what is learned."""
    records = opened(write(), label_column="negatives")
    assert records.labels.to_names(records.classes) == [["cow"], [], [], []]


def test_groups(write):
    people = ["ann", 3, None, ["x"]]
    folder = write([{**sample, "who": who} for sample, who in zip(SAMPLES, people, strict=True)])
    assert opened(folder, group="who").groups == ("ann", "3", "", "")
    assert opened(folder).groups is None
    with pytest.raises(InputError, match=r"--data\.group by: no sample has a field of this name.*'who'"):
        opened(folder, group="by")


def test_tags_that_are_no_split(write):
    some = copy.deepcopy(SAMPLES)
    some[1]["tags"] = ["sunny"]
    records = opened(write(some))
    assert records.split is None
    note = "Tags are not used as the split, because 1 sample has none of train, val, test."
    assert records.notes[-1] == note
    assert note not in opened(write(some), split="ignore").notes
    for entry in some:
        entry["tags"] = None
    assert opened(write(some)).notes[-1].startswith("4 samples with labels")
    some[2]["tags"] = ["test", "train"]
    with pytest.raises(InputError, match=r"samples\[2\]\.tags: names the splits test and train"):
        opened(write(some))
    assert opened(write(some), split="ignore").split is None


def test_training_on_it(write):
    samples = [sample(f"{name}.png", "cat" if name in "ab" else "dog") for name in "abcd"]
    data = open_dataset(DataConfig(path=str(write(samples))), size=8)
    assert {name: len(part) for name, part in data.splits.items()} == {"train": 3, "val": 1}


# -- where images are --------------------------------------------------------------------------------------


def with_files(*files):
    return [sample("", "cat", filepath=str(file)) for file in files]


def test_absolute_names_below_the_export(write, tmp_path):
    data = tmp_path / "export" / "data"
    records = opened(write(with_files(data / "a.png", "data/b.png", data / "c.png")))
    assert records.ids == ("data/a.png", "data/b.png", "data/c.png")


def test_names_relative_to_another_folder(write, tmp_path):
    folder = write(with_files("a.png", "b.png"))
    with pytest.raises(
        InputError, match=r"samples\[0\]\.filepath: there is no file 'a\.png' in .*--data\.images"
    ):
        opened(folder)
    assert opened(folder, images=str(folder / "data")).ids == ("a.png", "b.png")


def test_absolute_names_elsewhere(write, picture, tmp_path):
    for image in ("photos/a.png", "photos/sub/b.png"):
        picture(image)
    folder = write(with_files(tmp_path / "photos/a.png", tmp_path / "photos/sub/b.png"), images="")
    with pytest.raises(
        InputError, match=rf"the images are in '{tmp_path}/photos', outside .* Pass --data\.images"
    ):
        opened(folder)
    assert opened(folder, images=str(tmp_path / "photos")).ids == ("a.png", "sub/b.png")
    assert opened(folder, images=str(tmp_path)).ids == ("photos/a.png", "photos/sub/b.png")
    (tmp_path / "photos").rename(tmp_path / "moved")
    assert opened(folder, images=str(tmp_path / "moved")).ids == ("a.png", "sub/b.png")


def test_names_of_another_system(write):
    folder = write(with_files("C:\\photos\\a.png", "C:/photos/x\\..\\b.png"))
    with pytest.raises(InputError, match=r"the images are in '/C:/photos'"):
        opened(folder)
    assert opened(folder, images=str(folder / "data")).ids == ("a.png", "b.png")


# -- mistakes ----------------------------------------------------------------------------------------------


def changed(path, value):
    """A valid document in which one value is replaced, or removed by DELETE."""
    content = copy.deepcopy(SAMPLES)
    set_value(content, path, value)
    return content


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ([1], 3, r"samples\[1\]: expected an object, got an integer"),
        ([1, "filepath"], DELETE, r"samples\[1\]: there is no field `filepath`"),
        ([1, "filepath"], 5, r"samples\[1\]\.filepath: expected a string, got an integer"),
        ([1, "filepath"], "data/b.png", r"samples\[1\]\.filepath: names 'b\.png', which .*samples\[0\]\."),
        ([1, "filepath"], "x.png", r"samples\[1\]\.filepath: there is no file 'x\.png' in"),
        ([1, "filepath"], "../a.png", r"samples\[1\]\.filepath: '\.\./a\.png' lies outside"),
        ([1, "filepath"], "/etc/passwd", "the images are in '/etc', outside the folder of the export"),
        ([1, "filepath"], "/etc\0/a.png", "holds a character that no file name has"),
        ([1, "filepath"], "", "the name of a file is empty"),
        ([1, "tags"], "train", r"samples\[1\]\.tags: expected a list, got a string"),
        ([1, "tags"], [1], r"samples\[1\]\.tags\[0\]: expected a string, got an integer"),
        ([1, "ground_truth"], "cat", r"samples\[1\]\.ground_truth: expected an object, got a string"),
        ([1, "ground_truth"], {}, r"samples\[1\]\.ground_truth: there is no field `classifications`"),
        ([1, "ground_truth", "classifications"], {}, r"ground_truth\.classifications: expected a list"),
        ([1, "ground_truth", "classifications", 0], "cat", r"classifications\[0\]: expected an object"),
        ([1, "ground_truth", "classifications", 0, "label"], 1, r"\[0\]\.label: expected a string"),
        ([1, "ground_truth", "classifications", 0, "label"], " ", r"\.label: the class name ' ' is empty"),
        ([1, "ground_truth"], {"_cls": "Classification", "label": []}, r"ground_truth\.label: expected"),
        ([1, "negatives"], labels("cat"), r"samples\[1\]: 'cat' is in both 'ground_truth' and 'negatives'"),
    ],
)  # fmt: skip
def test_bad_values(write, path, value, message):
    with pytest.raises(InputError, match=message) as caught:
        opened(write(changed(path, value)))
    assert "samples.json: " in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_a_field_with_a_name_that_no_message_should_hold(write):
    samples = [sample("a.png", ground_truth=None, **{"x\n\x1b": labels("cat")})]
    assert "'x\\n\\x1b'" in opened(write(samples)).notes[1]
    samples[0]["x\n\x1b"]["classifications"][0]["label"] = 1
    with pytest.raises(InputError, match=r"Did you mean x\\n\\x1b\?"):
        opened(write(samples), label_column="x\\n")
    with pytest.raises(InputError, match=r"samples\[0\]\.x\\n\\x1b\.classifications\[0\]\.label: expected"):
        opened(write(samples))


def test_a_byte_order_mark_and_spaces(write):
    folder = write()
    text = (folder / "samples.json").read_text()
    (folder / "samples.json").write_text("\ufeff\n" + text.replace('{"samples": [', '{ "samples" : [', 1))
    assert len(opened(folder).ids) == 4


@pytest.mark.parametrize("name", ["samples.json", "metadata.json"])
def test_a_link_to_a_file_elsewhere(write, tmp_path, name):
    folder = write(metadata={})
    (folder / name).rename(tmp_path / "elsewhere.json")
    (folder / name).symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(InputError, match=rf"{name}' is a link to '.*elsewhere\.json', outside the folder"):
        opened(folder)


def test_other_mistakes(write, tmp_path):
    with pytest.raises(InputError, match=r"samples: expected a list of length >= 1\."):
        opened(write([]))
    with pytest.raises(InputError, match="'ground_truth': no image has a label"):
        opened(write([sample("a.png")]))
    with pytest.raises(InputError, match=r"metadata\.json: default_classes\[1\]: expected a string"):
        opened(write(metadata={"default_classes": ["a", 1]}))
    with pytest.raises(InputError, match=r"metadata\.json: default_classes\[0\]: the class name '' is empty"):
        opened(write(metadata={"default_classes": [""]}))
    shutil.rmtree(tmp_path / "export" / "data")
    (tmp_path / "export" / "samples.json").write_text('{"other": 1, "samples": 3}')
    with pytest.raises(InputError, match=r"samples: expected a list, got an integer"):
        opened(tmp_path / "export")
    with pytest.raises(InputError, match=r"samples: expected a list, got an integer"):
        opened(tmp_path / "export" / "samples.json")
