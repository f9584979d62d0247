"""Redraw the figures of the papers on small data, and write the page "The papers, figure by figure".

    python docs/papers.py                 # scenes of digits, nothing to download
    python docs/papers.py --root DIR      # photographs as well; DIR as for `spml bench run photographs`
    python docs/papers.py --page          # write the page only, from the numbers that are there

Trainings and comparisons go to `build/papers` and are not repeated if they are finished. Pictures, their
numbers and the page go to `docs/papers`. The page says what is to be seen in the committed pictures: read it
again after drawing anew.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from papers_figures import DIGITS, FIGURES, PHOTOGRAPHS, STORES, Drawn

HERE = Path(__file__).resolve().parent
PAGE, WORK = HERE / "papers", HERE.parent / "build" / "papers"
MEASURED = "measured.json"
PROCESSES = 2


def main() -> None:
    """Train, draw and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, help="folder with images/voc2012_animals and models")
    parser.add_argument("--page", action="store_true", help="write the page only")
    arguments = parser.parse_args()
    if not arguments.page:
        WORK.mkdir(parents=True, exist_ok=True)
        PAGE.mkdir(exist_ok=True)
        train(DIGITS)
        for name, command in STORES.items():
            spml(f"{command} --output {name}")
        drawn = [figure for figure in FIGURES if not figure.photographs]
        if arguments.root:
            (WORK / "root").unlink(missing_ok=True)
            (WORK / "root").symlink_to(arguments.root.resolve())
            train(PHOTOGRAPHS)
            drawn = list(FIGURES)
        write_measured(draw(drawn))
    (PAGE / "README.md").write_text(page(), encoding="utf-8")


def train(commands: dict[str, str]) -> None:
    """Train the runs that are not finished yet, several at a time with one thread each."""
    missing = [
        f"{command} --threads 1 --overwrite --output {name}"
        for name, command in commands.items()
        if not (WORK / name / "summary.json").exists()
    ]
    with ThreadPoolExecutor(PROCESSES) as pool:
        list(pool.map(spml, missing))


def spml(command: str) -> float:
    """Run a command in the working folder. Returns the seconds that it took."""
    words = shlex.split(command)
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=WORK, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False
    )
    if done.returncode:
        sys.exit(f"failed: {command}")
    return time.perf_counter() - started


def draw(figures: Iterable[Drawn]) -> dict[str, float]:
    """Draw figures. Returns the seconds that each took, start of the program included."""
    seconds = {}
    for figure in figures:
        seconds[figure.name] = round(
            spml(f"{figure.command} --output {PAGE} --name {figure.name} --format png --overwrite"), 1
        )
    return seconds


def write_measured(seconds: dict[str, float]) -> None:
    """Write when, where and with which versions the figures were drawn, and what the runs reached."""
    path = PAGE / MEASURED
    before = {"seconds": {}, "runs": {}}
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
    runs = before["runs"]
    for name in [*DIGITS, *PHOTOGRAPHS]:
        summary = WORK / name / "summary.json"
        if summary.exists():
            metrics = json.loads(summary.read_text(encoding="utf-8"))
            runs[name] = {
                "epoch": metrics["selected"]["epoch"],
                "val mAP": metrics["validation"]["val/mAP"],
                "test mAP": metrics["test"]["mAP"],
            }
    content = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": {"python": platform.python_version()}
        | {name: version(name) for name in ("spml", "torch", "timm", "matplotlib")},
        "seconds": before["seconds"] | seconds,
        "runs": runs,
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def page() -> str:
    """The page: each figure with its command and what is to be seen."""
    measured = json.loads((PAGE / MEASURED).read_text(encoding="utf-8"))
    versions = ", ".join(f"{name} {number}" for name, number in measured["versions"].items())
    parts = [INTRODUCTION.format(date=measured["date"], machine=measured["machine"], versions=versions)]
    parts.append("## Runs\n\n```\n" + "\n".join(_shown_runs()) + "\n```\n")
    section = ""
    for figure in FIGURES:
        if figure.section != section:
            section = figure.section
            parts.append(f"## {section}\n")
        parts.append(
            f"### {figure.title}\n\n*{figure.papers}*\n\n```\n{figure.command}\n```\n\n"
            f"![{figure.title}]({figure.name}.png)\n\n{figure.text} [Numbers]({figure.name}.csv)\n"
        )
    return "\n".join(parts)


def _shown_runs() -> list[str]:
    runs = {**DIGITS, **STORES, **PHOTOGRAPHS}
    return [f"{command} --output {name}" for name, command in runs.items()]


INTRODUCTION = """# The papers, figure by figure

<!-- Written by docs/papers.py. -->

Every figure of the [papers](items.md) is drawn by one command from runs of your own;
[what the papers claim](claims.md) stands next to what was seen. Here they are
redrawn on data that anybody has: scenes of handwritten digits, which come with the program, and, for
some, a few thousand photographs of animals from PASCAL VOC 2012. The papers have larger images, networks
and data sets, so curves need not look like theirs; the text says where they do not. `spml analyse
--list` lists the figures and what each needs.

`python docs/papers.py` runs everything below and writes this page. The photographs are not part of the
program: `root` is a folder of your own with `images/voc2012_animals` and `models`, and two figures that
would show photographs are left out. Drawn on {date}, {machine},
{versions}.
"""


if __name__ == "__main__":
    main()
