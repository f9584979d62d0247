"""`SinglePositiveClassifier`: fitting, predictions, scores, and wrong input."""

from __future__ import annotations

import inspect
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import save_model
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import average_precision_score

import spml
from spml import metrics
from spml.common.errors import InputError
from spml.config import Config
from spml.sklearn import SinglePositiveClassifier
from tests.estimator.samples import WORDS, make_samples, ridge
from tests.helpers.photos import make_photos

X, FULL, ONE = make_samples()
NEW_X, NEW_FULL, NEW_ONE = make_samples(60, seed=1)


@pytest.fixture(scope="module")
def fitted():
    return ridge(mean_labels=1.6).fit(X, WORDS[ONE])


def test_defaults_are_those_of_the_program():
    parameters = inspect.signature(SinglePositiveClassifier).parameters
    config = Config()
    expected = {
        **{name: getattr(config.model, name) for name in ("head", "backbone", "weights", "frozen")},
        **{name: getattr(config, name) for name in ("epochs", "batch_size", "mean_labels")},
        **{"lr": config.optim.lr, "random_state": config.seed, "device": config.accelerator},
        "unlisted": config.data.unlisted,
    }
    assert {name: parameters[name].default for name in expected} == expected


def test_the_model_is_that_of_train(fitted, tmp_path):
    run = spml.train(X, WORDS[ONE], head="ridge", mean_labels=1.6, quiet=True, output=tmp_path / "run")
    predictions = run.predict(NEW_X)
    assert fitted.classes_.tolist() == list(run.classes) == ["beach", "dog", "sea"]
    np.testing.assert_array_equal(fitted.predict_proba(NEW_X), predictions.probabilities)
    logits = fitted.decision_function(NEW_X)
    np.testing.assert_allclose(torch.sigmoid(torch.from_numpy(logits)).numpy(), predictions.scores, rtol=1e-6)
    labels = fitted.predict(NEW_X)
    assert (labels.dtype, labels.shape) == (np.int64, (60, 3))
    names = [{*row} for row in predictions.labels]
    assert [{*fitted.classes_[row == 1]} for row in labels] == names
    assert (labels.sum(1) > 1).any()
    assert fitted.summary_["selected"] == run.summary["selected"]


def test_every_label_is_predicted_from_one_of_each_sample(fitted):
    labels = fitted.predict(NEW_X)
    assert (labels == NEW_FULL).mean() > 0.75
    assert labels[NEW_FULL == 1].mean() > 0.75


def test_two_classes_have_two_columns():
    classifier = ridge().fit(X, ONE == 0)
    assert classifier.classes_.tolist() == [False, True]
    for method in (classifier.predict, classifier.predict_proba):
        assert method(X).shape == (90, 2)
    named = ridge().fit(X, WORDS[ONE % 2])
    assert named.decision_function(X).shape == (90, 2)


