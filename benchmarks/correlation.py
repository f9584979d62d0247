"""Measure whether a head with correlations between labels helps (`--model.head correlated`).

    spml bench run correlation --root DIR --output FOLDER
    python benchmarks/correlation.py FOLDER

Writes benchmarks/results/correlation.json and .md.
"""

from __future__ import annotations

import csv
import json
import statistics
import sys
from functools import partial
from pathlib import Path

import numpy as np
from shared import save_results, today

from spml.bench.spec import find_spec
from spml.bench.store import Store

MODES = ("oracle", "observed")


def from_the_start(spec, folder):
    """Test mAP by data set, candidate, mode and seed, from the report of `spml bench`."""
    found = []
    with open(Path(folder) / "summary.csv", newline="") as stream:
        for row in csv.DictReader(stream):
            if row["selection"] in MODES:
                by_seed = json.loads(row["test_mAP_by_seed"])
                keys = {key: row[key] for key in ("data", "candidate", "selection")}
                found.append({**keys, "test mAP by seed": by_seed, "median_params": row["median_params"]})
    order = [data.name for data in spec.data]
    return sorted(found, key=lambda row: order.index(row["data"]))


def signed(differences):
    """Mean and standard deviation of differences in mAP, as points."""
    values = [100 * value for value in differences]
    return f"{statistics.mean(values):+.2f} ± {statistics.stdev(values):.2f}"


def table(names, data, differences):
    """Lines of a table of paired differences: a row per name, a column per data set, and their mean.

    Args:
        names: Names of rows.
        data: Names of data sets.
        differences: Function of name and data set that gives one difference per seed.
    """
    titles = [f"{column} ({len(differences(names[0], column))})" for column in data]
    lines = [f"| | {' | '.join(titles)} | mean |", "|---" * (len(data) + 2) + "|"]
    for name in names:
        cells = [differences(name, column) for column in data]
        mean = np.mean([np.mean(cell) for cell in cells])
        lines.append(f"| {name} | {' | '.join(map(signed, cells))} | {100 * mean:+.2f} |")
    return [*lines, ""]


def page(about):
    """The text of correlation.md: seeds of which all methods have a result, at least two of them."""
    cells = {
        (row["data"], row["candidate"], row["selection"]): row["test mAP by seed"] for row in about["results"]
    }
    data, names = (list(dict.fromkeys(key[part] for key in cells)) for part in (0, 1))
    names = [name for name in names if f"{name}, correlated" in names]
    seeds = {
        column: sorted(set.intersection(*(set(found) for key, found in cells.items() if key[0] == column)))
        for column in data
    }
    data = [column for column in data if len(seeds[column]) > 1]

    def gains(mode, name, column):
        before, after = cells[column, name, mode], cells[column, f"{name}, correlated", mode]
        return [after[seed] - before[seed] for seed in seeds[column]]

    lines = [
        "# Correlations between labels",
        "",
        f"{about['date']}, {about['versions']['machine']}, one thread, torch {about['versions']['torch']}, "
        f"commit {about['commit']}. Differences in 100 x test mAP to the same method with a linear head, "
        "paired by seed, mean ± standard deviation over seeds of split, hiding and training (their number in "
        "brackets). Uniform hiding; `full labels` is the control, with nothing hidden. Correlations start at "
        "0.",
        "",
    ]
    for mode in MODES:
        lines += [f"Learning rate and epoch selected by `{mode}`:", ""]
        lines += table(names, data, partial(gains, mode))
    return "\n".join(lines)


def collect(folder):
    """The results that `spml bench` made."""
    rows = [row for series in Store(f"sqlite:///{folder}/store.sqlite").find().values() for row in series]
    return {
        "commit": ", ".join(sorted({row.versions["commit"] for row in rows})),
        "runs": len(rows),
        "failed": sum(row.status == "failed" for row in rows),
        "hours one after the other": round(sum(row.seconds for row in rows) / 3600, 2),
        "results": from_the_start(find_spec("correlation"), folder),
    }


if __name__ == "__main__":
    results = {**today(), **collect(sys.argv[1])}
    save_results("correlation", results, page(results))
