"""Errors that a user sees as one clear message, each with its exit code."""

from __future__ import annotations

import difflib
import importlib.util
import re
import traceback
from collections.abc import Iterable
from pathlib import Path

CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Characters that would break the line of a message, change a terminal, or can't be printed."""

HIDDEN = re.compile(
    "[\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]|(?<![^\x00-\u02af\u2000-\u206f])[\u200c\u200d]"
)
"""Characters that are not seen, or change the order of others; names may hold them, but show them escaped.

Joiners after a letter of a script other than Latin, or in an emoji, stay: Persian and Indic words have them.
"""
_ESCAPED = re.compile(f"{CONTROL.pattern}|{HIDDEN.pattern}")

LONGEST = 2000
"""Characters of a message."""


class SpmlError(Exception):
    """A failure that is not a mistake of the user (exit code 1).

    The message is one line, even where it quotes a file or what a library says of one: control characters are
    escaped, and the middle of a very long one is left out.
    """

    exit_code = 1

    def __init__(self, message: str = "") -> None:
        super().__init__(one_line(message))


class InputError(SpmlError, ValueError):
    """Wrong usage or wrong input (exit code 2).

    The message says where (file, row), what was found, what was expected and what to do.
    """

    exit_code = 2


def one_line(text: str) -> str:
    """Escape control and hidden characters, and leave out the middle of a text longer than `LONGEST`."""
    text = _ESCAPED.sub(_escape, text)
    # What to do comes last in a message.
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 605]} ... {text[-600:]}"


EXTRAS = {
    "bench": "optuna sqlalchemy markdown-it-py",
    "tables": "pyarrow pandas",
    "heif": "pillow-heif",
    "ray": "ray",
    "review": "fastapi uvicorn",
    "export": "onnx onnxscript onnxruntime",
    "serve": "fastapi uvicorn python-multipart prometheus-client",
    "transformers": "transformers",
    "names": "transformers",
    "text": "sentence-transformers",
    "tensorboard": "tensorboard",
    "wandb": "wandb",
    "mlflow": "mlflow",
}
"""Packages of each extra, in the form that pip takes."""


def missing_extra(package: str, extra: str) -> InputError:
    """Error for an optional dependency that is not installed."""
    return InputError(f"The package {package} is not installed. {how_to_install(extra)}")


def how_to_install(extra: str) -> str:
    """Say how to install the packages of an extra, in words that are right in any environment."""
    return f"Install what this needs: pip install {EXTRAS[extra]} (the extra `{extra}`)."


def require_packages(extra: str, *modules: str) -> None:
    """Check that the modules that an extra brings are installed, without importing them.

    The packages are called like the modules, with hyphens.
    """
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise missing_extra(module.replace("_", "-"), extra)


def unexpected(error: Exception) -> str:
    """Describe an unforeseen exception in one line, with the place that raised it."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text} ({Path(frame.filename).name}, line {frame.lineno})"


def first_line(error: BaseException) -> str:
    """Type of an exception of a library, and the first line of its message."""
    text = str(error).strip().partition("\n")[0].strip()
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__


def quoted(value: object) -> str:
    """Represent a value in a message, in one line of at most 100 characters."""
    text = repr(value)
    return text if len(text) <= 100 else text[:99] + "…"


def escaped(text: str) -> str:
    """Replace hidden characters, and control characters other than line breaks and tabs, by escapes."""
    return _ESCAPED.sub(lambda found: found[0] if found[0] in "\n\t" else _escape(found), text)


def visible(text: str) -> str:
    """Replace hidden characters by escapes."""
    return HIDDEN.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return ascii(found[0])[1:-1]


def memory_asked_for(error: Exception) -> str | None:
    """Amount of memory that could not be allocated, such as "2.4 GiB".

    Returns:
        Empty if the error does not tell; None if it is no error about memory.
    """
    text = str(error)
    if not isinstance(error, MemoryError) and not re.search("allocate memory|out of memory", text):
        return None
    amount = re.search(r"allocate (\d\S* [KMGTPE]?i?[Bb](?:ytes)?)\b", text)
    return amount[1] if amount else ""


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
