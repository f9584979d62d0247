"""Formulas in the docstrings of losses as mathematics on the site; `help` displays them as they are written.

Each line of docs/docstring_formulas.txt is a formula as docstrings have it, whose line breaks do not matter.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe

FORMULAS = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()
_GREEK = ("alpha", "beta", "gamma", "delta", "lam", "mu", "rho", "sigma", "tau")
_FUNCTIONS = ("log", "exp", "max", "min", "sum")
_SIGNS = {
    "l+": r"\ell^+",
    "l-": r"\ell^-",
    "L+": "L^+",
    "L-": "L^-",
    "<=": r"\leq",
    ">=": r"\geq",
    "*": r"\,",
}
_BETWEEN = {"", "=", "+", "-", "/", "<", ">", ",", "(", "[", ")", "]", r"\leq", r"\geq", r"\,"}
_TOKEN = re.compile(r"\s*(?:\^-?\w+|[lL][+-](?!\w)|\w+|<=|>=|\S)")
_LISTED = "|".join(re.escape(each).replace(r"\ ", r"\s+") for each in sorted(FORMULAS, key=len, reverse=True))
# A formula is neither a part of a word or of a longer product, nor inside of code.
_ANY = re.compile(rf"(?<![\w`])(?:{_LISTED})(?![\w`^])")


def typeset(text: str) -> str:
    """Write the listed formulas of a text in LaTeX."""
    return _ANY.sub(lambda match: f"$`{latex(match[0])}`$", text)


def latex(plain: str) -> str:
    """Write a formula in LaTeX.

    Example:
        >>> print(latex("p^gamma_neg l- / (1 - p_m)"))
        p ^{\\gamma_{\\text{neg}}} \\ell^- / ( 1 - p_{m} )
    """
    symbols = [""]
    for token in _TOKEN.findall(plain):
        symbol = _symbol(token.strip())
        words = symbol.startswith(r"\text") or symbols[-1].startswith(r"\text")
        if words and token[0].isspace() and not {symbol, symbols[-1]} & _BETWEEN:
            symbols.append(r"\,")  # a product, of which one factor is a word
        symbols.append(symbol)
    return " ".join(symbols).strip()


def _symbol(token: str) -> str:
    """A sign, a name or a power, which may be negative."""
    if token[0] == "^":
        return f"^{{{'-' * (token[1] == '-')}{_name(token.lstrip('^-'))}}}"
    if token in _SIGNS:
        return _SIGNS[token]
    return _name(token) if token[0].isalnum() else token


def _name(name: str) -> str:
    """A number, or a name with what follows its underscore, or its digit, as a subscript."""
    base, index = re.fullmatch(r"(\d+|[A-Za-z]+)_?(\w*)", name).groups()
    if base in (*_GREEK, *_FUNCTIONS):
        base = "\\" + {"lam": "lambda"}.get(base, base)
    elif base.isalpha() and len(base) > 1:
        base = rf"\text{{{base}}}"
    return base + (f"_{{{_name(index)}}}" if index else "")


class Formulas(griffe.Extension):
    """Rewrites the docstrings of losses as mkdocstrings reads them."""

    def on_function_instance(self, *, func: griffe.Function, **_: Any) -> None:
        """Typeset the formulas of one docstring."""
        if func.docstring and func.path.startswith("spml.losses."):
            func.docstring.value = typeset(func.docstring.value)
