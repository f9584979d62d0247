"""How results appear at the prompt of Python and in a notebook: a line about them, and their first rows."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, NamedTuple

SHOWN = 8
"""Rows that are shown of a long result."""
SHOWN_SIDE = 144
"""Pixels of the longer side of a photo that is shown."""

_WIDEST = 40  # characters of a cell of text
_QUALITY = 70  # of a JPEG


class Listing(NamedTuple):
    """The first rows of a result.

    Attributes:
        title: Line above the rows.
        headings: Headings of the columns.
        rows: At most `SHOWN` rows, a text per column.
        more: Number of rows that are not shown.
    """

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    more: int = 0

    def text(self) -> str:
        """Title and rows as aligned text."""
        cut = [
            [cell if len(cell) <= _WIDEST else f"{cell[: _WIDEST - 1]}…" for cell in row]
            for row in (self.headings, *self.rows)
        ]
        widths = [max(map(len, column)) for column in zip(*cut, strict=True)]
        lines = (
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in cut
        )
        return "\n".join([self.title, *lines, *self._rest()])

    def html(self, pictures: Sequence[str] = ()) -> str:
        """Title and rows as HTML.

        Args:
            pictures: Address of a picture per row, which then are cards with a picture, not rows of a table.
        """
        if pictures:
            cards = (
                f"<figure style='display:inline-block;width:150px;margin:4px;vertical-align:top'>"
                f"<img src='{address}' style='max-width:144px' alt=''>"
                f"<figcaption>{'<br>'.join(map(escape, row[1:]))}</figcaption></figure>"
                for address, row in zip(pictures, self.rows, strict=True)
            )
            shown = "".join(cards)
        else:
            cells = [
                "".join(f"<{tag} style='text-align:left'>{escape(cell)}</{tag}>" for cell in row)
                for tag, row in [("th", self.headings), *(("td", row) for row in self.rows)]
            ]
            shown = f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"
        return f"<p>{escape(self.title)}</p>{shown}{''.join(f'<p>{line}</p>' for line in self._rest())}"

    def _rest(self) -> Iterator[str]:
        if self.more:
            yield f"... and {self.more:,} more"


def photo_address(photo: Any) -> str:
    """Address that holds a photo of PIL itself, as JPEG."""
    stream = io.BytesIO()
    photo.save(stream, "JPEG", quality=_QUALITY)
    return data_address(stream.getvalue(), "image/jpeg")


def data_address(content: bytes, media_type: str) -> str:
    """Address that holds a picture itself."""
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"
