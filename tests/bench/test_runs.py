"""Runs of a small comparison: the same numbers as `spml train`, as one process or several, killed or not."""

from __future__ import annotations

import json
import math
import os
import random
import re
import signal
import threading
import time
from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from spml.bench.plan import CODE_VERSION, _point, all_series, next_trial
from spml.bench.rows import best_epoch, picks
from spml.bench.runner import Runner
from spml.bench.spec import read_spec
from spml.bench.state import read_state
from spml.bench.store import Store
from spml.bench.workers import Job, check_data, used_files, work
from spml.common.errors import InputError
from spml.config import DataConfig, from_dict
from spml.data import open_dataset, start_opening
from spml.runs.train import run_training
from tests.bench.rows import row as made_row
from tests.bench.toys import TOY, save_spec, save_toy
from tests.helpers.commands import refusal
from tests.helpers.comparisons import (
    FREQUENT,
    ONE_TRIAL,
    SMALL,
    check_same_as_train,
    content,
    job_in,
    state_of,
    work_through,
)
from tests.helpers.features import arrays_of, copy_features, records
from tests.helpers.processes import finish, finish_all, started


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    job = job_in(tmp_path_factory.mktemp("one"))
    assert work(job) == []
    return job


@pytest.mark.long
def test_every_run_is_there_once(finished):
    state = state_of(finished)
    assert state.total == state.finished == 9
    assert Store(finished.url).count() == 8  # one setting was proposed twice
    assert [row.trial for row in state.rows] == [0, 1, 2] * 3
    for row in state.rows:
        assert row.status == "done"
        assert row.facts["train"] + row.facts["val"] == 160
        assert row.facts["test"] == 40
        assert len(row.history["val/SP"]) == len(row.history["test/mAP"]) == 3
        assert row.versions["code"] == CODE_VERSION
        for mode in ("oracle", "observed", "audit:20"):
            assert math.isfinite(row.history["test/mAP"][best_epoch(row.history, mode)])


def test_a_finished_run_is_not_repeated(finished, monkeypatch):
    before = content(finished)
    monkeypatch.setattr(Runner, "run", lambda *_: pytest.fail("was run again"))
    assert work(finished) == []
    assert content(finished) == before


def test_a_wider_grid_keeps_what_is_there(tmp_path, monkeypatch):
    grid = SMALL.replace("random", "grid").replace("{low: 1e-3, high: 1e-1, log: true}", "[1e-2, 1e-1]")
    assert work(job_in(tmp_path, grid)) == []
    wider, made = job_in(tmp_path, grid.replace("[1e-2, 1e-1]", "[1e-3, 1e-2, 1e-1]")), []
    run = Runner.run

    def note(runner, series, trial, before):
        made.append((series.candidate.name, trial.number, trial.params))
        return run(runner, series, trial, before)

    monkeypatch.setattr(Runner, "run", note)
    assert work(wider) == []
    assert sorted(made) == [(name, 0, {"optim.lr": 1e-3}) for name in ("an", "full")]
    rows = state_of(wider).rows
    assert [row.params["optim.lr"] for row in rows if row.series.candidate == "an"] == [1e-3, 1e-2, 1e-1]
    assert {series.candidate for series, found in picks(rows, ["observed"]).items()
            if found["observed"].draws.size} == {"an", "em slow", "full"}  # fmt: skip


def test_the_same_numbers_as_spml_train(finished, tmp_path):
    rows = state_of(finished).rows
    for row in (rows[1], rows[4]):
        output = tmp_path / row.key[:8]
        run_training(from_dict({**row.config, "output": str(output)}))
        check_same_as_train(row, records(output), json.loads((output / "summary.json").read_text()))


def test_the_best_of_its_series_has_draws(finished):
    rows = state_of(finished).rows
    for mode, column in (("oracle", "val/mAP"), ("observed", "val/SP"), ("audit:20", "audit:20")):
        for first in range(0, 9, 3):
            series = {row.key: row for row in rows[first : first + 3]}.values()
            best = -1.0
            for row in series:
                better = max(row.history[column]) > best
                assert (mode in row.draws) == better
                best = max(best, max(row.history[column]))
                if better:
                    test = row.history["test/mAP"][best_epoch(row.history, mode)]
                    assert len(row.draws[mode]) == 20
                    assert np.mean(row.draws[mode]) == pytest.approx(test, abs=0.05)


