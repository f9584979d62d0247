"""Quality of decisions from single positives, measured on full labels. For `decisions.py`."""

from __future__ import annotations

import numpy as np

from spml.common.errors import InputError
from spml.decisions import (
    calibration_error,
    f1_cuts,
    fit_calibration,
    fit_probabilities,
    hidden_probabilities,
    label_cuts,
    mean_labels_interval,
    precision_cuts,
    priors_from_audit,
    priors_from_shares,
    recall_cuts,
    refine_calibration,
)

LISTS = (100, 500, 0)  # 0 = (K - 1) N
DRAWS = {"interval": 400, "gamma": 20}
UNKNOWN_K = (1.25, 1.5, 2.0)


def f1(predicted, truth):
    """Macro and micro F1 in percent; a class that is neither there nor predicted counts as 0."""
    hits, size = (predicted & truth).sum(0), predicted.sum(0) + truth.sum(0)
    return {
        "macro": 100 * float(np.mean(2 * hits / np.maximum(size, 1))),
        "micro": 100 * float(2 * hits.sum() / max(size.sum(), 1)),
    }


def true_f1_cuts(scores, truth):
    """Threshold of each class with the largest F1, with all labels known."""
    cuts, numbers = np.full(scores.shape[1], np.inf), np.arange(1, len(scores) + 1)
    for column in range(scores.shape[1]):
        order = np.argsort(-scores[:, column])
        own, hits = scores[order, column], np.cumsum(truth[order, column])
        values = 2 * hits / (numbers + hits[-1])
        best = int(values.argmax())
        if values[best] > 0:
            cuts[column] = (own[best] + own[min(best + 1, len(own) - 1)]) / 2
    return cuts


class Measured:
    """A model with scores of the samples that decide, and everything that is decided by them.

    Args:
        problem: The data. Training and validation samples decide; their true labels are for judging and for
            audits only.
        scored: Scores of the model.
    """

    def __init__(self, problem, scored):
        self.held, self.labels, self.truth = held, labels, truth = (
            scored.held,
            problem.observed,
            problem.truth,
        )
        self.test, self.test_truth, self.k = scored.test, problem.test_truth, problem.mean_labels
        self.audit, self.check = audit, _ = problem.audited, problem.val_rows
        self.own = (labels == 1).sum(0)
        self.shares = priors_from_shares(self.own, self.k)
        self.p, self.plain = fit_probabilities(held, labels, self.shares)
        self.audited = priors_from_audit(
            self.own, truth[audit], known=labels[audit] == 1, samples=len(labels)
        )
        refined = fit_calibration(held, labels, self.audited)
        p_audited = refine_calibration(refined, held[audit], truth[audit])
        self.estimates = {"": (self.plain, self.p), ", 50 rows audited": (self.audited, p_audited)}

    def thresholds(self):
        """Macro and micro F1 on the test samples for each rule."""
        held, labels, k = self.held, self.labels, self.k
        rules = {
            "one global cut at K": label_cuts(held, labels, self.plain, k).thresholds,
            "EB5, cap 4x": f1_cuts(held, labels, self.plain).thresholds,
            "all validation labels known": true_f1_cuts(held[self.check], self.truth[self.check]),
            "EB5, K -25 %": self._eb5(0.75 * k),
            "EB5, K +33 %": self._eb5(min(k / 0.75, len(self.own))),
            "EB5, 50 rows audited": f1_cuts(held, labels, self.audited).thresholds,
        }
        return {name: f1(self.test >= cuts, self.test_truth) for name, cuts in rules.items()}

    def _eb5(self, k):
        priors = fit_probabilities(self.held, self.labels, priors_from_shares(self.own, k))[1]
        return f1_cuts(self.held, self.labels, priors).thresholds

    def unknown_k(self):
        """Macro and micro F1 on the test samples of rules that do not know K, and of EB5 that does."""
        held, labels, classes = self.held, self.labels, len(self.own)
        top = np.zeros(self.test.shape, np.bool_)
        top[np.arange(len(top)), np.where(self.own > 0, self.test, -np.inf).argmax(1)] = True
        rules = {"K known, EB5": self.test >= f1_cuts(held, labels, self.plain).thresholds, "top label": top}
        for k in UNKNOWN_K:
            assumed = priors_from_shares(self.own, min(k, classes / 2))
            cuts = {
                "EB5": f1_cuts(held, labels, assumed).thresholds,
                "one cut": label_cuts(held, labels, assumed, assumed.mean_labels).thresholds,
            }
            for name, thresholds in cuts.items():
                rules[f"{name} at K = {k:g}"] = self.test >= thresholds
                rules[f"top label and {name} at K = {k:g}"] = (self.test >= thresholds) | top
        return {name: f1(predicted, self.test_truth) for name, predicted in rules.items()}

    def stated(self):
        """Error of class shares in percent, and error and bias in points of precision and recall as they are
        stated at the cuts of EB5, against the truth of the samples that decide and of the test samples.
        Precision is weighted by predictions, recall by positives."""
        shares = self.truth.mean(0)
        found = {"class shares": 100 * float(np.abs(self.plain.shares - shares).sum() / shares.sum())}
        for name, (priors, p) in self.estimates.items():
            cuts = f1_cuts(self.held, self.labels, priors, p)
            for where, scores, truth in (
                ("deciding", self.held, self.truth),
                ("test", self.test, self.test_truth),
            ):
                predicted = scores >= cuts.thresholds
                hits, number, positives = (predicted & truth).sum(0), predicted.sum(0), truth.sum(0)
                found[f"precision, {where}{name}"] = gap(cuts.precision, hits, number)
                found[f"recall, {where}{name}"] = gap(cuts.recall, hits, positives)
        return found

    def targets(self):
        """Precision and recall reached on the test samples where they are asked for; NaN = not reachable."""
        found = {}
        for name, (priors, p) in self.estimates.items():
            for asked in (0.8, 0.9):
                try:
                    cuts = precision_cuts(self.held, self.labels, priors, p, asked, per_class=False)
                    predicted = self.test >= cuts.thresholds
                    reached = (predicted & self.test_truth).sum() / max(predicted.sum(), 1)
                except InputError:
                    reached = np.nan
                found[f"precision {asked}{name}"] = 100 * float(reached)
            for kind in ("micro", "per class"):
                cuts = recall_cuts(self.held, self.labels, priors, 0.8, per_class=kind == "per class")
                hits, positives = (self.test >= cuts.thresholds) & self.test_truth, self.test_truth.sum(0)
                recall = hits.sum() / positives.sum()
                if kind == "per class":
                    some = (positives > 0) & np.isfinite(cuts.thresholds)
                    recall = (hits.sum(0)[some] / positives[some]).mean()
                found[f"recall 0.8 {kind}{name}"] = 100 * float(recall)
        return found

    def calibration(self):
        """Calibration error on the test samples in percent of positives, and error of the total."""
        return {f"IPW isotonic{name}": agreement(p(self.test), self.test_truth)
                for name, (_, p) in self.estimates.items()}  # fmt: skip

    def missing(self):
        """True and expected precision of the first of the list of missing labels, in percent."""
        unknown = self.labels == 0
        unknown[self.audit] = False
        hidden = self.truth & unknown
        order = np.argsort(-np.where(unknown, self.held, -np.inf), axis=None, kind="stable")
        order = order[: int(unknown.sum())]
        expected = {
            name: hidden_probabilities(self.held, self.labels, p).ravel()[order]
            for name, (_, p) in zip(("", " audited"), self.estimates.values(), strict=True)
        }
        found = {"random": {"true": 100 * float(hidden.sum() / unknown.sum())}}
        for size in LISTS:
            n = size or max(1, round((self.k - 1) * len(self.held)))
            if n > len(order) / 2:
                continue  # hardly a list of the first ones
            row = {"true": 100 * float(hidden.ravel()[order[:n]].mean()), "size": n}
            for name, values in expected.items():
                row[f"expected{name}"] = 100 * float(values[:n].mean())
                row[f"bias{name}"] = row[f"expected{name}"] - row["true"]
            found[str(size) if size else "(K-1)N"] = row
        return found