@pytest.mark.long
def test_a_network_can_be_fine_tuned_from_solved_heads(tmp_path):
    torch.manual_seed(0)
    save_model(timm.create_model("test_efficientnet", pretrained=False), tmp_path / "weights.safetensors")
    photos = sorted(make_photos(tmp_path / "photos", per_class=6).glob("*/*.png"))
    classifier = SinglePositiveClassifier(
        backbone="test_efficientnet",
        weights=tmp_path / "weights.safetensors",
        frozen="no",
        epochs=1,
        settings={"method": "auto", "data": {"size": 32}, "threads": 1},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        classifier.fit(photos, [path.parent.name for path in photos])
    assert [entry["run"] for entry in classifier.summary_["candidates"]] == ["head", "fine-tuned"]
    assert classifier.predict(photos[:2]).shape == (2, 3)


def test_without_a_method_heads_of_features_are_solved():
    assert SinglePositiveClassifier().fit(X, ONE).summary_["method"] == "auto"
    assert SinglePositiveClassifier(head="mlp", epochs=1).fit(X, ONE).summary_["method"] != "auto"


def test_scores_are_probabilities_only_where_k_is_known():
    logits = (classifier := ridge().fit(X, ONE)).decision_function(NEW_X)
    sigmoid = torch.sigmoid(torch.from_numpy(logits)).numpy()
    np.testing.assert_allclose(classifier.predict_proba(NEW_X), sigmoid, rtol=1e-6)


@pytest.mark.parametrize("form", [list, csr_matrix, torch.from_numpy, np.float32])
def test_features_have_many_forms(form, fitted):
    same = ridge(mean_labels=1.6).fit(form(X), WORDS[ONE])
    np.testing.assert_allclose(
        same.decision_function(form(NEW_X)), fitted.decision_function(NEW_X), atol=1e-4
    )


def test_names_of_features_are_kept_and_compared():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    names = [f"f{k}" for k in range(6)]
    frame = pandas.DataFrame(X, columns=names, index=np.arange(90) + 500)
    classifier = ridge().fit(frame, pandas.Series(WORDS[ONE]))
    assert (classifier.n_features_in_, classifier.feature_names_in_.tolist()) == (6, names)
    with pytest.raises(ValueError, match="feature names should match"):
        classifier.predict(frame.rename(columns={"f0": "other"}))
    matrix = pandas.DataFrame(FULL, columns=WORDS)
    assert ridge().fit(X, matrix).classes_.tolist() == list(WORDS)


def test_score_depends_on_what_is_known(fitted):
    logits = fitted.decision_function(NEW_X)
    assert fitted.score(NEW_X, WORDS[NEW_ONE]) == metrics.sp_score(logits, NEW_ONE, 1.6).score
    assert fitted.score(NEW_X, NEW_FULL) == metrics.sp_score(logits, NEW_FULL.astype(np.int8), 1.6).score
    full = average_precision_score(NEW_FULL, logits)
    assert fitted.score(NEW_X, 2 * NEW_FULL - 1) == pytest.approx(full)
    told = ridge(unlisted="negative").fit(X, FULL)
    mean = average_precision_score(NEW_FULL, told.decision_function(NEW_X))
    assert told.score(NEW_X, NEW_FULL) == pytest.approx(mean)


def test_a_zero_means_at_scoring_what_it_meant_at_fitting():
    partial = FULL.astype(float)
    partial[::3, 0] = np.nan
    classifier = ridge().fit(X, partial)
    mean = average_precision_score(NEW_FULL, classifier.decision_function(NEW_X))
    assert classifier.score(NEW_X, NEW_FULL.astype(float)) == pytest.approx(mean)


def test_settings_reach_the_run(tmp_path):
    classifier = SinglePositiveClassifier(
        "an",
        lr=np.float64(0.1),
        epochs=np.int64(2),
        hp={},
        classes=["a", "b", "c", "d"],
        settings={"optim": {"weight_decay": 0.5}, "data": {"val_share": 0.3}},
        random_state=3,
        output=tmp_path / "run",
    )
    classifier.fit(X, np.array(list("abc"))[ONE])
    config = spml.load(tmp_path / "run").config
    assert (config.method, config.optim.lr, config.epochs, config.optim.weight_decay) == ("an", 0.1, 2, 0.5)
    assert (config.seed, config.data.split_seed, config.data.val_share) == (3, 3, 0.3)
    assert classifier.classes_.tolist() == ["a", "b", "c", "d"]
    assert classifier.predict(NEW_X).shape == (60, 4)
    assert {"curves.png", "thresholds.json"} <= {path.name for path in (tmp_path / "run").iterdir()}
    with pytest.raises(InputError, match=r"run holds a run already: name another folder, or remove it"):
        classifier.fit(X, np.array(list("abc"))[ONE])
    assert clone(classifier).get_params() == classifier.get_params()


def test_nothing_is_left_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.chdir(tmp_path)
    classifier = ridge().fit(X, ONE)
    classifier.predict(NEW_X)
    with pytest.raises(InputError):
        ridge().fit(X, np.zeros((90, 3)))
    assert [path.name for path in tmp_path.rglob("*")] == ["temporary"]


@pytest.mark.long
def test_a_setting_without_effect_is_reported():
    with pytest.warns(UserWarning, match="solved, not trained, without lr and epochs: name a method"):
        SinglePositiveClassifier(lr=0.1, epochs=3).fit(X, ONE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SinglePositiveClassifier(mean_labels=1.2).fit(X, ONE)


def test_images(tmp_path):
    photos = sorted(make_photos(tmp_path, per_class=8).glob("*/*.png"))
    y = [path.parent.name for path in photos]
    classifier = ridge().fit(X, ONE)
    settings = {"data": {"size": 24}, "threads": 1}
    classifier.set_params(head="auto", backbone="small_cnn", epochs=2, settings=settings).fit(photos, y)
    assert not hasattr(classifier, "n_features_in_")
    expected = classifier.decision_function(photos)
    images = [Image.open(path) for path in photos]
    np.testing.assert_allclose(classifier.decision_function(images), expected, atol=1e-5)
    with pytest.raises(
        InputError, match="the classifier was fitted to images or a torch Dataset, but X holds features"
    ):
        classifier.predict(X)
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no image")
    with pytest.raises(InputError, match=r"X\[1\] \(.*broken.png\): .* Leave this image out."):
        classifier.predict([photos[0], broken])
    pixels = np.stack([np.asarray(image.resize((8, 8))) for image in images])
    assert clone(classifier).fit(pixels, y).predict(pixels[:2]).shape == (2, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": X[:0], "y": ONE[:0]}, r"Found array with 0 sample\(s\)"),
        ({"X": X[0]}, "Expected 2D array, got 1D array"),
        ({"X": "photos"}, "X is the path 'photos': pass samples, such as a list of image files"),
        ({"X": [["a", "b"]] * 90}, "not compatible with arrays of bytes/strings"),
        ({"X": ["nowhere.png"] * 2, "y": [0, 1]}, "name an image once"),
        ({"X": ["nowhere.png", "b.png"], "y": [0, 1]}, "there is no file 'nowhere.png'"),
        ({"y": ONE[:-1]}, "inconsistent numbers of samples"),
        ({"y": np.zeros(90, int)}, r"y has 1 class \(0\), but at least 2 are needed"),
        ({"y": np.zeros((90, 3))}, "has a known positive label"),
        ({"method": "gf"}, "unknown method 'gf'"),
        ({"head": "lin"}, "model.head must be one of"),
        ({"lr": -1.0}, "lr must be greater than 0"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"mean_labels": 9}, "between 0 and the 3 classes"),
        ({"unlisted": "absent"}, "data.unlisted must be unknown or negative"),
        ({"settings": [1]}, r"settings must be settings by name, got \[1\]"),
        ({"settings": {"epoch": 1}}, "unknown setting 'epoch'. Did you mean epochs"),
        ({"settings": {"devices": 2}}, "settings: 'devices' starts this program several times"),
        ({"lr": np.array([1.0, 2.0])}, r"optim.lr must be a number, got \[1.0, 2.0\]"),
        ({"settings": {"data": 1}}, "data must be settings by name"),
        ({"settings": {"seed": 1}}, "settings: 'seed' is set by the argument random_state: leave it out"),
        ({"head": "mlp", "settings": {"head": "ridge"}}, "'head' is set by the argument head"),
        ({"head": "mlp", "settings": {"model": {"head": "ridge"}}}, "model.head is stated twice"),
        ({"random_state": "x"}, "cannot be used to seed"),
        ({"device": "gpu"}, "gpu"),
    ],
)
def test_wrong_input_is_refused(change, message):
    samples = {"X": X, "y": ONE} | {name: change[name] for name in ("X", "y") if name in change}
    arguments = {name: value for name, value in change.items() if name not in ("X", "y")}
    with pytest.raises(ValueError, match=message):
        SinglePositiveClassifier(**arguments).fit(**samples)


