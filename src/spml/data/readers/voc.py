"""PASCAL VOC: a folder with Annotations/*.xml and JPEGImages, perhaps with lists of splits."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ...config import DataConfig
from ...errors import InputError
from ..images import SUFFIXES
from ..records import Records
from ..safe import is_file, shown
from ..splits import SPLITS
from .documents import class_name
from .entries import Entries, label_entries, objects_of
from .places import find_files, images_folder
from .registry import register_reader

MAX_BYTES = 1 << 22  # of one XML file; those of VOC have some thousand
MAX_LIST = 1 << 28
MAX_SIDE = 1_000_000
_FORBIDDEN = re.compile(rb"<!\s*(DOCTYPE|ENTITY)", re.IGNORECASE)
_CORNERS = ("xmin", "ymin", "xmax", "ymax")
# The usual ending first: the others are tried only where it is not there.
_SUFFIXES = (".jpg", *sorted(SUFFIXES - {".jpg"}), ".JPG", ".JPEG", ".PNG")


@dataclass(frozen=True)
class _Object:
    name: str
    difficult: bool
    box: tuple[float, float, float, float] | None


@dataclass(frozen=True)
class _Annotation:
    filename: str
    size: tuple[float, float] | None
    objects: tuple[_Object, ...]


def is_voc(path: Path) -> bool:
    """Whether a folder holds Annotations with XML files."""
    return any((path / "Annotations").glob("[!.]*.xml"))


@register_reader(
    "voc",
    "a PASCAL VOC folder",
    recognises=lambda source: source.is_folder and is_voc(source.path),
    priority=1,
)
def read_voc(path: Path, config: DataConfig) -> Records:
    """Read a folder such as VOCdevkit/VOC2012.

    The names of an image's objects are its known positives; one that only `difficult` objects have stays
    unknown whatever `config.unlisted` says. Splits are those of ImageSets/Main/{train,val,test}.txt; images
    in none of them are left out.

    Raises:
        InputError: damaged or hostile XML, a missing image, an image in two splits; names file and line.
    """
    source = str(path)
    root = images_folder(config) or path / "JPEGImages"
    if not root.is_dir():
        raise InputError(
            f"{source}: has Annotations, but no folder JPEGImages. If the images are elsewhere, say "
            "--data.images with the folder that holds them all."
        )
    names = sorted(file.stem for file in (path / "Annotations").glob("[!.]*.xml"))
    splits = _splits(path, set(names))
    notes = []
    if splits and (rest := len(names) - len(splits)):
        notes.append(f"{rest:,} annotated images are in no list of ImageSets/Main and were left out.")
    names = [name for name in names if not splits or name in splits]
    places = [path / "Annotations" / f"{name}.xml" for name in names]
    annotations = [_read(place) for place in places]
    files = find_files(
        root,
        [_file_names(name, found.filename) for name, found in zip(names, annotations, strict=True)],
        lambda row: str(places[row]),
    )
    classes = tuple(sorted({thing.name for found in annotations for thing in found.objects}))
    if not classes:
        raise InputError(f"{source}: no annotation has an object. At least some must have one.")
    column = {name: place for place, name in enumerate(classes)}
    easy, hard = (
        [
            (row, thing)
            for row, found in enumerate(annotations)
            for thing in found.objects
            if thing.difficult == which
        ]
        for which in (False, True)
    )
    boxed = [
        (row, thing.name, thing.box, size)
        for row, thing in easy
        if thing.box and (size := annotations[row].size)
    ]
    notes.insert(
        0,
        f"{len(names):,} images in {root}, {len(easy) + len(hard):,} objects, {len(hard):,} of them "
        "difficult; what only difficult objects show is unknown.",
    )

    def entries(pairs: Iterable[tuple[int, str]]) -> Entries:
        known = list(pairs)
        return Entries.of([row for row, _ in known], [column[name] for _, name in known])

    return Records(
        source=source,
        name=path.resolve().name,
        ids=tuple(file.relative_to(root).as_posix() for file in files),
        inputs=tuple(files),
        classes=classes,
        classes_given=False,
        labels=label_entries(
            entries((row, thing.name) for row, thing in easy),
            (len(names), len(classes)),
            config.unlisted,
            unknown=entries((row, thing.name) for row, thing in hard),
        ),
        split=tuple(splits[name] for name in names) if splits else None,
        notes=tuple(notes),
        objects=objects_of(
            entries((row, name) for row, name, _, _ in boxed),
            [box for _, _, box, _ in boxed],
            [size for _, _, _, size in boxed],
        ),
    )


def _splits(path: Path, names: set[str]) -> dict[str, str]:
    """The split of each image that a list names; empty without lists."""
    splits: dict[str, str] = {}
    for split in SPLITS:
        file = path / "ImageSets" / "Main" / f"{split}.txt"
        if not file.is_file():
            continue
        for number, line in enumerate(_lines(file), start=1):
            words = line.split()
            if not words:
                continue
            name = words[0]
            if len(words) > 1 or name not in names:
                wrong = (
                    "there is no"
                    if len(words) == 1
                    else "expected one name per line, such as 2008_000002, of"
                )
                raise InputError(
                    f"{file}: line {number}: {wrong} Annotations/{shown(line.strip())[1:-1]}.xml."
                )
            if splits.setdefault(name, split) != split:
                raise InputError(
                    f"{file}: line {number}: {shown(name)} is in {splits[name]}.txt, too. An image must be "
                    "in one split."
                )
    return splits


def _lines(path: Path) -> list[str]:
    try:
        if path.stat().st_size > MAX_LIST:
            raise InputError(f"{path}: is larger than {MAX_LIST:,} bytes, but should list names of images.")
        return path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8: {error.reason} at position {error.start}.") from error


def _file_names(name: str, filename: str) -> list[str]:
    """What the image may be called: as the XML file, which VOC's own tools go by, or as that says."""
    return [*(name + suffix for suffix in _SUFFIXES), *([filename] if filename else [])]


