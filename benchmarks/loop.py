"""Measure what reviewed labels are worth, by how they were chosen and by what learns from them.

    python benchmarks/loop.py run DIR FOLDER [SEEDS]
    python benchmarks/loop.py collect FOLDER

DIR holds the folder `features` of the spec `features`. One label of each sample is known. A simulated
reviewer answers for n further pairs of a training sample and a class, from the truth: yes makes a known
positive of the pair, no a known negative. The pairs are

- `list`: those most probably missing, by the scores of the auto head in cross-validation;
- `by class`: the same, as many of each class;
- `uncertain`: those that are missing with a probability nearest 1/2;
- `random`: drawn at random;
- `rows`: all pairs of samples drawn at random.

Then the auto head is solved again, with the answers and by cross-validation. The page also has GR trained by
SGD, from rows of an earlier form of this script. `run` keeps every result in FOLDER and goes on where it was
interrupted; `collect` writes benchmarks/results/loop.json, .md and .png.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from decision_models import solve_auto
from shared import RESULTS, feature_sets, markdown, save_results, table, today

from decisions import problem_of
from spml.common.files import write_text
from spml.decisions.calibration import fit_calibration, hidden_probabilities
from spml.decisions.cuts import f1_cuts
from spml.decisions.priors import priors_from_shares
from spml.labels import ObservedLabels
from spml.metrics import mean_average_precision, precision_recall_f1
from spml.plots import style

AUTO, GR = "auto", "GR"
ORDERS = ("list", "by class", "uncertain", "random", "rows")
SETS = ("animals 224", "yeast", "enron")
BUDGETS = (0.3, 1.0, 3.0)  # answers per training sample
ROUNDS, IN_ROUNDS = 4, 1.0  # answers per training sample that are given in several rounds


class Reviewer:
    """Simulated reviewer of the training samples of one data set.

    Args:
        problem: The data set, with one known label per sample.

    Attributes:
        shown: Known labels of the training, then validation samples, int8 (L, C) in {-1, 0, +1}.
        scores: Scores of these samples by the auto head in cross-validation, before any answer.
        hidden: Probability that a label is a hidden positive, before any answer.
    """

    def __init__(self, problem):
        self.problem, self.data, self.shown = problem, problem.data, problem.observed
        self.count, self.classes = len(problem.train), len(self.data.classes)
        self._answers = self.data.truth["train"].to_ternary()
        self.priors = priors_from_shares((self.shown == 1).sum(0), problem.mean_labels)
        self._order = np.random.default_rng(problem.config.seed).permutation(self._answers.size)
        self._last = None, None
        self.scores = self.learn(self.shown).held
        self.hidden = self.hidden_by(self.scores, self.shown)

    def hidden_by(self, scores, labels):
        """Probability that a label is a hidden positive; 0 where it is known."""
        calibration = fit_calibration(scores, self.shown, self.priors)
        return hidden_probabilities(scores, self.shown, calibration) * (labels == 0)

    def choose(self, order, number, labels, scores, hidden):
        """The pairs that are asked for next, as positions in the flat matrix of the training samples."""
        if order == "random":
            ranked = self._order
        elif order == "rows":
            rows = self._order[self._order < self.count]
            ranked = (rows[:, None] * self.classes + np.arange(self.classes)).ravel()
        elif order == "list":
            ranked = np.argsort(-scores[: self.count].ravel(), kind="stable")
        elif order == "by class":
            known = labels[: self.count] != 0
            rank = np.argsort(np.argsort(np.where(known, np.inf, -scores[: self.count]), 0), 0)
            ranked = np.argsort(rank.ravel(), kind="stable")
        else:
            ranked = np.argsort(np.abs(hidden[: self.count].ravel() - 0.5), kind="stable")
        return ranked[labels.ravel()[ranked] == 0][:number]

    def review(self, order, number, rounds):
        """Labels with the reviewer's answers, and the pairs that were asked for."""
        labels, scores, hidden, asked = self.shown, self.scores, self.hidden, []
        for part in range(1, rounds + 1):
            if part > 1:
                scores = self.learn(labels).held
                hidden = self.hidden_by(scores, labels)
            number_now = round(number * part / rounds) - len(asked)
            pairs = self.choose(order, number_now, labels, scores, hidden)
            asked += pairs.tolist()
            labels = labels.copy()
            labels.reshape(-1)[pairs] = self._answers.reshape(-1)[pairs]
        return labels, np.asarray(asked, np.int64)

    def learn(self, labels):
        """Scores by the auto head that learns from these labels."""
        if self._last[0] is not labels:
            observed = ObservedLabels.from_ternary(labels[: self.count])
            splits = {**self.data.splits, "train": replace(self.problem.train, observed=observed)}
            self._last = labels, solve_auto(self.problem, data=replace(self.data, splits=splits))
        return self._last[1]

    def measure(self, labels):
        """Test metrics of the auto head that learns from these labels."""
        scored = self.learn(labels)
        test, row = self.data.truth["test"].to_ternary(), {}
        for prefix, known in (("", self.shown), ("all ", labels)):
            cuts = f1_cuts(scored.held, known, self.priors).thresholds
            for average in ("macro", "micro"):
                row[f"{prefix}{average} F1"] = precision_recall_f1(scored.test, test, cuts, average).f1
        return {"mAP": float(mean_average_precision(scored.test, test, self.data.empty)), **row}


