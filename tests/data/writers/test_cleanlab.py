"""Arrays for cleanlab."""

from __future__ import annotations

import numpy as np
import pytest

from spml.common.errors import InputError
from spml.data.writers import named_from, write
from tests.data.writers.samples import CLASSES, FILES, GUESSED, MATRIX, feature_records, image_records

SCORES = np.array([[0.9, 0.2, 0.1], [0.75, 0.5, 0.6], [0, 1, 0.3]], np.float32)
NOTE = "cleanlab treats every label that is not given as absent, the unknown ones included."


def loaded(path):
    """Lists of classes as the documentation makes them, and the other arrays."""
    with np.load(path, allow_pickle=False) as file:
        labels = [part.tolist() for part in np.split(file["label_columns"], file["label_offsets"][1:-1])]
        return labels, {key: file[key] for key in ("pred_probs", "classes", "ids")}


def test_labels_and_scores(folder, tmp_path):
    records = image_records(folder, [[1, 0, 1], [0, -1, 0], [0, 1, 0]], CLASSES)
    guessed = GUESSED._replace(all_scores=SCORES)
    assert write(records, tmp_path / "out.npz", "cleanlab", guessed) == (NOTE,)
    labels, rest = loaded(tmp_path / "out.npz")
    assert labels == [[0, 2], [], [1]]
    assert rest["pred_probs"].dtype == np.float32
    np.testing.assert_array_equal(rest["pred_probs"], SCORES)
    assert rest["classes"].tolist() == list(CLASSES)
    assert rest["ids"].tolist() == list(FILES[:3])
    write(named_from(records, folder.parent), tmp_path / "out.npz", "cleanlab", guessed, overwrite=True)
    assert loaded(tmp_path / "out.npz")[1]["ids"].tolist() == [f"{folder.name}/{name}" for name in FILES[:3]]


def test_features_and_full_labels(tmp_path):
    records = feature_records([[1, -1], [-1, -1]], ("a", "b"))
    guessed = GUESSED._replace(all_scores=SCORES[:2, :2])
    assert write(records, tmp_path / "out.npz", "cleanlab", guessed) == ()
    labels, rest = loaded(tmp_path / "out.npz")
    assert labels == [[0], []]
    assert rest["ids"].tolist() == ["row 0", "row 1"]


def test_a_score_is_missing(tmp_path):
    records = feature_records(MATRIX, CLASSES)
    with pytest.raises(
        InputError, match=r"3 samples lack some, such as 'row 0': no score of 'cat'\. Pass --pred"
    ):
        write(records, tmp_path / "out.npz", "cleanlab", GUESSED)
    scores = SCORES.copy()
    scores[1, 2] = np.nan
    with pytest.raises(InputError, match=r"1 sample lacks some, such as 'row 1': no score of 'fox'"):
        write(records, tmp_path / "out.npz", "cleanlab", GUESSED._replace(all_scores=scores))
    assert not (tmp_path / "out.npz").exists()


def test_cleanlab_takes_them(tmp_path):
    find = pytest.importorskip(
        "cleanlab.multilabel_classification.filter", reason="cleanlab is not installed"
    )
    generator = np.random.default_rng(0)
    truth = np.where(generator.random((200, 3)) < 0.4, 1, -1)
    given = truth.copy()
    given[:20] *= -1
    scores = np.clip((truth > 0) * 0.8 + generator.random((200, 3)) * 0.2, 0, 1).astype(np.float32)
    write(
        feature_records(given, CLASSES), tmp_path / "out.npz", "cleanlab", GUESSED._replace(all_scores=scores)
    )
    labels, rest = loaded(tmp_path / "out.npz")
    issues = find.find_label_issues(labels, rest["pred_probs"])
    assert np.flatnonzero(issues).tolist() == list(range(20))
