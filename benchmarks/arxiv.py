"""Papers of arXiv with the category that authors put first, from a table in the local folder `text`.

The folder holds one set of papers: NAME/NAME.tsv.xz, and its classes in NAME/NAME_classes.json. Another
set in a folder of its own is measured by the same commands.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas


class Papers(NamedTuple):
    """Table of N papers, names of C classes, all labels (N, C) in {0, 1}, and the primary category (N,)."""

    table: Any
    classes: list[str]
    labels: np.ndarray
    known: np.ndarray


def read_papers(root, view, most=None, seed=0):
    """Papers of a view, `uniform` or `rich`: all, or at most so many, drawn with a seed."""
    found = sorted(Path(root, "text").glob("*/*.tsv.xz"))
    if len(found) != 1:
        raise SystemExit(f"{root}/text must hold one set of papers (NAME/NAME.tsv.xz), found {len(found)}")
    path = found[0]
    table = pandas.read_csv(path, sep="\t", dtype=str, keep_default_na=False)
    listed = path.with_name(path.name.removesuffix(".tsv.xz") + "_classes.json")
    classes = list(json.loads(listed.read_text(encoding="utf-8")))
    table = table[table[view] == "1"]
    if most is not None:
        table = table.iloc[np.sort(np.random.default_rng(seed).permutation(len(table))[:most])]
    column = {label: number for number, label in enumerate(classes)}
    labels = np.zeros((len(table), len(classes)), np.uint8)
    for row, text in enumerate(table["labels"]):
        labels[row, [column[label] for label in text.split()]] = 1
    known = np.asarray([column[label] for label in table["primary"]])
    return Papers(table.reset_index(drop=True), classes, labels, known)