def _read(path: Path) -> _Annotation:
    root = _parse(path)
    if root.tag != "annotation":
        raise InputError(f"{path}: its outermost element is <{shown(root.tag)[1:-1]}>, not <annotation>.")
    width, height = (_number(root, f"size/{key}", str(path)) for key in ("width", "height"))
    things = tuple(
        _object(thing, f"{path}: object {place}")
        for place, thing in enumerate(root.findall("object"), start=1)
    )
    # Some tools write a size of 0 where they don't know it.
    size = (width, height) if width and height and min(width, height) >= 1 else None
    return _Annotation(_text(root, "filename"), size, things)


def _parse(path: Path) -> ET.Element:
    """The outermost element; what could make a small file large, or read another one, is refused."""
    try:
        if not is_file(path):
            raise InputError(f"{path}: is no file.")
        if (size := path.stat().st_size) > MAX_BYTES:
            raise InputError(f"{path}: {size:,} bytes are more than an annotation may have ({MAX_BYTES:,}).")
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror or error}.") from error
    if b"\0" in data:
        raise InputError(f"{path}: holds NUL bytes, so it is damaged or UTF-16. Save it as UTF-8.")
    if _FORBIDDEN.search(data):
        raise InputError(f"{path}: has a DTD or entities, which annotations don't need. Remove them.")
    try:
        return ET.fromstring(data)
    except (ET.ParseError, ValueError, LookupError) as error:  # the latter two: a strange encoding
        raise InputError(f"{path}: is no valid XML: {error}.") from error


def _object(thing: ET.Element, where: str) -> _Object:
    difficult = _text(thing, "difficult") or "0"
    if difficult not in ("0", "1"):
        raise InputError(f"{where}: <difficult> must be 0 or 1, but is {shown(difficult)}.")
    name = class_name(_text(thing, "name"), f"{where}: <name>")
    box = None
    if thing.find("bndbox") is not None:
        corners = [_number(thing, f"bndbox/{key}", where) for key in _CORNERS]
        left, top, right, bottom = (math.nan if value is None else value for value in corners)
        if not (left <= right and top <= bottom):
            found = ", ".join("nothing" if value is None else f"{value:g}" for value in corners)
            raise InputError(
                f"{where}: <bndbox> must be {', '.join(_CORNERS)} in this order of size; found {found}."
            )
        box = left - 1, top - 1, right, bottom  # pixels are counted from 1, the last one included
    return _Object(name, difficult == "1", box)


def _text(element: ET.Element, tag: str) -> str:
    return (element.findtext(tag) or "").strip()


def _number(element: ET.Element, tag: str, where: str) -> float | None:
    """A number; None if it is not stated."""
    text = _text(element, tag)
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not abs(number) < MAX_SIDE:
        raise InputError(f"{where}: <{tag}> must be a number below {MAX_SIDE:,}, but is {shown(text)}.")
    return number
