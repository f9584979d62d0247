"""Hostile YAML and JSON ends at once, with one line that says what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from spml.bench.spec import read_spec
from spml.cli.main import parse
from spml.common.documents import MAX_DEPTH, MAX_YAML, parse_json, parse_yaml
from spml.common.errors import InputError
from spml.config import read_yaml


def nested_references():
    """Nine references each to the list before, nine levels deep: 387 million values in 341 bytes."""
    lines = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append(f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]")
    return "\n".join(lines)


REFERENCES = "references (*name) are not supported. Write the value out."
DEEP = "lists or mappings are nested more than 32 levels deep, which no setting needs. Correct it."
TEXTS = {
    nested_references(): f", line 2: {REFERENCES}",
    "&a [*a]": f", line 1: {REFERENCES}",
    "a: &a {b: 1}\n<<: *a": f", line 2: {REFERENCES}",
    "[" * 10_000: f", line 1: {DEEP}",
    "[\n" * 10_000: f", line 33: {DEEP}",
    "{a: " * 10_000: f", line 1: {DEEP}",
    "- " * 10_000: f", line 1: {DEEP}",
    "epochs: 1" + ":1" * 50_000: ", line 1: a number has 100,001 characters. Put it in quotes if it is text.",
    "#" * (MAX_YAML + 1): ": has more than 262,144 characters, the limit for YAML.",
    "epochs: 2001-99-99": ": not valid YAML: month must be in 1..12.",
    "epochs: !!int ''": ": not valid YAML: string index out of range.",
    "epochs: *ten": ", line 1: not valid YAML: found undefined alias 'ten'.",
    "a: [1,\n": ", line 2: not valid YAML: while parsing a flow node, expected the node content, but found "
    "'<stream end>'.",
    "a: 1\n---\nb: 1": ", line 2: not valid YAML: expected a single document in the stream, but found "
    "another document.",
    'method: "\\ud800"': ": not valid YAML: 'utf-8' codec can't encode character '\\ud800' in position 0: "
    "surrogates not allowed.",
}  # fmt: skip
"""Hostile texts, with what is said after the name of the file."""


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text[:12])
def test_hostile_yaml_in_files(tmp_path, text):
    path = tmp_path / "hostile.yaml"
    path.write_text(text)
    for read in (read_yaml, read_spec):
        with pytest.raises(InputError) as caught:
            read(path)
        assert str(caught.value) == f"{path}{TEXTS[text]}"


IN_VALUES = {
    "epochs: '" + "[" * 10_000 + "'": "epochs must be a whole number, got '" + "[" * 98 + "…",
    "optim: {lr: 1" + "0" * 400 + "}": "optim.lr must be a number, got 1" + "0" * 98 + "…",
}
"""Files whose values are hostile, with the end of what is said."""


def test_hostile_yaml_on_the_command_line_takes_little_memory_and_time(tmp_path):
    script = (
        "import json, resource, sys\n"
        "from spml.cli.main import parse\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "resource.setrlimit(resource.RLIMIT_CPU, (60, 60))\n"
        "for path in sys.argv[1:]:\n"
        "    try:\n"
        "        parse(['train', '--config', path])\n"
        "    except ValueError as error:\n"
        "        print(json.dumps([type(error).__name__, str(error)]))\n"
    )
    paths = []
    for number, text in enumerate([*TEXTS, *IN_VALUES]):
        paths.append(tmp_path / f"{number}.yaml")
        paths[-1].write_text(text)
    ended = subprocess.run([sys.executable, "-c", script, *map(str, paths)], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    kinds, messages = zip(*map(json.loads, ended.stdout.splitlines()), strict=True)
    assert {*kinds} == {"InputError"}
    answers = [*TEXTS.values(), *IN_VALUES.values()]
    assert [message[-len(answer) :] for message, answer in zip(messages, answers, strict=True)] == answers


@pytest.mark.parametrize("value", ["*.png", "!odd", "&x *y", "[" * 32 + "]" * 32, "-", "a: *b"])
def test_words_of_the_command_line_that_only_look_like_yaml(value):
    parsed = parse(["train", "photos", "--data.images", value])
    assert parsed.settings == {"data": {"images": value}}


def test_deep_and_large_yaml_within_the_limits():
    deep = parse_yaml("[" * MAX_DEPTH + "]" * MAX_DEPTH, "x.yaml")
    assert repr(deep) == "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert len(parse_yaml("a: '" + "x" * (MAX_YAML - 5) + "'", "x.yaml")["a"]) == MAX_YAML - 5
    assert parse_yaml("a: &a 1\nb: '*a'", "x.yaml") == {"a": 1, "b": "*a"}


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, b"[" * 100_000])
def test_deep_json(text):
    with pytest.raises(ValueError, match=r"^lists or objects in it are nested too deeply\Z"):
        parse_json(text)


def test_json_is_read_as_the_standard_library_reads_it():
    assert parse_json(b'{"a": [1, 2.5, null, true]}') == {"a": [1, 2.5, None, True]}
    assert parse_json("NaN") != parse_json("NaN")
    with pytest.raises(ValueError, match="Expecting value: line 1 column 2"):
        parse_json("[")
