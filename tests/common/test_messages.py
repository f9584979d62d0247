"""Lines and progress bars, on a terminal and elsewhere."""

from __future__ import annotations

import io
import logging
import re

import pytest

from spml.common.messages import log, muted, progress, shown


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self):
        return True


@pytest.mark.parametrize("verbose", [False, True])
def test_details_are_for_those_who_ask(verbose):
    stream = io.StringIO()
    with shown(stream, verbose=verbose):
        log.info("one")
        log.debug("two")
    assert stream.getvalue() == ("one\ntwo\n" if verbose else "one\n")


def test_each_line_is_shown_once_and_only_inside_the_block():
    stream, level, handlers = io.StringIO(), log.level, list(log.handlers)
    with shown(stream), shown(verbose=True):
        log.debug("one")
        with muted():
            log.info("nothing")
        log.info("two")
    log.info("outside")
    assert stream.getvalue() == "one\ntwo\n"
    assert (log.level, log.handlers) == (level, handlers)


def test_others_listen_by_a_handler_of_their_own(caplog):
    caplog.set_level(logging.INFO, "spml")
    log.info("one")
    assert caplog.messages == ["one"]


def test_a_bar_shows_steps_pace_and_time_left(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with shown(stream), progress(4_000, "checking images") as advance:
        for _ in range(3):
            advance(1_000)
        log.info("a line above the bar")
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    assert re.search(r"checking images \S+ +3000/4000 [\d,]+/s \d:\d\d:\d\d", text)
    assert "a line above the bar" in text


def test_elsewhere_there_is_no_bar():
    stream = io.StringIO()
    with shown(stream), progress(4, "checking images") as advance:
        advance(4)
    with progress(4, "nobody listens") as advance:
        advance(4)
    assert stream.getvalue() == ""
