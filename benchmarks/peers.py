"""Compare spml with what people would use instead, on one known label per sample.

    python benchmarks/peers.py measure DIR FOLDER [--seeds 5] [--sets A,B] [--peers "A;B"] [--minutes 10]
    python benchmarks/peers.py collect FOLDER

DIR holds the folders `features` and `text` of local data: the ten sets of the spec `features`, and arXiv
abstracts whose known label is their primary category, as people gave it. Of the ten sets one true label of
each sample is drawn. All get the same labelled samples, training and validation together, and the stated K;
`peer_models.py` holds what they do with it. Each fit is a process of its own with one thread, and ends after
--minutes of processor time; results are kept in FOLDER, one file each, so that a stopped run goes on.

Needs: pip install pulearn==0.2.0 scikit-multilearn-ng==0.0.8 cleanlab==2.9.0 mlcpl==0.1.7 pu-toolbox==1.11.0
napkinxc==0.7.2

`collect` writes benchmarks/results/peers.json and .md.
"""

from __future__ import annotations

import argparse
import csv
import inspect
import json
import math
import multiprocessing
import os
import resource
import signal
import statistics
import subprocess
import sys
import warnings
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import natural
import numpy as np
from peer_models import PEERS, Task, out_of_fold
from scipy import stats
from shared import cpu_seconds, feature_sets, markdown, save_results, table
from shared import open_set as open_of_spec
from sklearn.metrics import f1_score

from spml.bench.report.statistics import holm
from spml.common.files import write_json
from spml.metrics import mean_average_precision
from spml.runs.folder.summary import versions

PACKAGES = ("scikit-learn", "pulearn", "scikit-multilearn-ng", "cleanlab", "mlcpl", "pu-toolbox", "napkinxc")
ARXIV, PAPERS = "arxiv", 4000
OURS, CLEANLAB = "spml", "cleanlab"
AUDITED = (100, 500)
WHY = {
    "cal500": " With 376 labelled songs, 174 classes and one known label of 26, the median class has one "
    "known positive, so that little tells members of the auto head apart.",
    "emotions": " Forests suit these 72 measured features; in the sum of the auto head, a forest has half of "
    "the weight at most ([measured](forest.md)).",
    "yeast": " The SP-score gives the forest of the auto head 30 or 50 % of the sum ([measured](forest.md)).",
}
"""Why a peer is ahead, as far as it is known."""
NOT_RUN = (
    "- photographs, lightly-train 0.18.0 (`train_image_classification`, `multilabel`, MobileNetV2 of timm, "
    "of which it needs 1.0.3 or later): with timm 1.0.31, it pools the map before the last convolution and "
    "builds a head for the features after it. RuntimeError: mat1 and mat2 shapes cannot be multiplied "
    "(16x320 and 1280x13)"
)


def open_features(settings, root, seed):
    """Labelled and test samples of a set: features, one known class, all labels; features, all labels."""
    data = open_of_spec(settings, root, seed)

    def features(name):
        samples = data.splits[name]
        return samples.inputs.fetch(np.arange(len(samples)), None).float().numpy()

    def labels(part):
        return (part.to_ternary() > 0).astype(np.int64)

    X = np.concatenate([features("train"), features("val")])
    known = np.concatenate([labels(data.splits[name].observed) for name in ("train", "val")])
    full = np.concatenate([labels(data.truth[name]) for name in ("train", "val")])
    some = known.any(1)
    return X[some], known[some].argmax(1), full[some], features("test"), labels(data.truth["test"])


def open_arxiv(root, folder, seed):
    """The same of arXiv abstracts, whose primary category is known. The seed draws the training papers."""
    kept = folder / "arxiv.npz"
    if not kept.exists():
        np.savez(kept, **natural.arrays_of(root, natural.VIEWS["arxiv"], None))
    with np.load(kept, allow_pickle=False) as file:
        X, known, full, split = (file[name] for name in ("X", "observed", "Y", "split"))
    test = split == "test"
    rows = np.random.default_rng(seed).permutation(np.flatnonzero(~test))[:PAPERS]
    return X[rows], known[rows], full[rows].astype(int), X[test], full[test].astype(int)


