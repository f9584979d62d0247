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


def printed(capsys, *arguments, **options):
    print_status(*arguments, **options)
    return capsys.readouterr().out.splitlines()


def test_a_row_per_candidate(spec, state, capsys):
    lines = printed(capsys, spec, state, lines=False)
    assert lines[0] == "7 of 1,212 runs are finished, 4 of them failed; about 10.0 h left with one worker"
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
        "failed runs by message:",
        f"  3 runs (em slow): {NAN.format(0, 0)}",
        "  1 run (an): out of memory",
        "",
        "--lines lists the failed runs, and the series with missing ones.",
    ]


def test_lines_on_request(spec, state, capsys):
    lines = printed(capsys, spec, state, lines=True)
    assert lines[-7:] == [
        *(
            f"failed: toy/uniform/em slow/0, trial {trial}: {NAN.format(trial, 17 * trial)}"
            for trial in range(3)
        ),
        "failed: toy/frequent/an/1, trial 0: out of memory",
        "missing: toy/frequent/an/1: 2 runs",
        "missing: toy/uniform/full/1: 1,200 runs",
        "missing: toy/frequent/a[b]/0: 3 runs",
    ]


def test_many_messages_and_candidates(spec, capsys):
    names = ["an", "a[b]", "em slow", "full"]
    rows = [
        row(("toy", "uniform", names[number % 4], number), status="failed", message="x" * (1 + number))
        for number in range(12)
    ]
    same = [row(("toy", "uniform", name, 50), status="failed", message="same") for name in names]
    lines = printed(capsys, spec, State(16, (*rows, *same), {}), lines=False)
    messages = lines[lines.index("failed runs by message:") + 1 : -2]
    assert len(messages) == 11
    assert messages[0] == "  4 runs (an, a[b], em slow, full): same"
    assert messages[-1] == "  and 3 other messages"


def test_everything_is_done(spec, capsys):
    state = State(1, (row(("toy", "uniform", "an", 0), status="done"),), {})
    lines = printed(capsys, spec, state, lines=False)
    assert lines[0] == "1 of 1 runs are finished"
    assert lines[-1].split() == ["all", "1", "0", "0"]


def test_a_table_on_a_terminal(spec, state, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert any("━" in line for line in printed(capsys, spec, state, lines=False))


def test_a_message_never_reaches_the_terminal_as_a_command(spec, capsys):
    failed = row(("toy", "uniform", "an", 0), status="failed", message="\x1b]0;owned\x07")
    for lines in (False, True):
        said = "\n".join(printed(capsys, spec, State(1, (failed,), {}), lines=lines))
        assert "\x1b" not in said
        assert r"\x1b]0;owned\x07" in said
