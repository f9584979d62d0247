"""Models whose decisions `decisions.py` measures, and their scores of samples that they were not fitted to.

For a head that is solved, the training samples are scored by five solutions without a fifth of them, with
the penalty of the whole solution, or members of an auto head that are selected by all of these scores. A
head that is trained scores the validation samples alone. Penalties, rates and epochs are selected by the
SP-score of the validation samples.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from spml.common.draws import permutation
from spml.config import LBFGS, ModelConfig, OptimConfig
from spml.data import Samples
from spml.decisions import Judge
from spml.engine import make_fabric
from spml.labels import ObservedLabels
from spml.metrics import sp_score
from spml.models import fit_auto
from spml.models.solved.spaces import Pool
from spml.runs.fit.build import Build
from spml.runs.settle.resolve import Opened, check_stated, open_for_backbone, resolve

FOLDS, AUDITED = 5, 50
AUTO, SOFTMAX, RIDGE, GR = "auto", "softmax", "ridge", "GR"
LINEAR = {
    SOFTMAX: {"method": "softmax", "optim": OptimConfig(name=LBFGS)},
    RIDGE: {"model": ModelConfig(head="ridge", scaling="standard")},
}


class Scored(NamedTuple):
    """Scores of one model.

    Attributes:
        rows: Samples that decide, numbered over training, then validation samples.
        held: Their scores by a model that was not fitted to them, float32 (D, C).
        test: Scores of the test samples, float32 (T, C).
        rate: Learning rate; NaN for a head that is solved.
    """

    rows: np.ndarray
    held: np.ndarray
    test: np.ndarray
    rate: float = math.nan


class Enough(Exception):
    """The solution that was asked for has been judged."""


class Watch:
    """Judge that keeps the scores of every solution, and stops after one of them if asked to."""

    metric = "val/SP"

    def __init__(self, val, mean_labels, last=None):
        self._judge, self._last = Judge(val, None, "observed", mean_labels), last
        self.predict, self.val, self.test = None, [], []

    def __call__(self, scores):
        """Judge a solution."""
        self.val.append(scores.array)
        if self.predict:
            self.test.append(self.predict())
        if self._last is not None and len(self.val) > self._last:
            raise Enough
        return self._judge(scores)


class Problem:
    """A data set with hidden labels, and the samples that are audited.

    Args:
        config: Data with hidden labels, K, and how heads or networks are trained.
        known: Column of the label that is known of each sample, by its name, where the data is given with all
            labels; None = labels are hidden as `config` says.
    """

    def __init__(self, config, known=None):
        self.config, self.mean_labels = config, config.mean_labels
        self.data, self._spec = open_for_backbone(config)[:2]
        if known is not None:
            self.data = replace(
                self.data, splits={name: _with(part, known) for name, part in self.data.splits.items()}
            )
        self.train, self.val = self.data.splits["train"], self.data.splits["val"]
        self.observed = np.concatenate([part.observed.to_ternary() for part in (self.train, self.val)])
        self.truth = np.concatenate([self.data.truth[name].to_ternary() > 0 for name in ("train", "val")])
        self.test_truth = self.data.truth["test"].to_ternary() > 0
        self.val_rows = np.arange(len(self.train), len(self.truth))
        order = permutation(len(self.val), "audit", config.seed)
        self.audited = np.sort(self.val_rows[order[:AUDITED]])

    def build(self, data=None, **settings):
        """Model that is ready to be fitted."""
        data = data or self.data
        config, _ = check_stated(replace(self.config, **settings))
        run = resolve(config, Opened(data, self._spec))
        return Build(run, make_fabric("cpu", 1, "32-true"), backbone=not run.frozen).place()

    def part(self, rows, held):
        """Data set with some of the training samples, and others for validation."""
        splits = {"train": _take(self.train, rows), "val": _take(self.train, held)}
        return replace(self.data, splits=splits, truth={})

    def folds(self):
        """Yield training samples and held-out samples of each fold."""
        order = permutation(len(self.train), "folds", self.config.seed)
        for first in range(FOLDS):
            held = np.sort(order[first::FOLDS])
            yield np.setdiff1d(order, held), held


def _with(samples, known):
    columns = np.asarray([known[name] for name in samples.ids])
    return replace(samples, observed=ObservedLabels.from_index(columns, samples.observed.num_classes))


def _take(samples, rows):
    ids = tuple(samples.ids[row] for row in rows.tolist())
    return Samples(ids, samples.inputs.take(rows), samples.observed.take(rows))


def solve_linear(problem, name):
    """Softmax regression or ridge regression."""
    settings = LINEAR[name]
    build, watch = problem.build(**settings), Watch(problem.val, problem.mean_labels)
    watch.predict = lambda: build.predict("test")
    best = build.fit(watch).best
    held = np.empty(problem.observed.shape, np.float32)
    held[problem.val_rows] = watch.val[best]
    for rows, out in problem.folds():
        part = problem.part(rows, out)
        inner = Watch(part.splits["val"], problem.mean_labels, best)
        try:
            problem.build(part, **settings).fit(inner)
        except Enough:
            held[out] = inner.val[best]
    return Scored(np.arange(len(held)), held, watch.test[best])


def solve_auto(problem, _):
    """The auto head, selected by cross-validation over all samples, as for an audit."""
    solved = fit_auto(
        problem.train,
        problem.val,
        lambda scores, rows, classes: sp_score(scores, problem.observed[rows], problem.mean_labels).score,
        cross_validate=True,
        mean_labels=problem.mean_labels,
        seed=problem.config.seed,
        keep=lambda logits: logits.left_out,
    )
    tests = Pool(problem.data.splits["test"])
    batches = tests.batches(np.arange(len(tests)))
    test = np.concatenate([solved.head(tests.features(batch)).detach().numpy() for batch in batches])
    return Scored(np.arange(len(solved.rows)), solved.held_out[np.argsort(solved.rows)], test)


def train(problem, _, rates):
    """GR, at the best of some learning rates."""
    found = []
    for rate in rates:
        optim = replace(problem.config.optim, lr=rate)
        build = problem.build(method="gr", optim=optim)
        fitted = build.fit(Watch(problem.val, problem.mean_labels))
        scored = Scored(problem.val_rows, build.predict("val"), build.predict("test"), rate)
        found.append((fitted.history[fitted.best]["val/SP"], scored))
    return max(found, key=lambda pair: pair[0])[1]
