"""Measure how long it takes to solve a head for all penalties, and what the tolerance changes.

    python benchmarks/solving.py DATA    # DATA holds the folder `features`, which is not in this repository

For each feature set and loss, the path of 13 penalties is solved with the default tolerance, in float32, and
with a tenth of it, in float64. Seconds are CPU time of one thread, in which other load on the machine counts
less than in wall time, and include the rotation to principal axes. Test mAP is computed for each solution of
both paths; its largest difference is what the tolerance changes. Ridge regression, solved in closed form, is
the reference for time. Writes benchmarks/results/solving.json and .md.
"""

from __future__ import annotations

import sys
import time
from functools import partial

import numpy as np
import torch
from shared import feature_sets, markdown, open_set, save_results, table, today

from spml import models
from spml.engine.lbfgs import PENALTIES, TOLERANCE, solve_path
from spml.methods.base import Facts
from spml.methods.registry import create
from spml.metrics import average_precision

CASES = [("scene", "softmax"), ("animals 224", "softmax"), ("animals 224", "an"), ("corel5k", "softmax")]


def prepare(data, method, mean_labels):
    """A started method and a top that has seen no training."""
    train = data.splits["train"]
    objective = create(method, None)
    objective.on_fit_start(Facts(train.observed, train.ids, data.classes, mean_labels))
    width = train.inputs.fetch(range(1), None).shape[1]
    torch.manual_seed(0)
    top = models.Top(width, len(data.classes), scaling="standard", scores=objective.card.scores)
    top.fit_scaling(train.inputs)
    models.start_bias(top, objective.card.head_bias, mean_labels)
    return objective, top


@torch.no_grad()
def test_map(top, data):
    """Test mAP in percent over classes with positives."""
    test = data.splits["test"]
    scores = top(test.inputs.fetch(range(len(test)), None)).logits.numpy()
    return 100 * float(np.nanmean(average_precision(scores, data.truth["test"].to_multi_hot() == 1)))


def path(data, method, mean_labels, tolerance):
    """CPU seconds, evaluations, unconverged solutions, and test mAP of each solution."""
    objective, top = prepare(data, method, mean_labels)
    scores, spent = [], 0.0

    def score(number, record):
        nonlocal spent
        started = time.process_time()
        scores.append(test_map(top, data))
        spent += time.process_time() - started

    started = time.process_time()
    records = solve_path(objective, top, data.splits["train"], on_solution=score, tolerance=tolerance)
    seconds = time.process_time() - started - spent
    return {
        "seconds": round(seconds, 2),
        "evaluations": sum(record["evaluations"] for record in records),
        "not converged": sum(not record["converged"] for record in records),
        "test mAP": [round(value, 3) for value in scores],
    }


def ridge(data, mean_labels):
    """CPU seconds to solve ridge regression for all of its penalties."""
    _, top = prepare(data, "an", mean_labels)
    started = time.process_time()
    moments = models.moments(data.splits["train"], top.scaling)
    solver = models.ClosedForm(models.RIDGE, moments, mean_labels)
    for penalty in solver.penalties:
        solver.fill(top.head, penalty)
    return round(time.process_time() - started, 2)


def measure(root):
    """Rows of the table."""
    rows = []
    for name, method in CASES:
        settings = feature_sets()[name]
        mean_labels, data = settings["mean_labels"], open_set(settings, root, 0)
        solve = partial(path, data, method, mean_labels)
        solve(0.1)  # the first call of everything takes longer
        quick, fine = solve(TOLERANCE), solve(TOLERANCE / 10)
        apart = max(abs(a - b) for a, b in zip(quick["test mAP"], fine["test mAP"], strict=True))
        rows.append({
            "data": name,
            "samples": len(data.splits["train"]),
            "classes": len(data.classes),
            "loss": method,
            "default": quick,
            "finer": fine,
            "largest difference of test mAP": round(apart, 3),
            "ridge seconds": ridge(data, mean_labels),
        })  # fmt: skip
        print(name, method, quick["seconds"], fine["seconds"], flush=True)
    return rows


def page(result):
    """The table as Markdown."""
    rows = []
    for row in result["rows"]:
        quick, fine = row["default"], row["finer"]
        rows.append((
            row["data"],
            f"{row['samples']} x {row['classes']}",
            row["loss"],
            f"{quick['seconds']:.1f}",
            quick["evaluations"],
            f"{fine['seconds']:.1f}",
            fine["evaluations"],
            f"{fine['seconds'] / quick['seconds']:.1f}",
            f"{row['largest difference of test mAP']:.3f}",
            f"{row['ridge seconds']:.1f}",
        ))  # fmt: skip
    return markdown(
        f"{result['date']}, {result['machine']}, one thread of a busy machine, CPU time, torch "
        f"{result['versions']['torch']}; `python benchmarks/solving.py DATA`.",
        f"{len(PENALTIES)} penalties. Default: tolerance {TOLERANCE:g}, float32. Finer: {TOLERANCE / 10:g}, "
        "float64.",
        table(
            "data | training x classes | loss | default: s | evaluations | finer: s | evaluations | "
            "finer / default | test mAP apart by at most | ridge: s",
            rows,
        ),
    )


def main(root):
    """Measure and write the results."""
    torch.set_num_threads(1)
    result = today() | {"rows": measure(root)}
    save_results("solving", result, page(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
