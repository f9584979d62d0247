"""Comparisons on images: frozen backbones, fine-tuning, networks from random weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from spml.bench.plan import all_series, next_trial
from spml.bench.rows import Row
from spml.bench.spec import read_spec
from spml.bench.store import Store
from spml.bench.workers import work
from spml.data.images.feature_store import FeatureStore
from tests.bench.toys import save_spec
from tests.helpers.comparisons import check_same_as_train, content, state_of, train_as_printed, work_through
from tests.helpers.photo_comparisons import SPEC, SPLITS, job_in, save_weights
from tests.helpers.processes import finish_all

NAMES = ["frozen", "frozen others", "maps", "fine-tuned", "from nothing", "solved", "full"]


def rows_of(job):
    state = state_of(job)
    assert not state.missing
    return {row.series.candidate: row for row in state.rows}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    job = job_in(tmp_path_factory.mktemp("one"))
    assert work(job) == []
    return job


@pytest.mark.long
@pytest.mark.parametrize("name", ["frozen", "maps", "fine-tuned", "from nothing", "solved"])
def test_the_same_numbers_as_spml_train(finished, tmp_path, capsys, name):
    row = rows_of(finished)[name]
    assert row.status == "done", row.message
    assert row.config["data"]["workers"] == -1  # each machine has its own number
    check_same_as_train(row, *train_as_printed(finished, row.key[:12], tmp_path / "run", capsys))


LOCAL = """
title: windows
data:
  photos: {path: photos/labels.csv, separator: ' ', unlisted: negative, size: 64, mean_labels: 1.4}
hiding:
  uniform: {observe: single}
candidates:
  - {name: solved, model.head: ridge}
  - {name: solved on, model.head: ridge, model.local: "on"}
  - {name: trained on, method: em, model.local: "on"}
  - {name: trained off, method: em, model.local: "off"}
