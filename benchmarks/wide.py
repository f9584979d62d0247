"""Measure how long heads in closed form take with few samples and many features, and the memory they need.

    python benchmarks/wide.py [SAMPLES]    # writes results/wide.json and .md; SAMPLES = 200 or 2000

Features are random: dense ones Gaussian, sparse ones counts of which 1 in 100 is not 0. Each case is a
process of its own, for 40 seconds at most; time and memory are those of `spml.train`, after the imports and
the making of the features.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy import sparse
from shared import in_child, made, markdown, save_results, table, today

SAMPLES, WIDTHS = (200, 2000), (1000, 4000, 20_000, 100_000)
CLASSES = 10
HEADS, KINDS, LIMIT = ("ridge", "lda", "auto"), ("dense", "sparse"), 40


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


def run_case(case):
    """What a case in a process of its own measured, or why it did not end."""
    try:
        return in_child(__file__, *case, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return {"problem": f"more than {LIMIT} s"}
    except subprocess.CalledProcessError as error:
        last = error.stderr.strip().splitlines()[-1]
        return {"problem": "refused" if "InputError" in last else last[:200]}


def page(result):
    """The table as Markdown."""
    rows = []
    for row in result["rows"]:
        now = row["now"]
        cell = now.get("problem") or f"{now['seconds']:.1f} s, {now['mb'] / 1000:.1f} GB"
        rows.append((row["head"], f"{row['samples']:,}", f"{row['features']:,}", row["kind"], cell))
    return markdown(
        made(result, f"torch {result['versions']['torch']}. `python benchmarks/wide.py`."),
        "Time and memory of training a head on few samples with many features.",
        table(("head", "samples", "features", "kind", "time, memory"), rows),
    )


def main(largest=SAMPLES[-1]):
    """Measure all cases and write the results."""
    result = today() | {"rows": []}
    some = [count for count in SAMPLES if count <= int(largest)]
    for samples, width, head, kind in itertools.product(some, WIDTHS, HEADS, KINDS):
        case = head, samples, width, kind
        row = dict(zip(("head", "samples", "features", "kind"), case, strict=True))
        result["rows"].append({**row, "now": run_case(case)})
        print(json.dumps(result["rows"][-1]), flush=True)
    save_results("wide", result, page(result))


if __name__ == "__main__":
    if len(sys.argv) == 5:  # a case, in the process that measures it
        measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    else:
        main(*sys.argv[1:])
