"""Measure what the forest is worth to the auto head.

    python benchmarks/forest.py DIR [SET...]

DIR holds the folder `features` of the spec `features`, whose sets are used (all, or the named ones), with
uniform hiding and seeds 0 and 1. Rows are added to benchmarks/results/forest.json; those that are there are
not measured again. The table of benchmarks/results/forest.md is written from them, below findings that are
written by hand.
"""

from __future__ import annotations

import itertools
import sys
import time

import numpy as np
import torch
from shared import feature_sets, load_results, markdown, open_set, save_results, table, today

from spml.metrics import mean_average_precision, sp_score
from spml.models import FEW, fit_auto

SEEDS = range(2)
VARIANTS = {"without": False, "forest": True}


def measure(data, mean_labels, seed, with_forest):
    """Test mAP and SP-score in percent, share of the forest and CPU seconds of one head."""
    train, val, test = (data.splits[name] for name in ("train", "val", "test"))
    observed = np.concatenate([train.observed.to_ternary(), val.observed.to_ternary()])

    def score(scores, rows, classes):
        return sp_score(scores, observed[rows][:, classes], mean_labels).score

    started = time.process_time()
    fitted = fit_auto(
        train,
        val,
        score,
        cross_validate=len(observed) < FEW,
        mean_labels=mean_labels,
        seed=seed,
        forest=with_forest,
    )
    seconds = time.process_time() - started
    started = time.process_time()
    with torch.inference_mode():
        scores = fitted.head(test.inputs.fetch(range(len(test)), None)).numpy()
    predicted = time.process_time() - started
    truth = data.truth["test"].to_ternary()
    forest = [member for member in fitted.head.settings.members if member.head == "forest"]
    sizes = fitted.head.settings.forest
    return {
        "mAP": round(100 * mean_average_precision(scores, truth, "exclude"), 2),
        "SP": round(100 * sp_score(fitted.held_out, observed[fitted.rows], mean_labels).score, 2),
        "share": forest[0].weight if forest else 0.0,
        "SP of the forest": round(100 * forest[0].score, 2) if forest else None,
        "CPU seconds": round(seconds, 1),
        "CPU seconds per 1,000 predictions": round(1000 * predicted / len(test), 2),
        "MB": round(sum(each.nbytes for each in fitted.head.state_dict().values()) / 1e6, 1),
        "leaves": sizes and {"depth": sizes.depth, "leaves": sizes.leaves, "kept": sizes.kept},
    }


def page(result):
    """The part of the page below its findings; the numbers of a cell are those of the seeds."""
    one_digit = lambda value: "-" if value is None else f"{value:.1f}"  # noqa: E731
    columns = (
        ("test mAP without", "without", lambda row: f"{row['mAP']:.2f}"),
        ("with", "forest", lambda row: f"{row['mAP']:.2f}"),
        ("share", "forest", lambda row: f"{100 * row['share']:.0f} %"),
        ("SP-score of the forest", "forest", lambda row: one_digit(row["SP of the forest"])),
        ("of the linear heads", "without", lambda row: one_digit(row["SP"])),
        ("of the sum", "forest", lambda row: one_digit(row["SP"])),
        ("CPU s without", "without", lambda row: one_digit(row["CPU seconds"])),
        ("with", "forest", lambda row: one_digit(row["CPU seconds"])),
        ("MB without", "without", lambda row: one_digit(row["MB"])),
        ("with", "forest", lambda row: one_digit(row["MB"])),
    )
    rows = [
        (name, *(", ".join(map(text, variants[variant].values())) for _, variant, text in columns))
        for name, variants in result["rows"].items()
    ]
    packages = ", ".join(result["versions"][name] for name in ("spml", "torch", "numpy"))
    return markdown(
        "## Table",
        f"{result['date']}, {result['versions']['machine']}, one thread; spml, torch, NumPy {packages}.",
        table(("", *(title for title, *_ in columns)), rows),
    )


def main(root, *names):
    """Measure what is missing, and write the results."""
    torch.set_num_threads(1)
    sets, result = feature_sets(), load_results("forest", rows={})
    for seed, name, variant in itertools.product(SEEDS, names or sets, VARIANTS):
        by_seed = result["rows"].setdefault(name, {}).setdefault(variant, {})
        if str(seed) not in by_seed:
            data = open_set(sets[name], root, seed)
            by_seed[str(seed)] = measure(data, sets[name]["mean_labels"], seed, VARIANTS[variant])
            print(name, variant, seed, by_seed[str(seed)], flush=True)
            result |= today()
            save_results("forest", result)
    save_results("forest", result, page(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
