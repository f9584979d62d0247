"""Writers by name: each turns labels into the files of a format. Adding one is one file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ...common.errors import InputError, nearest
from ...common.plugins import Registry
from ..records import Records
from .samples import Inferred

Files = Mapping[Path, str | Callable[[BinaryIO], object]]
"""Files to be written: the text of each, or a function that writes it to a binary stream."""

Write = Callable[[Records, Inferred, Path], tuple[Files, tuple[str, ...]]]


class Writer(NamedTuple):
    """A registered writer.

    Attributes:
        name: Name of the format, as `spml data convert --format` takes it.
        title: Noun phrase for messages, such as "COCO JSON".
        suffix: Suffix that the name of the output must have; empty if any will do.
        write: Makes the files.
        needs_scores: Whether `inferred.all_scores` is needed.
    """

    name: str
    title: str
    suffix: str
    write: Write
    needs_scores: bool = False


_REGISTRY: Registry[Writer] = Registry("writer", "spml.data.writers", "spml.writers")


def register_writer(
    name: str, title: str, *, suffix: str = "", needs_scores: bool = False
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
        needs_scores: Whether the scores of all classes are needed, which are in `inferred.all_scores` only
            then; some may be NaN.

    Raises:
        ValueError: Another writer has this name.
    """
    return _REGISTRY.add(name, lambda write: Writer(name, title, suffix, write, needs_scores))


def writers() -> dict[str, Writer]:
    """All registered writers by name, those of installed packages included."""
    return dict(sorted(_REGISTRY.all().items()))


def find_writer(name: str) -> Writer:
    """The writer of the format `name`.

    Raises:
        InputError: There is no such format; names the nearest ones.
    """
    registered = writers()
    if name not in registered:
        raise InputError(f"unknown format {name!r}. {nearest(name, registered)}")
    return registered[name]
