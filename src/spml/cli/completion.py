"""The command `spml completion`: a script with which a shell completes commands, options and values.

The script holds all names, so that the Tab key starts no Python.
"""

from __future__ import annotations

import argparse
from typing import Any, Literal, get_args, get_origin

from jsonargparse import ArgumentParser, Namespace

from ..config import AUTO
from .arguments import subcommands

_SHELLS = ("bash", "zsh")
_WIDTH = 70
"""Characters of a help text that fit beside an option in the list that zsh shows."""


def add_completion_command(commands: Any) -> None:
    """Add `completion` to the commands of `spml`."""
    parser = ArgumentParser(
        description="Print a script with which the shell completes commands, options and values. bash: "
        "spml completion bash > ~/.local/share/bash-completion/completions/spml"
    )
    parser.add_argument("shell", choices=_SHELLS, help="bash or zsh")
    commands.add_subcommand("completion", parser, help="print a completion script for the shell")


def run_completion(arguments: Namespace, parser: ArgumentParser) -> None:
    """Print the script with which a shell completes the command line of a parser."""
    from ..methods.registry import methods

    print(completion_script(parser, arguments.shell, [AUTO, *methods()]))


def completion_script(parser: ArgumentParser, shell: str, methods: list[str]) -> str:
    """Make the script with which a shell completes the command line of a parser.

    Args:
        parser: Parser of all commands; its actions are changed.
        shell: `bash` or `zsh`.
        methods: Names of the methods.
    """
    import shtab

    subcommands(parser)["methods"]._actions[-1].choices = methods
    _prepare(parser, {"--method": methods})
    script: str = shtab.complete(parser, shell)
    return script


def _prepare(parser: ArgumentParser, choices: dict[str, list[str]]) -> None:
    """Give each argument the values that it may have, and a help text that fits into a line."""
    import shtab

    for action in parser._actions:
        text = action.help or ""
        action.help = text if len(text) <= _WIDTH or text == argparse.SUPPRESS else _shortened(text)
        if action.choices or action.nargs == 0:
            continue
        hint = getattr(action, "_typehint", None) or action.type or str
        names = [name for option in action.option_strings for name in choices.get(option, ())]
        if names:
            action.choices = names
        elif get_origin(hint) is Literal:
            action.choices = get_args(hint)
        elif hint is bool:
            action.choices = ("true", "false")
        elif hint is str or str in get_args(hint):
            action.complete = shtab.FILE  # most texts are paths, and a shell offers files for others, too
    for each in subcommands(parser).values():
        _prepare(each, choices)


def _shortened(text: str) -> str:
    return text[: text.rfind(" ", 0, _WIDTH - 3)] + " ..."
