"""Comparisons on images: frozen backbones, fine-tuning, networks from random weights."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from spml.bench.plan import CODE_VERSION, all_series, next_trial
from spml.bench.read_spec import find_spec, read_spec
from spml.bench.rows import Row, best_epoch
from spml.bench.state import read_state
from spml.bench.store import Store
from spml.bench.workers import Job, work
from spml.cli.main import main
from spml.data.images.feature_store import FeatureStore
from tests.bench.test_runs import content
from tests.bench.toys import save_spec

BACKBONE = "test_efficientnet"  # timm's own model for tests
SPEC = """
title: images
data:
  photos: {path: photos/labels.csv, unlisted: negative, size: 32, mean_labels: 1.4}
hiding:
  uniform: {observe: single}
candidates:
  - {name: frozen, method: an}
  - {name: frozen others, method: an, model.weights: weights/other.safetensors}
  - {name: maps, method: ignore, hp.warmup: 1}
  - {name: fine-tuned, method: gr, model.frozen: "no"}
  - {name: from nothing, method: an, model.backbone: small_cnn, model.weights: random}
  - {name: solved, model.head: ridge}
  - {name: full, method: bce, labels: full}
baseline: frozen
ceiling: full
modes: [oracle, observed, "audit:10"]
seeds: 1
draws: 10
train: {epochs: 2, batch_size: 16, model.weights: weights/tiny.safetensors}
"""
NAMES = ["frozen", "frozen others", "maps", "fine-tuned", "from nothing", "solved", "full"]
SPLITS = ["train"] * 48 + ["val"] * 20 + ["test"] * 20


def save_photos(folder):
    """Images of four classes; each class is a stripe with its own position and colour in noise."""
    generator = np.random.default_rng(0)
    (folder / "photos").mkdir(exist_ok=True)
    lines = ["file,labels,split"]
    for row, split in enumerate(SPLITS):
        labels = np.flatnonzero(generator.random(4) < 0.3)
        labels = labels if len(labels) else [generator.integers(4)]
        pixels = generator.integers(0, 120, (36, 40, 3), dtype=np.uint8)
        for label in labels:
            pixels[9 * label : 9 * label + 9, :, label % 3] += 100
        Image.fromarray(pixels).save(folder / "photos" / f"{row}.png")
        lines.append(f"{row}.png,{' '.join('abcd'[label] for label in labels)},{split}")
    (folder / "photos" / "labels.csv").write_text("\n".join(lines))


def save_weights(path, seed):
    import timm

    torch.manual_seed(seed)
    path.parent.mkdir(exist_ok=True)
    save_file(timm.create_model(BACKBONE, pretrained=False).state_dict(), path)
    path.with_suffix(".json").write_text(json.dumps({"timm_model": BACKBONE}))


def job_in(folder, text=SPEC):
    save_photos(folder)
    save_weights(folder / "weights" / "tiny.safetensors", 0)
    save_weights(folder / "weights" / "other.safetensors", 1)
    path = save_spec(folder, text)
    (folder / "out").mkdir(exist_ok=True)
    url = f"sqlite:///{folder / 'out' / 'store.sqlite'}"
    return Job(str(path), path.read_text(), str(folder), str(folder / "out"), url, CODE_VERSION)


def rows_of(job):
    state = read_state(job.spec(), Store(job.url), Path(job.root))
    assert not state.missing
    return {row.series.candidate: row for row in state.rows}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    job = job_in(tmp_path_factory.mktemp("one"))
    assert work(job) == []
    return job


def check_same_as_train(job, row, folder, capsys):
    """Train with the configuration that `spml bench config` prints, and compare every number."""
    main(["bench", "config", job.folder, row.key[:12]])
    (folder / "config.yaml").write_text(capsys.readouterr().out)
    main(["train", "--config", str(folder / "config.yaml"), "--output", str(folder / "run")])
    lines = (folder / "run" / "metrics.jsonl").read_text().splitlines()
    for name in ("val/SP", "val/naive_mAP", "val/mAP"):
        assert [json.loads(line)[name] for line in lines] == row.history[name]
    test = json.loads((folder / "run" / "summary.json").read_text())["test"]["mAP"]
    assert test == row.history["test/mAP"][best_epoch(row.history, "observed")]


@pytest.mark.parametrize("name", NAMES)
def test_the_same_numbers_as_spml_train(finished, tmp_path, capsys, name):
    row = rows_of(finished)[name]
    assert row.status == "done", row.message
    assert row.config["data"]["workers"] == 0
    check_same_as_train(finished, row, tmp_path, capsys)


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


def test_features_are_computed_once(finished, monkeypatch):
    folder = Path(finished.folder)
    assert len(list((folder / "features").iterdir())) == 2  # from two files of weights
    monkeypatch.setattr(FeatureStore, "append", lambda *_: pytest.fail("was computed again"))
    job = replace(finished, url=f"sqlite:///{folder / 'again.sqlite'}")
    assert work(job) == []
    assert content(job) == content(finished)


def test_feature_computation_resumes_after_a_kill(finished, tmp_path, monkeypatch):
    job, add, done = job_in(tmp_path), FeatureStore.append, []

    def killed(store, identities, rows):
        if len(done) == 2:
            raise KeyboardInterrupt
        add(store, identities, rows)
        done.append(len(rows))

    monkeypatch.setattr(FeatureStore, "append", killed)
    with pytest.raises(KeyboardInterrupt):
        work(job)
    assert done == [16, 16]
    monkeypatch.setattr(FeatureStore, "append", lambda *given: done.append(len(given[2])) or add(*given))
    assert work(job) == []
    assert sum(done) == 2 * len(SPLITS)
    assert content(job) == content(finished)


@pytest.mark.long
def test_two_processes_in_another_folder_give_the_same_rows(finished, tmp_path):
    job = job_in(tmp_path)
    command = [sys.executable, "-c", "import sys, json; from spml.bench.workers import Job, work; "
               "print(work(Job(**json.loads(sys.argv[1]))))", json.dumps(vars(job))]  # fmt: skip
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate(timeout=300)[0] for process in both] == ["[]\n", "[]\n"]
    assert content(job) == content(finished)  # including keys, although data and weights lie elsewhere
    assert len(list((tmp_path / "out" / "features").iterdir())) == 2


ONE = SPEC.replace("  - {name: frozen others, method: an, model.weights: weights/other.safetensors}\n", "")


def first_trial(folder, text):
    spec = read_spec(save_spec(folder, text))
    return next_trial(spec, all_series(spec)[0], [], folder)


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
    ((problem, code),) = work(more)  # once, not for every series
    assert code == 2
    assert problem.startswith(f"{tmp_path / 'weights' / 'tiny.safetensors'}: its content changed since")
    assert "Put the weights back" in problem
    assert Store(job.url).count() == 3
    assert content(job) == rows
    save_weights(tmp_path / "weights" / "tiny.safetensors", 0)
    assert work(more) == []
    assert Store(job.url).count() == 6


def test_paths_of_weights_and_loader_processes_do_not_change_a_point(tmp_path):
    trial = first_trial(tmp_path, SPEC)
    assert trial.config.model.weights == str(tmp_path / "weights" / "tiny.safetensors")
    assert trial.config.data.workers == 0
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
    assert any(f"{tmp_path / 'weights' / 'none.safetensors'}" in text for text, _ in problems)
    assert all(code == 2 for _, code in problems)


@pytest.mark.parametrize("name", ["digits", "photographs"])
def test_ready_made_specifications(name):
    spec = find_spec(name)
    assert {"an", "wan", "em", "em_apl", "gr", "role", "ll_r", "opml", "lasd", "show"} < {
        candidate.name for candidate in spec.candidates
    }
    assert {candidate.name: candidate.labels for candidate in spec.candidates}[spec.ceiling] == "full"
    assert len(spec.seeds) == 3
    trials = {spec.trials_of(candidate) for candidate in spec.candidates}
    assert len(trials) == 1  # equal budgets
    config = next_trial(spec, all_series(spec)[0], [], Path("root")).config
    assert config.data.path == ("digits" if name == "digits" else "root/images/voc2012_animals/labels.csv")


@pytest.mark.long
def test_photographs_by_a_pretrained_network(shared, tmp_path, capsys):
    source = shared / "data" / "images" / "voc2012_animals"
    lines = (source / "labels.csv").read_text().splitlines()
    wanted = {"train": 24, "val": 10, "test": 10}
    chosen = []
    for line in lines[1:]:
        name, labels, split = line.split(",")
        if wanted[split]:
            wanted[split] -= 1
            chosen.append(f"{name},{labels},{split}")
    (tmp_path / "labels.csv").write_text("\n".join([lines[0], *chosen]))
    (tmp_path / "models").symlink_to(shared / "data" / "models")
    text = find_spec("photographs").text
    for old, new in (
        ("images/voc2012_animals/labels.csv", f"labels.csv, images: {source}, separator: ' '"),
        ("size: 96", "size: 64"), ("seeds: 3", "seeds: 1"), ("audit:100", "audit:8"),
        ("[3e-5, 1e-4, 3e-4, 1e-3]", "[3e-4]"),
    ):  # fmt: skip
        assert old in text
        text = text.replace(old, new)
    path = save_spec(tmp_path, text)
    (tmp_path / "out").mkdir()
    url = f"sqlite:///{tmp_path / 'out' / 'store.sqlite'}"
    job = Job(str(path), text, str(tmp_path), str(tmp_path / "out"), url, CODE_VERSION)
    assert work(job) == []
    rows = rows_of(job)
    assert {row.status for row in rows.values()} == {"done"}
    assert all(math.isfinite(row.history["val/mAP"][-1]) for row in rows.values())
    check_same_as_train(job, rows["em_apl"], tmp_path, capsys)
