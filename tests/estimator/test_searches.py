"""Scorers, pipelines, cross-validation and searches of scikit-learn."""

from __future__ import annotations

import multiprocessing
from functools import partial

import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_array_equal
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import average_precision_score, f1_score, make_scorer
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from spml import metrics
from spml.common.errors import InputError
from spml.sklearn import SinglePositiveClassifier, mean_average_precision, sp_score
from tests.estimator.samples import WORDS, make_samples, ridge
from tests.helpers.processes import quick_workers

X, FULL, ONE = make_samples()
NEW_X, NEW_FULL, NEW_ONE = make_samples(60, seed=1)


@pytest.fixture(scope="module")
def fitted():
    return make_pipeline(StandardScaler(), ridge(mean_labels=1.6)).fit(X, WORDS[ONE])


def test_scorers_measure_what_the_metrics_do(fitted):
    logits = fitted.decision_function(NEW_X)
    assert sp_score(fitted, NEW_X, WORDS[NEW_ONE]) == metrics.sp_score(logits, NEW_ONE, 1.5).score
    stated = partial(sp_score, mean_labels=1.2)
    assert stated(fitted, NEW_X, WORDS[NEW_ONE]) == metrics.sp_score(logits, NEW_ONE, 1.2).score
    full = average_precision_score(NEW_FULL, logits)
    assert mean_average_precision(fitted, NEW_X, NEW_FULL) == pytest.approx(full)
    lists = [WORDS[row == 1].tolist() for row in NEW_FULL]
    assert mean_average_precision(fitted, NEW_X, lists) == pytest.approx(full)
    other = np.where(NEW_FULL[:, [2, 0, 1]] == 1, 1, -1)
    other[:, 1] = -1
    assert mean_average_precision(fitted, NEW_X, other, empty="zero") < full


def test_scorers_take_other_classifiers():
    other = OneVsRestClassifier(LogisticRegression()).fit(X, WORDS[ONE])
    expected = metrics.sp_score(other.decision_function(NEW_X), NEW_ONE, 1.5).score
    assert sp_score(other, NEW_X, WORDS[NEW_ONE]) == expected
    two = LogisticRegression().fit(X, ONE == 0)  # whose decision_function has one column
    expected = metrics.sp_score(two.predict_proba(X), (ONE == 0).astype(np.int64), 1.0).score
    assert sp_score(two, X, ONE == 0, mean_labels=1.0) == expected
    with pytest.raises(InputError, match="RidgeClassifier has no decision_function or predict_proba with a"):
        sp_score(RidgeClassifier().fit(X, ONE == 0), X, ONE == 0)


@pytest.mark.parametrize(
    ("scorer", "y", "message"),
    [
        (
            mean_average_precision,
            WORDS[ONE],
            "needs all labels of the samples, but y holds one class for each",
        ),
        (mean_average_precision, FULL - (ONE == 1)[:, None], "y holds unknown labels. Use sp_score"),
        (mean_average_precision, 0 * FULL, "y: no sample has a label, so nothing can be measured"),
        (sp_score, 0 * FULL, "y: no sample has a known positive label, so nothing can be measured"),
        (sp_score, np.where(ONE, "dog", "bird"), "'bird' is not a class. Known: beach, dog, sea"),
        (sp_score, FULL[:, :2], "y has 2 columns, but there are 3 classes"),
    ],
)
def test_labels_that_can_not_be_scored_are_refused(fitted, scorer, y, message):
    with pytest.raises(InputError, match=message):
        scorer(fitted, X, y)


@pytest.mark.long
def test_cross_validation(fitted):
    by_hand = []
    folds = KFold(3)
    for train, test in folds.split(X):
        by_hand.append(ridge().fit(X[train], ONE[train]).score(X[test], ONE[test]))
    np.testing.assert_allclose(cross_val_score(ridge(), X, ONE, cv=folds), by_hand, rtol=1e-6)
    scores = cross_val_score(ridge(), X, ONE, cv=folds, scoring=partial(sp_score, mean_labels=1.5))
    np.testing.assert_allclose(scores, by_hand, rtol=1e-6)
    labels = cross_val_predict(ridge(), X, ONE, cv=3)
    assert labels.shape == (90, 3)
    ternary = np.where(np.random.default_rng(0).random(FULL.shape) < 0.5, 2 * FULL - 1, 0)
    assert np.isfinite(cross_val_score(ridge(), X, ternary, cv=3, scoring=sp_score)).all()
    with_nan = np.where(ternary == 0, np.nan, FULL)
    assert np.isfinite(cross_val_score(ridge(), X, with_nan, cv=KFold(3))).all()


