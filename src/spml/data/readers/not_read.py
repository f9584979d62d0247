"""Formats that are not read: how each is recognised, and how to get its content read."""

from __future__ import annotations

import csv
import re
from contextlib import suppress
from pathlib import Path

from ...common.documents import parse_json
from ...common.errors import InputError
from ..files import Listing
from ..images.image_files import SUFFIXES
from . import Source
from .coco import KEYS

_TABLE = "Write a table (.csv, .tsv, .jsonl or .parquet) with the columns `file` and `labels`"
_COCO = "Export the data as COCO JSON"
_NUMPY = "Save its features and labels with numpy.savez as X (N, D) and Y (N, C) in a .npz file"
_KNOWN = (
    (".json", "items|categories", f"Datumaro JSON. {_COCO}"),
    (".json", "id|annotator", "JSON-MIN of Label Studio, whose labels have many forms. Export it as `JSON`"),
    (".json", "image|annotations", f"CreateML JSON. {_COCO}"),
    (".json", "imagePath|shapes", f"LabelMe's JSON of one image. {_COCO}"),
    (".json", "_via_img_metadata", "a project of VIA. Export its annotations in the COCO format"),
    (".json", "image_id|category_id", "a list of COCO results. Name the file with images and categories"),
    (".json", "classes|labels", f"FiftyOne's list of indices. {_TABLE} (docs/data.md, FiftyOne)"),
    (".json", "samples", f"a FiftyOne dataset. {_TABLE} (docs/data.md, FiftyOne)"),
    (".json", "labels|projection", f"BigEarthNet's JSON of one patch. {_TABLE}, one file per patch"),
    (".json", "description|size|objects", f"Supervisely's JSON of one image. {_COCO}"),
    (".json", "images|annotations", f"COCO without categories. {_TABLE} of what it says of its images"),
    (".json .ndjson", "data_row|projects", f"an export of Labelbox. {_TABLE}: ids and answers"),
    (".json .csv", "DataRow ID|Label", f"an export of Labelbox. {_TABLE}: ids and answers"),
    (".csv", "filename|region_shape_attributes", "a CSV of VIA. Export the annotations in the COCO format"),
    (".csv", "ImageID|LabelName|Confidence", f"of OpenImages. {_TABLE} (docs/data.md, OpenImages)"),
    (".jsonl", "imageGcsUri", f"an import file of Vertex AI. {_TABLE}, which are the displayNames"),
    (".jsonl .manifest", "source-ref", f"a manifest of SageMaker or Rekognition. {_TABLE}: `source-ref` "
     "without the bucket, and the names in `class-map`"),
    (".xml", "annotations", "an XML file of CVAT. Export boxes and polygons as `COCO 1.0`, tags as "
     "`ImageNet 1.0`"),
    (".xml", "annotation", "a file of PASCAL VOC. Name the folder that holds Annotations and JPEGImages"),
    (".txt", "boxes", "of a YOLO export. Name its folder, and put the names of the classes into data.yaml "
     "there: `names: [cat, dog]`"),
    (".txt", "count", f"a list like those of CelebA. {_TABLE}, or a column per class: pandas.read_csv("
     '"{file}", sep=r"\\s+", skiprows=1).rename_axis("file").to_csv("labels.csv")'),
    (".txt", "text", "a text file, whose lines may mean anything, such as tags of an image (docs/data.md, "
     f"Tags in text files). {_TABLE}"),
    (".json", "", "not a known kind of JSON; found {found}. Known are COCO (an object with the keys "
     f"{', '.join(KEYS)}), Label Studio (a list of tasks with `data` and `annotations`), and what spml data "
     f"prepare writes. {_TABLE} of any other"),
    (".xlsx .xls .xlsm .ods .numbers", "", "a spreadsheet, which is not read. Save it as CSV in UTF-8; or "
     "read it with pandas and pass the DataFrame to spml.train"),
    (".zip .tar .tgz .gz .bz2 .xz .zst .7z .rar", "", "an archive, which is not read. Unpack it, and name "
     "the folder or the file in it"),
    (".pkl .pickle .joblib .pt .pth", "", "a pickle, which can run code when it is loaded, so it is never "
     f"read. Load it where you trust it. {_NUMPY}, or labels as a .csv file"),
    (".h5 .hdf5 .mat", "", f"not read. {_NUMPY}"),
    (".db .sqlite .sqlite3", "", "a database, which is not read. Export files and labels as a .csv file"),
    (".feather .arrow .orc", "", "not read. Save it as Parquet, or name the folder that `save_to_disk` of "
     "`datasets` wrote"),
    (".tfrecord .tfrecords", "", f"not read. Save its images as files. {_TABLE}"),
    (".yaml .yml", "", f"YAML, which is not read. {_TABLE}; several tables are joined by pandas.concat. Of a "
     "YOLO export, name the folder"),
    (" ".join(SUFFIXES), "", f"an image. Name the folder of images. {_TABLE} if they have labels"),
)  # fmt: skip
"""Suffixes; traits (see `_traits`), all of which it has; what it is, and the way out."""

