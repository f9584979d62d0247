"""Image files that a data file names."""

from __future__ import annotations

import itertools
import os
import posixpath
import re
import shlex
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Literal

from ...common.errors import InputError
from ...common.phrases import first_few
from ...common.safe import CONTROL, inside, is_file, quote, shorter_name, shown
from ...config import DataConfig
from ..images.image_files import SUFFIXES
from .names import FilesBelow

Missing = Literal["stop", "skip"]

# The usual suffix comes first; the others are tried only if there is no such file.
IMAGE_SUFFIXES = (".jpg", *sorted(SUFFIXES - {".jpg"}), ".JPG", ".JPEG", ".PNG")
MANY = 100
"""Names in a folder for which it is listed."""
_ODD = re.compile(r"[\\:]|" + CONTROL.pattern)  # in names that `inside` may change or refuse
_NEARBY = 1000  # folders that are looked into for a missing file, and files that are looked for
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_FORMS: tuple[Literal["NFC", "NFD"], ...] = ("NFC", "NFD")
_ELSEWHERE = "pass data.images with the folder that the names are relative to"


def images_folder(config: DataConfig) -> Path | None:
    """Folder that `data.images` names; None if it is not set."""
    if config.images is None:
        return None
    if config.images and os.path.isdir(config.images):
        return Path(config.images)
    raise InputError(f"data.images: {quote(config.images)} is not a folder.")


def folder_above(folder: Path) -> Path:
    """The folder that a folder is in, also of the current one, whose `parent` is itself."""
    return folder.parent if folder.name not in ("", "..") else folder / ".."


def find_folder(folders: Sequence[Path], names: Sequence[Sequence[str]], where: str) -> Path:
    """First of some folders that contains one of the images, of which each may have several names.

    Later images are looked for only if no folder has an earlier one. `where` names the first image in
    messages.
    """
    folders = list(dict.fromkeys(folders))
    outside: InputError | None = None
    for number, options in enumerate(names):
        for folder, name in itertools.product(folders, options):
            try:
                if is_file(inside(folder, name, where)):
                    return folder
            except InputError as error:
                if number == 0 and (outside is None or shorter_name(folder, name)):
                    outside = error
        if outside:
            raise outside
    present = [folder for folder in folders if folder.is_dir()]
    hint = next(filter(None, (hint_at(folder, names[0], names) for folder in present)), "")
    raise _absent(where, present, len(names), names, hint or f"If the images are elsewhere, {_ELSEWHERE}.")


def find_files(
    root: Path, names: Sequence[Sequence[str]], where: Callable[[int], str], missing: Missing = "stop"
) -> FilesBelow:
    """Files below `root` of some images, as `locate_names` finds them; no two may be the same.

    Raises:
        InputError: A name leads out of `root`, a file is missing, or two images are the same file.
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

    If `missing` is `skip`, an image without a file has the path of its first name, and is left out when the
    data is opened; but if no image has one, that is a mistake. `where` tells what names an image, for
    messages.
    """
    found: list[str] = []
    start = len(str(root / "x")) - 1
    absent: list[int] = []
    present = are_listed(root, [options[0] for options in names])
    for image, (options, is_present) in enumerate(zip(names, present, strict=True)):
        if is_present:
            found.append(options[0])
            continue
        path = next(filter(is_file, (inside(root, name, where(image)) for name in options)), None)
        if path is None:
            absent.append(image)
            path = inside(root, options[0], where(image))
        found.append(str(path)[start:].replace(os.sep, "/"))
    if absent and (missing == "stop" or len(absent) == len(names)):
        missed = [names[image] for image in absent]
        # There is nothing to skip to if no file exists.
        skip = "Or leave out what is missing: data.missing=skip." if len(absent) < len(names) else ""
        hint = hint_at(root, missed[0], missed) or f"Add the file, remove what names it, or {_ELSEWHERE}. "
        raise _absent(where(absent[0]), [root], len(names), missed, hint + skip)
    return found


def are_listed(root: Path, names: Sequence[str]) -> list[bool]:
    """Whether each name is surely that of a file below `root`: of no link, and in a form that `inside` keeps.

    Folders that many names are in are listed, which takes a tenth of the time of looking for each file. What
    is not listed is looked for.
    """
    folders = Counter(name[: name.rfind("/") + 1] for name in names)
    listed = {name for folder, count in folders.items() if count >= MANY for name in _files_in(root, folder)}
    return [*map(listed.__contains__, names)]


