"""Errors that a user sees as one clear message, and the exit code each becomes."""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable
from pathlib import Path


class SpmlError(Exception):
    """Something failed that is not the user's mistake (exit code 1)."""

    exit_code = 1


class InputError(SpmlError, ValueError):
    """Wrong usage or wrong input (exit code 2).

    The message says what was read (file, row), what was found, what was expected and what to do.
    """

    exit_code = 2


def missing_extra(package: str, extra: str) -> InputError:
    """Error for an optional dependency that is not installed."""
    return InputError(f"The package {package} is not installed. Install it: pip install 'spml[{extra}]'.")


def unexpected(error: Exception) -> str:
    """An exception that nobody foresaw, in one line, with the place that raised it."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text} ({Path(place.filename).name}, line {place.lineno})"


def nearest(name: str, options: Iterable[str]) -> str:
    """A sentence that names the options closest to a misspelt `name`, or all of them if none is close."""
    options = sorted(options)
    close = difflib.get_close_matches(name.lower(), options, n=3, cutoff=0.5)
    if close:
        return "Did you mean " + " or ".join(close) + "?"
    shown = ", ".join(options[:20]) + (f", ... ({len(options)} in all)" if len(options) > 20 else "")
    return f"Known: {shown}."
