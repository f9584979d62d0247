"""Measure how long lists of many image files take to open, and the memory that they need.

    python benchmarks/lists.py FOLDER                   # makes up to 10 million empty files, and removes them
    python benchmarks/lists.py FOLDER --largest 1000000

Files are in folders of 1,000. Opening reads the labels and makes sure that every file is there; images are
not decoded. Each case is a process of its own, and its time and memory are those after the imports. Writes
benchmarks/results/lists.json and .md.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

from shared import save_results, table_row, today

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


def report(result):
    """The table as Markdown."""
    lines = [
        f"{result['date']}, {result['machine']}, {os.cpu_count()} cores, pyarrow "
        f"{result['versions']['pyarrow']}. `python benchmarks/lists.py FOLDER`.",
        "",
        "Seconds to open a list of image files, and by how much the peak of memory grows, in GB. Files are "
        "empty and in folders of 1,000, which the system had in its cache.",
        "",
        "| list |" + "".join(f" {size:,} files: s | GB |" for size in result["sizes"]),
        "|---" * (1 + 2 * len(result["sizes"])) + "|",
    ]
    for case, title in CASES.items():
        cells = []
        for size in result["sizes"]:
            row = next((row for row in result["rows"] if (row["case"], row["files"]) == (case, size)), None)
            cells += ["-", "-"] if row is None else [f"{row['seconds']:.1f}", f"{row['mb'] / 1000:.1f}"]
        lines.append(table_row(title, *cells))
    return "\n".join(lines) + "\n"


def main():
    """Measure all cases and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--largest", type=int, default=SIZES[-1])
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        measure(arguments.case, arguments.folder)
        return
    sizes = [size for size in SIZES if size <= arguments.largest]
    rows = []
    for size in sizes:
        folder = arguments.folder / str(size)
        make(folder, size)
        for case in CASES:
            words = [sys.executable, __file__, str(folder), "--case", case]
            measured = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
            rows.append({"case": case, **measured})
            print(json.dumps(rows[-1]), flush=True)
        shutil.rmtree(folder)
    result = today(pyarrow=version("pyarrow")) | {"sizes": sizes, "rows": rows}
    save_results("lists", result, report(result))


if __name__ == "__main__":
    main()
