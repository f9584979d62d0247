"""Pickles of fitted classifiers: plain data, checked when they are loaded."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys

import joblib
import numpy as np
import pytest
from PIL import Image

import spml
from spml.common.errors import InputError
from spml.sklearn import SinglePositiveClassifier
from tests.estimator.samples import WORDS, make_samples
from tests.helpers.photos import make_photos

X, FULL, ONE = make_samples()
NEW_X, _, _ = make_samples(60, seed=1)


@pytest.fixture(scope="module")
def fitted():
    return SinglePositiveClassifier(mean_labels=1.6).fit(X, WORDS[ONE])


def check_same(copied, original, samples):
    for method in ("predict", "predict_proba", "decision_function"):
        first, second = getattr(copied, method)(samples), getattr(original, method)(samples)
        np.testing.assert_array_equal(first, second)
    assert copied.classes_.tolist() == original.classes_.tolist()
    assert copied.get_params() == original.get_params()
    assert copied.summary_ == original.summary_


def test_copies_predict_the_same(fitted, tmp_path):
    check_same(pickle.loads(pickle.dumps(fitted)), fitted, NEW_X)
    joblib.dump(fitted, tmp_path / "model.joblib", compress=3)
    check_same(joblib.load(tmp_path / "model.joblib"), fitted, NEW_X)
    check_same(copy.deepcopy(fitted), fitted, NEW_X)
    assert copy.deepcopy(fitted).score(X, WORDS[ONE]) == fitted.score(X, WORDS[ONE])


@pytest.mark.long
def test_another_process_predicts_the_same(fitted, tmp_path):
    joblib.dump((fitted, NEW_X), tmp_path / "model.joblib")
    code = (
        "import sys, spml; assert 'sklearn' not in sys.modules; assert spml.sklearn.sp_score; "
        "import joblib, numpy; classifier, x = joblib.load(sys.argv[1]); "
        "numpy.save(sys.argv[2], classifier.predict_proba(x))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "model.joblib"), str(tmp_path / "out.npy")]
    subprocess.run(command, check=True)
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), fitted.predict_proba(NEW_X), atol=1e-6)


def test_a_copy_outlives_the_folder_and_can_be_fitted_again(tmp_path):
    classifier = SinglePositiveClassifier(head="ridge", output=tmp_path / "run").fit(X, ONE)
    for path in (tmp_path / "run").iterdir():
        path.unlink()
    (tmp_path / "run").rmdir()
    copied = pickle.loads(pickle.dumps(classifier))
    check_same(copied, classifier, NEW_X)
    copied.set_params(mean_labels=1.1).fit(X, ONE)
    assert spml.load(tmp_path / "run").card["threshold"]["labels_per_sample"] == 1.1


def test_a_network_for_images_is_built_again(tmp_path):
    photos = sorted(make_photos(tmp_path, per_class=6).glob("*/*.png"))
    settings = {"data": {"size": 24}, "threads": 1}
    classifier = SinglePositiveClassifier(backbone="small_cnn", epochs=1, settings=settings)
    classifier.fit(photos, [path.parent.name for path in photos])
    images = [Image.open(path) for path in photos[:3]]
    check_same(pickle.loads(pickle.dumps(classifier)), classifier, images)


class Recording(pickle.Unpickler):
    """Notes what a pickle imports."""

    def __init__(self, content):
        super().__init__(io.BytesIO(content))
        self.imported = set()

    def find_class(self, module, name):
        self.imported.add((module.partition(".")[0], name))
        return super().find_class(module, name)


def test_a_pickle_holds_plain_data(fitted):
    reader = Recording(pickle.dumps(fitted))
    reader.load()
    assert {name for module, name in reader.imported if module != "numpy"} == {"SinglePositiveClassifier"}
    files = fitted.__getstate__()["_files"]
    assert {name: type(content) for name, content in files.items()} == dict.fromkeys(
        ("model.json", "model.safetensors", "thresholds.json"), bytes
    )


def test_classifiers_that_were_not_fitted_are_pickled_too():
    copied = pickle.loads(pickle.dumps(SinglePositiveClassifier("an", lr=0.1)))
    assert (copied.method, copied.lr) == ("an", 0.1)
    assert not hasattr(copied, "classes_")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda state: {**state, "_format": 3, "_spml": "9.1"},
            "a pickled SinglePositiveClassifier was written by spml 9.1 in format 3, but spml "
            f"{spml.__version__} reads format 2: load it with the version that wrote it, or fit again.",
        ),
        (lambda state: {"method": "an"}, "was written by another version of spml in format None"),
        (lambda state: [], "was written by another version of spml in format None"),
        (lambda state: {**state, "_files": {**state["_files"], "model.safetensors": b"x"}},
         "the pickled model is damaged (model.safetensors: is not the file that model.json next to it"),
        (lambda state: {**state, "_files": {**state["_files"], "model.json": b"{}"}},
         "the pickled model is damaged (model.json: damaged: Object missing required field"),
        (lambda state: {**state, "_files": {**state["_files"], "thresholds.json": b"[]"}},
         "the pickled model is damaged (thresholds.json: damaged"),
        (lambda state: {**state, "_files": {}}, "the pickled model is damaged ('model.json'). Fit it again."),
        (lambda state: {**state, "_files": 5}, "the pickled model is damaged ("),
        (lambda state: {**state, "_files": {**state["_files"], "model.json": 5}},
         "the pickled model is damaged ("),
    ],
)  # fmt: skip
def test_wrong_states_are_refused(fitted, change, message):
    with pytest.raises(InputError) as error:
        SinglePositiveClassifier().__setstate__(change(fitted.__getstate__()))
    assert message in str(error.value)
    assert "/" not in str(error.value)
