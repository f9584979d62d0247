"""Measure how many labelled samples a head on frozen features needs, and what a wrong K costs it.

    python benchmarks/labels.py FEATURES.npz

The features are fully labelled, with a split (`X`, `Y`, `split`). Of training and validation samples, 5, 10,
25, 50 and 100 % are kept, the same ones for every candidate; a larger share contains the smaller ones. Ridge
regression learns from one of the true labels of each, drawn at random, and selects its penalty by the
SP-score; or from all labels, and selects by mAP. The test samples are always all of them.

With all samples, K, the mean number of labels per sample, is stated as it is, not at all, 40 % too high and
40 % too low.

Writes benchmarks/results/labels.json and .md.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
from shared import markdown, mean_sd, save_results, table, today

import spml
from spml.config import Config, DataConfig
from spml.runs.settle.resolve import open_for_backbone

SHARES = (0.05, 0.1, 0.25, 0.5, 1.0)
SEEDS = range(5)
LEARNED = ("train", "val")
K = {"as it is": 1.0, "not stated": None, "40 % too high": 1.4, "40 % too low": 0.6}


def subset(arrays, share, seed):
    """Rows of all test samples and of a share of the training and validation samples."""
    rng, kept = np.random.default_rng(seed), [np.flatnonzero(arrays["split"] == "test")]
    for name in LEARNED:
        rows = rng.permutation(np.flatnonzero(arrays["split"] == name))
        kept.append(rows[: round(share * len(rows))])
    return np.sort(np.concatenate(kept))


def measure(path, folder, *, seed, full, mean_labels):
    """Test mAP of ridge regression on a feature file, and samples with an observed label, by class."""
    hidden = {} if full else {"observe": "single", "observe_seed": seed}
    return spml.train(
        path,
        model={"head": "ridge"},
        data={"unlisted": "negative", **hidden},
        select="oracle" if full else "observed",
        mean_labels=mean_labels,
        threads=1,
        output=str(folder),
        overwrite=True,
        quiet=True,
    ).summary["test"]["mAP"]


def observed(path, seed):
    """Training samples that show each class, where one label of each is observed."""
    data = DataConfig(path=str(path), unlisted="negative", observe="single", observe_seed=seed)
    opened = open_for_backbone(Config(data=data)).data
    return opened.splits["train"].observed.positives_per_class()


def results(source):
    """Rows of the two tables."""
    with np.load(source, allow_pickle=False) as file:
        arrays = dict(file)
    learned = arrays["Y"][arrays["split"] != "test"]
    true_k = float((learned > 0).sum(1).mean())
    shares, told = [], []
    with tempfile.TemporaryDirectory() as work:
        path, folder = Path(work, "features.npz"), Path(work, "run")
        for share in SHARES:
            for seed in SEEDS:
                rows = subset(arrays, share, seed)
                np.savez(path, **{k: v if k == "classes" else v[rows] for k, v in arrays.items()})
                counts = np.asarray(observed(path, seed))
                row = {
                    "share": share,
                    "seed": seed,
                    "training samples": int((arrays["split"][rows] == "train").sum()),
                    "observed per class, median": float(np.median(counts)),
                    "classes without": int((counts == 0).sum()),
                }
                for name, full in (("one label", False), ("all labels", True)):
                    row[name] = measure(path, folder, seed=seed, full=full, mean_labels=true_k)
                shares.append(row)
        for (name, factor), seed in itertools.product(K.items(), SEEDS):
            stated = None if factor is None else max(factor * true_k, 1.0)
            score = measure(path, folder, seed=seed, full=False, mean_labels=stated)
            told.append({"K": name, "stated": stated, "seed": seed, "one label": score})
    return {"classes": len(arrays["classes"]), "K": true_k, "shares": shares, "told": told}


def page(about):
    """Text of the page of results."""
    shares, stated = [], []
    for share in SHARES:
        rows = [row for row in about["shares"] if row["share"] == share]
        one, every = ([row[name] for row in rows] for name in ("one label", "all labels"))
        median, without = (
            statistics.mean(row[name] for row in rows)
            for name in ("observed per class, median", "classes without")
        )
        part = f"{100 * statistics.mean(one) / statistics.mean(every):.0f} %"
        counts = f"{rows[0]['training samples']:,}", f"{median:.1f}", f"{without:.1f}"
        shares.append((f"{100 * share:.0f} %", *counts, mean_sd(one), mean_sd(every), part))
    for name in K:
        rows = [row for row in about["told"] if row["K"] == name]
        value = "-" if rows[0]["stated"] is None else f"{rows[0]['stated']:.2f}"
        stated.append((name, value, mean_sd([row["one label"] for row in rows])))
    return markdown(
        "# How many labels",
        f"{about['date']}, {about['versions']['machine']}, one thread, torch {about['versions']['torch']}: "
        f"`python benchmarks/labels.py {about['source']}`. Ridge regression on frozen features; 100 x test "
        f"mAP, mean ± standard deviation over {len(SEEDS)} draws of the samples and of the observed label; "
        f"{about['classes']} classes, K = {about['K']:.2f}. `one label`: one true label of each sample, "
        "penalty selected by the SP-score. `all labels`: the same samples fully labelled, penalty selected "
        "by mAP. `observed`: training samples that show a class, where one label of each is observed.",
        table(
            "share | training samples | observed, median class | classes without | one label | all labels | "
            "one / all",
            shares,
        ),
        "All samples, one label each, with K stated differently (never below 1: every sample has a label):",
        table(("K", "value", "one label"), stated),
    )


def main(source):
    """Measure, and write the results."""
    about = {**today(), "source": Path(source).name, **results(source)}
    save_results("labels", about, page(about))


if __name__ == "__main__":
    main(*sys.argv[1:])
