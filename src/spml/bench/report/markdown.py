"""Numbers, names and tables of a report in Markdown, and a Markdown page as one HTML file."""

from __future__ import annotations

import base64
import hashlib
import html
import math
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import jinja2
from markdown_it import MarkdownIt
from markdown_it.token import Token

from ...common.phrases import counted
from ..rows import OBSERVED, ORACLE
from .statistics import Task

UNKNOWN = "-"
"""Stands for a value that is not known."""

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|$~&#!])")
_DETAILS = re.compile(r"<details><summary>[\w ,()-]*</summary>|</details>")

# -- numbers and names ---------------------------------------------------------------------------------


def percent(value: float | None, sign: bool = False) -> str:
    """A mAP or a difference of two, times 100, with two decimals."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    rounded = round(100 * value, 2) + 0.0  # not -0.00
    return f"{rounded:+.2f}" if sign else f"{rounded:.2f}"


def with_sd(mean: float, sd: float, sign: bool = False) -> str:
    """Mean and standard deviation, times 100; the mean alone where there is one value."""
    return f"{percent(mean, sign)} ± {percent(sd)}" if math.isfinite(sd) else percent(mean, sign)


def share(value: float | None) -> str:
    """A share of the gap, in whole percent."""
    return UNKNOWN if value is None else f"{round(100 * value) + 0:d} %"


def p_value(value: float | None) -> str:
    """A p-value with three decimals."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    return "<0.001" if value < 0.0005 else f"{value:.3f}"


def task_name(task: Task) -> str:
    """Data set and way of hiding labels, as plain text."""
    return f"{task[0]}, {task[1]}"


def criterion(mode: str) -> str:
    """Criterion by which a mode selects trial and epoch, to follow "with"."""
    if mode == ORACLE:
        return (
            "the highest mAP on fully labelled validation samples: what published results use and no user has"
        )
    if mode == OBSERVED:
        return "the highest SP-score, which needs only the observed labels of the validation samples"
    size = mode.partition(":")[2]
    return f"the highest mAP on {size} fully labelled validation samples (on all, where there are fewer)"


# -- text ------------------------------------------------------------------------------------------------


def one_line(text: object) -> str:
    """Any text on one line, without control characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())


def plain(text: object, limit: int = 400) -> str:
    """Any text as Markdown that displays it literally: on one line, escaped, cut after `limit` characters.

    Names and messages, which were not written for a report, pass through here.
    """
    line = one_line(text)
    if len(line) > limit:
        line = line[: limit - 1] + "\N{HORIZONTAL ELLIPSIS}"
    return _SPECIAL.sub(r"\\\1", line)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A table whose first `left` columns are aligned to the left and the others to the right."""
    rule = ["---" if column < left else "---:" for column in range(len(header))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, rule, *rows))


def picture(name: str, alternative: str) -> str:
    """The picture `figures/NAME.png`; on the HTML page, the SVG of the same name is embedded instead."""
    return f"![{alternative}](figures/{name}.png)"


def render(template: str, filters: Mapping[str, Any] | None = None, **values: Any) -> str:
    """Fill in a template of this folder; more than one empty line in a row becomes one."""
    environment = jinja2.Environment(
        trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    )
    if template.endswith(".tex.j2"):  # LaTeX has braces of its own
        environment = environment.overlay("<%", "%>", "<<", ">>", "<#", "#>")
    own = (plain, percent, p_value, counted)
    environment.filters |= {function.__name__: function for function in own} | dict(filters or {})
    text = (files(__package__) / template).read_text(encoding="utf-8")
    filled = environment.from_string(text).render(criterion=criterion, picture=picture, **values)
    return re.sub(r"\n{3,}", "\n\n", filled)


# -- HTML ------------------------------------------------------------------------------------------------


def to_html(title: str, markdown: str, pictures: Mapping[str, bytes]) -> str:
    """Convert a page to one HTML file that loads nothing, and runs nothing but what sorts its tables.

    HTML in the Markdown is displayed as text, except for the tags of `details`.

    Args:
        title: Title, plain text.
        markdown: The page.
        pictures: SVG by name, for `picture`. Other images become their alternative text.
    """
    parser = MarkdownIt("commonmark").enable("table")

    def raw_html(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        text = tokens[index].content
        return text if _DETAILS.fullmatch(text.strip()) else html.escape(text)

    def image(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        token = tokens[index]
        alternative = html.escape(renderer.renderInlineAsText(token.children, options, env))
        name = re.fullmatch(r"figures/([\w-]+)\.png", str(token.attrs["src"]))
        if not name or name[1] not in pictures:
            return alternative
        # As an image and not inline: the ids of several SVG would clash, and an image can't run scripts.
        data = base64.b64encode(pictures[name[1]]).decode()
        return f'<img alt="{alternative}" src="data:image/svg+xml;base64,{data}">'

    def heading(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        name = re.sub(r"\W+", "-", tokens[index + 1].content.lower())
        return f'<{tokens[index].tag} id="{name}">'

    parser.add_render_rule("heading_open", heading)
    parser.add_render_rule("html_block", raw_html)
    parser.add_render_rule("html_inline", raw_html)
    parser.add_render_rule("image", image)
    parser.add_render_rule("table_open", lambda *_: '<div class="wide" tabindex="0"><table>\n')
    parser.add_render_rule("table_close", lambda *_: "</table></div>\n")
    look = (files("spml.runs.report") / "report.css").read_text(encoding="utf-8")  # as reports of runs have
    style, script = (
        (files(__package__) / name).read_text(encoding="utf-8") for name in ("page.css", "page.js")
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    parts = parser.render(markdown).split("<h2 ")
    body = parts[0] + "".join(f"<section><h2 {part}</section>\n" for part in parts[1:])
    return render(
        "page.html.j2", title=title, style=look + style, script=script, script_hash=digest, body=body
    )
