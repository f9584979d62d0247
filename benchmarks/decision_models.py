"""Models whose decisions `decisions.py` measures, and their scores of samples that they were not fitted to.

The training samples are scored by five solutions without a fifth of them, with the penalty of the whole
solution, or members of an auto head that are selected by all of these scores. Penalties are selected by the
SP-score of the validation samples.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from spml.common.draws import permutation
from spml.config import LBFGS, ModelConfig, OptimConfig
from spml.decisions import Judge
from spml.engine import make_fabric
from spml.labels import ObservedLabels
from spml.runs.audits.out_of_fold import without
from spml.runs.fit.build import Build
from spml.runs.fit.solve import Solver
from spml.runs.settle.resolve import Opened, check_stated, open_for_backbone, resolve

FOLDS, AUDITED = 5, 50
AUTO, SOFTMAX, RIDGE = "auto", "softmax", "ridge"
LINEAR = {
    SOFTMAX: {"method": "softmax", "optim": OptimConfig(name=LBFGS)},
    RIDGE: {"model": ModelConfig(head="ridge", scaling="standard")},
}


class Scored(NamedTuple):
    """Scores of one model.

    Attributes:
        held: Scores of training, then validation samples by models that were not fitted to them, (L, C).
        test: Scores of the test samples, (T, C).
    """

    held: np.ndarray
    test: np.ndarray


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
        config: Data with hidden labels, K, and how heads are trained.
        known: Column of the label that is known of each sample, by its name, where the data is given with all
            labels; None = labels are hidden as `config` says.
    """

    def __init__(self, config, known=None):
        self.config, self.mean_labels = config, config.mean_labels
        self.data, self._spec = open_for_backbone(config)[:2]
        if known is not None:
            self.data = replace(
                self.data, splits={name: knowing(part, known) for name, part in self.data.splits.items()}
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

    def folds(self):
        """Yield which training samples are held out, for each fold."""
        order = permutation(len(self.train), "folds", self.config.seed)
        for first in range(FOLDS):
            held = np.zeros(len(order), np.bool_)
            held[order[first::FOLDS]] = True
            yield held


def knowing(samples, known):
    """Samples with other observed labels."""
    columns = np.asarray([known[name] for name in samples.ids])
    return replace(samples, observed=ObservedLabels.from_index(columns, samples.observed.num_classes))


def solve_linear(problem, name):
    """Softmax regression or ridge regression."""
    settings = LINEAR[name]
    build, watch = problem.build(**settings), Watch(problem.val, problem.mean_labels)
    watch.predict = lambda: build.predict("test")
    best = build.fit(watch).best
    held = np.empty(problem.observed.shape, np.float32)
    held[problem.val_rows] = watch.val[best]
    for out in problem.folds():
        part = without(problem.data, out)
        inner = Watch(part.splits["val"], problem.mean_labels, best)
        try:
            problem.build(part, **settings).fit(inner)
        except Enough:
            held[np.flatnonzero(out)] = inner.val[best]
    return Scored(held, watch.test[best])


def solve_auto(problem, _=None, data=None):
    """The auto head, selected by cross-validation over all samples, as for an audit."""
    build = problem.build(data, method="auto")
    judge = Judge(problem.val, None, "observed", problem.mean_labels, problem.data.empty)
    solved = Solver(build, judge).solve_auto(every=True)
    build.top.set_ensemble(solved.head)
    held = solved.held_out[1].scores.gather()[np.argsort(solved.rows)]
    return Scored(held, build.predict("test"))


HEADS = {AUTO: solve_auto, SOFTMAX: solve_linear, RIDGE: solve_linear}
