"""The command `spml`. Only the named command is imported, and it imports heavy modules when it runs."""

from __future__ import annotations

import argparse
import contextlib
import errno
import gc
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import Any, TextIO, cast

from ..common.errors import (
    InputError,
    SpmlError,
    escaped,
    memory_asked_for,
    nearest,
    visible,
)
from ..common.messages import shown
from ..common.spreadsheets import note_formulas
from ..version import __version__
from .arguments import Parser, is_option
from .own_network import own_network

# -- streams that can't be written: closed, on a full disk, or read by a process that went away ----------


_READER_WENT_AWAY = 141
"""Exit code that a shell shows for a process that SIGPIPE ended, such as `cat` in `cat x | head -1`."""


@contextmanager
def guarded_streams(name: str) -> Iterator[None]:
    """Run a command, and end the process if its standard output can't be written.

    A process that reads the output may go away, as `head` does: then the exit code is 141 and nothing is
    said. Otherwise, one line on standard error says why, and the exit code is 1. Standard error holds no
    results: lines that can't be written there are dropped, so that closing a terminal does not end training.

    Args:
        name: Name of the command, for the message.

    Raises:
        SystemExit: Standard output can't be written.
    """
    before = sys.stdout, sys.stderr
    # Without a stream, Python has None in its place. A file opened for reading fails when it is written to.
    output, messages = sys.stdout or open(os.devnull), sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    sys.stdout = cast(TextIO, _Guarded(output, holds_results=True))
    sys.stderr = cast(TextIO, _Guarded(messages, holds_results=False))
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except _OutputLost as lost:
        # What is still in the buffer would fail again when the interpreter ends.
        with open(os.devnull, "w") as nowhere, contextlib.suppress(OSError):
            os.dup2(nowhere.fileno(), output.fileno())
        if lost.cause.errno == errno.EPIPE:
            sys.exit(_READER_WENT_AWAY)
        reason = lost.cause.strerror or "it is closed"
        print(f"{name}: standard output can't be written ({reason}).", file=sys.stderr)
        sys.exit(1)
    finally:
        sys.stdout, sys.stderr = before


class _OutputLost(BaseException):
    """Raised when standard output can't be written.

    It is not an `OSError`, because code that handles errors of files would catch it.
    """

    def __init__(self, cause: OSError) -> None:
        self.cause = cause


class _Guarded:
    """A stream whose errors in writing raise `_OutputLost` if it holds results, and are ignored otherwise.

    On a terminal, hidden characters are shown; what a program or a file reads stays as it is.
    """

    def __init__(self, stream: TextIO, *, holds_results: bool) -> None:
        self._stream, self._holds_results, self._terminal = stream, holds_results, stream.isatty()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(visible(text) if self._terminal else text)
        except OSError as error:
            if self._holds_results:
                raise _OutputLost(error) from error
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            if self._holds_results:
                raise _OutputLost(error) from error


# -- commands --------------------------------------------------------------------------------------------


COMMANDS = {
    "demo": ("bench", "compare methods on embedded data"),
    "train": ("train", "train a model"),
    "thresholds": ("thresholds", "decide from which score on labels are predicted"),
    "predict": ("predict", "label new samples"),
    "evaluate": ("evaluate", "measure or compare models on labelled data"),
    "export": ("export", "write a model for programs without spml"),
    "audit": ("audit", "find missing labels"),
    "audit sample": ("audit", "draw random samples to label in full"),
    "audit use": ("audit", "learn from samples that people labelled in full"),
    "data inspect": ("data", "report what a data set contains"),
    "data prepare": ("data", "check a benchmark's files"),
    "data convert": ("data", "write labels in another format"),
    "review": ("review", "answer an audit's lists, or label a sample in full, on a local page"),
    "review export": ("review", "write the answers of a review as labels"),
    "loop": ("loop", "train, label a sample in full, review and train again, step by step"),
    "serve": ("serve", "answer HTTP requests with labels"),
    "analyse": ("analyse", "draw the figures of the papers from runs"),
    "bench run": ("bench", "make the runs of a comparison of methods, and the report"),
    "bench status": ("bench", "show what is finished"),
    "bench report": ("bench", "write the report"),
    "bench list": ("bench", "list the specifications that come with the package"),
    "bench show": ("bench", "print a specification, and what it runs"),
    "bench config": ("bench", "print the configuration of a run"),
    "methods": ("methods", "list methods"),
    "completion": ("completion", "print a completion script for the shell"),
}
"""Module and purpose of each command. The module has a function that runs the command: `data_inspect` for
`data inspect`."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command.

    Exit code 0, or 2 for wrong usage or input, 1 for a failure, 130 when interrupted, 141 if the process that
    reads standard output went away.
    """
    typed = sys.argv[1:] if arguments is None else list(arguments)
    first, *rest = typed or [""]
    typed = {"help": [*rest, "--help"], "version": ["--version"], "inspect": ["data", *typed]}.get(
        first, typed
    )
    command, words = split_command(typed)
    name = f"spml {command}".strip()
    # Images with more than `data.max_pixels` are refused before they are decoded, which says more.
    warnings.filterwarnings("ignore", message=r"Image size \(\d+ pixels\) exceeds limit")
    with guarded_streams(name):
        try:
            if not command and not words:
                _group_parser("").print_help()
                sys.exit(2)
            parser = find_parser(command, words)
            parsed = parser.parse(words)
            with (
                nullcontext()
                if getattr(parsed, "quiet", False)
                else shown(verbose=getattr(parsed, "verbose", False)),
                own_network(parsed.stated),
                note_formulas(),
            ):
                _import_torch()
                parser.run(parsed)
        except SpmlError as error:
            print(f"{name}: {error}", file=sys.stderr)
            sys.exit(error.exit_code)
        except OSError as error:
            if error.filename is None:
                raise
            print(f"{name}: {escaped(f'{error.filename}: {error.strerror}')}.", file=sys.stderr)
            sys.exit(1)
        except (MemoryError, RuntimeError) as error:
            amount = memory_asked_for(error)
            if amount is None:
                raise
            at_once = f" ({amount} were asked for at once)" if amount else ""
            print(
                f"{name}: not enough memory{at_once}. Use smaller batches or images, a smaller model, or a "
                "machine with more memory.",
                file=sys.stderr,
            )
            sys.exit(1)
        except KeyboardInterrupt:
            print(f"{name}: interrupted", file=sys.stderr)
            sys.exit(130)