def test_a_search_selects_without_full_labels():
    model = make_pipeline(StandardScaler(), SinglePositiveClassifier("an", epochs=3))
    grid = {"singlepositiveclassifier__lr": np.array([1e-6, 1e-1])}
    search = GridSearchCV(model, grid, scoring={"SP": sp_score}, refit="SP", cv=2).fit(X, WORDS[ONE])
    assert search.best_params_ == {"singlepositiveclassifier__lr": 0.1}
    assert mean_average_precision(search, NEW_X, NEW_FULL) > 0.8
    assert search.predict(NEW_X).shape == (60, 3)


@pytest.mark.long
@pytest.mark.parametrize("scoring", ["average_precision", "f1_macro"])
def test_scorers_by_name_need_full_labels_and_training_may_hide_them(scoring):
    """As the page on scikit-learn says."""
    hiding = ridge(unlisted="negative", settings={"data": {"observe": "single"}})
    scores = cross_val_score(hiding, X, FULL, cv=KFold(3), scoring=scoring, error_score="raise")
    assert ((scores > 0) & (scores <= 1)).all()
    assert hiding.fit(X, FULL).summary_["data"]["observed"]["train"] == "single-positive"
    if scoring == "f1_macro":
        with pytest.raises(ValueError, match="a mix of multiclass and multilabel-indicator targets"):
            cross_val_score(ridge(), X, ONE, cv=KFold(3), scoring=scoring, error_score="raise")
    unknown = np.where(np.random.default_rng(0).random(FULL.shape) < 0.5, 2 * FULL - 1, 0)
    with pytest.raises(ValueError, match="multiclass-multioutput"):
        cross_val_score(ridge(), X, unknown, cv=KFold(3), scoring=scoring, error_score="raise")


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # of scikit-learn, that F1 is not defined
def test_classes_without_positives_in_a_fold():
    labels = np.column_stack([FULL, np.zeros(len(FULL), int)])  # which is never predicted
    f1 = make_scorer(f1_score, average="macro", zero_division=np.nan)
    as_zero, left_out, precision, map_ = (
        cross_val_score(
            ridge(unlisted="negative"), X, labels, cv=KFold(3), scoring=scoring, error_score="raise"
        )
        for scoring in ("f1_macro", f1, "average_precision", mean_average_precision)
    )
    np.testing.assert_allclose(left_out, as_zero * 4 / 3)
    np.testing.assert_allclose(map_, precision * 4 / 3)


@pytest.mark.long
def test_a_search_in_two_processes_finds_the_same(monkeypatch):
    grid = {"head": ["ridge", "lda"]}
    quick_workers(monkeypatch)
    monkeypatch.setattr("joblib.parallel.DEFAULT_MP_CONTEXT", multiprocessing.get_context("spawn"))
    with parallel_config("multiprocessing"):
        one, two = (
            GridSearchCV(SinglePositiveClassifier(), grid, scoring=sp_score, cv=2, n_jobs=jobs).fit(X, ONE)
            for jobs in (1, 2)
        )
    np.testing.assert_allclose(
        one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"], rtol=1e-5
    )
    assert one.best_params_ == two.best_params_


def test_one_against_the_rest_predicts_each_label_by_a_binary_form():
    one_each = OneVsRestClassifier(ridge()).fit(X, FULL)
    for column, estimator in enumerate(one_each.estimators_):
        logits = estimator._logits(NEW_X)
        difference = estimator.decision_function(NEW_X)
        assert difference.shape == (60,)
        one, zero = (estimator.classes_.tolist().index(value) for value in (1, 0))
        assert_array_equal(difference, logits[:, one] - logits[:, zero])
        assert_array_equal(one_each.predict(NEW_X)[:, column], difference > 0)
    assert one_each.predict_proba(NEW_X).shape == NEW_FULL.shape
    # Its scores are there for the scorers, too, which need one for each class.
    binary = one_each.estimators_[0]
    assert sp_score(binary, NEW_X, NEW_FULL[:, 0]) > 0
