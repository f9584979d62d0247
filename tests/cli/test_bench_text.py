"""Output of `spml bench status`."""

from __future__ import annotations

import pytest

from spml.bench.rows import SeriesKey
from spml.bench.spec import read_spec
from spml.bench.state import State
from spml.cli.bench import print_status
from tests.bench.rows import row
from tests.bench.toys import TOY, save_spec

NAN = "Entropy maximisation: the loss is NaN or infinite in epoch {}, step {}"


@pytest.fixture
def spec(tmp_path):
    return read_spec(save_spec(tmp_path, TOY.replace("  - an\n", "  - an\n  - {name: 'a[b]', method: an}\n")))


@pytest.fixture
def state():
    done = [row(("toy", "uniform", "an", 0), trial, status="done", seconds=30.0) for trial in range(3)]
    failed = [
        row(("toy", "uniform", "em slow", 0), trial, status="failed", message=NAN.format(trial, 17 * trial))
        for trial in range(3)
    ]
    failed.append(row(("toy", "frequent", "an", 1), status="failed", message="out of\nmemory"))
    missing = {
        SeriesKey("toy", "frequent", "an", 1): 2,
        SeriesKey("toy", "uniform", "full", 1): 1200,
        SeriesKey("toy", "frequent", "a[b]", 0): 3,
    }
    return State(1212, (*done, *failed), missing)


def printed(capsys, *arguments):
    print_status(*arguments)
    return capsys.readouterr().out.splitlines()


def test_a_row_per_candidate(spec, state, capsys):
    lines = printed(capsys, spec, state)
    assert lines[0] == "7 of 1,212 runs are finished, 4 of them failed"
    table = [line.rsplit(maxsplit=3) for line in lines[2:8]]
    assert table == [
        ["candidate", "done", "failed", "missing"],
        ["an", "3", "1", "2"],
        ["a[b]", "0", "0", "3"],
        ["em slow", "0", "3", "0"],
        ["full", "0", "0", "1,200"],
        ["all", "3", "4", "1,205"],
    ]
    assert len({len(line) for line in lines[2:8]}) == 1  # aligned
    assert lines[9:] == [
        "why runs failed:",
        *(f"  {NAN.format(trial, 17 * trial)}" for trial in range(3)),
        "  out of memory",
    ]


def test_many_messages_and_candidates(spec, capsys):
    names = ["an", "a[b]", "em slow", "full"]
    rows = [
        row(("toy", "uniform", names[number % 4], number), status="failed", message="x" * (1 + number))
        for number in range(12)
    ]
    same = [row(("toy", "uniform", name, 50), status="failed", message="same") for name in names]
    lines = printed(capsys, spec, State(16, (*rows, *same), {}))
    messages = lines[lines.index("why runs failed:") + 1 :]
    assert len(messages) == 11
    assert messages[9] == "  " + 10 * "x"
    assert messages[-1] == "  and 3 other messages"


def test_everything_is_done(spec, capsys):
    state = State(1, (row(("toy", "uniform", "an", 0), status="done"),), {})
    lines = printed(capsys, spec, state)
    assert lines[0] == "1 of 1 runs are finished"
    assert lines[-1].split() == ["all", "1", "0", "0"]


def test_a_table_on_a_terminal(spec, state, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert any("━" in line for line in printed(capsys, spec, state))


def test_a_message_never_reaches_the_terminal_as_a_command(spec, capsys):
    failed = row(("toy", "uniform", "an", 0), status="failed", message="\x1b]0;owned\x07")
    said = "\n".join(printed(capsys, spec, State(1, (failed,), {})))
    assert "\x1b" not in said
    assert r"\x1b]0;owned\x07" in said
