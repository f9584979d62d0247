"""Commands, and calls that are refused, with their message."""

from __future__ import annotations

import pytest

from spml.cli.main import main
from spml.common.errors import InputError

FAST = [
    "--model.backbone", "test_efficientnet", "--model.weights", "random", "--data.size", "32",
    "--data.workers", "0",
]  # fmt: skip


def execute(*words):
    """Run a command that succeeds. Strings of several words are cut at blanks, unless they are in a list."""
    line = []
    for word in words:
        if isinstance(word, list):
            line += word
        else:
            line += (isinstance(word, str) and word.split()) or [str(word)]
    main(line)


def fails(capsys, *arguments, code=2):
    """Run the command; it must exit with `code` and one message without a traceback, which is returned."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        execute(*arguments)
    said = capsys.readouterr().err
    assert caught.value.code == code, said
    assert "Traceback" not in said
    return said


def run(capsys, *words):
    """(exit code, standard output, standard error) of a command."""
    code = 0
    try:
        execute(*words)
    except SystemExit as end:
        code = end.code
    output = capsys.readouterr()
    return code, output.out, output.err


def refusal(function, *arguments, **settings):
    """Message of the InputError with which a call is refused."""
    with pytest.raises(InputError) as caught:
        function(*arguments, **settings)
    return str(caught.value)
