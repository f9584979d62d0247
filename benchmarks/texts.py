"""Measure what an auto head learns from abstracts of arXiv with one known category each.

    python benchmarks/texts.py DIR

DIR holds `text/arxiv_cs`. The primary category of a paper is known in training; all categories of the test
papers are the truth. Writes benchmarks/results/texts.json and .md.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

import numpy as np
from arxiv import read_papers
from sklearn.decomposition import TruncatedSVD
from sklearn.linear_model import LogisticRegression, RidgeClassifier

import spml
from spml.common.files import write_json, write_text
from spml.metrics import mean_average_precision
from spml.models import Tfidf
from spml.runs.folder.summary import versions

RESULTS = Path(__file__).parent / "results"
AXES = (256, 512)
RIDGE, SOFTMAX = (1.0, 3.0, 10.0), (10.0, 30.0, 100.0)


def spent():
    """Processor seconds of this process so far."""
    return time.process_time()


def measure(root, folder):
    """Rows of the table: model, 100 x test mAP, seconds."""
    table, classes, full, known = read_papers(root, "uniform")
    test = (table["split"] == "test").to_numpy()
    truth = full[test] == 1
    rows = []

    def add(name, scores, start, note=""):
        score = 100 * float(mean_average_precision(scores, truth))
        rows.append({"model": name, "mAP": score, "seconds": spent() - start, "note": note})
        print(rows[-1], flush=True)

    start, texts = spent(), table[["title", "abstract"]]
    settings = {"quiet": True, "threads": 1, "overwrite": True}
    split = list(table["split"][~test])
    run = spml.train(
        texts[~test],
        known[~test],
        data={"text": "title,abstract"},
        classes=classes,
        split=split,
        output=str(folder / "run"),
        **settings,
    )
    add("auto head on the terms, the default", run.predict(texts[test]).scores, start)
    rows[-1]["MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    network = next(part for part in run.model.modules() if isinstance(part, Tfidf))
    vectors = network.vectors([f"{title}\n{abstract}" for title, abstract in texts.to_numpy()])
    rows[0]["terms"] = vectors.shape[1]
    for axes in AXES:
        start = spent()
        reduced = TruncatedSVD(axes, random_state=0).fit(vectors[~test]).transform(vectors).astype(np.float32)
        lsa = spml.train(
            reduced[~test], known[~test], classes=classes, split=split,
            output=str(folder / "lsa"), **settings,
        )  # fmt: skip
        add(f"auto head on {axes} axes of the same vectors (LSA)", lsa.predict(reduced[test]).scores, start)
    for name, values, make in (
        ("scikit-learn, ridge regression", RIDGE, lambda value: RidgeClassifier(alpha=value)),
        (
            "scikit-learn, softmax regression",
            SOFTMAX,
            lambda value: LogisticRegression(C=value, max_iter=300),
        ),
    ):
        for value in values:
            start = spent()
            model = make(value).fit(vectors[~test], known[~test])
            probable = hasattr(model, "predict_proba")
            scores = (model.predict_proba if probable else model.decision_function)(vectors[test])
            add(name, scores, start, f"penalty {value:g}")
    return {"training": int((~test).sum()), "test": int(test.sum()), "rows": rows}


def page(about):
    """Text of the page of results."""
    lines = [
        "# Texts with one known label",
        "",
        f"{about['date']}, {about['versions']['machine']}, one thread: `python benchmarks/texts.py DIR`. "
        f"{about['training']:,} abstracts of arXiv for training and validation, whose primary category is "
        f"known, and {about['test']:,} for the test, with all of {about['classes']} categories; the terms "
        f"are {about['rows'][0]['terms']:,}. Of scikit-learn the best of three penalties by the test. "
        "Seconds are of processor time, with the vectors for the auto head on the terms, without them for "
        "the others.",
        "",
        "| model | 100 x test mAP | seconds |",
        "|---|---|---|",
    ]
    best = {}
    for row in about["rows"]:
        if row["mAP"] > best.get(row["model"], {"mAP": 0})["mAP"]:
            best[row["model"]] = row
    lines += [f"| {name} | {row['mAP']:.1f} | {row['seconds']:.0f} |" for name, row in best.items()]
    lines += ["", f"The first took {about['rows'][0]['MB']:,.0f} MB at most.", ""]
    return "\n".join(lines)


def main(root):
    """Measure, and write the results."""
    about = {"date": date.today().isoformat(), "versions": versions(), "classes": 33}
    with tempfile.TemporaryDirectory() as folder:
        about |= measure(root, Path(folder))
    write_json(RESULTS / "texts.json", about)
    write_text(RESULTS / "texts.md", page(about))


if __name__ == "__main__":
    main(*sys.argv[1:])
