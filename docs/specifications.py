"""Write docs/benchmarks/specifications.md and published.md: what each ready-made specification runs, and what
papers report.

    python docs/specifications.py

Every specification is read, and the first trial of each candidate is planned, as `spml bench run` would. Runs
and hours are computed: hours on a GPU from the speed in benchmarks/results/gpu.md, others from committed
results. A test compares the pages with the output of this script.
"""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from pathlib import Path

from spml.bench.plan import Trial, all_series, next_trial
from spml.bench.report.markdown import plain, table
from spml.bench.spec import Candidate, Spec, find_spec, merged, ready_made
from spml.config import Config

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = ROOT / "docs" / "benchmarks"

SIZES = {
    "voc2012": (4574, 1143, 5823), "coco2014": (65665, 16416, 40137), "nuswide": (120000, 30000, 60260),
    "cub200": (4795, 1199, 5794),
}  # fmt: skip
"""Training, validation and test images of the published splits."""


def gpu_hours(spec: Spec) -> float | None:
    """Hours on one H100; None for other data or networks than the papers'.

    Training has the speed of benchmarks/results/gpu.md, and evaluation takes a third of that per image. A
    first phase, on features that are computed once, is not counted.
    """
    if any(data.name not in SIZES for data in spec.data):
        return None
    speed = float(re.search(r"^\| ours \| (\d+) \|", (RESULTS / "gpu.md").read_text(), re.M)[1])
    images = 0.0
    for data in spec.data:
        train, val, test = SIZES[data.name]
        for candidate in spec.candidates:
            epochs = merged(spec.train, data.train, candidate.settings)["epochs"]
            images += spec.trials_of(candidate) * epochs * (train + (val + test) / 3)
    return images * len(spec.seeds) * len(spec.hidings) / speed / 3600


def measured_hours(spec: Spec) -> float | None:
    """Hours of a core, from committed results: per run those of the specification itself, or per epoch those
    of `digits` for others on this data; None if there are neither."""
    path = RESULTS / "bench" / f"{spec.path.stem}.json"
    if path.exists():
        return seconds_per(path) / 3600 * spec.runs
    if [data.name for data in spec.data] != ["digits"]:
        return None
    return (
        seconds_per(RESULTS / "bench" / "digits.json")
        / epochs(find_spec("digits"))
        * epochs(spec)
        / 3600
        * spec.runs
    )


def seconds_per(path: Path) -> float:
    """Seconds per run of a committed result."""
    about = json.loads(path.read_text(encoding="utf-8"))
    return about["hours of all runs one after the other"] / about["runs"] * 3600


def epochs(spec: Spec) -> float:
    """Mean number of epochs of a run on the first data set."""
    trials = [spec.trials_of(candidate) for candidate in spec.candidates]
    each = [
        merged(spec.train, spec.data[0].train, c.settings).get("epochs", Config().epochs)
        for c in spec.candidates
    ]
    return sum(a * b for a, b in zip(trials, each, strict=True)) / sum(trials)


def digits(hours: float | None) -> str:
    """Hours as a cell, empty for None."""
    return "" if hours is None else f"{hours:.2g}" if hours < 100 else f"{hours:,.0f}"


def what(spec: Spec, candidate: Candidate, trial: Trial) -> str:
    """How a candidate is trained, in words."""
    config = trial.config
    parts = [config.method or f"head {config.model.head}"]
    if config.method and config.model.head != "auto":
        parts.append(f"head {config.model.head}")
    shared, default = merged(spec.train, spec.data[0].train), Config()
    for key, value in sorted(flat(candidate.settings).items()):
        if key not in ("method", "model.head", *candidate.space) and value != flat(shared).get(
            key, flat(vars(default)).get(key)
        ):
            parts.append(f"{key} {value}")
    if candidate.first is not None:
        first = ", ".join(f"{key} {value}" for key, value in flat(candidate.first).items())
        parts.append(f"after a first phase ({first})")
    if candidate.labels != "observed":
        parts.append(f"labels: {candidate.labels.replace('_', ' ')}")
    if candidate.mean_labels != 1:
        parts.append("without K" if candidate.mean_labels is None else f"K x {candidate.mean_labels:g}")
    return plain("; ".join(parts) + (f". {candidate.note}" if candidate.note else ""))


def flat(settings: object, prefix: str = "") -> dict[str, object]:
    """Nested settings with dots."""
    if not isinstance(settings, dict):
        return {prefix.rstrip("."): settings}
    result: dict[str, object] = {}
    for key, value in settings.items():
        result |= flat(value, f"{prefix}{key}.")
    return result


