"""Image files that a data file names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ...config import DataConfig
from ...errors import InputError
from ..safe import inside, is_file, quote

_ELSEWHERE = "pass --data.images with the folder that the names are relative to"


def images_folder(config: DataConfig) -> Path | None:
    """Folder that `data.images` names; None if it is not set.

    Raises:
        InputError: There is no such folder.
    """
    if config.images is None:
        return None
    folder = Path(config.images)
    try:
        if config.images and folder.is_dir():
            return folder
    except (OSError, ValueError):
        pass
    raise InputError(f"data.images: {quote(config.images)} is not a folder.")


def find_folder(folders: Sequence[Path], names: Sequence[str], where: str) -> Path:
    """First folder that contains an image.

    Args:
        folders: Folders to look in.
        names: Possible names of the image.
        where: What names the image, for messages.

    Raises:
        InputError: No folder contains the image, or all of its names lead out of the folders.
    """
    folders = list(dict.fromkeys(folders))
    outside: InputError | None = None
    for folder in folders:
        for name in names:
            try:
                if is_file(inside(folder, name, where)):
                    return folder
            except InputError as error:
                outside = outside or error
    tried = " or ".join(str(folder) for folder in folders if folder.is_dir())
    raise outside or InputError(
        f"{where}: there is no file {quote(names[0])} in {tried}. If the images are elsewhere, {_ELSEWHERE}."
    )


def find_files(root: Path, names: Sequence[Sequence[str]], where: Callable[[int], str]) -> list[Path]:
    """Files of some images, no two of which may be the same; otherwise as `locate`.

    Raises:
        InputError: As `locate`, or two images are the same file.
    """
    paths = locate(root, names, where)
    first: dict[Path, int] = {}
    for image, path in enumerate(paths):
        if first.setdefault(path, image) != image:
            raise InputError(
                f"{where(image)}: names {quote(path.name)}, which {where(first[path])} names, too. An image "
                "must occur once, with all its labels."
            )
    return paths


def locate(root: Path, names: Sequence[Sequence[str]], where: Callable[[int], str]) -> list[Path]:
    """File below `root` of each image: the first of its possible names that exists.

    Args:
        root: Folder that the names are relative to.
        names: Possible names of each image. Those after the first that exists are not looked at.
        where: Function from the position of an image to what names it, for messages.

    Raises:
        InputError: A name leads out of `root`, or a file is missing.
    """
    files: list[Path] = []
    missing: list[int] = []
    for image, options in enumerate(names):
        paths = (inside(root, name, where(image)) for name in options)
        if path := next((path for path in paths if is_file(path)), None):
            files.append(path)
        else:
            missing.append(image)
    if missing:
        count = f" ({len(missing):,} of {len(names):,} files are missing)" if len(missing) > 1 else ""
        raise InputError(
            f"{where(missing[0])}: there is no file {quote(names[missing[0]][0])} in {root}{count}. Add the "
            f"file, remove what names it, or {_ELSEWHERE}."
        )
    return files
