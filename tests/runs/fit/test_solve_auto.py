"""Runs of method `auto`, from the command line to prediction, and the default where no method is stated."""

from __future__ import annotations

import contextlib
import io
import json
from functools import partial

import numpy as np
import pytest
import torch

import spml
from spml.common.errors import InputError
from spml.config import from_dict, read_yaml
from spml.data import Samples, open_dataset
from spml.data.matrix import FeatureMatrix
from spml.decisions import global_threshold
from spml.labels import ObservedLabels
from spml.metrics import sp_score
from spml.models import load_classifier
from spml.models.solved.members import class_logits
from spml.runs.fit import fine_tune, solve
from spml.runs.folder import held_out
from spml.runs.settle import resolve as resolving
from spml.scores import InMemory
from tests.helpers.commands import execute, fails
from tests.helpers.features import (
    BACKBONE,
    HIDE,
    arrays_of,
    copy_features,
    logits_of,
    make_steps,
    make_weights,
    train_hidden,
)
from tests.helpers.photos import make_photos


def summary_of(folder):
    return json.loads((folder / "summary.json").read_text())


@pytest.mark.long
@pytest.mark.usefixtures("all_trees")
def test_auto_is_the_default_on_features(features, tmp_path):
    auto_run = train_hidden(features, tmp_path / "auto")
    config, summary = read_yaml(auto_run / "config.yaml"), summary_of(auto_run)
    assert (config.method, config.model.head, config.model.scaling) == ("auto", "auto", "raw")
    assert summary["method"] == "auto"
    members = summary["members"]
    assert sum(member["weight"] for member in members) == pytest.approx(1)
    *linear, forest = members
    assert (forest["space"], forest["head"]) == ("raw", "forest")
    assert {member["head"] for member in linear} <= {"ridge", "lda"}
    assert all(member["space"].startswith(("standard", "sqrtl2")) for member in linear)
    assert summary["selected"]["mode"] == "observed"
    assert summary["test"]["mAP"] > 0.85
    *tried, last = map(json.loads, (auto_run / "metrics.jsonl").read_text().splitlines())
    assert last["members"] == len(members)
    assert last["val/SP"] == summary["validation"]["val/SP"]
    assert len(tried) == 8 * (13 + 12)
    for member in linear:
        path = [t["score"] for t in tried if (t["space"], t["head"]) == (member["space"], member["head"])]
        assert max(path) == member["score"]
    assert (auto_run / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
def test_the_terminal_names_method_and_members(steps, tmp_path, capsys):
    train_hidden(steps, tmp_path / "short", "--epochs 7")
    printed = capsys.readouterr().err
    assert "member " not in printed
    assert len(printed.splitlines()) < 20
    train_hidden(steps, tmp_path / "run", "--epochs 7 --verbose")
    printed = capsys.readouterr().err
    assert "no method was passed, so auto is used" in printed
    assert "epochs has no effect" in printed
    table = printed[printed.index("member ") :].splitlines()
    rows = [line.split() for line in table[1:] if line.startswith(("standard", "sqrtl2", "raw"))]
    weights = [float(row[-1]) for row in rows]
    assert weights == sorted(weights, reverse=True)
    assert sum(weights) == pytest.approx(1, abs=0.01)
    assert [row[1] for row in rows if row[0] == "raw"] == ["forest"]


def test_a_penalty_that_was_not_solved_is_said_in_the_short_log(features, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(solve, "solve_path", partial(solve.solve_path, max_evaluations=2))
    train_hidden(features, tmp_path / "run", "--method an --optim.name lbfgs")
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("penalty ")]
    assert lines
    assert all(line.endswith("not converged") for line in lines)


@pytest.mark.long
def test_the_saved_model_predicts_as_in_training(auto_run, features):
    loaded, summary = spml.load(auto_run), summary_of(auto_run)
    result = loaded.evaluate(features, unlisted="negative")
    assert result["mAP"] == pytest.approx(summary["test"]["mAP"], abs=1e-9)
    rows = torch.from_numpy(arrays_of(features, "test")["X"])
    classifier, card = load_classifier(auto_run)
    assert card["method"]["name"] == "auto"
    torch.testing.assert_close(classifier(rows).logits, classifier.top.head(rows))


@pytest.fixture
def steps(tmp_path):
    """A feature file for which a forest is chosen."""
    features, index = make_steps(400)
    split = np.array(["train"] * 200 + ["val"] * 80 + ["test"] * 120)
    path = tmp_path / "steps.npz"
    np.savez(
        path, X=features, Y=np.eye(4, dtype=np.uint8)[index], classes=np.array(list("abcd")), split=split
    )
    return path


@pytest.mark.long
def test_a_forest_is_a_member_of_the_saved_model(steps, tmp_path, capsys):
    output = train_hidden(steps, tmp_path / "run", "--verbose")
    printed, summary = capsys.readouterr().err, summary_of(output)
    forest = summary["members"][-1]
    assert (forest["space"], forest["head"], forest["penalty"]) == ("raw", "forest", None)
    assert 0 < forest["weight"] <= 0.5
    assert f"with a share of {100 * forest['weight']:.0f} %" in printed
    line = next(line for line in printed.splitlines() if line.startswith("raw "))
    assert line.split() == ["raw", "forest", f"{100 * forest['score']:.2f}", f"{forest['weight']:.3f}"]
    again = spml.load(output).evaluate(steps, unlisted="negative")
    assert again["mAP"] == pytest.approx(summary["test"]["mAP"], abs=1e-9)
    top = load_classifier(output)[0].top
    assert top.head.settings.forest.trees == 20
    assert top.linear_start().settings()["head"] == "linear"


def test_features_of_a_network_have_no_forest(steps, tmp_path, monkeypatch):
    """They differ in the last digits between devices, which a tree may answer with another leaf."""
    asked = []

    def stop(*args, forest, **settings):
        asked.append(forest)
        raise InputError("stopped")

    monkeypatch.setattr(solve.models, "fit_auto", stop)
    photos, weights = make_photos(tmp_path / "photos", 6), make_weights(tmp_path / "tiny.safetensors")
    options = ["--model.weights", weights, "--model.backbone", BACKBONE, "--data.workers 0"]
    for source, extra in ((photos, options), (steps, HIDE)):
        with pytest.raises(SystemExit):
            execute("train", source, *extra, "--threads 1 --output", f"{source}-run")
    assert asked == [False, True]


@pytest.mark.long
def test_the_threshold_is_that_of_held_out_scores(features, tmp_path):
    """The final model has seen the validation samples, so their scores by it would be too high."""
    run = train_hidden(features, tmp_path / "run", "--mean_labels 1.6")
    loaded, val = spml.load(run), arrays_of(features, "val")
    in_sample, truth = logits_of(run, val["X"]), val["Y"]
    assert loaded.global_logit != pytest.approx(global_threshold(in_sample, 1.6), abs=1e-3)
    assert loaded.card["threshold"]["labels_per_sample"] == 1.6
    predicted = loaded.decision()(in_sample)
    assert (predicted == truth).mean() > 0.8
    shown = summary_of(run)["validation"]["val/SP"]
    index = np.asarray([np.flatnonzero(row)[0] for row in truth])
    assert shown < sp_score(in_sample, index, 1.6).score + 0.2


def test_models_are_compared_by_logits_to_which_known_labels_were_fitted(auto_run):
    """Without the own label, known labels are lowered among the samples of their class."""
    kept, summary = held_out.read_held_out(auto_run), summary_of(auto_run)
    known, k = kept.labels.to_ternary(), summary["selected"]["mean_labels"]
    own, left_out = kept.compared.gather(), kept.scores.gather()
    assert (left_out < own)[known == 1].all()
    assert (left_out > own)[known == 0].all()
    fitted = class_logits(torch.from_numpy(own), torch.from_numpy(known), k)
    np.testing.assert_allclose(left_out, fitted.logits, atol=1e-2)
    val = open_dataset(read_yaml(auto_run / "config.yaml").data).splits["val"]
    of_val, shown = [kept.ids.index(name) for name in val.ids], summary["validation"]["val/SP"]
    assert shown == pytest.approx(sp_score(own[of_val], known[of_val], k).score)
    assert shown > sp_score(left_out[of_val], known[of_val], k).score


def test_full_labels_select_by_map(features, tmp_path):
    summary = summary_of(train_hidden(features, tmp_path / "run", "--select oracle --method auto"))
    assert summary["selected"]["mode"] == "oracle"
    best = max(member["score"] for member in summary["members"])
    # The score of a member is mAP on the validation samples; the sum of members is about as good.
    assert summary["validation"]["val/mAP"] == pytest.approx(best, abs=0.05)


def test_hidden_labels_reach_nothing(features, tmp_path):
    """Other true labels, with the same observed ones, give the same model to the bit."""
    content = arrays_of(features)
    index = np.asarray([np.flatnonzero(row)[0] for row in content["Y"]])
    models = []
    for name, extra in (("one", 0), ("other", 1)):
        labels = np.zeros_like(content["Y"])
        labels[np.arange(len(labels)), index] = 1
        known = content["split"] == "test"
        labels[known] = extra
        labels[known, index[known]] = 1
        path = copy_features(features, tmp_path / f"{name}.npz", Y=labels)
        execute("train", path, "--threads 1 --method auto --output", tmp_path / name)
        models.append(load_classifier(tmp_path / name)[0].state_dict())
    assert all(torch.equal(models[0][key], models[1][key]) for key in models[0])


def test_training_goes_on_from_the_linear_member(auto_run, features, tmp_path):
    options = "--method gr --epochs 2 --optim.lr 1e-4 --init-from"
    output = train_hidden(features, tmp_path / "run", options, auto_run)
    config = read_yaml(output / "config.yaml")
    first = load_classifier(auto_run)[0].top.head
    assert (config.model.head, config.model.scaling) == ("linear", first.settings.start)
    trained = load_classifier(output)[0].top
    own, theirs = trained.scaling.state_dict(), first.start_scaling.state_dict()
    assert own.keys() == theirs.keys()
    assert all(torch.equal(own[name], theirs[name]) for name in own)
    assert (trained.head.weight - first.start.weight).abs().max() < 0.05
    assert summary_of(output)["init_from"]["objective"] == "none"


def settled(source, **settings):
    config = from_dict(
        {"data": {"path": str(source), "unlisted": "negative", "observe": "single"}, **settings}
    )
    run = resolving.resolve(config, resolving.open_for_backbone(config))
    return run.config.method, run.notes


def test_what_asks_for_training_is_trained_by_default(features):
    assert settled(features)[0] == "auto"
    for settings in (
        {"model": {"head": "mlp"}}, {"model": {"dropout": 0.1}}, {"model": {"scaling": "unit"}},
        {"optim": {"name": "lbfgs"}}, {"record": "scores"},
    ):  # fmt: skip
        method, notes = settled(features, **settings)
        assert method == "gr"
        assert notes[0].startswith("no method was passed, so gr is used")
    assert settled("digits")[0] == "gr"


def test_settings_that_contradict_auto_are_refused(features, tmp_path, capsys):
    output = ["--output", tmp_path / "run"]
    for options, said in (
        ("--head mlp", "model.head=mlp is given"),
        ("--hp.beta 1", "`hp` is given"),
        ("--optim.name lbfgs", "optim.name=lbfgs is given"),
        ("--init_from runs/x", "init_from=runs/x is given"),
        ("--record scores", "method=auto solves a head without epochs"),
    ):
        assert said in fails(capsys, "train", features, *HIDE, "--method auto", options, *output)
    said = fails(capsys, "train", features, *HIDE, "--method atuo", *output)
    assert "unknown method 'atuo'. Did you mean auto?" in said
    assert "random weights" in fails(capsys, "train digits --data.observe single --method auto", *output)
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    photos, weights = make_photos(folder / "photos", 16), make_weights(folder / "tiny.safetensors")
    options = "--method auto --model.frozen no --epochs 2 --threads 1 --data.workers 0 --model.backbone"
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        execute("train", photos, options, BACKBONE, "--model.weights", weights, "--output", folder / "run")
    assert "no effect" not in said.getvalue()
    return folder / "run"


@pytest.mark.long
def test_fine_tuning_is_kept_only_if_its_score_is_higher(tuned):
    summary = summary_of(tuned)
    scores = {part["run"]: part["val/SP"] for part in summary["candidates"]}
    kept = [part["run"] for part in summary["candidates"] if part["kept"]]
    ahead = scores["fine-tuned"] > scores["head"]
    assert (summary["lead_z"] is not None) == ahead
    assert kept == ["fine-tuned" if ahead and summary["lead_z"] > 2.5 else "head"]
    for name in ("model.safetensors", "thresholds.json"):
        assert (tuned / name).read_bytes() == (tuned / kept[0] / name).read_bytes()
    whole, part = (held_out.read_held_out(folder) for folder in (tuned, tuned / kept[0]))
    assert (whole.ids, whole.scores.gather().tolist()) == (part.ids, part.scores.gather().tolist())
    assert spml.load(tuned).identity != spml.load(tuned / kept[0]).identity
    for name, score in scores.items():
        assert summary_of(tuned / name)["validation"]["val/SP"] == score
    assert read_yaml(tuned / "fine-tuned" / "config.yaml").method == "gr"
    assert read_yaml(tuned / "fine-tuned" / "config.yaml").epochs == 2
    assert read_yaml(tuned / "fine-tuned" / "config.yaml").init_from == str(tuned / "head")
    config = read_yaml(tuned / "config.yaml")
    assert (config.method, config.model.frozen) == ("auto", "no")
    assert list((tuned / "features").iterdir())  # where `spml predict` looks for them
    assert spml.load(tuned).decision().threshold == spml.load(tuned).thresholds.logits


def test_a_finished_part_is_not_made_again(tuned, capsys):
    before = (tuned / "head" / "summary.json").stat().st_mtime_ns
    (tuned / "summary.json").unlink()
    execute("train --output", tuned, "--resume")
    assert (tuned / "head" / "summary.json").stat().st_mtime_ns == before
    assert summary_of(tuned)["candidates"]


def test_known_labels_are_those_of_the_rows_in_their_order():
    generator = np.random.default_rng(0)
    ternary = generator.integers(-1, 2, (9, 3)).astype(np.int8)
    parts = [
        Samples(tuple(map(str, range(len(part)))), FeatureMatrix(np.zeros((len(part), 1))), labels)
        for part in (ternary[:6], ternary[6:])
        for labels in [ObservedLabels.from_ternary(part)]
    ]
    judge = solve.HeldOutJudge(lambda scores: {}, *parts, mean_labels=2)
    for rows in (np.array([7, 0, 8, 3]), np.array([2, 1]), np.array([6, 8])):
        assert (judge.ternary(rows) == ternary[rows]).all()
        assert judge.ternary(rows) is judge.ternary(rows)
    rows = np.array([1, 8, 4])
    assert (judge.ternary(rows, np.array([0, 2])) == ternary[rows][:, [0, 2]]).all()


@pytest.mark.parametrize(("gain", "kept"), [(0.0, "head"), (0.1, "head"), (1.0, "fine-tuned")])
@pytest.mark.parametrize("own_left_out", [False, True])
def test_a_small_lead_is_not_trusted(tmp_path, gain, kept, own_left_out):
    generator = np.random.default_rng(0)
    index = generator.integers(0, 4, 200)
    labels, base = ObservedLabels.from_index(index, 4), generator.normal(size=(200, 4)) + np.eye(4)[index]
    better = base + gain * np.eye(4)[index] + 0.3 * generator.normal(size=(200, 4))

    def train(part, **how):
        own = tmp_path / "run" / ("head" if part.method == "auto" else "fine-tuned")
        own.mkdir()
        scores = (base if part.method == "auto" else better).astype(np.float32)
        rows = np.arange(200)
        if part.method == "auto":  # in another order, with a training sample
            rows = np.append(generator.permutation(200), 0)
        ids = (*(f"{row}.png" for row in rows[:200]), *["training.png"] * (len(rows) - 200))
        kept = held_out.HeldOut(ids, InMemory(scores[rows]), labels.take(rows))
        if part.method == "auto" and own_left_out:
            lowered = kept.scores.gather() - 9 * kept.labels.to_ternary()
            kept = kept._replace(scores=InMemory(lowered), compared=kept.scores)
        held_out.write_held_out(own, kept, tuple("abcd"))
        summary = {
            "selected": {"metric": "val/SP", "mean_labels": 1.0},
            "threshold": {"source": "stated"},
            "validation": {"val/SP": sp_score(scores, index, 1.0).score},
            "test": None,
            "data": {"fingerprint": "of all samples", "observed": {"train": "single-positive"}},
            "metrics_sha256": "",
        }
        (own / "summary.json").write_text(json.dumps(summary))

    config = from_dict({"method": "auto", "model": {"frozen": "no"}, "output": str(tmp_path / "run")})
    fine_tune.fine_tune(config, tuple("abcd"), resume=False, train=train, pictures=False)
    summary = summary_of(tmp_path / "run")
    assert [part["run"] for part in summary["candidates"] if part["kept"]] == [kept]
    if gain == 0.1:  # ahead, but not far enough
        assert 0 < summary["lead_z"] < 2.5


def test_two_runs_are_made_on_one_device(tmp_path):
    output = str(tmp_path / "run")
    config = from_dict({"method": "auto", "model": {"frozen": "no"}, "devices": 2, "output": output})
    with pytest.raises(InputError, match="on one device only, but `devices` is 2"):
        fine_tune.fine_tune(config, (), resume=False, train=None, pictures=False)
    assert not (tmp_path / "run").exists()
