"""Every method trained for real on two feature sets, and those that need images on `digits`: equal budgets.

    python benchmarks/methods.py FEATURES.npz MEAN_LABELS FEATURES.npz MEAN_LABELS WORK_FOLDER

The feature files are fully labelled; one label per sample is observed, drawn with the run's seed. Every
method has the hyper-parameters and the head bias of its card, the same learning rates, epochs and seeds; rate
and epoch are chosen by the SP-score of the validation samples' one observed label, so no true label is used
before the test. MEAN_LABELS is stated to all methods alike. A finished run is not repeated, so the script can
be started again. Writes benchmarks/results/methods.json and .md.
"""

from __future__ import annotations

import json
import multiprocessing
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from spml.config import from_dict
from spml.console import Console
from spml.objective import methods
from spml.pipeline import run_training
from spml.results import versions

RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
RATES_ON_IMAGES = (1e-3, 3e-3, 1e-2)
SEEDS = (0, 1, 2)
EPOCHS, BATCH = 30, 64
RESULTS = Path(__file__).parent / "results"

FULL = {"bce": "full labels: the ceiling", "iun": "all negatives known (oracle)"}
LEFT_OUT = {
    "iu": "needs known negatives, of which single-positive data has none",
    "combine": "any of the others",
}
IMAGES = {"boostlu": "a head on feature maps", "ignore": "masks images"}
EXTRA = {
    "an + l1": {"method": "an", "optim": {"l1": 1e-4}},
    "an + l2": {"method": "an", "optim": {"l2": 1e-3}},
    "ridge": {"model": {"head": "ridge"}},
    "mean_difference": {"model": {"head": "mean_difference"}},
}
ZERO_BIAS = ("asl", "en", "focal", "gr", "hill", "splc")
"""Their cards start the head's bias at logit(K / C); how they do without."""

EXTRA |= {f"{name}, zero bias": {"method": name, "model": {"head_bias": "zero"}} for name in ZERO_BIAS}
CLOSED_FORM = ("ridge", "mean_difference")


@dataclass(frozen=True)
class Job:
    """One run."""

    name: str
    data: str
    mean_labels: float
    rate: float
    seed: int
    folder: Path
    settings: dict = field(default_factory=dict)
    epochs: int = EPOCHS


def run(job):
    """Train unless it was done; gives the summary."""
    done = job.folder / "summary.json"
    if not done.is_file():
        digits = job.data == "digits"
        data = {"path": job.data, "unlisted": "negative", "observe_seed": job.seed}
        data["observe"] = "none" if job.name in FULL else "single"
        settings = {
            "data": {"path": "digits", "observe": "single", "observe_seed": job.seed} if digits else data,
            "seed": job.seed, "select": "observed", "epochs": job.epochs, "batch_size": BATCH, "threads": 1,
            "mean_labels": job.mean_labels, "output": str(job.folder), "accelerator": "cpu",
            **job.settings,
        }  # fmt: skip
        settings["optim"] = {"lr": job.rate, **job.settings.get("optim", {})}
        run_training(from_dict(settings), overwrite=True, console=Console(silent=True))
    return job, json.loads(done.read_text())


def jobs_of(data, mean_labels, names, work, rates, epochs):
    """All runs on one data set."""
    stem = Path(data).stem.removesuffix("_X")
    for name in names:
        settings = EXTRA.get(name, {"method": name})
        for rate in rates[:1] if name in CLOSED_FORM else rates:
            for seed in SEEDS:
                folder = work / stem / f"{name.replace(' ', '')}-{rate:g}-{seed}"
                yield Job(name, data, mean_labels, rate, seed, folder, settings, epochs)


