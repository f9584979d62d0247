"""The commands of `spml bench`: files, exit codes, messages."""

from __future__ import annotations

import io
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml

from spml.bench.store import Store
from spml.common.errors import missing_extra
from spml.common.locks import one_at_a_time
from tests.bench.toys import save_spec, save_toy
from tests.helpers.commands import execute, fails
from tests.helpers.comparisons import ONE_TRIAL as SMALL
from tests.helpers.processes import quick_workers
from tests.helpers.records import read_rows


@pytest.fixture(scope="module", autouse=True)
def workers():
    with pytest.MonkeyPatch.context() as patch:
        quick_workers(patch)
        yield


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    save_toy(folder)
    spec = save_spec(folder, SMALL)
    execute("bench run", *arguments(folder, spec), "--workers 1")
    return folder


def arguments(folder, spec="toys.yaml"):
    """Arguments for a comparison in a folder, whose output lies there, too."""
    return [folder / spec, "--root", folder, "--output", folder / "out"]


@pytest.mark.long
def test_the_files_of_a_comparison(done):
    out = done / "out"
    assert (out / "spec.yaml").read_text() == SMALL
    report = (out / "report.md").read_text()
    assert report.startswith("# toys\n")
    assert "em slow" in report
    assert "selected by" in report
    assert {path.suffix for path in (out / "figures").iterdir()} == {".png", ".svg"}
    rows = read_rows(out / "results.csv")
    assert len(rows) == 3 * 3  # candidates and modes
    assert {row["candidate"] for row in rows} == {"an", "em slow", "full"}


def test_status(done, capsys):
    execute("bench status", *arguments(done))
    assert capsys.readouterr().out.startswith("3 of 3 runs are finished")


def test_the_report_again_is_the_same(done, capsys):
    names = ("report.md", "report.html", "results.csv", "summary.csv")
    before = {name: (done / "out" / name).read_bytes() for name in names}
    (done / "out" / "report.md").unlink()
    execute("bench report", *arguments(done))
    assert {name: (done / "out" / name).read_bytes() for name in names} == before


@pytest.mark.long
def test_the_configuration_of_a_cell_trains(done, capsys, tmp_path):
    rows = read_rows(done / "out" / "results.csv")
    row = next(row for row in rows if (row["candidate"], row["selection"]) == ("an", "observed"))
    execute("bench config", done / "out", row["key"])
    printed = capsys.readouterr().out
    assert yaml.safe_load(printed)["method"] == "an"
    (tmp_path / "run.yaml").write_text(printed)
    execute("train --config", tmp_path / "run.yaml", "--output", tmp_path / "run")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["test"]["mAP"] == pytest.approx(float(row["test_mAP"]), abs=1e-6)
    assert summary["selected"]["epoch"] == int(row["epoch"])


def test_some_candidates_against_another_than_the_best(done, capsys):
    """The runs that are there are reported; the others are neither made nor missing."""
    some = ["--candidates", "an,em slow", "--seeds", "0"]
    execute("bench status", *arguments(done), some)
    assert capsys.readouterr().out.startswith("2 of 2 runs are finished")
    execute("bench report", *arguments(done), some, "--against an")
    report = (done / "out" / "report.md").read_text()
    table = report.partition("Differences and p-values</summary>")[2].strip().splitlines()
    assert table[0].count("p, to an") == 3
    row = next(line for line in table if line.startswith("| an |"))
    assert [cell.strip() for cell in row.split("|")][3::2] == ["-"] * 3  # it is not compared with itself
    assert "p-value of the difference to an, given" in report
    execute("bench report", *arguments(done))
    assert "no candidate is called 'em'" in fails(capsys, "bench report", *arguments(done), "--against em")
    assert "has no candidate 'ann'" in fails(capsys, "bench run", *arguments(done), "--candidates ann")


