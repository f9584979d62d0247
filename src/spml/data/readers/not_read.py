"""Formats that are not read: how each is recognised, and how to get its content read."""

from __future__ import annotations

import csv
import re
from contextlib import suppress
from pathlib import Path

from ...common.errors import InputError
from ...common.parsing import parse_json
from ..files.listing import Listing
from ..images.image_files import SUFFIXES
from . import Source
from .coco import KEYS

_TABLE = "a table (.csv, .tsv, .jsonl or .parquet) with the columns `file` and `labels`"
_COCO = "Export the data as COCO JSON"
_BY_KEYS = (
    (".json", "items|categories", f"Datumaro JSON. {_COCO}"),
    (".json", "id|annotator", "JSON-MIN of Label Studio, whose labels have many forms. Export it as `JSON`"),
    (".json", "image|annotations", f"CreateML JSON. {_COCO}"),
    (".json", "imagePath|shapes", f"LabelMe's JSON of one image. {_COCO}"),
    (".json", "_via_img_metadata", "a project of VIA. Export its annotations in the COCO format"),
    (".json", "image_id|category_id", "a list of COCO results. Name the file with images and categories"),
    (".json", "classes|labels", f"FiftyOne's list of indices. Write {_TABLE} (docs/data.md, FiftyOne)"),
    (".json", "samples", f"a FiftyOne dataset. Write {_TABLE} (docs/data.md, FiftyOne)"),
    (".json", "labels|projection", f"BigEarthNet's JSON of one patch. Write {_TABLE}, one file per patch"),
    (".json", "description|size|objects", f"Supervisely's JSON of one image. {_COCO}"),
    (".json", "images|annotations", f"COCO without categories. Write {_TABLE} of what its images "
     "and annotations say"),
    (".json .ndjson", "data_row|projects", f"an export of Labelbox. Write {_TABLE}: ids and answers"),
    (".json .csv", "DataRow ID|Label", f"an export of Labelbox. Write {_TABLE}: ids and answers"),
    (".csv", "filename|region_shape_attributes", "a CSV of VIA. Export the annotations in the COCO format"),
    (".csv", "ImageID|LabelName|Confidence", f"of OpenImages. Write {_TABLE} (docs/data.md, OpenImages)"),
    (".jsonl", "imageGcsUri", f"an import file of Vertex AI. Write {_TABLE}, which are the displayNames"),
    (".jsonl .manifest", "source-ref", "a manifest of SageMaker or Rekognition. Write a .csv file with the "
     "columns `file` (of `source-ref`, without the bucket) and `labels` (the names in `class-map`)"),
)  # fmt: skip
"""Suffixes; keys of a JSON document or of its first entry, or columns; and what has all of them."""

_BY_SUFFIX = (
    (".xlsx .xls .xlsm .ods .numbers", "a spreadsheet, which is not read. Save it as CSV in UTF-8; or read "
     "it with pandas and pass the DataFrame to spml.train"),
    (".zip .tar .tgz .gz .bz2 .xz .zst .7z .rar", "an archive, which is not read. Unpack it, and name the "
     "folder or the file in it"),
    (".pkl .pickle .joblib .pt .pth", "a pickle, which can run code when it is loaded, so it is never read. "
     "Load it where you trust it, and save features and labels with numpy.savez as X and Y in a .npz file, "
     "or labels as a .csv file"),
    (".h5 .hdf5 .mat", "not read. Save its features and labels with numpy.savez as X (N, D) and Y (N, C) in "
     "a .npz file"),
    (".db .sqlite .sqlite3", "a database, which is not read. Export files and labels as a .csv file"),
    (".feather .arrow .orc", "not read. Save it as Parquet, or name the folder that `save_to_disk` of "
     "`datasets` wrote"),
    (".tfrecord .tfrecords", f"not read. Write its images to files, and {_TABLE}"),
    (".yaml .yml", f"YAML, of which only lists of `sources` are read. Write {_TABLE}. If it belongs to a "
     "YOLO export, name the folder of that"),
    (" ".join(SUFFIXES), f"an image. Name the folder of images, or {_TABLE}"),
)  # fmt: skip

