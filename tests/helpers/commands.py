"""Commands that fail, with their message."""

from __future__ import annotations

import pytest

from spml.cli.main import main

FAST = [
    "--model.backbone",
    "test_efficientnet",
    "--model.weights",
    "random",
    "--data.size",
    "32",
    "--data.workers",
    "0",
]


def fails(capsys, *arguments, code=2):
    """Run the command; it must exit with `code` and one message without a traceback, which is returned."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    said = capsys.readouterr().err
    assert caught.value.code == code, said
    assert "Traceback" not in said
    return said


def run(capsys, *words):
    """(exit code, standard output, standard error) of a command."""
    code = 0
    try:
        main([str(word) for word in words])
    except SystemExit as end:
        code = end.code
    output = capsys.readouterr()
    return code, output.out, output.err
