"""Measure how long heads in closed form take with few samples and many features, and the memory they need.

    python benchmarks/wide.py                            # writes results/wide.json and .md
    python benchmarks/wide.py --samples 200 --limit 60   # up to 200 samples, and 60 seconds a case

Features are random: dense ones Gaussian, sparse ones counts of which 1 in 100 is not 0. Each case is a
process of its own; time and memory are those of `spml.train`, after the imports and the making of the
features.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy import sparse
from shared import save_results, table_head, today

SAMPLES, WIDTHS = (200, 2000), (1000, 4000, 20_000, 100_000)
CLASSES = 10
HEADS = ("ridge", "lda", "auto")


def make(samples, width, kind):
    """Features whose first columns tell the classes, and one known label of each sample."""
    generator = np.random.default_rng(0)
    labels = generator.integers(0, CLASSES, samples)
    if kind == "sparse":
        count = samples * width // 100
        places = generator.integers(0, samples, count), generator.integers(0, width, count)
        counts = generator.integers(1, 6, count).astype(np.float32)
        features = sparse.csr_array((counts, places), shape=(samples, width)).tolil()
        features[np.arange(samples), labels] = 3.0
        return features.tocsr(), labels
    features = generator.standard_normal((samples, width), dtype=np.float32)
    features[np.arange(samples), labels] += 3
    return features, labels


def measure(head, samples, width, kind):
    """Train. Prints seconds and the growth of the peak of memory in MB."""
    import spml
    from spml.engine.process_memory import peak_memory

    features, labels = make(samples, width, kind)
    before, started = peak_memory(), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        spml.train(features, labels, head=head, output=Path(folder) / "run", quiet=True, pictures=False)
        seconds, grown = time.perf_counter() - started, peak_memory() - before
    print(json.dumps({"seconds": round(seconds, 2), "mb": grown // 1_000_000}))


def run_case(case, limit):
    """A case in a process of its own. Returns what it printed, or why it did not end."""
    words = [sys.executable, __file__, "--case", *map(str, case)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"problem": f"more than {limit} s"}
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1]
        return {"problem": "refused" if "InputError" in last else last[:200]}
    return json.loads(done.stdout.splitlines()[-1])


def cell(found):
    """A case as a cell of the table."""
    return found.get("problem") or f"{found['seconds']:.1f} s, {found['mb'] / 1000:.1f} GB"


def report(result):
    """The table as Markdown."""
    lines = [
        f"{result['date']}, {result['machine']}, {os.cpu_count()} cores, torch "
        f"{result['versions']['torch']}. `python benchmarks/wide.py`.",
        "",
        "Time and memory of training a head on few samples with many features.",
        "",
        *table_head("head", "samples", "features", "kind", "time, memory"),
    ]
    for row in result["rows"]:
        lines.append(
            f"| {row['head']} | {row['samples']:,} | {row['features']:,} | {row['kind']} | "
            f"{cell(row['now'])} |"
        )
    return "\n".join(lines) + "\n"


def main():
    """Measure all cases and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=SAMPLES[-1])
    parser.add_argument("--limit", type=int, default=600)
    parser.add_argument("--case", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        head, samples, width, kind = arguments.case
        measure(head, int(samples), int(width), kind)
        return
    rows = []
    for samples in (count for count in SAMPLES if count <= arguments.samples):
        for width in WIDTHS:
            for head in HEADS:
                for kind in ("dense", "sparse"):
                    case = head, samples, width, kind
                    row = dict(zip(("head", "samples", "features", "kind"), case, strict=True))
                    row["now"] = run_case(case, arguments.limit)
                    rows.append(row)
                    print(json.dumps(row), flush=True)
    result = today() | {"rows": rows}
    save_results("wide", result, report(result))


if __name__ == "__main__":
    main()
