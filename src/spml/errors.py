"""Errors that a user sees as one clear message, each with its exit code."""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable
from pathlib import Path


class SpmlError(Exception):
    """A failure that is not a mistake of the user (exit code 1)."""

    exit_code = 1


class InputError(SpmlError, ValueError):
    """Wrong usage or wrong input (exit code 2).

    The message says where (file, row), what was found, what was expected and what to do.
    """

    exit_code = 2


def missing_extra(package: str, extra: str) -> InputError:
    """Error for an optional dependency that is not installed."""
    return InputError(f"The package {package} is not installed. Install it: pip install 'spml[{extra}]'.")


def unexpected(error: Exception) -> str:
    """Describe an unforeseen exception in one line, with the place that raised it."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text} ({Path(frame.filename).name}, line {frame.lineno})"


def quoted(value: object) -> str:
    """Represent a value in a message, in one line of at most 100 characters."""
    text = repr(value)
    return text if len(text) <= 100 else text[:99] + "…"


def nearest(name: str, options: Iterable[str]) -> str:
    """Suggest the options closest to a misspelt name, or list the options if none is close."""
    options = sorted(options)
    if close := closest(name, options):
        return close
    listed = ", ".join(options[:20]) + (f", ... ({len(options)} in all)" if len(options) > 20 else "")
    return f"Known: {listed}."


def closest(name: str, options: Iterable[str]) -> str:
    """Suggest the options closest to a misspelt name; empty if none is close."""
    close = difflib.get_close_matches(name.lower(), sorted(options), n=3, cutoff=0.5)
    return "Did you mean " + " or ".join(close) + "?" if close else ""
