"""Collect what the searches for faults found, and measure what checksums and locks cost.

    python benchmarks/faults.py [--cost] FOLDER [FOLDER ...]

FOLDER is one that `python -m tests.hostile.points`, `flips` or `fuzz` was given (see CONTRIBUTING.md); their
counts are added, and replace earlier ones of the same commands, files and inputs. With --cost, a checkpoint
of a ResNet-50 and its AdamW is saved in the first FOLDER, in turn with and without a checksum, and a lock is
taken and released there.

Writes benchmarks/results/faults.json and faults.md, and the table of docs/faults.md.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections import defaultdict
from pathlib import Path
from unittest.mock import patch

import timm
import torch
from safetensors.torch import save
from shared import load_results, markdown, save_results, table, timed, today

from spml.common.files import sha256_file, write_bytes
from spml.common.locks import only_writer
from spml.engine.checkpoint import save_checkpoint

SEARCHES = {
    "points": "killed before or after an operation on files, or the disk full there",
    "random": "killed at a random time",
    "flips": "a random bit of a run flipped",
    "damages": "a file of a run, an audit, a sample, a loop or a comparison damaged",
    "fuzz": "mutated inputs",
}
FAULTS = {
    "flip": "a bit flipped",
    "cut": "cut in half",
    "swap": "of another run",
    "older": "of an earlier step",
}
GUIDE = Path(__file__).parents[1] / "docs" / "faults.md"
SAVES = 15


def search_counts(folders):
    """Counts of all searches: search, subject, what is counted."""
    found = {name: defaultdict(lambda: defaultdict(int)) for name in SEARCHES}
    for folder in folders:
        for name in SEARCHES:
            path = folder / f"{name}.json"
            for subject, counts in json.loads(path.read_text()).items() if path.exists() else ():
                for what, count in counts.items():
                    found[name][subject][what] += count
    return {name: subjects for name, subjects in found.items() if subjects}


def state():
    """Content of a checkpoint of a network in training."""
    model = timm.create_model("resnet50", num_classes=80)
    optimizer = torch.optim.AdamW(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return {"model": dict(model.state_dict()), "optimizer": optimizer.state_dict()}


def costs(folder):
    """Cost of a checksum as a share of saving a checkpoint, of SHA-256 instead, and of a lock."""
    content, without, extra = state(), [], []

    def write_unchecked(path, tensors, metadata):
        write_bytes(path, save(tensors, metadata))

    for _ in range(SAVES + 1):
        with patch("spml.engine.checkpoint.write_checked", write_unchecked):
            without.append(timed(lambda: save_checkpoint(folder, content)))
        extra.append(timed(lambda: save_checkpoint(folder, content)) / without[-1] - 1)
    path = folder / "checkpoint.safetensors"
    sha256 = timed(lambda: sha256_file(path)) / statistics.median(without)
    size = path.stat().st_size

    def lock():
        with only_writer(folder, inside=True):
            pass

    for file in folder.glob("checkpoint*"):
        file.unlink()
    # The first save makes the files that the others replace.
    without, extra = without[1:], extra[1:]
    return {
        "megabytes": round(size / 1e6),
        "seconds without": round(statistics.median(without), 3),
        "checksum adds, %": round(100 * statistics.median(extra), 1),
        "quartiles, %": [round(100 * q, 1) for q in statistics.quantiles(extra, n=4)[::2]],
        "SHA-256 would add, %": round(100 * sha256, 1),
        "lock, microseconds": round(1e6 * min(timed(lock) for _ in range(100)), 1),
    }


def damages_table(subjects):
    """Table of file x fault: noticed, harmless, and wrong where there is any."""
    cells = defaultdict(dict)
    for subject, counts in subjects.items():
        file, fault = subject.rsplit(", ", 1)
        harmless = counts["cases"] - counts["found"] - counts["wrong"]
        wrong = f" / {counts['wrong']} wrong" if counts["wrong"] else ""
        cells[file][fault] = f"{counts['found']} / {harmless}{wrong}"
    return table(
        ("folder: file", *FAULTS.values()),
        [(file, *(found.get(fault, "-") for fault in FAULTS)) for file, found in cells.items()],
    )


def by_file(subjects):
    """Table of docs/faults.md: noticed and harmless cases of each file, in whatever folder."""
    cells = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    for subject, counts in subjects.items():
        place, fault = subject.rsplit(", ", 1)
        folder, path = place.split(": ", 1)
        file = Path(path)
        name = f"features/*{file.suffix}" if file.parts[0] == "features" else file.name
        if folder == "bench" and name.endswith((".csv", ".tex", ".md", ".html")):
            name = "tables of `spml bench`"
        name = re.sub(r"^epoch-\d+", "scores/epoch-*", re.sub(r"^(samples\.)", r"scores/\1", name))
        cells[name][fault][0] += counts["found"]
        cells[name][fault][1] += counts["cases"] - counts["found"] - counts["wrong"]
    rows = []
    for name, found in sorted(cells.items()):
        both = [" / ".join(map(str, found[fault])) if fault in found else "-" for fault in FAULTS]
        rows.append((name if "`" in name else f"`{name}`", *both))
    return table(("file", *FAULTS.values()), rows)


def write_guide(subjects):
    """Replace the table of docs/faults.md."""
    text, table_ = GUIDE.read_text(), by_file(subjects)
    before, _, rest = text.partition(table_.partition("\n")[0])
    GUIDE.write_text(before + table_ + rest[rest.index("\n\n") :])


def page(results):
    """The results as Markdown."""
    blocks = []
    for name, subjects in results["searches"].items():
        total = sum(counts["cases"] for counts in subjects.values())
        wrong = sum(counts["wrong"] for counts in subjects.values())
        blocks.append(f"## {total:,} x {SEARCHES[name]}: {wrong} went wrong")
        if name == "damages":
            blocks += ["Noticed in a message / without influence on any result.", damages_table(subjects)]
            continue
        columns = list(dict.fromkeys(what for counts in subjects.values() for what in counts))
        rows = []
        for subject, counts in subjects.items():
            values = map(counts.get, columns)
            rows.append((subject, *(f"{each:,}" if isinstance(each, int) else each for each in values)))
        blocks.append(table(("", *columns), rows))
    cost = results["cost"]
    low, high = cost["quartiles, %"]
    return markdown(
        "# Faults and their cost",
        f"`python benchmarks/faults.py`, {results['date']}, {results['machine']}, "
        f"{results['versions']['machine']}, torch {results['versions']['torch']}, Python "
        f"{results['versions']['python']}. What went wrong has been mended since, and is a test now. Rows of "
        "another date and the cost are of 2026-11-23, on an Intel Xeon with 2 cores.",
        *blocks,
        "## Cost",
        f"Saving a checkpoint of {cost['megabytes']} MB takes {cost['seconds without']} s without a "
        f"checksum. The checksum adds {cost['checksum adds, %']} % (median of {SAVES} pairs, quartiles {low} "
        f"to {high} %). SHA-256 would add {cost['SHA-256 would add, %']} %. Taking and releasing a lock "
        f"takes {cost['lock, microseconds']:.0f} microseconds.",
    )


def main():
    """Collect, measure and write."""
    folders = [Path(path).absolute() for path in sys.argv[1:] if path != "--cost"]
    torch.set_num_threads(1)
    now, before = today(), load_results("faults", searches={}, cost={})
    searches = {}
    for name in SEARCHES:
        earlier = before["searches"].get(name, {})
        searches[name] = {subject: {"date": before.get("date"), **each} for subject, each in earlier.items()}
        for subject, counts in search_counts(folders).get(name, {}).items():
            searches[name][subject] = {**counts, "date": now["date"]}
    cost = costs(folders[0]) if "--cost" in sys.argv else before["cost"]
    results = {**now, "searches": {name: each for name, each in searches.items() if each}, "cost": cost}
    save_results("faults", results, page(results))
    write_guide(results["searches"]["damages"])


if __name__ == "__main__":
    main()
