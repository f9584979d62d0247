"""The command `spml completion`: a script with which a shell completes commands, options and values.

The script holds all names, so that the Tab key starts no Python.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from ..config import AUTO
from ..config.read import parts_of
from .arguments import Parser, choices_of

_WIDTH = 70
"""Characters of a help text that fit beside an option in the list that zsh shows."""


def completion(shell: Literal["bash", "zsh", "fish"]) -> None:
    """Print a script with which the shell completes commands, options and values. bash: spml completion bash
    > ~/.local/share/bash-completion/completions/spml

    Args:
        shell: bash, zsh or fish.
    """
    from ..analysis.registry import figures

    print(completion_script(shell, [f"analyse {figure}" for figure in figures()]))


def completion_script(shell: str, further: Sequence[str] = ()) -> str:
    """Make the script with which a shell completes the command line.

    Args:
        shell: `bash`, `zsh` or `fish`.
        further: Commands besides those of `main.COMMANDS`, such as `analyse maps`.
    """
    import shtab

    from ..methods.registry import methods
    from .main import COMMANDS, find_parser

    commands = [*COMMANDS, *further]
    whole = argparse.ArgumentParser("spml")
    groups = {"": whole.add_subparsers()}
    for command in commands:
        group, _, word = command.rpartition(" ")
        parser = find_parser(command)
        _prepare(parser, [AUTO, *methods()])
        if group in COMMANDS and group not in groups:
            group, word = "", f"{group}-{word}"
        if group not in groups:
            groups[group] = groups[""].add_parser(group, help=group).add_subparsers()
        parents: list[argparse.ArgumentParser] = [parser]
        # Of commands with arguments of their own, fish alone tells a second word from an argument.
        nested = any(other.startswith(f"{command} ") for other in commands)
        if command == "analyse" or (shell == "fish" and nested):
            parents.insert(0, argparse.ArgumentParser(add_help=False))
            groups[command] = parents[0].add_subparsers()
        about = _shortened(COMMANDS.get(command, ("", ""))[1])
        groups[group].add_parser(word, parents=parents, add_help=False, help=about)
    script: str = shtab.complete(whole, shell)
    return script


def _prepare(parser: Parser, methods: Sequence[str]) -> None:
    """Give each argument the values that it may have, and a help text that fits into a line."""
    import shtab

    for name, action in parser.actions.items():
        action.help = _shortened(action.help or "")
        parts = parts_of(parser.hints.get(action.dest, bool))
        if action.nargs == 0:
            continue
        if name == "--method" or (parser.prog, name) == ("spml methods", "name"):
            action.choices = methods
        elif choices := choices_of(parts[0]):
            action.choices = list(map(str, choices))
        elif str in parts or Path in parts:
            # Most texts are paths; a shell offers files for others, too.
            vars(action)["complete"] = shtab.FILE


def _shortened(text: str) -> str:
    return text if len(text) <= _WIDTH else text[: text.rfind(" ", 0, _WIDTH - 3)] + " ..."
