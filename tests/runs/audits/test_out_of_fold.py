"""Models fitted again without a part of the training samples."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import spml
from spml.common.errors import InputError
from spml.common.files import sha256_file, write_checked_json
from spml.labels import ObservedLabels
from spml.runs.audits import out_of_fold
from spml.runs.audits.out_of_fold import open_for_run, score_samples, settings_of_model
from spml.runs.fit.fine_tune import HEAD, TUNED
from spml.runs.folder.held_out import read_held_out, write_held_out
from spml.runs.folder.layout import identity_in
from spml.runs.predict.batches import Engine
from spml.runs.settle.resolve import Opened, resolve
from tests.helpers.features import BACKBONE, make_weights
from tests.helpers.photos import make_photos

HIDDEN = {"unlisted": "negative", "observe": "single"}
AUTO = {"method": "auto"}


@pytest.fixture(scope="module")
def train(features, auto_run, tmp_path_factory):
    """Copies a run with some settings, which is trained once, and opens its data."""
    folder = tmp_path_factory.mktemp("runs")

    def make(**settings):
        whole = auto_run if settings == AUTO else folder / re.sub(r"\W+", "-", json.dumps(settings))
        if not whole.exists():
            common = {"data": HIDDEN, "threads": 1, "mean_labels": 2.0, "quiet": True}
            spml.train(features, output=whole, **common, **settings)
        trained = spml.load(shutil.copytree(whole, tmp_path_factory.mktemp("copies") / "run"))
        return trained, open_for_run(trained, trained.settings.data)

    return make


def solved_head(trained, data):
    run = resolve(trained.settings, Opened(data, trained.spec))
    return out_of_fold.SolvedHead(run, trained.folder, trained.classifier.backbone)


def test_parts_have_whole_groups():
    generator = np.random.default_rng(0)
    observed, groups = (
        ObservedLabels.from_index(generator.integers(0, 5, 200), 5),
        generator.integers(0, 40, 200),
    )
    parts = out_of_fold.draw_folds(observed, 5, seed=3, groups=groups)
    assert all(len({*parts[groups == group].tolist()}) == 1 for group in range(40))
    assert np.ptp(np.bincount(parts)) <= 4
    alone = out_of_fold.draw_folds(observed, 5, seed=3, groups=np.arange(200))
    assert (alone == out_of_fold.draw_folds(observed, 5, seed=3)).all()


def test_parts_have_the_same_share_of_every_class():
    generator = np.random.default_rng(0)
    index = generator.choice(5, 203, p=[0.5, 0.3, 0.1, 0.06, 0.04])
    parts = out_of_fold.draw_folds(ObservedLabels.from_index(index, 5), 5, seed=3)
    assert sorted(np.bincount(parts)) == [40, 40, 41, 41, 41]
    for column in range(5):
        counts = np.bincount(parts[index == column], minlength=5)
        assert counts.max() - counts.min() <= 1
    other = out_of_fold.draw_folds(ObservedLabels.from_index(index, 5), 5, seed=4)
    assert (parts != other).any()


def test_a_sample_with_several_labels_counts_for_the_rarest():
    matrix = np.zeros((40, 3), np.int8)
    matrix[:, 0] = 1
    matrix[:8, 1] = 1
    matrix[20:24, 2] = 1
    parts = out_of_fold.draw_folds(ObservedLabels.from_ternary(matrix), 4, seed=0)
    assert np.bincount(parts[:8]).tolist() == [2, 2, 2, 2]
    assert np.bincount(parts[20:24]).tolist() == [1, 1, 1, 1]


def test_a_part_has_no_other_splits_and_no_true_labels(train):
    _, data = train(model={"head": "ridge"})
    part = out_of_fold.without(data, np.arange(160) % 3 == 0)
    assert (set(part.splits), part.truth) == ({"train", "val"}, {})


def test_ridge_is_solved_on_the_other_samples_with_the_penalty_of_the_run(train):
    trained, data = train(model={"head": "ridge", "scaling": "standard"})
    # Not the one that the run has chosen, but one that makes a difference.
    penalty = json.loads((trained.folder / "metrics.jsonl").read_text().splitlines()[6])["penalty"]
    summary = out_of_fold.read_summary(trained.folder)
    summary["selected"]["penalty"] = penalty
    del summary["sha256"]
    (trained.folder / "summary.json").write_text(json.dumps(summary))
    held = np.arange(160) % 5 == 2
    found = solved_head(trained, data).score(held)["val"]
    samples = data.splits["train"]
    matrix, labels = samples.inputs.dense(range(160)).astype(np.float64), samples.observed.to_multi_hot()
    rest, shown = matrix[~held], labels[~held].astype(np.float64)
    mean, deviation = rest.mean(0), rest.std(0)
    model = Ridge(alpha=penalty * len(rest)).fit((rest - mean) / deviation, shown)
    expected = 4 * (2.0 * model.predict((matrix[held] - mean) / deviation) / shown.mean(0).sum() - 0.5)
    np.testing.assert_allclose(found, expected, atol=2e-4)


@pytest.mark.long
def test_the_validation_samples_are_scored_as_in_training(train):
    for settings in ({"model": {"head": "lda"}}, AUTO):
        trained, data = train(**settings)
        kept = read_held_out(trained.folder)
        row = {name: number for number, name in enumerate(kept.ids)}
        expected = kept.scores.array[[row[name] for name in data.splits["val"].ids]]
        scores = solved_head(trained, data).score()
        np.testing.assert_allclose(scores["val"], expected, atol=1e-4)
        predicted = trained.logits(data.splits["test"], Engine())
        np.testing.assert_allclose(scores["test"], predicted, atol=1e-4)


def test_one_cross_validation_scores_all_samples_of_an_auto_head(train, monkeypatch):
    trained, data = train(**AUTO)  # of so few samples, training has cross-validated, too
    kept = read_held_out(trained.folder)
    monkeypatch.setattr("spml.runs.fit.solve.models.FEW", 0)
    found = solved_head(trained, data).score_every()
    ids = [name for split in ("train", "val") for name in data.splits[split].ids]
    row = {name: number for number, name in enumerate(kept.ids)}
    expected = kept.scores.array[[row[name] for name in ids]]
    scores = np.concatenate([found["train"].array, found["val"].array])
    np.testing.assert_allclose(scores, expected, atol=1e-4)
    ridge, data = train(model={"head": "ridge"})
    assert solved_head(ridge, data).score_every() is None


@pytest.mark.long
@pytest.mark.parametrize(
    "settings", [{"model": {"head": "lda"}}, {"method": "softmax", "optim": {"name": "lbfgs"}}]
)
def test_the_labels_of_the_part_change_nothing(train, settings):
    trained, data = train(**settings)
    held = np.arange(160) < 32
    before = solved_head(trained, data).score(held)["val"]
    train_part = data.splits["train"]
    other = train_part.observed.index.copy()
    other[:32] = (other[:32] + 1) % 4
    changed = replace(train_part, observed=ObservedLabels.from_index(other, 4))
    data = replace(data, splits={**data.splits, "train": changed})
    np.testing.assert_allclose(solved_head(trained, data).score(held)["val"], before, atol=1e-5)


def fold_scores(trained, data, folder, parts, overwrite=False, **changes):
    config = replace(trained.settings, **changes)
    folds = out_of_fold.train_folds(config, data, trained.spec, parts, folder, overwrite=overwrite)
    return list(folds)


def test_a_model_is_trained_without_each_part(train, tmp_path, monkeypatch):
    trained, data = train(method="gr", epochs=2, batch_size=32)
    parts = np.arange(160) % 2
    found = fold_scores(trained, data, tmp_path, parts)
    assert [held.sum() for held, _ in found] == [80, 80]
    ids = np.asarray(data.splits["train"].ids)
    for number, (held, scores) in enumerate(found):
        np.testing.assert_array_equal(held, parts == number)
        own = tmp_path / f"fold-{number + 1}-of-2"
        kept = read_held_out(own)
        assert kept.ids == tuple(ids[held])
        np.testing.assert_array_equal(kept.scores, scores)
        summary = json.loads((own / "summary.json").read_text())
        assert summary["data"]["samples"] == {"train": 80, "val": 80}
    # What is finished is not trained again.
    monkeypatch.setattr(out_of_fold, "run_training", pytest.fail)
    for (held, scores), (again, same) in zip(found, fold_scores(trained, data, tmp_path, parts), strict=True):
        np.testing.assert_array_equal(held, again)
        np.testing.assert_array_equal(scores, same)


def test_an_interrupted_training_goes_on(train, tmp_path, monkeypatch):
    trained, data = train(method="gr", epochs=2, batch_size=32)
    parts = np.arange(160) % 2
    whole = fold_scores(trained, data, tmp_path / "whole", parts)
    run, calls = out_of_fold.run_training, []

    def interrupted(config, **options):
        calls.append((config.output[-11:], options["resume"]))
        folder = run(config, **options)
        if len(calls) == 2:
            (folder / "summary.json").unlink()
            raise KeyboardInterrupt
        return folder

    monkeypatch.setattr(out_of_fold, "run_training", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fold_scores(trained, data, tmp_path / "killed", parts)
    found = fold_scores(trained, data, tmp_path / "killed", parts)
    assert calls == [("fold-1-of-2", False), ("fold-2-of-2", False), ("fold-2-of-2", True)]
    for (_, scores), (_, expected) in zip(found, whole, strict=True):
        np.testing.assert_allclose(scores, expected, atol=1e-6)


def test_a_training_with_other_settings_is_replaced_on_request_only(train, tmp_path):
    trained, data = train(method="gr", epochs=1, batch_size=32)
    parts = np.arange(160) % 2
    fold_scores(trained, data, tmp_path, parts)
    with pytest.raises(InputError, match="other settings or data"):
        fold_scores(trained, data, tmp_path, parts, epochs=2)
    fold_scores(trained, data, tmp_path, parts, epochs=2, overwrite=True)
    assert len((tmp_path / "fold-2-of-2" / "metrics.jsonl").read_text().splitlines()) == 2


@pytest.mark.long
def test_the_network_scores_where_the_run_has_kept_the_network(tmp_path_factory, tmp_path):
    """A part may have kept the head, whose scores are on another scale."""
    folder = tmp_path_factory.mktemp("photos")
    photos, weights = make_photos(folder / "photos", per_class=12), make_weights(folder / "tiny.safetensors")
    settings = {
        "method": "auto", "epochs": 1, "batch_size": 12, "threads": 1, "mean_labels": 1.4,
        "model": {"backbone": BACKBONE, "weights": str(weights), "frozen": "no"}, "data": {"workers": 0},
    }  # fmt: skip
    run = folder / "run"
    spml.train(photos, output=str(run), quiet=True, **settings)
    assert settings_of_model(spml.load(run)).output == str(run / HEAD)
    summary = json.loads((run / "summary.json").read_text())
    del summary["sha256"]
    for candidate in summary["candidates"]:
        candidate["kept"] = candidate["run"] == TUNED
    (run / "summary.json").write_text(json.dumps(summary))
    for name in ("model.safetensors", "thresholds.json"):
        shutil.copy(run / TUNED / name, run / name)
    card = json.loads((run / TUNED / "model.json").read_text())
    del card["sha256"]
    (run / "model.json").write_text(json.dumps({**card, "run": identity_in(run)}))
    write_held_out(run, read_held_out(run / TUNED), tuple(card["classes"]))
    trained = spml.load(run)
    assert settings_of_model(trained).output == str(run)
    data = open_for_run(trained, trained.settings.data)
    found = score_samples(
        trained, data, trained.settings.data, folds=2, folder=tmp_path, overwrite=False,
        engine=Engine(workers=0),
    )  # fmt: skip
    row = {name: number for number, name in enumerate(found.ids)}
    for number in (1, 2):
        kept = read_held_out(tmp_path / f"fold-{number}-of-2" / TUNED)
        np.testing.assert_array_equal(found.scores.array[[row[name] for name in kept.ids]], kept.scores)
    assert found.how.startswith("2 trainings")


def test_a_run_that_does_not_say_its_penalty_is_refused(train):
    trained, data = train(model={"head": "ridge"})
    (trained.folder / "metrics.jsonl").write_text('{"penalty": 7}\n')
    summary = out_of_fold.read_summary(trained.folder)
    summary["metrics_sha256"] = sha256_file(trained.folder / "metrics.jsonl")
    write_checked_json(trained.folder / "summary.json", summary)
    with pytest.raises(InputError, match="which penalty the run chose"):
        solved_head(trained, data)
