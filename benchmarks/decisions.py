"""Measure decisions from single positives: thresholds, probabilities, missing labels and K.

    python benchmarks/decisions.py measure DIR FOLDER [SEEDS]
    python benchmarks/decisions.py collect FOLDER

DIR holds the folder `features` of the spec `features` of `spml bench`, whose labels are hidden uniformly, and
with frequent classes preferred; bibtex is left out, because it takes too long. The names `arxiv` and `arxiv
rich` stand for papers in `text` of DIR: random ones, and some of which most have several categories; with
`natural` hiding, their primary category is known. Scores are kept in FOLDER, and a run that was stopped goes
on; `collect` writes benchmarks/results/decisions.json and .md. A file .json that is removed is measured again
from the scores next to it.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from pathlib import Path

import decision_models as models
import numpy as np
import torch
from arxiv import read_papers
from decision_measures import Measured, mean_labels_of_audits, priors_of_audits
from decision_pages import AUDITS, page, summarise
from shared import feature_sets, save_results, today
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from spml.config import Config, DataConfig, ModelConfig
from spml.metrics import mean_average_precision

LEFT_OUT = "bibtex"
HIDING = {
    "uniform": {"observe": "single"},
    "frequency": {"observe": "frequency", "observe_power": 1.0},
    "natural": {},
}
# Papers of arXiv, and the column of the table that marks those of each set.
ARXIV = {"arxiv": "uniform", "arxiv rich": "rich"}
WORDS, WIDTH, PAPERS = 20_000, 300, 8_000


def problem_of(path, hiding, seed, mean_labels, known=None, **data):
    """Features of a file, with hidden labels."""
    settings = {"unlisted": "negative", "observe_seed": seed, "split_seed": seed, "workers": 0}
    config = Config(
        data=DataConfig(path=str(path), **settings, **data, **HIDING[hiding]),
        mean_labels=mean_labels,
        model=ModelConfig(scaling="standard"),
        seed=seed,
        threads=1,
        epochs=20,
    )
    return models.Problem(config, known)


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
    known = dict(zip(table["id"], first.tolist(), strict=True)) if hiding == "natural" else None
    return problem_of(path, hiding, seed, float(labels.sum(1).mean()), known)


def scores_of(problem, path, model):
    """Scores of a model, as they were kept or by fitting it."""
    if path.exists():
        with np.load(path, allow_pickle=False) as kept:
            return models.Scored(*(kept[name] for name in models.Scored._fields))
    scored = models.HEADS[model](problem, model)
    part = path.with_suffix(".part.npz")
    np.savez(part, **scored._asdict())
    part.rename(path)
    return scored


def measure_model(problem, scored):
    """Everything that is decided by the scores of one model."""
    decided = Measured(problem, scored)
    return {
        "test mAP": 100 * float(mean_average_precision(scored.test, problem.test_truth, "exclude")),
        "samples that decide": len(scored.held),
        "thresholds": decided.thresholds(),
        "K not stated": decided.unknown_k(),
        "stated": decided.stated(),
        "targets": decided.targets(),
        "calibration": decided.calibration(),
        "missing": decided.missing(),
    }


def measure(root, folder, seeds=3):
    """Measure all sets, the first seed of each before the second."""
    torch.set_num_threads(1)
    root, folder = Path(root), Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    sets = {name: settings for name, settings in feature_sets().items() if name != LEFT_OUT}
    for seed, hiding, name in itertools.product(range(int(seeds)), HIDING, [*sets, *ARXIV]):
        if hiding == ("frequency" if name in ARXIV else "natural"):
            continue
        paths = {model: folder / f"{name}-{hiding}-{seed}-{model}.json" for model in (*models.HEADS, AUDITS)}
        if all(path.exists() for path in paths.values()):
            continue
        if name in ARXIV:
            problem = problem_of_papers(name, root, hiding, seed, folder)
        else:
            path, share = root / sets[name]["path"], sets[name].get("test_share", 0.0)
            problem = problem_of(path, hiding, seed, sets[name]["mean_labels"], test_share=share)
        for model, path in paths.items():
            if path.exists():
                continue
            started = time.process_time()
            if model == AUDITS:
                observed, truth, k = problem.observed, problem.truth, problem.mean_labels
                found = {
                    "K": mean_labels_of_audits(truth, observed, seed),
                    "priors": priors_of_audits(observed, truth, k, seed),
                }
            else:
                found = measure_model(problem, scores_of(problem, path.with_suffix(".npz"), model))
            found["CPU seconds"] = round(time.process_time() - started, 1)
            part = path.with_suffix(".part")
            part.write_text(json.dumps(found))
            part.rename(path)
            print(name, hiding, seed, model, found["CPU seconds"], flush=True)


def collect(folder):
    """Write the results, and the tables of their page below its introduction."""
    kept = {}
    for hiding in HIDING:
        for path in sorted(Path(folder).glob(f"*-{hiding}-*.json")):
            data, _, seed, model = path.stem.rsplit("-", 3)
            row = kept.setdefault(hiding, {}).setdefault(data, {}).setdefault(int(seed), {})
            row[model] = json.loads(path.read_text())
    result = today() | {"measured": summarise(kept)}
    save_results("decisions", result, page(result))


if __name__ == "__main__":
    {"measure": measure, "collect": collect}[sys.argv[1]](*sys.argv[2:])
