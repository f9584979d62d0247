"""Measure seconds and memory of training, validation and prediction as classes and samples grow.

    python benchmarks/scale.py FOLDER [LARGEST_CLASSES [LARGEST_SAMPLES]]

FOLDER gets the data and the runs, 30 GB at most.

Every command is a process of its own, as a user starts it. Classes: 10,000 samples of 64 and 256 features,
each with one known class out of C, drawn by a power law. Samples: N samples of 512 features in float16, in
shards, 100 classes. Memory is the peak of what the process holds; pages of memory-mapped files, which the
system takes back when it needs them, are left out of the second figure. Writes benchmarks/results/scale.json
and .md after each command. What this machine has measured is not measured again: remove its rows for that.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from datetime import date
from importlib.metadata import version
from pathlib import Path

import numpy as np
from shared import load_results, markdown, processor, save_results, table, today

CLASSES, WIDTHS = (1_000, 10_000, 100_000, 1_000_000), (64, 256)
SAMPLES, WIDTH, FEW_CLASSES = (100_000, 1_000_000, 10_000_000), 512, 100
COUNT = 10_000
SHARD = 500_000
CANDIDATES = {
    "an": ["--method", "an", "--epochs", "1", "--batch_size", "64"],
    "em": ["--method", "em", "--epochs", "1", "--batch_size", "64"],
    "gr": ["--method", "gr", "--epochs", "1", "--batch_size", "64"],
    "ridge": ["--head", "ridge"],
    "auto": ["--method", "auto"],
}
LARGE = {
    "an": ["--method", "an", "--epochs", "1", "--batch_size", "1024"],
    "ridge": CANDIDATES["ridge"],
    "auto": CANDIDATES["auto"],
}
STAGES = ("train", "validate", "predict")


def command(*words):
    """Run `spml` with these words. Returns seconds and the peaks of memory in MB."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "spml", *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    anonymous, ended = [0], threading.Event()

    def watch():
        # `process.poll` would take the child's usage away from `os.wait4`.
        while not ended.wait(0.05):
            try:
                lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            except OSError:
                return
            held = [int(line.split()[1]) for line in lines if line.startswith("RssAnon")]
            anonymous[0] = max([anonymous[0], *held])

    watcher = threading.Thread(target=watch)
    watcher.start()
    errors = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    ended.set()
    process.returncode = os.waitstatus_to_exitcode(status)
    watcher.join()
    if process.returncode:
        return {"failed": " ".join(errors.split()[-60:])}
    return {
        "seconds": round(time.perf_counter() - started, 1),
        "peak_mb": usage.ru_maxrss * 1024 // 1_000_000,
        "anonymous_mb": anonymous[0] * 1024 // 1_000_000,
    }


def features_with_classes(path, classes, width):
    """Feature vectors around the prototype of their class, each with one known class, as a .npz file."""
    rng = np.random.default_rng(0)
    index = np.minimum(10 * (rng.pareto(1.0, COUNT)), classes - 1).astype(np.int64)
    seen, of_sample = np.unique(index, return_inverse=True)
    prototypes = rng.normal(size=(len(seen), width)).astype(np.float32)
    noise = rng.normal(size=(COUNT, width)).astype(np.float32)
    names = np.asarray([f"class {number}" for number in range(classes)])
    np.savez(path, X=prototypes[of_sample] + noise, Y=index, classes=names)


def shards(folder, count):
    """Feature vectors in float16 and their classes, in files of 500,000 samples."""
    rng = np.random.default_rng(0)
    prototypes = rng.normal(size=(FEW_CLASSES, WIDTH)).astype(np.float32)
    folder.mkdir(parents=True)
    np.savetxt(folder / "classes.txt", [f"class {number}" for number in range(FEW_CLASSES)], fmt="%s")
    for number, first in enumerate(range(0, count, SHARD)):
        index = rng.integers(0, FEW_CLASSES, min(SHARD, count - first))
        features = np.empty((len(index), WIDTH), np.float16)
        for start in range(0, len(index), 50_000):
            part = slice(start, start + 50_000)
            noise = rng.standard_normal((len(index[part]), WIDTH), np.float32)
            features[part] = prototypes[index[part]] + 4 * noise
        np.save(folder / f"X_{number:05}.npy", features)
        np.save(folder / f"Y_{number:05}.npy", index)


def measure(data, run, words, result):
    """Train, validate and predict as far as `result` lacks it. Yields after each of them, with its figures in
    `result`, so that what a killed process has measured is kept."""
    ten = ["--top_k", "10", "--scores", "predicted", "--output", run / "predictions.jsonl"]
    stages = {
        "train": ["train", data, *words, "--output", run],
        "validate": ["evaluate", run, data, "--split", "test", "--observed"],
        "predict": ["predict", run, data, *ten],
    }
    if not run.is_dir():
        result.clear()
    for stage, line in stages.items():
        if stage in result:
            continue
        if stage == "train":
            shutil.rmtree(run, ignore_errors=True)
        result[stage] = command(*line)
        if stage == "train" and "failed" not in result[stage]:
            summary = json.loads((run / "summary.json").read_text())
            result[stage]["training_seconds"] = summary["cost"]["training_seconds"]
        yield
        if "failed" in result["train"]:
            break
    shutil.rmtree(run, ignore_errors=True)


