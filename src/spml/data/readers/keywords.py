"""Photos that carry their labels: keywords as photo programs write them.

Keywords are read from the IPTC record and the XMP packet of a photo, and from XMP files next to it
(`a.jpg.xmp` and `a.xmp`). A sidecar that `spml predict --sidecars` wrote, and that no other program has saved
since, holds predictions and is not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image, IptcImagePlugin

from ...common.documents import class_name, parse_xml
from ...common.errors import InputError
from ...common.label_checks import rows_of
from ...common.phrases import counted, first_few
from ...common.safe import is_file, read_bytes, refuse_leaving_link
from ...config import DataConfig
from ..files import list_images
from ..images.decoding import UnreadableImageError, decode
from ..names import FilesBelow, PackedNames
from ..records import Records, label_entries

MAX_BYTES = 1 << 24  # of one XMP packet, which may hold a small copy of the photo
TOOLKIT = "spml"
"""`x:xmptk` of the sidecars that this package writes; a program that saves one puts its own name there."""

_KEYWORDS, _CHARACTERS, _UTF8 = (2, 25), (1, 90), b"\x1b%G"  # of IPTC
_SUBJECT = "http://purl.org/dc/elements/1.1/}subject"
_ITEM = "http://www.w3.org/1999/02/22-rdf-syntax-ns#}li"
_NAME_OF_TOOLKIT = "adobe:ns:meta/}xmptk"


def read_keywords(path: Path, config: DataConfig) -> Records:
    """Read a folder of photos at any depth, whose labels are their keywords. Names of folders are not read.

    Raises:
        InputError: It is no folder, or no photo has a keyword; or a sidecar is no XML.
    """
    if not path.is_dir():
        raise InputError(f"{path}: data.keywords reads photos: name a folder of them, or leave it out.")
    listing = list_images(path)
    ids, sidecars, own = PackedNames.of(listing.images), list[str](), 0
    rows, names = list[int](), list[str]()
    for row, photo in enumerate(ids):
        found = [*_in_photo(path / photo, config.max_pixels)]
        for name in (f"{photo}.xmp", str(Path(photo).with_suffix(".xmp"))):
            if is_file(path / name):
                refuse_leaving_link(path / name, [path], str(path))
                sidecars.append(name)
                keywords = _in_packet(path / name)
                own += keywords is None
                found += keywords or ()
        found = [class_name(name, f"{path / photo}: keyword") for name in found if name.strip()]
        rows += [row] * len(found)
        names += found
    classes = tuple(sorted(set(names)))
    if not classes:
        none = f"{path}: none of {counted(len(ids), 'photo')} has a keyword."
        raise InputError(" ".join([none, *listing.notes(sidecars)]))
    tagged = len(set(rows))
    once = [name for name, count in zip(*np.unique(names, return_counts=True), strict=True) if count == 1]
    notes = [
        f"{tagged:,} of {counted(len(ids), 'photo')} have keywords, {len(classes):,} different ones. Names "
        "of folders are not read as labels."
    ]
    if once:
        one = counted(len(once), "keyword is", "keywords are")
        notes.append(
            f"{one} in one photo only, such as {first_few(once, 3)}. data.rename can leave them out."
        )
    if own:
        are = counted(own, "sidecar holds", "sidecars hold")
        notes.append(f"{are} predictions of spml, which are not read as labels.")
    return Records(
        source=str(path),
        name=path.resolve().name,
        ids=ids,
        inputs=FilesBelow(path, ids),
        classes=classes,
        classes_given=False,
        labels=label_entries((rows, rows_of(classes, names)), (len(ids), len(classes)), config.default_label),
        notes=(*notes, *listing.notes(sidecars)),
    )


def _in_photo(photo: Path, max_pixels: int) -> Iterator[str]:
    """Keywords in a photo; none of one that can't be read, which is found when all images are checked."""

    def find(image: Image.Image) -> tuple[list[bytes], bool, bytes | None]:
        fields = IptcImagePlugin.getiptcinfo(image) or {}  # type: ignore[arg-type]
        keywords = fields.get(_KEYWORDS, [])
        return (
            keywords if isinstance(keywords, list) else [keywords],
            fields.get(_CHARACTERS) == _UTF8,
            image.info.get("xmp"),
        )

    try:
        keywords, utf8, xmp = decode(read_bytes(photo), max_pixels, find)
    except (UnreadableImageError, OSError):
        return
    for keyword in keywords:
        try:
            yield keyword.decode()
        except UnicodeDecodeError:
            yield keyword.decode("utf-8" if utf8 else "latin-1", "replace")
    if xmp:
        yield from _in_packet(photo, xmp.rstrip(b"\0 \n") if isinstance(xmp, bytes) else xmp.encode()) or ()


def _in_packet(path: Path, content: bytes | None = None) -> list[str] | None:
    """Keywords of an XMP packet, or of the file; None if this package wrote it."""
    root = parse_xml(path, MAX_BYTES, content)
    if root.get(_NAME_OF_TOOLKIT) == TOOLKIT:
        return None
    return [item.text or "" for subject in root.iter(_SUBJECT) for item in subject.iter(_ITEM)]
