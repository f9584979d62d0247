"""Registered figures, and the analyses that they return. A module of this folder registers its figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy.typing as npt

from ..common.errors import InputError, nearest
from ..common.files import check_folder, check_new, make_folder, write_rows
from ..common.plugins import Registry
from ..plots.style import own_style, save

Column: TypeAlias = Sequence[Any] | npt.NDArray[Any]

FORMATS, TABLE = ("png", "svg", "pdf"), ".csv"


@dataclass(frozen=True)
class Analysis:
    """A figure and the numbers that it shows.

    Attributes:
        figure: matplotlib figure.
        table: Columns of the CSV file by name, all of the same length: one row per point, bar or cell of the
            figure.
        notes: What a reader of the figure should know, one sentence each.
    """

    figure: Any
    table: Mapping[str, Column]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check that the columns of the table are equally long."""
        lengths = {name: len(column) for name, column in self.table.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the columns of a table must have the same length, got {lengths}")

    @classmethod
    def from_rows(
        cls, figure: Any, columns: Sequence[str], rows: Sequence[Sequence[Any]], notes: Sequence[str] = ()
    ) -> Analysis:
        """Make an analysis of a figure and the rows of its table."""
        return cls(figure, {name: [row[k] for row in rows] for k, name in enumerate(columns)}, tuple(notes))

    def write(
        self,
        folder: str | Path,
        name: str,
        *,
        overwrite: bool = False,
        formats: Sequence[str] = ("png", "svg"),
        title: str = "",
    ) -> list[Path]:
        """Write the figure, and its numbers as CSV.

        Args:
            folder: Folder of the files; made if it does not exist.
            name: Name of the files, without their suffixes.
            overwrite: Replace files of this name.
            formats: Formats of the figure, of png, svg and pdf.
            title: Title above the figure; empty = its own.

        Returns:
            The paths of the files.

        Raises:
            InputError: The folder can't be made, a format is unknown, or a file exists and `overwrite` is
                not set.
            SpmlError: A file could not be written.
        """
        folder = Path(folder)
        check_free(folder, name, formats, overwrite=overwrite)
        make_folder(folder)
        if title:
            self.figure.suptitle(title, fontsize=10, parse_math=False)
        pictures = [folder / f"{name}.{kind}" for kind in formats]
        for picture in pictures:
            with own_style():
                save(self.figure, picture)
        columns = [c.tolist() if hasattr(c, "tolist") else c for c in self.table.values()]
        write_rows(folder / (name + TABLE), list(self.table), zip(*columns, strict=True))
        return [*pictures, folder / (name + TABLE)]


Draw = Callable[..., Analysis]


class FigureKind(NamedTuple):
    """A registered figure. Its attributes are described in `register_figure`."""

    name: str
    title: str
    needs: str
    draw: Draw


_REGISTRY: Registry[FigureKind] = Registry("figure", "spml.analysis", "spml.figures")


def register_figure(name: str, title: str, needs: str) -> Callable[[Draw], Draw]:
    """Register the decorated function as a figure of `spml analyse`.

    The first parameter of the function is the list of what the command line names, such as run folders; the
    others become options, whose help is taken from the docstring. A package of your own registers its figures
    by being imported: name the module in the entry-point group `spml.figures`.

    Args:
        name: Unique name, as on the command line.
        title: Noun phrase for lists, such as "Distance between the scores of positives and negatives".
        needs: What the figure is drawn from, such as "runs with recorded scores and true labels".

    Raises:
        ValueError: Another figure has this name.
    """
    return _REGISTRY.add(name, lambda draw: FigureKind(name, title, needs, draw))


def figures() -> dict[str, FigureKind]:
    """All registered figures by name, in alphabetical order."""
    return dict(sorted(_REGISTRY.all().items()))


def draw_figure(name: str, sources: list[Any], **options: Any) -> Analysis:
    """Draw a registered figure.

    Args:
        name: Name of the figure.
        sources: What it is drawn from, such as run folders.
        **options: Options of the figure.

    Raises:
        InputError: The figure is unknown, or it can't be drawn from these sources or with these options.
    """
    known = figures()
    if name not in known:
        raise InputError(f"there is no figure {name!r}. {nearest(name, known)}")
    with own_style():
        return known[name].draw(sources, **options)


def check_free(folder: Path, name: str, formats: Sequence[str], *, overwrite: bool) -> None:
    """Check, before a figure is drawn, that its files may be written.

    Raises:
        InputError: The folder can't be made, the name is not that of a file, a format is unknown, or a file
            exists and `overwrite` is not set.
    """
    if unknown := [kind for kind in formats if kind not in FORMATS]:
        raise InputError(f"`format` must be {', '.join(FORMATS)}, or several with commas, got {unknown[0]!r}")
    if not name or Path(name).name != name or name.startswith("."):
        raise InputError(f"`name` must be the name of a file without a folder, got {name!r}")
    check_folder(folder)
    for suffix in (*(f".{kind}" for kind in formats), TABLE):
        check_new(folder / (name + suffix), overwrite=overwrite, other="another `name`")
