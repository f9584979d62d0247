"""Measure whether a head with correlations between labels helps (`--model.head correlated`).

    spml bench run correlation --root DIR --output FOLDER
    python benchmarks/correlation.py FOLDER

Writes benchmarks/results/correlation.json and .md.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from shared import markdown, mean_sd, read_rows, save_results, table, today

from spml.bench.spec import find_spec
from spml.bench.store import Store

MODES = ("oracle", "observed")


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
    blocks = []
    for mode in MODES:
        rows = []
        for name in names:
            gains = []
            for column in data:
                before, after = cells[column, name, mode], cells[column, f"{name}, correlated", mode]
                gains.append([after[seed] - before[seed] for seed in seeds[column]])
            mean = 100 * np.mean([np.mean(each) for each in gains])
            rows.append((name, *(mean_sd(each, "+.2f") for each in gains), f"{mean:+.2f}"))
        titles = [f"{column} ({len(seeds[column])})" for column in data]
        blocks += [f"Learning rate and epoch selected by `{mode}`:", table(("", *titles, "mean"), rows)]
    return markdown(
        "# Correlations between labels",
        f"{about['date']}, {about['versions']['machine']}, one thread, torch {about['versions']['torch']}, "
        f"commit {about['commit']}. Differences in 100 x test mAP to the same method with a linear head, "
        "paired by seed, mean ± standard deviation over seeds of split, hiding and training (their number in "
        "brackets). Uniform hiding; `full labels` is the control, with nothing hidden. Correlations start at "
        "0.",
        *blocks,
    )


def collect(folder):
    """The results that `spml bench` made."""
    rows = [row for series in Store(f"sqlite:///{folder}/store.sqlite").find().values() for row in series]
    results, order = [], [data.name for data in find_spec("correlation").data]
    for row in read_rows(Path(folder) / "summary.csv"):
        if row["selection"] in MODES:
            keys = {key: row[key] for key in ("data", "candidate", "selection", "median_params")}
            results.append({**keys, "test mAP by seed": json.loads(row["test_mAP_by_seed"])})
    return {
        "commit": ", ".join(sorted({row.versions["commit"] for row in rows})),
        "runs": len(rows),
        "failed": sum(row.status == "failed" for row in rows),
        "hours one after the other": round(sum(row.seconds for row in rows) / 3600, 2),
        "results": sorted(results, key=lambda row: order.index(row["data"])),
    }


if __name__ == "__main__":
    results = {**today(), **collect(sys.argv[1])}
    save_results("correlation", results, page(results))