def test_draws_of_groups(tmp_path):
    """Of a test set of two groups there are three draws: both of them, or one of them twice."""
    job = job_in(tmp_path, ONE_TRIAL.replace("{path: toy.npz,", "{path: toy.npz, group: who,"))
    toy = tmp_path / "toy.npz"
    copy_features(toy, toy, who=np.where(arrays_of(toy)["test"], np.arange(200) % 2, 2 + np.arange(200) // 8))
    assert work(job) == []
    rows = state_of(job).rows
    for row in rows:
        assert row.status == "done"
        for mode, draws in row.draws.items():
            assert 2 <= len({*draws}) <= 3, "both groups, or one of them twice"
            assert round(row.history["test/mAP"][best_epoch(row.history, mode)], 6) in draws


def test_full_labels_reach_the_ceiling_only(finished):
    rows = state_of(finished).rows
    for row in rows:
        hidden = row.config["data"]["observe"]
        assert hidden == ("none" if row.series.candidate == "full" else "single")
    prints = {row.series.candidate: row.facts["fingerprint"] for row in rows}
    assert prints["an"] == prints["em slow"] != prints["full"]


FULL = """
candidates:
  - an
  - {name: stated, method: focal, labels: full, hp.known_negatives: own, space: {}}
  - {name: by itself, method: focal, labels: full, space: {}}
  - {name: plain, method: focal, labels: full, hp.known_negatives: plain, space: {}}
  - {name: hidden, method: focal, space: {}}
  - {name: "hidden, plain", method: focal, hp.known_negatives: plain, space: {}}
baseline: an
ceiling: by itself
"""


def test_a_candidate_with_full_labels_has_the_negative_term_of_its_paper(tmp_path):
    start, _, rest = SMALL.partition("candidates:")
    text = start + FULL.strip() + "\n" + rest[rest.index("modes:") :]
    job = job_in(tmp_path, text.replace("trials: 3", "trials: 1"))
    assert work(job) == []
    rows = state_of(job).rows
    history = {row.series.candidate: row.history for row in rows}
    assert history["by itself"] == history["stated"] != history["plain"]
    assert history["hidden"] == history["hidden, plain"] != history["plain"]
    # What is not stated is not in the key, so that comparisons made before are found again.
    assert {row.series.candidate: row.config["hp"] for row in rows}["by itself"] == {}


@pytest.mark.long
def test_two_processes_give_the_same_rows(finished, tmp_path):
    job = job_in(tmp_path)
    finish_all(work_through, job, processes=2)
    assert content(job) == content(finished)
    assert Store(job.url).count() == 8


@pytest.mark.long
def test_data_that_changed_under_it(tmp_path):
    job = job_in(tmp_path, ONE_TRIAL)
    assert work(job) == []
    rows = content(job)
    save_toy(tmp_path, seed=1)
    more = job_in(tmp_path, SMALL.replace("trials: 3", "trials: 2"))
    save_toy(tmp_path, seed=1)
    (problem,) = work(more)  # once, not for every series
    assert problem.exit_code == 2
    assert "its content changed since runs of this comparison were made from it" in str(problem)
    assert "Put the data back, or write to another `output`" in str(problem)
    assert content(job) == rows
    assert Store(job.url).count() == 3
    save_toy(tmp_path)
    assert work(more) == []
    assert Store(job.url).count() == 6


def test_data_that_changed_after_all_runs_were_made(tmp_path):
    job = job_in(tmp_path, ONE_TRIAL)
    check_data(job)  # nothing was made yet
    assert work(job) == []
    check_data(job)
    arrays = arrays_of(tmp_path / "toy.npz")
    config = next_trial(job.spec(), all_series(job.spec())[0], [], tmp_path).config.data
    before = open_dataset(config).fingerprint()
    for row in np.flatnonzero(arrays["test"]):
        labels = arrays["Y"].copy()
        labels[row, np.argmin(labels[row])] = 1
        np.savez(tmp_path / "toy.npz", **arrays | {"Y": labels})
        if open_dataset(config).fingerprint() == before:
            break  # a true label that nothing is trained on or selected by, and the observed one as before
    else:
        pytest.fail("every label changes what is observed")
    with pytest.raises(InputError, match=r"toy\.npz: its content changed since runs"):
        check_data(job)
    np.savez(tmp_path / "toy.npz", **arrays)
    check_data(job)


def test_ways_of_hiding_share_the_features(tmp_path, monkeypatch):
    untrained(monkeypatch)
    assert work(job_in(tmp_path, TOY.replace("trials: 3", "trials: 1"))) == []
    # One file per split and seed, however many ways of hiding and candidates with full labels there are;
    # the split for the test does not depend on the seed.
    assert len(list((tmp_path / "out" / "features").iterdir())) == 2 * 2 + 1


FAILING = """
  - {name: too fast, method: em, optim.lr: 1e30, space: {}}
  - {name: overflow, method: em, optim.lr: 1e38, space: {}}
  - {name: maps, method: ignore, hp.warmup: 1, space: {}}
"""


def test_runs_that_fail_say_why_and_are_tried_again_when_asked(tmp_path, monkeypatch):
    job = job_in(tmp_path, ONE_TRIAL.replace("  - an\n", f"  - an{FAILING}"))
    assert work(job) == []
    state = state_of(job)
    messages = {row.series.candidate: row.message for row in state.failed}
    assert {*messages} == {"too fast", "overflow", "maps"}
    assert "NaN or infinite" in messages["too fast"]
    assert re.fullmatch(r"RuntimeError: .*overflow.* \(\w+\.py, line \d+\)", messages["overflow"])
    assert "needs the feature map" in messages["maps"]
    assert state.describe() == "6 of 6 runs are finished, 3 of them failed"
    monkeypatch.setattr(Runner, "run", lambda *_: pytest.fail("was run again"))
    assert work(job) == []
    Store(job.url).forget(state.failed[:1])
    assert state_of(job).missing == {state.failed[0].series: 1}


def untrained(monkeypatch):
    """Let runs be finished without training."""
    monkeypatch.setattr(Runner, "_fill", lambda self, row, *_: replace(row, status="failed"))


def test_fabric_is_imported_before_the_store_has_a_thread(tmp_path, monkeypatch):
    """Since it takes seconds longer afterwards."""
    untrained(monkeypatch)
    before, found = threading.active_count(), []
    monkeypatch.setattr("spml.bench.workers.import_fabric", lambda: found.append(threading.active_count()))
    assert work(job_in(tmp_path, ONE_TRIAL)) == []
    assert found == [before]


def test_memory_is_not_that_of_another_candidate(tmp_path, monkeypatch):
    untrained(monkeypatch)
    calls = []
    monkeypatch.setattr("spml.bench.runner.give_back_freed_memory", lambda: calls.append("give back"))
    monkeypatch.setattr("spml.bench.runner.reset_peak_memory", lambda: calls.append("run"))
    assert work(job_in(tmp_path)) == []
    runs = (3, 2, 3)  # per candidate; one of its trials is proposed twice
    assert calls == [call for count in runs for call in ["give back", *["run"] * count]]


def test_an_unforeseen_error_with_the_data_leaves_the_other_data(tmp_path, monkeypatch):
    save_toy(tmp_path, "other.npz", seed=3)
    text = SMALL.replace("hiding:", "  other: {path: other.npz, unlisted: negative}\nhiding:")
    job = job_in(tmp_path, text.replace("trials: 3", "trials: 1"))

    def breaking(config, **rest):
        if "other" in config.path:
            raise MemoryError("too large")
        return start_opening(config, **rest)

    monkeypatch.setattr("spml.runs.settle.resolve.start_opening", breaking)
    problems = work(job)
    assert len(problems) == 3  # each names its series
    assert problems[0].exit_code == 1
    assert str(problems[0]).startswith("other/uniform/an/0: MemoryError: too large (test_runs.py, line ")
    rows = state_of(job).rows
    assert {row.series.data for row in rows if row.status == "done"} == {"toy"}


def test_few_positives_in_the_test_set(tmp_path):
    job = job_in(tmp_path, ONE_TRIAL.replace("draws: 20", "draws: 200"))
    arrays = arrays_of(tmp_path / "toy.npz")
    arrays["Y"][np.flatnonzero(arrays["test"])[3:]] = 0
    np.savez(tmp_path / "toy.npz", **arrays)
    assert work(job) == []
    rows = state_of(job).rows
    assert {row.status for row in rows} == {"done"}
    # Of 40 test samples 3 have labels: (37 / 40)^40 = 4 % of the draws have none, and no mAP.
    counts = {len(found) for row in rows for found in row.draws.values()}
    assert len(counts) == 1
    assert 170 < counts.pop() < 200


def test_validation_samples_without_full_labels(tmp_path):
    text = SMALL.replace(", unlisted: negative", "").replace("observe: single", "observe: none")
    text = text.replace("  - {name: full, method: bce, labels: full}\n", "").replace("ceiling: full\n", "")
    job = job_in(tmp_path, text.replace("trials: 3", "trials: 1"))
    arrays = arrays_of(tmp_path / "toy.npz")
    labels = np.where(arrays["Y"] == 1, 1, -1).astype(np.int8)
    labels[~arrays["test"]] = np.maximum(labels[~arrays["test"]], 0)  # 0: unknown
    np.savez(tmp_path / "toy.npz", **arrays | {"Y": labels})
    (problem,) = work(job)
    assert problem.exit_code == 2
    assert "selection by oracle, audit:20 needs fully labelled validation samples" in str(problem)
    path = Path(job.path)
    path.write_text(job.text.replace('modes: [oracle, observed, "audit:20"]', "modes: [observed]"))
    job = replace(job, text=path.read_text())
    assert work(job) == []
    rows = state_of(job).rows
    assert [row.status for row in rows] == ["done", "done"]
    assert "val/mAP" not in rows[0].history
    assert 0.3 < rows[0].history["test/mAP"][best_epoch(rows[0].history, "observed")] < 1


def test_more_labels_per_sample_than_there_are_classes(tmp_path):
    told = SMALL.replace(
        "  - an\n", "  - an\n  - {name: ridge, model.head: ridge, mean_labels: x3, space: {}}\n"
    )
    job = job_in(tmp_path, told.replace("trials: 3", "trials: 1"))
    assert work(job) == []
    failed = state_of(job).failed
    assert [(row.series.candidate, "got 4.8" in row.message) for row in failed] == [("ridge", True)]


def save_pseudo_labels(folder, name, seed):
    data = open_dataset(DataConfig(path=str(save_toy(folder)), unlisted="negative"))
    ids = np.array((*data.splits["train"].ids, *data.splits["val"].ids))
    labels = np.random.default_rng(seed).integers(-1, 2, size=(len(ids), 4))
    np.savez(folder / name, ids=ids, classes=np.array(data.classes), labels=labels)


def test_pseudo_labels_belong_to_what_a_run_is_known_by(tmp_path):
    text = SMALL.replace("method: em,", "method: vlpl, hp.pseudo_labels: pseudo.npz,")
    job = job_in(tmp_path, text.replace("hp.alpha: [0.05, 0.1, 0.2]", "").replace("trials: 3", "trials: 1"))
    (problem,) = work(job)
    assert problem.exit_code == 2
    assert f"{tmp_path / 'pseudo.npz'}: the pseudo-labels can't be read" in str(problem)
    save_pseudo_labels(tmp_path, "pseudo.npz", 0)
    assert work(job) == []
    check_data(job)
    before = content(job)
    save_pseudo_labels(tmp_path, "pseudo.npz", 1)
    with pytest.raises(InputError, match=r"pseudo\.npz: its content changed .* Put the pseudo-labels back"):
        check_data(job)
    assert content(job) == before


@pytest.mark.parametrize("config", [{}, {"model": {"weights": "random"}}, {"model": [], "hp": {}}])
def test_a_run_that_does_not_state_its_settings_is_named(config):
    damaged = made_row(("toy", "uniform", "an", 0), config=config)
    job = Job("", "", "", "", "sqlite:///x", "")
    assert refusal(used_files, damaged, job) == (
        f"sqlite:///x: the run '{damaged.key}' is damaged: it does not state its settings. Delete this row "
        "from the table `runs`, so that the run is made again."
    )


NOT_FULL = SMALL.replace(", unlisted: negative", "").replace("{observe: single}", "{observe: none}")


@pytest.mark.parametrize(
    ("text", "code", "exit_code", "words"),
    [
        (NOT_FULL, None, 2, "a comparison needs fully labelled test samples"),
        (SMALL, "0" * 16, 1, "another version of spml"),
        (SMALL.replace("mean_labels: 1.6", "mean_labels: 7"), None, 2, "between 0 and the 4 classes, got 7"),
    ],
)
def test_what_can_not_be_compared_is_refused(tmp_path, text, code, exit_code, words):
    (problem,) = work(job_in(tmp_path, text, code))
    assert problem.exit_code == exit_code
    assert words in str(problem)


def test_what_a_run_is_known_by(tmp_path):
    job = job_in(tmp_path)
    spec, series = job.spec(), all_series(job.spec())

    def point(number=0, root=tmp_path, text=SMALL):
        spec = read_spec(save_spec(tmp_path, text))
        return next_trial(spec, all_series(spec)[number], [], root).point

    assert point() == next_trial(spec, series[0], [], tmp_path).point
    assert point(root=tmp_path / "elsewhere") == point()  # where the data lies does not matter
    edits = (
        ("epochs: 3", "epochs: 4"),
        ("mean_labels: 1.6", "mean_labels: 1.7"),
        ("observe: single", "observe: counts"),
        ("high: 1e-1", "high: 2e-1"),
        ("audit:20", "audit:21"),
        ("draws: 20", "draws: 21"),
        ("negative, ", "negative, val_share: 0.3, "),
        ("negative, ", "negative, empty: zero, "),
    )
    changed = [point(1), *(point(text=SMALL.replace(*edit)) for edit in edits)]
    assert len({point(), *changed}) == len(changed) + 1


def test_what_a_run_keeps_and_where_is_no_part_of_its_identity(tmp_path):
    spec = job_in(tmp_path).spec()
    series = all_series(spec)[0]
    trial = next_trial(spec, series, [], tmp_path)
    for change in ({"output": "x"}, {"threads": 2}, {"record": "scores"}, {"record_samples": "test"}):
        assert _point(spec, series, trial.params, replace(trial.config, **change)) == trial.point
    assert _point(spec, series, trial.params, replace(trial.config, epochs=9)) != trial.point


def files(folder):
    """The report without what it cost."""
    return {
        path.relative_to(folder): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in (".md", ".html", ".csv", ".tex", ".svg") and path.stem != "cost"
    }


@pytest.mark.long
def test_killed_three_times_and_continued_the_report_is_the_same(tmp_path):
    save_toy(tmp_path)
    spec = save_spec(tmp_path, TOY.replace(FREQUENT, "").replace("epochs: 3", "epochs: 8"))
    rng, said = random.Random(0), tmp_path / "said"

    def command(name):
        output = str(tmp_path / name)
        return ["bench", "run", str(spec), "--root", str(tmp_path), "--output", output, "--workers", "2"]

    def stored():
        path = tmp_path / "killed" / "store.sqlite"
        return Store(f"sqlite:///{path}").count() if path.exists() else 0

    finish(command("whole"), said, quick=True)
    for _ in range(3):
        before, deadline = stored(), time.monotonic() + 120
        with started(command("killed"), said, quick=True) as process:
            while stored() == before and time.monotonic() < deadline:
                time.sleep(0.02)
            time.sleep(rng.uniform(0, 0.25))
            assert process.is_alive(), "the comparison is too short for this test"
    finish(command("killed"), said, quick=True)
    assert files(tmp_path / "killed") == files(tmp_path / "whole")
    assert len(files(tmp_path / "whole")) > 6


def gone(group):
    """Whether no process of a group is left, after some time if need be."""
    for _ in range(200):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.long
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGHUP, 129), (signal.SIGTERM, 143)]
)
def test_stopped_by_a_signal_nothing_has_failed(tmp_path, number, code):
    save_toy(tmp_path)
    spec = save_spec(tmp_path, SMALL.replace("epochs: 3", "epochs: 9000"))
    output, said = tmp_path / "out", tmp_path / "said"
    words = ["bench", "run", str(spec), "--root", str(tmp_path), "--output", str(output), "--workers", "1"]
    quick = number != signal.SIGTERM  # once with workers that are started as usual
    with started(words, said, quick, heeded=number) as process:
        deadline = time.monotonic() + 120
        while not (output / "features").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(1)
        (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
        process.join(120)
        assert process.exitcode == code
        assert gone(process.pid)
    error = said.read_text()
    assert "Traceback" not in error
    name = "Ctrl-C" if number == signal.SIGINT else number.name
    assert re.search(
        rf"^Stopped by {name}\. \d of 9 runs are finished\. They are kept, .* Run the same command again to "
        "continue\\.$",
        error, re.M,
    )  # fmt: skip
    state = read_state(read_spec(spec), Store(f"sqlite:///{output / 'store.sqlite'}"), tmp_path)
    assert not state.failed
    assert state.missing


def test_pseudo_labels_that_are_searched_are_compared_with_their_own(tmp_path):
    """Of the trials of a series, the first may be missing."""
    for number in range(2):
        save_pseudo_labels(tmp_path, f"p{number}.npz", number)
    text = SMALL[: SMALL.index("candidates:")] + (
        "candidates:\n  - {name: vlpl, method: vlpl, space: {hp.pseudo_labels: [p1.npz]}}\n"
        "modes: [oracle]\nseeds: 1\nsearch: {sampler: grid}\ntrain: {epochs: 2}\n"
    )
    assert work(job_in(tmp_path, text)) == []
    wider = replace(job_in(tmp_path, text.replace("[p1.npz]", "[p0.npz, p1.npz]")))
    check_data(wider)
    assert work(wider) == []
    state = state_of(wider)
    assert [row.params["hp.pseudo_labels"] for row in state.rows] == ["p0.npz", "p1.npz"]
    (tmp_path / "p1.npz").write_bytes((tmp_path / "p0.npz").read_bytes())
    with pytest.raises(InputError, match=r"p1\.npz: its content changed"):
        check_data(wider)


@pytest.mark.long
def test_the_ready_made_quick_one_with_half_of_its_candidates(tmp_path):
    text = (resources.files("spml.bench") / "specs" / "quick.yaml").read_text()
    for removed in ("  - em\n", "  - ll_r\n"):
        assert removed in text
        text = text.replace(removed, "")
    for more, less in (
        ("seeds: 2", "seeds: 1"),
        ("trials: 2", "trials: 1"),
        ("epochs: 6", "epochs: 4"),
        ("batch_size: 64", "batch_size: 16"),
        ("mean_labels: 2.34", "mean_labels: 2.34, sample_rows: 1000"),
    ):
        assert more in text
        text = text.replace(more, less)
    spec = save_spec(tmp_path, text)
    finish(["bench", "run", str(spec), "--output", str(tmp_path / "quick")], tmp_path / "said", quick=True)
    shown = (tmp_path / "said").read_text()
    rows = [line.split() for line in shown.splitlines() if re.match(r"(full|an|gr) .*\d", line)]
    means = {row[0]: float(next(cell for cell in row if re.fullmatch(r"\d+\.\d+", cell))) for row in rows}
    assert set(means) == {"full", "an", "gr"}
    assert means["gr"] > means["an"] > 57  # by chance, it is 23
    report = (tmp_path / "quick" / "report.md").read_text()
    (reservation,) = re.findall(r"## Reservations\n\n(.*?)\n\n##", report, re.S)
    assert (
        reservation == "- One seed only, so no spread over seeds: digits, uniform."
    )  # none failed or is missing


@pytest.mark.long
def test_no_cluster_at_that_address(tmp_path):
    pytest.importorskip("ray")
    from spml.bench.workers import run_on_ray

    with pytest.raises(InputError, match="there is no Ray cluster"):
        run_on_ray(job_in(tmp_path), "127.0.0.1:1", 0)
