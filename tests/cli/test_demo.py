"""The runs of the demo are those of its specification."""

from __future__ import annotations

import json
import pickle
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from spml.bench.plan import all_series
from spml.bench.spec import read_ready_made
from spml.cli import demo
from spml.runs import train

DOCS = Path(__file__).resolve().parents[2] / "docs" / "demo" / "table.json"


def test_the_table_in_the_docs_has_the_candidates_of_the_specification():
    spec, rows = read_ready_made("demo"), json.loads(DOCS.read_text())["rows"]
    assert [row["label"] for row in rows] == [candidate.name for candidate in spec.candidates]
    (rates,) = spec.candidates[0].space.values()
    assert {row["learning_rate"] for row in rows} <= {*rates.choices}


@pytest.mark.parametrize(("name", "observe"), [("AN", "single"), ("full labels (BCE)", "none")])
def test_all_seeds_hide_the_same_labels(tmp_path, monkeypatch, name, observe):
    configs = []

    def stop(config, **rest):
        configs.append(config)
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "run_training", stop)
    spec = read_ready_made("demo")
    series = [one for one in all_series(spec) if one.candidate.name == name][2]
    with pytest.raises(KeyboardInterrupt):
        demo._run(spec, tmp_path, series, 1)
    (config,) = configs
    assert (config.seed, config.data.observe, config.data.observe_seed) == (2, observe, 0)
    assert (config.optim.lr, config.epochs, config.select) == (0.01, 5, "auto")
    assert config.output == str(tmp_path / "runs" / f"{config.method}-lr0.01-seed2")


def test_rows_are_paired_by_seed():
    spec = read_ready_made("demo")
    first = all_series(spec)[0]
    tests = {"AN": (0.5, 0.6), "EM": (0.6, 0.8), "GR": (0.5, 0.6), "full labels (BCE)": (0.8, 0.9)}
    chosen = {
        name: [demo.DemoRun(first, 0, 0.003, Path(), 0.0, test, 1.0, [test]) for test in values]
        for name, values in tests.items()
    }
    table = {row["label"]: row for row in demo._table(spec, chosen)}
    assert table["EM"]["difference"] == pytest.approx(0.15)
    assert table["EM"]["difference_sd"] == pytest.approx(0.05 * 2**0.5)
    assert table["EM"]["gap_closed"] == pytest.approx(0.5)
    assert table["AN"]["gap_closed"] == 0


def test_the_learning_rate_of_the_first_seed_is_taken_for_the_others(tmp_path, monkeypatch, capsys):
    """All but the training, with series that were sent to another process and back."""

    def sent(value):
        return pickle.loads(pickle.dumps(value))

    def run(spec, output, series, number):
        folder = output / f"{series.candidate.name[:2]}-{number}-{series.seed}"
        folder.mkdir()
        (folder / "examples.png").write_bytes(folder.name.encode())
        names = [candidate.name for candidate in spec.candidates]
        test = 0.5 + names.index(series.candidate.name) / 10 + (number == 1) / 100 + series.seed / 1000
        return demo.DemoRun(series, number, (0.003, 0.01, 0.03)[number], folder, test, test, 1.0, [test])

    pool = SimpleNamespace(
        map=lambda function, *columns: [
            sent(function(*sent(values))) for values in zip(*columns, strict=True)
        ]
    )
    monkeypatch.setattr(demo, "ProcessPoolExecutor", lambda *args, **rest: nullcontext(pool))
    monkeypatch.setattr(demo, "_run", run)
    demo.demo(output=tmp_path)
    table = json.loads((tmp_path / "table.json").read_text())["rows"]
    assert [row["learning_rate"] for row in table] == [0.01] * 4
    assert [row["test_mAP"] for row in table] == pytest.approx([0.511, 0.611, 0.711, 0.811])
    assert [row["sd"] for row in table] == pytest.approx([0.001] * 4)
    assert len(list(tmp_path.glob("*-*-*"))) == 20 == capsys.readouterr().out.count("test mAP ") - 1
    assert (tmp_path / "scenes.png").read_bytes() == b"GR-1-0"  # the best but the one with full labels
