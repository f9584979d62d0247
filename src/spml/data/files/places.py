"""Image files that a data file names."""

from __future__ import annotations

import difflib
import itertools
import os
import posixpath
import re
import shlex
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from ...common.errors import InputError
from ...common.phrases import first_few
from ...common.safe import CONTROL, inside, is_file, quote, shorter_name, shown
from ...config import DataConfig
from ..images.image_files import SUFFIXES
from .names import FilesBelow

Missing = Literal["stop", "skip"]

# The usual suffix comes first, for messages.
IMAGE_SUFFIXES = (".jpg", *sorted(SUFFIXES - {".jpg"}), ".JPG", ".JPEG", ".PNG")
MANY = 100
"""Names in a folder for which it is listed."""
_ODD = re.compile(r"[\\:]|" + CONTROL.pattern)  # in names that `inside` may change or refuse
_SEARCHED = 1000  # folders in which missing files are looked for, and files that are looked for
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
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
    """The one of some folders that contains the first image that any of them contains.

    An image may have several names. `where` names the first image in messages.

    Raises:
        InputError: No folder has an image, two folders have different ones of this name, or the name of the
            first image leads out of all folders.
    """
    folders = list(dict.fromkeys(folders))
    for number, options in enumerate(names):
        found: dict[str, Path] = {}
        outside: InputError | None = None
        for folder, name in itertools.product(folders, options):
            try:
                if is_file(path := inside(folder, name, where)):
                    found.setdefault(os.path.realpath(path), folder)
            except InputError as error:
                if outside is None or shorter_name(folder, name):
                    outside = error
        if len({*found.values()}) > 1:
            raise InputError(f"{where}: fits {' and '.join(map(quote, found))}. {_ELSEWHERE.capitalize()}.")
        if found:
            return next(iter(found.values()))
        if outside and number == 0:
            raise outside
    present = [folder for folder in folders if folder.is_dir()]
    hint = next(filter(None, (hint_at(folder, names[0], names) for folder in present)), "")
    raise _absent(where, present, len(names), names, hint or f"If the images are elsewhere, {_ELSEWHERE}.")


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
        missed = [names[image] for image in absent]
        # There is nothing to skip to if no file exists.
        skip = "Or leave out what is missing: data.missing=skip." if len(absent) < len(names) else ""
        hint = hint_at(root, missed[0], names) or f"Add the file, remove what names it, or {_ELSEWHERE}. "
        raise _absent(where(absent[0]), [root], len(names), missed, hint + skip)
    return located


def are_listed(root: Path, names: Sequence[str]) -> list[bool]:
    """Whether each name is surely that of a file below `root`: of no link, and in a form that `inside` keeps.

    Files in folders with fewer names than `MANY` are not listed.
    """
    return [*map(_listed(root, names).__contains__, names)]


def _listed(root: Path, names: Sequence[str]) -> set[str]:
    """Files in the folders that many names are in: listing takes a tenth of the time of asking for each."""
    folders = Counter(name[: name.rfind("/") + 1] for name in names)
    return {name for folder, count in folders.items() if count >= MANY for name in _files_in(root, folder)}


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


def hint_at(root: Path, options: Sequence[str], names: Sequence[Sequence[str]] = ()) -> str:
    """Sentence on the file that may be meant by the possible names of a missing one, and a blank; or nothing.

    It may have nearly this name, or all files that the data `names` may lie in another folder.
    """
    name = options[0]
    if address := _ADDRESS.match(name):
        return shorter_name(root, name) or (
            "This is the address of a file: name it relative to the folder of the images. "
            if address[0].lower() == "file://"
            else "This is an address. Only files on this machine are read: download the images. "
        )
    folder, _, last = name.replace("\\", "/").rpartition("/")
    files = [path for path in sorted((root / folder).glob("*")) if is_file(path)] if folder[:1] != "/" else []
    if near := next((path for path in files if _loosely(path.name) == _loosely(last)), None):
        return (
            f"There is {quote(near.relative_to(root).as_posix())}: names must have the same upper and lower "
            "case, zeros in front, suffix and form of Unicode. Rename the files or correct the names. "
        )
    above, elsewhere = folder_above(root), ""
    for place in (above, *(Path(each) for each, *_ in itertools.islice(os.walk(root), _SEARCHED))):
        if not (file := _in_folder(place, options)):
            continue
        if all(_in_folder(place, each) for each in names[:_SEARCHED]):
            return f"It is in another folder: pass data.images={shlex.quote(shown(place))}. "
        if place != above and not elsewhere:
            full = quote(file.relative_to(root).as_posix())
            elsewhere = (
                f"It is in {place}, others are elsewhere: write the names with folders, as in {full}. "
            )
    if hint := shorter_name(root, name) or elsewhere:
        return hint
    stems = {posixpath.splitext(path.name)[0]: path.name for path in files[:_SEARCHED]}
    alike = difflib.get_close_matches(posixpath.splitext(last)[0], stems, n=2, cutoff=0.75)
    return f"Did you mean {' or '.join(quote(stems[stem]) for stem in alike)}? " if alike else ""


def _in_folder(folder: Path, options: Sequence[str]) -> Path | None:
    """The first of the possible names of a file that exists in a folder."""
    return next(filter(is_file, (folder / each.replace("\\", "/") for each in options)), None)


def _absent(
    where: str, folders: Sequence[Path], total: int, missing: Sequence[Sequence[str]], advice: str
) -> InputError:
    names = [quote(options[0]) for options in missing]
    more = f" ({len(names):,} of {total:,} files are missing: {first_few(names, 3)})" if names[1:] else ""
    place = " or ".join(map(shown, folders))
    return InputError(f"{where}: there is no file {names[0]} in {place}{more}. {advice}".rstrip())


def _loosely(name: str) -> str:
    """Name without what is easily lost: case, form of Unicode, suffix of an image, and zeros of a number."""
    stem, suffix = posixpath.splitext(unicodedata.normalize("NFC", name).casefold())
    stem = unicodedata.normalize("NFC", stem if suffix in SUFFIXES else stem + suffix)
    return stem.lstrip("0") if stem.isdigit() else stem
