"""Measure what fully labelled random samples tell.

    python benchmarks/audit_sample.py DIR [SEEDS]

DIR is a folder of feature sets: NAME.npz, or NAME_X and NAME_Y.npz.

On each set one label per sample is shown, drawn uniformly or by the frequency of its class. `precision`:
ridge heads are scored by five-fold cross-validation, and mAP on 300 random subsets is compared with mAP on
all samples. `choose`: mAP lost on test samples by the choice among eight ridge heads by the SP-score, by mAP
on m random samples, and by both. Writes benchmarks/results/audit_sample.json and audit_sample.md.
"""

from __future__ import annotations

import itertools
import math
import statistics
import sys
from pathlib import Path

import numpy as np
from shared import markdown, save_results, table, today
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.preprocessing import StandardScaler

from spml.audit.selection import select_by_audit
from spml.audit.sheets import draw_sample
from spml.config import DataConfig
from spml.data.readers import read
from spml.metrics import bootstrap_map, mean_average_precision

ROWS = (50, 100, 200)
HIDING = {"uniform": 0, "frequency": 1}  # power of the frequency of a class
SUBSETS = 300
PENALTIES = (0.1, 1.0, 10.0, 100.0)
MOST_SCORES = 300_000  # of a set of which mAP is measured


def feature_sets(root):
    """Name, standardised features and full labels of each set; samples without a label are left out."""
    for path in sorted(root.rglob("*.npz")):
        if path.stem.endswith("_Y"):
            continue
        records = read(DataConfig(path=str(path), unlisted="negative"))
        truth = records.labels.to_multi_hot() == 1
        labelled = np.flatnonzero(truth.any(1))
        features = StandardScaler().fit_transform(records.inputs.fetch(labelled, None).numpy())
        features /= math.sqrt(float((features**2).sum(1).mean()))
        yield records.name, features, truth[labelled]


def show_one(truth, power, generator):
    """Observed labels: one of each sample, drawn by the frequency of its class to a power."""
    chances = truth * truth.mean(0) ** power
    shown = (chances.cumsum(1) > generator.random((len(truth), 1)) * chances.sum(1, keepdims=True)).argmax(1)
    labels = np.zeros(truth.shape, np.int8)
    labels[np.arange(len(truth)), shown] = 1
    return labels


def held_out(features, labels, penalty):
    """Scores of each sample by a ridge head that was not fitted to it."""
    folds = KFold(5, shuffle=True, random_state=0)
    known = (labels == 1).astype(float)
    return cross_val_predict(Ridge(alpha=penalty), features, known, cv=folds).astype(np.float32)


def true_errors(models, truth, rows):
    """Differences between mAP on random subsets and on all samples, (models, subsets)."""
    chosen = np.zeros((1 + SUBSETS, len(truth)), np.int16)
    chosen[0] = 1
    for subset in range(SUBSETS):
        chosen[1 + subset, draw_sample(len(truth), rows, subset)] = 1
    values = np.stack([bootstrap_map(scores, truth, chosen) for scores in models])
    return values[:, 1:] - values[:, :1]


def precision(name, features, truth, hiding):
    """What random samples of one set tell about mAP of two heads."""
    labels = show_one(truth, HIDING[hiding], np.random.default_rng(0))
    models = [held_out(features, labels, penalty) for penalty in (3.0, 30.0)]
    result = {"set": name, "hiding": hiding, "samples": len(truth), "classes": truth.shape[1]}
    for rows in ROWS:
        if rows > len(truth) // 2 or truth.size > MOST_SCORES:
            continue
        errors = true_errors(models, truth, rows)
        shift = float(errors[0].mean())
        result[str(rows)] = {
            "shift": shift,
            "margin": float(np.quantile(np.abs(errors[0] - shift), 0.95)),
            "difference": 2.8 * float((errors[0] - errors[1]).std()),
            "correlation": float(np.corrcoef(errors)[0, 1]),
        }
    return result