def gap(stated, hits, number):
    """Mean |stated - true| and mean (stated - true) of classes with a stated value, weighted, in points."""
    some = (number > 0) & np.isfinite(stated)
    gap = 100 * (stated[some] - hits[some] / number[some])
    weights = number[some] / max(number[some].sum(), 1)
    return {"error": float(np.abs(gap) @ weights), "bias": float(gap @ weights)}


def agreement(p, truth):
    """Calibration error and error of the total, in percent."""
    return {
        "error": 100 * calibration_error(p, truth).error,
        "total": 100 * float(abs(p.sum() / truth.sum() - 1)),
    }


def mean_labels_of_audits(truth, observed, seed):
    """Mean error of K from audits in percent, and coverage of its interval, over draws of audited samples."""
    rng, k = np.random.default_rng(seed), truth.sum(1).mean()
    found = {}
    for rows in (50, 100, 200):
        errors, covered = [], []
        for _ in range(DRAWS["interval"]):
            drawn = rng.integers(0, len(truth), rows)
            known = observed[drawn] == 1
            interval = mean_labels_interval(truth[drawn], known=known, least=(observed == 1).sum(1).mean())
            errors.append(100 * abs(interval.value / k - 1))
            covered.append(100 * (interval.low <= k <= interval.high))
        found[str(rows)] = {"error": float(np.mean(errors)), "coverage": float(np.mean(covered))}
    return found


def priors_of_audits(observed, truth, mean_labels, seed):
    """Error of class priors in percent of labels, without and with audits; coverage of their intervals; and
    how often gamma warns."""
    rng, shares, counts = np.random.default_rng(seed), truth.mean(0), (observed == 1).sum(0)
    plain = priors_from_shares(counts, mean_labels, samples=len(truth))
    audits = []
    for _ in range(DRAWS["gamma"]):
        rows = rng.choice(len(truth), 50, replace=False)
        known = observed[rows] == 1
        audits.append(priors_from_audit(counts, truth[rows], known=known, samples=len(truth)))

    def error(priors):
        return 100 * float(np.abs(priors.shares - shares).sum() / shares.sum())

    seen = counts > 0
    within = [((shares >= audit.low) & (shares <= audit.high))[seen].mean() for audit in audits]
    return {
        "shares": error(plain),
        "50 rows audited": float(np.mean([error(audit) for audit in audits])),
        "interval covers": 100 * float(np.mean(within)),
        "gamma warns": 100 * float(np.mean([audit.looks_biased for audit in audits])),
    }
