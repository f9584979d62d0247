"""The four benchmarks: miniature copies of their official layouts, prepared, trained, evaluated."""

from __future__ import annotations

import hashlib
import json
import shutil
import tarfile
import zipfile

import numpy as np
import pytest
from tests.data.benchmarks.layouts import LAYOUTS, TEST, TRAIN, formatted_nuswide

import spml
from spml.config import DataConfig
from spml.data import benchmarks, open_dataset
from spml.data.benchmarks import BENCHMARKS, coco2014, common, cub200, prepare, voc2012
from spml.data.benchmarks.download import Archive
from spml.data.hiding.protocol import protocol_observed, protocol_split
from spml.data.readers import read
from spml.errors import InputError
from spml.labels import ObservedLabels

NAMES = tuple(LAYOUTS)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Of each benchmark: its root, what reading it must give, its manifest, what was reported."""
    found = {}
    for name, make in LAYOUTS.items():
        root = tmp_path_factory.mktemp(name)
        expected, told = make(root), []
        found[name] = root, expected, prepare(name, root, report=told.append), told
    return found


def full(columns, classes):
    matrix = np.zeros((len(columns), classes), int)
    for row, chosen in enumerate(columns):
        matrix[row, chosen] = 1
    return ObservedLabels.from_multi_hot(matrix, unlisted="negative")


@pytest.mark.parametrize("name", NAMES)
def test_rows_labels_split_and_observed_labels(prepared, name):
    root, expected, path, _ = prepared[name]
    assert path == root / f"spml-{name}.json"
    records = read(DataConfig(path=str(path)))
    rows = [*expected.train, *expected.test]
    assert records.name == name
    assert records.classes == expected.classes
    assert records.ids == tuple(file for file, _ in rows)
    assert records.inputs == tuple(root / file for file, _ in rows)
    labels = full([columns for _, columns in rows], len(expected.classes))
    assert records.labels == labels
    assert records.labels.full
    train, val = protocol_split(len(expected.train))
    split = np.array(["train"] * len(expected.train) + ["test"] * len(expected.test), dtype="U5")
    split[val] = "val"
    assert records.split == tuple(split)
    assert (split[train] == "train").all()
    count = len(expected.train)
    observed = np.concatenate(
        [protocol_observed(labels.take(part)) for part in (np.arange(count), np.arange(count, len(rows)))]
    )
    ternary = records.protocol.to_ternary()
    for row, column in enumerate(observed):
        assert np.flatnonzero(ternary[row]).tolist() == ([column] if column >= 0 else [])
    assert (ternary >= 0).all()


def test_order_of_rows(prepared):
    """COCO: ids as strings. CUB: images.txt, which differs from the order of names."""
    coco = [int(file[-16:-4]) for file, _ in prepared["coco2014"][1].train]
    assert coco[:5] == [1, 10, 1090, 1297, 145]
    assert coco != sorted(coco)
    cub = [file for file, _ in prepared["cub200"][1].train]
    assert cub != sorted(cub)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_reported(prepared, name):
    _, expected, path, told = prepared[name]
    content = json.loads(path.read_text())
    mean = np.mean([len(columns) for _, columns in expected.train])
    assert content["statistics"]["official_train"] == {
        "images": len(expected.train), "mean_labels": pytest.approx(mean, abs=1e-4)
    }  # fmt: skip
    assert [content["statistics"][part]["images"] for part in ("train", "val", "test")] == [
        len(expected.train) - round(0.2 * len(expected.train)), round(0.2 * len(expected.train)), TEST
    ]  # fmt: skip
    published = BENCHMARKS[name].published
    assert (
        f"{TRAIN} training images instead of {published.train:,}; {TEST} test images instead of" in told[-5]
    )
    assert told[-5] in content["notes"]
    assert told[-1] == f"official_train: {TRAIN} images, {mean:.2f} labels per image"


@pytest.mark.parametrize("name", NAMES)
def test_train_and_evaluate(prepared, name, tmp_path):
    _, expected, path, _ = prepared[name]
    run = spml.train(
        path, method="an", epochs=1, batch_size=8, threads=1, output=str(tmp_path / "run"), quiet=True,
        model={"backbone": "small_cnn"}, data={"observe": "protocol", "size": 32, "workers": 0},
    )  # fmt: skip
    assert run.classes == expected.classes
    summary = json.loads((run.folder / "summary.json").read_text())
    assert summary["selected"]["mode"] == "observed"
    assert {"mAP"} <= set(summary["test"])
    found = run.evaluate(path, workers=0)
    assert (found["samples"], found["labels"]) == (TEST, "full")
    assert found["mAP"] == pytest.approx(summary["test"]["mAP"])
    # As in publications: a class without positives counts as 0.
    assert found["mAP"] == pytest.approx(sum(found["AP"].values()) / len(expected.classes))


def test_observe_protocol_gives_the_labels_of_the_protocol(prepared):
    _, expected, path, _ = prepared["nuswide"]
    data = open_dataset(DataConfig(path=str(path), observe="protocol"), size=8)
    position = {file: row for row, (file, _) in enumerate(expected.train)}
    observed = protocol_observed(full([columns for _, columns in expected.train], 4))
    none = 0
    for name in ("train", "val"):
        samples = data.splits[name]
        for file, row in zip(samples.ids, samples.observed.to_ternary(), strict=True):
            column = observed[position[file]]
            assert np.flatnonzero(row).tolist() == ([column] if column >= 0 else [])
            none += column < 0
    assert none == 1, "the image without a label stays: the protocol fixes who is trained on"
    assert len(data.splits["train"]) == 16
    single = open_dataset(DataConfig(path=str(path), observe="single"), size=8)
    assert len(single.splits["train"]) + len(single.splits["val"]) == TRAIN - 1
    plain = open_dataset(DataConfig(path=str(path)), size=8)
    assert plain.splits["train"].observed.full


def test_preparing_again_gives_the_same_bytes(prepared, tmp_path):
    root, _, path, _ = prepared["voc2012"]
    shutil.copytree(root, tmp_path / "copy")
    (tmp_path / "copy/spml-voc2012.json").unlink()
    assert prepare("voc2012", str(tmp_path / "copy")).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("name", "inner", "folder"),
    [
        ("voc2012", "VOCdevkit", "VOC2012/JPEGImages"),
        ("voc2012", "VOCdevkit/VOC2012", "JPEGImages"),
        ("coco2014", "", "images/train2014"),
        ("cub200", "", "CUB_200_2011/CUB_200_2011/images"),
        ("cub200", "CUB_200_2011", "images"),
    ],
)
def test_other_places_that_people_use(prepared, tmp_path, name, inner, folder):
    shutil.copytree(prepared[name][0], tmp_path / "copy")
    root = tmp_path / "copy" / inner
    if folder == "images/train2014":
        (root / "images").mkdir()
        shutil.move(root / "train2014", root / "images")
        shutil.move(root / "val2014", root / "images")
    if folder.startswith("CUB_200_2011/CUB"):
        shutil.move(root / "CUB_200_2011", root / "inner")
        (root / "CUB_200_2011").mkdir()
        shutil.move(root / "inner", root / "CUB_200_2011/CUB_200_2011")
    if folder == "images":
        shutil.move(root.parent / "attributes.txt", root / "attributes/attributes.txt")
    path = prepare(name, root)
    content = json.loads(path.read_text())
    assert content["parts"]["train"]["folder"] == folder
    original = json.loads(prepared[name][2].read_text())
    assert content["parts"]["train"]["files"] == original["parts"]["train"]["files"]
    assert content["parts"]["test"]["observed"] == original["parts"]["test"]["observed"]


def test_formatted_lists_of_nuswide_come_first(tmp_path):
    expected = LAYOUTS["nuswide"](tmp_path)
    formatted_nuswide(tmp_path, expected, slice(2, None))
    records = read(DataConfig(path=str(prepare("nuswide", tmp_path))))
    assert records.ids == tuple(file for file, _ in [*expected.train[2:], *expected.test[2:]])
    assert records.labels == full([columns for _, columns in [*expected.train[2:], *expected.test[2:]]], 4)
    assert records.classes == expected.classes
    assert "the columns are assumed to be in its order" in " ".join(records.notes)
    shutil.rmtree(tmp_path / "ConceptsList")
    records = read(DataConfig(path=str(prepare("nuswide", tmp_path))))
    assert records.classes == ("0", "1", "2", "3")
    assert "Classes are called 0 to 3" in " ".join(records.notes)
    (tmp_path / "formatted_val_labels.npy").unlink()
    with pytest.raises(InputError, match=r"formatted_val_labels\.npy: is missing\. NUS-WIDE can't be downl"):
        prepare("nuswide", tmp_path, download=True)


def test_images_without_a_certain_object_are_no_sample_of_voc(tmp_path):
    LAYOUTS["voc2012"](tmp_path)
    lists = tmp_path / "VOCdevkit/VOC2012/ImageSets/Main"
    for path in lists.glob("*_train.txt"):
        text = path.read_text() + ("2007_000001  0\n" if path.name.startswith("cat") else "2007_000001 -1\n")
        path.write_text(text)
    records = read(DataConfig(path=str(prepare("voc2012", tmp_path))))
    assert not any("2007_000001" in name for name in records.ids)
    assert "1 images of the official train list show no class" in " ".join(records.notes)


def test_an_image_that_is_listed_twice_stays(tmp_path):
    expected = LAYOUTS["nuswide"](tmp_path)
    formatted_nuswide(tmp_path, expected._replace(train=[*expected.train, expected.train[0]]))
    records = read(DataConfig(path=str(prepare("nuswide", tmp_path))))
    assert len(records.ids) == TRAIN + TEST + 1
    assert f"listed more than once, such as {expected.train[0][0]} (2 times)" in " ".join(records.notes)


@pytest.mark.long
@pytest.mark.shared
def test_the_real_label_list_of_coco(shared, tmp_path, monkeypatch):
    """As an annotation file, without images: sizes, statistics, no difference to the published benchmark."""
    monkeypatch.setattr(common, "is_file", lambda path: True)
    lines = (shared / "data/labels/coco_train_full.txt").read_text().splitlines()
    rows = [(line.split(",")[0], [int(column) for column in line.split(",")[1].split()]) for line in lines]
    categories = [{"id": column + 1, "name": f"class {column}"} for column in range(80)]
    (tmp_path / "annotations").mkdir()
    for phase, part in (("train", rows), ("val", rows[:40_137])):
        (tmp_path / f"{phase}2014").mkdir()
        images = [{"id": int(name[15:27]), "file_name": name} for name, _ in part]
        annotations = [
            {"image_id": int(name[15:27]), "category_id": column + 1}
            for name, columns in part for column in columns
        ]  # fmt: skip
        content = {"images": images, "annotations": annotations, "categories": categories}
        (tmp_path / f"annotations/instances_{phase}2014.json").write_text(json.dumps(content))
    path = prepare("coco2014", tmp_path)
    content = json.loads(path.read_text())
    assert content["notes"] == []
    statistics = content["statistics"]
    assert statistics["official_train"] == {"images": 82_081, "mean_labels": 2.9366}
    ordered = sorted(rows, key=lambda row: str(int(row[0][15:27])))
    mean = np.mean([len(ordered[row][1]) for row in protocol_split(len(ordered))[0]])
    assert statistics["train"] == {"images": 65_665, "mean_labels": pytest.approx(mean, abs=1e-4)}
    assert (statistics["val"]["images"], statistics["test"]["images"]) == (16_416, 40_137)
    records = read(DataConfig(path=str(path)))
    assert records.protocol.single_positive
    assert [records.split.count(name) for name in ("train", "val", "test")] == [65_665, 16_416, 40_137]


# -- what is missing ---------------------------------------------------------------------------------------

MISSING = [
    ("voc2012", "VOCdevkit/VOC2012/ImageSets/Main/cat_val.txt", "VOCtrainval_11-May-2012.tar"),
    ("voc2012", "VOCdevkit/VOC2012/JPEGImages", "VOCtrainval_11-May-2012.tar"),
    ("coco2014", "annotations/instances_val2014.json", "annotations_trainval2014.zip (0.3 GB)"),
    ("coco2014", "train2014", "zips/train2014.zip (13.5 GB)"),
    ("nuswide", "ImageList/TestImagelist.txt", "NUS-WIDE.html"),
    ("nuswide", "Groundtruth/TrainTestLabels/Labels_zebra_Test.txt", "NUS-WIDE.html"),
    ("nuswide", "ConceptsList/Concepts81.txt", "NUS-WIDE.html"),
    ("cub200", "CUB_200_2011/attributes/image_attribute_labels.txt", "CUB_200_2011.tgz?download=1 (1.2 GB)"),
    ("cub200", "attributes.txt", "CUB_200_2011.tgz"),
]


@pytest.mark.parametrize(("name", "file", "source"), MISSING)
def test_the_message_says_what_is_missing_and_where_to_get_it(prepared, tmp_path, name, file, source):
    root = tmp_path / "copy"
    shutil.copytree(prepared[name][0], root)
    (root / f"spml-{name}.json").unlink()
    path = root / file
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(InputError) as caught:
        prepare(name, root)
    message = str(caught.value)
    assert message.startswith(f"{path}: is missing. ")
    assert source in message
    assert BENCHMARKS[name].page in message
    assert ("Say --download" in message) == (name != "nuswide")
    assert not (root / f"spml-{name}.json").exists()


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_root_and_none_at_all(tmp_path, name):
    with pytest.raises(InputError, match=r"no such folder, so .* is missing \("):
        prepare(name, tmp_path / "nowhere")
    with pytest.raises(InputError, match="is missing"):
        prepare(name, tmp_path)
    assert not any(tmp_path.iterdir())
    with pytest.raises(InputError, match=f"no benchmark '{name}x'.*Did you mean {name}"):
        prepare(name + "x", tmp_path)


def test_missing_images(tmp_path):
    LAYOUTS["voc2012"](tmp_path)
    images = tmp_path / "VOCdevkit/VOC2012/JPEGImages"
    (images / "2008_000003.jpg").unlink()
    told = []
    path = prepare("voc2012", tmp_path, report=told.append)
    assert any("1 of 20 images are missing, such as 2008_000003.jpg" in line for line in told)
    data = open_dataset(DataConfig(path=str(path), observe="protocol", max_unreadable=0.1), size=8)
    assert data.skipped == (
        ("VOCdevkit/VOC2012/JPEGImages/2008_000003.jpg", "can't be read: No such file or directory"),
    )
    with pytest.raises(InputError, match="1 of 28 images can't be used"):
        open_dataset(DataConfig(path=str(path), observe="protocol"), size=8)
    for file in images.iterdir():
        file.unlink()
    with pytest.raises(InputError, match=r"holds none of the 20 images, such as 2008_000000\.jpg\. Download"):
        prepare("voc2012", tmp_path)


# -- files that are not as they should be ------------------------------------------------------------------

LABELS = "CUB_200_2011/attributes/image_attribute_labels.txt"
WRONG = [
    ("voc2012", "VOCdevkit/VOC2012/ImageSets/Main/cat_val.txt", "x 2\n", "line 1 is 'x 2', but must be"),
    ("voc2012", "VOCdevkit/VOC2012/ImageSets/Main/cat_val.txt", b"\xff\xfe", "can't be read"),
    ("coco2014", "annotations/instances_val2014.json", '{"images": ', "is not valid JSON"),
    ("coco2014", "annotations/instances_val2014.json", '{"x": ' + "[" * 100_000, "nested too deeply"),
    ("coco2014", "annotations/instances_val2014.json", "[1]", "expected an object, got a list"),
    (
        "coco2014",
        "annotations/instances_val2014.json",
        '{"images": 3}',
        "images: expected a list, got an integer",
    ),
    (
        "coco2014",
        "annotations/instances_val2014.json",
        '{"categories": [], "images": [], "annotations": [{"image_id": 1, "category_id": 5}]}',
        "KeyError: 5",
    ),
    (
        "coco2014",
        "annotations/instances_val2014.json",
        '{"categories": [], "images": [], "annotations": []}',
        "is not the official annotation file",
    ),
    (
        "coco2014",
        "annotations/instances_val2014.json",
        '{"categories": [{"id": 7, "name": "x"}], "images": [], "annotations": []}',
        "its categories are not those of instances_train2014.json",
    ),
    ("cub200", "CUB_200_2011/train_test_split.txt", "1 2\n", "says '2' of image 1"),
    ("cub200", "CUB_200_2011/train_test_split.txt", "1 1\n", "has 1 lines for 28 images"),
    ("cub200", "CUB_200_2011/images.txt", "1\n", "line 1 is '1', but must be a number"),
    ("cub200", "CUB_200_2011/images.txt", "", "is empty"),
    ("cub200", LABELS, "1 1 1 1 1\n", "expected 8,736 lines"),
    ("cub200", LABELS, "1 1 3 1 1\n", "is_present is neither 0 nor 1"),
    ("cub200", LABELS, "1 400 1 1 1\n", "in no list"),
    ("cub200", LABELS, "1 1\n", "is not the official file"),
    ("cub200", LABELS, "", "is not the official file"),
    ("cub200", LABELS, "1 1 1 1 1\n" * 9000, "expected 8,736 lines"),
    ("nuswide", "ImageList/TestImagelist.txt", "a.jpg\n", "must hold 0 or 1 for each of the 1 images"),
    ("nuswide", "ImageList/TestImagelist.txt", "../../x.jpg\n" * 8, "lies outside the folder"),
    ("nuswide", "Groundtruth/TrainTestLabels/Labels_zebra_Test.txt", "2\n" * 8, "must hold 0 or 1"),
    ("nuswide", "ConceptsList/Concepts81.txt", "a\na\n", "must hold distinct names"),
    ("nuswide", "ConceptsList/Concepts81.txt", "../a\n", "must hold distinct names"),
]


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
        ("images", np.array([{}]), "can't be read: Object arrays cannot be loaded"),
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


def test_too_few_images_to_split(tmp_path):
    expected = LAYOUTS["nuswide"](tmp_path)
    formatted_nuswide(tmp_path, expected, slice(0, 2))
    with pytest.raises(InputError, match="holds 2 images, which are too few"):
        prepare("nuswide", tmp_path)
    formatted_nuswide(tmp_path, expected, slice(0, 0))
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


# -- downloads ---------------------------------------------------------------------------------------------


@pytest.fixture
def official(monkeypatch, tmp_path):
    """Serves archives made of a miniature in place of the official ones; the network is not touched."""
    served: dict[str, bytes] = {}

    def fetch(archive, folder, report):
        folder.mkdir(exist_ok=True)
        (folder / archive.name).write_bytes(served[archive.name])
        return folder / archive.name

    monkeypatch.setattr(benchmarks, "fetch", fetch)
    return served


def packed(root, tmp_path, name, *members):
    path = tmp_path / name
    if name.endswith(".zip"):
        with zipfile.ZipFile(path, "w") as archive:
            for member in members:
                for file in sorted((root / member).rglob("*")):
                    archive.write(file, file.relative_to(root))
    else:
        with tarfile.open(path, "w:gz" if name.endswith("tgz") else "w") as archive:
            for member in members:
                archive.add(root / member, member)
    return path.read_bytes()


PACKS = {
    "voc2012": {"VOCtrainval_11-May-2012.tar": ["VOCdevkit"]},
    "coco2014": {
        "annotations_trainval2014.zip": ["annotations"],
        "train2014.zip": ["train2014"],
        "val2014.zip": ["val2014"],
    },
    "cub200": {"CUB_200_2011.tgz": ["attributes.txt", "CUB_200_2011"]},
}


@pytest.mark.parametrize("name", PACKS)
def test_download_unpacks_what_is_missing(prepared, official, tmp_path, name):
    root = prepared[name][0]
    for archive, members in PACKS[name].items():
        official[archive] = packed(root, tmp_path, archive, *members)
    told = []
    path = prepare(name, tmp_path / "new", download=True, report=told.append)
    assert path.read_bytes() == prepared[name][2].read_bytes()
    assert sum("is unpacked into" in line for line in told) == len(PACKS[name])
    told.clear()
    prepare(name, tmp_path / "new", download=True, report=told.append)
    assert not any("is unpacked" in line for line in told), "nothing is missing, so nothing is downloaded"


def test_download_of_an_archive_that_lacks_something(prepared, official, tmp_path):
    official["annotations_trainval2014.zip"] = packed(prepared["coco2014"][0], tmp_path, "a.zip", "val2014")
    official["train2014.zip"] = official["val2014.zip"] = official["annotations_trainval2014.zip"]
    with pytest.raises(InputError, match=r"instances_train2014\.json: is missing \(3 in all\), even after"):
        prepare("coco2014", tmp_path / "new", download=True)


def test_sources_are_complete():
    archives = [voc2012._ARCHIVE, coco2014._ANNOTATIONS, *coco2014._IMAGES.values(), cub200._ARCHIVE]
    for archive in archives:
        assert isinstance(archive, Archive)
        name, _, digits = archive.checksum.partition(":")
        assert len(digits) == 2 * hashlib.new(name).digest_size
        assert int(digits, 16)
        assert archive.url.split("?")[0].endswith(archive.name)
    assert len({archive.name for archive in archives}) == 5


@pytest.mark.parametrize(
    ("images", "mean", "told"),
    [
        ((5717, 5823), 1.46, ""),
        ((5717, 5823), 1.47, ""),  # publications round
        ((5717, 5823), 1.49, "1.49 labels per training image instead of 1.46"),
        ((5717, 5823), 1.43, "1.43 labels per training image instead of 1.46"),
        ((5716, 5823), 1.46, "5,716 training images instead of 5,717"),
        ((5717, 5824), 1.46, "5,824 test images instead of 5,823"),
    ],
)
def test_what_tells_a_copy_from_the_published_benchmark(images, mean, told):
    statistics = {
        "official_train": {"images": images[0], "mean_labels": mean},
        "test": {"images": images[1], "mean_labels": 1.5},
    }
    notes = common._differences(BENCHMARKS["voc2012"], statistics)
    assert [told in note and "can't be compared" in note for note in notes] == ([True] if told else [])


def test_a_number_of_thousands_of_digits(tmp_path):
    (tmp_path / "images.txt").write_text("1 a.jpg\n" + "9" * 5000 + " b.jpg\n")
    with pytest.raises(InputError, match=r"images\.txt: line 2 is '9999.*must be a number that occurs once"):
        cub200._numbered(tmp_path / "images.txt")
