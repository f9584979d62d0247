"""Measure what the size of images is worth: each size, the sizes that `spml train` chooses, and their time.

    python benchmarks/sizes.py DATA FOLDER [--only SET,...] [--sizes auto,224,...] [--seeds 5]

DATA holds `images/voc2012_animals`, `images/coco18` and `models`. `spml train` runs with nothing stated but
data, weights, K and the size; one known label of each photograph is drawn by the seed. Seeds share the
features in FOLDER, so that the seconds of the first seed alone are those of a whole run. Results go to
results/sizes.json, row by row, and results/sizes.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

import numpy as np
from shared import processor

from spml.runs.folder.summary import versions

RESULT = Path(__file__).parent / "results" / "sizes.json"
MOBILE, LITE = "mobilenetv2_100_tf_bncal", "efficientnet_lite2"
SETS = {
    "animals, MobileNetV2": ("voc2012_animals", MOBILE, 1.4, " "),
    "animals, EfficientNet-Lite2": ("voc2012_animals", LITE, 1.4, " "),
    "coco18, MobileNetV2": ("coco18", MOBILE, 1.6, "|"),
}


def train(data, folder, name, size, seed):
    """One run, as a row of the result."""
    images, weights, k, separator = SETS[name]
    output = Path(folder) / f"{images}-{weights}-{size}-{seed}"
    cache = Path(folder) / f"features-{images}-{weights}"
    warm = cache.exists() and any(cache.rglob("*.rows"))
    command = [
        sys.executable, "-m", "spml", "train", f"{data}/images/{images}/labels.csv", "--data.separator",
        separator, "--weights", f"{data}/models/{weights}.safetensors", "--mean_labels", str(k),
        "--data.unlisted", "negative", "--data.observe", "single", "--data.observe_seed", str(seed),
        "--seed", str(seed), "--data.size", size, "--data.cache", str(cache), "--output", str(output),
        "--overwrite",
    ]  # fmt: skip
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    seconds, summary = time.perf_counter() - started, json.loads((output / "summary.json").read_text())
    row = {"set": name, "size": size, "seed": seed, "mAP": summary["test"]["mAP"], "features kept": warm}
    row |= {"seconds": round(seconds, 1), "MiB": summary["cost"]["peak_memory_mib"]}
    return row | {"SP": summary["validation"]["val/SP"], "sizes": summary.get("sizes")}


def page(result):
    """The result as a page."""
    lines = [
        f"{result['date']}, {result['processor']}, torch {result['versions']['torch']}. "
        "`python benchmarks/sizes.py`.",
        "",
        "100 x test mAP of `spml train` with one known label per photograph and nothing stated but weights, "
        "K and the size; mean over seeds of the known label, with the deviation between them. Seconds and "
        "memory are those of a run whose features had not been computed before, where there is one.",
        "",
        *([result["note"], ""] if "note" in result else []),
        "| photographs | size | used | seeds | mAP | seconds | MiB |",
        "|---|---|---|---|---|---|---|",
    ]
    keys = list(dict.fromkeys((row["set"], row["size"]) for row in result["rows"]))
    for name, size in keys:
        rows = [row for row in result["rows"] if (row["set"], row["size"]) == (name, size)]
        scores = [100 * row["mAP"] for row in rows]
        timed = [*rows, *(row for row in result["timed"] if (row["set"], row["size"]) == (name, size))]
        cold = next((row for row in timed if not row["features kept"]), None)
        used = sorted({" + ".join(sorted(row["sizes"]["weights"])) for row in rows if row["sizes"]})
        spread = f" ({np.std(scores, ddof=1):.1f})" if len(scores) > 1 else ""
        cost = f"{cold['seconds']:.0f} | {cold['MiB']:.0f}" if cold else "- | -"
        lines.append(
            f"| {name} | {size} | {', '.join(used) or size} | {len(rows)} | {np.mean(scores):.2f}{spread} | "
            f"{cost} |"
        )
    return "\n".join(lines) + "\n"


def main():
    """Run what is missing, and write the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("folder")
    parser.add_argument("--only", default=";".join(SETS), help="sets, after semicolons")
    parser.add_argument("--sizes", default="auto,0")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    before = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    rows = before.get("rows", [])
    for name in options.only.split(";"):
        for size in options.sizes.split(","):
            for seed in range(options.seeds):
                if any((row["set"], row["size"], row["seed"]) == (name, size, seed) for row in rows):
                    continue
                rows.append(train(options.data, options.folder, name, size, seed))
                print(json.dumps(rows[-1]), flush=True)
                result = {
                    **before,
                    "date": str(date.today()),
                    "processor": processor(),
                    "versions": versions(),
                }
                result["rows"] = rows
                result.setdefault("timed", [])
                RESULT.write_text(json.dumps(result, indent=1) + "\n")
                RESULT.with_suffix(".md").write_text(page(result))


if __name__ == "__main__":
    main()
