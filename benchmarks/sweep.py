"""Measure a comparison of all methods: 5,000 samples, 1,280 features, 20 classes, 20 epochs, AdamW.

    python benchmarks/sweep.py [SEEDS] [TRIALS]

Runs every method that suits feature data through `spml bench` with one process per core, SEEDS (default 1)
times TRIALS (default 2) each, on generated data, and extrapolates to 5 seeds and 12 trials: the time after
the start of the workers is multiplied, while their start and the opening of the data count once. Writes
benchmarks/results/sweep.json.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections import defaultdict

import numpy as np
from shared import save_results, today

from spml.bench.plan import CODE_VERSION
from spml.bench.workers import Job, run_all
from spml.common.messages import shown

SAMPLES, FEATURES, CLASSES, TEST = 5000, 1280, 20, 1000
FULL = (5, 12)  # seeds and trials of the aim
SPEC = """
title: all methods
data:
  made: {{path: made.npz, unlisted: negative, mean_labels: 2.0}}
hiding:
  uniform: {{observe: single}}
candidates:
  - {{all: true, except: [bce, iun, iu, combine, gpr, vlpl, boostlu, ignore, lac, scl]}}
  - {{name: full labels, method: bce, labels: full}}
baseline: an
ceiling: full labels
modes: [oracle, observed, "audit:100"]
seeds: {seeds}
search:
  sampler: random
  trials: {trials}
  space:
    optim.lr: {{low: 1e-4, high: 1e-1, log: true}}
train: {{epochs: 20, batch_size: 128}}
"""


def make(path):
    """Write features with labels that are noisy linear functions of a few directions; 2 of 20 on average."""
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(SAMPLES, 64))
    scores = hidden @ rng.normal(size=(64, CLASSES)) / 8 + 0.5 * rng.normal(size=(SAMPLES, CLASSES))
    labels = scores > np.quantile(scores, 0.9)
    labels[np.arange(SAMPLES), scores.argmax(1)] = True
    features = hidden @ rng.normal(size=(64, FEATURES)) + rng.normal(size=(SAMPLES, FEATURES))
    np.savez(path, X=features.astype(np.float32), Y=labels.astype(np.uint8), test=np.arange(SAMPLES) < TEST)


def main():
    """Run the comparison and write how long it took."""
    seeds, trials = (int(sys.argv[position]) if len(sys.argv) > position else position for position in (1, 2))
    workers = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder:
        make(f"{folder}/made.npz")
        url = f"sqlite:///{folder}/store.sqlite"
        text = SPEC.format(seeds=seeds, trials=trials)
        started = time.perf_counter()
        with shown():
            state, problems = run_all(Job("sweep.yaml", text, folder, folder, url, CODE_VERSION), workers)
        assert not problems, problems
        wall = time.perf_counter() - started
    by_method = defaultdict(list)
    for row in state.rows:
        by_method[row.series.candidate].append(row.seconds)
    working = sum(row.seconds for row in state.rows) / workers
    times = FULL[0] * FULL[1] / (seeds * trials)
    result = {
        **today(),
        "data": f"{SAMPLES} x {FEATURES}, {CLASSES} classes, {TEST} for the test, 20 epochs, batch 128",
        "workers": workers,
        "methods": len(by_method),
        "runs": len(state.rows),
        "failed": len(state.failed),
        "wall seconds": round(wall, 1),
        "seconds of runs per worker": round(working, 1),
        f"minutes for {FULL[0]} seeds x {FULL[1]} trials": round((wall - working + times * working) / 60, 1),
        "seconds per run": {name: round(sum(s) / len(s), 2) for name, s in sorted(by_method.items())},
    }
    save_results("sweep", result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
