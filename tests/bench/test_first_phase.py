"""Runs of two phases (`first`): the second starts from what the first has learned and inferred."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spml.bench.plan import all_series, next_trial
from spml.bench.spec import read_spec
from spml.bench.workers import work
from spml.common.errors import InputError
from tests.bench.toys import save_spec
from tests.helpers import photo_comparisons
from tests.helpers.commands import fails
from tests.helpers.comparisons import ONE_TRIAL, check_same_as_train, job_in, state_of, train_as_printed

ROLE = "  - {name: role, method: role, optim.lr: 1e-2, space: {}}\n"
BOTH = ROLE + (
    "  - {name: role + li, method: role, optim.lr: 1e-2, space: {},"
    " first: {epochs: 4, batch_size: 16, optim.lr: 3e-2}}\n"
)
TWO = ONE_TRIAL.replace("  - an\n", "  - an\n" + BOTH)

PHASES = """
title: linear initialisation
data:
  photos: {path: photos/labels.csv, separator: ' ', unlisted: negative, size: 32, mean_labels: 1.4}
hiding:
  uniform: {observe: single}
candidates:
  - {name: from the start, method: role}
  - {name: li, method: role, first: {epochs: 3, model.frozen: "yes", optim.lr: 1e-2}}
  - {name: backbone first, method: role, model.frozen: "yes", first: {model.frozen: "no"}}
baseline: from the start
modes: [oracle, observed]
seeds: 1
draws: 10
train: {epochs: 2, batch_size: 16, model.weights: weights/tiny.safetensors, model.frozen: "no"}
"""


def rows_of(job):
    return {row.series.candidate: row for row in state_of(job).rows}


def check_same_as_two_runs(job, row, folder, capsys):
    """Train the two configurations that `spml bench config` prints, and compare every number."""
    train_as_printed(job, row.key, folder / "first-phase", capsys, "--first")
    history, summary = train_as_printed(job, row.key, folder / "run", capsys)
    assert summary["init_from"]["objective"] == "carried"
    check_same_as_train(row, history, summary)


@pytest.mark.long
def test_both_phases_give_the_numbers_of_two_runs_of_spml_train(tmp_path, monkeypatch, capsys):
    job = job_in(tmp_path, TWO)
    assert work(job) == []
    rows = rows_of(job)
    row = rows["role + li"]
    assert row.status == "done", row.message
    assert (row.first["epochs"], row.first["batch_size"], row.first["optim"]["lr"]) == (4, 16, 3e-2)
    assert (row.config["epochs"], row.config["batch_size"], row.config["optim"]["lr"]) == (3, 32, 1e-2)
    assert len(row.history["val/SP"]) == 3  # of the second phase alone
    assert rows["role"].first == {}
    assert rows["role"].history["val/SP"] != row.history["val/SP"]
    monkeypatch.chdir(tmp_path)
    check_same_as_two_runs(job, row, tmp_path, capsys)


@pytest.mark.long
def test_frozen_features_first_then_the_whole_network(tmp_path, monkeypatch, capsys):
    job = photo_comparisons.job_in(tmp_path, PHASES)
    assert work(job) == []
    rows = rows_of(job)
    row = rows["li"]
    assert row.status == "done", row.message
    assert (row.first["model"]["frozen"], row.config["model"]["frozen"]) == ("yes", "no")
    assert row.history["val/mAP"] != rows["from the start"].history["val/mAP"]
    assert "first phase trains the backbone" in rows["backbone first"].message
    monkeypatch.chdir(tmp_path)
    check_same_as_two_runs(job, row, tmp_path, capsys)


def test_the_first_phase_is_part_of_what_a_run_is_known_by(tmp_path):
    def trial(text, number):
        spec = read_spec(save_spec(tmp_path, text))
        return next_trial(spec, all_series(spec)[number], [], tmp_path)

    plain, role, two = (trial(TWO, number) for number in range(3))
    assert plain.first is role.first is None
    assert trial(TWO.replace(BOTH, ROLE), 1).point == role.point  # another candidate changes no other one
    assert two.first == replace(two.config, epochs=4, batch_size=16, optim=replace(two.config.optim, lr=3e-2))
    points = {trial(TWO.replace("epochs: 4", f"epochs: {epochs}"), 2).point for epochs in (4, 5)}
    assert len({role.point, two.point, *points}) == 3


def test_a_searched_setting_holds_in_both_phases_unless_the_first_states_it(tmp_path):
    text = TWO.replace("optim.lr: 1e-2, space: {},", "space: {hp.weight: [0.5]},")
    spec = read_spec(save_spec(tmp_path, text.replace(ROLE, "")))
    trial = next_trial(spec, all_series(spec)[1], [], tmp_path)
    assert trial.params.keys() == {"optim.lr", "hp.weight"}
    assert trial.first.hp == trial.config.hp == {"weight": 0.5}
    assert trial.first.optim.lr == 3e-2 != trial.config.optim.lr == trial.params["optim.lr"]


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ("3", "first: expected a mapping, got 3"),
        ("{epoch: 4}", "unknown key 'epoch' of first. .*epochs"),
        ("{hp.weight: 2}", "unknown key 'hp.weight' of first"),
        ("{model.head: mlp}", "only model.frozen may differ"),
        ("{model: 3}", "model: expected settings by name, got 3"),
        ("{epochs: 0}", "epochs must be at least 1, got 0"),
        ("{select: best}", "select must be one of auto, observed, oracle, got 'best'"),
        ("{optim.name: lbfgs}", "a head that is solved has no first phase"),
        ("{select: oracle}", "selected by true labels would reach the modes that go without them"),
    ],
)
def test_mistakes_in_a_first_phase(tmp_path, first, words):
    path = save_spec(tmp_path, TWO.replace("{epochs: 4, batch_size: 16, optim.lr: 3e-2}", first))
    with pytest.raises(InputError, match=rf"toys\.yaml: .*{words}"):
        read_spec(path)


def test_a_first_phase_is_selected_by_true_labels_where_every_mode_is(tmp_path):
    text = TWO.replace("optim.lr: 3e-2}", "optim.lr: 3e-2, select: oracle}")
    modes = next(line for line in text.splitlines() if line.startswith("modes:"))
    spec = read_spec(save_spec(tmp_path, text.replace(modes, "modes: [oracle]")))
    (first,) = (candidate.first for candidate in spec.candidates if candidate.first)
    assert first["select"] == "oracle"


def test_a_run_of_one_phase_has_no_first_one_to_print(tmp_path, capsys):
    job = job_in(tmp_path, ONE_TRIAL)
    assert work(job) == []
    said = fails(capsys, "bench config", job.folder, rows_of(job)["an"].key, "--first")
    assert "has no first phase: leave out --first" in said
