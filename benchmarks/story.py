"""Run the five commands of the README on photographs with one tag each, with a simulated reviewer.

    python benchmarks/story.py VOC2012_ANIMALS WEIGHTS FOLDER

VOC2012_ANIMALS is a folder of photographs with `labels.csv` (all labels, and a split), WEIGHTS the
.safetensors file of a MobileNetV2 (timm's `mobilenetv2_100`). FOLDER takes everything that is written.

One label of each training and validation photograph is drawn at random and makes a folder per class, as a
user would have it. Then train, thresholds, audit (50 labels of each class), review, and train again with the
answers: the reviewer answers the whole list from the true labels, through the database that the page writes
to. Both models are measured on the test photographs, all labels of which are known.

Writes benchmarks/results/story.json.
"""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

from losses import processor
from spml.audit.folder import read_audit
from spml.review.session import Review, open_data
from spml.runs.folder.summary import versions

RESULT = Path(__file__).parent / "results" / "story.json"
SEED, PER_CLASS, MEAN_LABELS = 0, 50, 1.4
METRICS = ("samples", "mAP", "thresholded", "calibration")


def lay_out(source, folder):
    """Copy photographs, each into the folder of one of its labels. Returns the true labels of all."""
    with open(source / "labels.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    draw, photos = random.Random(SEED), folder / "photos"
    for row in rows:
        if row["split"] != "test":
            place = photos / draw.choice(row["labels"].split())
            place.mkdir(parents=True, exist_ok=True)
            (place / Path(row["file"]).name).write_bytes((source / row["file"]).read_bytes())
    with open(folder / "test.csv", "w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["file", "labels"])
        table.writerows(
            [row["file"], row["labels"].replace(" ", "|")] for row in rows if row["split"] == "test"
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
    review = Review(audit, open_data(audit), "simulated")
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
    _, seconds["thresholds"] = run(folder, "thresholds", "runs/first")
    _, seconds["audit"] = run(folder, "audit", "runs/first", "--per_class", PER_CLASS, "--min_probability", 0)
    audit = folder / "runs" / "first" / "audit"
    about = read_audit(audit)
    right = answer(audit, truth)
    run(folder, "review", "export", audit, "reviewed.csv", "--format", "csv")
    _, seconds["train again"] = run(
        folder, "train", "reviewed.csv", "--mean_labels", MEAN_LABELS, *model, "--output", "runs/second"
    )
    RESULT.write_text(
        json.dumps(
            {
                "date": date.today().isoformat(),
                "versions": versions(),
                "processor": processor(),
                "seconds": seconds,
                "list": {
                    "samples": about.about.samples,
                    "answered": about.about.listed,
                    "right": right,
                    "expected": round(about.about.expected, 1),
                },
                "first": measure(folder, source, "first"),
                "second": measure(folder, source, "second"),
            },
            indent=1,
        )
        + "\n"
    )


if __name__ == "__main__":
    main()
