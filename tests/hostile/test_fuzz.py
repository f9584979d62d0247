"""The script that tries random and damaged inputs: what it found, a short run, and failures on purpose."""

from __future__ import annotations

import json
import os
import random
import re
import signal
from pathlib import Path

import pytest

from spml.common.errors import InputError
from tests.hostile.fuzz import judge as judging
from tests.hostile.fuzz.__main__ import main
from tests.hostile.fuzz.campaign import Campaign
from tests.hostile.fuzz.change import dumped, of_bytes, of_json, of_yaml, parsed
from tests.hostile.fuzz.judge import Target, judge, make_input
from tests.hostile.fuzz.targets import DATA, GROUPS, NAMES, make_targets

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="limits of memory need Linux")
FOUND = Path(__file__).parent / "found"
MESSAGES = json.loads((FOUND / "messages.json").read_text())
"""Message with which each file is refused, empty where it is accepted; * is any text, such as a folder, or
what a library may say in other words in its next version."""


# -- what was found --------------------------------------------------------------------------------------


def target_of(file):
    """Name of the target of a file: its own name begins with it."""
    return max((name for name in NAMES if file.startswith(f"{name}-")), key=len)


@pytest.fixture(scope="module")
def targets(tmp_path_factory):
    return {target.name: target for target in make_targets(tmp_path_factory.mktemp("fuzz"))}


def test_every_file_has_a_message():
    assert {path.name for path in FOUND.iterdir()} == {*MESSAGES, "messages.json"}
    assert max(path.stat().st_size for path in FOUND.iterdir()) < 10_000


@pytest.mark.parametrize("file", sorted(MESSAGES))
def test_what_was_found_is_mended(targets, file):
    message, failure = judge(targets[target_of(file)], (FOUND / file).read_bytes())
    assert failure is None, failure.text
    assert re.fullmatch(".*".join(map(re.escape, MESSAGES[file].split("*"))), message), message


# -- the script ------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_short_run_over_all_formats_of_data(targets, tmp_path, capfd):
    names = [name for make, names in GROUPS.items() if make in DATA for name in names.split()]
    campaign = Campaign(tmp_path, [targets[name] for name in names], 4)
    campaign.run(1000)
    assert campaign.tally.finish() == 0
    for name, count in json.loads((tmp_path / "fuzz.json").read_text()).items():
        assert 0 < count["refused"] < count["cases"] or count["cases"] < 40, (
            f"{name}: all or none are refused"
        )


@pytest.mark.long
def test_a_short_run_over_all_targets(targets, tmp_path, capfd):
    assert tuple(targets) == NAMES
    campaign = Campaign(tmp_path, [*targets.values()], 5)
    campaign.run(2000)
    assert campaign.tally.finish() == 0
    counts = json.loads((tmp_path / "fuzz.json").read_text())
    assert tuple(counts) == NAMES
    assert sum(each["cases"] for each in counts.values()) == pytest.approx(2000, rel=0.05)
    assert not list((tmp_path / "failures").iterdir())


def test_the_script_and_an_unknown_target(tmp_path, capfd):
    assert main([str(tmp_path / "new"), "cells", "jsonl", "--number", "80", "--seed", "1"]) == 0
    assert "\nin all: 80 cases, 0 wrong\n" in capfd.readouterr().out
    with pytest.raises(SystemExit) as caught:
        main([str(tmp_path / "none"), "cvs"])
    assert caught.value.code == 2
    assert "no such target: cvs" in capfd.readouterr().err
    assert not (tmp_path / "none").exists()


def read_badly(data):
    """Fail in another way at each of some characters."""
    if b"k" in data:
        return [{}["missing"]]
    if b"t" in data:
        return ["a note in red: \x1b[31m"]
    if b"m" in data:
        return [str(bytearray(1 << 40))]
    while b"e" in data:
        pass
    if b"s" in data:
        os.kill(os.getpid(), signal.SIGSEGV)
    if b"r" in data:
        raise InputError("refused")
    return []


@pytest.mark.long
def test_failures_are_found_made_small_and_written(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(judging, "SECONDS", 0.1)
    inputs = (b"aaakaaa", b"--t--", b"", b"m-", b"xxxr", b"eaa", b"-s", b"aakaa", b"good")

    def change(draw, seeds):
        return draw.choice(inputs)

    campaign = Campaign(tmp_path, [Target("bad", ".txt", (b"good",), change, read_badly)], 0)
    campaign.run(40)
    assert campaign.tally.finish() == 1
    kinds = {kind.rpartition("-")[0] for _, kind in campaign.failures}
    # A process that crashes does not always come to write where it was.
    kinds = {"SIGSEGV-test_fuzz" if kind == "SIGSEGV" else kind for kind in kinds}
    assert kinds == {
        "KeyError-test_fuzz",
        "BadMessage-judge",
        "MemoryError-test_fuzz",
        "slow-test_fuzz",
        "SIGSEGV-test_fuzz",
    }
    written = {
        path.name.split("-")[1]: path
        for path in (tmp_path / "failures").glob("*.txt")
        if path.suffixes == [".txt"]
    }
    small = {kind: path.read_bytes() for kind, path in written.items()}
    texts = {path.name.split("-")[1]: path.read_text() for path in (tmp_path / "failures").glob("*.txt.txt")}
    assert small == {"KeyError": b"k", "BadMessage": b"t", "MemoryError": b"m", "slow": b"e", "SIGSEGV": b"s"}
    assert "KeyError: 'missing'" in texts["KeyError"]
    assert "a message holds the character '\\x1b'" in texts["BadMessage"]
    assert "The process ended with -11." in texts["SIGSEGV"]
    assert "line" in texts["slow"]
    counts = json.loads((tmp_path / "fuzz.json").read_text())["bad"]
    refused = sum(make_input(campaign.targets[0], 0, number) == b"xxxr" for number in range(40))
    assert (counts["cases"], counts["refused"], counts["wrong"]) == (40, refused, 5)
    assert "in all: 40 cases, 5 wrong" in capfd.readouterr().out


def test_a_seed_that_is_refused_is_told(tmp_path):
    target = Target("bad", ".txt", (b"good", b"r"), of_bytes(), read_badly)
    with pytest.raises(AssertionError, match="bad: seed 1 is refused: refused"):
        Campaign(tmp_path, [target], 0)


# -- its parts -------------------------------------------------------------------------------------------


def test_inputs_follow_from_their_numbers():
    target = Target("x", ".json", (b'{"a": [1, 2], "b": "c"}',), of_json(), lambda data: [])
    inputs = [make_input(target, 1, number) for number in range(300)]
    assert inputs == [make_input(target, 1, number) for number in range(300)]
    assert inputs != [make_input(target, 2, number) for number in range(300)]
    assert len({*inputs}) > 200


def test_documents_keep_their_text():
    text = '{"a": [1, 2.5, {"b": null}], "a": "\\u00e9", "c": {}}'
    assert dumped(parsed(text)) == text


def test_changes_of_yaml_are_hostile():
    draw, made = random.Random(0), of_yaml()
    inputs = b"\n".join(made(draw, [b"a: [1, 2]\nb: {c: d}\n"]) for _ in range(2000))
    for word in (b"!!python/object", b"&a [*a]", b"1:1:1", b".nan", b'"a": [1, 2], "a": [1, 2]'):
        assert word in inputs
