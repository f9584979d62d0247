"""Make feature files whose known labels people gave: papers of arXiv, by their primary category.

    python benchmarks/natural.py DIR FOLDER [--papers 8000]
    spml bench run benchmarks/natural.yaml --root FOLDER --output FOLDER/bench

DIR holds `text/arxiv_cs`. FOLDER/arxiv.npz holds random papers, FOLDER/arxiv-rich.npz papers of which most
have several categories: 300 singular vectors of TF-IDF of title and abstract, fitted on the training papers,
all categories (`Y`), and the primary one (`observed`). The comparison learns from primary categories and,
for the same papers, from one of all categories drawn at random.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from arxiv import read_papers
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

VIEWS = {"arxiv": "uniform", "arxiv-rich": "rich"}
WORDS, WIDTH = 20_000, 300


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


def main():
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--papers", type=int, default=8000)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for name, view in VIEWS.items():
        np.savez(given.folder / f"{name}.npz", **arrays_of(given.root, view, given.papers))


if __name__ == "__main__":
    main()