_XML = {
    "annotations": "an XML file of CVAT. Export boxes and polygons as `COCO 1.0`, tags as `ImageNet 1.0`",
    "annotation": "a file of PASCAL VOC. Name the folder that holds its folders Annotations and JPEGImages",
}
"""What an XML file is, by its outermost element."""

_BOX = re.compile(r"\s*(\d+(\s+[-+.\de]+){4,}\s*)?", re.IGNORECASE)  # a line of YOLO


def recognise(source: Source) -> str:
    """What a file is that no reader reads, and the way out; empty if it is not recognised."""
    keys: set[str] = set()
    first = source.start.decode("utf-8-sig", "replace").partition("\n")[0].strip()
    if source.suffix == ".json":
        keys = {*source.outline.keys}
    elif source.suffix == ".csv":
        with suppress(csv.Error):
            keys = {*next(csv.reader([first]), [])}
    elif source.suffix in (".jsonl", ".ndjson", ".manifest") and first.startswith("{"):
        with suppress(ValueError):
            keys = {*parse_json(first)}
    for suffixes, known, what in _BY_KEYS:
        if source.suffix in suffixes.split() and keys.issuperset(known.split("|")):
            return what
    return ""


def recognise_in(path: Path, listing: Listing) -> str:
    """What the first files next to the images of a folder are, as in `recognise`, after their names."""
    looked: set[str] = set()
    for folder in listing.root.walk():
        stems = {listing.images[row].rpartition("/")[2].rpartition(".")[0] for row in folder.images}
        for name in folder.files if folder.images or folder.name in ("", "labels") else ():
            source = Source(path / folder.prefix / name)
            if source.suffix in looked or source.suffix not in (".json", ".csv", ".txt"):
                continue
            looked.add(source.suffix)
            with suppress(InputError):
                if what := recognise(source):
                    return f"{folder.prefix}{name} is {what}"
            if source.suffix != ".txt":
                continue
            if all(map(_BOX.fullmatch, source.start.decode(errors="replace").splitlines())):
                names = f"Put the names of the classes into {path / 'data.yaml'}: `names: [cat, dog]`"
                return f"{folder.prefix}{name} is of a YOLO export without them. {names}"
            if source.path.stem in stems:
                text = f"{folder.prefix}{name} holds text next to the image of this name, perhaps its tags."
                return f"{text} Write {_TABLE} (docs/data.md, Tags in text files)"
    return ""


def not_read(source: Source) -> InputError:
    """Error that says what a source is that no reader recognises, and what to do."""
    path = source.path
    if what := recognise(source):
        return InputError(f"{path}: can't be read, as it is {what}.")
    what = next((text for suffixes, text in _BY_SUFFIX if source.suffix in suffixes.split()), "")
    if not what and source.suffix == ".json":
        what = (
            f"not a known kind of JSON; found {source.outline}. Known are COCO (an object with the keys "
            f"{', '.join(KEYS)}), Label Studio (a list of tasks with `data` and `annotations`), and what "
            f"spml data prepare writes. Write any other as {_TABLE}"
        )
    elif source.suffix == ".xml":
        # Comments and declarations may come before the outermost element.
        root = re.search(rb"<(\w+)", re.sub(rb"<[?!].*?>", b"", source.start, flags=re.DOTALL))
        what = _XML.get(root[1].decode() if root else "", "")
    elif source.suffix == ".txt":
        celeba = re.match(rb"\s*\d+[ \t\r]*\n", source.start)  # the number of rows
        kind = "a list like those of CelebA" if celeba else "a text file, whose lines may mean anything"
        options, rest = (", skiprows=1", '.rename_axis("file")') if celeba else ("", "")
        what = (
            f"{kind}. Write {_TABLE}, or with a column per class. If its columns have names and blanks "
            f'between them, pandas does it: pandas.read_csv("{path.name}", sep=r"\\s+"{options}){rest}'
            f'.to_csv("labels.csv"{"" if celeba else ", index=False"})'
        )
    if what:
        return InputError(f"{path}: is {what}.")
    return InputError(
        f"{path}: {source.suffix or 'a file without a suffix'} is not a known format. Name a folder with one "
        f"folder of images per class, {_TABLE}, COCO or Label Studio JSON, or features (.npz, .arff). All "
        "formats, with an example of each, are in docs/data.md."
    )
