"""Small sound files of every format, which the tests of hostile files and the fuzzers change."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from PIL import Image

COCO = {
    "images": [
        {"id": 7, "file_name": "a.png", "width": 20, "height": 10, "neg_category_ids": [4]},
        {"id": 3, "file_name": "b.png", "width": 20, "height": 10, "not_exhaustive_category_ids": [2]},
        {"id": 5, "file_name": "c.png", "width": 20, "height": 10},
    ],
    "categories": [{"id": 9, "name": "dog "}, {"id": 2, "name": "cat"}, {"id": 4, "name": "bird"}],
    "annotations": [
        {"id": 1, "image_id": 3, "category_id": 2, "bbox": [0, 0, 10, 5], "iscrowd": 0},
        {"id": 2, "image_id": 7, "category_id": 9, "bbox": [15, 0, 10, 10], "segmentation": [[1, 2, 3, 4]]},
        {"id": 3, "image_id": 3, "category_id": 4, "bbox": [-5, -5, 2, 2]},
    ],
    "info": {},
}
REGION = {"type": "rectanglelabels", "value": {"x": 1, "rectanglelabels": ["cat"]}}
CHOICE = {"type": "choices", "value": {"choices": ["dog", "cat "]}}
TASKS = [
    {
        "data": {"image": "b.png"},
        "annotations": [{"result": [CHOICE]}, {"was_cancelled": False, "result": [CHOICE, REGION]}],
        "meta": {"known_negatives": ["cow"], "classes": ["cat", "cow", "dog"]},
    },
    {"data": {"image": "a.png"}, "annotations": [{"result": [REGION, REGION]}], "predictions": []},
    {"data": {"image": "c.png"}, "annotations": [{"result": []}]},
    {"data": {"image": "d.png"}, "annotations": []},
]
TABLE = b"""file,labels,split
a.png,cat;dog,train
b.png,"dog",train
c.png,big cow;cat,val
d.png,dog,train
"""
WIDE = b"""file,cat,dog,cow,width
a.png,1,0,,4
b.png,0,1,1,5
c.png,,1,0,6
d.png,1,1,0,7
"""

ARFF = b"""@relation 'x: -C 2'
@attribute 'a b' {0,1}
@attribute c {1,0}
@attribute x numeric
@attribute "y" {p,'q r',s}
@attribute z string
@data
0,1,.5,p,'a, b'
1,0,-1e3,'q r',?
{0 1, 2 4, 3 s}
{1 0,4 "x"}
1,?,7,s,u
"""
LABELS = b'<?xml version="1.0"?><labels><label name="a b"></label><label name="c"/></labels>'

BOX = "<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>10</xmax><ymax>10</ymax></bndbox>"
CAT = f"<object><name>cat</name><difficult>1</difficult>{BOX}</object>"
SIZE = "<size><width>20</width><height>10</height></size>"
GOOD = f"<annotation><filename></filename>{SIZE}{CAT}</annotation>".encode()
TAGS = b"<object> </object> <name> </name> <bndbox> </bndbox> <xmin> </xmin> <![CDATA[ ]]> <!DOCTYPE <?"
PIECES = [*TAGS.split(), b"cat", b"1", b"nan", b"&amp;", b"&x;", b"\xff", b"\0", b".."]


def feature_files() -> list[bytes]:
    """Dense and sparse features and labels, with and without compression."""
    labels = np.tile(np.eye(3, dtype=np.uint8), (2, 1))
    matrix = scipy.sparse.csr_matrix(np.eye(6))
    sparse = {key: getattr(matrix, key) for key in ("data", "indices", "indptr", "shape")}
    contents = []
    for arrays in (
        {"X": np.eye(6), "Y": labels, "classes": np.array(list("abc"))},
        {**sparse, "Y": labels.astype(float), "test": np.arange(6) > 4},
        {"X": np.eye(6), **{f"Y_{key}": value for key, value in sparse.items()}},
    ):
        for save in (np.savez, np.savez_compressed):
            stream = io.BytesIO()
            save(stream, **arrays)
            contents.append(stream.getvalue())
    return contents


def save_dataset(path: Path) -> None:
    """Write four images as `datasets` does."""
    import pyarrow as pa

    images = []
    for number in range(4):
        stream = io.BytesIO()
        Image.new("RGB", (4, 4), (number, 0, 0)).save(stream, format="png")
        images.append({"bytes": stream.getvalue(), "path": None})
    kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    table = pa.table(
        {"image": pa.array(images, kind), "labels": [[0], [0, 1], [1], []], "note": list("abcd")}
    )
    path.mkdir(exist_ok=True)
    with pa.ipc.new_stream(path / "data.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=3)
    names = {"feature": {"names": ["cat", "dog"], "_type": "ClassLabel"}, "_type": "List"}
    info = {"features": {"image": {"_type": "Image"}, "labels": names, "note": {"_type": "Value"}}}
    (path / "dataset_info.json").write_text(json.dumps(info))
    (path / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data.arrow"}]}))


DELETE = object()


def set_value(content: Any, path: Sequence[Any], value: Any) -> None:
    """Replace the value at a path of a JSON document, or remove it if the new value is DELETE."""
    *parents, last = path
    for key in parents:
        content = content[key]
    if value is DELETE:
        del content[last]
    else:
        content[last] = value
