"""PASCAL VOC: a folder with Annotations/*.xml and JPEGImages, optionally with lists of splits."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ...common.documents import class_name, parse_xml, read_text
from ...common.errors import InputError
from ...common.phrases import counted
from ...common.safe import quote
from ...config import DataConfig
from ..files import IMAGE_SUFFIXES, find_files, images_folder
from ..records import Entries, Records, label_entries, objects_of, without_box
from ..splits import SPLITS
from . import register_reader

MAX_BYTES = 1 << 22  # of one XML file; those of VOC have a few thousand


class _Object(NamedTuple):
    row: int  # position of its image
    name: str  # of its class
    difficult: bool
    box: tuple[float, ...] | None  # left, top, right, bottom; empty if not usable, None if there is none
    size: tuple[float, float] | None  # width and height of its image, if they are known


@register_reader(
    "voc",
    "a PASCAL VOC folder",
    recognises=lambda source: source.is_folder and any((source.path / "Annotations").glob("[!.]*.xml")),
    priority=1,
)
def read_voc(path: Path, config: DataConfig) -> Records:
    """Read a folder such as VOCdevkit/VOC2012.

    The names of an image's objects are its known positives; a class of which the image has only `difficult`
    objects stays unknown whatever `data.unlisted` says. Boxes are used for `config.observe` only, so wrong
    ones are counted in a note. Splits are those of ImageSets/Main/{train,val,test}.txt; images in none of
    them are left out.
    """
    root = images_folder(config) or path / "JPEGImages"
    names = sorted(file.stem for file in (path / "Annotations").glob("[!.]*.xml"))
    known = {*names}
    splits: dict[str, str] = {}
    for split in SPLITS:
        file = path / "ImageSets" / "Main" / f"{split}.txt"
        lines = read_text(file, limit=1 << 28).splitlines() if file.is_file() else []
        for number, name in enumerate(map(str.strip, lines), start=1):
            if name and name not in known:
                raise InputError(
                    f"{file}: line {number}: there is no Annotations/{quote(name)[1:-1]}.xml. Expected one "
                    "name per line, such as 2008_000002."
                )
            if name and splits.setdefault(name, split) != split:
                raise InputError(
                    f"{file}: line {number}: {quote(name)} is also in {splits[name]}.txt. An image must be "
                    "in one split."
                )
    listed = [name for name in names if name in splits] if splits else names
    paths = [path / "Annotations" / f"{name}.xml" for name in listed]
    records = read_xml_files(paths, root, path, config)
    left_out = counted(len(names) - len(listed), "annotated image")
    notes = [f"{left_out} in no list of ImageSets/Main: left out."] if len(listed) < len(names) else []
    return replace(
        records,
        name=path.resolve().name,
        split=tuple(splits[name] for name in listed) if splits else None,
        notes=(*records.notes, *notes),
    )


def read_xml_files(paths: Sequence[Path], root: Path, source: Path, config: DataConfig) -> Records:
    """Read XML files, one per image below `root`, without a split; messages name `source`."""
    names: list[list[str]] = []
    objects: list[_Object] = []
    for row, path in enumerate(paths):
        stated, found = _read_annotation(path, row)
        # The name of the XML file comes first, as in VOC's own tools, then the one that it states.
        names.append([*(path.stem + suffix for suffix in IMAGE_SUFFIXES), *([stated] if stated else [])])
        objects += found
    files = find_files(root, names, lambda row: str(paths[row]), config.missing)
    if not objects:
        raise InputError(f"{source}: no annotation has an object. At least some must have one.")
    classes = tuple(sorted({each.name for each in objects}))
    column = {name: position for position, name in enumerate(classes)}

    def entries(chosen: Sequence[_Object]) -> Entries:
        return [each.row for each in chosen], [column[each.name] for each in chosen]

    hard = [each for each in objects if each.difficult]
    easy = [each for each in objects if not each.difficult]
    boxed = [each for each in easy if each.box and each.size]
    notes = [
        f"{counted(len(paths), 'image')} in {root}, {counted(len(objects), 'object')}, {len(hard):,} of them "
        "difficult. A class of which an image has only difficult objects is unknown there."
    ]
    unboxed = sum(not each.box for each in objects)
    if unboxed and any(each.box is not None for each in objects):
        notes.append(without_box(unboxed, "object"))
    return Records(
        source=str(source),
        name=root.resolve().name,
        ids=tuple(files.names),
        inputs=files,
        classes=classes,
        classes_given=False,
        labels=label_entries(
            entries(easy), (len(paths), len(classes)), config.default_label, unknown=entries(hard)
        ),
        notes=tuple(notes),
        objects=objects_of(
            entries(boxed), [each.box or () for each in boxed], [each.size or () for each in boxed]
        ),
    )


def _read_annotation(path: Path, row: int) -> tuple[str, list[_Object]]:
    """Name of the image, if it is stated, and the objects in it."""
    root = parse_xml(path, MAX_BYTES)
    if root.tag != "annotation":
        raise InputError(f"{path}: its outermost element is <{quote(root.tag)[1:-1]}>, not <annotation>.")
    width, height = (_number(root, f"size/{key}") for key in ("width", "height"))
    # Some tools write a size of 0 if they don't know it.
    size = (width, height) if min(width, height) >= 1 else None
    objects = []
    for number, item in enumerate(root.findall("object"), start=1):
        where = f"{path}: object {number}"
        difficult = _text(item, "difficult").lower() or "0"
        if difficult not in ("0", "1", "unspecified"):
            raise InputError(f"{where}: <difficult> must be 0 or 1, but is {quote(difficult)}.")
        name = class_name(_text(item, "name"), f"{where}: <name>")
        box: tuple[float, ...] | None = None
        if item.find("bndbox") is not None:
            corners = ("xmin", "ymin", "xmax", "ymax")
            left, top, right, bottom = (_number(item, f"bndbox/{key}") for key in corners)
            # Pixels are counted from 1, the last one included.
            box = (left - 1, top - 1, right, bottom) if left <= right and top <= bottom else ()
        objects.append(_Object(row, name, difficult == "1", box, size))
    return _text(root, "filename"), objects


def _text(element: ET.Element, tag: str) -> str:
    return (element.findtext(tag) or "").strip()


def _number(element: ET.Element, tag: str) -> float:
    """A finite number; NaN if there is none."""
    try:
        number = float(_text(element, tag))
    except ValueError:
        return math.nan
    return number if math.isfinite(number) else math.nan
