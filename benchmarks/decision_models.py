"""Models whose decisions `decisions.py` measures, and their scores of samples that they were not fitted to.

For a head that is solved, the training samples are scored by five solutions without a fifth of them, with
the penalty (for the auto head, the members) of the whole solution. A trained head or network scores the
validation samples alone. Penalties, rates and epochs are selected by the SP-score of the validation samples.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from spml.common.draws import permutation
from spml.config import LBFGS, ModelConfig, OptimConfig
from spml.data import Samples
from spml.decisions import Judge
from spml.engine import make_fabric
from spml.labels import ObservedLabels
from spml.metrics import bootstrap_map, mean_average_precision, observed_ranks, resamples, sp_score
from spml.metrics.observed import sp_scores
from spml.models.solved import auto
from spml.models.solved.forest import FOREST
from spml.models.solved.members import StandardisedSum, class_logits, grow_on, score_members
from spml.models.solved.search import Candidate
from spml.models.solved.spaces import Pool, Spaces
from spml.runs.fit.build import Build
from spml.runs.settle.resolve import Opened, check_stated, open_for_backbone, resolve

FOLDS, DRAWS = 5, 200
AUDITS = (50, 100, 200)
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
        candidates: By name, what is known of each solution among which one could select.
        rate: Learning rate; NaN for a head that is solved.
    """

    rows: np.ndarray
    held: np.ndarray
    test: np.ndarray
    candidates: dict
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
        self.audits = {count: np.sort(self.val_rows[order[:count]]) for count in AUDITS}

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

    def describe(self, scores, test):
        """SP-score, mAP on audited samples, both also on resamples, and test mAP of a candidate."""
        observed = self.observed[self.val_rows]
        ranks = observed_ranks(scores, observed)
        drawn = [sp_scores(ranks, part, self.mean_labels)[:, 0] for part in resamples(len(scores), DRAWS, 0)]
        row = {
            "test mAP": mean_average_precision(test, self.test_truth, "exclude"),
            "SP": [sp_score(scores, observed, self.mean_labels).score, *np.concatenate(drawn).tolist()],
        }
        for count, rows in self.audits.items():
            truth, multiplicity = self.truth[rows], np.concatenate(list(resamples(len(rows), DRAWS, 0)))
            own = scores[rows - len(self.train)]
            row[f"audit {count}"] = [
                mean_average_precision(own, truth, "exclude"),
                *bootstrap_map(own, truth, multiplicity).tolist(),
            ]
        return row


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
    candidates = {
        f"{name} {number}": problem.describe(val, test)
        for number, (val, test) in enumerate(zip(watch.val, watch.test, strict=True))
    }
    candidates[name] = candidates[f"{name} {best}"]
    return Scored(np.arange(len(held)), held, watch.test[best], candidates)


def solve_auto(problem, _):
    """The auto head."""
    pool = Pool(problem.train, problem.val)
    solved = auto.fit_auto(
        problem.train,
        problem.val,
        lambda scores, rows, classes: sp_score(scores, problem.observed[rows], problem.mean_labels).score,
        cross_validate=len(pool) < auto.FEW,
        mean_labels=problem.mean_labels,
        seed=problem.config.seed,
    )
    held = np.empty(problem.observed.shape, np.float32)
    held[solved.rows] = solved.held_out
    if len(solved.rows) < len(held):
        for rows, out in problem.folds():
            held[out] = _members_again(problem, pool, solved.head, np.r_[rows, problem.val_rows], out)
    tests = Pool(problem.data.splits["test"])
    every = np.arange(len(tests))
    test = np.concatenate(
        [solved.head(tests.features(batch)).detach().numpy() for batch in tests.batches(every)]
    )
    if len(solved.rows) < len(held):
        # All samples tell the logits of a class, as in an audit.
        known = torch.from_numpy((problem.observed == 1).astype(np.int64))
        fitted = class_logits(torch.from_numpy(held), known, problem.mean_labels)
        offset, scale, held = (part.float().numpy() for part in fitted)
        test = offset + scale * test
    candidates = {AUTO: problem.describe(held[problem.val_rows], test)}
    return Scored(np.arange(len(held)), held, test, candidates)


def _members_again(problem, pool, head, rows, out):
    """Scores of samples by the members of an auto head, solved without them."""
    spaces, members = head.settings.spaces, head.settings.members
    names = [(spaces[member.space].scaling, spaces[member.space].width) for member in members]
    fitted = {}
    for scaling in dict.fromkeys(scaling for scaling, _ in names):
        widths = tuple(dict.fromkeys(width for own, width in names if own == scaling))
        fitted[scaling] = [Spaces(pool, rows, scaling, widths, problem.config.seed)]
    chosen = [
        Candidate(*name, member.head, np.inf if member.penalty is None else member.penalty, member.score)
        for name, member in zip(names, members, strict=True)
    ]
    seed = problem.config.seed
    forests = [grow_on(pool, rows, seed, auto.TREES) for member in members if member.head == FOREST]
    scores = score_members(fitted, chosen, [out], {FOREST: forests})
    total = StandardisedSum(np.asarray([member.weight for member in members]), scores)(scores)
    return head.offset.numpy() + head.scale.numpy() * total


def train(problem, name, rates):
    """GR, at the best of some learning rates."""
    best = None
    candidates = {}
    for rate in rates:
        optim = replace(problem.config.optim, lr=rate)
        build = problem.build(method="gr", optim=optim)
        build.fit(Watch(problem.val, problem.mean_labels))
        val, test = build.predict("val"), build.predict("test")
        row = candidates[f"{name} {rate:g}"] = problem.describe(val, test)
        if best is None or row["SP"][0] > candidates[name]["SP"][0]:
            candidates[name], best = row, Scored(problem.val_rows, val, test, candidates, rate)
    return best
