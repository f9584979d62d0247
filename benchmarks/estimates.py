"""Measure again what pages quote about estimates: thresholds, probabilities, lists, audits and reviews.

    python benchmarks/estimates.py DIR FOLDER [--seeds 3] [--only PAGE ...]

DIR holds the folders `features` and `text`, FOLDER takes everything that is kept, and a run that was stopped
goes on. Pages are `decisions`, `natural`, `loop` and `audit_sample`; each is made by the script of its name,
as that says. The sets of `decisions` are those of the spec `features` without bibtex, which takes too long,
and two of papers.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
FEATURES = (
    "emotions",
    "medical",
    "scene",
    "yeast",
    "enron",
    "cal500",
    "animals 224",
    "animals 448",
    "corel5k",
)
SETS = (*FEATURES, "arxiv", "arxiv rich")
PAGES = ("decisions", "natural", "loop", "audit_sample")


def commands(page, root, folder, seeds):
    """Commands that measure and write a page, as lists of words."""
    if page == "decisions":
        kept, heads = folder / "decisions", ("auto", "softmax", "ridge")
        yield "decisions.py", "measure", root, kept, "--seeds", seeds, "--sets", *SETS, "--models", *heads
        yield "decisions.py", "collect", kept
    elif page == "natural":
        yield "natural.py", "make", root, folder / "natural"
        bench = folder / "natural" / "bench"
        yield "spml", "bench", "run", HERE / "natural.yaml", "--root", folder / "natural", "--output", bench
        yield "natural.py", "collect", folder / "natural"
    elif page == "loop":
        yield "loop.py", "run", root, folder / "loop", seeds
        yield "loop.py", "collect", folder / "loop"
    else:
        yield "audit_sample.py", root / "features", "--seeds", seeds


def main():
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=PAGES, choices=PAGES)
    given = parser.parse_args()
    for page in given.only:
        for first, *words in commands(page, given.root, given.folder, given.seeds):
            command = ["-m", "spml"] if first == "spml" else [HERE / first]
            subprocess.run([sys.executable, *map(str, [*command, *words])], check=True)


if __name__ == "__main__":
    main()
