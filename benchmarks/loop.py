"""Measure what reviewed labels are worth, by how they were chosen and by what learns from them.

    python benchmarks/loop.py run DIR FOLDER [SEEDS [SET...]]
    python benchmarks/loop.py collect FOLDER

DIR holds the folder `features` of the spec `features`. One label of each sample is known. A simulated
reviewer answers for n further pairs of a training sample and a class, from the truth: yes makes a known
positive of the pair, no a known negative. The pairs are

- `list`: those most probably missing, by the scores of the auto head in cross-validation;
- `by class`: the same, as many of each class;
- `uncertain`: those that are missing with a probability nearest 1/2;
- `random`: drawn at random;
- `rows`: all pairs of samples drawn at random.

Then the auto head is solved again, with the answers and by cross-validation, and GR is trained by SGD.
`run` keeps every result in FOLDER and goes on where it was interrupted; `collect` writes
benchmarks/results/loop.json, .md and .png.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from loop_page import AUTO, GR, ORDERS, write_results

from spml.bench.spec import find_spec
from spml.common.files import write_text
from spml.config import from_dict
from spml.decisions import Judge
from spml.decisions.calibration import fit_calibration, hidden_probabilities
from spml.decisions.cuts import f1_cuts
from spml.decisions.priors import priors_from_shares
from spml.engine import make_fabric
from spml.labels import ObservedLabels
from spml.metrics import mean_average_precision, precision_recall_f1
from spml.runs.fit.build import Build
from spml.runs.fit.solve import Solver
from spml.runs.settle.resolve import Opened, check_stated, open_for_backbone, resolve

SETS = ("animals 224", "yeast", "enron")
BUDGETS = (0.3, 1.0, 3.0)  # answers per training sample
ROUNDS, IN_ROUNDS = 4, 1.0  # answers per training sample that are given in several rounds
RATES = (1.2e-3, 5e-3, 2e-2)  # learning rates from which the SP-score chooses that of GR


class Problem:
    """One data set with one known label per sample, and the simulated reviewer of its training samples.

    Attributes:
        shown: Known labels of the training, then validation samples, int8 (L, C) in {-1, 0, +1}.
        scores: Scores of these samples by the auto head in cross-validation, before any answer.
        hidden: Probability that a label is a hidden positive, before any answer.
    """

    def __init__(self, data, spec, config):
        self.data, self.spec, self.config = data, spec, config
        train, val = data.splits["train"], data.splits["val"]
        self.count, self.classes = len(train), len(data.classes)
        self.shown = np.concatenate([train.observed.to_ternary(), val.observed.to_ternary()])
        self._answers = data.truth["train"].to_ternary()
        self.priors = priors_from_shares((self.shown == 1).sum(0), config.mean_labels)
        self._order = np.random.default_rng(config.seed).permutation(self._answers.size)
        self._last = None, None
        self.scores, _ = self.learn_auto(self.shown)
        self.hidden = self.hidden_by(self.scores, self.shown)
        self.rate = None

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
                scores, _ = self.learn_auto(labels)
                hidden = self.hidden_by(scores, labels)
            number_now = round(number * part / rounds) - len(asked)
            pairs = self.choose(order, number_now, labels, scores, hidden)
            asked += pairs.tolist()
            labels = labels.copy()
            labels.reshape(-1)[pairs] = self._answers.reshape(-1)[pairs]
        return labels, np.asarray(asked, np.int64)

    def model(self, labels, **changes):
        """A model to be fitted to these training labels, and the judge of its solutions."""
        data, config = self.data, replace(self.config, **changes)
        train = replace(data.splits["train"], observed=ObservedLabels.from_ternary(labels[: self.count]))
        opened = Opened(replace(data, splits={**data.splits, "train": train}), self.spec)
        made = Build(resolve(check_stated(config)[0], opened), make_fabric("cpu", 1, "32-true")).place()
        return made, Judge(data.splits["val"], None, "observed", config.mean_labels, data.empty)

    def learn_auto(self, labels):
        """Out-of-fold scores of the labelled samples, and scores of the test samples."""
        if self._last[0] is not labels:
            made, judge = self.model(labels, method="auto")
            solved = Solver(made, judge).solve_auto(every=True)
            made.top.set_ensemble(solved.head)
            held_out = solved.held_out[1].scores.gather()[np.argsort(solved.rows)]
            self._last = labels, (held_out, made.predict("test"))
        return self._last[1]

    def learn_gr(self, labels):
        """Scores of the validation and of the test samples by GR, trained with these training labels."""
        if self.rate is None:
            first = {rate: self.train_gr(self.shown, rate) for rate in RATES}
            self.rate = max(RATES, key=lambda rate: first[rate][2])
            if labels is self.shown:
                return first[self.rate][:2]
        return self.train_gr(labels, self.rate)[:2]

    def train_gr(self, labels, rate):
        """Train GR by SGD: scores of validation and test samples, and SP-score of the epoch that is kept."""
        made, judge = self.model(labels, optim=replace(self.config.optim, lr=rate))
        fitted = made.fit(judge)
        return made.predict("val"), made.predict("test"), fitted.history[fitted.best][judge.metric]

    def measure(self, model, labels):
        """Test metrics of a model that learns from these labels."""
        first = self.count if model == GR else 0
        held_out, logits = self.learn_gr(labels) if model == GR else self.learn_auto(labels)
        test, row = self.data.truth["test"].to_ternary(), {}
        for prefix, known in (("", self.shown), ("all ", labels)):
            cuts = f1_cuts(held_out, known[first:], self.priors).thresholds
            for average in ("macro", "micro"):
                row[f"{prefix}{average} F1"] = precision_recall_f1(logits, test, cuts, average).f1
        return {"mAP": float(mean_average_precision(logits, test, self.data.empty)), **row}


def cases():
    """Order, answers per training sample, rounds and model of every result."""
    for model in (AUTO, GR):
        yield "none", 0.0, 1, model
    for model in (AUTO, GR):
        yield "all", 0.0, 1, model
    for budget in BUDGETS:
        for order in ORDERS:
            yield order, budget, 1, AUTO
            if budget == 1 and order in ("list", "random"):
                yield order, budget, 1, GR
    yield "list", IN_ROUNDS, ROUNDS, AUTO


def run(root, folder, seeds, names):
    """Measure everything that is not in the folder yet."""
    torch.set_num_threads(1)
    Path(folder).mkdir(exist_ok=True)
    described = {data.name: data for data in find_spec("features").data}
    common = {"method": "gr", "epochs": 20, "model": {"scaling": "standard"}, "threads": 1, "output": "run"}
    for seed in range(int(seeds)):
        for name in names or SETS:
            path = Path(folder, f"{name}-{seed}.json")
            rows = json.loads(path.read_text()) if path.exists() else []
            done = {(row["order"], row["budget"], row["rounds"], row["model"]) for row in rows}
            left = [case for case in cases() if case not in done]
            if not left:
                continue
            about = described[name]
            data = {**about.settings, "path": str(Path(root, about.settings["path"])), "workers": 0}
            data |= {"observe": "single", "observe_seed": seed, "split_seed": seed}
            stated = {"data": data, "seed": seed, "mean_labels": about.mean_labels, **about.train}
            config = from_dict({**common, **stated})
            problem = Problem(*open_for_backbone(config)[:2], config)
            reviewed = None, None
            for order, budget, rounds, model in left:
                if reviewed[0] != (order, budget, rounds):
                    number = problem.shown.size if order == "all" else round(budget * problem.count)
                    reviewed = (order, budget, rounds), problem.review(order, number, rounds)
                labels, asked = reviewed[1]
                row = {"data": name, "seed": seed, "order": order, "budget": budget, "rounds": rounds}
                row |= {"model": model, "samples": problem.count, "classes": problem.classes}
                row |= {"answers": len(asked), **problem.measure(model, labels)}
                if len(asked):
                    row["yes"] = float((labels.ravel()[asked] == 1).mean())
                    row["expected yes"] = float(problem.hidden.ravel()[asked].mean())
                rows.append(row)
                write_text(path, json.dumps(rows))
            print(name, seed, time.strftime("%H:%M:%S"), flush=True)


def collect(folder):
    """Write the results of all data sets and seeds that are complete."""
    wanted, rows = list(cases()), []
    for name in SETS:
        for path in sorted(Path(folder).glob(f"{name}-*.json")):
            found = json.loads(path.read_text())
            by_case = {(row["order"], row["budget"], row["rounds"], row["model"]): row for row in found}
            if all(case in by_case for case in wanted):
                rows += [by_case[case] for case in wanted]
    write_results(rows, {"threads": 1, "rates of GR": RATES})


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    if command == "run":
        root, kept, *rest = arguments
        run(root, kept, rest[0] if rest else 5, rest[1:])
    else:
        collect(*arguments)
