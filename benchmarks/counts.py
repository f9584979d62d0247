"""Measure softmax regression as a member of the auto head, on features that look like counts.

    python benchmarks/counts.py DIR FOLDER

DIR holds the folder `features`. One label of each sample is known, drawn uniformly; five seeds of the draw
and of the split. On features of another kind the auto head has no such member. FOLDER takes what is measured,
and a run that was stopped goes on. Writes benchmarks/results/counts.json and counts.md.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

import numpy as np
from shared import save_results, table_head, table_row, today

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


def page(rows):
    """Results as a page."""
    lines = [
        "# Softmax regression on features that look like counts",
        "",
        "`python benchmarks/counts.py DIR FOLDER`: 100 x test mAP of the auto head with and without softmax "
        "regression as a member; mean of five seeds, with the deviation of the difference between seeds.",
        "",
        *table_head("set", "without", "with", "difference", "weight", "seconds without", "with"),
    ]
    for name in SETS:
        with_, without = ([rows[f"{name} {seed} {softmax}"] for seed in SEEDS] for softmax in (True, False))
        gains = [one["mAP"] - other["mAP"] for one, other in zip(with_, without, strict=True)]

        def mean(runs, key):
            return statistics.mean(run[key] for run in runs)

        lines.append(
            table_row(
                name,
                f"{mean(without, 'mAP'):.2f}",
                f"{mean(with_, 'mAP'):.2f}",
                f"{statistics.mean(gains):+.2f} ({statistics.stdev(gains):.2f})",
                f"{mean(with_, 'weight'):.2f}",
                f"{mean(without, 'seconds'):.0f}",
                f"{mean(with_, 'seconds'):.0f}",
            )
        )
    return "\n".join(lines) + "\n"


def main():
    """Run the command."""
    features, folder = Path(sys.argv[1]) / "features", Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "rows.json"
    rows = json.loads(kept.read_text()) if kept.exists() else {}
    for seed in SEEDS:
        for name in SETS:
            for softmax in (False, True):
                key = f"{name} {seed} {softmax}"
                if key not in rows:
                    rows[key] = measure(features, folder, name, seed, softmax)
                    kept.write_text(json.dumps(rows, indent=1))
                    print(key, rows[key], flush=True)
    save_results("counts", {**today(), "rows": rows}, page(rows))


if __name__ == "__main__":
    main()
