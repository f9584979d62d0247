"""The command `spml completion`: a script with which a shell completes commands, options and values.

The script holds all names, so that the Tab key starts no Python.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
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

    if shell == "fish":
        return "\n".join(_fish([*COMMANDS, *further], [AUTO, *methods()])) + "\n"
    whole = argparse.ArgumentParser("spml")
    groups = {"": whole.add_subparsers()}
    for command in [*COMMANDS, *further]:
        group, _, word = command.rpartition(" ")
        parser = find_parser(command)
        _prepare(parser, [AUTO, *methods()])
        if group in COMMANDS and group != "analyse":  # it has arguments of its own
            group, word = "", f"{group}-{word}"
        if group not in groups:
            groups[group] = groups[""].add_parser(group, help=group).add_subparsers()
        added = groups[group].add_parser(
            word, parents=[parser], add_help=False, help=_shortened(COMMANDS.get(command, ("", ""))[1])
        )
        if command == "analyse":
            groups[command] = added.add_subparsers()
    script: str = shtab.complete(whole, shell)
    return script


def _fish(commands: Sequence[str], methods: Sequence[str]) -> Iterator[str]:
    """Lines of the script for fish, which shtab does not write."""
    from .main import COMMANDS, find_parser

    yield "complete -c spml -f"
    groups = sorted({command.split()[0] for command in commands} - {*commands})
    yield f"complete -c spml -n __fish_use_subcommand -a {_in_quotes(' '.join(groups))}"
    for command in commands:
        parser, words = find_parser(command), command.split()
        _prepare(parser, methods)
        after = {name.split()[len(words)] for name in commands if name.startswith(f"{command} ")}
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in words)
        here = _in_quotes(
            seen + "".join(f"; and not __fish_seen_subcommand_from {word}" for word in sorted(after))
        )
        before = _in_quotes(seen.rpartition("; and ")[0] or "__fish_use_subcommand")
        about = _in_quotes(COMMANDS.get(command, ("", command))[1])
        yield f"complete -c spml -n {before} -a {words[-1]} -d {about}"
        for action in dict.fromkeys(parser.actions.values()):
            names = " ".join(
                f"-{'l' if name[1] == '-' else 's'} {name.lstrip('-')}" for name in action.option_strings
            )
            values = f"-x -a {_in_quotes(' '.join(map(str, action.choices)))}" if action.choices else ""
            files = "-r -F" if hasattr(action, "complete") else "" if action.nargs == 0 or values else "-x"
            about = _in_quotes(action.help or "")
            yield f"complete -c spml -n {here} {names} {values or files} -d {about}"


def _in_quotes(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


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
