"""The look of all figures: colours, axes, places in inches, and how a figure is saved.

Colour-blind readers can tell the colours apart. matplotlib is imported when a figure is made.
"""

from __future__ import annotations

import functools
import re
import threading
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..common.errors import SpmlError, first_line
from ..common.files import write_with
from ..common.messages import log

Draw = TypeVar("Draw", bound=Callable[..., None])

# Okabe and Ito's palette, without yellow, which is too light for lines and text.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_SALT = 150
"""Of the numbers from 0 on, the first for which the methods of the papers all have different colours."""

RIGHT, WRONG, MISSED, GIVEN = "#00795A", "#C44601", "#757575", "#0067A3"
GRID = "#DDDDDD"


def colours_of(names: Iterable[str]) -> list[str]:
    """Colours of lines that are named by methods, perhaps with settings after them (`gr, w 10`, `gr:q3=1.5`).

    The first line of a method has the colour that its name always has, unless a line before it has this one;
    then it takes one that is left.
    """
    colours: list[str] = []
    for name in names:
        method = re.split(r"[^a-z_]", name, maxsplit=1)[0]
        own = COLOURS[zlib.crc32(f"{_SALT}{method}".encode()) % len(COLOURS)]
        left = [colour for colour in COLOURS if colour not in colours]
        colours.append(own if own in left or not left else left[0])
    return colours


_drawing = threading.RLock()
"""Settings of matplotlib are those of the whole process."""


@contextmanager
def own_style() -> Iterator[None]:
    """Draw with matplotlib's defaults, whatever the matplotlibrc file or the program of a user has set."""
    import matplotlib

    with _drawing, matplotlib.rc_context():
        matplotlib.rcdefaults()
        yield


def picture(draw: Draw) -> Draw:
    """Decorate a function that writes a picture beside a result: if it can't be drawn, a line says so.

    An earlier picture of this name is removed then. A full disk is still an error.
    """

    @functools.wraps(draw)
    def drawn(path: Path, *arguments: Any, **named: Any) -> None:
        try:
            with own_style():
                draw(path, *arguments, **named)
        except SpmlError:
            raise
        except Exception as error:  # libraries of fonts and images raise almost anything
            path.unlink(missing_ok=True)
            log.info(f"{path} is left out: matplotlib can't draw it ({first_line(error)})")

    return cast(Draw, drawn)


def new_figure(width: float, height: float) -> Any:
    """An empty figure of a size in inches."""
    from matplotlib.figure import Figure

    return Figure((width, height), dpi=150, layout="constrained", facecolor="white")


def single_panel(
    width: float, height: float, *, whole: bool = True, sideways: bool = False
) -> tuple[Any, Any]:
    """An empty figure of a size in inches, and its only axes, styled as by `style_axes`."""
    figure = new_figure(width, height)
    axes = figure.subplots()
    style_axes(axes, whole=whole, sideways=sideways)
    return figure, axes


def new_sheet(width: float, height: float) -> Any:
    """An empty figure on which everything is placed in inches from its upper left corner."""
    from matplotlib.figure import Figure

    # A figure with a layout engine, even one that does nothing, is drawn twice when it is saved.
    return Figure((width, height), dpi=150, facecolor="white")


def style_axes(axes: Any, *, whole: bool = True, sideways: bool = False) -> None:
    """Give axes no more lines than needed.

    Args:
        axes: Axes of a figure.
        whole: Put ticks at whole numbers only, as for epochs.
        sideways: Draw the grid for values that run from left to right.
    """
    from matplotlib.ticker import MaxNLocator

    if whole:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.grid(axis="x" if sideways else "y", color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8.5, length=0)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")


def label_axes(axes: Any, title: str, x: str, y: str) -> None:
    """Write the title of a panel, and what runs along its axes, with units."""
    # With `y` stated, the extents of all ticks are not computed to find a free place.
    axes.set_title(title, fontsize=9.5, loc="left", y=1.0, parse_math=False)
    axes.set_xlabel(x, fontsize=9)
    axes.set_ylabel(y, fontsize=9)


def add_legend(axes: Any, **options: Any) -> None:
    """Add a legend without a frame that hides curves."""
    legend = axes.legend(fontsize=8, frameon=True, framealpha=0.8, edgecolor="none", **options)
    for text in legend.get_texts():
        text.set_parse_math(False)


def axes_at(sheet: Any, x: float, y: float, width: float, height: float) -> Any:
    """Bare axes on a sheet; all lengths are in inches, `y` runs downwards."""
    sheet_width, sheet_height = sheet.get_size_inches()
    axes = sheet.add_axes(
        (x / sheet_width, 1 - (y + height) / sheet_height, width / sheet_width, height / sheet_height)
    )
    axes.set_axis_off()
    return axes


def text_at(sheet: Any, x: float, y: float, text: str, *, size: float, va: str = "top", **style: Any) -> None:
    """Write text on a sheet, at a place in inches."""
    width, height = sheet.get_size_inches()
    sheet.text(x / width, 1 - y / height, text, fontsize=size, va=va, parse_math=False, **style)


def image_at(
    sheet: Any,
    x: float,
    y: float,
    side: float,
    image: npt.NDArray[np.uint8],
    interpolation: str | None = None,
) -> None:
    """Draw an image (channels, H, W), grey or RGB, as a square on a sheet, at a place in inches."""
    pixels = image.transpose(1, 2, 0)
    axes_at(sheet, x, y, side, side).imshow(
        pixels[..., 0] if pixels.shape[2] == 1 else pixels,
        cmap="gray",
        vmin=0,
        vmax=255,
        interpolation=interpolation,
    )


def cut(name: str, length: int = 20) -> str:
    """A name, shortened at its end to `length` characters."""
    return name if len(name) <= length else name[: length - 1] + "\N{HORIZONTAL ELLIPSIS}"


def text_width(text: str, size: float, weight: str = "normal") -> float:
    """Width in inches of a text at a font size in points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextToPath

    font = FontProperties(size=size, weight=weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # as in `save`
        width, _, _ = TextToPath().get_text_width_height_descent(text, font, ismath=False)
    return float(width) / 72


def save(figure: Any, path: Path) -> None:
    """Write a figure as PNG, SVG or PDF, as the suffix of the path says, whole or not at all."""
    import matplotlib

    kind = path.suffix.removeprefix(".")
    # Without version, date and random ids in the file, equal figures are equal files.
    metadata = {
        "png": {"Software": None},
        "svg": {"Date": None, "Creator": None},
        "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    }[kind]
    with warnings.catch_warnings(), matplotlib.rc_context({"svg.hashsalt": "spml"}):
        # Names in scripts that the font lacks become boxes; that is not worth a warning on the terminal.
        warnings.simplefilter("ignore", UserWarning)
        write_with(path, lambda stream: figure.savefig(stream, format=kind, metadata=metadata))
