"""What scripts of this folder share: results with their date and machine, pages, data and times."""

from __future__ import annotations

import csv
import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from datetime import date
from importlib import resources
from pathlib import Path

import numpy as np
import yaml

from spml.common.files import write_json, write_text
from spml.config import DataConfig
from spml.data import open_dataset
from spml.runs.folder.summary import versions

RESULTS = Path(__file__).parent / "results"


# -- results ---------------------------------------------------------------------------------------------


def processor():
    """Name of the CPU."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def today(machine=None, **packages):
    """Date, machine and versions of what is measured; `packages` are versions of further packages."""
    about = {"date": date.today().isoformat(), "machine": machine or processor()}
    return {**about, "versions": {**versions(), **packages}}


def load_results(name, **absent):
    """Results of NAME.json, or what is given if there are none yet."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else absent


def save_results(name, result, page=None):
    """Write NAME.json, and its page NAME.md."""
    write_json(RESULTS / f"{name}.json", result)
    if page is not None:
        save_page(name, page)


def save_page(name, page):
    """Write NAME.md.

    A page that begins with a heading of the second level, such as `## Tables`, replaces only what follows
    this heading in the file: the text above it is written by hand.
    """
    path, heading = RESULTS / f"{name}.md", page.partition("\n")[0] + "\n"
    if heading.startswith("## ") and path.is_file():
        page = path.read_text(encoding="utf-8").partition(heading)[0] + page
    write_text(path, page)


# -- pages -----------------------------------------------------------------------------------------------


def markdown(*blocks):
    """Text of a page: headings, paragraphs and tables, with an empty line between them."""
    return "\n\n".join(blocks) + "\n"


def table(titles, rows, *, right=False):
    """A table, whose titles are strings or one string with ` | ` between them.

    `right` aligns all columns but the first to the right.
    """
    titles = titles.split(" | ") if isinstance(titles, str) else titles
    line = "|---" + ("|---:" if right else "|---") * (len(titles) - 1) + "|"
    head = table_row(*titles).replace("|  |", "| |")
    return "\n".join([head, line, *(table_row(*cells) for cells in rows)])


def table_row(*cells):
    """A line of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def mean_sd(values, form=".1f"):
    """Mean and standard deviation of scores, as text in percent."""
    values = [100 * value for value in values]
    return f"{statistics.mean(values):{form}} ± {statistics.stdev(values):{form.lstrip('+')}}"


def made(result, *more):
    """Date, CPU and cores of a result, and more, as text."""
    cores = result["versions"]["machine"].partition(", ")[2]
    return ", ".join((result["date"], result["machine"], cores, *more))


# -- data ------------------------------------------------------------------------------------------------


def feature_sets():
    """Settings of the data sets of the spec `features` of `spml bench`, by name."""
    text = resources.files("spml.bench").joinpath("specs/features.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)["data"]


def open_set(settings, root, seed):
    """Data set of a spec with one known positive per sample, drawn uniformly."""
    return open_dataset(
        DataConfig(
            path=str(Path(root) / settings["path"]),
            unlisted="negative",
            observe="single",
            observe_seed=seed,
            split_seed=seed,
            test_share=settings.get("test_share", 0.0),
        )
    )


def read_rows(path, *splits):
    """Rows of a CSV file as dictionaries: all, or those whose column `split` has one of these values."""
    with open(path, encoding="utf-8", newline="") as stream:
        return [row for row in csv.DictReader(stream) if not splits or row["split"] in splits]


def write_rows(path, rows):
    """Write rows with equal keys as a CSV file."""
    with open(path, "w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def read_photographs(folder, classes=None):
    """Files, true labels (N, C) and split of photographs, from `labels.csv` of their folder, and the classes:
    those of `classes.txt`, if none are given."""
    rows = read_rows(Path(folder) / "labels.csv")
    classes = classes or (Path(folder) / "classes.txt").read_text().split()
    truth = np.array([[name in row["labels"].split() for name in classes] for row in rows])
    return (
        [Path(folder) / row["file"] for row in rows],
        truth,
        np.array([row["split"] for row in rows]),
        classes,
    )


# -- times -----------------------------------------------------------------------------------------------


def cpu_seconds():
    """CPU seconds of this process and of its child processes that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def timed(call):
    """Wall time of a call in seconds."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def ratio(timings, name, base):
    """Median over rounds of the ratio of two of the candidates that took turns, {name: [seconds]}."""
    return statistics.median(a / b for a, b in zip(timings[name], timings[base], strict=True))


def in_child(script, *words, **options):
    """What a script prints last, as JSON, in a process of its own: its time and memory are not ours."""
    command = [sys.executable, script, *map(str, words)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, **options)
    return json.loads(done.stdout.splitlines()[-1])
