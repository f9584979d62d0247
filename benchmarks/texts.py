"""Measure what an auto head learns from abstracts of arXiv with one known category each.

    python benchmarks/texts.py DIR
    python benchmarks/texts.py DIR million

DIR holds the papers (see arxiv.py). The primary category of a paper is known in training; all categories
of the test papers are the truth. The second command measures time and memory of a million short texts,
whose words are drawn from titles of one category each. Both write benchmarks/results/texts.json and .md.
"""

from __future__ import annotations

import sys
import tempfile
import time
from itertools import product
from pathlib import Path

import numpy as np
import pandas
from arxiv import read_papers
from shared import load_results, markdown, save_results, table, today
from sklearn.decomposition import TruncatedSVD
from sklearn.linear_model import LogisticRegression, RidgeClassifier

import spml
from spml.engine.process_memory import peak_memory
from spml.metrics import mean_average_precision
from spml.models import Tfidf

AXES = (256, 512)
RIDGE, SOFTMAX = (1.0, 3.0, 10.0), (10.0, 30.0, 100.0)
MILLION, NEW, WORDS = 1_000_000, 10_000, 9


def measure(root, folder):
    """Rows of the table: model, 100 x test mAP, seconds."""
    table, classes, full, known = read_papers(root, "uniform")
    test = (table["split"] == "test").to_numpy()
    truth = full[test] == 1
    rows = []

    def add(name, scores, start, note=""):
        score = 100 * float(mean_average_precision(scores, truth))
        rows.append({"model": name, "mAP": score, "seconds": time.process_time() - start, "note": note})
        print(rows[-1], flush=True)

    start, texts = time.process_time(), table[["title", "abstract"]]
    settings = {"quiet": True, "threads": 1, "overwrite": True}
    split = list(table["split"][~test])
    run = spml.train(
        texts[~test], known[~test], data={"text": "title,abstract"}, classes=classes, split=split,
        output=str(folder / "run"), **settings,
    )  # fmt: skip
    add("auto head on the terms, the default", run.predict(texts[test]).scores, start)
    rows[-1]["MB"] = peak_memory() / 2**20

    network = next(part for part in run.model.modules() if isinstance(part, Tfidf))
    vectors = network.vectors([f"{title}\n{abstract}" for title, abstract in texts.to_numpy()])
    rows[0]["terms"] = vectors.shape[1]
    for axes in AXES:
        start = time.process_time()
        reduced = TruncatedSVD(axes, random_state=0).fit(vectors[~test]).transform(vectors).astype(np.float32)
        lsa = spml.train(
            reduced[~test], known[~test], classes=classes, split=split,
            output=str(folder / "lsa"), **settings,
        )  # fmt: skip
        add(f"auto head on {axes} axes of the same vectors (LSA)", lsa.predict(reduced[test]).scores, start)
    for head, scaling in product(("ridge", "lda"), ("unit", "sqrtl2")):
        start = time.process_time()
        single = spml.train(
            vectors[~test], known[~test], classes=classes, split=split, head=head,
            model={"scaling": scaling}, output=str(folder / "single"), **settings,
        )  # fmt: skip
        scaled = "" if scaling == "unit" else " on square roots"
        add(f"`--head {head}`{scaled}", single.predict(vectors[test]).scores, start)
    others = [("ridge", value, RidgeClassifier(alpha=value)) for value in RIDGE]
    others += [("softmax", value, LogisticRegression(C=value, max_iter=300)) for value in SOFTMAX]
    for name, value, model in others:
        start = time.process_time()
        model.fit(vectors[~test], known[~test])
        scored = model.decision_function if name == "ridge" else model.predict_proba
        add(f"scikit-learn, {name} regression", scored(vectors[test]), start, f"penalty {value:g}")
    return {"classes": len(classes), "training": int((~test).sum()), "test": int(test.sum()), "rows": rows}


def short_texts(root, count):
    """Texts of `WORDS` words each and their categories; the words are drawn from titles of the category."""
    table, classes, _, known = read_papers(root, "uniform")
    draw = np.random.default_rng(0)
    pools = [" ".join(table["title"][known == number]).split() for number in range(len(classes))]
    labels = draw.choice(known, count)
    drawn = [draw.integers(len(pools[label]), size=WORDS) for label in labels]
    texts = [" ".join(pools[label][k] for k in some) for label, some in zip(labels, drawn, strict=True)]
    return texts, labels, classes


def measure_million(root, folder):
    """Time, memory and accuracy of a million short texts."""
    texts, labels, classes = short_texts(root, MILLION + NEW)
    before, processor, clock = peak_memory() / 2**20, time.process_time(), time.perf_counter()
    run = spml.train(
        pandas.DataFrame({"text": texts[:MILLION]}), labels[:MILLION], data={"text": "text"}, classes=classes,
        output=str(folder / "million"), mean_labels=1, quiet=True, threads=1,
    )  # fmt: skip
    return {
        "texts": MILLION,
        "terms": len(next(part for part in run.model.modules() if isinstance(part, Tfidf)).terms),
        "seconds": time.process_time() - processor,
        "wall_seconds": time.perf_counter() - clock,
        "MB": peak_memory() / 2**20,
        "MB_before": before,
        "accuracy": float((run.predict(texts[MILLION:]).scores.argmax(1) == labels[MILLION:]).mean()),
    }


def page(about):
    """Text of the page of results."""
    best = {}
    for row in about["rows"]:
        if row["mAP"] > best.get(row["model"], {"mAP": 0})["mAP"]:
            best[row["model"]] = row
    million = about["million"]
    return markdown(
        "# Texts with one known label",
        f"{about['date']}, {about['versions']['machine']}, one thread: `python benchmarks/texts.py DIR`. "
        f"{about['training']:,} abstracts of arXiv for training and validation, whose primary category is "
        f"known, and {about['test']:,} for the test, with all of {about['classes']} categories; the terms "
        f"are {about['rows'][0]['terms']:,}. Of scikit-learn the best of three penalties by the test. "
        "Seconds are of processor time, with the vectors for the auto head on the terms, without them for "
        "the others.",
        table(
            ("model", "100 x test mAP", "seconds"),
            [(name, f"{row['mAP']:.1f}", f"{row['seconds']:.0f}") for name, row in best.items()],
        ),
        f"The first took {about['rows'][0]['MB']:,.0f} MB at most.",
        "## A million short texts",
        f"`python benchmarks/texts.py DIR million`: {million['texts']:,} texts of {WORDS} words, drawn "
        f"from the titles of one of the {about['classes']} categories each, with the default settings: "
        f"{million['wall_seconds']:.0f} seconds ({million['seconds']:.0f} of processor time) and "
        f"{million['MB']:,.0f} MB at most, {million['MB_before']:,.0f} MB of which were taken before the "
        f"training; {million['terms']:,} terms. Of {NEW:,} new texts, {million['accuracy']:.1%} have the "
        "highest score in their category.",
    )


def main(root, what=""):
    """Measure abstracts, or a million short texts, and write the results next to those of the other."""
    about = load_results("texts")
    with tempfile.TemporaryDirectory() as folder:
        if what == "million":
            about["million"] = measure_million(root, Path(folder))
        else:
            about |= today() | measure(root, Path(folder))
    save_results("texts", about, page(about))


if __name__ == "__main__":
    main(*sys.argv[1:])
