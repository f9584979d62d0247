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
    left_out: list[str]  # hidden images and folders, folders of systems, and folders that are links

    def notes(self, used: Iterable[str] = ()) -> list[str]:
        """Notes on what is left out, one line each.

        Args:
            used: Paths, relative to the folder, of files that are no images and have been read.
        """
        done = {*used}
        files = ((folder.prefix, name) for folder in self.root.walk() for name in folder.files)
        notes = [note_unread([name for prefix, name in files if prefix + name not in done])]
        if self.left_out:
            listed = one_line(first_few(self.left_out, 5))
            number = counted(
                len(self.left_out),
                "hidden, system or linked entry is",
                "hidden, system or linked entries are",
            )
            notes.append(f"{number} left out: {listed}.")
        return [note for note in notes if note]


def list_images(path: Path, follow: int = 0) -> Listing:
    """List the images in a folder and below it.

    Links to folders are followed in `follow` levels of folders, unless they lead to a folder that they are
    in.
    """
    listing = Listing([], Folder(""), [], [])
    left, order = [(listing.root, 0)], []
    while left:
        folder, level = left.pop()
        order.append(folder)
        start = len(listing.images)
        _list_folder(path, folder, listing, followed=level < follow)
        folder.images = range(start, len(listing.images))
        left += [(below, level + 1) for below in reversed(folder.folders)]
    for folder in reversed(order):
        last = folder.folders[-1].below.stop if folder.folders else folder.images.stop
        folder.below = range(folder.images.start, last)
    return listing


def note_unread(names: Sequence[str]) -> str:
    """Note on files that are not read, by suffix; empty if there are none."""
    if not names:
        return ""
    suffixes = Counter(os.path.splitext(name)[1].lower() or "without a suffix" for name in names)
    listed = first_few([f"{count:,} {suffix}" for suffix, count in suffixes.most_common()], 8)
    photos = "; pip install pillow-heif reads .heic" if ".heic" in suffixes else ""
    return f"{counted(len(names), 'file is', 'files are')} not read: {listed}{photos}."


def _list_folder(path: Path, folder: Folder, listing: Listing, *, followed: bool) -> None:
    """Add the content of one folder to a listing, links among its folders if they are `followed`."""
    prefix, sort_again = folder.prefix, False
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
            ignored = name[0] == "." or name.lower().replace(" ", "_") in SYSTEM_FOLDERS
            if is_link and not ignored:
                sort_again = True
                here = Path(os.path.realpath(path / prefix))
                ignored = not followed or here.is_relative_to(os.path.realpath(entry))
                listing.links += [] if ignored else [Path(entry.path)]
            if ignored:
                listing.left_out.append(prefix + name)
            else:
                folder.folders.append(Folder(f"{prefix}{name}/"))
            continue
        image = name[name.rfind(".") :].lower() in SUFFIXES
        if name[0] == ".":
            if image and name[1:2] != "_":  # `._name` is metadata that macOS writes next to a file
                listing.left_out.append(prefix + name)
        elif image and (entry.is_file(follow_symlinks=False) or not is_special(Path(entry.path))):
            listing.images.append(prefix + name)
            if is_link:
                listing.links.append(Path(entry.path))
        else:
            folder.files.append(name)
    if sort_again:  # `b-/` before `b/`, so that samples have the order that they had in earlier versions
        folder.folders.sort(key=attrgetter("prefix"))