_BOX = re.compile(r"\s*(\d+(\s+[-+.\de]+){4,}\s*)?", re.IGNORECASE)  # a line of YOLO


def _traits(source: Source) -> set[str]:
    """Keys of a JSON document or of its first entry, columns, the outermost element of XML, or a word for the
    form of a text."""
    lines = source.start.decode("utf-8-sig", "replace").splitlines() or [""]
    if source.suffix == ".json":
        return {*source.outline.keys}
    if source.suffix == ".csv":
        with suppress(csv.Error):
            return {*next(csv.reader(lines[:1]), [])}
    if source.suffix in (".jsonl", ".ndjson", ".manifest") and lines[0].startswith("{"):
        with suppress(ValueError):
            return {*parse_json(lines[0])}
    if source.suffix == ".xml":
        # Comments and declarations may come before the outermost element.
        return {*re.findall(r"<(\w+)", re.sub(r"<[?!].*?>", "", "\n".join(lines), flags=re.DOTALL))[:1]}
    if source.suffix == ".txt":
        forms = {"text": True, "count": lines[0].strip().isdigit(), "boxes": all(map(_BOX.fullmatch, lines))}
        return {form for form, fits in forms.items() if fits}
    return set()


def recognise(source: Source, *, by_suffix: bool = False) -> str:
    """What a file is that no reader reads, and the way out; empty if neither its traits nor, `by_suffix`, its
    suffix says so."""
    fitting = [each for each in _KNOWN if source.suffix in each[0].split()]
    traits = _traits(source) if fitting else set[str]()
    for _, known, what in fitting:
        if traits.issuperset(known.split("|")) if known else by_suffix:
            found = source.outline if source.suffix == ".json" else ""
            return what.format(file=source.path.name, found=found)
    return ""


def recognise_in(path: Path, listing: Listing) -> str:
    """What the first files next to the images of a folder are, as in `recognise`, after their names."""
    stems = {image.rpartition("/")[2].rpartition(".")[0] for image in listing.images}
    looked: set[str] = set()
    for folder in listing.root.walk():
        for name in folder.files if folder.images or folder.name in ("", "labels") else ():
            source = Source(path / folder.prefix / name)
            sidecar = source.suffix == ".txt" and source.path.stem in stems
            if source.suffix not in looked and (sidecar or source.suffix in (".json", ".csv")):
                looked.add(source.suffix)
                with suppress(InputError):
                    if what := recognise(source):
                        return f"{folder.prefix}{name} is {what}"
    return ""


def not_read(source: Source) -> InputError:
    """Error that says what a source is that no reader recognises, and what to do."""
    if what := recognise(source, by_suffix=True):
        return InputError(f"{source.path}: is {what}.")
    return InputError(
        f"{source.path}: {source.suffix or 'a file without a suffix'} is not a known format. Name a folder "
        "with one folder of images per class, a table (.csv, .tsv, .jsonl or .parquet), COCO or Label Studio "
        "JSON, or features (.npz, .arff). All formats, with an example of each, are in docs/data.md."
    )