def medians(measured, rows="100"):
    """Median over sets of what so many samples tell, in points."""
    found = [of_set[rows] for of_set in measured["precision"] if rows in of_set]
    return {
        key: round(100 * statistics.median(each[key] for each in found), 1)
        for key in ("shift", "margin", "difference")
    }


def choose(name, features, truth, hiding, seed):
    """mAP lost by each way to choose, for each number of audited samples."""
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(truth))
    features, truth = features[order], truth[order]
    labels = show_one(truth, HIDING[hiding], generator)
    train, validation = len(truth) // 2, min(400, len(truth) // 4)
    models = {}
    for width in (features.shape[1], max(5, features.shape[1] // 4)):
        columns = generator.permutation(features.shape[1])[:width]
        for penalty in PENALTIES:
            head = Ridge(alpha=penalty).fit(features[:train, columns], labels[:train] == 1)
            models[f"{width} {penalty}"] = head.predict(features[train:, columns])
    test = {
        key: mean_average_precision(scores[validation:], truth[train + validation :])
        for key, scores in models.items()
    }
    scores = {key: of_all[:validation] for key, of_all in models.items()}
    part = slice(train, train + validation)
    lost = {}
    for rows in ROWS:
        if rows > validation:
            continue
        drawn = draw_sample(validation, rows, seed)
        k = float(truth[part][drawn].sum(1).mean())
        audited = {key: of_all[drawn] for key, of_all in scores.items()}
        selection = select_by_audit(scores, labels[part], k, audited, truth[part][drawn])
        picks = {"SP-score": selection.by_observed, "audit": selection.by_audit, "both": selection.best}
        lost[str(rows)] = {way: max(test.values()) - test[pick] for way, pick in picks.items()}
    return {"set": name, "hiding": hiding, "seed": seed, "lost": lost}


def page(measured):
    """The tables, as Markdown."""
    told = []
    for of_set in measured["precision"]:
        if hundred := of_set.get("100"):
            cells = [f"{100 * hundred[key]:.1f}" for key in ("shift", "margin", "difference")]
            told.append((of_set["set"], of_set["hiding"], *cells, f"{hundred['correlation']:.2f}"))
    told.append(("median", "", *(f"{value:.1f}" for value in medians(measured).values()), ""))
    choices, ways = [], ("SP-score", "audit", "both")
    for rows, hiding in itertools.product(map(str, ROWS), HIDING):
        lost = [
            of["lost"][rows] for of in measured["choose"] if of["hiding"] == hiding and rows in of["lost"]
        ]
        means = [f"{100 * statistics.fmean(of[way] for of in lost):.2f}" for way in ways]
        choices.append((rows, hiding, len(lost), *means))
    return markdown(
        "# What an audit sample tells",
        "By `benchmarks/audit_sample.py`.",
        "## mAP of 100 samples",
        "Margin: half of the 95 % interval of mAP on 100 samples around its mean, which lies `shift` points "
        "above mAP on all samples. Difference: that between two heads which 100 samples find with "
        "probability 80 %. Correlation: of the errors of the two heads.",
        table(("set", "hiding", "shift", "margin", "difference", "correlation"), told),
        "## Choice among eight ridge heads",
        "Points of test mAP lost, mean over sets and seeds.",
        table(("samples", "hiding", "choices", *ways), choices),
    )


def main(root, seeds=6):
    """Measure all sets and write the results."""
    measured = {**today(), "precision": [], "choose": []}
    for name, features, truth in feature_sets(Path(root)):
        for hiding in HIDING:
            measured["precision"].append(precision(name, features, truth, hiding))
            if truth.size <= MOST_SCORES and len(truth) >= 400:
                measured["choose"] += [
                    choose(name, features, truth, hiding, seed) for seed in range(int(seeds))
                ]
        print(name, flush=True)
    save_results("audit_sample", measured, page(measured))


if __name__ == "__main__":
    main(*sys.argv[1:])
