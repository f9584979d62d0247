"""Outputs that grow block by block and are continued."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from spml.common.errors import InputError, SpmlError
from spml.common.locks import check_no_writer
from spml.runs.predict.unfinished import Unfinished
from tests.helpers.messages import listening

BLOCKS = [b"one\n", b"", b"three\n" * 3, b"four\n"]
WHOLE = b"head\n" + b"".join(BLOCKS)


def write(output: Path, until: int = len(BLOCKS), identity: int = 1) -> tuple[int, list[str]]:
    """Write the blocks up to one, then be interrupted. Returns where it started, and what was reported."""
    with (
        listening() as lines,
        suppress(KeyboardInterrupt),
        Unfinished(output, {"identity": identity}, b"head\n") as unfinished,
    ):
        start = unfinished.samples
        for number in range(start, until):
            unfinished.add(BLOCKS[number], number + 1, {number: "broken"} if number == 1 else {})
        if until < len(BLOCKS):
            raise KeyboardInterrupt
        assert unfinished.skipped == {1: "broken"}
        unfinished.finish(os.replace)
    return start, lines


@pytest.mark.parametrize("until", range(5))
def test_an_interrupted_output_is_continued(tmp_path: Path, until: int) -> None:
    output = tmp_path / "out.csv"
    start, lines = write(output, until)
    names = (
        {"out.csv.partial", "out.csv.partial.journal"} if 0 < until < 4 else {"out.csv"} if until else set()
    )
    assert {path.name for path in tmp_path.iterdir()} == names
    if 0 < until < 4:
        assert lines == [
            f"{output}.partial: {until} sample{'s' * (until > 1)} done so far; the same command continues "
            "after them"
        ]
        start, lines = write(output)
        assert start == until
        assert "continuing after" in lines[0]
    elif not until:
        assert write(output) == (0, [])
    assert output.read_bytes() == WHOLE
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_another_identity_starts_from_the_beginning_and_says_so(tmp_path: Path) -> None:
    write(tmp_path / "out", 3)
    start, lines = write(tmp_path / "out", identity=2)
    assert start == 0
    assert "with other settings: starting from the beginning" in lines[0]
    assert (tmp_path / "out").read_bytes() == WHOLE


Damage = Callable[[bytes, bytes], tuple[bytes, bytes]]


@pytest.mark.parametrize(
    ("damage", "kept"),
    [
        (lambda file, journal: (file + b"torn", journal), 3),
        (lambda file, journal: (file, journal + b'{"samples": 4, "size": 99, "sha'), 3),
        (lambda file, journal: (file, journal[:-1]), 2),
        (lambda file, journal: (file, journal[:-20]), 2),
        (lambda file, journal: (file[:-1], journal), 2),
        (lambda file, journal: (file[:-3] + b"x" + file[-2:], journal), 2),
        (lambda file, journal: (b"x" + file[1:], journal), 0),
        (lambda file, journal: (b"", journal), 0),
        (lambda file, journal: (file, b""), 0),
        (lambda file, journal: (file, journal.split(b"\n")[0] + b"\n"), 0),
        (lambda file, journal: (file, journal + b'{"samples": 4, "size": 1, "sha256": ""}\n'), 3),
        (lambda file, journal: (file, journal.replace(b'"samples": 2', b'"samples": 3')), 1),
        (lambda file, journal: (file, journal.replace(b"broken", b"braken")), 1),
        (lambda file, journal: (file, journal + b"[1]\n"), 3),
        (lambda file, journal: (file, journal + b"[" * 100_000 + b"\n"), 3),
        (lambda file, journal: (file, journal + b'{"samples": 4, "size": %d, "sha256": ""}\n' % 10**18), 3),
        (lambda file, journal: (file, b"\xff\xfe\n" * 5), 0),
    ],
)
def test_the_output_is_right_whatever_is_left_behind(tmp_path: Path, damage: Damage, kept: int) -> None:
    output = tmp_path / "out"
    write(output, 3)
    left = tmp_path / "out.partial", tmp_path / "out.partial.journal"
    for path, content in zip(left, damage(*(path.read_bytes() for path in left)), strict=True):
        path.write_bytes(content)
    assert write(output)[0] == kept
    assert output.read_bytes() == WHOLE
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_interrupted_twice(tmp_path: Path) -> None:
    write(tmp_path / "out", 1)
    write(tmp_path / "out", 3)
    assert write(tmp_path / "out")[0] == 3
    assert (tmp_path / "out").read_bytes() == WHOLE


def test_another_process_that_writes_the_same_output(tmp_path: Path) -> None:
    with Unfinished(tmp_path / "out", {"identity": 1}, b"head\n") as unfinished:
        unfinished.add(b"one\n", 1, {})
        files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        other = Unfinished(tmp_path / "out", {"identity": 2}, b"")
        with (
            pytest.raises(InputError, match=f"out: process {os.getpid()} on .* has been writing to it"),
            other,
        ):
            pass
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files
        unfinished.finish(os.replace)
    assert (tmp_path / "out").read_bytes() == b"head\none\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_the_lock_is_held_until_everything_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed = []

    def remove(path: Path, missing_ok: bool = False) -> None:
        if ".partial" in path.name:
            with pytest.raises(InputError, match="has been writing to it"):
                check_no_writer(tmp_path / "out")
        removed.append(path.name)
        os.unlink(path)

    with Unfinished(tmp_path / "out", {}, b"head\n"):
        monkeypatch.setattr(Path, "unlink", remove)
    assert removed == ["out.partial", "out.partial.journal", ".out.lock"]


def test_an_input_error_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with Unfinished(tmp_path / "out", {}, b"head\n") as unfinished:
            unfinished.add(b"one\n", 1, {})
            raise InputError("no usable image")

    with pytest.raises(InputError):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_keeps_what_is_done(tmp_path: Path) -> None:
    def fill() -> None:
        with Unfinished(tmp_path / "out", {"identity": 1}, b"head\n") as unfinished:
            unfinished.add(BLOCKS[0], 1, {})
            unfinished.add(b"x" * 1000, 2, {})

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (400, limits[1]))
        with pytest.raises(SpmlError, match=r"out: could not be written .* is kept in out\.partial"):
            fill()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert write(tmp_path / "out")[0] == 1
    assert (tmp_path / "out").read_bytes() == WHOLE