def cases():
    """Order, answers per training sample and rounds of every result."""
    yield "none", 0.0, 1
    yield "all", 0.0, 1
    yield from ((order, budget, 1) for budget in BUDGETS for order in ORDERS)
    yield "list", IN_ROUNDS, ROUNDS


def run(root, folder, seeds=3):
    """Measure everything that is not in the folder yet."""
    torch.set_num_threads(1)
    Path(folder).mkdir(exist_ok=True)
    for seed, name in itertools.product(range(int(seeds)), SETS):
        path = Path(folder, f"{name}-{seed}.json")
        rows = json.loads(path.read_text()) if path.exists() else []
        done = {(row["order"], row["budget"], row["rounds"]) for row in rows}
        left = [case for case in cases() if case not in done]
        if not left:
            continue
        about = feature_sets()[name]
        reviewer = Reviewer(problem_of(Path(root, about["path"]), "uniform", seed, about["mean_labels"]))
        for order, budget, rounds in left:
            number = reviewer.shown.size if order == "all" else round(budget * reviewer.count)
            labels, asked = reviewer.review(order, number, rounds)
            row = {"data": name, "seed": seed, "order": order, "budget": budget, "rounds": rounds}
            row |= {"model": AUTO, "samples": reviewer.count, "classes": reviewer.classes}
            row |= {"answers": len(asked), **reviewer.measure(labels)}
            if len(asked):
                row["yes"] = float((labels.ravel()[asked] == 1).mean())
                row["expected yes"] = float(reviewer.hidden.ravel()[asked].mean())
            rows.append(row)
            write_text(path, json.dumps(rows))
        print(name, seed, time.strftime("%H:%M:%S"), flush=True)


def collect(folder):
    """Write the results of all data sets and seeds that are complete."""
    wanted, rows = list(cases()), []
    for name in SETS:
        for path in sorted(Path(folder).glob(f"{name}-*.json")):
            found = json.loads(path.read_text())
            by_case = {(row["order"], row["budget"], row["rounds"]): row for row in found}
            if all(case in by_case for case in wanted):
                rows += [by_case[case] for case in wanted]
    short = [{key: round(v, 5) if isinstance(v, float) else v for key, v in row.items()} for row in rows]
    about = {**today(), "threads": 1, "results": short}
    save_results("loop", about, page(about))
    draw(Results(short), RESULTS / "loop.png")


# -- the page --------------------------------------------------------------------------------------------


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
        """A table with a row per pair of its title and a function of the set, which gives a cell."""
        titles = (f"{name} ({seeds})" for name, seeds in self.sets.items())
        return table(("", *titles), [(title, *map(cell, self.sets)) for title, cell in rows])

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


def page(about):
    """The part of the page below its findings."""
    results = Results(about["results"])

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

    machine, torch_, numpy = (about["versions"][name] for name in ("machine", "torch", "numpy"))
    asked = [(f"{order}, {budget:g}", order, budget) for order, budget in results.asked]
    blocks = [
        f"{about['date']}, {machine}, other programs running, one thread, torch {torch_}, NumPy {numpy}.",
        "Rows: how pairs were chosen, and answers per training sample. Columns: data sets (seeds). Cells: "
        "means over seeds, in percent; differences are paired by seed, with their standard deviation.",
        "Answers, the share of yes among them, and in brackets the share that was expected:",
        results.table([(title, answers(*case)) for title, *case in asked]),
    ]
    for metric in ("mAP", "macro F1", "micro F1"):
        blocks += [f"Auto head, test {metric} before any answer, and gains:", results.gains(metric)]
    blocks += [
        "One answer per sample by `list`, in four rounds less in one round:",
        results.table([("test mAP", rounds("mAP")), ("share of yes", rounds("yes"))]),
    ]
    for metric in ("macro F1", "micro F1"):
        blocks += [
            f"Auto head, test {metric}: thresholds from all known labels, less from those known first:",
            results.table([(title, thresholds(metric, *case)) for title, *case in asked]),
        ]
    if any(row["model"] == GR for row in about["results"]):
        blocks += ["GR trained by SGD, test mAP before any answer, and gains:", results.gains("mAP", GR)]
    return markdown("## Tables", *blocks)


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


if __name__ == "__main__":
    {"run": run, "collect": collect}[sys.argv[1]](*sys.argv[2:])
