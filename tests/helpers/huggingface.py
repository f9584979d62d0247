"""Hugging Face data sets on disk, written with pyarrow as `datasets` writes them."""

from __future__ import annotations

import io
import json

import pytest
from PIL import Image

pa = pytest.importorskip("pyarrow", reason="pyarrow, which reads Arrow files, is not installed")

IMAGE = {"_type": "Image"}
NAMES = {"names": ["cat", "dog", "cow"], "_type": "ClassLabel"}
LIST = {"feature": NAMES, "_type": "List"}
TEXT = {"dtype": "string", "_type": "Value"}
STORED = pa.struct({"bytes": pa.binary(), "path": pa.string()})


def encoded(value, suffix="png"):
    stream = io.BytesIO()
    Image.new("RGB", (6, 4), (value, 0, 0)).save(stream, format=suffix)
    return {"bytes": stream.getvalue(), "path": None}


PICTURES = [encoded(10 * k) for k in range(6)]


def write(folder, labels, features=None, *, rows=2, files=1, pictures=PICTURES, options=None, **columns):
    """One data set: `files` files with batches of `rows` rows, an image and a label column."""
    folder.mkdir(parents=True, exist_ok=True)
    count = len(labels)
    images = pictures if isinstance(pictures, pa.Array) else pa.array(pictures[:count], STORED)
    table = pa.table({"image": images, "labels": labels, **columns})
    names = [f"data-{k:05}-of-{files:05}.arrow" for k in range(files)]
    for k, name in enumerate(names):
        part = table.slice(count * k // files, count * (k + 1) // files - count * k // files)
        with pa.ipc.new_stream(folder / name, table.schema, options=options) as stream:
            stream.write_table(part, max_chunksize=rows)
    all_features = {"image": IMAGE, "labels": LIST, **(features or {})}
    (folder / "dataset_info.json").write_text(json.dumps({"features": all_features}))
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    return folder