def section(spec: Spec) -> str:
    """A specification with its candidates."""
    first = {series.candidate.name: series for series in reversed(all_series(spec))}
    published = published_results(spec)
    columns = [data.name for data in spec.data if any(key[0] == data.name for key in published)]
    rows = []
    for candidate in spec.candidates:
        trial = next_trial(spec, first[candidate.name], [], Path("."))
        searched = ", ".join(candidate.space) or "-"
        rows.append(
            [
                plain(candidate.name),
                what(spec, candidate, trial),
                str(spec.trials_of(candidate)),
                plain(searched),
            ]
            + [plain(published.get((name, candidate.name), "-")) for name in columns]
        )
    heads = [f"published{f', {name}' if len(columns) > 1 else ''}" for name in columns]
    sizes = (
        f"Data: {', '.join(data.name for data in spec.data)}. Ways of hiding: {len(spec.hidings)}. Seeds: "
        f"{len(spec.seeds)}. Runs: {spec.runs:,}. {shared(spec)}"
    )
    lines = table(["row", "what it is", "trials", "searched", *heads], rows, left=5)
    return f"## {spec.path.stem}\n\n{plain(spec.title)}. {sizes}\n\n{lines}\n"


def shared(spec: Spec) -> str:
    """Settings of all runs."""
    settings = ", ".join(f"{key} {value}" for key, value in flat(dict(spec.train)).items())
    return f"All runs: {plain(settings, 600)}."


def specifications() -> str:
    """The page on specifications."""
    specs = [find_spec(name) for name in ready_made()]
    rows = [
        [f"[{spec.path.stem}](#{spec.path.stem})", plain(spec.title), f"{spec.runs:,}"]
        + [digits(gpu_hours(spec)), digits(measured_hours(spec))]
        for spec in specs
    ]
    header = ["specification", "what it compares", "runs", "hours, one H100", "hours, one core"]
    overview = table(header, rows, left=2)
    return INTRODUCTION + overview + "\n\n" + "\n".join(map(section, specs))


def rows_of_papers() -> list[dict[str, str]]:
    """Results that papers report, one row per cell of a table."""
    return list(csv.DictReader((PAGES / "published.csv").read_text(encoding="utf-8").splitlines()))


def published_results(spec: Spec) -> dict[tuple[str, str], str]:
    """What papers report for the candidates of a specification, by data set and candidate.

    A candidate is found by its name alone, since another one of its method, such as a variant, is no row of a
    paper. Table V of OPML counts where nothing is hidden.
    """
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in rows_of_papers():
        spread = f" ± {row['sd']}" if row["sd"] else ""
        entry = f"{row['mAP']}{spread} ({row['source']} {row['table']}".rstrip() + ")"
        key = row["data"], row["candidate"] + " " * (row["table"] == "V")
        found[key].append(entry + "*" * bool(row["differs"]))
    full = " " if all(hiding.settings.get("observe") == "none" for hiding in spec.hidings) else ""
    return {
        (data.name, candidate.name): "; ".join(entries)
        for data in spec.data
        for candidate in spec.candidates
        if (entries := found[data.name, candidate.name + full])
    }


def published() -> str:
    """The page of published numbers: a table per benchmark, a column per table of a paper."""
    by_data: dict[str, dict[str, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows_of_papers():
        cell = row["mAP"] + (f" ± {row['sd']}" if row["sd"] else "") + "*" * bool(row["differs"])
        by_data[row["data"]][row["candidate"]][f"{row['source']} {row['table']}".strip()] = cell
    parts = [PUBLISHED]
    for data, candidates in by_data.items():
        sources = sorted({source for cells in candidates.values() for source in cells})
        rows = [
            [plain(name), *(cells.get(source, "") for source in sources)]
            for name, cells in candidates.items()
        ]
        parts.append(f"## {data}\n\n{table(['row', *sources], rows)}\n")
    return "\n".join(parts)


INTRODUCTION = """\
# Ready-made specifications

<!-- Written by docs/specifications.py. -->

`spml bench list` prints this list, `spml bench show NAME` a specification, and `spml bench run NAME` runs
it ([Compare methods](../bench.md)). Hours on one H100 follow from [its
speed](../../benchmarks/results/gpu.md) with a ResNet-50 at 448 pixels and 16 images per batch; a first
phase on features is not counted. Hours on one core are those that the runs took, or, on scenes of digits,
that runs of `digits` took per epoch. Cells are empty where nothing was measured. Tables say how a row
differs from the settings of all runs, which stand above each. The column *published* holds [what papers
report](published.md).

"""

PUBLISHED = """\
# What papers report

<!-- Written by docs/specifications.py. -->

Test mAP in percent, mean and standard deviation, as printed, by benchmark; the numbers are the file
`docs/benchmarks/published.csv`. `*` marks a value that another paper copies differently; the file says how.
Rows have the names of candidates in [ready-made specifications](specifications.md). The values come from 3 to
10 repeats with one draw of labels, and from the best epoch by fully labelled validation images.
"""


if __name__ == "__main__":
    PAGES.joinpath("specifications.md").write_text(specifications(), encoding="utf-8")
    PAGES.joinpath("published.md").write_text(published(), encoding="utf-8")
