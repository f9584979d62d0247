"""Attacks by JSON and XML: COCO, Label Studio, manifests, Hugging Face, PASCAL VOC."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.hostile.attacks.attack import DEEP, Attack, Make, all_of, file, picture

INSPECT = "data inspect data/x.json"


def document(content: Any) -> Make:
    """Write a JSON file next to a photo."""

    def make(folder: Path) -> None:
        picture(folder / "data" / "a.png")
        picture(folder / "secret.png")
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / "data" / "x.json").write_text(text)

    return make


def coco(**changes: Any) -> Make:
    """Write a COCO document with changed fields."""
    content = {
        "images": [{"id": 1, "file_name": "a.png", "width": 32, "height": 32}],
        "categories": [{"id": 1, "name": "a"}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 1, 1]}],
    }
    return document({**content, **changes})


def task(image: str, label: str = "a") -> Make:
    """Write an export of Label Studio."""
    choice = {"type": "choices", "value": {"choices": [label]}}
    return document([{"data": {"image": image}, "annotations": [{"result": [choice]}]}])


def manifest(**changes: Any) -> Make:
    """Write a manifest of a benchmark, sealed with its digest."""
    from spml.common.files import json_sha256

    part = {"folder": "photos", "files": ["a.png"] * 2, "labels": [[0]] * 2, "observed": [0] * 2, **changes}
    content = {
        "format": "spml benchmark 1", "name": "voc2012", "classes": ["a", "b"], "notes": [],
        "parts": {"train": part, "test": part}, "val": [1], "statistics": {},
    }  # fmt: skip
    return document({**content, "sha256": json_sha256(content)})


def hugging_face(info: Any, state: Any) -> Make:
    """Write the two documents of a data set on disk."""
    texts = [content if isinstance(content, str) else json.dumps(content) for content in (info, state)]
    return all_of(file("hf/dataset_info.json", texts[0]), file("hf/state.json", texts[1]))


FEATURES = {"features": {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": ["a"]}}}


def image_elsewhere(folder: Path) -> None:
    """A data set on disk that names a file instead of holding the bytes of an image."""
    import pyarrow as pa

    hugging_face(FEATURES, {"_data_files": [{"filename": "data.arrow"}]})(folder)
    kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    rows = pa.table({"image": pa.array([{"bytes": None, "path": "/etc/hostname"}], kind), "label": [0]})
    with pa.ipc.new_stream(folder / "hf" / "data.arrow", rows.schema) as writer:
        writer.write_table(rows)


LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "ha">'
    + "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefghij", "bcdefghijk", strict=True))
    + "]><annotation><object><name>&k;</name></object></annotation>"
)
READS = (
    '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a SYSTEM "../../../secret.txt">]>'
    "<annotation><object><name>&a;</name></object></annotation>"
)
OBJECT = "<object><name>cat</name></object>"


def voc(annotation: str, listed: str = "1") -> Make:
    """Write a folder in the format of PASCAL VOC."""

    def make(folder: Path) -> None:
        for name in ("Annotations", "ImageSets/Main", "JPEGImages"):
            (folder / "voc" / name).mkdir(parents=True)
        picture(folder / "voc" / "JPEGImages" / "1.jpg")
        (folder / "voc" / "ImageSets" / "Main" / "train.txt").write_text(f"{listed}\n")
        (folder / "voc" / "Annotations" / "1.xml").write_text(annotation)

    return make


ATTACKS = (
    Attack("JSON of 100,000 levels", document(DEEP), INSPECT, "lists or objects in it are nested too deeply"),
    Attack("COCO with a part of 100,000 levels",
        document('{"images": [], "annotations": [], "categories": [], "x": ' + DEEP), INSPECT,
        "data/x.json: lists or objects in it are nested too deeply."),
    Attack("COCO with a number of 50,000 digits",
        document('{"images": [{"id": ' + "9" * 50_000 + '}], "annotations": [], "categories": []}'), INSPECT,
        "data/x.json: images[0].id: integer value out of range."),
    Attack("COCO that leads out", coco(images=[{"id": 1, "file_name": "../secret.png"}]), INSPECT,
        "data/x.json: images[0]: '../secret.png' lies outside the folder data. Name files relative"),
    Attack("COCO with a class name of half a surrogate pair", coco(categories=[{"id": 1, "name": "\ud800"}]),
        INSPECT,
        "data/x.json: categories[0].name: the class name '\\ud800' holds control characters. Correct"),
    Attack("a task that names an address of the network",
        task("http://169.254.169.254/latest/meta-data/x.png"), INSPECT,
        "data/x.json: [0].data.image: 'http://169.254.169.254/latest/meta-data/x.png' is an address,"),
    Attack("a task that names a served file elsewhere", task("/data/local-files/?d=../secret.png"), INSPECT,
        "data/x.json: [0].data.image: '../secret.png' lies outside the folder data. Name files"),
    Attack("a task that names an uploaded file elsewhere", task("/data/upload/..%2F..%2Fsecret.png"), INSPECT,
        "data/x.json: [0].data.image: '../../secret.png' lies outside the folder data. Name files"),
    Attack("a manifest that leads out", manifest(files=["../../secret.png", "a.png"]), INSPECT,
        "data/x.json: 'photos/../../secret.png' lies outside the folder data. Name files relative"),
    Attack("a manifest with a label of 2^70", manifest(labels=[[1 << 70], [0]]), INSPECT,
        "data/x.json: was changed since it was written, or is damaged (Expected `int` <= 2147483647"),
    Attack("a manifest that was changed", document({"format": "spml benchmark 1", "sha256": "0" * 64}),
        INSPECT,
        "data/x.json: was changed since it was written, or is damaged (its content does not have the"),
    Attack("a Hugging Face data set whose file leads out",
        hugging_face(FEATURES, {"_data_files": [{"filename": "../../secret.txt"}]}), "data inspect hf",
        "hf/state.json: '../../secret.txt' lies outside the folder hf. Name files relative to that"),
    Attack("a Hugging Face image that is a file elsewhere", image_elsewhere, "data inspect hf",
        "hf/data.arrow: row 0 (counted from 0) holds no image. If the column holds names of files,"),
    Attack("a billion laughs", voc(LAUGHS), "data inspect voc",
        "1.xml: has a document type or entities, which are not read. Remove them."),
    Attack("a file that is read through an XML entity", voc(READS), "data inspect voc",
        "voc/Annotations/1.xml: has a document type or entities, which are not read. Remove them."),
    Attack("an annotation of 100,000 levels",
        voc("<annotation>" + "<a>" * 100_000 + "</a>" * 100_000 + OBJECT + "</annotation>"),
        "data inspect voc",
        "training is refused: voc: there is only one class, 'cat'. Multi-label learning needs at", 0),
    Attack("an annotation of 5 MB", voc("<annotation>" + " " * 5_000_000 + OBJECT + "</annotation>"),
        "data inspect voc",
        "voc/Annotations/1.xml: has 5,000,058 bytes, more than the limit of 4,194,304 for such a"),
    Attack("a list of images that leads out", voc(f"<annotation>{OBJECT}</annotation>", "../../../secret"),
        "data inspect voc",
        "voc/ImageSets/Main/train.txt: line 1: there is no Annotations/../../../secret.xml. Expected"),
)  # fmt: skip
