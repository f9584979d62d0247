"""What people do in a loop: fill in a sheet, and answer the entries of an audit, both by the truth."""

from __future__ import annotations

import csv

import spml
from spml.data.readers import read
from spml.review.progress import Selection
from spml.review.session import Review

HIDDEN = ["--data.unlisted", "negative", "--data.observe", "single", "--threads", "1"]


def truth_of(source, **settings):
    """True labels by name of the sample."""
    records = read(spml.config.DataConfig(path=str(source), unlisted="negative", **settings))
    return dict(zip(records.ids, map(set, records.labels.to_names(records.classes)), strict=True))


def fill_in(sheet, truth, rows=None):
    """Write all labels of the first rows of a sheet, as a person would."""
    with open(sheet, encoding="utf-8", newline="") as stream:
        lines = list(csv.DictReader(stream))
    for line in lines[:rows]:
        line["labels"], line["complete"] = "|".join(sorted(truth[line["file"]])), "yes"
    with open(sheet, "w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, lines[0])
        writer.writeheader()
        writer.writerows(lines)


def answer(audit, truth, most):
    """Answer the first entries of an audit by the truth; answers by sample and class."""
    review, given = Review(audit, "person"), {}
    listed = review.lists["missing"].entries
    for row, column in zip(listed.rows[:most].tolist(), listed.columns[:most].tolist(), strict=True):
        name, label = review.records.ids[row], review.records.classes[column]
        given[name, label] = "yes" if label in truth[name] else "no"
        review.decide(row, column, given[name, label], Selection())
    review.store.close()
    return given
