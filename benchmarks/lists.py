"""Measure how long lists of many image files take to open, and the memory that they need.

    python benchmarks/lists.py FOLDER [LARGEST]    # makes up to 10 million empty files, and removes them

Files are in folders of 1,000. Opening reads the labels and makes sure that every file is there; images are
not decoded. Each case is a process of its own, and its time and memory are those after the imports. Writes
benchmarks/results/lists.json and .md.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
import time
from importlib.metadata import version
from pathlib import Path

from shared import in_child, made, markdown, save_results, table, today

from spml.engine.process_memory import peak_memory

SIZES = (100_000, 1_000_000, 10_000_000)
IN_FOLDER = 1000
LABELS = 1000
CASES = {
    "csv": "CSV, file and label",
    "parquet": "Parquet, file and label",
    "folder": "a folder per class",
    "predict csv": "CSV, for prediction",
    "predict folder": "folder, for prediction",
}


def make(folder, count):
    """Empty files, and lists of them."""
    import pyarrow
    from pyarrow import parquet

    names, labels = [], []
    for first in range(0, count, IN_FOLDER):
        parent = folder / "images" / f"{first // IN_FOLDER:05}"
        parent.mkdir(parents=True)
        for number in range(first, first + IN_FOLDER):
            os.close(os.open(parent / f"photo_{number:08}.jpg", os.O_CREAT | os.O_WRONLY))
            names.append(f"{parent.name}/photo_{number:08}.jpg")
            labels.append(f"class {number % LABELS}")
    with open(folder / "list.csv", "w") as stream:
        stream.write("file,label\n")
        stream.writelines(f"{name},{label}\n" for name, label in zip(names, labels, strict=True))
    parquet.write_table(pyarrow.table({"file": names, "label": labels}), folder / "list.parquet")


def measure(case, folder):
    """Open a list. Prints seconds, and the growth of the peak of memory in MB."""
    from spml.config import DataConfig
    from spml.data import list_inputs, start_opening

    images = str(folder / "images")
    if case == "parquet":
        importlib.import_module("pyarrow.parquet")
    before, started = peak_memory(), time.perf_counter()
    if case == "predict folder":
        opened = list_inputs([images])
    elif case == "predict csv":
        opened = list_inputs([str(folder / "list.csv")], DataConfig(images=images))
    elif case == "folder":
        opened = start_opening(DataConfig(path=images))
    else:
        path = folder / f"list.{case}"
        opened = start_opening(DataConfig(path=str(path), images=images))
    seconds = time.perf_counter() - started
    grown = peak_memory() - before
    count = len(opened[0]) if isinstance(opened, tuple) else len(opened.records.ids)
    print(json.dumps({"files": count, "seconds": round(seconds, 2), "mb": grown // 1_000_000}))


def page(result):
    """The table as Markdown."""
    found = {(row["case"], row["files"]): row for row in result["rows"]}
    rows = []
    for case, title in CASES.items():
        cells = []
        for size in result["sizes"]:
            row = found.get((case, size))
            cells += ["-", "-"] if row is None else [f"{row['seconds']:.1f}", f"{row['mb'] / 1000:.1f}"]
        rows.append((title, *cells))
    titles = ["list"]
    for size in result["sizes"]:
        titles += [f"{size:,} files: s", "GB"]
    return markdown(
        made(result, f"pyarrow {result['versions']['pyarrow']}. `python benchmarks/lists.py FOLDER`."),
        "Seconds to open a list of image files, and by how much the peak of memory grows, in GB. Files are "
        "empty and in folders of 1,000, which the system had in its cache.",
        table(titles, rows),
    )


def main(folder, largest=SIZES[-1]):
    """Measure all cases and write the results."""
    result = today(pyarrow=version("pyarrow"))
    result |= {"sizes": [size for size in SIZES if size <= int(largest)], "rows": []}
    for size in result["sizes"]:
        parent = Path(folder, str(size))
        make(parent, size)
        for case in CASES:
            result["rows"].append({"case": case, **in_child(__file__, "case", case, parent)})
            print(json.dumps(result["rows"][-1]), flush=True)
        shutil.rmtree(parent)
    save_results("lists", result, page(result))


if __name__ == "__main__":
    if sys.argv[1] == "case":  # in the process that measures it
        measure(sys.argv[2], Path(sys.argv[3]))
    else:
        main(*sys.argv[1:])