def table_of(results, names):
    """Per method: the best rate of each seed by validation SP-score, paired difference to AN."""
    best = {}
    for name in names:
        for seed in SEEDS:
            trials = [(j, s) for j, s in results if (j.name, j.seed) == (name, seed)]
            best[name, seed] = max(trials, key=lambda trial: trial[1]["validation"]["val/SP"])
    rows = []
    for name in names:
        picks = [best[name, seed] for seed in SEEDS]
        test = [100 * summary["test"]["mAP"] for _, summary in picks]
        gain = [t - 100 * best["an", seed][1]["test"]["mAP"] for t, seed in zip(test, SEEDS, strict=True)]
        rows.append(
            {
                "method": name,
                "learning rates": [job.rate for job, _ in picks],
                "epochs": [summary["selected"].get("epoch") for _, summary in picks],
                "head bias": picks[0][1].get("head_bias", {}).get("start"),
                "SP": statistics.mean(100 * s["validation"]["val/SP"] for _, s in picks),
                "val mAP": statistics.mean(100 * s["validation"]["val/mAP"] for _, s in picks),
                "test mAP": [statistics.mean(test), statistics.stdev(test)],
                "difference to AN": [statistics.mean(gain), statistics.stdev(gain)],
            }
        )
    return sorted(rows, key=lambda row: -row["test mAP"][0])


def report(found):
    """The tables as Markdown."""
    lines = [
        f"{found['date']}, {found['versions']['machine']}, torch {found['versions']['torch']}; one label per "
        "sample is observed; hyper-parameters and head bias of the cards; "
        f"{len(SEEDS)} seeds, batch {BATCH}; rate and epoch chosen by SP-score of the validation samples. "
        "Mean and standard deviation over seeds.",
    ]
    for data, part in found["data"].items():
        lines += [
            "",
            f"{data}: {part['samples']}, {part['classes']} classes, K = {part['mean labels']:g}, "
            f"{part['epochs']} epochs, learning rates {', '.join(f'{r:g}' for r in part['learning rates'])}",
            "",
            "| method | test mAP | difference to AN | val mAP | SP | rates |",
            "|---|---|---|---|---|---|",
        ]
        for row in part["table"]:
            rates = "" if row["method"] in CLOSED_FORM else ", ".join(f"{r:g}" for r in row["learning rates"])
            name = row["method"] + (f" ({FULL[row['method']]})" if row["method"] in FULL else "")
            lines.append(
                f"| {name} | {row['test mAP'][0]:.2f} ± {row['test mAP'][1]:.2f} | "
                f"{row['difference to AN'][0]:+.2f} ± {row['difference to AN'][1]:.2f} | "
                f"{row['val mAP']:.2f} | {row['SP']:.2f} | {rates} |"
            )
    lines += ["", "Left out: " + "; ".join(f"{name}: {why}" for name, why in found["left out"].items()) + "."]
    return "\n".join(lines) + "\n"


def main():
    """Run everything that is not there yet and write the tables."""
    *pairs, work = sys.argv[1:]
    work, started = Path(work), time.perf_counter()
    names = [n for n in (*methods(), *EXTRA) if n not in LEFT_OUT and n not in IMAGES]
    sets = [(pairs[i], float(pairs[i + 1]), names, RATES, EPOCHS) for i in range(0, len(pairs), 2)]
    on_images = ["an", "gr", "ll_r", "plc", "lasd", "pumlc", *IMAGES]
    sets.append(("digits", 2.0, on_images, RATES_ON_IMAGES, 10))
    jobs = [job for *about, rates, epochs in sets for job in jobs_of(*about, work, rates, epochs)]
    found = {
        "date": time.strftime("%Y-%m-%d"), "versions": versions(), "seeds": SEEDS,
        "batch size": BATCH, "left out": {**LEFT_OUT, **IMAGES}, "data": {},
    }  # fmt: skip
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        results = []
        for job, summary in pool.map(run, jobs, chunksize=4):
            results.append((job, summary))
            if len(results) % 50 == 0:
                print(f"{len(results)}/{len(jobs)}, {time.perf_counter() - started:.0f} s", flush=True)
    for data, k, chosen, rates, epochs in sets:
        mine = [(job, summary) for job, summary in results if job.data == data]
        about = next(summary["data"] for job, summary in mine if job.name == "an")
        found["data"][Path(data).stem.removesuffix("_X")] = {
            "samples": ", ".join(f"{count} {split}" for split, count in about["samples"].items()),
            "classes": about["classes"], "mean labels": k, "epochs": epochs,
            "learning rates": rates, "table": table_of(mine, chosen),
        }  # fmt: skip
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "methods.json").write_text(json.dumps(found, indent=1) + "\n")
    (RESULTS / "methods.md").write_text(report(found))
    print(report(found))


if __name__ == "__main__":
    main()
