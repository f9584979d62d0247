"""Writers: one file per format. Given and inferred labels are kept apart in all of them, and data that
a format can't hold is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ...common.errors import InputError, nearest
from ...common.files import check_folder, check_new, check_output, make_folder, write_text, write_with
from ...common.locks import only_writer
from ...common.phrases import counted
from ...common.plugins import Registry
from ...common.safe import CONTROL, quote
from ..records import Records
from .samples import Inferred, image_names, known_by_sample, leave_out_known, named_from

Files = Mapping[Path, str | Callable[[BinaryIO], object]]
"""Files to be written: the text of each, or a function that writes it to a binary stream."""

Write = Callable[[Records, Inferred, Path], tuple[Files, tuple[str, ...]]]


class Writer(NamedTuple):
    """A registered writer: the arguments of `register_writer`, and the decorated function `write`."""

    name: str
    title: str
    suffix: str
    write: Write
    holds_groups: bool = False


_REGISTRY: Registry[Writer] = Registry("writer", "spml.data.writers", "spml.writers")


def register_writer(
    name: str, title: str, *, suffix: str = "", holds_groups: bool = False
) -> Callable[[Write], Write]:
    """Register the decorated function as the writer of a format.

    The function takes the records, the inferred labels (none of a label that is known) and the path of the
    output. It writes nothing itself: it returns the files to be written, which must be `output` or lie below
    it, and notes for the user: how to read them back, and what they don't hold.

    A package of your own registers its writers by being imported: name the module in the entry-point group
    `spml.writers`.

    Args:
        name: Name of the format, unique.
        title: Noun phrase for messages, such as "COCO JSON".
        suffix: Suffix that the name of the output must have; empty if any will do.
        holds_groups: Whether `records.groups` are written, so that they are read with `--data.group group`.

    Raises:
        ValueError: Another writer has this name.
    """
    return _REGISTRY.add(name, lambda write: Writer(name, title, suffix, write, holds_groups))


def writers() -> dict[str, Writer]:
    """All registered writers by name, those of installed packages included."""
    return dict(sorted(_REGISTRY.all().items()))


def find_writer(name: str) -> Writer:
    """The writer of the format `name`."""
    registered = writers()
    if name not in registered:
        raise InputError(f"unknown format {name!r}. {nearest(name, registered)}")
    return registered[name]


def write(
    records: Records,
    output: Path,
    form: str,
    inferred: Inferred | None = None,
    *,
    overwrite: bool = False,
) -> tuple[str, ...]:
    """Write the labels of a data set; reading them back gives the same samples, split, classes and labels.

    Images stay where they are. Of a label that is both given and inferred, only the given value is written.

    Args:
        records: Content of a file or folder.
        output: File to write; a folder for COCO JSON of data with a split.
        form: Name of a registered format, such as `csv`.
        inferred: Labels of the samples that a model inferred.
        overwrite: Whether to replace files that exist.

    Returns:
        Notes on how to read the output back and on what it does not hold, one line each.

    Raises:
        InputError: The format is unknown or can't hold this data, a file exists, or another process writes to
            the output.
        SpmlError: A file could not be written; one that existed is untouched.
    """
    writer = find_writer(form)
    check_place(output, writer)
    output = output if output.name not in ("", "..") else output.resolve()  # `.` has no name
    further = Inferred.none() if inferred is None else leave_out_known(inferred, records.labels)
    with only_writer(output):
        if output.is_file():
            _refuse_existing(output, overwrite)
        for name in records.classes:
            if not name or name != name.strip() or CONTROL.search(name):
                raise InputError(
                    f"{records.source}: the class name {quote(name)} would change when it is read back, "
                    "since it is empty, or has spaces around it or control characters. Correct it first."
                )
        files, notes = writer.write(records, further, output)
        for path in files:
            _refuse_existing(path, overwrite)
        for path, content in files.items():
            make_folder(path.parent)
            if isinstance(content, str):
                write_text(path, content)
            else:
                write_with(path, content)
    if records.groups is not None and writer.holds_groups:
        notes = (*notes, "Groups are written: read them with data.group=group.")
    elif records.groups is not None:
        notes = (*notes, f"Groups are not written, because {writer.title} has no place for them.")
    if inferred is None:
        return notes
    left_out = len(inferred.rows) - len(further.rows)
    unwritten = f", {left_out:,} left out in favour of given labels" if left_out else ""
    return (f"{counted(len(further.rows), 'inferred label')} written{unwritten}.", *notes)


def check_place(output: Path, writer: Writer) -> None:
    """Check, before data is read, that an output of this name can be made.

    Raises:
        InputError: Its folder does not exist or can't be written to, or the name does not suit the format.
    """
    if not output.resolve().name:
        raise InputError(f"{output}: is no place for a file. Name a file or a folder.")
    if writer.suffix and output.suffix.lower() != writer.suffix:
        raise InputError(f"{output}: {writer.title} needs a file name that ends in {writer.suffix}.")
    if output.is_dir():
        check_folder(output)
    else:
        check_output(output)


def _refuse_existing(path: Path, overwrite: bool) -> None:
    if path.is_dir():
        raise InputError(f"{path}: is a folder, but a file is written; name a file.")
    check_new(path, overwrite=overwrite)


__all__ = [
    "Files",
    "Inferred",
    "Writer",
    "check_place",
    "find_writer",
    "image_names",
    "known_by_sample",
    "named_from",
    "register_writer",
    "write",
    "writers",
]
