"""Where the images are that a data file names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ...config import DataConfig
from ...errors import InputError
from ..safe import inside, is_file, shown


def images_folder(config: DataConfig) -> Path | None:
    """The folder that `data.images` states.

    Raises:
        InputError: there is no such folder.
    """
    if config.images is None:
        return None
    folder = Path(config.images)
    try:
        if config.images and folder.is_dir():
            return folder
    except (OSError, ValueError):
        pass
    raise InputError(f"data.images: {shown(config.images)} is no folder.")


def find_folder(folders: Sequence[Path], names: Sequence[str], where: str) -> Path:
    """The first folder in which there is a file of one of some names; the names are of one image.

    Raises:
        InputError: there is none, or all names lead out of the folders.
    """
    tried = list(dict.fromkeys(folders))
    refused: InputError | None = None
    for folder in tried:
        for name in names:
            try:
                if is_file(inside(folder, name, where)):
                    return folder
            except InputError as error:
                refused = refused or error
    if refused:
        raise refused
    there = [str(folder) for folder in tried if folder.is_dir()]
    raise InputError(
        f"{where}: there is no file {shown(names[0])} in {' or '.join(there)}. If the images are elsewhere, "
        "say --data.images with the folder that holds them all."
    )


def find_files(root: Path, names: Sequence[Sequence[str]], where: Callable[[int], str]) -> list[Path]:
    """One file below `root` for each image: the first of its possible names that is there.

    Args:
        root: folder that names are relative to.
        names: the possible names of each image; those after the one that is there are not looked at.
        where: what named an image, for messages.

    Raises:
        InputError: a name leads out of `root`, a file is missing, two images are the same file.
    """
    files: list[Path] = []
    missing: list[int] = []
    first: dict[Path, int] = {}
    for place, options in enumerate(names):
        paths = (inside(root, name, where(place)) for name in options)
        path = next((path for path in paths if is_file(path)), None)
        if path is None:
            missing.append(place)
        elif first.setdefault(path, place) != place:
            raise InputError(
                f"{where(place)}: names {shown(path.name)}, which {where(first[path])} names, too. An image "
                "must occur once, with all its labels."
            )
        else:
            files.append(path)
    if missing:
        raise InputError(
            f"{where(missing[0])}: there is no file {shown(names[missing[0]][0])} in {root}"
            + (f" ({len(missing):,} of {len(names):,} files are missing)" if len(missing) > 1 else "")
            + ". Remove what names it, or put the file there."
        )
    return files
