"""Images in a folder and below it, found in one pass, and what is left out of them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

from ...common.errors import InputError, one_line
from ...common.phrases import counted, first_few
from ...common.safe import CONTROL, is_special, quote
from ..images.image_files import SUFFIXES

SYSTEM_FOLDERS = {
    "__macosx", "@eadir", "@tmp", "@recycle", "#recycle", "#snapshot", "$recycle.bin", "lost+found",
    "system_volume_information", "thumbs", "thumbnails", "__pycache__",
}  # fmt: skip
"""Names, in lower case and with `_` for blanks, of folders that systems and programs make on their own."""

_ADVICE = {
    "photo: pip install pillow-heif": "heic heif hif",
    "photo: install a newer Pillow": "avif",
    "raw photo: convert it to JPEG": "3fr arw cr2 cr3 crw dng nef nrw orf pef raf raw rw2 srw x3f",
    "picture: convert it to PNG": "svg psd ai eps pdf tga ppm pgm pbm pnm exr hdr jp2 j2k jxl ico pcx dds",
    "medical image: convert it to PNG": "dcm dicom nii mha mhd nrrd",
    "video: extract its frames": "mp4 m4v mov avi mkv webm mpg mpeg wmv 3gp",
    "archive: unpack it": "zip tar tgz gz bz2 xz 7z rar",
}
_ADVICE_OF = {f".{suffix}": text for text, suffixes in _ADVICE.items() for suffix in suffixes.split()}


@dataclass(eq=False)
class Folder:
    """A folder of a listing."""

    prefix: str  # path relative to the folder that was listed, with a slash at its end; empty for that folder
    images: range = range(0)  # positions of its own images in `Listing.images`
    files: list[str] = field(default_factory=list)  # names of its other files that are not hidden
    folders: list[Folder] = field(default_factory=list)  # its folders, sorted by name
    below: range = range(0)  # positions of its own images and those in its folders

    @property
    def name(self) -> str:
        """Last part of the path."""
        return self.prefix[:-1].rpartition("/")[2]

    @property
    def full(self) -> list[Folder]:
        """Its folders that hold images, at any depth."""
        return [folder for folder in self.folders if folder.below]

    def walk(self) -> Iterator[Folder]:
        """The folder, and all folders below it."""
        left = [self]
        while left:
            folder = left.pop()
            yield folder
            left += reversed(folder.folders)


@dataclass
class Listing:
    """Content of a folder and of all folders below it."""

    images: list[str]  # relative, with slashes: in every folder its own images, sorted, then those below
    root: Folder  # the folder itself
    links: list[Path]  # the images and folders that are links
    system: list[str]  # folders of systems and programs, and hidden ones, which are left out
    hidden: list[str]  # names of hidden images, which are left out
    unfollowed: list[str]  # folders that are links and are left out

    def notes(self, used: Iterable[str] = ()) -> list[str]:
        """Notes on what is left out, one line each.

        Args:
            used: Paths, relative to the folder, of files that are no images and have been read.
        """
        done = {*used}
        files = ((folder.prefix, name) for folder in self.root.walk() for name in folder.files)
        notes = [note_unread([name for prefix, name in files if prefix + name not in done])]
        for names, noun, plural in (
            (self.system, "hidden or system folder is", "hidden or system folders are"),
            (self.hidden, "hidden image is", "hidden images are"),
            (self.unfollowed, "folder that is a link is", "folders that are links are"),
        ):
            if names:
                listed = one_line(first_few(names, 5))
                notes.append(f"{counted(len(names), noun, plural)} left out: {listed}.")
        return [note for note in notes if note]


def list_images(path: Path, follow: int = 0) -> Listing:
    """List the images in a folder and below it.

    Links to folders are followed in `follow` levels of folders, unless they lead to a folder that they are
    in.
    """
    listing = Listing([], Folder(""), [], [], [], [])
    left, order = [(listing.root, 0)], []
    while left:
        folder, level = left.pop()
        order.append(folder)
        start = len(listing.images)
        links = _list_folder(path, folder, listing)
        folder.images = range(start, len(listing.images))
        for link in links:
            target = os.path.realpath(path / link.prefix)
            if level < follow and not Path(os.path.realpath(path / folder.prefix)).is_relative_to(target):
                folder.folders.append(link)
                listing.links.append(path / link.prefix[:-1])
            else:
                listing.unfollowed.append(link.prefix[:-1])
        if links:
            folder.folders.sort(key=attrgetter("prefix"))
        left += [(below, level + 1) for below in reversed(folder.folders)]
    for folder in reversed(order):
        last = folder.folders[-1].below.stop if folder.folders else folder.images.stop
        folder.below = range(folder.images.start, last)
    return listing


def note_unread(names: Sequence[str]) -> str:
    """Note on files that are not read, by suffix, with what would read them; empty if there are none."""
    if not names:
        return ""
    suffixes = Counter(os.path.splitext(name)[1].lower() or "without a suffix" for name in names)
    phrases = [
        f"{count:,} {suffix}" + (f" ({_ADVICE_OF[suffix]})" if suffix in _ADVICE_OF else "")
        for suffix, count in suffixes.most_common()
    ]
    # What has advice comes first, since it probably is an image.
    phrases.sort(key=lambda phrase: "(" not in phrase)
    return f"{counted(len(names), 'file is', 'files are')} not read: {first_few(phrases, 8)}."


def _list_folder(path: Path, folder: Folder, listing: Listing) -> list[Folder]:
    """Add the content of one folder to a listing. Returns the folders in it that are links."""
    prefix, images = folder.prefix, listing.images
    links: list[Folder] = []
    try:
        with os.scandir(path / prefix) as entries:
            found = sorted(entries, key=attrgetter("name"))
    except OSError as error:
        raise InputError(f"{error.filename}: can't be listed: {error.strerror}.") from error
    for entry in found:
        name = entry.name
        if CONTROL.search(name) and name[0] != ".":
            raise InputError(
                f"{path / prefix}: the name {quote(name)} holds a line break, another control character, or "
                "a byte that is not UTF-8. Rename it."
            )
        is_link = entry.is_symlink()  # perhaps to itself, which `entry.is_dir` refuses to follow
        if os.path.isdir(entry) if is_link else entry.is_dir():
            if name[0] == "." or name.lower().replace(" ", "_") in SYSTEM_FOLDERS:
                listing.system.append(prefix + name)
            else:
                (links if is_link else folder.folders).append(Folder(f"{prefix}{name}/"))
            continue
        plain = entry.is_file(follow_symlinks=False)
        image = name[name.rfind(".") :].lower() in SUFFIXES
        if name[0] == ".":
            if image and name[1:2] != "_":  # `._name` is metadata that macOS writes next to a file
                listing.hidden.append(prefix + name)
        elif image and (plain or not is_special(Path(entry.path))):
            images.append(prefix + name)
            if not plain:
                listing.links.append(Path(entry.path))
        else:
            folder.files.append(name)
    return links
