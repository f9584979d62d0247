"""Messages about files that no reader recognises: what they are, and how to get their content read."""

from __future__ import annotations

import re

from ...common.errors import InputError
from ..images.image_files import SUFFIXES
from . import Source
from .coco import KEYS

_TABLE = "a table (.csv, .tsv, .jsonl or .parquet) with the columns `file` and `label`"
_PICKLE = (
    "a pickle, which can run code when it is loaded, so it is never read. Load it where you trust it, and "
    "save features and labels with numpy.savez as X and Y in a .npz file, or labels as a .csv file."
)
_SPREADSHEET = (
    "a spreadsheet, which is not read. Save it as CSV in UTF-8; or read it with pandas and pass the "
    "DataFrame to spml.train."
)
_ARCHIVE = "an archive, which is not read. Unpack it, and name the folder or the file in it."
_ARRAYS = "not read. Save its features and labels with numpy.savez as X (N, D) and Y (N, C) in a .npz file."
_DATABASE = "a database, which is not read. Export the files and their labels as a .csv file."
_COLUMNS = "not read. Save it as Parquet, or name the folder that `save_to_disk` of `datasets` wrote."

_SUFFIXES = {
    **dict.fromkeys((".xlsx", ".xls", ".xlsm", ".ods", ".numbers"), _SPREADSHEET),
    **dict.fromkeys((".zip", ".tar", ".tgz", ".gz", ".bz2", ".xz", ".zst", ".7z", ".rar"), _ARCHIVE),
    **dict.fromkeys((".pkl", ".pickle", ".joblib", ".pt", ".pth"), _PICKLE),
    **dict.fromkeys((".h5", ".hdf5", ".mat"), _ARRAYS),
    **dict.fromkeys((".db", ".sqlite", ".sqlite3"), _DATABASE),
    **dict.fromkeys((".feather", ".arrow", ".orc"), _COLUMNS),
    **dict.fromkeys((".tfrecord", ".tfrecords"), f"not read. Write its images to files, and {_TABLE}."),
    **dict.fromkeys((".yaml", ".yml"), "not data. For YOLO, export the annotations as COCO JSON."),
    ".manifest": "a manifest of SageMaker Ground Truth, which is not read. Write a .csv file with the "
    "columns `file` (of `source-ref`, without the bucket) and `labels` (the names in `class-map`).",
    **dict.fromkeys(SUFFIXES, f"an image. Name the folder of images, or {_TABLE}."),
}
"""Kind of a file with this suffix, and advice."""

_XML = {
    b"annotations": "an XML file of CVAT, which is not read. Export boxes and polygons as `COCO 1.0`, tags "
    "as `Open Images V6 1.0`.",
    b"annotation": "a file of PASCAL VOC. Name the folder that holds its folders Annotations and JPEGImages.",
}
"""XML files by their outermost element."""

_JSON = (
    ({"items", "categories"}, "Datumaro JSON, which is not read. Export the data as COCO JSON."),
    (
        {"id", "annotator"},
        "JSON-MIN of Label Studio, which is not read, as its labels have many forms. Export it as `JSON`.",
    ),
    ({"image", "annotations"}, "CreateML JSON, which is not read. Export the data as COCO JSON."),
    ({"imagePath", "shapes"}, "a file of LabelMe for one image, which is not read. Export all as COCO JSON."),
    (
        {"_via_img_metadata"},
        "a project of VIA, which is not read. Export its annotations in the COCO format.",
    ),
    (
        {"image_id", "category_id"},
        "a list of COCO results, without the images. Name the file with the images.",
    ),
    ({"classes", "labels"}, "a classification dataset of FiftyOne. Export it as `FiftyOneDataset`."),
    ({"images", "annotations"}, "COCO without categories, such as captions: it has no labels."),
)
"""Kinds of JSON by some of their keys."""


def not_read(source: Source) -> InputError:
    """Error that says what a source is that no reader recognises, and what to do."""
    path = source.path
    what = _SUFFIXES.get(source.suffix, "")
    if source.suffix == ".json":
        keys = {*source.outline.keys}
        unknown = (
            f"not a known kind of JSON; found {source.outline}. Known are COCO (an object with the keys "
            f"{', '.join(KEYS)}), Label Studio (a list of tasks with `data` and `annotations`), FiftyOne (an "
            f"object with the key `samples`), and what spml data prepare writes. Write any other as {_TABLE}."
        )
        what = next((text for known, text in _JSON if known <= keys), unknown)
    elif source.suffix == ".xml":
        # Comments and declarations may come before the outermost element.
        root = re.search(rb"<(\w+)", re.sub(rb"<[?!].*?>", b"", source.start, flags=re.DOTALL))
        what = _XML.get(root[1] if root else b"", "")
    elif source.suffix == ".txt":
        what = _text(source)
    if what:
        return InputError(f"{path}: is {what}")
    return InputError(
        f"{path}: {source.suffix or 'a file without a suffix'} is not a known format. Name a folder with one "
        f"folder of images per class, {_TABLE}, COCO or Label Studio JSON, or features (.npz, .arff). All "
        "formats, with an example of each, are in docs/data.md."
    )


def _text(source: Source) -> str:
    """Kind of a text file, and advice; the lists of CelebA begin with the number of their rows."""
    kind = "a text file, whose lines may mean anything"
    options, rest = "", '.to_csv("labels.csv", index=False)'
    if re.match(rb"\s*\d+[ \t\r]*\n", source.start):
        kind = "a list like those of CelebA, which is not read"
        options, rest = ", skiprows=1", '.rename_axis("file").to_csv("labels.csv")'
    return (
        f"{kind}. Write {_TABLE}, or with a column per class. If its columns have names and blanks "
        f'between them, pandas does it: pandas.read_csv("{source.path.name}", sep=r"\\s+"{options}){rest}.'
    )