def open_set(name, root, folder, seed):
    """Samples of a set, and what is stated about them."""
    if name == ARXIV:
        X, y, full, test, truth = open_arxiv(root, folder, seed)
        return X, y, full, test, truth, Task(full.shape[1], float(full.sum(1).mean()), seed)
    settings = feature_sets()[name]
    parts = open_features(settings, root, seed)
    return *parts, Task(parts[2].shape[1], settings["mean_labels"], seed)


def measure_fit(peer, name, root, folder, seed):
    """mAP, F1 and seconds of one peer on one set."""
    X, y, _, test, truth, task = open_set(name, root, folder, seed)
    start = cpu_seconds()
    scores, decided = PEERS[peer](X, y, test, task)
    seconds = cpu_seconds() - start
    some = truth.any(0)
    return {
        "mAP": 100
        * float(mean_average_precision(np.asarray(scores, np.float64)[:, some], truth[:, some] == 1)),
        "macro F1": 100 * f1_score(truth[:, some], decided[:, some], average="macro", zero_division=0),
        "micro F1": 100 * f1_score(truth[:, some], decided[:, some], average="micro", zero_division=0),
        "seconds": seconds,
    }


def measure_audit(peer, name, root, folder, seed):
    """Share of right labels among the first of the list of missing ones, in percent."""
    X, y, full, _, _, task = open_set(name, root, folder, seed)
    start = cpu_seconds()
    if peer == CLEANLAB:
        from cleanlab.multilabel_classification import rank

        _, probabilities = out_of_fold(X, y, task)
        quality = rank.get_label_quality_scores_per_class([[int(one)] for one in y], probabilities)
        quality[np.arange(len(y)), y] = np.inf  # known labels are right
        order = np.argsort(quality, axis=None, kind="stable")[: max(AUDITED)]
        listed = np.unravel_index(order, quality.shape)
    else:
        listed = listed_by_spml(X, y, task, folder / f"run-{name}-{seed}")
    right = full[listed].astype(bool)
    return {
        **{f"first {n}": 100 * float(right[:n].mean()) for n in AUDITED},
        "share of all": 100 * float((full.sum() - len(y)) / (full.size - len(y))),
        "seconds": cpu_seconds() - start,
    }


def listed_by_spml(X, y, task, folder):
    """Rows and classes that `spml audit` lists, the first first."""
    folder.mkdir(parents=True, exist_ok=True)
    labels = np.zeros((len(y), task.classes), dtype=np.int8)
    labels[np.arange(len(y)), y] = 1
    classes = [f"class {one}" for one in range(task.classes)]
    names = [f"row {row}" for row in range(len(y))]
    np.savez(folder / "features.npz", X=X, Y=labels, names=names, classes=classes)
    k, run = str(task.mean_labels), str(folder / "run")
    audit = ["audit", run, "--top", str(max(AUDITED)), "--min-probability", "0", "--overwrite"]
    train = ["train", str(folder / "features.npz"), "--mean_labels", k, "--output", run, "--overwrite"]
    for command in ([*train, "--seed", str(task.seed)], audit):
        subprocess.run([sys.executable, "-m", "spml", *command], check=True, capture_output=True, text=True)
    with open(folder / "run" / "audit" / "missing.csv", encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    place = {name: row for row, name in enumerate(names)}
    return [place[row["file"]] for row in found], [classes.index(row["label"]) for row in found]


def in_process(work, arguments, path, minutes):
    """Write the result of one fit, or why there is none."""
    warnings.simplefilter("ignore")
    seconds = math.ceil(60 * minutes)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 60))
    try:
        result = work(*arguments)
    except Exception as error:
        result = {"failed": f"{type(error).__name__}: {error}"[:300]}
    write_json(path, result)


