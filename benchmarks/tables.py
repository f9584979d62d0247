"""Write docs/benchmarks/methods.md from the committed results of `spml bench`.

    python benchmarks/tables.py collect FOLDER NAME    # after `spml bench run NAME --output FOLDER`
    python benchmarks/tables.py                        # writes the page

`collect` copies what the tables need to benchmarks/results/bench: NAME.csv (the report's summary.csv) and
NAME.json (data, versions, time). NAME.md next to them, written by hand, holds the findings.
"""

from __future__ import annotations

import csv
import json
import re
import statistics
import sys
from collections import defaultdict
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
from scipy.stats import wilcoxon

from spml.bench.report.markdown import percent, share, with_sd
from spml.bench.report.statistics import friedman, holm, mean_ranks, nemenyi_cd
from spml.bench.spec import find_spec
from spml.bench.store import Store
from spml.common.phrases import counted

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "bench"
PAGE = ROOT / "docs" / "benchmarks" / "methods.md"
TRACKS = (
    "features",
    "features-added",
    "details",
    "scaling",
    "scaling-others",
    "digits",
    "queries",
    "queries-photographs",
    "photographs",
)
MODES = ("oracle", "observed")
FACTS = ("classes", "train", "val", "test", "mean_labels")
HEAD = """# Benchmarks of methods

Every number here comes from `spml bench run`, except where it is said to come from held-back sets;
`python benchmarks/tables.py` makes this page from the results that are committed under
`benchmarks/results/bench`. Scores are 100 x mAP on test samples, mean over seeds (of
split, hiding and training). Each candidate had the same budget. Trial and epoch were selected twice: by full
validation labels (`oracle`, as publications do) and by the one observed label of each validation sample
(`observed`, which is what a user has). See also
[speed and memory of the losses](../../benchmarks/README.md).
"""


def rows_of(folder):
    """Runs of a comparison by the version of the code that made the newest, as its report has them."""
    stored = [row for rows in Store(f"sqlite:///{folder}/store.sqlite").find().values() for row in rows]
    code = max(stored, key=lambda row: row.finished).versions["code"]
    return [row for row in stored if row.versions["code"] == code]


def collect(folder, name):
    """Copy what the tables need from a finished comparison."""
    rows = rows_of(folder)
    ends = [datetime.fromisoformat(row.finished) for row in rows]
    starts = [end - timedelta(seconds=row.seconds) for end, row in zip(ends, rows, strict=True)]
    data = {}
    for row in rows:
        facts = data.setdefault(row.series.data, {fact: [] for fact in FACTS})
        for fact in FACTS:
            if row.facts.get(fact) is not None and row.facts[fact] not in facts[fact]:
                facts[fact] = sorted([*facts[fact], row.facts[fact]])
    about = {
        "date": str(max(ends).date()),
        "runs": len(rows),
        "failed": sum(row.status == "failed" for row in rows),
        "hours in which runs were made": round(_covered(zip(starts, ends, strict=True)) / 3600, 2),
        "hours of all runs one after the other": round(sum(row.seconds for row in rows) / 3600, 2),
        "versions": max(rows, key=lambda row: row.finished).versions,
        "commits": sorted({row.versions["commit"] for row in rows}),
        "data": data,
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(about, indent=1) + "\n")
    (RESULTS / f"{name}.csv").write_text(Path(folder, "summary.csv").read_text())


def _covered(spans):
    """Seconds covered by at least one of the time spans: a sweep may have been interrupted."""
    seconds, reached = 0.0, None
    for start, end in sorted(spans):
        start = start if reached is None else max(start, reached)
        seconds += max((end - start).total_seconds(), 0.0)
        reached = end if reached is None else max(end, reached)
    return seconds