@pytest.mark.long
def test_list_and_show(capsys):
    execute("bench list")
    lines = capsys.readouterr().out.splitlines()
    (row,) = [line.split() for line in lines if line.startswith("gr-table3 ")]
    assert (row[1:4], row[-1]) == (["What", "each", "part"], "249")
    assert len([line for line in lines if line.strip()]) > 27
    execute("bench show gr-table3")
    text = capsys.readouterr().out
    assert text.startswith(
        "# 249 runs of 1 data set, 1 way of hiding, 3 seeds, 13 candidates:\n#   an: 1 trial\n"
    )
    assert yaml.safe_load(text)["baseline"] == "an"


def test_more_seeds_keep_finished_runs(done, capsys):
    (done / "more.yaml").write_text(SMALL.replace("seeds: 1", "seeds: 2"))
    command = ["bench status", *arguments(done, "more.yaml")]
    execute(*command)
    printed = capsys.readouterr().out
    assert printed.startswith("3 of 6 runs are finished\n")


def test_wrong_usage(done, tmp_path, capsys):
    spec, here = done / "toys.yaml", arguments(done)
    wrong = save_spec(tmp_path, SMALL.replace("  - an\n", "  - ann\n"))
    for command, message in (
        (["run toyz"], "no such file, and no ready-made"),
        (["run", *here, "--workers -1"], "`workers` must be at least 0, got -1"),
        (["run", *here, "--address x:1"], "pass engine=ray as well"),
        (["run", spec, "--root", spec, "--output", tmp_path], "--root must be a folder"),
        (["status", spec, "--output", tmp_path], "holds no comparison"),
        (["config", tmp_path, "00"], "holds no comparison"),
        (["config nonsense 00"], "can't be opened as a store"),
        (["config", done / "out", "zz"], "no key of a run begins with"),
        (["run", wrong, "--output", tmp_path / "out"], f"{wrong}: candidates[0]: unknown method"),
    ):
        assert message in fails(capsys, "bench", *command)
    assert not (tmp_path / "out").exists()


def test_data_that_does_not_exist(tmp_path, capsys):
    spec = save_spec(tmp_path, SMALL)
    error = fails(capsys, "bench run", *arguments(tmp_path))
    assert f"{spec}: data.toy.path: {tmp_path / 'toy.npz'}: no such file or folder" in error
    assert not (tmp_path / "out").exists()


def test_data_that_can_not_be_read(tmp_path, capsys):
    (tmp_path / "toy.npz").write_bytes(b"nothing")
    save_spec(tmp_path, SMALL)
    assert "toy.npz" in fails(capsys, "bench run", *arguments(tmp_path), "--workers 1")


def test_nothing_to_report_yet(tmp_path, capsys):
    spec = save_spec(tmp_path, SMALL)
    Store(f"sqlite:///{tmp_path / 'store.sqlite'}")
    command = ["bench report", spec, "--root", tmp_path, "--output", tmp_path]
    assert "No run is finished" in fails(capsys, *command, code=1)


def test_a_store_that_does_not_exist_is_not_created(done, capsys):
    url = f"sqlite:///{done / 'typo.sqlite'}"
    for command in (
        ["status", *arguments(done), "--store", url],
        ["report", *arguments(done), "--store", url],
        ["config", url, "abc"],
    ):
        assert "typo.sqlite: holds no comparison" in fails(capsys, "bench", *command)
    assert not (done / "typo.sqlite").exists()


def test_a_folder_that_can_not_hold_a_database(tmp_path, capsys):
    save_toy(tmp_path)
    command = ["bench run", save_spec(tmp_path, SMALL), "--root", tmp_path, "--output", tmp_path / "what?"]
    assert "whose name contains `?`" in fails(capsys, *command)


@pytest.mark.long
def test_only_failures(tmp_path, capsys):
    save_toy(tmp_path)
    text = SMALL.replace("epochs: 3,", "epochs: 3, optim.lr: 1e30,")
    text = text[: text.index("search:")] + "search: {trials: 1}\n" + text[text.index("train:") :]
    save_spec(tmp_path, text.replace("optim.lr: 1e-3, space: {hp.alpha: [0.05, 0.1, 0.2]}", "space: {}"))
    command, message = arguments(tmp_path), "All 3 runs failed, the first of them: "
    assert message in fails(capsys, "bench run", *command, "--workers 1", code=1)
    assert message in fails(capsys, "bench report", *command, code=1)
    assert "3 runs failed" in (tmp_path / "out" / "report.md").read_text()


