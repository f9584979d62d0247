"""YOLO export: images, a text file of boxes for each of them, and a file with the names of the classes."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from ...common.documents import class_name, parse_yaml, read_text, read_yaml_text
from ...common.errors import InputError
from ...common.phrases import counted, first_few
from ...common.safe import inside, is_file, quote
from ...config import DataConfig
from ..files import list_images
from ..names import FilesBelow, PackedNames
from ..records import Records, label_entries
from ..splits import split_name
from . import Source, register_reader
from .features import distinct

_YAML = ("data.yaml", "data.yml", "dataset.yaml", "dataset.yml")
_NAMES = (*_YAML, "classes.txt", "obj.names", "labels/classes.txt")
_MAX_BYTES = 1 << 24  # of one text file; a thousand polygons have fewer


def is_yolo(source: Source) -> bool:
    """Whether a source is a folder with the names of classes and with `labels`, or text files of boxes."""
    path = source.path
    if not source.is_folder or not any(is_file(path / name) for name in _NAMES):
        return False
    if (path / "labels").is_dir() or any(path.glob("*/labels")):
        return True
    texts = (file for file in path.glob("*.txt") if file.name != "classes.txt")
    suffixes = (".jpg", ".jpeg", ".png", ".JPG")
    return any(is_file(file.with_suffix(suffix)) for file in texts for suffix in suffixes)


@register_reader("yolo", "a YOLO export", recognises=is_yolo, priority=1)
def read_yolo(path: Path, config: DataConfig) -> Records:
    """Read `images/**/x.jpg` with `labels/**/x.txt`, `SPLIT/images` with `SPLIT/labels`, or both together.

    A text file has a line per object, which begins with the number of its class, counted from 0; boxes and
    polygons are not used. Names of classes are those of `data.yaml` or `classes.txt`. If every image lies in
    a folder named after a split, these are the split. An image without a text file, or with an empty one, has
    no known label.
    """
    used = [name for name in _NAMES if is_file(path / name)]
    classes = _read_names(path / used[0])
    listing = list_images(path)
    rows, columns, bare = list[int](), list[int](), list[str]()
    for row, image in enumerate(listing.images):
        name = _text_name(image)
        file = inside(path, name, str(path))
        if not is_file(file):
            bare.append(image)
            continue
        used.append(name)
        found = set()
        for number, line in enumerate(read_text(file, _MAX_BYTES).splitlines(), start=1):
            word = line.split(maxsplit=1)[0] if line.strip() else ""
            if not word:
                continue
            if not (word.isascii() and word.isdigit() and len(word) < 10 and int(word) < len(classes)):
                raise InputError(
                    f"{file}: line {number}: begins with {quote(word)}, which is not the number of a class, "
                    f"0 to {len(classes) - 1}."
                )
            found.add(int(word))
        rows += [row] * len(found)
        columns += sorted(found)
    if not rows:
        raise InputError(
            f"{path}: none of its {counted(len(listing.images), 'image')} has a text file with an object, "
            f"such as {_text_name(listing.images[0]) if listing.images else 'labels/1.txt'}."
        )
    splits = [next(filter(None, map(split_name, image.split("/")[:-1])), "") for image in listing.images]
    if any(splits) and "" in splits:
        raise InputError(
            f"{path}: {quote(listing.images[splits.index('')])} lies in no folder named train, val or test, "
            "while other images do. Move it, or pass data.path with the folder of one split."
        )
    ids = PackedNames.of(listing.images)
    notes = [f"{counted(len(rows), 'object')} of {counted(len(classes), 'class', 'classes')}."]
    if bare:
        some = counted(len(bare), "image has", "images have")
        notes.append(f"{some} no text file, so no known label: {first_few(bare, 3)}.")
    return Records(
        source=str(path),
        name=path.resolve().name,
        ids=ids,
        inputs=FilesBelow(path, ids),
        classes=classes,
        classes_given=True,
        labels=label_entries((rows, columns), (len(ids), len(classes)), config.default_label),
        split=tuple(splits) if any(splits) else None,
        notes=(*notes, *listing.notes(used)),
    )


def _read_names(file: Path) -> tuple[str, ...]:
    if file.name in _YAML:
        document = parse_yaml(read_yaml_text(file), str(file))
        names = document.get("names") if isinstance(document, dict) else None
        if isinstance(names, dict) and sorted(map(str, names)) == sorted(map(str, range(len(names)))):
            names = [names.get(number, names.get(str(number))) for number in range(len(names))]
    else:
        names = [line.strip() for line in read_text(file, _MAX_BYTES).splitlines() if line.strip()]
    if not (isinstance(names, list) and names and all(type(name) in (str, int) for name in names)):
        raise InputError(
            f"{file}: has no names of classes. Expected `names: [cat, dog]`, or a name for each of 0, 1, "
            "...; write a name such as yes or 1.0 in quotes."
        )
    classes = tuple(class_name(str(name), f"{file}: class {number}") for number, name in enumerate(names))
    return distinct(classes, f"{file}: names")


def _text_name(image: str) -> str:
    """Name of the text file of an image: in `labels` in place of the last `images`, or next to it."""
    path = PurePosixPath(image).with_suffix(".txt")
    parts = list(path.parts)
    images = [position for position, part in enumerate(parts[:-1]) if part.lower() == "images"]
    if images:
        parts[images[-1]] = "labels"
    return "/".join(parts)
