"""Fine-tune a network on the photographs for ten epochs on a GPU: what beats AN, and what do windows add?

    python benchmarks/long_tuning.py DATA FOLDER [MINUTES]

DATA holds `images/voc2012_animals` and `models`. A MobileNetV2 with ImageNet weights is trained as in the
spec `photographs`, but for 10 epochs, at 224 and at 448 pixels. Every run is one of `spml.train`, with
windows (`local="on"`), whose network is scored twice: on whole photographs and on the weighed windows. True
labels judge, and choose the learning rate where the page says so (of validation samples); the best epoch is
chosen by the SP-score. Each photograph is decoded once per size, and kept in memory for all runs, of which 12
are made at a time.

Runs are made in the order of `jobs`, and none is begun after the minutes (60) are over: what is missing can
be seen from the numbers of seeds and rates on the page. Results go to results/long_tuning.json and .md.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import multiprocessing
import os
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch
from local import PHOTOGRAPHS, K
from shared import markdown, read_photographs, save_results, table, today

import spml
from spml.data.images import image_files
from spml.metrics import mean_average_precision

METHODS = ("an", "em", "em_apl", "gr", "role", "ll_r", "opml", "bce")
PARAMETERS = {"em_apl": {"warmup": 5}}
RATES, EPOCHS, BATCH, PROCESSES = (1e-4, 3e-4, 3e-5, 1e-3), 10, 32, 12
PIXELS: dict[tuple[int, int], torch.Tensor] = {}  # by hash of the file's content and size


def jobs():
    """(size, seed, rate, method) in the order in which they are worth most."""
    for size, seed, rates in ((224, 0, RATES), (448, 0, RATES[:2]), (224, 1, RATES[:3]), (448, 1, RATES[:2])):
        yield from itertools.product([size], [seed], rates, METHODS)
    yield from itertools.product([224], [2], RATES[:3], METHODS)
    yield from itertools.product([448], [0, 1], RATES[2:3], METHODS)


def decode(job):
    """Pixels of a file as `spml` decodes it, without keeping them."""
    file, size = job
    return image_files.load_pixels(Path(file).read_bytes(), size, "bilinear", max_pixels=10**9).numpy()


def remember(files, sizes):
    """Decode every photograph once per size, and let `spml` find the pixels by the content of the file."""
    keys = list(itertools.product(files, sizes))
    with multiprocessing.Pool(PROCESSES) as pool:
        for (file, size), pixels in zip(keys, pool.imap(decode, keys, chunksize=16), strict=True):
            PIXELS[hash(file.read_bytes()), size] = torch.from_numpy(pixels)
    image_files.load_pixels = lambda data, size, *_, **__: PIXELS[hash(data), size]


def measure(job):
    """One run: scores of validation and test samples on whole photographs and on windows."""
    (size, seed, rate, method), data, folder, end = job
    if time.monotonic() > end:
        return None
    torch.set_num_threads(1)
    begun, output = time.monotonic(), Path(folder) / f"{size}-{seed}-{rate}-{method}"
    run = spml.train(
        f"{data}/{PHOTOGRAPHS}/labels.csv", method=method, frozen="no", local="on", lr=rate,
        weights=f"{data}/models/mobilenetv2_100_tf_bncal.safetensors", mean_labels=K, epochs=EPOCHS,
        batch_size=BATCH, seed=seed, accelerator="cuda", threads=1, hp=PARAMETERS.get(method, {}), quiet=True,
        precision="bf16-mixed", pictures=False, overwrite=True, output=str(output), select="observed",
        data={"separator": " ", "unlisted": "negative", "observe": "none" if method == "bce" else "single",
              "observe_seed": seed, "size": size, "workers": 0},
        optim={"head_lr_factor": 10.0, "schedule": "cosine"},
    )  # fmt: skip
    files, truth, split, _ = read_photographs(Path(data, PHOTOGRAPHS))
    found = {"size": size, "seed": seed, "rate": rate, "method": method}
    found["SP"] = {name: round(100 * value, 2) for name, value in run.summary["local"]["scores"].items()}
    local = run.classifier.top.local
    for part in ("val", "test"):
        rows = np.flatnonzero(split == part)
        labels = np.where(truth[rows], 1, -1).astype(np.int8)
        for way, used in (("whole", None), ("windows", local)):
            run.classifier.top.local = used
            logits = run.predict([str(files[row]) for row in rows], workers=0).scores
            score = mean_average_precision(logits.astype(np.float32), labels)
            found[f"{part}, {way}"] = round(100 * score, 2)
    return found | {"seconds": round(time.monotonic() - begun, 1), "machine": torch.cuda.get_device_name()}


def page(about):
    """The results as a page."""
    blocks = []
    for size in sorted({row["size"] for row in about["runs"]}):
        rows = [row for row in about["runs"] if row["size"] == size]
        rates = sorted({row["rate"] for row in rows})
        lines = []
        for method in METHODS:
            seeds = sorted({row["seed"] for row in rows if row["method"] == method})
            cells = []
            for judge in (lambda row: row["val, whole"], lambda row: row["SP"]["whole image"]):
                best = [
                    max((r for r in rows if (r["method"], r["seed"]) == (method, seed)), key=judge)
                    for seed in seeds
                ]
                for way in ("whole", "windows"):
                    cells.append(f"{statistics.mean(row[f'test, {way}'] for row in best):.1f}")
            lines.append((method, len(seeds), *cells))
        blocks += [
            f"At {size} pixels; rates tried: {', '.join(f'{rate:g}' for rate in rates)}.",
            table(
                "method | seeds | oracle, whole | oracle, windows | observed, whole | observed, windows",
                lines,
            ),
        ]
    return markdown(
        f"{about['date']}, {about['machine']}, torch {about['versions']['torch']}, bfloat16. "
        "`python benchmarks/long_tuning.py DATA FOLDER`.",
        "100 x test mAP on 3,576 photographs of animals (13 classes, one known label each): a MobileNetV2 "
        "fine-tuned for 10 epochs, batches of 32, a cosine schedule; mean over seeds. The learning rate is "
        "chosen per seed by the mAP of validation samples with true labels (`oracle`) or by the SP-score of "
        "their known labels (`observed`); the epoch by the SP-score. `windows` adds the best window of every "
        "size, weighed by the SP-score. `bce` has full labels.",
        *blocks,
    )


def main(data, folder, minutes=60):
    """Make as many runs as there is time for; results are written after each."""
    remember(read_photographs(Path(data, PHOTOGRAPHS))[0], (224, 448))
    about = today() | {"processes": PROCESSES, "runs": []}
    end = time.monotonic() + 60 * float(minutes)
    with multiprocessing.Pool(PROCESSES) as pool:  # forked, so that they share the pixels
        for found in pool.imap_unordered(measure, [(job, data, folder, end) for job in jobs()]):
            if found:
                print(json.dumps(found), flush=True)
                about["machine"] = found.pop("machine")
                about["runs"].append(found)
                save_results("long_tuning", about)
    save_results("long_tuning", about, page(about))


if __name__ == "__main__":
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    with contextlib.suppress(RuntimeError):
        multiprocessing.set_start_method("fork")
    main(*sys.argv[1:])
