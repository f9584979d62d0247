"""`SinglePositiveClassifier` on texts: the scores of the program, copies, searches, and wrong input."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import spml
from spml.common.errors import InputError
from spml.sklearn import SinglePositiveClassifier, sp_score
from tests.helpers.texts import make_texts

pandas = pytest.importorskip("pandas")
FRAME = pandas.DataFrame(make_texts(), columns=["id", "title", "abstract", "labels", "all"])
NEW = pandas.DataFrame(make_texts(40, seed=1), columns=["id", "title", "abstract", "labels", "all"])
COLUMNS = ["title", "abstract"]


def joined(frame):
    return [f"{title}\n{abstract}" for title, abstract in frame[COLUMNS].to_numpy()]


def classifier(text, **settings):
    """A classifier whose head is solved at once."""
    settings = {"head": "ridge", "mean_labels": 1.5, "settings": {"threads": 1}, **settings}
    return SinglePositiveClassifier(text=text, **settings)


@pytest.fixture(scope="module")
def fitted():
    return classifier("title,abstract").fit(FRAME[COLUMNS], FRAME["labels"])


def test_the_model_is_that_of_train(fitted, tmp_path):
    run = spml.train(
        FRAME[COLUMNS], FRAME["labels"], data={"text": "title,abstract"}, mean_labels=1.5, head="ridge",
        quiet=True, threads=1, pictures=False, output=tmp_path / "run",
    )  # fmt: skip
    expected = run.predict(NEW[COLUMNS])
    np.testing.assert_array_equal(fitted.predict_proba(NEW), expected.probabilities)
    logits = torch.from_numpy(fitted.decision_function(NEW))
    np.testing.assert_allclose(logits.sigmoid(), expected.scores, rtol=1e-6)
    labels = [{*fitted.classes_[row == 1]} for row in fitted.predict(NEW)]
    assert labels == [{*row} for row in expected.labels]
    path = tmp_path / "new.csv"
    NEW.to_csv(path, index=False)
    np.testing.assert_allclose(spml.load(run.folder).predict(path).scores, expected.scores, rtol=1e-6)
    assert not hasattr(fitted, "n_features_in_")


@pytest.mark.parametrize("form", [list, np.array, pandas.Series])
def test_sequences_of_texts(fitted, form):
    other = classifier(True).fit(form(joined(FRAME)), FRAME["labels"])
    np.testing.assert_array_equal(
        other.decision_function(form(joined(NEW))), fitted.decision_function(NEW[["abstract", "title"]])
    )
    assert fitted.score(NEW, NEW["labels"]) == other.score(form(joined(NEW)), NEW["labels"]) > 0.8


def test_copies_have_the_same_answers(fitted):
    copied = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copied.decision_function(NEW), fitted.decision_function(NEW))
    assert clone(fitted).text == "title,abstract"
    assert fitted.__sklearn_tags__().input_tags.string
    assert not SinglePositiveClassifier().__sklearn_tags__().input_tags.string


@pytest.mark.long
def test_searches_split_texts():
    search = GridSearchCV(classifier(COLUMNS), {"head": ["ridge", "lda"]}, scoring=sp_score, cv=2)
    search.fit(FRAME, FRAME["labels"])
    assert (search.cv_results_["mean_test_score"] > 0.7).all()


def test_what_does_not_suit_is_refused(fitted):
    with pytest.raises(InputError, match="where a text is expected"):
        fitted.predict(np.zeros((2, 3)))
    with pytest.raises(InputError, match="abstract"):
        fitted.predict(NEW[["title"]])
    with pytest.raises(InputError, match="1 text is empty"):
        classifier(True).fit(["milk", " ", "moo"], ["cow", "cow", "cat"])
    with pytest.raises(InputError, match=r"'data.text' is set by the argument text"):
        SinglePositiveClassifier(settings={"data": {"text": "title"}}).fit(joined(FRAME), FRAME["labels"])
