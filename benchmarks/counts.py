"""Measure softmax regression as a member of the auto head, on features that look like counts.

    python benchmarks/counts.py DIR FOLDER

DIR holds the folder `features`. One label of each sample is known, drawn uniformly; five seeds of the draw
and of the split. On features of another kind the auto head has no such member. FOLDER takes the runs. Rows
are added to benchmarks/results/counts.json; those that are there are not measured again.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

import numpy as np
from shared import load_results, markdown, save_results, table, today

import spml

SEEDS = range(5)
SETS = {  # file, share of test samples, and K as in the spec `features`; 0 = the mean of all labels
    "reutersk500": ("more/reutersk500", 0.3, 0.0),
    "slashdot": ("more/slashdot", 0.3, 0.0),
    "yahoo arts": ("more/yahoo_arts462", 0.3, 0.0),
    "medical": ("mulan/medical", 0.0, 1.25),
    "enron": ("mulan/enron", 0.0, 3.38),
    "corel5k": ("mulan/corel5k", 0.0, 3.52),
    "bibtex": ("mulan/bibtex", 0.0, 2.4),
}


def measure(features, folder, name, seed, softmax):
    """Train once: 100 x test mAP, seconds of processor time, and the weight of softmax regression."""
    path, test_share, mean_labels = SETS[name]
    if not mean_labels:
        labels = np.load(features / f"{path}_Y.npz")["Y"]
        mean_labels = float(labels[labels.any(1)].sum(1).mean())
    started = time.process_time()
    without = patch("spml.models.solved.spaces.too_much", return_value="left out")
    with nullcontext() if softmax else without:
        run = spml.train(
            str(features / f"{path}_X.npz"),
            mean_labels=mean_labels,
            data={
                "unlisted": "negative", "observe": "single", "observe_seed": seed, "split_seed": seed,
                "test_share": test_share,
            },
            seed=seed,
            threads=1,
            quiet=True,
            pictures=False,
            overwrite=True,
            output=str(folder / "run"),
        )  # fmt: skip
    weights = [each["weight"] for each in run.summary["members"] if each["head"] == "multinomial"]
    return {
        "mAP": 100 * run.summary["test"]["mAP"],
        "seconds": time.process_time() - started,
        "weight": sum(weights),
    }


def page(result):
    """Results as a page."""
    rows = []
    for name in SETS:
        with_, without = (
            [result["rows"][f"{name} {seed} {softmax}"] for seed in SEEDS] for softmax in (True, False)
        )
        gains = [one["mAP"] - other["mAP"] for one, other in zip(with_, without, strict=True)]

        def mean(key, runs, form=".2f"):
            return format(statistics.mean(run[key] for run in runs), form)

        difference = f"{statistics.mean(gains):+.2f} ({statistics.stdev(gains):.2f})"
        cells = [mean("mAP", without), mean("mAP", with_), difference, mean("weight", with_)]
        rows.append((name, *cells, mean("seconds", without, ".0f"), mean("seconds", with_, ".0f")))
    return markdown(
        "# Softmax regression on features that look like counts",
        "`python benchmarks/counts.py DIR FOLDER`: 100 x test mAP of the auto head with and without softmax "
        "regression as a member; mean of five seeds, with the deviation of the difference between seeds.",
        table(("set", "without", "with", "difference", "weight", "seconds without", "with"), rows),
    )


def main(root, folder):
    """Measure what is missing, and write the results."""
    result = load_results("counts", rows={})
    for seed, name, softmax in itertools.product(SEEDS, SETS, (False, True)):
        key = f"{name} {seed} {softmax}"
        if key not in result["rows"]:
            found = measure(Path(root, "features"), Path(folder), name, seed, softmax)
            result["rows"][key] = found
            result |= today()
            save_results("counts", result)
            print(key, found, flush=True)
    save_results("counts", result, page(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
