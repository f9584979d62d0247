"""Image files: which a folder holds, and which a name in a data file stands for."""

from __future__ import annotations

import itertools
import os
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Literal

from ..common.errors import InputError, one_line
from ..common.phrases import counted, first_few
from ..common.safe import CONTROL, inside, is_file, is_special, quote, shown, spelled
from ..config import DataConfig
from .images.image_files import SUFFIXES
from .names import FilesBelow

# -- what a folder holds ---------------------------------------------------------------------------------


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


# -- the file that a name stands for ---------------------------------------------------------------------


Missing = Literal["stop", "skip"]

# The usual suffix comes first, for messages.
IMAGE_SUFFIXES = (".jpg", *sorted(SUFFIXES - {".jpg"}), ".JPG", ".JPEG", ".PNG")
MANY = 100
"""Names in a folder for which it is listed."""
_ODD = re.compile(r"[\\:]|" + CONTROL.pattern)  # in names that `inside` may change or refuse


def images_folder(config: DataConfig) -> Path | None:
    """Folder that `data.images` names; None if it is not set."""
    if config.images is None:
        return None
    if config.images and os.path.isdir(config.images):
        return Path(config.images)
    raise InputError(f"data.images: {quote(config.images)} is not a folder.")


def find_folder(folders: Sequence[Path], names: Sequence[Sequence[str]], where: str) -> Path:
    """The one of some folders that contains the first image that any of them contains.

    An image may have several names. `where` names the first image in messages.

    Raises:
        InputError: No folder has an image, two folders have different ones of this name, or the name of the
            first image leads out of all folders.
    """
    folders = [folder for folder in dict.fromkeys(folders) if folder.is_dir()]
    for options in names:
        found: dict[str, Path] = {}
        for folder, name in itertools.product(folders, options):
            with suppress(InputError):
                if is_file(path := inside(folder, name, where)):
                    found.setdefault(os.path.realpath(path), folder)
        if len({*found.values()}) > 1:
            raise InputError(
                f"{where}: fits {' and '.join(map(quote, found))}. Pass data.images with the folder that the "
                "names are relative to."
            )
        if found:
            return next(iter(found.values()))
    inside(folders[0], names[0][0], where)  # raises if the name leads out of the folders
    raise _absent(where, folders, len(names), names)


def find_files(
    root: Path, names: Sequence[Sequence[str]], where: Callable[[int], str], missing: Missing = "stop"
) -> FilesBelow:
    """Files below `root` of some images, as `locate_names` finds them; no two may be the same.

    Raises:
        InputError: A name leads out of `root` or fits two files, a file is missing, or two images are the
            same file.
    """
    found = locate_names(root, names, where, missing)
    first: dict[str, int] = {}
    for image, name in enumerate(found):
        if first.setdefault(name, image) != image:
            raise InputError(
                f"{where(image)}: names {quote(posixpath.basename(name))}, which {where(first[name])} names, "
                "too. An image must occur once, with all its labels."
            )
    return FilesBelow(root, found)


def locate_names(
    root: Path, names: Sequence[Sequence[str]], where: Callable[[int], str], missing: Missing = "stop"
) -> list[str]:
    """Path relative to `root` of each image, with slashes: the first of its possible names that exists.

    Names that exist and differ in their suffix only are refused. If `missing` is `skip`, an image without a
    file has the path of its first name, and is left out when the data is opened; but if no image has one,
    that is a mistake. `where` tells what names an image, for messages.
    """
    located: list[str] = []
    start = len(str(root / "x")) - 1
    absent: list[int] = []
    listed = _listed(root, [options[0] for options in names])
    for image, options in enumerate(names):
        found = [name for name in options if name in listed]
        if not found:
            paths = [inside(root, name, where(image)) for name in options]
            existing = [*filter(is_file, paths)]
            if not existing:
                absent.append(image)
            found = [str(path)[start:].replace(os.sep, "/") for path in existing or paths[:1]]
        located.append(found[0])
        for other in found[1:]:
            if posixpath.splitext(other)[0] == posixpath.splitext(found[0])[0] and not os.path.samefile(
                root / other, root / found[0]
            ):
                raise InputError(
                    f"{where(image)}: {quote(options[0])} fits {quote(found[0])} and {quote(other)}. Write "
                    "the suffix of the one that is meant."
                )
    if absent and (missing == "stop" or len(absent) == len(names)):
        raise _absent(where(absent[0]), [root], len(names), [names[image] for image in absent])
    return located


def are_listed(root: Path, names: Sequence[str]) -> list[bool]:
    """Whether each name is surely that of a file below `root`: of no link, and in a form that `inside` keeps.

    Files in folders with fewer names than `MANY` are not listed.
    """
    return [*map(_listed(root, names).__contains__, names)]


def _listed(root: Path, names: Sequence[str]) -> set[str]:
    """Files in the folders that many names are in, without links and names that `inside` may change or
    refuse: listing takes a tenth of the time of asking for each."""
    listed: set[str] = set()
    folders = Counter(name[: name.rfind("/") + 1] for name in names)
    for folder, count in folders.items():
        # A folder that is written in another form, such as `a//b/`, is not listed either.
        if count < MANY or folder[:1] == "/" or posixpath.normpath(folder + "file") != folder + "file":
            continue
        with suppress(InputError, OSError), os.scandir(inside(root, folder + "file", "").parent) as entries:
            files = [folder + entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
            odd = _ODD.search("/".join(files))
            listed.update([name for name in files if not _ODD.search(name)] if odd else files)
    return listed


def _absent(where: str, folders: Sequence[Path], total: int, missing: Sequence[Sequence[str]]) -> InputError:
    """Error for images without a file."""
    name, *further = [spelled(options[0]) for options in missing]
    text = f"{where}: there is no file {name} in {' or '.join(map(shown, folders))}"
    if further:
        text += f" ({len(missing):,} of {total:,} files are missing: {first_few([name, *further], 3)})"
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", missing[0][0]):
        advice = "This is an address: download the images, and write the names of their files."
    else:
        folder = missing[0][0].replace("\\", "/").rpartition("/")[0]
        try:
            held = sorted(os.listdir(folders[0] / folder))
            others = " and others" if len(held) > 3 else ""
            advice = f"That folder holds {', '.join(map(spelled, held[:3])) or 'nothing'}{others}."
        except OSError:
            advice = f"There is no folder {quote(folder)} in it."
        advice += (
            " If the images are elsewhere, pass data.images with the folder that the names are relative to."
        )
    if len(missing) < total:  # otherwise, there is nothing to skip to
        advice += " Or leave out what is missing: data.missing=skip."
    return InputError(f"{text}. {advice}")
