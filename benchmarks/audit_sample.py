"""Compare what `spml audit sample` forecasts with what fully labelled samples really tell.

    python benchmarks/audit_sample.py DIR [--seeds 6]

DIR is a folder of feature sets: NAME.npz, or NAME_X and NAME_Y.npz.

On each set one label per sample is shown, drawn uniformly or by the frequency of its class. `forecast`: ridge
heads are scored by five-fold cross-validation; the forecast from these labels and the true K is compared with
the spread of the true number of labels, and with true mAP on 300 random subsets. `choose`: mAP lost on test
samples by the choice among eight ridge heads by the SP-score, by mAP on m random samples, and by both. Writes
benchmarks/results/audit_sample.json and audit_sample.md.
"""

from __future__ import annotations

import argparse
import math
import statistics
from pathlib import Path

import numpy as np
from shared import save_results, table_head, today
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.preprocessing import StandardScaler

from spml.audit.sampling import draw_sample, forecast_audit
from spml.audit.selection import select_by_audit
from spml.config import DataConfig
from spml.data.readers import read
from spml.decisions import fit_calibration, hidden_probabilities, priors_from_shares
from spml.metrics import bootstrap_map, mean_average_precision

ROWS = (50, 100, 200)
HIDING = {"uniform": 0, "frequency": 1}  # power of the frequency of a class
SUBSETS = 300
PENALTIES = (0.1, 1.0, 10.0, 100.0)
MOST_SCORES = 300_000  # of a set of which mAP is forecast


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


def forecast(name, features, truth, hiding):
    """Forecast and truth for one set."""
    labels = show_one(truth, HIDING[hiding], np.random.default_rng(0))
    models = [held_out(features, labels, penalty) for penalty in (3.0, 30.0)]
    mean_labels = float(truth.sum(1).mean())
    priors = priors_from_shares((labels == 1).sum(0), mean_labels)
    hidden = hidden_probabilities(models[0], labels, fit_calibration(models[0], labels, priors))
    result = {"set": name, "hiding": hiding, "samples": len(truth), "classes": truth.shape[1]}
    for rows in ROWS:
        if rows > len(truth) // 2:
            continue
        if truth.size > MOST_SCORES and rows != 100:
            continue
        told = forecast_audit(models, labels, hidden, rows)
        if rows == 100:
            spread = told.mean_labels_margin / 1.984 * math.sqrt(rows)  # t quantile of 99 degrees of freedom
            result |= {"K": mean_labels, "spread": [spread, float(truth.sum(1).std())]}
        if truth.size > MOST_SCORES:
            continue
        errors = true_errors(models, truth, rows)
        shift = float(errors[0].mean())
        result[str(rows)] = {
            "shift": [told.map_shift, shift],
            "margin": [told.map_margin, float(np.quantile(np.abs(errors[0] - shift), 0.95))],
            "difference": [told.smallest_difference, 2.8 * float((errors[0] - errors[1]).std())],
            "correlation": float(np.corrcoef(errors)[0, 1]),
        }
    return result


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
    lines = [
        "# What an audit sample tells, forecast and measured",
        "",
        "By `benchmarks/audit_sample.py`.",
        "",
    ]
    lines += [
        "## Forecast", "",
        "Forecast / truth, with K known. Spread: standard deviation of the number of labels per sample. "
        "Margin: half of the 95 % interval of mAP on 100 samples around its mean, which lies `shift` points "
        "above mAP on all samples. Difference: that between two heads which 100 samples find with "
        "probability 80 %. "
        "Correlation: of the errors of the two heads.", "",
        *table_head("set", "hiding", "K", "spread", "shift", "margin", "difference", "correlation"),
    ]  # fmt: skip
    for of_set in measured["forecast"]:
        if "K" not in of_set:  # fewer than 200 samples
            continue
        cells = [
            of_set["set"],
            of_set["hiding"],
            f"{of_set['K']:.2f}",
            "{:.2f} / {:.2f}".format(*of_set["spread"]),
        ]
        if hundred := of_set.get("100"):
            for key in ("shift", "margin", "difference"):
                cells.append("{:.1f} / {:.1f}".format(*(100 * value for value in hundred[key])))
            cells.append(f"{hundred['correlation']:.2f}")
        lines.append(f"| {' | '.join(cells + [''] * (8 - len(cells)))} |")
    lines += [
        "", "## Choice among eight ridge heads", "",
        "Points of test mAP lost, mean over sets and seeds.", "",
        "| samples | hiding | choices | SP-score | audit | both |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for rows in map(str, ROWS):
        for hiding in HIDING:
            lost = [
                of["lost"][rows] for of in measured["choose"] if of["hiding"] == hiding and rows in of["lost"]
            ]
            means = [
                f"{100 * statistics.fmean(of[way] for of in lost):.2f}"
                for way in ("SP-score", "audit", "both")
            ]
            lines.append(f"| {rows} | {hiding} | {len(lost)} | {' | '.join(means)} |")
    return "\n".join(lines) + "\n"


def main(root, seeds):
    """Measure all sets and write the results."""
    measured = {**today(), "forecast": [], "choose": []}
    for name, features, truth in feature_sets(root):
        for hiding in HIDING:
            measured["forecast"].append(forecast(name, features, truth, hiding))
            if truth.size <= MOST_SCORES and len(truth) >= 400:
                measured["choose"] += [choose(name, features, truth, hiding, seed) for seed in range(seeds)]
        print(name, flush=True)
    save_results("audit_sample", measured, page(measured))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=Path)
    parser.add_argument("--seeds", type=int, default=6)
    main(**vars(parser.parse_args()))
