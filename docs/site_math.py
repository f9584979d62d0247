"""Formulas of the documentation site, written as on GitHub: $`...`$ in text, ```math in a block of its own.

They become MathML, which browsers draw without a script and without fonts from elsewhere.
"""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert
from markdown import Extension, Markdown
from markdown.inlinepatterns import InlineProcessor

# Spaces of LaTeX that MathML lacks: it takes names of functions for variables, and every minus sign for a
# difference.
_SPACES = [
    (re.compile(r"<mo>(max|min|det)</mo>"), r"<mi>\1</mi>"),
    (
        re.compile(r"(</m(?:i|n|row|sub|sup|subsup)>|&#x00029;</mo>)(?=<mi>(?:log|exp)</mi>)"),
        r'\1<mspace width="0.17em" />',
    ),
    (
        re.compile(
            r"(<mi>(?:log|exp|det)</mi>|<msub><mi>(?:max|min)</mi><mrow>(?:(?!</mrow>).)*</mrow></msub>)"
            r"(?=<m(?:i|n|frac|sub|sup|subsup)>)"
        ),
        r'\1<mspace width="0.17em" />',
    ),
    (
        re.compile(r"(<mrow>|&#x000(?:28|2C|3D);</mo>)<mo>&#x02212;</mo>"),
        r'\1<mo form="prefix">&#x02212;</mo>',
    ),
]


def mathml(latex: str, *, block: bool) -> str:
    """Convert a formula to MathML, with the large operators and limits of a display if it is a block."""
    markup = convert(latex.strip(), display="block" if block else "inline")
    markup = markup.replace('display="block"', 'displaystyle="true"', 1)
    for pattern, replacement in _SPACES:
        markup = pattern.sub(replacement, markup)
    return markup


def block(source: str, *_: Any, **__: Any) -> str:
    """A block of its own, which scrolls where it is too wide."""
    return f'<div class="formula">{mathml(source, block=True)}</div>'


class _Inline(InlineProcessor):
    def handleMatch(self, m: re.Match[str], data: str) -> tuple[str, int, int]:
        return self.md.htmlStash.store(mathml(m[1], block=False)), m.start(0), m.end(0)


class Formulas(Extension):
    """Formulas in text."""

    def extendMarkdown(self, md: Markdown) -> None:
        md.inlinePatterns.register(_Inline(r"\$`([^`]+)`\$", md), "formula", 195)  # before code, at 190


def on_config(config: Any) -> Any:
    """Add formulas to Markdown, in pages and in docstrings."""
    config.markdown_extensions.append(Formulas())
    config.mdx_configs["pymdownx.superfences"] = {
        "custom_fences": [{"name": "math", "class": "math", "format": block}]
    }
    return config
