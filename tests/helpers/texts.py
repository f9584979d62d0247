"""Small texts about animals, of which a word or two tells what they are about."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

WORDS = {
    "cat": ("purrs", "whisker", "kitten", "meow"),
    "cow": ("moo", "milk", "barn", "calf"),
    "dog": ("barks", "leash", "puppy", "fetch"),
}
FILLERS = ("the", "a", "day", "was", "sun", "small", "we", "saw", "of", "it")


def make_texts(count=200, seed=0):
    """Rows of a name, a title, an abstract, the one known label and all labels."""
    generator = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        labels = list(generator.permutation([*WORDS])[: generator.integers(1, 3)])
        words = [generator.choice(WORDS[label]) for label in labels for _ in range(2)]
        words = list(generator.permutation([*words, *generator.choice(FILLERS, 5)]))
        rows.append([f"t{number}", words[0], " ".join(words[1:]), labels[0], ";".join(sorted(labels))])
    return rows


def write_texts(path: Path, rows, column=3, header=("id", "title", "abstract", "labels")):
    """Write rows of `make_texts` with one of the two columns of labels."""
    with open(path, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerows([header, *([*row[:3], row[column]] for row in rows)])
    return path