def measure(root, folder, *, seeds, sets, peers, minutes):
    """Fit every peer to every set, seed after seed."""
    for seed in range(seeds):
        for name in sets:
            jobs = [("fit", peer, measure_fit) for peer in peers]
            jobs += [("audit", peer, measure_audit) for peer in (OURS, CLEANLAB)]
            for kind, peer, work in jobs:
                path = folder / f"{kind} {name} {peer} {seed}.json"
                slow = folder / f"{kind} {name} {peer} 0.json"
                if seed and slow.exists() and "failed" in json.loads(slow.read_text()):
                    continue
                if path.exists():
                    continue
                process = multiprocessing.get_context("spawn").Process(
                    target=in_process, args=(work, (peer, name, root, folder, seed), path, minutes)
                )
                process.start()
                process.join()
                if process.exitcode == -signal.SIGXCPU:
                    write_json(path, {"failed": f"not finished in {minutes:g} minutes of processor time"})
                elif not path.exists():
                    write_json(path, {"failed": f"ended with exit code {process.exitcode}"})
                print(path.stem, path.read_text()[:200].replace("\n", " "), flush=True)


def written_lines(peer):
    """Lines of code that a user writes, without docstring and signature."""
    lines = inspect.getsource(PEERS[peer]).strip().splitlines()
    return len([line for line in lines[2:] if line.strip()])


def installed(package):
    """Version of a package, or a dash."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "-"


def collect(folder):
    """Write the page and its numbers."""
    fits, audits = {}, {}
    for path in sorted(folder.glob("* * * *.json")):
        kind, rest = path.stem.split(" ", 1)
        rest, seed = rest.rsplit(" ", 1)
        name = next(each for each in [*feature_sets(), ARXIV] if rest.startswith(each + " "))
        store = fits if kind == "fit" else audits
        store.setdefault(name, {}).setdefault(rest[len(name) + 1 :], {})[seed] = json.loads(path.read_text())
    about = {
        "date": date.today().isoformat(),
        "versions": {**versions(), **{package: installed(package) for package in PACKAGES}},
        "lines": {peer: written_lines(peer) for peer in PEERS},
        "fits": fits,
        "audits": audits,
    }
    save_results("peers", about, page(about))


def mean_of(runs, what):
    """Mean over seeds; None where a fit failed or is missing."""
    values = [run[what] for run in (runs or {}).values() if what in run]
    return statistics.mean(values) if values else None


def ahead(ours, theirs):
    """Mean difference theirs - ours over common seeds, and the p-value of a paired t-test."""
    common = [s for s in ours if s in theirs and "mAP" in ours[s] and "mAP" in theirs[s]]
    gaps = [theirs[seed]["mAP"] - ours[seed]["mAP"] for seed in common]
    if len(gaps) < 2:
        return (gaps[0] if gaps else float("nan")), float("nan")
    return statistics.mean(gaps), float(stats.ttest_1samp(gaps, 0).pvalue)


def against_ours(table):
    """Holm-corrected p of Wilcoxon's signed-rank test of each peer against ours, over the sets of both."""
    found = {}
    for peer, row in table.items():
        pairs = [pair for pair in zip(row, table[OURS], strict=True) if None not in pair]
        if peer != OURS and pairs:
            found[peer] = stats.wilcoxon(*zip(*pairs, strict=True)).pvalue
    return dict(zip(found, holm(list(found.values())), strict=True))


def seeds_of(peers):
    """Number of seeds of a set: those that our own runs have."""
    return sum("mAP" in run for run in peers[OURS].values())


def cell(value, best=False):
    """Text of a number, bold where it is the best."""
    text = "-" if value is None else f"{value:.1f}"
    return f"**{text}**" if best else text


MEASURES = {
    "mAP": "100 x test mAP. Rank: mean over the sets that a peer has finished. p: Wilcoxon's signed-rank "
    "test of the means against those of spml, corrected by Holm for the number of peers. Lines: of code that "
    "a user writes.",
    "macro F1": "100 x test macro F1 of what each decides by itself, at its own thresholds.",
    "micro F1": "100 x test micro F1, likewise.",
    "seconds": "Seconds of processor time to fit and predict.",
}


