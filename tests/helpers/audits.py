"""Simulated data and runs to draw samples from for an audit."""

from __future__ import annotations

import csv

import numpy as np

import spml
from spml.data.readers import read
from spml.review.progress import Selection
from spml.review.session import Review
from tests.helpers.records import read_rows


def world(seed, samples=400, classes=8):
    """Labels that are independent given known probabilities, of which a uniformly drawn one is shown."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(-1.7, 1.5, (4 * samples, classes))
    p = 1 / (1 + np.exp(-logits))
    truth = generator.random(p.shape) < p
    kept = np.flatnonzero(truth.any(1))[:samples]
    p, truth = p[kept], truth[kept]
    shown = (truth * generator.random(truth.shape)).argmax(1)
    labels = np.zeros(truth.shape, np.int8)
    labels[np.arange(len(truth)), shown] = 1
    return p, truth, labels


CLASSES = tuple("abcd")


def fill_in(sheet, truth, rows=None):
    """Write all labels of the first rows of a sheet, as a person would; `truth` has the names by sample."""
    lines = read_rows(sheet)
    for line in lines[:rows]:
        line["labels"], line["complete"] = "|".join(sorted(truth[line["file"]])), "yes"
    with open(sheet, "w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, lines[0])
        writer.writeheader()
        writer.writerows(lines)
    return lines


HIDDEN = ["--data.unlisted", "negative", "--data.observe", "single", "--threads", "1"]


def truth_of(source, **settings):
    """True labels by name of the sample."""
    records = read(spml.config.DataConfig(path=str(source), unlisted="negative", **settings))
    return dict(zip(records.ids, map(set, records.labels.to_names(records.classes)), strict=True))


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
