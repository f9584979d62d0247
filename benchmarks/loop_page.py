"""Write the results of loop.py: loop.json, the tables of loop.md and the figure loop.png.

The text of loop.md above its tables is written by hand, and stays as it is.
"""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path

import numpy as np
from shared import table_head

from spml.common.files import write_text
from spml.plots import style
from spml.runs.folder.summary import versions

RESULTS = Path(__file__).parent / "results"
AUTO, GR = "auto", "GR"
ORDERS = ("list", "by class", "uncertain", "random", "rows")
TABLES = "## Tables"


class Results:
    """Results by set, in percent, one value per seed.

    Args:
        rows: Results of all sets and seeds.
    """

    def __init__(self, rows):
        self.sets = list(dict.fromkeys(row["data"] for row in rows))
        self.budgets = sorted({row["budget"] for row in rows} - {0.0})
        self._found = {}
        for row in sorted(rows, key=lambda row: row["seed"]):
            key = tuple(row[name] for name in ("data", "order", "budget", "rounds", "model"))
            self._found.setdefault(key, []).append(row)

    def of(self, name, metric, order, budget=0.0, model=AUTO, rounds=1):
        """Values of a metric by seed, (S,); None if this was not measured."""
        found = self._found.get((name, order, budget, rounds, model))
        return 100 * np.asarray([row[metric] for row in found]) if found else None

    def first(self, name, metric, model=AUTO):
        """Values before any answer, where there are no known negatives."""
        return self.of(name, metric, "none", model=GR if model == GR else AUTO)

    def gain(self, metric, order, budget, model, name):
        """Gain of answers over none."""
        after = self.of(name, metric, order, budget, model)
        return None if after is None else after - self.first(name, metric, model)

    def difference(self, one, other, name):
        """Difference between two results, given by their arguments to `of` after the set."""
        values = self.of(name, *one), self.of(name, *other)
        return None if values[0] is None or values[1] is None else values[0] - values[1]

    def table(self, rows):
        """Lines of a table: a row per pair of its title and a function of the set, which gives values."""
        seeds = [len(self.first(name, "mAP")) for name in self.sets]
        titles = [f"{name} ({count})" for name, count in zip(self.sets, seeds, strict=True)]
        lines = table_head("", *titles)
        for title, cell in rows:
            cells = [cell(name) for name in self.sets]
            if any(value is not None for value in cells):
                lines.append(f"| {title} | {' | '.join(map(as_text, cells))} |")
        return [*lines, ""]

    def asked(self):
        """Ways of choosing, and answers per training sample."""
        return [(order, budget) for budget in self.budgets for order in ORDERS]


def as_text(values):
    """Mean and standard deviation over seeds of differences; a text as it is."""
    if values is None or isinstance(values, str):
        return values or ""
    return f"{values.mean():+.2f} ± {values.std(ddof=1):.2f}" if len(values) > 1 else f"{values.mean():+.2f}"


def tables(results):
    """The part of the page that follows from the results."""

    def before(metric, model, name):
        return f"{results.first(name, metric, model).mean():.2f}"

    def answers(order, budget, name):
        count, yes, expected = (
            results.of(name, metric, order, budget) for metric in ("answers", "yes", "expected yes")
        )
        return f"{count.mean() / 100:,.0f}: {yes.mean():.0f} % ({expected.mean():.0f} %)"

    def gains(metric, model):
        rows = [("no answers", partial(before, metric, model))]
        for order, budget in results.asked():
            rows.append((f"{order}, {budget:g}", partial(results.gain, metric, order, budget, model)))
        return results.table([*rows, ("every label", partial(results.gain, metric, "all", 0.0, model))])

    def against(title, metric, pairs):
        rows = [
            (name, partial(results.difference, (metric, *one), (metric, *two))) for name, one, two in pairs
        ]
        return [title, "", *results.table(rows)]

    asked = results.asked()
    lines = [
        "Rows: how pairs were chosen, and answers per training sample. Columns: data sets (seeds). Cells: "
        "means over seeds, in percent; differences are paired by seed, with their standard deviation.",
        "",
        "Answers, the share of yes among them, and in brackets the share that was expected:",
        "",
        *results.table(
            [(f"{order}, {budget:g}", partial(answers, order, budget)) for order, budget in asked]
        ),
    ]
    for metric in ("mAP", "macro F1", "micro F1"):
        lines += [f"Auto head, test {metric} before any answer, and gains:", "", *gains(metric, AUTO)]
    for one, others in (("list", ORDERS[2:]), ("by class", ("list", *ORDERS[2:]))):
        lines += against(
            f"Auto head, test mAP: `{one}` less another way of choosing as many pairs:",
            "mAP",
            [
                (f"{other}, {budget:g}", (one, budget), (other, budget))
                for other, budget in asked
                if other in others
            ],
        )
    lines += against(
        "Auto head, test mAP: in four rounds, less in one round:",
        "mAP",
        [("list, 1", ("list", 1.0, AUTO, 4), ("list", 1.0))],
    )
    lines += against(
        "Share of yes: in four rounds, less in one round:",
        "yes",
        [("list, 1", ("list", 1.0, AUTO, 4), ("list", 1.0))],
    )
    for metric in ("macro F1", "micro F1"):
        lines += [
            f"Auto head, test {metric}: thresholds from all known labels, less from those known first:",
            "",
        ]
        lines += results.table(
            [
                (
                    f"{order}, {budget:g}",
                    lambda name, order=order, budget=budget, metric=metric: (
                        results.of(name, f"all {metric}", order, budget)
                        - results.of(name, metric, order, budget)
                    ),
                )
                for order, budget in asked
            ]
        )
    lines += ["GR trained by SGD, test mAP before any answer, and gains:", "", *gains("mAP", GR)]
    return "\n".join(lines)


def draw(results, path):
    """Draw test mAP over the number of answers, a panel per set."""
    figure = style.new_figure(3.3 * len(results.sets), 3.1)
    for axes, name in zip(np.atleast_1d(figure.subplots(1, len(results.sets))), results.sets, strict=True):
        style.style_axes(axes, whole=False)
        first, every = (results.first(name, "mAP").mean(), results.of(name, "mAP", "all").mean())
        for colour, order in zip(style.COLOURS, ORDERS, strict=False):
            means = [results.of(name, "mAP", order, budget).mean() for budget in results.budgets]
            axes.plot(range(len(means) + 1), [first, *means], "o-", color=colour, ms=3.5, label=order)
        axes.axhline(every, color="#757575", linestyle="--", linewidth=1, label="every label known")
        axes.set_xticks(
            range(len(results.budgets) + 1), ["0", *(f"{budget:g}" for budget in results.budgets)]
        )
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
    seeds = {row["data"]: sorted({r["seed"] for r in rows if r["data"] == row["data"]}) for row in rows}
    head = {"date": time.strftime("%Y-%m-%d"), "versions": versions(), **about, "seeds": seeds}
    short = [{key: round(v, 5) if isinstance(v, float) else v for key, v in row.items()} for row in rows]
    lines = ",\n".join(map(json.dumps, short))
    write_text(RESULTS / "loop.json", json.dumps(head)[:-1] + f', "results": [\n{lines}\n]}}\n')
    path = RESULTS / "loop.md"
    text = path.read_text(encoding="utf-8").partition(TABLES)[0] if path.exists() else ""
    write_text(path, text + page({**head, "results": short}))
    draw(Results(short), RESULTS / "loop.png")
