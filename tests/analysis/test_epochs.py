"""Curves over epochs, from run folders whose metrics are known, and from a run that was trained."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from spml.analysis import epochs
from spml.cli.main import main
from spml.common.errors import InputError
from tests.bench.toys import save_toy


def run_in(folder, values, *, method="an", seed=0, hp=None, sp=None, data="photos", **settings):
    """The files of a run with a true validation mAP per epoch."""
    folder.mkdir(parents=True)
    config = {
        "data": {"path": f"/somewhere/{seed}/{data}", "split_seed": seed, "observe_seed": seed},
        "method": method, "hp": hp or {}, "seed": seed, "output": str(folder), **settings,
    }  # fmt: skip
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    records = [
        {"epoch": epoch, "train/loss": 1.0, "val/SP": 0.1 * epoch if sp is None else sp[epoch - 1]}
        | ({} if value is None else {"val/mAP": value})
        for epoch, value in enumerate(values, 1)
    ]
    metrics = "".join(json.dumps(record) + "\n" for record in records)
    (folder / "metrics.jsonl").write_text(metrics)
    summary = {
        "selected": {"metric": "a"},
        "validation": {"a": 1},
        "data": {"fingerprint": ""},
        "metrics_sha256": hashlib.sha256(metrics.encode()).hexdigest(),
    }
    (folder / "summary.json").write_text(json.dumps(summary))
    return folder


def lines_of(result):
    rows = [
        dict(zip(result.table, values, strict=True)) for values in zip(*result.table.values(), strict=True)
    ]
    lines = {}
    for row in rows:
        lines.setdefault(row["line"], []).append(row)
    return lines


def test_runs_that_differ_in_their_seeds_are_one_line(tmp_path):
    folders = [
        run_in(tmp_path / "a", [0.2, 0.5, 0.4], seed=0),
        run_in(tmp_path / "b", [0.4, 0.6], seed=1, threads=2, record="scores"),
        run_in(tmp_path / "c", [0.3, 0.7, 0.8], method="em"),
    ]
    result = epochs([*folders, folders[0]])
    lines = lines_of(result)
    assert [*lines] == ["an", "em"]
    assert [(row["epoch"], row["runs"]) for row in lines["an"]] == [(1, 2), (2, 2), (3, 1)]
    assert [row["val_mAP"] for row in lines["an"]] == pytest.approx([0.3, 0.55, 0.4], abs=1e-12)
    expected = [np.std([0.2, 0.4], ddof=1), np.std([0.5, 0.6], ddof=1), np.nan]
    np.testing.assert_allclose([row["sd"] for row in lines["an"]], expected, rtol=1e-12)
    assert [row["val_mAP"] for row in lines["em"]] == [0.3, 0.7, 0.8]
    axes = result.figure.axes[0]
    assert axes.get_ylabel() == "validation mAP, true labels, %"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["an (2 runs)", "em"]
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [30, 55, 40])
    assert len(axes.collections) == 1  # a band for the line of two runs


def test_the_label_names_what_sets_a_run_apart(tmp_path):
    folders = [
        run_in(tmp_path / "a", [0.2], method="opml_sp", hp={"rank_weight": 0.0, "correction": 0.0}),
        run_in(tmp_path / "b", [0.3], method="opml_sp", hp={"correction": 0.0}),
        run_in(tmp_path / "c", [0.4], method="an", epochs=40),
    ]
    assert [*lines_of(epochs(folders))] == [
        "opml_sp, rank_weight 0", "opml_sp", "an",
    ]  # fmt: skip


def test_without_true_labels_the_sp_score_is_drawn(tmp_path):
    known = run_in(tmp_path / "known", [0.2, 0.3], sp=[0.5, 0.6])
    unknown = run_in(tmp_path / "unknown", [None, None], method="em", sp=[0.7, 0.8])
    result = epochs([known, unknown])
    lines = lines_of(result)
    assert [row["val_SP"] for row in lines["an"]] == [0.5, 0.6]
    assert [row["val_SP"] for row in lines["em"]] == [0.7, 0.8]
    assert result.figure.axes[0].get_ylabel() == "validation SP-score, observed labels, %"
    assert "the SP-score is drawn: unknown without true validation labels" in result.notes
    assert [row["val_SP"] for row in lines_of(epochs([known], metric="SP"))["an"]] == [0.5, 0.6]
    with pytest.raises(InputError, match=r"unknown: no true validation mAP.*metric=SP"):
        epochs([known, unknown], metric="mAP")


def refuse(*_, **__):
    raise PermissionError(13, "Permission denied")


def test_bad_input(tmp_path, monkeypatch):
    good = run_in(tmp_path / "good", [0.2])
    with pytest.raises(InputError, match=r"nothing: holds no epochs of a run .*spml train --output"):
        epochs([good, tmp_path / "nothing"])
    with pytest.raises(InputError, match=r"several data sets \(birds, photos\)"):
        epochs([good, run_in(tmp_path / "other", [0.2], data="birds")])
    solved = run_in(tmp_path / "solved", [0.2], method="")
    (solved / "metrics.jsonl").write_text('{"penalty": 1.0, "val/SP": 0.2}\n')
    (solved / "summary.json").unlink()  # states the SHA-256 of the other ones
    with pytest.raises(InputError, match="solved: its head was solved"):
        epochs([solved])
    for text in ("{", "[" * 100_000, "[1]\n", '{"epoch": 2, "val/SP": 0.1}\n'):
        (good / "metrics.jsonl").write_text(text)
        with pytest.raises(InputError, match=r"metrics\.jsonl: damaged"):
            epochs([good])
    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(InputError, match=r"metrics\.jsonl: can't be read \(Permission denied\)\.$"):
        epochs([good])


def test_a_trained_run(tmp_path, capsys):
    data = save_toy(tmp_path)
    for seed in ("0", "1"):
        main([
            "train", str(data), "--data.unlisted", "negative", "--data.observe", "single", "--method", "an",
            "--epochs", "3", "--threads", "1", "--seed", seed, "--output", str(tmp_path / f"run{seed}"),
        ])  # fmt: skip
    runs = [tmp_path / "run0", tmp_path / "run1"]
    (runs[1] / "summary.json").unlink()
    main(["analyse", "epochs", *map(str, runs), "--output", str(tmp_path / "out")])
    out = capsys.readouterr().out
    assert "run1: has not finished" in out
    lines = (tmp_path / "out" / "epochs.csv").read_text().splitlines()
    assert lines[0] == "line,epoch,val_mAP,sd,runs"
    values = [
        [json.loads(line)["val/mAP"] for line in (run / "metrics.jsonl").read_text().splitlines()]
        for run in runs
    ]
    assert [float(line.split(",")[2]) for line in lines[1:]] == pytest.approx(np.mean(values, 0).tolist())
