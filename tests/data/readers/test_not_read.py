"""Messages about files of formats that are not read: each names the format and what to do."""

from __future__ import annotations

import json

import pytest

from spml.config import DataConfig
from spml.data.readers import read
from tests.helpers.commands import refusal


def message(path, content=b""):
    path.write_bytes(content)
    text = refusal(read, DataConfig(path=str(path)))
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    assert len(text) - len(str(path)) < 500
    return text.removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("x.xlsx", "is a spreadsheet, which is not read. Save it as CSV in UTF-8; or read it with pandas"),
        ("x.zip", "is an archive, which is not read. Unpack it, and name the folder or the file in it."),
        ("x.tar.gz", "is an archive"),
        ("x.mat", "is not read. Save its features and labels with numpy.savez as X (N, D) and Y (N, C)"),
        ("x.h5", "is not read. Save its features"),
        ("x.tfrecord", "is not read. Save its images as files. Write a table (.csv,"),
        ("x.pkl", "is a pickle, which can run code when it is loaded, so it is never read. Load it where"),
        ("x.sqlite", "is a database, which is not read. Export files and labels as a .csv file."),
        ("x.feather", "is not read. Save it as Parquet"),
        ("x.manifest", ".manifest is not a known format"),
        ("data.yaml", "is YAML, which is not read. Write a table"),
        ("x.jpg", "is an image. Name the folder of images. Write a table"),
        ("x.foo", ".foo is not a known format. Name a folder with one folder of images per class, a table"),
        ("labels", "a file without a suffix is not a known format"),
        ("x.xml", ".xml is not a known format"),
    ],
)
def test_files_by_their_suffix(tmp_path, name, expected):
    assert message(tmp_path / name).startswith(expected)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.json", {"info": {}, "categories": {}, "items": []}, "Datumaro JSON. Export the data as COCO"),
        ("a.json", [{"image": "1.jpg", "id": 1, "annotator": 1}], "JSON-MIN of Label Studio"),
        ("a.json", [{"image": "1.jpg", "annotations": []}], "CreateML JSON. Export"),
        ("a.json", {"version": "5", "imagePath": "1.jpg", "shapes": []}, "LabelMe's JSON of one image"),
        ("a.json", {"_via_settings": {}, "_via_img_metadata": {}}, "a project of VIA. Export"),
        ("a.json", [{"image_id": 1, "category_id": 2, "score": 1}], "a list of COCO results. Name the file"),
        ("a.json", {"images": [], "annotations": []}, "COCO without categories. Write a table"),
        ("a.json", {"classes": ["dog"], "labels": {"1": 0}}, "FiftyOne's list of indices. Write a table"),
        ("a.json", {"samples": []}, "a FiftyOne dataset. Write a table"),
        ("a.json", {"labels": ["Sea"], "projection": "x"}, "BigEarthNet's JSON of one patch"),
        ("a.json", {"description": "", "tags": [], "size": {}, "objects": []}, "Supervisely's JSON"),
        ("a.json", [{"ID": "1", "DataRow ID": "2", "Label": {}}], "an export of Labelbox"),
        ("a.ndjson", {"data_row": {}, "projects": {}}, "an export of Labelbox"),
        ("a.csv", "ID,DataRow ID,Label\n", "an export of Labelbox"),
        ("a.csv", "filename,file_size,region_shape_attributes\n", "a CSV of VIA"),
        ("a.csv", '"ImageID","Source","LabelName","Confidence"\n', "of OpenImages. Write a table"),
        ("a.jsonl", {"imageGcsUri": "gs://b/1.jpg"}, "an import file of Vertex AI"),
        ("a.manifest", {"source-ref": "s3://b/1.jpg"}, "a manifest of SageMaker or Rekognition. Write a t"),
        ("a.jsonl", {"source-ref": "s3://b/1.jpg"}, "a manifest of SageMaker or Rekognition"),
        ("a.json", {"1.jpg": ["dog"]}, "not a known kind of JSON; found the keys '1.jpg'. Known are COCO"),
        ("a.json", [{"file": "1.jpg"}], "not a known kind of JSON; found a list. Known are COCO"),
        ("a.xml", "<?xml version='1.0'?>\n<!-- <annotation> -->\n<annotations/>",
         "an XML file of CVAT. Export boxes and polygons as `COCO 1.0`, tags as `ImageNet 1.0`."),
        ("a.xml", "<annotation><filename>1.jpg</filename></annotation>", "a file of PASCAL VOC. Name the f"),
        ("list.txt", "1.jpg dog\n2.jpg cat\n", "a text file, whose lines may mean anything, such as tags of"),
        ("1.txt", "0 .5 .5 1 1\n1 .5 .5 .2 .2\n", "of a YOLO export. Name its folder, and put the names of"),
    ],
)  # fmt: skip
def test_formats_by_their_content(tmp_path, name, content, expected):
    text = content if isinstance(content, str) else json.dumps(content)
    assert message(tmp_path / name, text.encode()).startswith(f"is {expected}")


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.xml", b"<labels/>", ".xml is not a known format"),
        ("a.xml", b"<" * 5000, ".xml is not a known format"),
        ("a.json", b'{"file": "1.jpg"}\n{"file": "2.jpg"}\n',
         "holds a second JSON value at line 2, column 1. If each line is one, as in JSON Lines"),
    ],
)  # fmt: skip
def test_content_that_is_not_known(tmp_path, name, content, expected):
    assert message(tmp_path / name, content).startswith(expected)


def test_the_advice_for_lists_of_celeba_works(tmp_path, picture, monkeypatch):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    for name in ("1", "2", "3"):
        picture(f"{name}.png")
    path = tmp_path / "list_attr_celeba.txt"
    text = message(path, b"3\nBald Male \n1.png -1  1\n2.png  1 -1\n3.png  1  1\n")
    assert text.startswith("is a list like those of CelebA. Write a table")
    monkeypatch.chdir(tmp_path)
    code = (
        'read_csv("list_attr_celeba.txt", sep=r"\\s+", skiprows=1).rename_axis("file").to_csv("labels.csv")'
    )
    assert text.endswith(f"pandas.{code}.")
    pandas.read_csv(path, sep=r"\s+", skiprows=1).rename_axis("file").to_csv("labels.csv")
    records = read(DataConfig(path="labels.csv"))
    assert records.classes == ("Bald", "Male")
    assert records.labels.to_ternary().tolist() == [[-1, 1], [1, -1], [1, 1]]