def _import_torch() -> None:
    """Import torch, which every command needs, and leave what it makes out of collections of garbage.

    It makes hundreds of thousands of objects that stay until the end. To look at them again and again takes a
    fifth of the time of a short command.
    """
    if "torch" in sys.modules:
        return
    gc.disable()
    try:
        import_module("torch")
        gc.freeze()
    finally:
        gc.enable()


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse a command line, without running the command.

    Raises:
        InputError: Says in one sentence what is wrong.
    """
    command, words = split_command(arguments)
    return find_parser(command, words).parse(words)


def split_command(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """Separate the command, as far as it is a known one, from its arguments.

    The command is empty if there is none, and one word such as `data` where a second one is missing. A hyphen
    between two words is as good as a space. With a figure, `analyse` is a command of two words.
    """
    words = list(arguments)
    if words and words[0].replace("-", " ") in COMMANDS:
        words[:1] = words[0].split("-")
    count = 0
    while words[count:] and words[count] in _next_words(" ".join(words[:count])):
        count += 1
    return " ".join(words[:count]), words[count:]


def find_parser(command: str, words: Sequence[str] = ()) -> Parser:
    """Find the parser of a command.

    Args:
        command: The command, from `split_command`.
        words: Words after it.

    Raises:
        InputError: The next word had to be that of a command, and is not.
    """
    if words and not is_option(words[0]) and (command not in COMMANDS or command == "analyse"):
        known = _next_words(command)
        if known:
            raise InputError(f"unknown command {words[0]!r}. {nearest(words[0], known)}")
    if command.startswith("analyse "):
        from .analyse import FigureParser

        return FigureParser(command.removeprefix("analyse "))
    if command not in COMMANDS:
        return _group_parser(command)
    module = import_module(f".{COMMANDS[command][0]}", __package__)
    return Parser(command, getattr(module, command.replace(" ", "_")))


def _next_words(command: str) -> set[str]:
    """Words that make another command of a command or group of commands, or of nothing."""
    if command == "analyse":
        from ..analysis.registry import figures

        return set(figures())
    start = f"{command} ".lstrip()
    return {name.removeprefix(start).split()[0] for name in COMMANDS if name.startswith(start)}


def _group_parser(group: str) -> Parser:
    """Parser of `spml` without a command, or of a group such as `spml data`: it lists the commands."""
    names = [name for name in COMMANDS if name.startswith(f"{group} ".lstrip())]

    def refuse() -> None:
        """Single-positive multi-label learning: one known label per sample in, every label out."""
        raise InputError(f"name a command: {', '.join(name.removeprefix(group).strip() for name in names)}.")

    listed = "\n".join(f"  {name:<15} {COMMANDS[name][1]}" for name in names)
    parser = Parser(
        group,
        refuse,
        usage=f"{f'spml {group}'.strip()} COMMAND ...",
        epilog=f"commands:\n{listed}\n\n`spml COMMAND --help` shows the arguments and options of a command.",
    )
    parser.add_printing("--version", action="version", version=f"spml {__version__}", help="show the version")
    return parser
