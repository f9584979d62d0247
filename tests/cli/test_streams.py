"""Standard streams that can't be written."""

from __future__ import annotations

import shlex
import subprocess
import sys
from io import StringIO

import pytest

from spml.cli.main import guarded_streams
from spml.common.messages import log, shown
from tests.helpers.commands import execute, fails
from tests.helpers.streams import NO_SPACE, open_full, open_pipe_without_reader


def print_twice(text):
    with guarded_streams("spml x"):
        print(text)
        print(text)


@pytest.mark.parametrize(("terminal", "expected"), [(True, "\\u202ered\x1b[0m"), (False, "\u202ered\x1b[0m")])
def test_hidden_characters_are_shown_on_a_terminal(monkeypatch, terminal, expected):
    stream = StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stdout", stream)
    print_twice("\u202ered\x1b[0m")
    assert stream.getvalue() == 2 * f"{expected}\n"


@pytest.mark.parametrize(
    ("make_output", "code", "said"),
    [
        (open_full, 1, f"spml x: standard output can't be written ({NO_SPACE}).\n"),
        (lambda: None, 1, "spml x: standard output can't be written (it is closed).\n"),
        (open_pipe_without_reader, 141, ""),
    ],
)
@pytest.mark.parametrize("length", [1, 1 << 20])  # at the end, or in the middle, when the buffer is full
def test_an_output_that_can_not_be_written(monkeypatch, capsys, make_output, code, said, length):
    monkeypatch.setattr(sys, "stdout", make_output())
    before = sys.stdout
    with pytest.raises(SystemExit) as stopped:
        print_twice("x" * length)
    assert stopped.value.code == code
    assert capsys.readouterr().err == said
    assert sys.stdout is before
    if before:
        before.close()  # writes what is left to nowhere


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "not enough memory. Use smaller batches"),
        (
            RuntimeError("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0"),
            "not enough memory (2.50 GiB were asked for at once). Use smaller batches",
        ),
    ],
)
def test_a_command_without_enough_memory(monkeypatch, capsys, error, said):
    def fail(_):
        raise error

    monkeypatch.setattr("spml.cli.methods.print_table", fail)
    assert fails(capsys, "methods", code=1) == (
        f"spml methods: {said} or images, a smaller model, or a machine with more memory.\n"
    )


def test_another_failure_is_raised(monkeypatch):
    def fail(_):
        raise RuntimeError("a mistake")

    monkeypatch.setattr("spml.cli.methods.print_table", fail)
    with pytest.raises(RuntimeError, match="a mistake"):
        execute("methods")


def test_messages_never_reach_the_terminal_as_commands(capsys):
    with pytest.raises(SystemExit):
        execute("data inspect", ["\x1b]0;owned\x07"])
    assert capsys.readouterr().err.startswith(
        r"spml data inspect: \x1b]0;owned\x07: no such file or folder. "
    )
    with shown():
        log.info("\x1b]0;owned\x07")
    assert capsys.readouterr().err == "\\x1b]0;owned\\x07\n"


def test_errors_of_other_files_are_not_taken_for_those_of_the_output():
    with pytest.raises(BrokenPipeError), guarded_streams("spml x"):
        print("out", file=open_pipe_without_reader(), flush=True)


@pytest.mark.parametrize("make_messages", [open_full, lambda: None, open_pipe_without_reader])
def test_messages_that_can_not_be_shown_are_dropped(monkeypatch, capsys, make_messages):
    monkeypatch.setattr(sys, "stderr", make_messages())
    with guarded_streams("spml x"):
        print("epoch 1", file=sys.stderr, flush=True)
        print("result")
    assert capsys.readouterr().out == "result\n"


@pytest.mark.parametrize(
    ("redirected", "code", "said"),
    [
        ("> /dev/full", 1, f"spml train: standard output can't be written ({NO_SPACE}).\n"),
        (">&-", 1, "spml train: standard output can't be written (it is closed).\n"),
        ("| true; exit ${PIPESTATUS[0]}", 141, ""),
    ],
)
def test_help_for_an_output_that_can_not_be_written(redirected, code, said):
    """Whole processes: the interpreter writes out its buffers when it ends."""
    line = f"{shlex.quote(sys.executable)} -m spml train --help-all {redirected}"
    ended = subprocess.run(["bash", "-c", line], stderr=subprocess.PIPE, text=True)
    assert (ended.returncode, ended.stderr) == (code, said)


def test_a_wrong_command_line_is_told_without_an_output(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", None)
    assert fails(capsys, "traim") == "spml: unknown command 'traim'. Did you mean train?\n"