def table_of(about, sets, what):
    """Means of a measure by peer and set, the best in bold; of mAP, also ranks, p and lines of code."""
    fits = about["fits"]
    means = {peer: [mean_of(fits[name].get(peer), what) for name in sets] for peer in PEERS}
    columns = [
        [value for value in column if value is not None] for column in zip(*means.values(), strict=True)
    ]
    tested, rows = against_ours(means) if what == "mAP" else {}, []
    for peer, row in means.items():
        pairs = [*zip(row, columns, strict=True)]
        cells = [
            cell(value, what != "seconds" and value == max(column, default=0)) for value, column in pairs
        ]
        if what == "mAP":
            ranks = [
                1 + sum(other > value for other in column) for value, column in pairs if value is not None
            ]
            cells += [
                f"{statistics.mean(ranks):.1f}" if ranks else "-",
                f"{tested[peer]:.2g}" if peer in tested else "-",
                about["lines"][peer],
            ]
        rows.append((peer, *cells))
    titles = [f"{name} ({seeds_of(fits[name])})" for name in sets]
    return table(["", *titles, *(("rank", "p", "lines") if what == "mAP" else ())], rows)


def page(about):
    """Text of the page of results."""
    fits, sets = about["fits"], [name for name in [*feature_sets(), ARXIV] if name in about["fits"]]
    in_front, audits, failed = [], [], []
    for name in sets:
        gaps = {p: ahead(fits[name][OURS], fits[name][p]) for p in PEERS if p != OURS and p in fits[name]}
        said = "; ".join(
            f"{peer} by {gap:.1f}" + ("" if math.isnan(p) else f" (p = {p:.2g})")
            for peer, (gap, p) in gaps.items()
            if gap > 0
        )
        in_front.append(f"- **{name}**: {said or 'none'}.{WHY.get(name, '')}")
        first = {peer: next(iter(runs.values())) for peer, runs in fits[name].items()}
        failed += [f"- {name}, {peer}: {run['failed']}" for peer, run in first.items() if "failed" in run]
    for name, found in about["audits"].items():
        numbers = [mean_of(found.get(peer), f"first {n}") for n in AUDITED for peer in (OURS, CLEANLAB)]
        audits.append((name, *map(cell, [mean_of(found.get(OURS), "share of all"), *numbers])))
    versions = ", ".join(f"{name} {about['versions'][name]}" for name in PACKAGES)
    return markdown(
        "# What else people would use",
        f"{about['date']}, {about['versions']['machine']}, one thread. {versions}. "
        "`python benchmarks/peers.py`; means over seeds, their number in brackets, which draw the known "
        f"label (of arXiv: {PAPERS:,} of its training papers, whose known label is the primary category; "
        f"{natural.WIDTH} axes of TF-IDF). All get the same labelled samples, and K. "
        "Fits ended after 2 to 8 minutes of processor time. A dash: no result (below).",
        *(
            block
            for what, note in MEASURES.items()
            for block in (f"## {what}", note, table_of(about, sets, what))
        ),
        "## Where a peer is ahead",
        "\n".join(in_front),
        "p: paired t-test over seeds, not corrected for the number of peers.",
        "## Lists of missing labels",
        "Right labels among the first 100 and 500, in percent; `spml audit`, and cleanlab's ranking of every "
        "label by the cross-validated probabilities of one-versus-rest logistic regression. By chance: the "
        "share of hidden labels among all unknown ones.",
        table(" | by chance | spml, 100 | cleanlab, 100 | spml, 500 | cleanlab, 500", audits),
        "## Photographs",
        "What fine-tuning a network with timm gets is in [a table of its own](fine_tuning.md).",
        "## Not finished",
        "\n".join([*failed, NOT_RUN]),
    )


def main():
    """Read the command line."""
    os.environ["OMP_NUM_THREADS"] = "1"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = parser.add_subparsers(dest="part", required=True)
    measuring = parts.add_parser("measure")
    measuring.add_argument("root")
    measuring.add_argument("folder", type=Path)
    measuring.add_argument("--seeds", type=int, default=5)
    measuring.add_argument("--sets", default=",".join([*feature_sets(), ARXIV]))
    measuring.add_argument("--peers", default=";".join(PEERS), help="separated by ;")
    measuring.add_argument("--minutes", type=float, default=10)
    parts.add_parser("collect").add_argument("folder", type=Path)
    given = parser.parse_args()
    if given.part == "collect":
        collect(given.folder)
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    measure(
        given.root,
        given.folder.resolve(),
        seeds=given.seeds,
        sets=given.sets.split(","),
        peers=given.peers.split(";"),
        minutes=given.minutes,
    )


if __name__ == "__main__":
    main()
