"""Measure decisions from single positives: thresholds, probabilities, missing labels and K.

    python benchmarks/decisions.py measure DIR FOLDER [--sets NAME ...] [--seeds 5]
                                   [--hiding uniform frequency natural] [--models auto softmax ridge GR]
    python benchmarks/decisions.py collect FOLDER
    python benchmarks/decisions.py run RUN ...

DIR holds the folder `features` of the spec `features` of `spml bench`, whose labels are hidden uniformly, and
with frequent classes preferred. The names `arxiv` and `arxiv rich` stand for papers in `text` of DIR: random
ones, and some of which most have several categories; with `natural` hiding, their primary category is known.
Scores are kept in FOLDER, and a run that was stopped goes on; `collect` writes
benchmarks/results/decisions.json and .md. A file .json that is removed is measured again from the scores next
to it. `run` prints what the thresholds of runs state about test samples whose labels are all known in the
data of the training.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from importlib import resources
from pathlib import Path

import decision_models as models
import numpy as np
import torch
import yaml
from arxiv import read_papers
from decision_measures import Measured, gap, mean_labels_of_audits, priors_of_audits
from decision_pages import AUDITS, page
from shared import RESULTS, save_results, today
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

import spml
from spml.config import Config, DataConfig, ModelConfig
from spml.metrics import mean_average_precision
from spml.runs.audits.out_of_fold import open_for_run
from spml.runs.predict.batches import Engine

TABLES = "## Tables\n\n"
RATES = (1e-4, 3e-4, 1.2e-3, 5e-3, 2e-2, 8e-2)
HIDING = {
    "uniform": {"observe": "single"},
    "frequency": {"observe": "frequency", "observe_power": 1.0},
    "natural": {},
}
# Papers of arXiv, and the column of the table that marks those of each set.
ARXIV = {"arxiv": "uniform", "arxiv rich": "rich"}
WORDS, WIDTH, PAPERS = 20_000, 300, 8_000
HEADS = {
    models.AUTO: models.solve_auto,
    models.SOFTMAX: models.solve_linear,
    models.RIDGE: models.solve_linear,
}
MODELS = [*HEADS, models.GR]


def problem_of_set(settings, root, hiding, seed):
    """A feature set with hidden labels."""
    data = DataConfig(
        path=str(root / settings["path"]),
        unlisted="negative",
        observe_seed=seed,
        split_seed=seed,
        test_share=settings.get("test_share", 0.0),
        workers=0,
        **HIDING[hiding],
    )
    return models.Problem(
        Config(
            data=data,
            mean_labels=settings["mean_labels"],
            model=ModelConfig(scaling="standard"),
            seed=seed,
            threads=1,
            epochs=20,
            batch_size=settings.get("train", {}).get("batch_size", 128),
        )
    )


def problem_of_papers(name, root, hiding, seed, folder):
    """Papers with one known category each: random ones of the table, by singular vectors of TF-IDF."""
    table, classes, labels, first = read_papers(root, ARXIV[name], PAPERS, seed)
    path = folder / f"{name}-{seed}.features.npz"
    if not path.exists():
        words = TfidfVectorizer(max_features=WORDS, sublinear_tf=True, stop_words="english", min_df=3)
        matrix = words.fit_transform(table["title"] + " " + table["abstract"])
        values = TruncatedSVD(WIDTH, random_state=seed).fit_transform(matrix).astype(np.float32)
        names, split = table["id"].to_numpy(str), table["split"].to_numpy(str)
        np.savez(path, X=values, Y=labels, names=names, classes=np.asarray(classes), split=split)
    data = DataConfig(
        path=str(path), unlisted="negative", observe_seed=seed, split_seed=seed, workers=0, **HIDING[hiding]
    )
    known = dict(zip(table["id"], first.tolist(), strict=True))
    config = Config(
        data=data,
        mean_labels=float(labels.sum(1).mean()),
        model=ModelConfig(scaling="standard"),
        seed=seed,
        threads=1,
        epochs=20,
        batch_size=128,
    )
    return models.Problem(config, known if hiding == "natural" else None)


def rates_of(folder, name, hiding):
    """Learning rates of GR to choose from, or the one that the first seed chose."""
    path = folder / f"{name}-{hiding}-0-{models.GR}.npz"
    return [float(np.load(path, allow_pickle=False)["rate"])] if path.exists() else RATES


def scores_of(problem, path, model, rates):
    """Scores of a model, as they were kept or by fitting it."""
    if path.exists():
        with np.load(path, allow_pickle=False) as kept:
            rows, held, test = (kept[name] for name in ("rows", "held", "test"))
            return models.Scored(rows, held, test, float(kept["rate"]))
    scored = HEADS[model](problem, model) if model in HEADS else models.train(problem, model, rates)
    part = path.with_suffix(".part.npz")
    np.savez(part, **scored._asdict())
    part.rename(path)
    return scored


def measure_model(problem, model, scored):
    """Everything that is decided by the scores of one model."""
    rows = scored.rows
    decided = Measured(
        scored.held,
        problem.observed[rows],
        problem.truth[rows],
        scored.test,
        problem.test_truth,
        (problem.observed == 1).sum(0),
        np.flatnonzero(np.isin(rows, problem.audited)),
        np.flatnonzero(np.isin(rows, problem.val_rows)),
        problem.mean_labels,
    )
    return {
        "test mAP": 100 * float(mean_average_precision(scored.test, problem.test_truth, "exclude")),
        "samples that decide": len(rows),
        "thresholds": decided.thresholds(),
        "K not stated": decided.unknown_k(),
        "stated": decided.stated(),
        "targets": decided.targets(),
        "calibration": decided.calibration(),
        "missing": decided.missing(),
    }


def measure_audits(problem, seed):
    """Estimates of audits for K and about class priors."""
    observed, truth = problem.observed, problem.truth
    return {
        "K": mean_labels_of_audits(truth, observed, seed),
        "priors": priors_of_audits(observed, truth, problem.mean_labels, seed),
    }


def measure(arguments):
    """Measure all sets, the first seed of each before the second."""
    root, folder = Path(arguments.root), Path(arguments.folder)
    folder.mkdir(parents=True, exist_ok=True)
    text = (resources.files("spml.bench") / "specs" / "features.yaml").read_text(encoding="utf-8")
    sets = yaml.safe_load(text)["data"]
    names = arguments.sets or [*sets, *ARXIV]
    for seed, hiding, name in itertools.product(range(arguments.seeds), arguments.hiding, names):
        if hiding not in (("uniform", "natural") if name in ARXIV else ("uniform", "frequency")):
            continue
        wanted = [*arguments.models, AUDITS]
        paths = {model: folder / f"{name}-{hiding}-{seed}-{model}.json" for model in wanted}
        if all(path.exists() for path in paths.values()):
            continue
        if name in ARXIV:
            problem = problem_of_papers(name, root, hiding, seed, folder)
        else:
            problem = problem_of_set(sets[name], root, hiding, seed)
        for model, path in paths.items():
            if path.exists():
                continue
            started = time.process_time()
            if model == AUDITS:
                found = measure_audits(problem, seed)
            else:
                scored = scores_of(problem, path.with_suffix(".npz"), model, rates_of(folder, name, hiding))
                found = measure_model(problem, model, scored)
            found["CPU seconds"] = round(time.process_time() - started, 1)
            part = path.with_suffix(".part")
            part.write_text(json.dumps(found))
            part.rename(path)
            print(name, hiding, seed, model, found["CPU seconds"], flush=True)


def measure_run(folder):
    """Error and bias of precision and recall as the thresholds of a run state them, on its test samples."""
    run = spml.load(folder)
    data = open_for_run(run, run.settings.data)
    truth = data.truth["test"].to_ternary() > 0
    predicted = run.logits(data.splits["test"], Engine()) >= np.asarray(run.thresholds.logits)
    stated = np.asarray(
        [(cut.precision, cut.recall) for cut in run.thresholds.classes], np.float64
    ).T  # None becomes NaN
    hits = (predicted & truth).sum(0)
    found = {
        name: gap(*row)
        for name, *row in (
            ("precision", stated[0], hits, predicted.sum(0)),
            ("recall", stated[1], hits, truth.sum(0)),
        )
    }
    print(folder, json.dumps(found))


def collect(folder):
    """Write the results, and the tables of their page below its introduction, which is written by hand."""
    kept = {}
    for hiding in HIDING:
        for path in sorted(Path(folder).glob(f"*-{hiding}-*.json")):
            data, _, seed, model = path.stem.rsplit("-", 3)
            row = kept.setdefault(hiding, {}).setdefault(data, {}).setdefault(int(seed), {})
            row[model] = json.loads(path.read_text())
    numbers, text = page(today(), kept)
    introduction = (RESULTS / "decisions.md").read_text().split(TABLES)[0]
    save_results("decisions", numbers, introduction + TABLES + text)


def main():
    """Run the command."""
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    measured, collected = commands.add_parser("measure"), commands.add_parser("collect")
    commands.add_parser("run").add_argument("runs", nargs="+")
    measured.add_argument("root")
    for command in (measured, collected):
        command.add_argument("folder")
    measured.add_argument("--sets", nargs="+")
    measured.add_argument("--seeds", type=int, default=5)
    measured.add_argument("--hiding", nargs="+", default=list(HIDING), choices=HIDING)
    measured.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    arguments = parser.parse_args()
    if arguments.command == "run":
        for folder in arguments.runs:
            measure_run(folder)
    elif arguments.command == "collect":
        collect(arguments.folder)
    else:
        measure(arguments)


if __name__ == "__main__":
    main()
