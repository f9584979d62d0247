"""The page on reviewed labels follows from its committed results."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))


def test_the_tables_are_made_from_the_committed_results():
    loop = importlib.import_module("loop")
    about = json.loads((loop.RESULTS / "loop.json").read_text())
    text = (loop.RESULTS / "loop.md").read_text(encoding="utf-8")
    assert text.endswith(loop.page(about)), "run `python benchmarks/loop.py collect FOLDER`"
    found = {
        (row["order"], row["seed"]): 100 * row["mAP"]
        for row in about["results"]
        if row["data"] == "yeast"
        and row["model"] == "auto"
        and row["budget"] in (0, 1)
        and row["rounds"] == 1
    }
    for order, title in (("by class", "| by class, 1 |"), ("all", "| every label |")):
        gains = [found[order, seed] - found["none", seed] for seed in range(3)]
        cell = f"{np.mean(gains):+.2f} ± {np.std(gains, ddof=1):.2f}"
        assert text.split(title)[1 if order == "all" else 2].split("|")[1].strip() == cell
    rounds = text.partition("four rounds less in one round")[2].partition("| test mAP |")[2]
    four = [100 * row["mAP"] for row in about["results"] if row["data"] == "yeast" and row["rounds"] == 4]
    paired = np.asarray(four) - [found["list", seed] for seed in range(3)]
    assert rounds.split("|")[1].strip() == f"{paired.mean():+.2f} ± {paired.std(ddof=1):.2f}"
