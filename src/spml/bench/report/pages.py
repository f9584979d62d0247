"""A page as a list of blocks, and its two forms: Markdown and one HTML file.

Text inside blocks is Markdown with code spans, bold text, links and backslash escapes. What was not written
for a report, such as names and messages, passes through `plain` first, so that it is shown as it is and does
nothing.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|$~&#!])")
_INLINE = re.compile(
    r"\\(?P<mark>[!-/:-@\[-`{-~])"
    r"|`(?P<code>[^`]+)`"
    r"|\*\*(?P<bold>.+?)(?<!\\)\*\*"
    r"|\[(?P<text>[^\]]+)\]\((?P<link>https?://[^)\s]+|[\w./-]+)\)"
)

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; padding: 0 1.2em; max-width: 72em; }
h2 { margin-top: 2.2em; border-bottom: 1px solid var(--line); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 1em 0; font-size: 13.5px; }
th, td { padding: .25em .7em; text-align: right; white-space: nowrap; }
th.l, td.l { text-align: left; white-space: normal; overflow-wrap: anywhere; }
thead th { border-bottom: 2px solid var(--line); vertical-align: bottom; }
tbody tr:nth-child(even) { background: var(--soft); }
.wide { overflow-x: auto; }
img { max-width: 100%; height: auto; background: white; }
code, pre { font-family: ui-monospace, monospace; background: var(--soft); }
pre { padding: .8em; overflow-x: auto; }
"""


class Heading(NamedTuple):
    """A heading of level 1, 2 or 3."""

    level: int
    text: str


class Paragraph(NamedTuple):
    """A paragraph."""

    text: str


class Bullets(NamedTuple):
    """A list."""

    items: Sequence[str]


class Table(NamedTuple):
    """A table; the first `left` columns are aligned to the left, the others to the right."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1


class Picture(NamedTuple):
    """The picture `figures/NAME.svg` (and .png)."""

    name: str
    alternative: str


class Code(NamedTuple):
    """Lines to copy."""

    text: str


class Details(NamedTuple):
    """Blocks that are folded away under a line."""

    summary: str
    blocks: Sequence[Block]


Block = Heading | Paragraph | Bullets | Table | Picture | Code | Details


def plain(text: object, most: int = 400) -> str:
    """Any text as Markdown that shows it: one line, escaped, cut after `most` characters."""
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    if len(line) > most:
        line = line[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"
    return _SPECIAL.sub(r"\\\1", line)


def to_markdown(blocks: Sequence[Block]) -> str:
    """The page as Markdown; pictures are links to `figures/NAME.png`."""
    return "\n\n".join(map(_markdown, blocks)) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case Heading(level, text):
            return f"{'#' * level} {text}"
        case Paragraph(text):
            return text
        case Bullets(items):
            return "\n".join(f"- {item}" for item in items)
        case Table(header, rows, left):
            rule = ["---" if i < left else "---:" for i in range(len(header))]
            return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, rule, *rows))
        case Picture(name, alternative):
            return f"![{alternative}](figures/{name}.png)"
        case Code(text):
            return f"```\n{text}\n```"
        case Details(summary, blocks):
            inside = "\n\n".join(map(_markdown, blocks))
            return f"<details><summary>{_inline(summary)}</summary>\n\n{inside}\n\n</details>"


def to_html(title: str, blocks: Sequence[Block], pictures: Mapping[str, bytes]) -> str:
    """The page as one HTML file that needs nothing else.

    Args:
        title: plain text.
        blocks: of the page.
        pictures: SVG by name.
    """
    body = "\n".join(_html(block, pictures) for block in blocks)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _html(block: Block, pictures: Mapping[str, bytes]) -> str:
    match block:
        case Heading(level, text):
            return f"<h{level}>{_inline(text)}</h{level}>"
        case Paragraph(text):
            return f"<p>{_inline(text)}</p>"
        case Bullets(items):
            return "<ul>" + "".join(f"<li>{_inline(item)}</li>" for item in items) + "</ul>"
        case Table(header, rows, left):
            head = _cells(header, left, "th")
            lines = "\n".join(f"<tr>{_cells(row, left, 'td')}</tr>" for row in rows)
            table = f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{lines}\n</tbody></table>"
            return f'<div class="wide">{table}</div>'
        case Picture(name, alternative):
            # As an image and not inline: the ids of several SVG would clash, and an image can't run anything.
            data = base64.b64encode(pictures[name]).decode()
            return f'<p><img alt="{_attribute(alternative)}" src="data:image/svg+xml;base64,{data}"></p>'
        case Code(text):
            return f"<pre>{html.escape(text)}</pre>"
        case Details(summary, blocks):
            inside = "\n".join(_html(inner, pictures) for inner in blocks)
            return f"<details><summary>{_inline(summary)}</summary>\n{inside}\n</details>"


def _cells(row: Sequence[str], left: int, tag: str) -> str:
    opened = [f'<{tag} class="l">' if place < left else f"<{tag}>" for place in range(len(row))]
    return "".join(f"{start}{_inline(cell)}</{tag}>" for start, cell in zip(opened, row, strict=True))


def _attribute(text: str) -> str:
    """Without markup: what an image that is not shown says."""
    return html.escape(re.sub(r"\\(.)", r"\1", text))


def _inline(text: str) -> str:
    """Markdown inside a line as HTML, everything else escaped."""
    parts, end = [], 0
    for found in _INLINE.finditer(text):
        parts.append(html.escape(text[end : found.start()]))
        end = found.end()
        if found["mark"]:
            parts.append(html.escape(found["mark"]))
        elif found["code"]:
            parts.append(f"<code>{html.escape(found['code'])}</code>")
        elif found["bold"]:
            parts.append(f"<b>{_inline(found['bold'])}</b>")
        else:
            parts.append(f'<a href="{html.escape(found["link"])}">{_inline(found["text"])}</a>')
    return "".join(parts) + html.escape(text[end:])
