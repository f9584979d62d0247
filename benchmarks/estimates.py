"""Measure again what pages quote about estimates: thresholds, probabilities, lists, audits and reviews.

    python benchmarks/estimates.py DIR FOLDER [--seeds 3] [--only PAGE ...]

DIR holds the folders `features` and `text`, FOLDER takes everything that is kept, and a run that was stopped
goes on. Pages are `estimates`, `decisions`, `stated`, `natural`, `loop` and `audit_sample`; each is made by
the script of its name (the first three by decisions.py), as that says. `estimates` is the quickest: it leaves
out GR, other hidings and bibtex.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SCORED = ("emotions", "medical", "scene", "yeast", "enron", "cal500", "animals 224", "animals 448", "corel5k")
PAPERS = ("arxiv", "arxiv rich")
QUICK = ("auto", "softmax", "ridge")
PAGES = ("estimates", "decisions", "stated", "natural", "loop", "audit_sample")


def commands(page, root, folder, seeds):
    """Commands that measure and write a page, as lists of words."""
    measure = ("decisions.py", "measure", root, folder / "decisions", "--seeds", seeds)
    if page == "estimates":
        yield (*measure, "--sets", *SCORED, "--hiding", "uniform", "--models", *QUICK)
        yield (*measure, "--sets", *PAPERS, "--hiding", "uniform", "natural", "--models", *QUICK)
        yield "decisions.py", "collect", folder / "decisions", "--name", page
    elif page == "decisions":
        yield measure
        yield "decisions.py", "collect", folder / "decisions"
    elif page == "stated":
        yield (*measure, "--sets", *SCORED)
        yield (*measure, "--sets", *PAPERS, "--hiding", "uniform", "natural")
        yield "decisions.py", "collect", folder / "decisions", "--name", page
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
