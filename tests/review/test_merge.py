"""Answers as labels, in every format, and back."""

from __future__ import annotations

import numpy as np
import pytest

from spml.audit.folder import read_observed
from spml.config import DataConfig
from spml.data.writers import write
from spml.labels import ObservedLabels
from spml.review.merged import merge, reviewed
from spml.review.progress import Selection
from spml.review.session import Review, open_data
from tests.helpers.commands import refusal
from tests.helpers.reviews import MERGED, answer, audit_of, forge

# Of a.png to g.png, with the classes bird, cat, dog.
GIVEN = [(0, 1, 0), (0, 0, 1), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 0), (0, 1, 0)]


@pytest.fixture
def answered(audit):
    """Clear answers, an unsure one, a conflict and one that was taken back."""
    answer(
        audit, "ann", (0, 2, "yes"), (0, 0, "no"), (1, 1, "no"), (2, 2, "no"), (2, 1, "unsure"), (3, 0, "yes")
    )
    answer(audit, "ben", (0, 2, "yes"), (3, 0, "no"), (1, 1, "yes"))
    answer(audit, "ann", (1, 1, "yes"), (4, 0, "yes"))
    review = Review(audit, "ann")
    review.undo()
    review.store.close()
    return audit


def test_answers_are_merged_into_the_known_labels(answered):
    records, notes = reviewed(answered)
    assert records.labels.to_ternary().tolist() == [list(row) for row in MERGED]
    assert notes == [
        "2 known positives and 2 known negatives from the review.",
        "1 label is not written, since reviewers disagree. The page shows them under Conflicts.",
        "1 label stays unknown, since reviewers were unsure.",
    ]


@pytest.mark.parametrize(
    ("form", "output"),
    [("csv", "out.csv"), ("coco", "out.json"), ("labelstudio", "out.json"), ("nan", "out.npz")],
)
def test_every_format_gives_back_exactly_these_labels(answered, form, output, tmp_path):
    records, _ = reviewed(answered)
    path = tmp_path / output
    write(records, path, form)
    again = read_observed(DataConfig(path=str(path)))
    assert [again.classes.index(name) for name in records.classes] == [0, 1, 2]
    assert again.labels.to_ternary().tolist() == [list(row) for row in MERGED]
    assert [name.rpartition("/")[2] for name in again.ids] == list(records.ids)


def test_the_split_stays(audit):
    table = audit.parent / "photos" / "labels.csv"
    lines = table.read_text().splitlines()
    splits = ["split", *["train"] * 5, "val", "test"]
    table.write_text("\n".join(f"{line},{split}" for line, split in zip(lines, splits, strict=True)))
    answer(audit, "ann", (0, 2, "yes"))
    records, _ = reviewed(audit)
    assert records.split == tuple(splits[1:])


def test_feature_data(tmp_path):
    np.savez(tmp_path / "x.npz", X=np.eye(4, dtype=np.float32), Y=np.eye(4), classes=["a", "b", "c", "d"])
    listed = {"0": ("a", {"b": 0.9, "c": 0.8})}
    audit = audit_of(DataConfig(path=str(tmp_path / "x.npz")), tmp_path / "audit", listed)
    answer(audit, "ann", (0, 1, "yes"), (0, 2, "no"))
    records, _ = reviewed(audit)
    write(records, tmp_path / "out.npz", "nan")
    labels = read_observed(DataConfig(path=str(tmp_path / "out.npz"))).labels.to_ternary().tolist()
    assert labels == [[1, 1, -1, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]


def test_labels_that_were_hidden_stay_hidden(tmp_path):
    config = DataConfig(path="digits", observe="single")
    audit = audit_of(config, tmp_path / "audit", {"train/0": ("", {})})
    answer(audit, "ann")
    assert reviewed(audit)[0].labels == read_observed(config).labels


@pytest.mark.parametrize(
    ("file", "label", "what"),
    [("nobody", "cat", "sample 'nobody'"), ("a.png", "\x1b[31m", r"class '\x1b[31m'")],
)
def test_an_answer_about_other_data_is_named(answered, file, label, what):
    path = answered / "review.sqlite"
    path.unlink()
    known = (1, "a.png", "dog", "yes", "x", "now", 0, None)
    fingerprint = open_data(answered)[0].about.fingerprint
    forge(path, fingerprint, known, (2, file, label, "no", "x", "now", 0, None))
    for read in (reviewed, lambda folder: Review(folder, "ann").progress(Selection())):
        assert refusal(read, answered) == (
            f"{path}: is damaged: row 2 is about the {what}, which the "
            "data does not have. Restore a copy, or move it away to begin again."
        )


@pytest.mark.parametrize("unlisted", ["unknown", "negative"])
def test_merge_equals_a_loop(unlisted):
    rng = np.random.default_rng(0)
    labels = ObservedLabels.from_multi_hot(rng.integers(0, 2, (30, 7)), unlisted=unlisted)
    values = {(int(rng.integers(30)), int(rng.integers(7))): int(rng.choice([-1, 1])) for _ in range(60)}
    expected = labels.to_ternary()
    for (row, column), value in values.items():
        expected[row, column] = value
    assert merge(labels, values).to_ternary().tolist() == expected.tolist()
    assert merge(labels, {}) is labels
