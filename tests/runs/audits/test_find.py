"""Audits of data sets with runs: out-of-fold scores, and the folder that is written."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import spml
from spml.audit import HiddenLabels
from spml.audit.folder import fingerprint, read_audit, read_observed
from spml.common.errors import InputError
from spml.config import DataConfig
from spml.decisions import Calibration, MeanLabels, priors_from_shares
from spml.labels import ObservedLabels
from spml.runs.audits import out_of_fold
from spml.runs.audits.find import Limits, run_audit
from spml.runs.audits.out_of_fold import open_for_run, score_samples
from spml.runs.folder.held_out import read_held_out
from spml.runs.predict.batches import Engine
from tests.helpers.features import arrays_of, copy_features
from tests.helpers.records import read_rows

ENGINE = Engine()
HIDDEN = {"unlisted": "negative", "observe": "single"}


def make_run(features, folder, data=HIDDEN, **settings):
    spml.train(
        features, data=data, threads=1, output=str(folder), quiet=True, **{"mean_labels": 2.0, **settings}
    )
    return folder


@pytest.fixture(scope="module")
def ridge(features, tmp_path_factory):
    return make_run(features, tmp_path_factory.mktemp("runs") / "ridge", model={"head": "ridge"})


@pytest.fixture(scope="module")
def network(features, tmp_path_factory):
    return make_run(features, tmp_path_factory.mktemp("runs") / "gr", method="gr", epochs=2, batch_size=32)


def scored(run, folder, config=None, folds=None, overwrite=False):
    trained = spml.load(run)
    config = config or trained.settings.data
    data = open_for_run(trained, config)
    found = score_samples(
        trained, data, config, folds=folds, folder=folder, overwrite=overwrite, engine=ENGINE
    )
    return trained, data, found


def part_of(found, data, name):
    first = 0
    for split, samples in data.splits.items():
        if split == name:
            return found.scores.array[first : first + len(samples)]
        first += len(samples)
    raise AssertionError(name)


# -- scores ----------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_solved_head_scores_every_training_sample_without_having_learned_from_it(ridge, tmp_path):
    trained, data, found = scored(ridge, tmp_path)
    assert found.ids == tuple(name for samples in data.splits.values() for name in samples.ids)
    parts = out_of_fold.draw_folds(data.splits["train"].observed, 5, seed=0)
    run = out_of_fold.resolve(trained.settings, out_of_fold.Opened(data, trained.spec))
    head = out_of_fold.SolvedHead(run, ridge, trained.classifier.backbone)
    np.testing.assert_allclose(
        part_of(found, data, "train")[parts == 3], head.score(parts == 3)["val"], atol=1e-5
    )
    in_sample = trained.logits(data.splits["train"], ENGINE)
    assert np.abs(part_of(found, data, "train") - in_sample).max() > 0.05
    for name in ("val", "test"):
        np.testing.assert_allclose(
            part_of(found, data, name), trained.logits(data.splits[name], ENGINE), atol=1e-5
        )
    assert found.how.startswith("5 solutions of ridge")
    assert found.warnings == ()
    assert not list(tmp_path.iterdir())
    labels = np.concatenate([part.observed.to_ternary() for part in data.splits.values()])
    assert found.labels == ObservedLabels.from_ternary(labels)


@pytest.mark.long
def test_scores_that_the_run_has_kept_are_not_computed_again(auto_run, tmp_path, monkeypatch):
    monkeypatch.setattr(out_of_fold, "SolvedHead", pytest.fail)
    trained, data, found = scored(auto_run, tmp_path)
    kept = read_held_out(auto_run)
    row = {name: number for number, name in enumerate(found.ids)}
    assert len(kept.ids) == 220
    np.testing.assert_array_equal(found.scores.array[[row[name] for name in kept.ids]], kept.scores)
    final = trained.logits(data.splits["train"], ENGINE)
    assert np.abs(part_of(found, data, "train") - final).max() > 0.05
    assert found.how == f"held-out scores of {auto_run}"


@pytest.mark.long
def test_an_auto_head_without_kept_scores_is_solved_again(auto_run, tmp_path):
    run = shutil.copytree(auto_run, tmp_path / "run")
    (run / "held_out.safetensors").unlink()
    _, data, found = scored(run, tmp_path)
    kept = read_held_out(auto_run)
    row = {name: number for number, name in enumerate(kept.ids)}
    expected = kept.scores.array[[row[name] for name in data.splits["val"].ids]]
    np.testing.assert_allclose(part_of(found, data, "val"), expected, atol=1e-4)
    train = kept.scores.array[[row[name] for name in data.splits["train"].ids]]
    # Other folds, but the same scale.
    assert np.corrcoef(part_of(found, data, "train").ravel(), train.ravel())[0, 1] > 0.95


def test_folds_can_be_left_out(ridge, tmp_path):
    trained, data, found = scored(ridge, tmp_path, folds=0)
    np.testing.assert_allclose(
        part_of(found, data, "train"), trained.logits(data.splits["train"], ENGINE), atol=1e-5
    )
    assert "160 samples may be scored by a model that was fitted to them" in found.warnings[0]
    assert "folds=5" in found.warnings[0]


@pytest.mark.parametrize(
    ("folds", "message"), [(1, "0 or at least 2"), (-2, "0 or at least 2"), (81, "too many")]
)
def test_an_impossible_number_of_folds_is_refused(ridge, tmp_path, folds, message):
    with pytest.raises(InputError, match=message):
        scored(ridge, tmp_path, folds=folds)


@pytest.mark.long
def test_a_network_is_trained_again_only_if_asked_to(network, tmp_path):
    trained, data, plain = scored(network, tmp_path)
    logits = {name: trained.logits(samples, ENGINE) for name, samples in data.splits.items()}
    np.testing.assert_allclose(plain.scores, np.concatenate(list(logits.values())), atol=1e-5)
    assert "160 samples may be scored" in plain.warnings[0]
    _, _, found = scored(network, tmp_path, folds=2)
    assert found.warnings == ()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fold-1-of-2", "fold-2-of-2"]
    for number in (1, 2):
        kept = read_held_out(tmp_path / f"fold-{number}-of-2")
        row = {name: position for position, name in enumerate(found.ids)}
        np.testing.assert_array_equal(found.scores.array[[row[name] for name in kept.ids]], kept.scores)
        config = (tmp_path / f"fold-{number}-of-2" / "config.yaml").read_text()
        assert "method: gr" in config
    for name in ("val", "test"):
        np.testing.assert_allclose(part_of(found, data, name), logits[name], atol=1e-5)


def shifted(features, path, **changed):
    """Copy of a feature file with other samples, and some other arrays."""
    return copy_features(features, path, X=arrays_of(features)["X"] + np.float32(0.01), **changed)


def test_samples_that_the_run_never_saw_are_simply_predicted(features, ridge, tmp_path, monkeypatch):
    monkeypatch.setattr(out_of_fold, "SolvedHead", pytest.fail)
    config = DataConfig(path=str(shifted(features, tmp_path / "new.npz")), **HIDDEN)
    trained, data, found = scored(ridge, tmp_path / "audit", config)
    expected = [trained.logits(samples, ENGINE) for samples in data.splits.values()]
    np.testing.assert_allclose(found.scores, np.concatenate(expected), atol=1e-5)
    assert "has seen none of the samples" in found.how


def test_new_labels_of_known_samples_count_and_everything_is_fitted_again(features, ridge, tmp_path):
    arrays = arrays_of(features)
    labels, matrix = arrays["Y"], arrays["X"]
    labels[:5] = 1
    labels[5:100] = np.eye(4, dtype=labels.dtype)[labels[5:100].argmax(1)]
    matrix[200:] += 0.01
    path = copy_features(features, tmp_path / "new.npz", X=matrix, Y=labels)
    config = DataConfig(path=str(path), unlisted="unknown")
    _, data, found = scored(ridge, tmp_path / "audit", config)
    assert found.how.startswith("5 solutions of ridge")
    assert (found.labels.to_ternary()[:5] == 1).all()
    # The head is solved on the labels of the new file, of which many more are known.
    assert part_of(found, data, "val").std() != pytest.approx(
        part_of(scored(ridge, tmp_path)[2], data, "val").std(), rel=0.05
    )


def test_training_data_that_has_gone_may_contain_any_sample(features, tmp_path):
    path = copy_features(features, tmp_path / "old.npz")
    run = make_run(path, tmp_path / "run", method="gr", epochs=1)
    path.unlink()
    new = DataConfig(path=str(shifted(features, tmp_path / "new.npz")), **HIDDEN)
    _, _, found = scored(run, tmp_path / "audit", new)
    assert "300 samples may be scored" in found.warnings[0]


def test_classes_in_another_order_keep_their_scores(features, ridge, tmp_path):
    turned = {"Y": arrays_of(features)["Y"][:, ::-1], "classes": list("dcba")}
    path = shifted(features, tmp_path / "new.npz", **turned)
    trained, data, found = scored(ridge, tmp_path / "audit", DataConfig(path=str(path), **HIDDEN))
    assert data.classes == ("d", "c", "b", "a")
    expected = trained.logits(data.splits["train"], ENGINE)
    np.testing.assert_allclose(part_of(found, data, "train"), expected[:, ::-1], atol=1e-5)


# -- the folder ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def audited(ridge, tmp_path_factory):
    folder = tmp_path_factory.mktemp("audits") / "audit"
    audit, health = run_audit(ridge, {}, output=folder, limits=Limits(50), engine=ENGINE)
    return folder, audit, health


def test_the_folder_holds_what_was_found(ridge, features, audited, tmp_path):
    folder, audit, health = audited
    back = read_audit(folder)
    assert back.about == audit.about
    assert back.missing == audit.missing
    assert back.wrong == audit.wrong
    assert back.classes == audit.classes
    _, data, found = scored(ridge, tmp_path)
    hidden = HiddenLabels(
        found.labels, found.scores, priors_from_shares(found.labels.positives_per_class(), 2.0)
    )
    ranked = hidden.rank(top=50)
    names = found.labels.to_names(data.classes)
    for row, column, probability, rank, _, line in zip(*ranked, back.missing, strict=False):
        assert (line.file, line.label, line.rank) == (found.ids[row], data.classes[column], rank)
        assert line.probability == pytest.approx(probability, abs=1e-4)
        assert line.given == "|".join(names[row])
    about = back.about
    assert (about.listed, about.samples, about.unknown) == (50, 300, 900)
    assert about.expected == pytest.approx(ranked.probability.sum(), abs=1e-2)
    assert about.hidden == pytest.approx(health["expected_hidden"])
    assert (about.mean_labels, about.mean_labels_source) == (2.0, "stated")
    assert about.run == str(ridge.absolute())
    records = read_observed(about.config)
    assert about.fingerprint == fingerprint(records.ids, records.classes, records.labels)
    assert about.warnings == tuple(health["warnings"])
    assert [each.label for each in back.classes] == list("abcd")
    assert sum(each.known for each in back.classes) == 300
    assert (folder / "audit.png").read_bytes().startswith(b"\x89PNG")


def test_the_list_is_mostly_right(features, audited):
    """The features tell the classes, so that the first labels of the list are hidden positives."""
    _, audit, _ = audited
    truth = arrays_of(features)["Y"]
    ids = {name: row for row, name in enumerate(read_observed(audit.about.config).ids)}
    right = [truth[ids[line.file], "abcd".index(line.label)] for line in audit.missing]
    assert np.mean(right) > 0.9
    assert abs(audit.about.expected - np.sum(right)) < 10


def test_the_limits_of_the_list(ridge, audited, tmp_path):
    audit, _ = run_audit(ridge, {}, output=tmp_path / "audit", limits=Limits(0, 6, 0.3), engine=ENGINE)
    assert len(read_rows(tmp_path / "audit" / "missing.csv")) == audit.about.listed
    assert min(row.probability for row in audit.missing) >= 0.3
    assert max(row.rank_in_class for row in audit.missing) == 6


def test_an_audit_is_replaced_on_request_only(ridge, audited):
    folder, _, _ = audited
    before = (folder / "audit.json").read_bytes()
    with pytest.raises(InputError, match="already holds an audit"):
        run_audit(ridge, {}, output=folder, engine=ENGINE)
    run_audit(ridge, {}, output=folder, limits=Limits(50), overwrite=True, engine=ENGINE)
    assert json.loads((folder / "audit.json").read_text())["listed"] == json.loads(before)["listed"]


def test_k_must_be_known(features, tmp_path):
    run = make_run(features, tmp_path / "run", model={"head": "mean_difference"}, mean_labels=None)
    with pytest.raises(InputError, match=r"mean_labels=K.*spml audit sample"):
        run_audit(run, {}, output=tmp_path / "audit", engine=ENGINE)
    assert not (tmp_path / "audit").exists()
    audit, _ = run_audit(run, {}, output=tmp_path / "audit", mean_labels=1.6, engine=ENGINE)
    assert (audit.about.mean_labels, audit.about.mean_labels_source) == (1.6, "stated")


def test_k_priors_and_probabilities_come_from_fully_labelled_samples(features, ridge, tmp_path, monkeypatch):
    shares = np.asarray([0.7, 0.5, 0.3, 0.1])
    calibration = Calibration(np.asarray([-2.0, 2.0]), np.asarray([0.1, 0.6]), np.asarray([0.05, 0.4]))

    class Policy:
        mean_labels = MeanLabels(1.7, "audit")
        priors = priors_from_shares([7, 5, 3, 1], 1.6, "audit")._replace(
            shares=shares, mean_labels=1.7, gamma=0.6
        )
        calibrated = calibration

    monkeypatch.setattr(spml.runs.run.Run, "thresholds", Policy())
    audit, health = run_audit(ridge, {}, output=tmp_path, limits=Limits(20), engine=ENGINE)
    assert (audit.about.mean_labels, audit.about.mean_labels_source) == (1.7, "audit")
    assert [each.prior for each in audit.classes] == shares.tolist()
    assert any("gamma 0.60" in line for line in health["warnings"])
    _, _, found = scored(ridge, tmp_path)
    hidden = HiddenLabels(found.labels, found.scores, Policy.priors, calibration)
    assert audit.about.hidden == pytest.approx(hidden.per_class.sum(), rel=1e-3)
    turned = {"Y": arrays_of(features)["Y"][:, ::-1], "classes": list("dcba")}
    data = {"path": str(shifted(features, tmp_path / "turned.npz", **turned)), **HIDDEN}
    audit, _ = run_audit(ridge, data, output=tmp_path / "turned", limits=Limits(20), engine=ENGINE)
    assert {each.label: each.prior for each in audit.classes} == dict(zip("abcd", shares, strict=True))


@pytest.mark.parametrize(
    ("change", "settings", "message"),
    [
        ({"classes": [*"abce"]}, {}, "has the class 'e'"),
        ({"X": np.zeros((300, 9), np.float32)}, {}, "takes 10 features per sample, but the data has 9"),
        ({}, {"observe": "none"}, "every label is known"),
        ({}, {"path": "nowhere.npz"}, "no such file"),
    ],
)
def test_data_that_does_not_suit_is_named(features, ridge, tmp_path, change, settings, message):
    path = copy_features(features, tmp_path / "new.npz", **change)
    with pytest.raises(InputError, match=message):
        run_audit(ridge, {"path": str(path), **settings}, output=tmp_path / "audit", engine=ENGINE)
    assert not (tmp_path / "audit").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mean_labels": 9.0}, "between 0 and the 4 classes"),
        ({"mean_labels": 1.0}, "no label is missing"),
        ({"limits": Limits(-1)}, "top"),
        ({"limits": Limits(0, 0, 2.0)}, "min_probability"),
    ],
)
def test_arguments_that_do_not_suit_are_named(ridge, tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        run_audit(ridge, {}, output=tmp_path / "audit", engine=ENGINE, **options)


def test_a_folder_without_a_finished_run_is_named(ridge, tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        run_audit(tmp_path / "none", {}, output=tmp_path / "audit", engine=ENGINE)
    run = shutil.copytree(ridge, tmp_path / "run")
    (run / "config.yaml").unlink()
    with pytest.raises(InputError, match=r"config\.yaml: is missing"):
        run_audit(run, {}, output=tmp_path / "audit", engine=ENGINE)