baseline: trained off
modes: [oracle, observed]
seeds: 1
draws: 10
train: {epochs: 2, batch_size: 16, model.weights: weights/tiny.safetensors}
"""


@pytest.mark.long
def test_windows_are_one_more_candidate_of_a_run(tmp_path, capsys):
    job = job_in(tmp_path, LOCAL)
    assert work(job) == []
    rows = rows_of(job)
    assert {row.status for row in rows.values()} == {"done"}
    lengths = {name: {len(values) for values in row.history.values()} for name, row in rows.items()}
    assert lengths["trained off"] == {2}
    assert lengths["solved on"] == lengths["trained on"] == {1}  # windows alone
    tried = len(rows["solved"].history["penalty"])
    assert lengths["solved"] == {tried}
    for name in ("solved on", "trained on"):
        _, summary = train_as_printed(job, rows[name].key[:12], tmp_path / name, capsys)
        for key in ("val/SP", "val/mAP"):
            assert rows[name].history[key] == [summary["validation"][key]]
        assert rows[name].history["test/mAP"] == [summary["test"]["mAP"]]


def test_every_candidate_is_trained_as_specified(finished):
    rows = rows_of(finished)
    assert list(rows) == NAMES
    scores = {tuple(row.history["val/mAP"]) for row in rows.values()}
    assert len(scores) == len(NAMES)  # two weights on the same images have not shared their features
    known = {name: row.facts.get("backbone") for name, row in rows.items()}
    assert known["from nothing"] is None
    assert known["frozen"] == known["maps"] == known["full"] != known["frozen others"]
    fingerprints = {rows[name].facts["fingerprint"] for name in ("frozen", "frozen others", "fine-tuned")}
    assert fingerprints == {rows["frozen"].facts["fingerprint"]}


@pytest.mark.long
def test_features_are_computed_once(finished, monkeypatch):
    folder = Path(finished.folder)
    assert len(list((folder / "features").iterdir())) == 2  # from two files of weights
    monkeypatch.setattr(FeatureStore, "append", lambda *_: pytest.fail("was computed again"))
    before = replace(finished, candidates="frozen,frozen others,solved,full")
    job = replace(before, url=f"sqlite:///{folder / 'again.sqlite'}")
    assert work(job) == []
    assert content(job) == content(before)


@pytest.mark.long
def test_feature_computation_resumes_after_a_kill(finished, tmp_path, monkeypatch):
    frozen = "frozen,frozen others"
    job, add, done = replace(job_in(tmp_path), candidates=frozen), FeatureStore.append, []

    def killed(store, identities, rows):
        if len(done) == 2:
            raise KeyboardInterrupt
        add(store, identities, rows)
        done.append(len(rows))

    monkeypatch.setattr(FeatureStore, "append", killed)
    with pytest.raises(KeyboardInterrupt):
        work(job)
    assert done == [1, 16]  # the first batch is one sample, so that the bar moves
    monkeypatch.setattr(FeatureStore, "append", lambda *given: done.append(len(given[2])) or add(*given))
    assert work(job) == []
    assert sum(done) == 2 * len(SPLITS)
    assert content(job) == content(replace(finished, candidates=frozen))


@pytest.mark.long
def test_two_processes_in_another_folder_give_the_same_rows(finished, tmp_path):
    job = job_in(tmp_path)
    finish_all(work_through, job, processes=2)
    assert content(job) == content(finished)  # including keys, although data and weights lie elsewhere
    assert len(list((tmp_path / "out" / "features").iterdir())) == 2


ONE = SPEC.replace("  - {name: frozen others, method: an, model.weights: weights/other.safetensors}\n", "")


def first_trial(folder, text):
    spec = read_spec(save_spec(folder, text))
    return next_trial(spec, all_series(spec)[0], [], folder)


@pytest.mark.long
def test_weights_that_changed_between_runs(tmp_path):
    kept = ("frozen,", "fine-tuned", "full,")
    lines = [line for line in SPEC.splitlines() if "{name:" not in line or any(one in line for one in kept)]
    text = "\n".join(lines).replace(
        "train:", "search: {sampler: random, trials: 1, space: {optim.lr: {low: 1e-4, high: 1e-2}}}\ntrain:"
    )
    job = job_in(tmp_path, text)
    assert work(job) == []
    rows = content(job)
    assert len(rows) == 3
    more = replace(job, text=text.replace("trials: 1", "trials: 2"))
    save_weights(tmp_path / "weights" / "tiny.safetensors", 2)
    (problem,) = work(more)  # once, not for every series
    assert problem.exit_code == 2
    assert str(problem).startswith(f"{tmp_path / 'weights' / 'tiny.safetensors'}: its content changed since")
    assert "Put the weights back" in str(problem)
    assert Store(job.url).count() == 3
    assert content(job) == rows
    save_weights(tmp_path / "weights" / "tiny.safetensors", 0)
    assert work(more) == []
    assert Store(job.url).count() == 6


def test_paths_of_weights_and_loader_processes_do_not_change_a_point(tmp_path):
    trial = first_trial(tmp_path, SPEC)
    assert trial.config.model.weights == str(tmp_path / "weights" / "tiny.safetensors")
    assert trial.config.data.workers == -1
    moved = first_trial(tmp_path, SPEC.replace("weights/tiny", "elsewhere/small"))
    assert moved.config.model.weights == str(tmp_path / "elsewhere" / "small.safetensors")
    assert moved.point == trial.point
    loaders = first_trial(tmp_path, SPEC.replace("size: 32,", "size: 32, workers: 2,"))
    assert (loaders.config.data.workers, loaders.point) == (2, trial.point)
    random = first_trial(tmp_path, SPEC.replace("weights/tiny.safetensors", "random"))
    assert random.config.model.weights == "random"
    assert random.point != trial.point


def test_several_files_of_weights_are_searched(tmp_path):
    text = SPEC.replace(
        "train:",
        "search: {sampler: grid, space: {model.weights: [weights/a.safetensors, weights/b.safetensors]}}\n"
        "train:",
    )
    spec = read_spec(save_spec(tmp_path, text))
    series = all_series(spec)[0]
    first = next_trial(spec, series, [], tmp_path)
    assert first.config.model.weights == str(tmp_path / "weights" / "a.safetensors")
    row = Row(key="", series=series.key, trial=0, params=first.params, config={}, status="failed")
    second = next_trial(spec, series, [row], tmp_path)
    assert second.config.model.weights == str(tmp_path / "weights" / "b.safetensors")
    assert second.point != first.point


def test_weights_that_are_missing(tmp_path):
    job = job_in(tmp_path, ONE.replace("weights/tiny", "weights/none"))
    problems = work(job)
    assert any(f"{tmp_path / 'weights' / 'none.safetensors'}" in str(problem) for problem in problems)
    assert all(problem.exit_code == 2 for problem in problems)