@pytest.mark.long
def test_only_failures_of_this_comparison_are_made_again(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("spml.cli.bench._write", lambda *_: None)  # no report is looked at
    save_toy(tmp_path)
    text = SMALL.replace("optim.lr: 1e-3", "optim.lr: 1e30")
    save_spec(tmp_path, text)
    save_spec(tmp_path, text.replace("seeds: 1", "seeds: [7]"), "b.yaml")
    for spec in ("toys.yaml", "b.yaml"):
        execute("bench run", *arguments(tmp_path, spec), "--workers 1")
    store = Store(f"sqlite:///{tmp_path / 'out' / 'store.sqlite'}")

    def failed():
        return {
            row.series.seed: row.finished for rows in store.find().values() for row in rows if row.message
        }

    before = failed()
    capsys.readouterr()
    execute("bench run", *arguments(tmp_path), "--workers 1 --retry")
    assert "Making 1 failed run again" in capsys.readouterr().err
    assert failed()[7] == before[7]
    assert failed()[0] > before[0]


@pytest.mark.long
def test_leftovers_of_killed_processes_are_removed(done):
    old, new = (done / "out" / "features" / f".{name}.npy.1.abcd.tmp" for name in ("old", "new"))
    for path in (old, new):
        path.write_bytes(b"x")
    os.utime(old, (time.time() - 25 * 3600,) * 2)
    execute("bench run", *arguments(done), "--workers 1")
    assert not old.exists()
    assert new.exists()  # another process may be writing it
    new.unlink()


def test_a_report_waits_for_another_one(done, monkeypatch):
    lock = one_at_a_time(done / "out" / ".report.lock", "writes the report")
    lock.__enter__()
    monkeypatch.setattr(sys, "stderr", said := io.StringIO())
    (done / "out" / "report.md").unlink()
    with ThreadPoolExecutor(1) as pool:
        report = pool.submit(execute, "bench report", *arguments(done))
        try:
            while "another process writes the report: waiting for it\n" not in said.getvalue():
                assert not report.done()
                time.sleep(0.01)
            assert not report.done()
            assert not (done / "out" / "report.md").exists()
        finally:
            lock.__exit__(None, None, None)
        report.result()
    assert (done / "out" / "report.md").is_file()
    assert not (done / "out" / ".report.lock").exists()


@pytest.mark.parametrize("package", ["optuna", "sqlalchemy"])
def test_a_missing_package_is_named_with_its_extra(package, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, package, None)
    error = fails(capsys, "bench run", "quick")
    assert str(missing_extra(package, "bench")) in error
    assert "pip install optuna sqlalchemy markdown-it-py" in error


@pytest.mark.long
def test_an_oracle_is_for_reference_and_is_not_the_ceiling(tmp_path, capsys):
    """`iun` learns from one positive and all negatives; given full labels it would equal `full`."""
    save_toy(tmp_path)
    text = SMALL.replace(
        "  - an\n", "  - an\n  - {name: oracle, method: iun, labels: positive_and_negatives}\n"
    )
    text = text.replace(
        "  - {name: em slow, method: em, optim.lr: 1e-3, space: {hp.alpha: [0.05, 0.1, 0.2]}}\n", ""
    )
    save_spec(tmp_path, text)
    execute("bench run", *arguments(tmp_path), "--workers 1")
    report = (tmp_path / "out" / "report.md").read_text()
    assert "For reference only, neither ranked nor ever the best: full, oracle." in report
    rows = [row for row in read_rows(tmp_path / "out" / "results.csv") if row["selection"] == "oracle"]
    scores = {row["candidate"]: float(row["test_mAP"]) for row in rows}
    assert len(set(scores.values())) == 3, scores
