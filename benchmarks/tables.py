"""Write docs/benchmarks/methods.md from the committed results of `spml bench`.

    python benchmarks/tables.py collect FOLDER NAME    # after `spml bench run NAME --output FOLDER`
    python benchmarks/tables.py                        # writes the page

`collect` copies what the tables need to benchmarks/results/bench: NAME.csv (the report's summary.csv) and
NAME.json (data, versions, time). NAME.md next to them, written by hand, holds the findings.
"""

from __future__ import annotations

import itertools
import json
import re
import statistics
import sys
from collections import defaultdict
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
from scipy.stats import wilcoxon
from shared import markdown, read_rows, table

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
        keys = ("data", "hiding", "candidate", "selection")
        rows = read_rows(RESULTS / f"{name}.csv")
        self.rows = {tuple(row[key] for key in keys): row for row in rows}
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
        means = np.array([every[[unit(d) == one for d, _ in pairs]].mean(axis=0) for one in units])
        low, high = (
            np.mean([track.mean(d, h, name, mode) for d, h in pairs])
            for name in (track.spec.baseline, track.spec.ceiling)
        )
        gaps = (every.mean(0) - low) / (high - low)
        columns[mode] = dict(
            zip(ranked, zip(mean_ranks(means), every.mean(0), gaps, strict=True), strict=True)
        )
        test = friedman(means)
    against = _against_first(means, ranked)
    tests = (
        f"; a difference below {nemenyi_cd(len(ranked), len(units)):.1f} ranks is within Nemenyi's critical "
        f"difference, p of Friedman's test {test.p:.1g}"
    )
    rows = []
    for name in sorted(ranked, key=lambda name: columns["observed"][name][0]):
        cells = []
        for rank, mean, gap in (columns[mode][name] for mode in MODES):
            cells += [f"{rank:.1f}", percent(mean), share(gap)]
        rows.append((name, *cells, against[name]))
    for name in sorted(track.full):
        cells = []
        for mode in MODES:
            cells += ["-", percent(np.mean([track.mean(d, h, name, mode) for d, h in pairs])), "-"]
        rows.append((f"{name} (reference)", *cells, "-"))
    wins, runs = _wins(track, pairs, ranked, ranked[int(np.argmin(mean_ranks(means)))])
    return [
        f"Over {len(pairs)} pairs of data set and way of hiding; ranks and tests over "
        f"{counted(len(units), 'independent data set')} (mean rank, 1 = best"
        f"{tests if len(units) > 1 else ''}):",
        table("candidate | oracle: rank | mAP | gap | observed: rank | mAP | gap | p", rows),
        "p: Wilcoxon's signed-rank test over the independent data sets against the first row, by `observed` "
        f"(Holm). Seed by seed, the first row is ahead of all others in {wins} of {runs}.",
    ]


def _wins(track, pairs, names, first):
    """In how many triples of data set, hiding and seed a candidate is first, and of how many."""
    won = [
        all(track.by_seed(d, h, other, "observed").get(seed, 0) < value for other in names if other != first)
        for d, h in pairs
        for seed, value in track.by_seed(d, h, first, "observed").items()
    ]
    return sum(won), len(won)


def _against_first(means, names):
    """Holm-corrected p-values of Wilcoxon's test against the candidate of the best mean rank."""
    first = int(np.argmin(mean_ranks(means)))
    if len(means) == 1:
        return dict.fromkeys(names, "-")
    others = [number for number in range(len(names)) if number != first]
    values = [wilcoxon(means[:, first], means[:, number]).pvalue for number in others]
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
    rows = []
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
        rows.append((f"{name} (reference)" if name in track.full else name, *cells))
    return [
        f"Hiding: {hiding}; selected by `{mode}`. Best in bold; ≈ does not differ from it significantly "
        "(Holm, 5 %).",
        table(("candidate", *data), rows),
    ]


def selection(track):
    """Test mAP that each way of selecting loses against `oracle`."""
    modes = [m for m in track.spec.modes if m != "oracle"]
    rows = []
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
                rows.append((d, h, *cells))
    for h in track.hidings:
        cells = [percent(statistics.mean(total[h, m])) if total[h, m] else "-" for m in modes]
        rows.append(("**mean**", h, *cells))
    return [
        "Test mAP lost by selecting trial and epoch otherwise than by full validation labels, mean over "
        "candidates and seeds:",
        table(("data", "hiding", *(f"`{mode}`" for mode in modes)), rows),
    ]


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
    return [f"{text}: {', '.join(cells)}."]


def variants(track):
    """Test mAP that each variant of a candidate ("NAME, VARIANT") gains over the candidate itself."""
    pairs = [(name, base) for name in track.names if (base := name.rpartition(", ")[0]) in track.names]
    blocks = []
    for mode in MODES if pairs else ():
        rows = []
        for name, base in pairs:
            means = [
                statistics.mean(gains) if (gains := list(_gains(track, d, name, base, mode))) else None
                for d in track.data
            ]
            known = [mean for mean in means if mean is not None]
            means.append(statistics.mean(known) if known else None)
            rows.append((name, *("-" if mean is None else f"{100 * mean:+.2f}" for mean in means)))
        blocks += [
            "Difference to the candidate without it, paired by seed, mean over ways of hiding; selected by "
            f"`{mode}`:",
            table(("variant", *track.data, "mean"), rows),
        ]
    return blocks


def _gains(track, data, name, base, mode):
    for hiding in track.hidings:
        variant, plain = (track.by_seed(data, hiding, candidate, mode) for candidate in (name, base))
        yield from (variant[seed] - plain[seed] for seed in variant if seed in plain)


def _commits(names):
    return f"commit{'s' if len(names) > 1 else ''} {', '.join(names)}"


def page():
    """The text of the page."""
    blocks = [HEAD.strip()]
    for track in map(Track, TRACKS):
        about, versions, notes = track.about, track.about["versions"], RESULTS / f"{track.name}.md"
        blocks += [f"## {track.spec.title}", *track.spec.about]
        if notes.is_file():
            blocks.append(notes.read_text().strip())
        rows = []
        for d in track.data:
            facts = [about["data"][d][fact] for fact in FACTS]
            rows.append(
                (
                    d,
                    *(
                        "-".join(f"{v:g}" for v in sorted({fact[0], fact[-1]})) if fact else "-"
                        for fact in facts
                    ),
                )
            )
        blocks.append(table("data | classes | training | validation | test | labels per sample", rows))
        for part in (overview, variants, selection, best_epoch):
            blocks += part(track)
        for hiding, mode in itertools.product(track.hidings, MODES):
            blocks += wide_table(track, hiding, mode)
        blocks.append(
            f"`spml bench run {track.name}`: {about['runs']:,} runs ({about['failed']} failed), "
            f"{track.spec.trials} trials and "
            f"{counted(len(track.spec.seeds), 'seed')} for each candidate; "
            f"made in {about['hours in which runs were made']} hours, and in "
            f"{about['hours of all runs one after the other']} hours one after the other. {about['date']}, "
            f"{versions['machine']}, torch {versions['torch']}, "
            f"commit{'s' * (len(about['commits']) > 1)} {', '.join(about['commits'])}."
        )
    return markdown(*blocks)


if __name__ == "__main__":
    if sys.argv[1:2] == ["collect"]:
        collect(*sys.argv[2:4])
    else:
        PAGE.write_text(page(), encoding="utf-8")
