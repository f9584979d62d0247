"""Measure whether a head with correlations between labels helps (`--model.head correlated`).

    spml bench run correlation --root DIR --output FOLDER
    python benchmarks/correlation.py collect FOLDER     # linear against correlated, from the start
    python benchmarks/correlation.py continue DIR       # goes on from trained linear heads

`continue` trains a linear head with each method, keeps the epoch that the SP-score selects, and goes on from
there in three ways: with the linear head, with correlations that start at 0, and with correlations that start
from co-occurrence in its own predictions. Learning rates are fixed there. Both commands write their part of
benchmarks/results/correlation.json, and once it has both parts, correlation.md with the tables.
"""

from __future__ import annotations

import copy
import csv
import json
import statistics
import sys
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from shared import load_results, save_results, today

from spml.bench.spec import find_spec, merged
from spml.bench.store import Store
from spml.config import from_dict
from spml.decisions import Judge
from spml.engine import make_fabric
from spml.metrics import mean_average_precision
from spml.runs.fit.build import Build
from spml.runs.settle.init_from import Start
from spml.runs.settle.resolve import check_stated, open_for_backbone, resolve

MODES = {"oracle": "val/mAP", "observed": "val/SP"}
FIRST, SECOND = 5e-3, 1.2e-3  # learning rates of the linear head and of what continues it
UNTRAINED = "co-occurrence, not trained"
WAYS = ("linear", "correlated from 0", "correlated from co-occurrence")


class Watch:
    """Judge of every epoch that also keeps its test mAP."""

    metric = "val/SP"

    def __init__(self, config, data):
        val, truth = data.splits["val"], data.truth["val"]
        self._judge = Judge(val, truth, "observed", config.mean_labels, data.empty)
        self._truth, self._empty = data.truth["test"].to_ternary(), data.empty
        self.epochs = []

    def __call__(self, scores):
        self.epochs.append(self._judge(scores))
        return self.epochs[-1]

    def test(self, scores):
        """Test mAP of scores."""
        return float(mean_average_precision(scores, self._truth, self._empty))

    def selected(self):
        """Test mAP of the epoch that each mode selects."""
        return {
            mode: max(self.epochs, key=lambda epoch: epoch[column])["test"] for mode, column in MODES.items()
        }


def build(config, opened, start=None):
    """A run ready to be fitted, and its judge."""
    run = resolve(check_stated(config)[0], opened)
    run.start = start
    made = Build(run, make_fabric("cpu", 1, "32-true")).place()
    return made, Watch(run.config, run.data)


def fit(made, watch):
    """Train, and return the test mAP of the epoch that each mode selects."""

    def tested(trainer):
        watch.epochs[-1]["test"] = watch.test(made.predict("test", trainer.judged_model))

    made.fit(watch, on_epoch=tested)
    return watch.selected()


