"""Measure `spml predict` against a bare loop, and what it saves that features are kept.

    python benchmarks/predict.py VOC2012_ANIMALS WEIGHTS

VOC2012_ANIMALS is a folder with `labels.csv`, WEIGHTS the .safetensors file of a MobileNetV2 (timm's
`mobilenetv2_100`). The first 200 training, 50 validation and 50 test photographs of the table are used.

Speed: `spml predict` writes CSV from a head on the frozen backbone: computing everything (`--cache none`),
also keeping the features, and with all features kept. The bare loop is what one writes with timm: a
DataLoader over files with Pillow, `Resize`, `ToTensor` and `Normalize`, the same model, logits in a list.
All have batches of 64, two worker processes and one thread. In each round every candidate predicts all
photographs; a ratio is the median of the rounds' ratios. Seconds are CPU time of the process and its
workers, so that other load on the machine matters little, and do not include the start of Python.

Reuse: `train`, `predict` and `evaluate` of a first method, then `train` of four further methods on the same
photographs in folders next to it.

Writes benchmarks/results/predict.json.
"""

from __future__ import annotations

import contextlib
import io
import os
import statistics
import sys
import tempfile
from pathlib import Path

import PIL
import timm
import torch
from loading import Plain
from shared import cpu_seconds, read_rows, save_results, today, write_rows
from torch.utils.data import DataLoader

import spml.runs.api  # noqa: F401  (imported here, so that no command is charged for it)
from spml.cli.main import main
from spml.models.classifier import load_classifier

ROWS = {"train": 200, "val": 50, "test": 50}
METHODS = ("an", "em", "gr", "softmax", "wan")
BATCH, WORKERS, ROUNDS = 64, 2, 3


def first_rows(folder, path):
    """Write a table of the first photographs of each split. Returns their files."""
    rows = [row for split, count in ROWS.items() for row in read_rows(folder / "labels.csv", split)[:count]]
    write_rows(path, rows)
    return [folder / row["file"] for row in rows]


def seconds(*arguments):
    """CPU seconds of a command of `spml`."""
    started = cpu_seconds()
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        main([str(argument) for argument in arguments])
    return cpu_seconds() - started


def bare(paths, model, spec):
    """CPU seconds of the bare loop."""
    started = cpu_seconds()
    photos, parts = Plain(paths, spec.size, spec.mean, spec.std, flip=False), []
    with torch.inference_mode():
        for images, _ in DataLoader(photos, BATCH, num_workers=WORKERS):
            parts.append(model(images).numpy())
    assert sum(map(len, parts)) == len(paths)
    return cpu_seconds() - started


def bare_model(run):
    """The model of a run as timm's module and a linear layer."""
    classifier, _ = load_classifier(run)
    spec = classifier.spec
    backbone = timm.create_model(spec.name, pretrained=False, **spec.options)
    backbone.reset_classifier(0)
    backbone.load_state_dict(classifier.backbone.network.state_dict())
    head = torch.nn.Linear(classifier.top.num_features, classifier.top.num_classes)
    return torch.nn.Sequential(backbone, head).eval(), spec


def measure(folder, weights, work):
    """Everything, in a folder for temporary files."""
    paths = first_rows(folder, work / "few.csv")
    read = ["--data.images", folder, "--data.separator", " ", "--data.unlisted", "negative"]
    data = [*read, "--data.workers", WORKERS]
    train = ["train", work / "few.csv", *data, "--data.observe", "single", "--threads", 1, "--epochs", 5,
             "--model.backbone", "mobilenetv2_100", "--model.weights", weights]  # fmt: skip
    engine = ["--batch_size", BATCH, "--workers", WORKERS]
    runs = [work / "runs" / method for method in METHODS]
    reuse = {"train": seconds(*train, "--method", METHODS[0], "--output", runs[0])}
    list_of_files = [work / "few.csv", "--images", folder]
    reuse["predict"] = seconds("predict", runs[0], *list_of_files, "--output", work / "first.csv", *engine)
    reuse["evaluate"] = seconds("evaluate", runs[0], work / "few.csv", *read, *engine)
    reuse["train, four further methods"] = [
        seconds(*train, "--method", method, "--output", run)
        for method, run in zip(METHODS[1:], runs[1:], strict=True)
    ]
    model, spec = bare_model(runs[0])
    rounds = []
    for number in range(ROUNDS):
        predict = ["predict", runs[0], *list_of_files, "--overwrite", "--output", work / "p.csv", *engine]
        rounds.append(
            {
                "bare loop": bare(paths, model, spec),
                "spml predict --cache none": seconds(*predict, "--cache", "none"),
                "spml predict, features kept": seconds(*predict, "--cache", work / f"cache{number}"),
                "spml predict, features known": seconds(*predict),
            }
        )
        print(rounds[-1], flush=True)
    return reuse, rounds


def report(reuse, rounds):
    """Write the result."""
    count = sum(ROWS.values())
    speed = {
        name: {
            "images per second": round(count / statistics.median(each[name] for each in rounds), 1),
            "over the bare loop": round(
                statistics.median(each["bare loop"] / each[name] for each in rounds), 2
            ),
        }
        for name in rounds[0]
    }
    result = {
        **today(pillow=PIL.__version__),
        "cores": os.cpu_count(),
        "images": count,
        "speed, of CPU time": speed,
        "CPU seconds on the same photographs, in this order": {
            name: [round(one, 1) for one in value] if isinstance(value, list) else round(value, 1)
            for name, value in reuse.items()
        },
    }
    save_results("predict", result)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as work:
        report(*measure(Path(sys.argv[1]), Path(sys.argv[2]), Path(work)))
