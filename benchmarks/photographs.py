"""AN, EM and GR on real photographs with frozen features: same learning rates, bias start, epochs and seeds.

    python benchmarks/photographs.py DATA.csv WEIGHTS.safetensors BACKBONE WORK_FOLDER

DATA.csv is fully labelled (file,labels,split); one label per image is observed, drawn with the run's seed.
Trial and epoch are chosen on the validation images twice: by the SP-score of their one observed label
(`observed`), and by mAP on their full labels (`oracle`). Writes benchmarks/results/photographs.json and .md.
"""

from __future__ import annotations

import json
import multiprocessing
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from spml.config import from_dict
from spml.console import Console
from spml.pipeline import run_training
from spml.results import versions

METHODS = ("an", "em", "gr")
RATES = (3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
SEEDS = (0, 1, 2)
SELECT = ("observed", "oracle")
EPOCHS, BATCH = 30, 64
RESULTS = Path(__file__).parent / "results"


def run(job):
    """One run; gives its summary."""
    method, rate, seed, select, data, weights, backbone, work = job
    config = from_dict(
        {
            "data": {
                "path": data, "unlisted": "negative", "observe": "single", "observe_seed": seed,
                "cache": f"{work}/features",
            },
            "model": {"backbone": backbone, "weights": weights, "head_bias": "prior"},
            "optim": {"lr": rate},
            "method": method, "seed": seed, "select": select,
            "epochs": EPOCHS, "batch_size": BATCH, "threads": 1,
            "output": f"{work}/{select}-{method}-{rate:g}-{seed}",
        }
    )  # fmt: skip
    folder = run_training(config, overwrite=True, console=Console(silent=True))
    summary = json.loads((folder / "summary.json").read_text())
    return {"method": method, "rate": rate, "seed": seed, "select": select, **summary}


def rows(results, select):
    """Per method: its best trial of each seed by the selection's own metric, paired difference to AN."""
    best = {}
    for method in METHODS:
        for seed in SEEDS:
            key = (method, seed, select)
            trials = [r for r in results if (r["method"], r["seed"], r["select"]) == key]
            best[method, seed] = max(trials, key=lambda r: r["validation"][r["selected"]["metric"]])
    for method in METHODS:
        picks = [best[method, seed] for seed in SEEDS]
        test = [100 * r["test"]["mAP"] for r in picks]
        val = [100 * r["validation"]["val/mAP"] for r in picks]
        gain = [t - 100 * best["an", seed]["test"]["mAP"] for t, seed in zip(test, SEEDS, strict=True)]
        yield {
            "method": method,
            "select": select,
            "rates": [r["rate"] for r in picks],
            "val mAP": [statistics.mean(val), statistics.stdev(val)],
            "test mAP": [statistics.mean(test), statistics.stdev(test)],
            "difference to AN": [statistics.mean(gain), statistics.stdev(gain)],
            "training seconds": statistics.mean(r["cost"]["training_seconds"] for r in picks),
            "samples per second": statistics.mean(r["cost"]["samples_per_second"] for r in picks),
            "peak memory MiB": max(r["cost"]["peak_memory_mib"] for r in picks),
        }


def main():
    data, weights, backbone, work = sys.argv[1:]
    started = time.perf_counter()
    base = (data, weights, backbone, work)
    first = run(("an", RATES[0], 0, "observed", *base))  # computes the features that all others read
    jobs = [
        (method, rate, seed, select, *base)
        for select in SELECT for method in METHODS for rate in RATES for seed in SEEDS
    ]  # fmt: skip
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        results = list(pool.map(run, jobs))
    table = [row for select in SELECT for row in rows(results, select)]
    found = {
        "date": time.strftime("%Y-%m-%d"),
        "versions": versions(),
        "data": results[0]["data"],
        "backbone": backbone,
        "learning rates": RATES, "epochs": EPOCHS, "batch size": BATCH, "head bias": "prior", "seeds": SEEDS,
        "features": {**first["cost"]["features"], "peak memory MiB": first["cost"]["peak_memory_mib"]},
        "seconds in all": round(time.perf_counter() - started, 1),
        "table": table,
    }  # fmt: skip
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "photographs.json").write_text(json.dumps(found, indent=1) + "\n")
    lines = [
        "| selected by | method | learning rates | val mAP | test mAP | difference to AN "
        "| s | samples/s | MiB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in table:
        cells = [f"{row[key][0]:.2f} ± {row[key][1]:.2f}" for key in ("val mAP", "test mAP")]
        cells.append("{:+.2f} ± {:.2f}".format(*row["difference to AN"]))
        rates = ", ".join(f"{rate:g}" for rate in row["rates"])
        cost = (
            f"{row['training seconds']:.1f} | {row['samples per second']:.0f} | {row['peak memory MiB']:.0f}"
        )
        lines.append(f"| {row['select']} | {row['method']} | {rates} | {' | '.join(cells)} | {cost} |")
    (RESULTS / "photographs.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
