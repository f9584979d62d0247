"""Copies of the benchmarks in which files are missing or damaged."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import open_dataset
from spml.data.benchmarks import BENCHMARKS, _numbered, prepare
from tests.data.benchmarks.layouts import LAYOUTS, formatted_nuswide

# -- what is missing -------------------------------------------------------------------------------------

MISSING = [
    ("voc2012", "VOCdevkit/VOC2012/ImageSets/Main/cat_val.txt", "VOCtrainval_11-May-2012.tar"),
    ("voc2012", "VOCdevkit/VOC2012/JPEGImages", "VOCtrainval_11-May-2012.tar"),
    ("coco2014", "annotations/instances_val2014.json", "annotations_trainval2014.zip"),
    ("coco2014", "train2014", "train2014.zip (13.5 GB)"),
    ("nuswide", "ImageList/TestImagelist.txt", "NUS-WIDE.html"),
    ("nuswide", "Groundtruth/TrainTestLabels/Labels_zebra_Test.txt", "NUS-WIDE.html"),
    ("nuswide", "ConceptsList/Concepts81.txt", "NUS-WIDE.html"),
    ("cub200", "CUB_200_2011/attributes/image_attribute_labels.txt", "CUB_200_2011.tgz (1.2 GB)"),
    ("cub200", "attributes.txt", "CUB_200_2011.tgz"),
]


@pytest.mark.parametrize(("name", "file", "source"), MISSING)
def test_the_message_names_what_is_missing_and_where_to_get_it(prepared, tmp_path, name, file, source):
    root = tmp_path / "copy"
    shutil.copytree(prepared[name][0], root)
    (root / f"spml-{name}.json").unlink()
    path = root / file
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(InputError) as caught:
        prepare(name, root)
    message = str(caught.value)
    problem = "is missing." if "." in path.name else "contains none of the"
    assert message.startswith(f"{path}: {problem} ")
    assert source in message
    assert BENCHMARKS[name].page in message
    assert not (root / f"spml-{name}.json").exists()


@pytest.mark.parametrize("name", [*LAYOUTS, "nuswide-merged"])
def test_an_empty_or_missing_root(tmp_path, name):
    with pytest.raises(InputError, match=r"nowhere: no such folder\. Download .* Official page: http"):
        prepare(name, tmp_path / "nowhere")
    with pytest.raises(InputError, match="is missing"):
        prepare(name, tmp_path)
    assert not any(tmp_path.iterdir())
    with pytest.raises(InputError, match=f"no benchmark '{name}x'.*Did you mean {name}"):
        prepare(name + "x", tmp_path)


def test_missing_images(tmp_path, caplog):
    LAYOUTS["voc2012"](tmp_path)
    images = tmp_path / "VOCdevkit/VOC2012/JPEGImages"
    (images / "2008_000003.jpg").unlink()
    caplog.set_level("INFO", "spml")
    path = prepare("voc2012", tmp_path)
    assert "1 of 20 images are missing, such as 2008_000003.jpg" in caplog.text
    data = open_dataset(DataConfig(path=str(path), observe="protocol", max_unreadable=0.1), size=8)
    assert data.skipped == (
        ("VOCdevkit/VOC2012/JPEGImages/2008_000003.jpg", "can't be read: No such file or directory"),
    )
    with pytest.raises(InputError, match="1 of 28 images can't be used"):
        open_dataset(DataConfig(path=str(path), observe="protocol"), size=8)
    for file in images.iterdir():
        file.unlink()
    with pytest.raises(InputError, match=r"none of the 20 images, such as 2008_000000\.jpg\. Download"):
        prepare("voc2012", tmp_path)


# -- damaged files ---------------------------------------------------------------------------------------

LABELS = "CUB_200_2011/attributes/image_attribute_labels.txt"
WRONG = [
    ("voc2012", "VOCdevkit/VOC2012/ImageSets/Main/cat_val.txt", "x 2\n", "line 1 is 'x 2', but must be"),
    ("voc2012", "VOCdevkit/VOC2012/ImageSets/Main/cat_val.txt", b"\xff\xfe", "is not UTF-8: byte 0xff"),
    ("coco2014", "annotations/instances_val2014.json", '{"images": ', "is not valid JSON"),
    ("coco2014", "annotations/instances_val2014.json", '{"x": ' + "[" * 100_000, "nested too deeply"),
    ("coco2014", "annotations/instances_val2014.json", "[1]", "expected an object, got a list"),
    ("coco2014", "annotations/instances_val2014.json", '{"images": 3}',
     "images: expected a list, got an integer"),
    ("coco2014", "annotations/instances_val2014.json",
     '{"categories": [], "images": [], "annotations": [{"image_id": 1, "category_id": 5}]}', "KeyError: 5"),
    ("coco2014", "annotations/instances_val2014.json", '{"categories": [], "images": [], "annotations": []}',
     "is not the official annotation file"),
    ("coco2014", "annotations/instances_val2014.json",
     '{"categories": [{"id": 7, "name": "x"}], "images": [], "annotations": []}',
     "its categories are not those of instances_train2014.json"),
    ("cub200", "CUB_200_2011/train_test_split.txt", "1 2\n",
     "must say 1 .training. or 0 .test. of each of the 28"),
    ("cub200", "CUB_200_2011/images.txt", "1\n", "line 1 is '1', but must be the number 1"),
    ("cub200", "CUB_200_2011/images.txt", "", "is empty"),
    ("cub200", LABELS, "1 1 1 1 1\n", "expected 8,736 lines"),
    ("cub200", LABELS, "1 1 3 1 1\n", "neither 0 nor 1"),
    ("cub200", LABELS, "1 400 1 1 1\n", "in no list"),
    ("cub200", LABELS, "1 1\n", "is not the official file"),
    ("cub200", LABELS, "1 1 1 1 1\n" * 9000, "expected 8,736 lines"),
    ("nuswide", "ImageList/TestImagelist.txt", "a.jpg\n", "must hold 0 or 1 for each of the 1 images"),
    ("nuswide", "ImageList/TestImagelist.txt", "../../x.jpg\n" * 8, "lies outside the folder"),
    ("nuswide", "Groundtruth/TrainTestLabels/Labels_zebra_Test.txt", "2\n" * 8, "must hold 0 or 1"),
    ("nuswide", "ConceptsList/Concepts81.txt", "a\na\n", "must hold distinct names"),
    ("nuswide", "ConceptsList/Concepts81.txt", "../a\n", "must hold distinct names"),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:loadtxt")
@pytest.mark.parametrize(("name", "file", "content", "match"), WRONG)
def test_damaged_files(prepared, tmp_path, name, file, content, match):
    root = tmp_path / "copy"
    shutil.copytree(prepared[name][0], root)
    before = (root / f"spml-{name}.json").read_bytes()
    (root / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=match) as caught:
        prepare(name, root)
    assert "\n" not in str(caught.value)
    assert (root / f"spml-{name}.json").read_bytes() == before


@pytest.mark.parametrize(
    ("file", "array", "match"),
    [
        ("images", np.zeros(20), "must hold file names, but holds float64"),
        ("images", np.array(["a.jpg"] * 3), r"has 20 rows for 3 images"),
        ("images", np.array([{}]), "is not a .npy file, or is incomplete: "),
        ("labels", np.full((20, 4), 0.5), "row 0, column 0: a multi-hot matrix may hold only 0, 1"),
        ("labels", np.zeros((20, 5)), "has 4 columns, but that of training 5"),
        ("labels", np.array(["a"]), "a label matrix must"),
    ],
)
def test_damaged_formatted_lists(prepared, tmp_path, file, array, match):
    shutil.copytree(prepared["nuswide"][0], tmp_path / "copy")
    formatted_nuswide(tmp_path / "copy", prepared["nuswide"][1])
    np.save(tmp_path / f"copy/formatted_train_{file}.npy", array)
    with pytest.raises(InputError, match=match):
        prepare("nuswide", tmp_path / "copy")


def test_an_empty_list(tmp_path):
    formatted_nuswide(tmp_path, LAYOUTS["nuswide"](tmp_path), slice(0, 0))
    with pytest.raises(InputError, match="the official train list of NUS-WIDE is empty"):
        prepare("nuswide", tmp_path)


def test_a_link_out_of_the_root_is_refused(tmp_path):
    LAYOUTS["voc2012"](tmp_path / "root")
    images = tmp_path / "root/VOCdevkit/VOC2012/JPEGImages"
    shutil.move(images / "2008_000004.jpg", tmp_path / "secret.jpg")
    (images / "2008_000004.jpg").symlink_to(tmp_path / "secret.jpg")
    with pytest.raises(InputError, match=r"/root: .*' is a link to .*secret\.jpg', outside the folder"):
        prepare("voc2012", tmp_path / "root")
    (images / "2008_000004.jpg").unlink()
    (images / "2008_000004.jpg").symlink_to(images / "2008_000005.jpg")
    prepare("voc2012", tmp_path / "root")


def test_a_number_of_thousands_of_digits(tmp_path):
    (tmp_path / "images.txt").write_text("1 a.jpg\n" + "9" * 5000 + " b.jpg\n")
    with pytest.raises(InputError, match=r"images\.txt: line 2 is '9999.*must be the number 2"):
        _numbered(tmp_path / "images.txt")
