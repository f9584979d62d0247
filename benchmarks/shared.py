"""What scripts of this folder share: results with their date and machine, tables in Markdown, and data."""

from __future__ import annotations

import json
import platform
from datetime import date
from pathlib import Path

from spml.common.files import write_json, write_text
from spml.config import DataConfig
from spml.data import open_dataset
from spml.runs.folder.summary import versions

RESULTS = Path(__file__).parent / "results"


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
        write_text(RESULTS / f"{name}.md", page)


def table_head(*titles):
    """First two lines of a table."""
    return [table_row(*titles), "|---" * len(titles) + "|"]


def table_row(*cells):
    """A line of a table."""
    return f"| {' | '.join(map(str, cells))} |".replace("|  |", "| |")


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
