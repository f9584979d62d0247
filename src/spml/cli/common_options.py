"""Other names for options, and a short help of the options that most people need."""

from __future__ import annotations

import argparse
import copy
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args, get_origin

from jsonargparse import ArgumentParser

_FEW = 4
"""Choices that fit into the line of an option."""


class CommonOption(NamedTuple):
    """An option that the short help lists.

    Attributes:
        name: Name by which it is listed.
        help: Text in place of that of the full help, which is too long here.
    """

    name: str
    help: str = ""


def add_aliases(parser: ArgumentParser, aliases: Mapping[str, str]) -> None:
    """Give options a second name.

    Args:
        parser: Parser that has the options.
        aliases: Second name of each option.
    """
    for option, alias in aliases.items():
        action = parser._option_string_actions[option]
        action.option_strings = [*action.option_strings, alias]
        parser._option_string_actions[alias] = action


def add_two_helps(parser: ArgumentParser, common: Sequence[CommonOption], examples: str) -> None:
    """Add `--help`, which lists common options and examples, and `--help-all`, which lists all options.

    Args:
        parser: Parser without a help of its own.
        common: Options of the short help; they may be added to the parser later.
        examples: Text below them.
    """
    action = parser.add_argument("-h", "--help", action=_ShortHelp, help="show common options and exit")
    action.common, action.examples = common, examples
    parser.add_argument("--help-all", action="help", help="show all options and exit")


class _ShortHelp(argparse._HelpAction):
    """Prints the common options and examples, and exits."""

    common: Sequence[CommonOption]
    examples: str

    def __call__(self, parser: Any, *ignored: Any) -> None:
        formatter = argparse.HelpFormatter(parser.prog, max_help_position=26)
        formatter.add_usage(parser.usage, [], [])
        formatter.add_text(parser.description)
        for action in parser._actions:
            if not action.option_strings:
                formatter.add_argument(_described(action, action.dest, ""))
        formatter.start_section("common options")
        for name, text in self.common:
            formatter.add_argument(_described(parser._option_string_actions[name], name, text))
        formatter.end_section()
        print(f"{formatter.format_help()}\n{self.examples}")
        parser.exit()


def _described(action: argparse.Action, name: str, text: str) -> argparse.Action:
    """Copy of an action under one name, with its default but without its type."""
    action = copy.copy(action)
    text = text or action.help or ""
    if action.default and action.default is not argparse.SUPPRESS:
        text += f" (default: {action.default})"
    action.help = text.replace("%", "%%")
    if action.option_strings:
        action.option_strings = [name]
    if action.option_strings and action.nargs != 0:
        choices = get_args(getattr(action, "_typehint", None))
        leaf = name.lstrip("-").rpartition(".")[2]
        short = get_origin(getattr(action, "_typehint", None)) is Literal and len(choices) <= _FEW
        action.metavar = f"{{{','.join(choices)}}}" if short else leaf.replace("-", "_").upper()
    return action
