"""Parse a command line, and say in one sentence what is wrong with it."""

from __future__ import annotations

import argparse
import difflib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin

import yaml
from jsonargparse import ActionConfigFile, ArgumentParser, Namespace, get_loader, set_loader

from ..common.errors import InputError, nearest
from ..common.parsing import YAML_ERRORS, check_yaml, parse_yaml, read_yaml_text
from ..config import Config, read_yaml
from ..setting_types import describe_type, typed

_MANY = ("+", "*")
"""`nargs` of an argument that takes several values."""


class Command(NamedTuple):
    """Command that a command line names.

    Attributes:
        parser: Parser of its arguments.
        words: Words that name it, such as ("data", "inspect").
        arguments: Arguments after these words.
    """

    parser: ArgumentParser
    words: tuple[str, ...]
    arguments: list[str]

    @property
    def name(self) -> str:
        """What a user types to call the command; `audit-sample` is typed as two words."""
        return " ".join(("spml", *self.words)).replace("-", " ")


def find_command(parser: ArgumentParser, arguments: Sequence[str]) -> Command:
    """Find the command that a command line names, as far as it is a known one."""
    words: tuple[str, ...] = ()
    rest = list(arguments)
    while commands := subcommands(parser):
        first = next((position for position, word in enumerate(rest) if not _is_option(word)), None)
        if first is None or rest[first] not in commands:
            break
        parser, words, rest = commands[rest[first]], (*words, rest[first]), rest[first + 1 :]
    return Command(parser, words, rest)


def join_words(parser: ArgumentParser, arguments: Sequence[str]) -> list[str]:
    """Name a command of two words as the parser knows it: `audit sample` is `audit-sample` there.

    `spml audit` has arguments of its own, so that its relatives can't be commands below it.
    """
    joined = "-".join(arguments[:2])
    if len(arguments) > 1 and joined in subcommands(parser):
        return [joined, *arguments[2:]]
    return list(arguments)


def subcommands(parser: ArgumentParser) -> dict[str, ArgumentParser]:
    """Parsers of the commands of a parser by name; empty if it has none."""
    return {
        name: each
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for name, each in action.choices.items()
    }


def parse(parser: ArgumentParser, arguments: Sequence[str]) -> Namespace:
    """Parse a command line. In the name of an option, a hyphen is as good as an underscore.

    Args:
        parser: Parser of all commands, made with `exit_on_error=False`.
        arguments: Words of the command line after `spml`.

    Raises:
        InputError: Says in one sentence what is wrong, and what comes nearest to it.
    """
    _forbid_abbreviations(parser)
    _take_text_as_typed(parser)
    command = find_command(parser, arguments)
    named = len(arguments) - len(command.arguments)
    spelled = [_with_known_spelling(command.parser, word) for word in command.arguments]
    command = command._replace(arguments=spelled)
    for given in _given(command):
        if isinstance(given.action, ActionConfigFile) and os.path.isfile("".join(given.values)):
            _check_settings(Path(given.values[0]))
    try:
        return parser.parse_args([*arguments[:named], *spelled])
    except (argparse.ArgumentError, ValueError, OverflowError) as error:
        raise InputError(_explain(command, str(error))) from error


def _check_settings(path: Path) -> None:
    """Refuse a configuration file that is too long, or reads another one, before jsonargparse reads it."""
    settings = parse_yaml(read_yaml_text(path), str(path))
    if isinstance(settings, dict) and "config" in settings:
        raise InputError(
            f"{path}: names another configuration file (`config`), which is not supported. Copy its settings."
        )


def _load_limited(text: str) -> Any:
    """Read a value, or the content of a configuration file, as jsonargparse reads YAML."""
    try:
        check_yaml(text, "a value")
        return get_loader("yaml")(text)
    except InputError:
        raise
    except YAML_ERRORS as error:
        raise yaml.YAMLError(str(error)) from error


PARSER_MODE = "limited yaml"
"""Mode of the parser of all commands, in which jsonargparse reads YAML within limits."""

set_loader(PARSER_MODE, _load_limited, (yaml.YAMLError,))


def _forbid_abbreviations(parser: ArgumentParser) -> None:
    """Make the parser refuse `--epoch` for `--epochs`: an abbreviation means something else one day."""
    parser.allow_abbrev = False
    for each in subcommands(parser).values():
        _forbid_abbreviations(each)


