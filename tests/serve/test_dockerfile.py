"""Checks of the Dockerfile that need no Docker."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from spml.cli.main import parse

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def instructions():
    """Instructions with their arguments, in order."""
    text = (ROOT / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in joined.splitlines() if line.strip()]


def arguments_of(instructions, name):
    return [arguments for each, arguments in instructions if each == name]


def test_the_server_has_no_rights(instructions):
    names = [name for name, _ in instructions]
    (user,) = arguments_of(instructions, "USER")
    assert int(user) >= 1000  # a number, so that others can check that it is not root
    assert names.index("USER") > max(k for k, name in enumerate(names) if name == "RUN")
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert f"--uid {user}" in arguments_of(instructions, "RUN")[-1]


def test_the_entry_point_is_a_command_of_spml(instructions):
    (entry,) = arguments_of(instructions, "ENTRYPOINT")
    program, *words = json.loads(entry)
    assert program == "spml"
    parsed = parse(words)
    assert (str(parsed.run), parsed.host) == ("/run-folder", "0.0.0.0")
    assert arguments_of(instructions, "EXPOSE") == [str(parsed.port)]
    assert parsed.shutdown_timeout < 10  # after which `docker stop` kills
    (check,) = arguments_of(instructions, "HEALTHCHECK")
    code = json.loads(check.partition("CMD ")[2])[2]
    compile(code, "HEALTHCHECK", "exec")
    assert f"127.0.0.1:{parsed.port}/health" in code


def test_the_image_has_the_extra_and_nothing_else_of_the_repository(instructions):
    runs = " && ".join(arguments_of(instructions, "RUN"))
    (extra,) = re.findall(r"pip install '\.\[(\w+)\]'", runs)
    assert re.search(rf"^{extra} = \[", (ROOT / "pyproject.toml").read_text(), re.M)
    copied = {word for each in arguments_of(instructions, "COPY") for word in shlex.split(each)[:-1]}
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert copied == kept
    assert all((ROOT / name).exists() for name in copied)
    (base,) = arguments_of(instructions, "FROM")
    assert re.fullmatch(r"python:3\.\d+-slim", base)
