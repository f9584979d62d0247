"""Parsing of YAML and JSON that others wrote, so that no file takes endless time or ends in a traceback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import yaml

from .errors import InputError
from .safe import open_file

MAX_YAML = 1 << 18
"""Characters of a YAML text. Configurations and specifications have a few thousand; PyYAML reads about
100,000 per second."""

MAX_DEPTH = 32
"""Levels of lists and mappings in a YAML text."""

MAX_DIGITS = 3000
"""Characters of a number: 1:1:1:... is one in base 60, and Python does not print numbers of more digits."""

YAML_ERRORS = (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError)
"""Errors of PyYAML for a text. A value that only looks like a date (2001-99-99), or has a wrong tag
(`!!int x`), raises that of its conversion."""


def read_yaml_text(path: Path) -> str:
    """Read the text of a YAML file in UTF-8, which may be no longer than a configuration can be."""
    try:
        with TextIOWrapper(open_file(path), encoding="utf-8") as stream:
            text = stream.read(MAX_YAML + 1)
    except OSError as error:
        raise InputError(f"{path}: can't be read ({error.strerror or error}).") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 ({error.reason}). Save it as UTF-8.") from error
    _check_length(text, str(path))
    return text


def parse_yaml(text: str, where: str) -> Any:
    """Parse one YAML document of plain values, within the limits of `check_yaml`.

    Messages name the file `where` and the line.
    """
    with yaml_errors(where):
        check_yaml(text, where)
        return yaml.safe_load(text)


def check_yaml(text: str, where: str) -> None:
    """Check that a YAML text can be parsed in little time and memory, without building anything from it.

    References (`*name`) are refused, because a few of them, nested, stand for billions of values. Messages
    name the file `where`.

    Raises:
        InputError: It is too long, is nested too deeply, or has references or an endless number.
        yaml.YAMLError: It is not valid YAML.
        UnicodeEncodeError: A value has half of a surrogate pair.
    """
    _check_length(text, where)
    depth, anchors = 0, set()
    for event in yaml.parse(text, yaml.SafeLoader):
        line = _at(where, event.start_mark)
        if isinstance(event, yaml.AliasEvent) and event.anchor in anchors:
            raise InputError(f"{line}: references (*name) are not supported. Write the value out.")
        if isinstance(event, yaml.NodeEvent):
            anchors.add(event.anchor)
        if isinstance(event, yaml.ScalarEvent):
            event.value.encode()
            if len(event.value) > MAX_DIGITS and not event.style and event.value[0] in "+-0123456789":
                raise InputError(
                    f"{line}: a number has {len(event.value):,} characters. Put it in quotes if it is text."
                )
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise InputError(
                f"{line}: lists or mappings are nested more than {MAX_DEPTH} levels deep, which no setting "
                "needs. Correct it."
            )


@contextmanager
def yaml_errors(where: str) -> Iterator[None]:
    """Report what PyYAML raises for the text of the file `where` as an `InputError` in one line."""
    try:
        yield
    except InputError:
        raise
    except yaml.MarkedYAMLError as error:
        line = _at(where, error.problem_mark or error.context_mark)
        reason = ", ".join(filter(None, (error.context, error.problem)))
        raise InputError(f"{line}: not valid YAML: {reason}.") from error
    except YAML_ERRORS as error:
        raise InputError(f"{where}: not valid YAML: {' '.join(str(error).split())}.") from error


def _at(where: str, mark: Any) -> str:
    return f"{where}, line {mark.line + 1}" if mark else where


def _check_length(text: str, where: str) -> None:
    if len(text) > MAX_YAML:
        raise InputError(f"{where}: has more than {MAX_YAML:,} characters, the limit for YAML.")


def parse_json(text: str | bytes) -> Any:
    """Parse JSON as `json.loads` does, NaN included; a `ValueError` if it is nested too deeply, too."""
    try:
        return json.loads(text)
    except RecursionError as error:  # the parser, which is written in C, counts its levels
        raise ValueError("lists or objects in it are nested too deeply") from error