class Track:
    """The committed results of one specification."""

    def __init__(self, name):
        self.name, self.spec = name, find_spec(name)
        self.about = json.loads((RESULTS / f"{name}.json").read_text())
        with open(RESULTS / f"{name}.csv", newline="") as stream:
            keys = ("data", "hiding", "candidate", "selection")
            self.rows = {tuple(row[key] for key in keys): row for row in csv.DictReader(stream)}
        self.hidings = [h.name for h in self.spec.hidings if any(key[1] == h.name for key in self.rows)]
        self.data = [d.name for d in self.spec.data if any(key[0] == d.name for key in self.rows)]
        self.full = {candidate.name for candidate in self.spec.candidates if candidate.labels != "observed"}
        self.names = [c.name for c in self.spec.candidates if any(key[2] == c.name for key in self.rows)]

    def mean(self, data, hiding, name, mode):
        """Mean test mAP of a cell, NaN if the cell has no result."""
        row = self.rows.get((data, hiding, name, mode))
        return float(row["mean_mAP"]) if row else float("nan")

    def by_seed(self, data, hiding, name, mode):
        """Test mAP of a cell by seed."""
        row = self.rows.get((data, hiding, name, mode))
        return json.loads(row["test_mAP_by_seed"]) if row else {}


def unit(data):
    """Independent unit that a data set belongs to: the same photographs at two sizes are one."""
    return re.sub(r" \d+$", "", data)


