"""The report as a page of Markdown: its sections in their order."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from ..rows import ORACLE
from .bookkeeping import FACTS, VERSIONS
from .markdown import (
    UNKNOWN,
    bullets,
    count,
    criterion,
    details,
    p_value,
    percent,
    picture,
    plain,
    share,
    table,
    task_name,
    with_sd,
)  # fmt: skip
from .results import Entry, Report
from .statistics import ALPHA, SelectionLoss, Task

_MAX_LISTED = 100


def report_page(report: Report, title: str, about: Sequence[str] = ()) -> str:
    """The whole report: below its plain title, paragraphs in Markdown about it."""
    blocks = [
        f"# {plain(title)}",
        *(text.strip() for text in about),
        "100 x mAP on the test samples. What columns mean stands under [How to read "
        "this](#how-to-read-this), what to be careful with under [Reservations](#reservations).",
        *_ranks(report),
        *_results(report),
        *_reservations(report),
        *_losses(report),
        *_last_epochs(report),
        *_reading(report),
        *_data(report),
        *_edges(report),
        *_absent(report),
        *_reproduction(report),
    ]
    return "\n\n".join(blocks) + "\n"


def cost_page(report: Report) -> str:
    """Seconds and memory, on a page of their own: only they differ between repeated runs."""
    rows = [
        [plain(c.data), plain(c.candidate), str(c.runs)]
        + [f"{c.seconds:.1f}", f"{c.seconds / c.runs:.2f}", f"{c.memory:.0f}"]
        for c in report.books.costs
    ]
    machines = sorted({names[VERSIONS.index("machine")] for names, _ in report.books.versions})
    total = sum(c.seconds for c in report.books.costs)
    header = ["data", "candidate", "runs", "seconds", "seconds per run", "memory, MiB"]
    return (
        f"# Cost\n\nFinished runs, {total:.0f} seconds of run time in total. Memory: highest peak of a "
        f"process. Machine: {'; '.join(map(plain, machines)) or UNKNOWN}.\n\n{table(header, rows, left=2)}\n"
    )


# -- sections --------------------------------------------------------------------------------------------


def _reading(report: Report) -> list[str]:
    items = []
    if report.has_gap:
        items.append(
            f"gap: share of the gap between {plain(report.baseline)} and {plain(report.ceiling)} that is "
            "closed, with all candidates selected in the same way; `-` where these two are less than 0.5 "
            "apart."
        )
    if report.baseline is not None:
        items.append(f"to {plain(report.baseline)}: difference to it, paired by seed.")
    items.append(
        "p: p-value of the difference to the best of the column (in bold), given its spread over seeds and "
        "over test samples (t-test, paired bootstrap), with Holm's correction for all candidates of the "
        f"column; ≈ marks candidates that do not differ significantly (p at least {ALPHA})."
    )
    if report.reference_only:
        names = ", ".join(map(plain, sorted(report.reference_only)))
        items.append(f"For reference only, neither ranked nor ever the best: {names}. They are marked °.")
    return [
        "## How to read this",
        "Scores are 100 x mAP on the test samples, mean ± standard deviation over seeds (of split, hiding "
        "and training). Each trial of a candidate was trained once; trial and epoch were then selected in "
        "these ways, each with columns of its own:",
        bullets([f"`{mode}`: {criterion(mode)}." for mode in report.modes]),
        "Columns:",
        bullets(items),
    ]


def _reservations(report: Report) -> list[str]:
    books, items = report.books, []
    entries = [(name, entry) for by_key in report.entries.values() for (name, _), entry in by_key.items()]
    if books.mixed:
        items.append(
            f"**The runs come from several versions of {', '.join(books.mixed)}** (see Code): differences "
            "between candidates may be differences between versions."
        )
    for data, hiding, seed in books.changed[:_MAX_LISTED]:
        items.append(f"**The data changed between runs** of {plain(data)}, {plain(hiding)}, seed {seed}.")
    if books.failures:
        items.append(f"{count(len(books.failures), 'run')} failed, as listed below.")
    if books.missing:
        items.append(f"{count(len(books.missing), 'series', 'series')} without a result, as listed below.")
    if uneven := sum(entry.trials[0] < entry.trials[1] for _, entry in entries):
        items.append(
            f"In {count(uneven, 'cell')} the number of finished trials differs between seeds, so candidates "
            "did not all have the same budget."
        )
    single = [task for task, by_key in report.entries.items() if max(e.test.n for e in by_key.values()) == 1]
    if single:
        items.append(
            f"One seed only, so no spread over seeds: {'; '.join(plain(task_name(task)) for task in single)}."
        )
    without_p = sum(
        entry.p is None and not entry.best and name not in report.reference_only for name, entry in entries
    )
    if without_p:
        items.append(
            f"In {count(without_p, 'cell')} there is no p-value, because the selected runs belong to "
            "another search and hold no draws of the test samples, or different ones: a missing ≈ has no "
            "meaning there."
        )
    if edges := sum(bool(entry.edges) for _, entry in entries):
        items.append(f"In {count(edges, 'cell')} a selected trial lies at the edge of its range; see Edges.")
    none = f"{count(books.done, 'run')}, none failed and none is missing."
    return ["## Reservations", bullets(items) if items else none]


def _data(report: Report) -> list[str]:
    rows = []
    for name, facts in report.books.facts.items():
        cells = [_range(facts.get(fact, ())) for fact in FACTS]
        rows.append([plain(name), *cells, str(report.books.fingerprints.get(name, UNKNOWN))])
    header = ["data", "classes", "training", "validation", "test", "labels per sample", "contents"]
    return [
        "## Data",
        "Samples of each part; where seeds differ, the smallest and the largest number. Contents: number of "
        "distinct fingerprints of data, split and observed labels among the runs.",
        table(header, rows),
    ]


def _ranks(report: Report) -> list[str]:
    heading = "## Over all data sets"
    usable = {mode: ranking for mode, ranking in report.rankings.items() if ranking.candidates}
    if not usable:
        return []
    header, cells = ["candidate"], dict[str, dict[str, list[str]]]()
    for mode, r in usable.items():
        header += [f"`{mode}`: rank", "mAP", "gap"][: 2 + report.has_gap]
        for name, rank, mean, gap in zip(r.candidates, r.ranks, r.means, r.gaps, strict=True):
            numbers = [f"{rank:.2f}", percent(mean), share(gap)]
            cells.setdefault(name, {})[mode] = numbers[: 2 + report.has_gap]
    unknown = [UNKNOWN] * (2 + report.has_gap)
    rows = [
        [plain(name), *(cell for mode in usable for cell in by_mode.get(mode, unknown))]
        for name, by_mode in cells.items()
    ]
    notes = []
    for mode, ranking in usable.items():
        note = f"`{mode}`: {count(len(ranking.tasks), 'pair')} of data set and way of hiding"
        if math.isfinite(ranking.cd):
            note += (
                f"; Friedman chi2 {ranking.test.chi2:.2f}, Iman-Davenport F {ranking.test.f:.2f}, "
                f"p {p_value(ranking.test.p)}; critical difference of ranks (Nemenyi, {ALPHA}) "
                f"{ranking.cd:.2f}"
            )
        if ranking.left_out:
            note += f"; not ranked, missing in more than half: {', '.join(map(plain, ranking.left_out))}"
        notes.append(note + ".")
    return [
        heading,
        "Mean rank (1 = best), mean mAP and the share of the gap that it closes, over the data sets and ways "
        "of hiding where all ranked candidates have a result. The tests assume independent data sets, which "
        "variants of one data set are not.",
        table(header, rows),
        bullets(notes),
        *(
            picture(f"ranks-{number:02d}", f"Mean ranks, selected by {mode}")
            for number, mode in enumerate(report.modes, 1)
            if mode in usable and math.isfinite(usable[mode].cd)
        ),
    ]


def _losses(report: Report) -> list[str]:
    if not report.losses:
        return []

    def row(loss: SelectionLoss) -> list[str]:
        task = ["**all**", ""] if loss.data is None else [plain(loss.data), plain(loss.hiding)]
        same = f"{loss.agreement} of {loss.pools}" if loss.pools else UNKNOWN
        return [f"`{loss.mode}`", *task, percent(loss.within), percent(loss.among), same]

    header = ["selection", "data", "hiding", "trial and epoch", "candidate as well", "same candidate"]
    return [
        "## What selection loses",
        f"Test mAP of what `{ORACLE}` selects minus that of what the mode selects. Trial and epoch: within "
        "each candidate, mean over candidates and seeds. Candidate as well: one choice among all runs of all "
        "candidates (of those with the same stated number of labels per sample, which the SP-score depends "
        "on), mean over seeds. Same candidate: how often both choose the same one.",
        table(header, [row(loss) for loss in report.losses], left=3),
        picture("selection", "What selection loses against full labels"),
    ]


def _last_epochs(report: Report) -> list[str]:
    rows, total = [], {mode: list[float]() for mode in report.modes}
    for task, entries in report.entries.items():
        gains: dict[str, list[float]] = {mode: [] for mode in report.modes}
        for (name, mode), entry in entries.items():
            if entry.last is not None and name not in report.reference_only:
                gains[mode].append(entry.test.mean - entry.last)
                total[mode].append(gains[mode][-1])
        rows.append([*map(plain, task), *map(_mean, gains.values())])
    if not any(total.values()):
        return []
    return [
        "## What the best epoch gains",
        "Test mAP of the selected trial and epoch minus that of the last epoch of the trial that is selected "
        "by last epochs, mean over candidates and seeds; without solved heads, which have no epochs.",
        table(
            ["data", "hiding", *(f"`{mode}`" for mode in report.modes)],
            [*rows, ["**all**", "", *map(_mean, total.values())]],
            left=2,
        ),
    ]


def _results(report: Report) -> list[str]:
    modes = ", ".join(f"`{mode}`" for mode in report.modes)
    blocks = ["## Results"]
    for number, task in enumerate(report.entries, 1):
        blocks += [
            f"### {plain(task_name(task))}",
            f"Trial and epoch selected by {modes}, side by side.",
            _scores(report, task),
            picture(f"scores-{number:02d}", plain(f"Test mAP on {task_name(task)}")),
            details("Selected settings (median over seeds) and edges", _selected(report, task)),
        ]
    return blocks


def _scores(report: Report, task: Task) -> str:
    columns: dict[str, Callable[[Entry], str]] = {"mAP": _score}
    if report.has_gap:
        columns["gap"] = lambda entry: share(entry.gap)
    if report.baseline is not None:
        columns[f"to {plain(report.baseline)}"] = _difference
    columns["p"] = lambda entry: p_value(entry.p)
    header = ["candidate", "seeds"]
    for mode in report.modes:
        header += [f"`{mode}`: mAP", *list(columns)[1:]]
    rows = []
    for name in report.candidates[task]:
        entries = [report.entries[task].get((name, mode)) for mode in report.modes]
        seeds = sorted({entry.test.n for entry in entries if entry is not None})
        mark = " °" if name in report.reference_only else ""
        cells = [cell(entry) if entry else UNKNOWN for entry in entries for cell in columns.values()]
        rows.append([plain(name) + mark, "/".join(map(str, seeds)), *cells])
    return table(header, rows)


def _score(entry: Entry) -> str:
    score = with_sd(entry.test.mean, entry.test.sd)
    return f"**{score}**" if entry.best else f"≈ {score}" if entry.tied else score


def _difference(entry: Entry) -> str:
    paired = entry.difference
    return UNKNOWN if paired is None else with_sd(paired.mean, paired.sd, sign=True)


def _selected(report: Report, task: Task) -> str:
    rows = []
    for name in report.candidates[task]:
        for mode in report.modes:
            entry = report.entries[task].get((name, mode))
            if entry is not None:
                trials = "/".join(map(str, sorted(set(entry.trials))))
                edges = ", ".join(f"{s} {side} {n} of {entry.test.n}" for (s, side), n in entry.edges.items())
                medians = ", ".join(
                    f"{setting} {value:.4g}" if isinstance(value, float) else f"{setting} {value}"
                    for setting, value in sorted(entry.params.items())
                )
                rows.append(
                    [plain(name), f"`{mode}`", plain(medians) or UNKNOWN, plain(edges) or UNKNOWN, trials]
                )
    return table(["candidate", "selection", "settings", "at the edge", "trials"], rows, left=4)


def _edges(report: Report) -> list[str]:
    counts: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    series: Counter[tuple[str, str]] = Counter()
    for by_key in report.entries.values():
        for (name, mode), entry in by_key.items():
            series[name, mode] += entry.test.n
            for (setting, side), times in entry.edges.items():
                counts[name, setting, side][mode] += times
    rest = "Settings with two values, or with values that have no order, are not judged."
    if not counts:
        return ["## Edges", f"No selected trial lies at the edge of its range. {rest}"]
    rows = [
        [plain(name), plain(setting), plain(side)]
        + [f"{by_mode[mode]} of {series[name, mode]}" for mode in report.modes]
        for (name, setting, side), by_mode in sorted(counts.items())
    ]
    return [
        "## Edges",
        "In how many series the selected trial lies at the edge of its search range, or the selected "
        "solution at an end of its path of penalties. Where this is frequent, a wider range might give the "
        f"candidate a higher score. {rest}",
        table(["candidate", "setting", "edge", *(f"`{mode}`" for mode in report.modes)], rows, left=3),
    ]


def _absent(report: Report) -> list[str]:
    failures, missing = report.books.failures, report.books.missing
    cells = ["data", "hiding", "candidate", "seed"]
    failed = [[*map(plain, f.series), str(f.trial), plain(f.message)] for f in failures[:_MAX_LISTED]]
    absent = [
        [*map(plain, m.series), ", ".join(f"`{mode}`" for mode in m.modes), plain(m.reason)]
        for m in missing[:_MAX_LISTED]
    ]
    blocks: list[str] = []
    for heading, header, rows, total in (
        ("Runs that failed", [*cells, "trial", "message"], failed, len(failures)),
        ("Series without a result", [*cells, "selection", "why"], absent, len(missing)),
    ):
        if rows:
            blocks += [f"## {heading}", table(header, rows, left=6)]
        if total > _MAX_LISTED:
            blocks.append(f"... and {total - _MAX_LISTED} more.")
    return blocks


def _reproduction(report: Report) -> list[str]:
    rows = [[*map(plain, names), str(runs)] for names, runs in report.books.versions]
    return [
        "## Code",
        table([*VERSIONS, "runs"], rows, left=len(VERSIONS)),
        "## To reproduce a cell",
        "The column `key` of `results.csv` names the run of each data set, way of hiding, candidate, "
        "selection and seed; the selected epoch (or penalty of a path) is counted from 1. With the commit "
        "above:",
        "```\nspml bench config STORE KEY > run.yaml\nspml train --config run.yaml\n```",
        "Next to this page: `results.csv` (one line per seed), `summary.csv` (one line per cell), "
        "`trials.csv` (one line per trial, selected or not), "
        "`tables.tex`, `figures/`, and the cost of the runs in `cost.md` and `cost.csv`.",
    ]


def _mean(values: Sequence[float]) -> str:
    return percent(sum(values) / len(values)) if values else UNKNOWN


def _range(values: Sequence[object]) -> str:
    texts = [f"{value:.2f}" if isinstance(value, float) else str(value) for value in values]
    if not texts:
        return UNKNOWN
    return plain(texts[0] if texts[0] == texts[-1] else f"{texts[0]} to {texts[-1]}")