def is_measured(row):
    """Whether nothing of a case is left to measure."""
    result = row["result"]
    return "predict" in result or "failed" in result.get("train", {})


def slope(rows, column, stage, key):
    """Growth from the second largest to the largest, per class or sample."""
    known = [row for row in rows if "failed" not in row["result"].get(stage, {"failed": ""})]
    if len(known) < 2:
        return None
    (low, high) = sorted(known, key=lambda row: row[column])[-2:]
    return (high["result"][stage][key] - low["result"][stage][key]) / (high[column] - low[column])


def page(result):
    """The tables as Markdown."""
    days = sorted({row["date"] for row in result["rows"]})
    days = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    torch = " and ".join(sorted({row["torch"] for row in result["rows"]}))
    cores, blocks = result["versions"]["machine"].partition(", ")[2], []
    for title, column in (
        ("10,000 samples, by classes", "classes"),
        ("512 features, 100 classes, by samples", "samples"),
    ):
        rows = [row for row in result["rows"] if row["vary"] == column]
        lines, slopes = [], []
        for row in rows:
            cells = []
            for stage in STAGES:
                own = row["result"].get(stage, {"failed": ""})
                if "failed" in own:
                    cells += ["failed" if own["failed"] else "-", "-"]
                    continue
                seconds = f"{own['seconds']:.0f}"
                if stage == "train":
                    seconds += f" ({own['training_seconds']:.0f})"
                cells += [seconds, f"{own['anonymous_mb'] / 1000:.1f}"]
            lines.append((f"{row[column]:,}", row["features"], row["candidate"], *cells))
        for name, width in itertools.product(CANDIDATES, dict.fromkeys(row["features"] for row in rows)):
            own = [row for row in rows if (row["candidate"], row["features"]) == (name, width)]
            parts = []
            for stage in STAGES:
                seconds, memory = (slope(own, column, stage, key) for key in ("seconds", "anonymous_mb"))
                if seconds is not None:
                    parts.append(f"{stage} {1e6 * seconds:.0f} s, {1e3 * memory:.1f} GB")
            if parts:
                slopes.append(f"- {name}, {width} features: {'; '.join(parts)}")
        blocks += [
            f"## {title}",
            table(f"{column} | features | head | train: s | GB | validate: s | GB | predict: s | GB", lines),
            f"Slopes between the two largest, per million {column}:",
            "\n".join(slopes),
        ]
    return markdown(
        f"{days}, {result['machine']}, {cores}, torch {torch}. `python benchmarks/scale.py FOLDER`.",
        "Seconds of a whole command, start included, and the peak of memory in GB, without the pages of "
        "files that are mapped into memory; for training in brackets the seconds in the training loop with "
        "its validation, or in the solver.",
        *blocks,
    )


def main(folder, largest_classes=CLASSES[-1], largest_samples=SAMPLES[-1]):
    """Measure what has not been measured and write the results."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    rows = load_results("scale", rows=[])["rows"]
    if any(row["machine"] != processor() for row in rows):
        sys.exit("results/scale.json is from another machine: remove it to measure everything here.")
    cases = [("classes", c, COUNT, d) for c in CLASSES for d in WIDTHS if c <= int(largest_classes)]
    cases += [("samples", FEW_CLASSES, n, WIDTH) for n in SAMPLES if n <= int(largest_samples)]
    for vary, classes, samples, width in cases:
        data = folder / f"{samples}-{width}-{classes}{'.npz' if vary == 'classes' else ''}"
        for name, words in (CANDIDATES if vary == "classes" else LARGE).items():
            case = {
                "vary": vary, "classes": classes, "samples": samples, "features": width, "candidate": name,
            }  # fmt: skip
            row = next((row for row in rows if case.items() <= row.items()), None)
            if row is None:
                row = {**case, "machine": processor(), "torch": version("torch"), "result": {}}
                rows.append(row)
            elif is_measured(row):
                continue
            if not data.exists():
                if vary == "classes":
                    features_with_classes(data, classes, width)
                else:
                    shards(data, samples)
            for _ in measure(data, folder / f"{data.stem}-{name}", words, row["result"]):
                row["date"] = date.today().isoformat()
                write(rows)
            print(json.dumps(row), flush=True)
        if vary == "samples":
            shutil.rmtree(data, ignore_errors=True)


def write(rows):
    """Write the results of all cases."""
    order = ("vary", "features", "classes", "samples")
    rows.sort(key=lambda row: (*(row[key] for key in order), list(CANDIDATES).index(row["candidate"])))
    result = today() | {"rows": rows}
    save_results("scale", result, page(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