def _files_in(root: Path, folder: str) -> list[str]:
    """Paths relative to `root` of the files in a folder, written as `a/b/`, without links and names that
    `inside` may change or refuse; none if it is not below root in just this form."""
    if folder.startswith("/") or posixpath.normpath(folder + "file") != folder + "file":
        return []
    try:
        with os.scandir(inside(root, folder + "file", "").parent) as entries:
            files = [folder + entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    except (InputError, OSError):
        return []
    return [name for name in files if not _ODD.search(name)] if _ODD.search("/".join(files)) else files


def hint_at(root: Path, names: Sequence[str], missing: Sequence[Sequence[str]] = ()) -> str:
    """Sentence on a file that may be the one which is missing, and a blank; empty if there is none.

    It may differ in case, in the form of Unicode or in zeros in front, have another suffix, or lie in another
    folder; `missing` are all missing files, of which the first are looked for there, too.
    """
    name = names[0]
    shorter = shorter_name(root, name)
    if address := _ADDRESS.match(name):
        if address[0].lower() == "file://":
            return shorter or "This is the address of a file: name it relative to the folder of the images. "
        rest = shorter or "Only files on this machine are read: download the images. "
        return f"This is an address. {rest}"
    if "\\" in name and is_file(root / name):
        return (
            f"There is a file whose name holds the backslash itself, {quote(name)}, probably from an archive "
            "packed on Windows: unpack it again with a tool that makes folders of it. "
        )
    relative = posixpath.normpath(name.replace("\\", "/"))
    if relative.startswith("/"):
        return ""
    if similar := _similar(root, relative.split("/")):
        found = similar.relative_to(root).as_posix()
        difference = _difference(relative, found)
        return f"There is {quote(found)}, {difference}: rename the files or correct the names. "
    above = folder_above(root)
    if not _in_folder(above, names) and shorter:
        return shorter
    for folder in (above, *_folders_below(root)):
        if not (file := _in_folder(folder, names)):
            continue
        if folder == above or all(_in_folder(folder, options) for options in missing[:_NEARBY]):
            return f"It is in another folder: pass data.images={shlex.quote(shown(folder))}. "
        full = (folder / file).relative_to(root).as_posix()
        return f"It is in {folder}, others are elsewhere: write the names with folders, as in {quote(full)}. "
    return ""


def _in_folder(folder: Path, names: Sequence[str]) -> str:
    """The first of the possible names of a file that exists in a folder; empty if there is none."""
    options = (name.replace("\\", "/") for name in names)
    return next((option for option in options if is_file(folder / option)), "")


def _folders_below(root: Path) -> Iterator[Path]:
    """`root` and folders below it, without links, up to a limit."""
    for folder, below, _ in itertools.islice(os.walk(root), _NEARBY):
        below.sort()
        yield Path(folder)


def _absent(
    where: str, folders: Sequence[Path], total: int, missing: Sequence[Sequence[str]], advice: str
) -> InputError:
    names = [quote(options[0]) for options in missing]
    more = f" ({len(names):,} of {total:,} files are missing: {first_few(names, 3)})" if names[1:] else ""
    place = " or ".join(map(shown, folders))
    return InputError(f"{where}: there is no file {names[0]} in {place}{more}. {advice}".rstrip())


def _similar(folder: Path, parts: Sequence[str]) -> Path | None:
    """File below `folder` whose path differs only in case, form of Unicode or suffix."""
    for part in parts[:-1]:
        exact = folder / part
        same = (entry for entry in sorted(folder.glob("*")) if _plain(entry.name) == _plain(part))
        folder = exact if exact.is_dir() else next(same, exact)
    files = sorted(folder.glob("*"))
    stem = _unpadded(parts[-1])
    alike = [file for file in files if _plain(file.name) == _plain(parts[-1])]
    alike += [file for file in files if file.suffix.lower() in SUFFIXES and _unpadded(file.name) == stem]
    return next(filter(is_file, alike), None)


def _difference(name: str, found: str) -> str:
    if _plain(PurePosixPath(name).stem) != _plain(PurePosixPath(found).stem):
        return "with zeros in front, which spreadsheets remove"
    if _plain(name) != _plain(found):
        return "with another suffix"
    if unicodedata.normalize("NFC", name) == unicodedata.normalize("NFC", found):
        form = next((form for form in _FORMS if unicodedata.is_normalized(form, found)), "mixed")
        return f"whose letters with accents are written in another form of Unicode ({form})"
    return "which differs in case"


def _plain(text: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def _unpadded(name: str) -> str:
    """Name without suffix, and if it is a number, without zeros in front."""
    stem = _plain(PurePosixPath(name).stem)
    return stem.lstrip("0") if stem.isdigit() else stem
