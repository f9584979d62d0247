"""Measure what `spml audit --folds` is worth for a network that was trained end to end.

    python benchmarks/folds.py VOC2012_ANIMALS WEIGHTS FOLDER

VOC2012_ANIMALS is a folder of photographs with `labels.csv` (all labels, and a split), WEIGHTS the
.safetensors file of a MobileNetV2 (timm's `mobilenetv2_100`). FOLDER takes everything that is written.

One label of each photograph is drawn at random. A network is trained at 96 pixels for 4 epochs with GR, and
its list of missing labels is made from its own scores of the photographs that it has learned (`--folds 0`),
and from the scores of networks that were trained on the other photographs (`--folds 3`). Each list is
compared with the true labels.

Writes benchmarks/results/folds.json.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from shared import save_results, today
from story import run

from spml.audit.folder import read_audit
from spml.config import DataConfig
from spml.data.readers import read

MEAN_LABELS, FOLDS, LENGTHS = 1.4, (0, 3), (100, 500)
SETTINGS = {
    "method": "gr",
    "epochs": 4,
    "batch_size": 32,
    "mean_labels": MEAN_LABELS,
    "data.separator": " ",
    "data.unlisted": "negative",
    "data.observe": "single",
    "data.size": 96,
    "model.backbone": "mobilenetv2_100",
    "model.frozen": "no",
    "optim.lr": 3e-4,
    "optim.schedule": "cosine",
    "optim.head_lr_factor": 10,
}


def judge(audit, truth):
    """Precision of the first entries of a list, and what was expected of it."""
    lists = read_audit(audit)
    right = np.array([entry.label in truth[entry.file] for entry in lists.missing])
    expected = np.array([entry.probability for entry in lists.missing])
    return {
        "hidden labels expected": round(lists.about.hidden, 1),
        **{
            f"first {length}": {
                "right": round(100 * right[:length].mean(), 1),
                "expected": round(100 * expected[:length].mean(), 1),
            }
            for length in LENGTHS
        },
    }


def main():
    """Train, audit and write the numbers."""
    source, weights, folder = (Path(path).absolute() for path in sys.argv[1:4])
    folder.mkdir(parents=True, exist_ok=True)
    table = source / "labels.csv"
    records = read(DataConfig(path=str(table), separator=" ", unlisted="negative"))
    truth = dict(zip(records.ids, map(set, records.labels.to_names(records.classes)), strict=True))
    found = {}
    for seed in range(2):
        name, seeds = f"seed{seed}", {"data.observe_seed": seed, "data.split_seed": seed}
        settings = {**SETTINGS, "model.weights": weights, **seeds}
        words = [word for key, value in settings.items() for word in (f"--{key}", value)]
        run(folder, "train", table, *words, "--output", name)
        for folds in FOLDS:
            audit = folder / f"{name}-{folds}"
            words = ("--folds", folds, "--top", max(LENGTHS), "--min_probability", 0, "--output", audit)
            _, seconds = run(folder, "audit", name, table, *words)
            found.setdefault(str(folds), {})[str(seed)] = {**judge(audit, truth), "seconds": seconds}
    hidden = sum(map(len, truth.values())) - len(truth)
    save_results("folds", today() | {"missing labels": hidden, "folds": found})


if __name__ == "__main__":
    main()
