"""Compare labels that people gave first with uniform draws: papers of arXiv, by their primary category.

    python benchmarks/natural.py make DIR FOLDER
    spml bench run benchmarks/natural.yaml --root FOLDER --output FOLDER/bench
    python benchmarks/natural.py collect FOLDER

DIR holds the papers (see arxiv.py). FOLDER/arxiv.npz holds random papers, FOLDER/arxiv-rich.npz papers of
which most have several categories: 300 singular vectors of TF-IDF of title and abstract, fitted on the
training papers, all categories (`Y`), and the primary one (`observed`). The comparison learns from
primary categories and, for the same papers, from one of all categories drawn at random. `collect` adds
which categories are put first, and what `decisions.py` found about thresholds and lists on such papers,
and writes benchmarks/results/natural.json and .md. `make` prints the mean labels of both sets, which
natural.yaml states.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
from arxiv import read_papers
from scipy.stats import spearmanr
from shared import load_results, markdown, read_rows, save_results, table, today
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from spml.common.phrases import counted

VIEWS = {"arxiv": "uniform", "arxiv-rich": "rich"}
WORDS, WIDTH, PAPERS = 20_000, 300, 8_000
FEWEST = 50  # papers of a category with others, of which shares are told
RULE = "K known, EB5"


def arrays_of(root, view, papers):
    """Arrays of the feature file of a view, of all papers or of so many drawn at random."""
    table, classes, labels, known = read_papers(root, view, papers)
    split, texts = table["split"].to_numpy(str), (table["title"] + " " + table["abstract"]).to_numpy(str)
    words = TfidfVectorizer(max_features=WORDS, sublinear_tf=True, stop_words="english", min_df=3)
    training = words.fit_transform(texts[split == "train"])
    axes = TruncatedSVD(WIDTH, random_state=0).fit(training)
    return {
        "X": axes.transform(words.transform(texts)).astype(np.float32),
        "Y": labels,
        "observed": known,
        "names": table["id"].to_numpy(str),
        "classes": np.asarray(classes),
        "split": split,
    }


def put_first(path):
    """How often each category is put first, against a uniform draw, among papers with several categories."""
    with np.load(path, allow_pickle=False) as file:
        labels, known, classes = file["Y"].astype(bool), file["observed"], file["classes"]
    several = labels.sum(1) > 1
    labels, known = labels[several], known[several]
    uniform = (labels / labels.sum(1, keepdims=True)).sum(0) / np.maximum(labels.sum(0), 1)
    given = np.bincount(known, minlength=len(classes)) / np.maximum(labels.sum(0), 1)
    return {
        "papers": len(several),
        "mean labels": (labels.sum() + (~several).sum()) / len(several),
        "of several": int(several.sum()),
        "classes": {
            str(name): {"papers": int(count), "first": 100 * float(first), "by a draw": 100 * float(draw)}
            for name, count, first, draw in zip(classes, labels.sum(0), given, uniform, strict=True)
            if count >= FEWEST
        },
    }


def methods_of(path):
    """Mean mAP of each candidate by data, kind of known label and selection."""
    rows = read_rows(path)
    found = {}
    for row in rows:
        key = f"{row['data']}, {row['hiding']}"
        found.setdefault(row["candidate"], {}).setdefault(key, {})[row["selection"]] = 100 * float(
            row["mean_mAP"]
        )
    return found, max(int(row["seeds"]) for row in rows)


def decisions():
    """What thresholds and lists state on both sets, by kind of known label, from decisions.json."""
    stated = load_results("decisions")["measured"]
    return {
        f"{name}, {label}": {
            head: {"stated": found["stated"], "missing": found["missing"], "F1": found["K not stated"][RULE]}
            for head, found in stated[hiding][name].items()
            if "stated" in found
        }
        for name in ("arxiv", "arxiv rich")
        for label, hiding in (("given", "natural"), ("uniform", "uniform"))
    }


def collect(folder):
    """Write the results, below findings that are written by hand."""
    methods, seeds = methods_of(Path(folder, "bench", "summary.csv"))
    about = {
        **today(),
        "seeds": seeds,
        "put first": {name: put_first(Path(folder, f"{name}.npz")) for name in VIEWS},
        "methods": methods,
        "decisions": decisions(),
    }
    save_results("natural", about, page(about))


def page(about):
    """The part of the page below its findings."""
    blocks = [f"{about['date']}, {about['versions']['machine']}, {counted(about['seeds'], 'seed')}."]
    blocks += ["### Share of the papers with several categories in which a category is the first"]
    for name, found in about["put first"].items():
        ordered = sorted(found["classes"].items(), key=lambda item: item[1]["first"])
        blocks += [
            f"{name}: {found['papers']:,} papers with {found['mean labels']:.2f} categories, "
            f"{found['of several']:,} of them with several; categories of at least {FEWEST} of these.",
            table(
                "category | papers | first, % | by a uniform draw, %",
                [
                    (label, f"{row['papers']:,}", f"{row['first']:.0f}", f"{row['by a draw']:.0f}")
                    for label, row in ordered
                ],
            ),
        ]
    methods = about["methods"]
    keys = list(next(iter(methods.values())))
    ranked = sorted(methods.items(), key=lambda item: -item[1][keys[0]]["oracle"])
    rows = [
        (name, *(f"{row[key]['oracle']:.1f} / {row[key]['observed']:.1f}" for key in keys))
        for name, row in ranked
    ]
    lost = [np.mean([row[key]["oracle"] - row[key]["observed"] for row in methods.values()]) for key in keys]
    rows.append(("mean loss of the selection", *(f"{value:.2f}" for value in lost)))
    correlations = []
    for first, second in itertools.pairwise(keys):
        if first.split(", ")[0] == second.split(", ")[0]:
            pairs = [(row[first]["oracle"], row[second]["oracle"]) for row in methods.values()]
            rho = spearmanr(*zip(*pairs, strict=True)).statistic
            correlations.append(
                f"Rank correlation of all candidates between {first} and {second}: {rho:.2f}."
            )
    blocks += [
        "### 100 x test mAP: selected by full validation labels / by known labels alone",
        table(("", *keys), rows),
        "\n".join(correlations),
    ]
    rows = []
    for name, heads in about["decisions"].items():
        for head, found in heads.items():
            gap = found["stated"]["precision, test"]
            cells = [
                f"{gap['error']:.1f} ({gap['bias']:+.1f})",
                "{macro:.1f} / {micro:.1f}".format(**found["F1"]),
            ]
            lists = [found["missing"][size] for size in ("100", "500")]
            rows.append((name, head, *cells, *(f"{row['true']:.0f} % ({row['bias']:+.0f})" for row in lists)))
    return markdown(
        "## Tables",
        *blocks,
        "### Thresholds and lists",
        "Error (bias) of the stated precision on test samples in points; macro / micro F1 on test samples; "
        "share of the first 100 and 500 of the list of missing labels that is right, and bias of what is "
        "expected.",
        table(("", "head", "precision", "F1", "first 100", "first 500"), rows),
    )


def make(root, folder):
    """Write the feature files of both sets."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, view in VIEWS.items():
        arrays = arrays_of(root, view, PAPERS)
        np.savez(Path(folder, f"{name}.npz"), **arrays)
        labels = arrays["Y"]
        print(
            f"{name}: {len(labels):,} papers, {labels.shape[1]} categories, {labels.sum(1).mean():.2f} each"
        )


if __name__ == "__main__":
    {"make": make, "collect": collect}[sys.argv[1]](*sys.argv[2:])
