"""OpenImages label files: verified labels, names of classes, missing images."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import open_dataset
from spml.data.readers import read

HEADER = "ImageID,Source,LabelName,Confidence"
ROWS = (
    "01,verification,/m/dog,1",
    "01,verification,/m/cat,0",
    "02,crowdsource-verification,/m/cat,1.0",
    "",
    "02,machine,/m/cow,0.7",
    "03,verification,/m/bird,0.0",
    "04,machine,/m/dog,1",
    "04,verification,/m/cat,0.5",
)


@pytest.fixture
def write(tmp_path, picture):
    """Write a label file, and an image for each name below a folder."""

    def make(*lines, name="labels.csv", images="01 02 03 04", folder="."):
        for image in images.split():
            picture(f"{folder}/{image}.jpg")
        path = tmp_path / name
        path.write_text("\n".join(lines or (HEADER, *ROWS)))
        return path

    return make


def opened(path, **options):
    return read(DataConfig(path=str(path), **options))


def test_labels(write):
    records = opened(write())
    assert records.ids == ("01.jpg", "02.jpg", "03.jpg", "04.jpg")
    assert records.classes == ("/m/bird", "/m/cat", "/m/dog")
    assert records.labels.to_ternary().tolist() == [[0, -1, 1], [0, 1, 0], [-1, 0, 0], [0, 0, 0]]
    assert records.notes == (
        "labels.csv was read as an OpenImages label file.",
        f"4 images in {records.inputs[0].parent}, 2 labels verified as present and 2 as absent, 3 classes.",
        "3 rows were ignored, because no person has verified the label.",
    )
    records = opened(write(), unlisted="negative")
    assert records.labels.to_ternary().tolist() == [[-1, -1, 1], [-1, 1, -1], [-1, -1, -1], [-1, -1, -1]]


def test_names_of_classes(write, tmp_path):
    names = ["/m/dog,Dog", "/m/x,Unused", '/m/cat,"Cat, domestic"', "", "/m/bird,Dog"]
    (tmp_path / "oidv6-class-descriptions.csv").write_text("\n".join(["LabelName,DisplayName", *names[:3]]))
    records = opened(write())
    assert records.classes == ("Dog", "Cat, domestic", "/m/bird")
    assert records.labels.to_ternary().tolist() == [[1, -1, 0], [0, 1, 0], [0, 0, -1], [0, 0, 0]]
    assert records.notes[1].endswith("3 classes (named by oidv6-class-descriptions.csv).")
    (tmp_path / "class-descriptions.csv").write_text("\n".join(names))
    records = opened(write())
    assert records.classes == ("Dog (/m/dog)", "Cat, domestic", "Dog (/m/bird)")
    (tmp_path / "class-descriptions.csv").write_text("/m/dog,/m/cat\n/m/cat\n/m/bird,\n")
    assert opened(write()).classes == ("/m/cat (/m/dog)", "/m/bird", "/m/cat (/m/cat)")


@pytest.mark.parametrize(
    ("folder", "name"),
    [("images", "x.csv"), ("train", "train-annotations-x.csv"), ("validation", "oidv7-validation-x.csv")],
)
def test_where_images_are(write, folder, name):
    records = opened(write(folder=folder, name=name))
    assert records.ids[0] == "01.jpg"
    assert records.inputs[0].parent.name == folder


def test_missing_images_are_left_out(write, tmp_path):
    records = opened(write(images="03 02"))
    assert records.ids == ("02.jpg", "03.jpg")
    assert records.labels.to_ternary().tolist() == [[0, 1, 0], [-1, 0, 0]]
    assert "2 of 4 images are not in that folder and were left out." in records.notes
    assert {name for name, _ in records.skipped} == {"01.jpg", "04.jpg"}
    path = write(images="01 02 03", folder="store", name="sub.csv")
    for name in ("02.jpg", "03.jpg"):
        (tmp_path / name).unlink()
    with pytest.raises(InputError, match=r"none of its images, such as 01\.jpg, is in .*--data\.images"):
        opened(path)
    assert len(opened(path, images=str(tmp_path / "store")).ids) == 3


def test_training_on_it(write):
    rows = [f"0{place},verification,/m/{'cat' if place % 2 else 'dog'},1" for place in range(1, 5)]
    data = open_dataset(DataConfig(path=str(write(HEADER, *rows))), size=8)
    assert {name: len(samples) for name, samples in data.splits.items()} == {"train": 3, "val": 1}


def test_other_columns_and_order(write):
    header = "LabelName,confidence,ImageID,XMin,IsOccluded"
    records = opened(write(header, "/m/cat,1,01,0.1,0", "/m/cat,1,01,0.5,0", "/m/dog,0,02,,"))
    assert records.labels.to_ternary().tolist() == [[1, 0], [0, -1]]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ((), "no row has a label that a person has verified"),
        (("01,machine,/m/dog,1",), "no row has a label that a person has verified"),
        (("01,v,/m/dog,1", "02,v,/m/cat"), "row 3 has 3 cells, but the header has 4"),
        (("01,v,/m/dog,1", "", "02,v,,1"), "LabelName: the class name '' is empty"),
        (("01,v,/m/dog,yes",), "row 2: Confidence must be 1 .*but is 'yes'"),
        (("01,v,/m/dog,-1",), "row 2: Confidence must be"),
        (("01,v,/m/dog,nan",), "row 2: Confidence must be"),
        (("01,v,/m/dog,1.5",), "row 2: Confidence must be"),
        (("01,v,/m/dog,",), "row 2: Confidence must be .*but is ''"),
        (
            ("01,v,/m/dog,0", "01,v,/m/cat,1", "01,machine,/m/dog,1", "01,v,/m/dog,1"),
            "row 5 says that '01' has the label '/m/dog', and row 2 that it has not. Remove one of them",
        ),
        (('01,v,"/m/dog,1',), "not valid CSV near line 2"),
        (("../01,v,/m/dog,1",), r"ImageID: '\.\./01\.jpg' lies outside the folder"),
        (("01,v,/m/dog,1", "/etc/x,v,/m/dog,1"), r"ImageID: '/etc/x\.jpg' lies outside"),
        (("01,v,/m/dog,1", f"{'x' * 300},v,/m/dog,1"), "ImageID: .* is longer than"),
        (("01,v,/m/\x01,1",), "LabelName: the class name .* holds control"),
    ],
)
def test_bad_rows(write, rows, message):
    with pytest.raises(InputError, match=message) as caught:
        opened(write(HEADER, *rows))
    assert "labels.csv" in str(caught.value)


def test_headers(write):
    with pytest.raises(InputError, match=r"no column `label` or `labels`.*found: ImageID, LabelName"):
        opened(write("ImageID,LabelName", "01,/m/dog"))


COLUMNS = (
    ["01", "02", "03", "04", "05", "../03"], ["machine", "verification", ""],
    ["/m/dog", "/m/cat", "/m/new", "é"], ["1", "0", "0.5", "1.0", " 1"],
)  # fmt: skip
good_rows = st.lists(st.tuples(*(st.sampled_from(cells) for cells in COLUMNS)).map(",".join), max_size=6)
odd_row = st.lists(st.sampled_from(["01", "/m/dog", "nan", "", '"', "\0", "2"]), min_size=2, max_size=5)
odd_rows = st.one_of(st.just([]), st.lists(odd_row.map(",".join), max_size=1))
descriptions = st.lists(
    st.sampled_from(["/m/dog,Dog", "/m/cat,Dog", "/m/cat,/m/new", "/m/new,", ",", ""]), max_size=3
)


def examples(count):
    return settings(
        max_examples=count, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )


def try_random_bytes(path, read_or_refuse, content, header):
    path.write_bytes(header + content)
    path.with_name("class-descriptions.csv").write_bytes(content)
    read_or_refuse(path)


def try_random_rows(path, read_or_refuse, good, odd, names):
    path.write_text("\n".join([HEADER, *good, *odd]))
    path.with_name("class-descriptions.csv").write_text("\n".join(names))
    read_or_refuse(path)


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("attempt", "drawn"),
    [
        (
            try_random_bytes,
            {
                "content": st.binary(max_size=200),
                "header": st.sampled_from([b"", HEADER.encode() + b"\n"]),
            },
        ),
        (try_random_rows, {"good": good_rows, "odd": odd_rows, "names": descriptions}),
    ],
)
def test_random_files_are_read_or_refused(write, read_or_refuse, attempt, drawn, count):
    examples(count)(given(**drawn)(attempt))(write(), read_or_refuse)