def test_wrong_samples_are_refused_after_fitting(fitted):
    with pytest.raises(ValueError, match="X has 5 features, but SinglePositiveClassifier is expecting 6"):
        fitted.predict(X[:, :5])
    with pytest.raises(InputError, match="was fitted to features, but X holds images"):
        fitted.predict([Image.new("RGB", (4, 4))])
    with pytest.raises(InputError, match=r"y\[1\]: 'bird' is not a class. Known: beach, dog, sea"):
        fitted.score(X[:2], ["dog", "bird"])
    with pytest.raises(InputError, match="no sample has a known positive label"):
        fitted.score(X, np.zeros((90, 3)))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        fitted.score(X, ONE[:-1])


def test_a_classifier_that_was_not_fitted_says_so():
    broken = ridge()
    for method in ("predict", "predict_proba", "decision_function"):
        with pytest.raises(NotFittedError):
            getattr(broken, method)(X)
    with pytest.raises(InputError):
        broken.fit(X, np.zeros(90, int))
    with pytest.raises(NotFittedError):
        broken.score(X, ONE)


def test_weights_of_samples_are_not_accepted():
    with pytest.raises(TypeError, match="sample_weight"):
        ridge().fit(X, ONE, sample_weight=np.ones(90))


def test_output_is_a_path_of_the_user(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file: is a file; `output` must name a folder"):
        ridge(output=Path(tmp_path / "file")).fit(X, ONE)


def test_messages_name_arguments_of_the_classifier(capsys):
    X, y = np.random.default_rng(0).random((40, 4)), np.arange(40) % 3
    classifier = SinglePositiveClassifier(settings={"data": {"val_share": 2}})
    with pytest.raises(InputError, match=r"^data\.val_share must be between 0"):
        classifier.fit(X, y)
    SinglePositiveClassifier(head="ridge", verbose=True).fit(X, y)
    printed = capsys.readouterr().err
    assert "mean_labels=K" in printed
    assert "--" not in printed