def continue_linear(config, opened):
    """Test mAP of a linear head, and of each way to go on from it, by mode."""
    first, watch = build(config, opened)
    fit(first, watch)
    result = {"first": watch.test(first.predict("test"))}
    more = replace(config, epochs=max(config.epochs // 2, 1), optim=replace(config.optim, lr=SECOND))
    for way in WAYS:
        start = Start(Path("first"), copy.deepcopy(first.classifier), {"method": {"name": config.method}})
        if way == "linear":
            made, watch = build(more, opened, start)
        else:
            made, watch = build(replace(more, model=replace(more.model, head="correlated")), opened, start)
        if way == WAYS[1]:
            with torch.no_grad():
                made.top.head.correlation.zero_()
                made.top.head.centre.zero_()
        elif way == WAYS[2]:
            result[UNTRAINED] = watch.test(made.predict("test"))
            result["largest correlation"] = made.top.head.correlation.abs().max().item()
        result[way] = fit(made, watch)
    return result


def continued(spec, root, rows, save):
    """Add the results of `continue_linear` for each data set, method and seed of a specification to `rows`.

    Args:
        spec: Specification.
        root: Folder that its paths start from.
        rows: Results of an earlier call that was interrupted; they are not made again.
        save: Called after each result.
    """
    done = {(row["data"], row["method"], row["seed"]) for row in rows}
    for data in spec.data:
        for seed in spec.seeds:
            settings = dict(data.settings)
            if settings["path"] != "digits":
                settings["path"] = str(Path(root) / settings["path"])
            settings |= {"split_seed": seed, "observe": "single", "observe_seed": seed, "workers": 0}
            common = {"seed": seed, "mean_labels": data.mean_labels, "threads": 1, "output": "run"}
            opened = None
            for candidate in spec.candidates:
                key = {"data": data.name, "method": candidate.name, "seed": seed}
                if candidate.labels == "full" or "model" in candidate.settings or tuple(key.values()) in done:
                    continue
                parts = spec.train, data.train, candidate.settings, common
                config = from_dict(merged(*parts, {"data": settings, "optim": {"lr": FIRST}}))
                opened = opened or open_for_backbone(config)
                rows.append({**key, **continue_linear(config, opened)})
                save()
                print(json.dumps(rows[-1]), flush=True)


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
    first, rows = about["from the start"], about["continued"]["results"]
    cells = {
        (row["data"], row["candidate"], row["selection"]): row["test mAP by seed"] for row in first["results"]
    }
    data, names = (list(dict.fromkeys(key[part] for key in cells)) for part in (0, 1))
    names = [name for name in names if f"{name}, correlated" in names]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    made = Counter((row["data"], row["seed"]) for row in rows)
    rows = [row for row in rows if made[row["data"], row["seed"]] == len(methods)]
    several = Counter(row["data"] for row in rows if row["method"] == methods[0])
    continued_data = [column for column, number in several.items() if number > 1]
    seeds = {
        column: sorted(set.intersection(*(set(found) for key, found in cells.items() if key[0] == column)))
        for column in data
    }
    data = [column for column in data if len(seeds[column]) > 1]

    def from_zero(mode, name, column):
        before, after = cells[column, name, mode], cells[column, f"{name}, correlated", mode]
        return [after[seed] - before[seed] for seed in seeds[column]]

    def gains(value, name, column):
        return [value(row) for row in rows if (row["method"], row["data"]) == (name, column)]

    lines = [
        "# Correlations between labels",
        "",
        f"{first['date']}, {first['versions']['machine']}, one thread, torch {first['versions']['torch']}, "
        f"commit {first['commit']}. Differences in 100 x test mAP to the same method with a linear head, "
        "paired by seed, mean ± standard deviation over seeds of split, hiding and training (their number in "
        "brackets). Uniform hiding; `full labels` is the control, with nothing hidden.",
        "",
    ]
    for mode in MODES:
        lines += [f"Correlations that start at 0; learning rate and epoch selected by `{mode}`:", ""]
        lines += table(names, data, partial(from_zero, mode))
    lines += [
        f"Correlations from co-occurrence in the predictions of a linear head (trained at {FIRST:g}, epoch "
        "selected by `observed`), without further training, against that head:",
        "",
        *table(methods, continued_data, partial(gains, lambda row: row[UNTRAINED] - row["first"])),
    ]
    for mode in MODES:
        for way in WAYS[1:]:
            lines += [
                f"That head trained for half as many epochs more at {SECOND:g}, {way}, against linear; epoch "
                f"selected by `{mode}`:",
                "",
                *table(methods, continued_data, partial(gains, partial(further, way, mode))),
            ]
    return "\n".join(lines)


def further(way, mode, row):
    """Gain of a way to go on over going on with the linear head."""
    return row[way][mode] - row["linear"][mode]


def collect(folder):
    """The part of the results that `spml bench` made."""
    rows = [row for series in Store(f"sqlite:///{folder}/store.sqlite").find().values() for row in series]
    return {
        "commit": ", ".join(sorted({row.versions["commit"] for row in rows})),
        "runs": len(rows),
        "failed": sum(row.status == "failed" for row in rows),
        "hours one after the other": round(sum(row.seconds for row in rows) / 3600, 2),
        "results": from_the_start(find_spec("correlation"), folder),
    }


def main(command, source):
    """Make one part of the results, and the page if there are both."""
    about = load_results("correlation")
    if command == "collect":
        about["from the start"] = {**today(), **collect(source)}
    else:
        torch.set_num_threads(1)
        rows = about.get("continued", {}).get("results", [])
        about["continued"] = {**today(), "results": rows}
        continued(find_spec("correlation"), source, rows, lambda: save_results("correlation", about))
    save_results("correlation", about, page(about) if len(about) == 2 else None)


if __name__ == "__main__":
    main(*sys.argv[1:])
