"""Progress of a run on a terminal and elsewhere."""

from __future__ import annotations

import io
import re

import pytest

from spml.runs.console import Console


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self):
        return True


@pytest.mark.parametrize("verbose", [False, True])
def test_details_are_for_those_who_ask(verbose):
    stream = io.StringIO()
    console = Console(stream, verbose=verbose)
    console.line("one")
    console.detail("two")
    assert stream.getvalue() == ("one\ntwo\n" if verbose else "one\n")


def test_a_bar_shows_steps_pace_and_time_left(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with Console(stream).progress(4_000, "checking images") as advance:
        for _ in range(3):
            advance(1_000)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    assert re.search(r"checking images \S+ +3000/4000 [\d,]+/s \d:\d\d:\d\d", text)


def test_elsewhere_there_is_no_bar():
    stream = io.StringIO()
    with Console(stream).progress(4, "checking images") as advance:
        advance(4)
    assert stream.getvalue() == ""
