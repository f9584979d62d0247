"""Measure what the size of images is worth: each size, the sizes that `spml train` chooses, and their time.

    python benchmarks/sizes.py DATA FOLDER [--only SET,...] [--sizes auto,224,...] [--seeds 5]
    python benchmarks/sizes.py - FOLDER --stand-in 100000

DATA holds `images/voc2012_animals`, `images/coco18` and `models`. `spml train` runs with nothing stated but
data, weights, K and the size; one known label of each photograph is drawn by the seed. Seeds share the
features in FOLDER, so that the seconds of the first seed alone are those of a whole run. Results go to
results/sizes.json, row by row, and results/sizes.md.

`--stand-in` measures the memory for as many photographs at 448 pixels with windows, of a network that gives
maps as large as those of MobileNetV2 in almost no time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from PIL import Image
from shared import in_child, load_results, markdown, save_results, table, today
from torch import nn

import spml

NAME = "sizes"
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


class StandIn(nn.Module):
    """Maps of 1,280 channels, a position for 32 x 32 pixels."""

    def __init__(self):
        super().__init__()
        self.pool, self.mix = nn.AvgPool2d(32), nn.Conv2d(3, 1280, 1)

    def forward(self, images):
        """Maps (B, 1280, h, w) of images (B, 3, H, W)."""
        return self.mix(self.pool(images)).relu()


def stand_in(folder, count):
    """Seconds and memory of a run on small photographs of random colours, with windows at 448 pixels."""
    photos, random = Path(folder) / f"photos-{count}", np.random.default_rng(0)
    photos.mkdir(parents=True, exist_ok=True)
    labels = random.integers(20, size=count)
    for number in range(count):
        Image.fromarray(random.integers(0, 256, (64, 64, 3), np.uint8)).save(photos / f"{number}.bmp")
    rows = [f"{number}.bmp,class {label}" for number, label in enumerate(labels)]
    (photos / "labels.csv").write_text("\n".join(["file,label", *rows]) + "\n")
    transform = {"size": 448, "mean": [0.5] * 3, "std": [0.5] * 3}
    run = spml.train(
        str(photos / "labels.csv"), backbone=StandIn(), transform=transform, mean_labels=1.5, local="on",
        output=str(Path(folder) / f"run-{count}"), overwrite=True,
    )  # fmt: skip
    cost = run.summary["cost"]
    print(json.dumps({"photographs": count, "seconds": cost["seconds"], "MiB": cost["peak_memory_mib"]}))


def page(result):
    """The result as a page."""
    lines = []
    for name, size in dict.fromkeys((row["set"], row["size"]) for row in result["rows"]):
        rows = [row for row in result["rows"] if (row["set"], row["size"]) == (name, size)]
        scores = [100 * row["mAP"] for row in rows]
        timed = [*(row for row in result["timed"] if (row["set"], row["size"]) == (name, size)), *rows]
        cold = next((row for row in timed if not row["features kept"]), None)
        used = sorted({" + ".join(sorted(row["sizes"]["weights"])) for row in rows if row["sizes"]})
        spread = f" ({np.std(scores, ddof=1):.1f})" if len(scores) > 1 else ""
        cost = (f"{cold['seconds']:.0f}", f"{cold['MiB']:.0f}") if cold else ("-", "-")
        lines.append(
            (name, size, ", ".join(used) or size, len(rows), f"{np.mean(scores):.2f}{spread}", *cost)
        )
    stand_ins = [(f"{row['photographs']:,}", *(f"{row[key]:.0f}" for key in ("seconds", "MiB")))
                 for row in result["stand-in"]]  # fmt: skip
    return markdown(
        f"{result['date']}, {result['machine']}, torch {result['versions']['torch']}. "
        "`python benchmarks/sizes.py`.",
        "100 x test mAP of `spml train` with one known label per photograph and nothing stated but weights, "
        "K and the size; mean over seeds of the known label, with the deviation between them. Seconds and "
        "memory are those of a run whose features had not been computed before, where there is one.",
        result["note"],
        table("photographs | size | used | seeds | mAP | seconds | MiB", lines),
        "Windows at 448 pixels of a network that gives maps of 1,280 channels in almost no time, beside "
        "other programs (`--stand-in`):",
        table("photographs | seconds | MiB", stand_ins),
    )


def save(before, **measured):
    """Write the result with what has been measured."""
    result = {"timed": [], "note": "", **before, **today(), **measured}
    save_results(NAME, result, page(result))


def measure(options, before):
    """Run what is missing."""
    rows = before["rows"]
    for name in options.only.split(";"):
        for size in options.sizes.split(","):
            for seed in range(options.seeds):
                if any((row["set"], row["size"], row["seed"]) == (name, size, seed) for row in rows):
                    continue
                rows.append(train(options.data, options.folder, name, size, seed))
                print(json.dumps(rows[-1]), flush=True)
                save(before, rows=rows)


def main():
    """Run what is missing, and write the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("folder")
    parser.add_argument("--only", default=";".join(SETS), help="sets, after semicolons")
    parser.add_argument("--sizes", default="auto,0")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--stand-in", type=int)
    options = parser.parse_args()
    before = load_results(NAME, **{"rows": [], "stand-in": []})
    if options.data == "child":
        stand_in(options.folder, options.stand_in)
    elif options.stand_in:
        row = in_child(__file__, "child", options.folder, "--stand-in", options.stand_in)
        others = [each for each in before["stand-in"] if each["photographs"] != options.stand_in]
        save(before, **{"stand-in": sorted([*others, row], key=lambda each: each["photographs"])})
    else:
        measure(options, before)


if __name__ == "__main__":
    main()