def overview(track):
    """Mean rank, mAP and gap over the pairs of data set and hiding for which every candidate has a result.

    Ranks and tests count independent data sets: scores of the same data, hidden in several ways or seen at
    several sizes, are averaged first.
    """
    ranked = [name for name in track.names if name not in track.full]
    pairs = [
        (d, h) for d in track.data for h in track.hidings
        if all(track.by_seed(d, h, name, mode) for name in track.names for mode in MODES)
    ]  # fmt: skip
    if len(pairs) < 2:
        return []
    columns, units = {}, sorted({unit(d) for d, _ in pairs})
    for mode in MODES:
        every = np.array([[track.mean(d, h, name, mode) for name in ranked] for d, h in pairs])
        table = np.array([every[[unit(d) == one for d, _ in pairs]].mean(axis=0) for one in units])
        low, high = (
            np.mean([track.mean(d, h, name, mode) for d, h in pairs])
            for name in (track.spec.baseline, track.spec.ceiling)
        )
        gaps = (every.mean(0) - low) / (high - low)
        columns[mode] = dict(
            zip(ranked, zip(mean_ranks(table), every.mean(0), gaps, strict=True), strict=True)
        )
        test = friedman(table)
    against = _against_first(table, ranked)
    tests = (
        f"; a difference below {nemenyi_cd(len(ranked), len(units)):.1f} ranks is within Nemenyi's critical "
        f"difference, p of Friedman's test {test.p:.1g}"
    )
    lines = [
        f"Over {len(pairs)} pairs of data set and way of hiding; ranks and tests over "
        f"{len(units)} independent data set{'s' * (len(units) > 1)} (mean rank, 1 = best"
        f"{tests if len(units) > 1 else ''}):",
        "",
        "| candidate | oracle: rank | mAP | gap | observed: rank | mAP | gap | p |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in sorted(ranked, key=lambda name: columns["observed"][name][0]):
        cells = [
            f"{columns[m][name][0]:.1f} | {percent(columns[m][name][1])} | {share(columns[m][name][2])}"
            for m in MODES
        ]
        lines.append(f"| {name} | {' | '.join(cells)} | {against[name]} |")
    for name in sorted(track.full):
        cells = [f"- | {percent(np.mean([track.mean(d, h, name, m) for d, h in pairs]))} | -" for m in MODES]
        lines.append(f"| {name} (reference) | {' | '.join(cells)} | - |")
    wins, runs = _wins(track, pairs, ranked, ranked[int(np.argmin(mean_ranks(table)))])
    note = (
        "p: Wilcoxon's signed-rank test over the independent data sets against the first row, by `observed` "
        "(Holm). Seed "
        f"by seed, the first row is ahead of all others in {wins} of {runs}."
    )
    return [*lines, "", note, ""]


def _wins(track, pairs, names, first):
    """In how many triples of data set, hiding and seed a candidate is first, and of how many."""
    won = [
        all(track.by_seed(d, h, other, "observed").get(seed, 0) < value for other in names if other != first)
        for d, h in pairs
        for seed, value in track.by_seed(d, h, first, "observed").items()
    ]
    return sum(won), len(won)


def _against_first(table, names):
    """Holm-corrected p-values of Wilcoxon's test against the candidate of the best mean rank."""
    first = int(np.argmin(mean_ranks(table)))
    if len(table) == 1:
        return dict.fromkeys(names, "-")
    others = [number for number in range(len(names)) if number != first]
    values = [wilcoxon(table[:, first], table[:, number]).pvalue for number in others]
    p = {names[number]: f"{value:.1g}" for number, value in zip(others, holm(values), strict=True)}
    return {names[first]: "-", **p}


def wide_table(track, hiding, mode):
    """Test mAP of candidates (rows) on data sets (columns)."""
    data = [d for d in track.data if any(track.by_seed(d, hiding, name, mode) for name in track.names)]
    if not data:
        return []
    best = {
        d: max(
            (n for n in track.names if n not in track.full),
            key=lambda n: np.nan_to_num(track.mean(d, hiding, n, mode), nan=-1),
        )
        for d in data
    }
    lines = [
        f"Hiding: {hiding}; selected by `{mode}`. Best in bold; ≈ does not differ from it significantly "
        "(Holm, 5 %).",
        "",
        f"| candidate | {' | '.join(data)} |",
        "|---" * (len(data) + 1) + "|",
    ]
    order = sorted(
        track.names, key=lambda n: -np.nan_to_num(np.mean([track.mean(d, hiding, n, mode) for d in data]))
    )
    for name in order:
        cells = []
        for d in data:
            row = track.rows.get((d, hiding, name, mode))
            if not row:
                cells.append("-")
                continue
            mean, sd = float(row["mean_mAP"]), row["sd_mAP"]
            text = with_sd(mean, float(sd)) if sd else percent(mean)
            level = row["p_holm"] and float(row["p_holm"]) >= 0.05
            cells.append(f"**{text}**" if best[d] == name else f"≈ {text}" if level else text)
        lines.append(f"| {name}{' (reference)' if name in track.full else ''} | {' | '.join(cells)} |")
    return [*lines, ""]


def selection(track):
    """Test mAP that each way of selecting loses against `oracle`."""
    modes = [m for m in track.spec.modes if m != "oracle"]
    lines = [
        "| data | hiding | " + " | ".join(f"`{m}`" for m in modes) + " |",
        "|---" * (2 + len(modes)) + "|",
    ]
    total = defaultdict(list)
    for d in track.data:
        for h in track.hidings:
            cells = []
            for mode in modes:
                lost = []
                for name in track.names:
                    if name in track.full:
                        continue
                    selected, oracle = track.by_seed(d, h, name, mode), track.by_seed(d, h, name, "oracle")
                    lost += [oracle[seed] - selected[seed] for seed in selected if seed in oracle]
                if lost:
                    total[h, mode].append(statistics.mean(lost))
                cells.append(percent(statistics.mean(lost)) if lost else "-")
            if any(cell != "-" for cell in cells):
                lines.append(f"| {d} | {h} | {' | '.join(cells)} |")
    for h in track.hidings:
        cells = [percent(statistics.mean(total[h, m])) if total[h, m] else "-" for m in modes]
        lines.append(f"| **mean** | {h} | {' | '.join(cells)} |")
    intro = (
        "Test mAP lost by selecting trial and epoch otherwise than by full validation labels, mean over "
        "candidates and seeds:"
    )
    return [intro, "", *lines, ""]


def best_epoch(track):
    """Test mAP that the best epoch gains over the last one."""
    gained = defaultdict(list)
    for (_, hiding, name, mode), row in track.rows.items():
        if row.get("last_epoch_mAP") and name not in track.full and mode in MODES:
            gained[hiding, mode].append(float(row["mean_mAP"]) - float(row["last_epoch_mAP"]))
    if not gained:
        return []
    cells = [
        f"{percent(statistics.mean(gains))} ({hiding}, `{mode}`)" for (hiding, mode), gains in gained.items()
    ]
    text = "The best epoch instead of the last gains, in the mean over trained candidates and data"
    return [f"{text}: {', '.join(cells)}.", ""]


def variants(track):
    """Test mAP that each variant of a candidate ("NAME, VARIANT") gains over the candidate itself."""
    pairs = [(name, base) for name in track.names if (base := name.rpartition(", ")[0]) in track.names]
    blocks = []
    for mode in MODES if pairs else ():
        lines = [
            "Difference to the candidate without it, paired by seed, mean over ways of hiding; selected by "
            f"`{mode}`:",
            "",
            "| variant | " + " | ".join(track.data) + " | mean |",
            "|---" * (2 + len(track.data)) + "|",
        ]
        for name, base in pairs:
            means = [
                statistics.mean(gains) if (gains := list(_gains(track, d, name, base, mode))) else None
                for d in track.data
            ]
            known = [mean for mean in means if mean is not None]
            cells = ["-" if mean is None else _signed(mean) for mean in means]
            lines.append(
                f"| {name} | {' | '.join(cells)} | {_signed(statistics.mean(known)) if known else '-'} |"
            )
        blocks += [*lines, ""]
    return blocks


def _gains(track, data, name, base, mode):
    for hiding in track.hidings:
        variant, plain = (track.by_seed(data, hiding, candidate, mode) for candidate in (name, base))
        yield from (variant[seed] - plain[seed] for seed in variant if seed in plain)


def _signed(value):
    return f"{100 * value:+.2f}"


def edges(track):
    """Share of selected trials that lie at the edge of its grid, or a penalty at an end of its path."""
    grid, path, cells = defaultdict(int), defaultdict(int), defaultdict(int)
    for (_, _, name, mode), row in track.rows.items():
        if mode != "observed":
            continue
        cells[name] += int(row["seeds"])
        for edge, count in json.loads(row["edges"]).items():
            (path if edge.startswith("penalty ") else grid)[name, edge] += count
    searched = {name for (_, _, name, _), row in track.rows.items() if row["median_params"] != "{}"}
    if not searched:
        return []
    worst = sorted(grid.items(), key=lambda item: -item[1])[:6]
    named = "; ".join(f"{name}: {edge} ({count})" for (name, edge), count in worst)
    total = sum(cells[name] for name in searched)
    text = (
        f"In {sum(grid.values())} of {total} series the trial that `observed` selects lies at the edge of "
        f"the grid{', most often of ' + named if named else ''}."
    )
    ends = "; ".join(f"{name}: {edge} ({count} of {cells[name]})" for (name, edge), count in path.items())
    return [f"{text} Selected solutions at an end of their path: {ends}." if ends else text, ""]


def _commits(names):
    return f"commit{'s' if len(names) > 1 else ''} {', '.join(names)}"


def page():
    """The text of the page."""
    parts = [HEAD]
    for name in TRACKS:
        if not (RESULTS / f"{name}.csv").is_file():
            continue
        track = Track(name)
        about, versions = track.about, track.about["versions"]
        parts += [f"## {track.spec.title}\n", *(f"{text}\n" for text in track.spec.about)]
        notes = RESULTS / f"{name}.md"
        if notes.is_file():
            parts.append(notes.read_text().strip() + "\n")
        lines = [
            "| data | classes | training | validation | test | labels per sample |",
            "|---|---|---|---|---|---|",
        ]
        for d in track.data:
            facts = about["data"][d]
            cells = [
                "-".join(f"{v:g}" for v in sorted({facts[f][0], facts[f][-1]})) if facts[f] else "-"
                for f in FACTS
            ]
            lines.append(f"| {d} | {' | '.join(cells)} |")
        parts.append("\n".join([*lines, ""]))
        parts += [
            "\n".join(block)
            for block in (overview(track), variants(track), selection(track), best_epoch(track), edges(track))
            if block
        ]
        for hiding in track.hidings:
            parts += ["\n".join(block) for mode in MODES if (block := wide_table(track, hiding, mode))]
        parts.append(
            f"`spml bench run {name}`: {about['runs']:,} runs ({about['failed']} failed), "
            f"{track.spec.trials} trials and "
            f"{counted(len(track.spec.seeds), 'seed')} for each candidate; "
            f"made in {about['hours in which runs were made']} hours, and in "
            f"{about['hours of all runs one after the other']} hours one after the other. {about['date']}, "
            f"{versions['machine']}, torch {versions['torch']}, {_commits(about['commits'])}.\n"
        )
    return "\n".join(parts)


if __name__ == "__main__":
    if sys.argv[1:2] == ["collect"]:
        collect(*sys.argv[2:4])
    else:
        PAGE.write_text(page(), encoding="utf-8")