def _take_text_as_typed(parser: ArgumentParser) -> None:
    """Make options of text take a value as it is: jsonargparse reads `#`, `~` and `null` as YAML for None."""
    for action in parser._actions:
        hint = getattr(action, "_typehint", None)
        if {str} <= {*(get_args(hint) or (hint,))} <= {str, type(None)}:
            action._check_type = _unless_text(action._check_type)
    for each in subcommands(parser).values():
        _take_text_as_typed(each)


def _unless_text(check: Callable[..., Any]) -> Callable[..., Any]:
    """Check of a value that leaves text alone."""

    @wraps(check)
    def checked(value: Any, *arguments: Any, **named: Any) -> Any:
        return value if isinstance(value, str) else check(value, *arguments, **named)

    return checked


def _is_option(word: str) -> bool:
    """Whether argparse takes a word for an option: negative numbers and words with spaces are values."""
    if not word.startswith("-") or word in ("-", "--") or " " in word:
        return False
    try:
        float(word)
    except ValueError:
        return True
    return False


def _with_known_spelling(parser: ArgumentParser, word: str) -> str:
    if not _is_option(word):
        return word
    name, equals, value = word.partition("=")
    known = {option.replace("-", "_"): option for option in parser._option_string_actions}
    plain = name.replace("-", "_")
    if plain not in known and _find_action(parser, "--" + plain[2:]) is not None:
        return "--" + plain[2:] + equals + value  # a name that the method defines, such as --hp.q2
    return str(known.get(plain, name)) + equals + value


def _find_action(parser: ArgumentParser, option: str) -> argparse.Action | None:
    """Find what an option sets; for `--hp.NAME`, the dictionary that it is an entry of."""
    action: argparse.Action | None = parser._option_string_actions.get(option)
    root, dot, _ = option.partition(".")
    if action is None and dot:
        above = parser._option_string_actions.get(root)
        action = above if above is not None and describe_type(_hint(above)) == describe_type(dict) else None
    return action


def _hint(action: argparse.Action) -> Any:
    """Type hint of the value of an option; text unless stated."""
    return getattr(action, "_typehint", None) or action.type or str


# -- what is wrong ---------------------------------------------------------------------------------------


def _explain(command: Command, message: str) -> str:
    """Say what is wrong with a command line that the parser refused with a message."""
    if commands := subcommands(command.parser):
        return _wrong_command(command, commands) or _in_one_line(message)
    problems = (_wrong_option, _wrong_positional, _missing_option)
    return next(filter(None, (find(command) for find in problems)), "") or _in_one_line(message)


def _in_one_line(message: str) -> str:
    return " ".join(message.split())


def _wrong_command(command: Command, commands: dict[str, ArgumentParser]) -> str:
    for word in command.arguments:
        if not _is_option(word):
            return f"unknown command {word!r}. {nearest(word, commands)}"
        if _find_action(command.parser, word.partition("=")[0]) is None:
            return _unknown_option(command, word.partition("=")[0])
    return f"name a command: {', '.join(commands)}."


class _Given(NamedTuple):
    """One option as it is given, or one word that is no option (without an action)."""

    name: str
    action: argparse.Action | None
    values: list[str]
    with_equals: bool = False


def _given(command: Command) -> Iterator[_Given]:
    """Go through the words of a command as argparse does."""
    words = list(command.arguments)
    while words:
        word = words.pop(0)
        if word == "--":
            yield from (_Given("", None, [rest]) for rest in words)
            return
        if not _is_option(word):
            yield _Given("", None, [word])
            continue
        name, equals, value = word.partition("=")
        action = _find_action(command.parser, name)
        values = [value] if equals else []
        if action is not None and not equals:
            limit = len(words) if action.nargs in _MANY else 0 if action.nargs == 0 else 1
            while words and len(values) < limit and not _is_option(words[0]):
                values.append(words.pop(0))
        yield _Given(name, action, values, bool(equals))


def values_of(command: Command, destinations: Sequence[str]) -> list[str]:
    """Values that a command line itself states for a setting, in their order; files that it names are not
    read.

    Args:
        command: Command with its arguments.
        destinations: Names of the setting, such as `model.backbone`.
    """
    return [
        given.values[0]
        for given in _given(command)
        if given.action is not None and given.action.dest in destinations and given.values
    ]


