"""Tables of a report for LaTeX (package booktabs)."""

from __future__ import annotations

from collections.abc import Sequence

from .markdown import UNKNOWN, criterion, one_line, percent
from .results import Entry, Report

_PER_TABLE = 6  # data sets side by side
_ESCAPES = str.maketrans(
    {character: "\\" + character for character in "{}$&#%_"}
    | {
        "\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}",
        ">": r"\textgreater{}", "|": r"\textbar{}", "`": r"\textasciigrave{}", '"': "''", "*": "{*}",
        "[": "{[}",  # at the start of a line it would become an argument of the line break before
    }
)  # fmt: skip


def escape(text: object) -> str:
    """Any text as LaTeX that prints it literally, on one line."""
    return one_line(text).translate(_ESCAPES)


def to_latex(report: Report) -> str:
    """One table per way of hiding and selection mode, with at most six data sets each."""
    parts = ["% \\usepackage{booktabs}"]
    for hiding in sorted({hiding for _, hiding in report.entries}):
        data = [name for name, other in report.entries if other == hiding]
        for mode in report.modes:
            for first in range(0, len(data), _PER_TABLE):
                parts.append(_table(report, hiding, mode, data[first : first + _PER_TABLE]))
    return "\n\n".join(parts) + "\n"


def _table(report: Report, hiding: str, mode: str, data: Sequence[str]) -> str:
    columns = [report.entries[name, hiding] for name in data]
    names = {name for entries in columns for name, by in entries if by == mode}
    ranked = [name for name in report.rankings[mode].candidates if name in names]
    lines = []
    for name in [*ranked, *sorted(names.difference(ranked))]:
        cells = [_cell(entries.get((name, mode))) for entries in columns]
        mark = r"$^\circ$" if name in report.reference_only else ""
        lines.append(" & ".join([escape(name) + mark, *cells]) + r" \\")
    caption = (
        f"Test mAP in \\%, mean and standard deviation over seeds; hiding {escape(hiding)}; trial and epoch "
        f"selected by {escape(criterion(mode))}. Bold: best; underlined: not significantly different from it "
        "(t-test over seeds and paired bootstrap over test samples, Holm, 5\\,\\%)"
    )
    caption += "; $\\circ$: for reference only." if report.reference_only else "."
    return "\n".join(
        [
            "\\begin{table}\n\\centering\\small",
            f"\\caption{{{caption}}}",
            f"\\begin{{tabular}}{{l{'r' * len(data)}}}\n\\toprule",
            " & ".join(["", *map(escape, data)]) + " \\\\\n\\midrule",
            *lines,
            "\\bottomrule\n\\end{tabular}\n\\end{table}",
        ]
    )


def _cell(entry: Entry | None) -> str:
    if entry is None:
        return "--"
    mean = percent(entry.test.mean)
    if entry.best:
        mean = f"\\textbf{{{mean}}}"
    elif entry.tied:
        mean = f"\\underline{{{mean}}}"
    deviation = percent(entry.test.sd)
    return mean if deviation == UNKNOWN else f"{mean}\\,{{\\scriptsize$\\pm${deviation}}}"
