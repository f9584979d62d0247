"""Attacks, and files that several of them write."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from PIL import Image

Make = Callable[[Path], object]

SECRET = "the content of a file that is none of its business"
"""Content of `secret.txt` next to the folder of an attack."""

ESCAPE = "\x1b]0;owned\x07"
"""Text that a terminal would obey."""

DEEP = "[" * 100_000

EVIL = "open('executed', 'w')\n\n\ndef make():\n    pass\n"
"""Module that leaves a trace when it is imported."""


class Attack(NamedTuple):
    """Hostile input, and the answer to it.

    Attributes:
        name: What the attacker tries.
        make: Writes the input into a folder.
        words: Command that meets it there; a tuple where a word holds a space.
        line: Part of what the command says.
        code: Its exit code: 2 = refused, 0 = taken without harm.
    """

    name: str
    make: Make
    words: str | tuple[str, ...]
    line: str
    code: int = 2


class RunsCode:
    """Object that runs a command where it is unpickled."""

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, ("touch executed",)


def file(name: str, content: str | bytes) -> Make:
    """Write or replace one file."""
    data = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")

    def make(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)

    return make


def picture(path: Path) -> None:
    """Write a small image."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (32, 32), "red").save(path)


def all_of(*makers: Make) -> Make:
    """Make several things."""

    def make(folder: Path) -> None:
        for each in makers:
            each(folder)

    return make


def nothing(folder: Path) -> None:
    """Leave the folder as it is: the command itself is the attack."""