def _wrong_option(command: Command) -> str:
    for given in _given(command):
        if not given.name:
            continue
        if given.action is None:
            return _unknown_option(command, given.name)
        if given.action.nargs == 0:
            if given.with_equals:
                return f"{given.name} takes no value, got {given.values[0]!r}."
        elif not given.values and given.action.nargs != "*":
            return f"{given.name} needs a value{_expected(given.action)}."
        elif problem := _wrong_value(command.parser, given):
            return problem
    return ""


def _unknown_option(command: Command, name: str) -> str:
    """Name the nearest options: those of this name in another group, or those of similar letters."""
    actions = command.parser._option_string_actions
    known = {_plain(option): option for option in actions if actions[option].help != argparse.SUPPRESS}
    plain = _plain(name)
    leaves = {_leaf(option): option for option in known}
    close = (
        [option for option in known if _leaf(option) == _leaf(plain)]
        or difflib.get_close_matches(plain, known, n=2, cutoff=0.75)
        or [leaves[leaf] for leaf in difflib.get_close_matches(_leaf(plain), leaves, n=2, cutoff=0.75)]
    )
    suggested: dict[argparse.Action, str] = {}  # one name of each option
    for option in sorted(close, key=lambda option: _similarity(plain, option), reverse=True):
        suggested.setdefault(actions[known[option]], known[option])
    if suggested:
        return f"unknown option {name}. Did you mean {' or '.join(suggested.values())}?"
    everything = known.get("help_all", "--help")
    return f"unknown option {name}. `{command.name} {everything}` lists the options."


def _plain(option: str) -> str:
    return option.lstrip("-").replace("-", "_").lower()


def _similarity(first: str, second: str) -> float:
    return difflib.SequenceMatcher(None, first, second).ratio()


def _leaf(option: str) -> str:
    return option.rpartition(".")[2]


def _expected(action: argparse.Action) -> str:
    hint = _hint(action)
    return "" if hint is str or not describe_type(hint) else f": {describe_type(hint)}"


def _wrong_file(parser: ArgumentParser, path: Path) -> str:
    """What is wrong with a file of settings, which may also set the other arguments of the command."""
    settings = {field.name for field in fields(Config)}
    try:
        read_yaml(path, other=[action.dest for action in parser._actions if action.dest not in settings])
    except InputError as error:
        return str(error)
    return ""


def _wrong_value(parser: ArgumentParser, given: _Given) -> str:
    """What is wrong with the value of an option, if its type is a simple one."""
    action = given.action
    assert action is not None
    if action.nargs in _MANY:
        return ""
    (text,) = given.values
    if isinstance(action, ActionConfigFile):
        return _wrong_file(parser, Path(text))
    if action.choices and text not in action.choices:
        return f"{given.name} must be one of {', '.join(map(str, action.choices))}, got {text!r}"
    try:
        _check_value(text, _hint(action), given.name)
    except InputError as error:
        return str(error)
    return ""


def _check_value(text: str, hint: Any, name: str) -> None:
    """Check a value as it stands on the command line, where it is YAML unless it is text.

    Raises:
        InputError: It is not of the type that the option needs.
    """
    if get_origin(hint) is Literal:
        typed(text, hint, name)
    elif {*(get_args(hint) or (hint,))} <= {int, float, bool, type(None)}:
        try:
            value = parse_yaml(text, name)
        except InputError:
            value = text
        typed(value, hint, name)


def _wrong_positional(command: Command) -> str:
    words = [given.values[0] for given in _given(command) if not given.name]
    expected = [action for action in command.parser._actions if not action.option_strings]
    needed = [action for action in expected if action.nargs not in ("?", "*")]
    if len(words) < len(needed):
        action = needed[len(words)]
        return (
            f"{action.dest.upper()} is missing: {action.help}. `{command.name} --help` shows how to call it."
        )
    for word, action in zip(words, expected, strict=False):
        if action.choices and word not in action.choices:
            return f"{action.dest.upper()} must be one of {', '.join(map(str, action.choices))}, got {word!r}"
    if len(words) > len(expected) and not any(action.nargs in _MANY for action in expected):
        return (
            f"unexpected argument {words[len(expected)]!r}. Put quotes round a name with spaces; "
            f"`{command.name} --help` shows what the command takes."
        )
    return ""


def _missing_option(command: Command) -> str:
    named = {given.action for given in _given(command)}
    required = getattr(command.parser, "required_args", ())  # older versions of jsonargparse keep them apart
    for action in command.parser._actions:
        needed = action.required or action.dest in required
        if needed and action.option_strings and action not in named:
            return f"{action.option_strings[0]} is required: {action.help}."
    return ""
