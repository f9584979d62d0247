"""Run the five commands of the README on photographs with one tag each, with a simulated reviewer.

    python benchmarks/story.py VOC2012_ANIMALS WEIGHTS FOLDER

VOC2012_ANIMALS is a folder of photographs with `labels.csv` (all labels, and a split), WEIGHTS the
.safetensors file of a MobileNetV2 (timm's `mobilenetv2_100`). FOLDER takes everything that is written.

One label of each training and validation photograph is drawn at random and makes a folder per class, as a
user would have it. Then train, thresholds, audit (50 labels of each class), review, and train again with the
answers: the reviewer answers the whole list from the true labels, through the database that the page writes
to. Both models are measured on the test photographs, all labels of which are known.

Beside it the precision of each class that `thresholds.json` states is compared with that on test photographs:
of a training without `--mean_labels`, of the first one, and of that after `spml audit use` with 50
photographs that are labelled in full from the true labels.

Writes benchmarks/results/story.json and story.md.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from shared import markdown, read_rows, save_results, table, today, write_rows

import spml
from spml.audit.folder import read_audit
from spml.review.session import Review

SEED, PER_CLASS, MEAN_LABELS, IN_FULL = 0, 50, 1.4, 50
METRICS = ("samples", "mAP", "thresholded", "calibration")


def lay_out(source, folder):
    """Copy photographs, each into the folder of one of its labels. Returns the true labels of all."""
    rows = read_rows(source / "labels.csv")
    draw, photos = random.Random(SEED), folder / "photos"
    for row in rows:
        if row["split"] != "test":
            place = photos / draw.choice(row["labels"].split())
            place.mkdir(parents=True, exist_ok=True)
            (place / Path(row["file"]).name).write_bytes((source / row["file"]).read_bytes())
    test = [row for row in rows if row["split"] == "test"]
    write_rows(
        folder / "test.csv",
        [{"file": row["file"], "labels": row["labels"].replace(" ", "|")} for row in test],
    )
    return {Path(row["file"]).name: set(row["labels"].split()) for row in rows}


def run(folder, *words):
    """Run one command as a user would. Returns its output and the seconds it took."""
    print("spml", *words, flush=True)
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "spml", *map(str, words)], cwd=folder, capture_output=True, text=True
    )
    print(done.stdout[-3000:], done.stderr[-3000:], flush=True)
    if done.returncode:
        sys.exit(f"spml {words[0]} ended with {done.returncode}")
    return done.stdout, round(time.perf_counter() - started, 1)


def answer(audit, truth):
    """Answer the list from the true labels. Returns how many entries were right."""
    review = Review(audit, "simulated")
    right = 0
    for entry in read_audit(audit).missing:
        yes = entry.label in truth[Path(entry.file).name]
        right += yes
        review.store.add(entry.file, entry.label, "yes" if yes else "no", "simulated", random_check=False)
    return right


def measure(folder, source, name):
    """Metrics of a run on the test photographs."""
    output, data = f"{name}.json", ("test.csv", "--data.images", source, "--data.unlisted", "negative")
    run(folder, "evaluate", f"runs/{name}", *data, "--output", output)
    measured = json.loads((folder / output).read_text())
    return {key: measured[key] for key in METRICS if key in measured}


def label_in_full(sample, truth):
    """Fill in the table of `spml audit sample` from the true labels."""
    rows = read_rows(sample)
    for row in rows:
        row |= {"labels": "|".join(sorted(truth[Path(row["file"]).name])), "complete": "yes"}
    write_rows(sample, rows)


def precision(folder, source, truth, name):
    """Labels that a run predicts for test photographs, by class: number, stated precision, true precision."""
    model = spml.load(folder / "runs" / name)
    files = [source / row["file"] for row in read_rows(folder / "test.csv")]
    predicted = model.predict([str(file) for file in files], workers=2)
    right = {cut.name: [] for cut in model.thresholds.classes}
    for file, labels in zip(files, predicted.labels, strict=True):
        for label in labels:
            right[label].append(label in truth[file.name])
    return {
        cut.name: {
            "predicted": len(right[cut.name]),
            "stated": cut.precision,
            "true": float(np.mean(right[cut.name])) if right[cut.name] else None,
        }
        for cut in model.thresholds.classes
    } | {"K": model.thresholds.mean_labels.value, "source": model.thresholds.mean_labels.source}


def page(found):
    """The comparison of stated and true precision."""
    runs = found["precision"]
    percent = lambda value: "–" if value is None else f"{100 * value:.0f}"  # noqa: E731
    classes = [name for name in next(iter(runs.values())) if name not in ("K", "source")]
    lines, means = [], []
    for name in classes:
        rows = [each[name] for each in runs.values()]
        cells = (f"{row['predicted']}, {percent(row['stated'])}, {percent(row['true'])}" for row in rows)
        lines.append((name, *cells))
    for each in runs.values():
        rows = [each[name] for name in classes if each[name]["predicted"]]
        of = [row["predicted"] for row in rows]
        cell = f"{sum(of)}, {{}}, {percent(np.average([row['true'] for row in rows], weights=of))}"
        if rows[0]["stated"] is None:
            means.append(cell.format("–"))
            continue
        off = [row["stated"] - row["true"] for row in rows]
        stated = np.average([row["stated"] for row in rows], weights=of)
        error, bias = np.average(np.abs(off), weights=of), np.average(off, weights=of)
        means.append(f"{cell.format(percent(stated))}; error {100 * error:.1f}, bias {100 * bias:+.1f}")
    lines.append(("all, by the number of labels", *means))
    return markdown(
        "# Stated and true precision",
        f"{found['date']}, {found['machine']}, {found['versions']['machine']}, torch "
        f"{found['versions']['torch']}. `python benchmarks/story.py`.",
        f"Photographs of animals in a folder per class, one known label each "
        f"({found['list']['samples']:,}), MobileNetV2 at 224 pixels, nothing else stated. Thresholds as "
        f"`spml train` decides them, on {found['first']['samples']} test photographs: number of labels that "
        "are predicted, precision as thresholds.json states it, true precision, in percent. K: "
        + ", ".join(
            f"{name} {'(assumed) ' if each['source'] == 'default' else ''}{each['K']:.3g}"
            for name, each in runs.items()
        )
        + f"; the true one is {found['true K']:.3g}.",
        table(("class", *(f"{name}: labels, stated, true" for name in runs)), lines),
    )


def main():
    """Tell the story and write its numbers."""
    source, weights, folder = (Path(path).absolute() for path in sys.argv[1:4])
    folder.mkdir(parents=True)
    truth = lay_out(source, folder)
    model = ("--model.backbone", "mobilenetv2_100", "--model.weights", weights)
    seconds = {}
    _, seconds["train"] = run(
        folder, "train", "photos", "--mean_labels", MEAN_LABELS, *model, "--output", "runs/first"
    )
    run(folder, "train", "photos", *model, "--output", "runs/without-k")
    shutil.copytree(folder / "runs" / "first", folder / "runs" / "audited")
    run(folder, "audit", "sample", "runs/audited", "--rows", IN_FULL, "--output", "sample.csv")
    label_in_full(folder / "sample.csv", truth)
    run(folder, "audit", "use", "sample.csv", "runs/audited")
    names = {"K not stated": "without-k", "K stated": "first", f"{IN_FULL} labelled in full": "audited"}
    _, seconds["thresholds"] = run(folder, "thresholds", "runs/first")
    _, seconds["audit"] = run(folder, "audit", "runs/first", "--per_class", PER_CLASS, "--min_probability", 0)
    audit = folder / "runs" / "first" / "audit"
    about = read_audit(audit)
    right = answer(audit, truth)
    run(folder, "review", "export", audit, "reviewed.csv", "--format", "csv")
    _, seconds["train again"] = run(
        folder, "train", "reviewed.csv", "--mean_labels", MEAN_LABELS, *model, "--output", "runs/second"
    )
    result = {
        **today(),
        "seconds": seconds,
        "list": {
            "samples": about.about.samples,
            "answered": about.about.listed,
            "right": right,
            "expected": round(about.about.expected, 1),
        },
        "true K": float(np.mean([len(labels) for labels in truth.values()])),
        "precision": {name: precision(folder, source, truth, output) for name, output in names.items()},
        "first": measure(folder, source, "first"),
        "second": measure(folder, source, "second"),
    }
    save_results("story", result, page(result))


if __name__ == "__main__":
    main()
