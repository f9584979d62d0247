"""Names of settings: short ones, the same on the command line and in Python, and those with dots."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from .common.errors import InputError, SpmlError, nearest
from .config import Config, DataConfig, ModelConfig, OptimConfig

SHORT_NAMES = {
    "head": "model.head",
    "backbone": "model.backbone",
    "weights": "model.weights",
    "frozen": "model.frozen",
    "local": "model.local",
    "names": "model.names",
    "lr": "optim.lr",
}


def from_arguments(settings: Mapping[str, Any], others: Iterable[str] = ()) -> dict[str, Any]:
    """Nest settings that were given as keyword arguments, some of them by their short names.

    Args:
        settings: Fields of `Config`, nested as in config.yaml, and short names.
        others: Names of further arguments of the function, which a misspelt name may mean.

    Example:
        >>> from_arguments({"head": "mlp", "epochs": 5, "model": {"hidden": 64}})
        {'epochs': 5, 'model': {'hidden': 64, 'head': 'mlp'}}

    Raises:
        InputError: A name is not known, or a setting is stated twice.
    """
    known = {field.name for field in fields(Config)} | SHORT_NAMES.keys()
    for name in settings:
        if name not in known:
            raise InputError(f"unknown setting {name!r}. {nearest(name, known.union(others))}")
    groups_first = sorted(settings, key=SHORT_NAMES.__contains__)
    return nested({SHORT_NAMES.get(name, name): settings[name] for name in groups_first})


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Nest settings whose names contain dots (`optim.lr`), as in config.yaml.

    Raises:
        InputError: A setting is stated twice, or both as a whole and in parts (`optim: 1`, `optim.lr: 2`).
    """
    result: dict[str, Any] = {}
    for key, value in flat.items():
        *groups, last = key.split(".")
        inner = result
        for group in groups:
            inner = inner.setdefault(group, {})
            if not isinstance(inner, dict):
                raise InputError(f"{key} is part of {group}, which is stated as a whole as well")
        parts, target = {last: value}, inner
        if isinstance(value, Mapping):
            parts, target = dict(value), inner.setdefault(last, {})
        if not isinstance(target, dict) or set(parts) & set(target):
            raise InputError(f"{key} is stated twice")
        target |= parts
    return result


# -- names in messages -----------------------------------------------------------------------------------

_COMMAND_LINE: ContextVar[tuple[str, ...]] = ContextVar("command line", default=())

_ARGUMENTS: ContextVar[frozenset[str] | None] = ContextVar("arguments", default=None)
"""Arguments of a caller that has the argument `settings` for all other settings; None = another caller."""

_OPTION = re.compile(
    r"""(?P<command>`spml [^`]*`)                     # is typed in a shell, options and all
    | (?<![\w-])--(?P<name>[a-z]\w*(?:[.-]\w+)*)
      (?:[ ]of[ ]`?spml[ ]\w+`?)?
      (?:[ =](?P<value>'[^']*'|"[^"]*"|[A-Z]+\b|\d[\w.]*\b(?!\.\w)|[a-z][\w-]*))?""",
    re.VERBOSE,
)
_WORDS = {"yes", "no", "none", "jsonl", "csv", "parquet", "leave_out", "ray", "local", "negative"}
"""Values of options, besides the choices of settings."""
_CONFIG = frozenset(field.name for field in fields(Config))
_FLAGS = ("overwrite", "resume", "observed", "compile", "download")


@contextmanager
def command_line(words: Iterable[str]) -> Iterator[None]:
    """Leave the options in messages as they are, because a command runs.

    Args:
        words: The command as it was typed, from `spml` on.
    """
    token = _COMMAND_LINE.set(tuple(words))
    try:
        yield
    finally:
        _COMMAND_LINE.reset(token)


def typed_command() -> tuple[str, ...]:
    """Words of the command that runs, from `spml` on; empty if none does."""
    return _COMMAND_LINE.get()


@contextmanager
def python_names(*, data_by_name: bool = False, arguments: Iterable[str] = ()) -> Iterator[None]:
    """Name arguments instead of options in the messages of errors, unless a command runs.

    Args:
        data_by_name: Whether settings of the data are arguments of the function, as in `Run.evaluate`.
        arguments: Arguments of a function or class that takes other settings as `settings`.
    """
    token = _ARGUMENTS.set(frozenset(arguments) or _ARGUMENTS.get())
    try:
        yield
    except SpmlError as error:
        error.args = (as_called(str(error), data_by_name=data_by_name),)
        raise
    finally:
        _ARGUMENTS.reset(token)


def as_called(message: str, *, data_by_name: bool = False) -> str:
    """A message with names of arguments instead of options, unless a command runs."""
    return message if _COMMAND_LINE.get() else with_arguments(message, data_by_name=data_by_name)


def with_arguments(message: str, *, data_by_name: bool = False) -> str:
    """Write the options in a message as arguments of Python.

    Example:
        >>> with_arguments("Pass --data.images FOLDER or --model.head linear.")
        "Pass data={'images': FOLDER} or head='linear'."
    """

    def argument(found: re.Match[str]) -> str:
        if found["command"]:
            return found["command"]
        name, value = found["name"].replace("-", "_"), found["value"]
        after = ""
        if value and value[0].islower():  # a choice, or the next word of the sentence
            if value in _WORDS | _choices():
                value = repr(value)
            else:
                value, after = "", found[0][found.start("value") - found.start() - 1 :]
        group, _, leaf = name.rpartition(".")
        value = "True" if leaf in _FLAGS and value == "'yes'" else value
        short = {full: short for short, full in SHORT_NAMES.items()}.get(name)
        own = _ARGUMENTS.get()
        if own and (short or leaf) not in own and (group or leaf in _CONFIG):
            entry = f"{{{leaf!r}: {value or '...'}}}"
            return (f"settings={{{group!r}: {entry}}}" if group else f"settings={entry}") + after
        if not group or short or own or (group == "data" and data_by_name):
            default = "True" if leaf in _FLAGS else ""
            return (f"{short or leaf}={value or default}" if value or default else short or leaf) + after
        return f"{group}={{{leaf!r}: {value or '...'}}}" + after

    return _OPTION.sub(argument, message)


@cache
def _choices() -> frozenset[str]:
    """Values of all settings of which there are a few."""
    parts = [get_type_hints(part) for part in (Config, DataConfig, ModelConfig, OptimConfig)]
    hints = [hint for part in parts for hint in part.values() if get_origin(hint) is Literal]
    return frozenset(value for hint in hints for value in get_args(hint))
