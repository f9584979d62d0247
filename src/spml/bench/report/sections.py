"""The sections of a report, as blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..rows import ORACLE
from .accounts import FACTS, VERSIONS
from .numbers import NOTHING, how, p_value, percent, place_name, share
from .pages import Block, Bullets, Code, Heading, Paragraph, Picture, Table, plain
from .rankings import ALPHA
from .selecting import SelectionLoss
from .tables import Report

_MOST_LISTED = 100


def reading(report: Report) -> list[Block]:
    """What the numbers are."""
    blocks: list[Block] = [
        Heading(2, "How to read this"),
        Paragraph(
            "Scores are 100 x mAP on the test samples, mean ± standard deviation over seeds (of split, "
            "hiding and training). Every candidate had its trials (settings) trained once; which trial and "
            "which epoch count was then selected in these ways, and each has its own columns:"
        ),
        Bullets([f"`{mode}`: {how(mode)}." for mode in report.modes]),
    ]
    items = []
    if report.baseline is not None and report.ceiling is not None:
        items.append(
            f"gap: share of the way from {plain(report.baseline)} to {plain(report.ceiling)} that is closed, "
            "all selected in the same way; `-` where these two are less than 0.5 apart."
        )
    if report.baseline is not None:
        items.append(f"to {plain(report.baseline)}: difference to it, paired by seed.")
    items.append(
        "p: of the difference to the best of the column (in bold), given its spread over seeds and over test "
        "samples (t-test, paired bootstrap), corrected by Holm's method for all candidates of the column; ≈ "
        f"marks those that do not differ significantly (p at least {ALPHA})."
    )
    if report.reference_only:
        names = ", ".join(map(plain, sorted(report.reference_only)))
        items.append(f"For reference only, neither ranked nor ever the best: {names}. They are marked °.")
    return [*blocks, Paragraph("Columns:"), Bullets(items)]


def warnings(report: Report) -> list[Block]:
    """What a reader must know before believing a table."""
    told, found = report.account, []
    if told.mixed:
        found.append(
            f"**The runs come from several versions of {', '.join(told.mixed)}** (see Code): differences "
            "between candidates may be differences between versions."
        )
    for data, hiding, seed in told.changed[:_MOST_LISTED]:
        found.append(f"**The data changed between runs** of {plain(data)}, {plain(hiding)}, seed {seed}.")
    if told.failures:
        found.append(f"{_count(len(told.failures), 'run')} failed; they are listed below.")
    if told.missing:
        found.append(
            f"{_count(len(told.missing), 'series', 'series')} without a result; they are listed below."
        )
    uneven = sum(entry.trials[0] < entry.trials[1] for by in report.entries.values() for entry in by.values())
    if uneven:
        found.append(
            f"In {_count(uneven, 'cell')} the seeds do not have the same number of finished trials, so the "
            "budget of trials was not the same for all."
        )
    single = [p for p, by in report.entries.items() if max(e.test.n for e in by.values()) == 1]
    if single:
        found.append(
            f"One seed only, so no spread over seeds: {'; '.join(plain(place_name(p)) for p in single)}."
        )
    unsure = sum(
        entry.p is None and not entry.best and name not in report.reference_only
        for by in report.entries.values()
        for (name, _), entry in by.items()
    )
    if unsure:
        found.append(
            f"In {_count(unsure, 'cell')} there is no p-value, because the selected runs were made within "
            "another search and hold no draws of the test samples, or others: that ≈ is missing there says "
            "nothing."
        )
    edges = sum(bool(entry.edges) for by in report.entries.values() for entry in by.values())
    if edges:
        found.append(f"In {_count(edges, 'cell')} a selected trial lies at the edge of its range; see Edges.")
    good = Paragraph(f"{_count(told.done, 'run')}, none failed and none is missing.")
    return [Heading(2, "Reservations"), Bullets(found) if found else good]


def data(report: Report) -> list[Block]:
    """What the data are."""
    rows = []
    for name, facts in report.account.facts.items():
        cells = [_range(facts.get(fact, ())) for fact in FACTS]
        rows.append([plain(name), *cells, str(report.account.fingerprints.get(name, NOTHING))])
    header = ["data", "classes", "training", "validation", "test", "labels per sample", "contents"]
    return [
        Heading(2, "Data"),
        Paragraph(
            "Samples of each part. Where seeds differ, the least and the most; contents: different "
            "fingerprints of data, split and observed labels that the runs saw."
        ),
        Table(header, rows),
    ]


def ranks(report: Report) -> list[Block]:
    """Mean ranks over all places."""
    blocks: list[Block] = [Heading(2, "Over all data sets")]
    usable = {mode: ranking for mode, ranking in report.rankings.items() if ranking.candidates}
    if not usable:
        return [
            *blocks,
            Paragraph("There is no data set and way of hiding on which the candidates could be ranked."),
        ]
    with_gap = report.baseline is not None and report.ceiling is not None
    header = ["candidate"]
    for mode in usable:
        header += [f"`{mode}`: rank", "mAP", *(["gap"] if with_gap else [])]
    columns = {
        mode: {
            name: [f"{rank:.2f}", percent(mean), *([share(gap)] if with_gap else [])]
            for name, rank, mean, gap in zip(r.candidates, r.ranks, r.means, r.gaps, strict=True)
        }
        for mode, r in usable.items()
    }
    names = list(dict.fromkeys(name for ranking in usable.values() for name in ranking.candidates))
    nothing = [NOTHING] * (3 if with_gap else 2)
    lines = [
        [plain(name), *(cell for mode in usable for cell in columns[mode].get(name, nothing))]
        for name in names
    ]
    notes = []
    for mode, ranking in usable.items():
        note = f"`{mode}`: {_count(len(ranking.places), 'pair')} of data set and way of hiding"
        if math.isfinite(ranking.cd):
            note += (
                f"; Friedman chi2 {ranking.test.chi2:.2f}, Iman-Davenport F {ranking.test.f:.2f}, "
                f"p {p_value(ranking.test.p)}; critical difference of ranks (Nemenyi, {ALPHA}) "
                f"{ranking.cd:.2f}"
            )
        if ranking.left_out:
            note += f"; not ranked, missing in more than half: {', '.join(map(plain, ranking.left_out))}"
        notes.append(note + ".")
    blocks += [
        Paragraph(
            "Mean rank (1 = best), mean mAP and the share of the gap that it closes, over the data sets and "
            "ways of hiding where all ranked candidates have a result. Data sets that are variants of each "
            "other are not independent, which the tests assume."
        ),
        Table(header, lines),
        Bullets(notes),
    ]
    return blocks + [
        Picture(f"ranks-{number:02d}", f"Mean ranks, selected by {mode}")
        for number, mode in enumerate(report.modes, 1)
        if mode in usable and math.isfinite(usable[mode].cd)
    ]


def losses(report: Report) -> list[Block]:
    """What each mode loses against full labels."""
    if not report.losses:
        return []

    def line(found: SelectionLoss) -> list[str]:
        where = ["**all**", ""] if found.data is None else [plain(found.data), plain(found.hiding)]
        same = f"{found.agreement} of {found.pools}" if found.pools else NOTHING
        return [f"`{found.mode}`", *where, percent(found.within), percent(found.among), same]

    header = ["selection", "data", "hiding", "trial and epoch", "candidate as well", "same candidate"]
    return [
        Heading(2, "What selection loses"),
        Paragraph(
            f"Test mAP of what `{ORACLE}` selects less that of what the mode selects. Trial and epoch: "
            "within each candidate, mean over candidates and seeds. Candidate as well: one choice among all "
            "runs of all candidates (of those that were told the same number of labels per sample, which the "
            "SP-score depends on), mean over seeds; how often it is the same candidate as the choice by full "
            "labels."
        ),
        Table(header, [line(found) for found in report.losses], left=3),
        Picture("selection", "What selection loses against full labels"),
    ]


def last_epochs(report: Report) -> list[Block]:
    """What taking the best epoch gains."""
    rows, total = [], {mode: list[float]() for mode in report.modes}
    for place, entries in report.entries.items():
        cells = []
        for mode in report.modes:
            gained = [
                entry.test.mean - entry.last
                for (name, by), entry in entries.items()
                if by == mode and entry.last is not None and name not in report.reference_only
            ]
            cells.append(percent(sum(gained) / len(gained)) if gained else NOTHING)
            total[mode] += gained
        rows.append([*map(plain, place), *cells])
    if not any(total.values()):
        return []
    means = [percent(sum(gained) / len(gained)) if gained else NOTHING for gained in total.values()]
    return [
        Heading(2, "What the best epoch gains"),
        Paragraph(
            "Test mAP of the selected trial and epoch less that of the last epoch of the trial that is "
            "selected by last epochs, mean over candidates and seeds; solutions without epochs left out."
        ),
        Table(
            ["data", "hiding", *(f"`{mode}`" for mode in report.modes)],
            [*rows, ["**all**", "", *means]],
            left=2,
        ),
    ]


def edges(report: Report) -> list[Block]:
    """How often a selected trial lay at the edge of what was searched."""
    counts: dict[tuple[str, str, str], dict[str, int]] = {}
    series: dict[tuple[str, str], int] = {}
    for by in report.entries.values():
        for (name, mode), entry in by.items():
            series[name, mode] = series.get((name, mode), 0) + entry.test.n
            for (setting, side), count in entry.edges.items():
                found = counts.setdefault((name, setting, side), {})
                found[mode] = found.get(mode, 0) + count
    rest = "Settings with two values, or with values that have no order, are not judged."
    if not counts:
        return [Heading(2, "Edges"), Paragraph(f"No selected trial lies at the edge of its range. {rest}")]
    rows = [
        [plain(name), plain(setting), plain(side)]
        + [f"{found.get(mode, 0)} of {series.get((name, mode), 0)}" for mode in report.modes]
        for (name, setting, side), found in sorted(counts.items())
    ]
    return [
        Heading(2, "Edges"),
        Paragraph(
            "In how many series the selected trial lies at the edge of the range that was searched, or the "
            "selected solution at an end of its path of penalties. Where this is frequent, a wider range "
            f"might give the candidate a higher score. {rest}"
        ),
        Table(["candidate", "setting", "edge", *(f"`{mode}`" for mode in report.modes)], rows, left=3),
    ]


def absent(report: Report) -> list[Block]:
    """Runs that failed and series without a result."""
    blocks: list[Block] = []
    told = report.account
    if told.failures:
        lines = [
            [*map(plain, f.series), str(f.trial), plain(f.message)] for f in told.failures[:_MOST_LISTED]
        ]
        header = ["data", "hiding", "candidate", "seed", "trial", "message"]
        blocks += [Heading(2, "Runs that failed"), Table(header, lines, left=6), *_more(len(told.failures))]
    if told.missing:
        lines = [
            [*map(plain, m.series), ", ".join(f"`{mode}`" for mode in m.modes), plain(m.reason)]
            for m in told.missing[:_MOST_LISTED]
        ]
        header = ["data", "hiding", "candidate", "seed", "selection", "why"]
        blocks += [
            Heading(2, "Series without a result"),
            Table(header, lines, left=6),
            *_more(len(told.missing)),
        ]
    return blocks


def reproduction(report: Report) -> list[Block]:
    """With what code the runs were made, and how to repeat one."""
    rows = [[*map(plain, names), str(count)] for names, count in report.account.versions]
    return [
        Heading(2, "Code"),
        Table([*VERSIONS, "runs"], rows, left=len(VERSIONS)),
        Heading(2, "To reproduce a cell"),
        Paragraph(
            "`results.csv` names the run behind each data set, way of hiding, candidate, selection and seed "
            "in its column `key`, and the selected epoch (or penalty of a path), counted from 1. With the "
            "commit above:"
        ),
        Code("spml bench config STORE KEY > run.yaml\nspml train --config run.yaml"),
        Paragraph(
            "Beside this page: `results.csv` (one line per seed), `summary.csv` (one line per cell), "
            "`tables.tex`, `figures/`, and what the runs cost in `cost.md` and `cost.csv`."
        ),
    ]


def cost(report: Report) -> list[Block]:
    """Seconds and memory, on a page of their own: they alone differ between repeated runs."""
    rows = [
        [
            plain(c.data),
            plain(c.candidate),
            str(c.runs),
            f"{c.seconds:.1f}",
            f"{c.seconds / c.runs:.2f}",
            f"{c.memory:.0f}",
        ]
        for c in report.account.costs
    ]
    machines = sorted({names[VERSIONS.index("machine")] for names, _ in report.account.versions})
    total = sum(c.seconds for c in report.account.costs)
    return [
        Heading(1, "Cost"),
        Paragraph(
            f"Finished runs, {total:.0f} seconds of run time together. Memory: highest peak of a process. "
            f"Machine: {'; '.join(map(plain, machines)) or NOTHING}."
        ),
        Table(["data", "candidate", "runs", "seconds", "seconds per run", "memory, MiB"], rows, left=2),
    ]


def _range(values: Sequence[object]) -> str:
    texts = [f"{v:.2f}" if isinstance(v, float) else str(v) for v in values]
    if not texts:
        return NOTHING
    return plain(texts[0] if texts[0] == texts[-1] else f"{texts[0]} to {texts[-1]}")


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _more(count: int) -> list[Block]:
    return [Paragraph(f"... and {count - _MOST_LISTED} more.")] if count > _MOST_LISTED else []
