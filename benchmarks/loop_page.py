"""Write the results of loop.py: loop.json, the tables of loop.md and the figure loop.png.

The text of loop.md above its tables is written by hand, and stays as it is.
"""

from __future__ import annotations

import json
import time

import numpy as np
from shared import RESULTS, table_head, table_row

from spml.common.files import write_text
from spml.plots import style
from spml.runs.folder.summary import versions

AUTO, GR = "auto", "GR"
ORDERS = ("list", "by class", "uncertain", "random", "rows")
TABLES = "## Tables"


class Results:
    """Results by set, in percent, one value per seed.

    Args:
        rows: Results of all sets and seeds.
    """

    def __init__(self, rows):
        self.sets = {row["data"]: len({r["seed"] for r in rows if r["data"] == row["data"]}) for row in rows}
        self.asked = sorted(
            {(row["order"], row["budget"]) for row in rows if row["budget"]},
            key=lambda each: (each[1], ORDERS.index(each[0])),
        )
        self._found = {}
        for row in sorted(rows, key=lambda row: row["seed"]):
            key = tuple(row[name] for name in ("data", "order", "budget", "rounds", "model"))
            self._found.setdefault(key, []).append(row)

    def of(self, name, metric, order="none", budget=0.0, model=AUTO, rounds=1):
        """Values of a metric by seed, (S,); None if this was not measured. No order: before any answer."""
        found = self._found.get((name, order, budget, rounds, model))
        return 100 * np.asarray([row[metric] for row in found]) if found else None

    def table(self, rows):
        """Lines of a table: a row per pair of its title and a function of the set, which gives a cell."""
        lines = table_head("", *(f"{name} ({seeds})" for name, seeds in self.sets.items()))
        return lines + [table_row(title, *map(cell, self.sets)) for title, cell in rows] + [""]

    def gains(self, metric, model=AUTO):
        """Table of a metric before any answer, and of what answers add."""

        def gain(order, budget):
            return lambda name: paired(
                self.of(name, metric, order, budget, model), self.of(name, metric, model=model)
            )

        rows = [("no answers", lambda name: f"{self.of(name, metric, model=model).mean():.2f}")]
        rows += [
            (f"{order}, {budget:g}", gain(order, budget))
            for order, budget in self.asked
            if all(self.of(name, metric, order, budget, model) is not None for name in self.sets)
        ]
        return self.table([*rows, ("every label", gain("all", 0.0))])


def paired(values, others):
    """Mean and standard deviation over seeds of differences."""
    values = values - others
    return f"{values.mean():+.2f} ± {values.std(ddof=1):.2f}" if len(values) > 1 else f"{values.mean():+.2f}"


def tables(results):
    """The part of the page that follows from the results."""

    def answers(order, budget):
        def cell(name):
            count, yes, expected = (
                results.of(name, metric, order, budget) for metric in ("answers", "yes", "expected yes")
            )
            return f"{count.mean() / 100:,.0f}: {yes.mean():.0f} % ({expected.mean():.0f} %)"

        return cell

    def rounds(metric):
        return lambda name: paired(
            results.of(name, metric, "list", 1.0, rounds=4), results.of(name, metric, "list", 1.0)
        )

    def thresholds(metric, order, budget):
        return lambda name: paired(
            results.of(name, f"all {metric}", order, budget), results.of(name, metric, order, budget)
        )

    asked = [(f"{order}, {budget:g}", order, budget) for order, budget in results.asked]
    lines = [
        "Rows: how pairs were chosen, and answers per training sample. Columns: data sets (seeds). Cells: "
        "means over seeds, in percent; differences are paired by seed, with their standard deviation.",
        "",
        "Answers, the share of yes among them, and in brackets the share that was expected:",
        "",
        *results.table([(title, answers(*case)) for title, *case in asked]),
    ]
    for metric in ("mAP", "macro F1", "micro F1"):
        lines += [f"Auto head, test {metric} before any answer, and gains:", "", *results.gains(metric)]
    lines += ["One answer per sample by `list`, in four rounds less in one round:", ""]
    lines += results.table([("test mAP", rounds("mAP")), ("share of yes", rounds("yes"))])
    for metric in ("macro F1", "micro F1"):
        lines += [
            f"Auto head, test {metric}: thresholds from all known labels, less from those known first:",
            "",
            *results.table([(title, thresholds(metric, *case)) for title, *case in asked]),
        ]
    lines += ["GR trained by SGD, test mAP before any answer, and gains:", "", *results.gains("mAP", GR)]
    return "\n".join(lines)


def draw(results, path):
    """Draw test mAP over the number of answers, a panel per set."""
    budgets = sorted({budget for _, budget in results.asked})
    figure = style.new_figure(3.3 * len(results.sets), 3.1)
    for axes, name in zip(np.atleast_1d(figure.subplots(1, len(results.sets))), results.sets, strict=True):
        style.style_axes(axes, whole=False)
        first, every = (results.of(name, "mAP", order).mean() for order in ("none", "all"))
        for colour, order in zip(style.COLOURS, ORDERS, strict=False):
            means = [results.of(name, "mAP", order, budget).mean() for budget in budgets]
            axes.plot(range(len(means) + 1), [first, *means], "o-", color=colour, ms=3.5, label=order)
        axes.axhline(every, color="#757575", linestyle="--", linewidth=1, label="every label known")
        axes.set_xticks(range(len(budgets) + 1), ["0", *(f"{budget:g}" for budget in budgets)])
        style.label_axes(axes, name, "answers per training sample", "test mAP (%)")
    style.add_legend(axes, loc="upper left", bbox_to_anchor=(0, 0.93))
    style.save(figure, path)


def page(about):
    """The part of the page that follows from loop.json."""
    machine, torch, numpy = (about["versions"][name] for name in ("machine", "torch", "numpy"))
    made = f"{about['date']}, {machine}, other programs running, one thread, torch {torch}, NumPy {numpy}."
    return f"{TABLES}\n\n{made}\n\n{tables(Results(about['results']))}"


def write_results(rows, about):
    """Write the three files."""
    head = {"date": time.strftime("%Y-%m-%d"), "versions": versions(), **about}
    short = [{key: round(v, 5) if isinstance(v, float) else v for key, v in row.items()} for row in rows]
    lines = ",\n".join(map(json.dumps, short))
    write_text(RESULTS / "loop.json", json.dumps(head)[:-1] + f', "results": [\n{lines}\n]}}\n')
    path = RESULTS / "loop.md"
    text = path.read_text(encoding="utf-8").partition(TABLES)[0] if path.exists() else ""
    write_text(path, text + page({**head, "results": short}))
    draw(Results(short), RESULTS / "loop.png")
