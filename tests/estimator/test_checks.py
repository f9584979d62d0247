"""The checks of scikit-learn for estimators: which apply, and why the others do not."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import softmax
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import estimator_checks_generator

from spml.sklearn import SinglePositiveClassifier

_LABELS = "expects one class per sample from `predict`, which gives every label"
NOT_APPLICABLE = {
    "check_classifiers_train": f"{_LABELS}, and probabilities that sum to 1",
    "check_classifiers_classes": _LABELS,
    "check_estimator_sparse_array": _LABELS,
    "check_estimator_sparse_matrix": _LABELS,
    "check_decision_proba_consistency": "expects one decision value per sample where there are two classes",
}

EVERYDAY = [
    "check_classifiers_multilabel_output_format_decision_function",
    "check_classifiers_multilabel_output_format_predict",
    "check_classifiers_multilabel_output_format_predict_proba",
    "check_classifiers_one_label",
    "check_classifiers_regression_target",
    "check_dict_unchanged",
    "check_estimators_nan_inf",
    "check_estimators_unfitted",
    "check_fit2d_1sample",
    "check_n_features_in_after_fitting",
    "check_requires_y_none",
    "check_supervised_y_2d",
]


def test_the_page_lists_the_checks_that_do_not_apply():
    page = (Path(__file__).resolve().parents[2] / "docs" / "scikit-learn.md").read_text(encoding="utf-8")
    assert dict(re.findall(r"^\| `(check_\w+)` \| (.+) \|$", page, re.M)) == NOT_APPLICABLE


class TopClass(SinglePositiveClassifier):
    """Reports the top class only, as the checks that do not apply expect it."""

    def predict(self, X):
        logits = self._logits(X)
        return self.classes_[logits.argmax(1)]

    def decision_function(self, X):
        logits = self._logits(X)
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def predict_proba(self, X):
        return softmax(self._logits(X).astype(np.float64), axis=1)


def name_of(check):
    return getattr(check, "func", check).__name__


def parameters():
    """All checks; those that are not among `EVERYDAY` are long, and those that do not apply must fail."""
    for estimator, check in estimator_checks_generator(SinglePositiveClassifier()):
        name = name_of(check)
        marks = [] if name in EVERYDAY else [pytest.mark.long]
        if name in NOT_APPLICABLE:
            marks.append(pytest.mark.xfail(strict=True, raises=AssertionError, reason=NOT_APPLICABLE[name]))
        yield pytest.param(estimator, check, marks=marks, id=name)


def assert_close_to_the_largest(actual, desired, atol, err_msg):
    """The rounding of float32 logits follows the largest of them, and would fail a check of one near 0."""
    assert_allclose(actual, desired, rtol=0, atol=1e-5 * np.abs(desired).max() + atol, err_msg=err_msg)


@pytest.mark.parametrize(("estimator", "check"), parameters())
def test_the_checks_of_scikit_learn(estimator, check, monkeypatch):
    if name_of(check) == "check_methods_subset_invariance":
        monkeypatch.setattr(estimator_checks, "assert_allclose", assert_close_to_the_largest)
    check(estimator)


@pytest.mark.long
def test_checks_that_do_not_apply_pass_for_the_top_class():
    passed = set()
    # The head is of no interest here, and this one is solved at once.
    for estimator, check in estimator_checks_generator(TopClass(head="ridge")):
        if name_of(check) in NOT_APPLICABLE:
            check(estimator)
            passed.add(name_of(check))
    assert passed == set(NOT_APPLICABLE)
