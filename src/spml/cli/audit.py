"""The command `spml audit`. Heavy modules are imported when it runs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .arguments import DataSettings
from .shared import Cluster, Prediction, Tables, columns, with_path

if TYPE_CHECKING:
    from ..audit.folder import Audit
    from ..audit.report import ClassSummary

_FIRST = 10
_BEGINNINGS = (100, 300, 1000)
"""Lengths of beginnings of the list whose expected yield is printed."""


def audit(
    run: Path,
    path: str = "",
    *,
    data: DataSettings,
    prediction: Prediction,
    cluster: Cluster,
    tables: Tables,
    output: Path | None = None,
    overwrite: bool = False,
    folds: int | None = None,
    top: int = 1000,
    per_class: int = 0,
    min_probability: float = 0.05,
    mean_labels: float | None = None,
    format: Literal["csv", "jsonl", "parquet"] = "csv",
) -> None:
    """Find labels that are probably missing in a data set, with the scores of a trained run: a ranked list
    with its expected yield, given labels that look wrong, and a report on every class. Samples that the run
    was trained on are scored by models that were fitted without them.

    Args:
        run: Folder of the run.
        path: Data; default: that of the training.
        data: Settings of the data, in place of those of the training.
        prediction: How scores are computed.
        cluster: Where samples are scored.
        tables: How names are written.
        output: Folder of the audit; default: `audit` in the folder of the run.
        overwrite: Replace an earlier audit.
        folds: Parts of the training samples, each scored by a model that is fitted without it; 0 = none.
            Default: 5 where the head is solved, in seconds; 0 where the model is trained, because each part
            takes as long as the training. A command that was killed goes on when it is given again.
        top: Most labels that are listed; 0 = all.
        per_class: Most labels of a class; 0 = any.
        min_probability: Least probability of a label that is listed.
        mean_labels: Mean number of labels per sample K; default: as stated for the training.
        format: Also write the list as missing.jsonl or missing.parquet.
    """
    from ..engine import Interrupted
    from ..runs.audits.find import Limits, run_audit

    output = output or run / "audit"
    engine = prediction.engine(cluster=cluster.find())
    try:
        found, health = run_audit(
            run,
            with_path(data, path),
            output=output,
            folds=folds,
            limits=Limits(top, per_class, min_probability),
            mean_labels=mean_labels,
            form=format,
            overwrite=overwrite,
            engine=engine,
        )
    except Interrupted as stop:
        raise Interrupted(f"{stop}; the same command goes on with what is saved.") from stop
    for line in describe_audit(output, found, health):
        print(line)


def describe_audit(folder: Path, audit: Audit, health: dict[str, Any]) -> Iterator[str]:
    """Yield the lines that tell what an audit in a folder has found, and the health of the data set."""
    import numpy as np

    from ..audit.missing import Yield, expected_yields
    from ..common.phrases import counted

    about = audit.about
    yield (
        f"{counted(about.samples, 'sample')}, {counted(len(about.classes), 'class', 'classes')}, "
        f"{about.mean_labels:g} labels per sample ({about.mean_labels_source}): "
        f"{health['share_missing']:.0%} of the labels are missing, about {about.hidden:,.0f}"
    )
    yield f"scores: {about.how}"
    yield f"probably missing (probability above .5): {about.probable:,}"
    yield f"listed: {about.listed:,}; expected to be right: {Yield(about.listed, about.expected)}"
    total = np.cumsum([row.probability for row in audit.missing])
    firsts = [f"{total[n - 1]:,.0f} of the first {n:,}" for n in _BEGINNINGS if n < about.listed]
    if firsts:
        yield f"expected to be right: {', '.join(firsts)}"
    column = {name: number for number, name in enumerate(about.classes)}
    columns_listed = [column[row.label] for row in audit.missing]
    of_classes = expected_yields(columns_listed, [row.probability for row in audit.missing], len(column))
    yields = dict(zip(about.classes, of_classes, strict=True))
    if audit.missing:
        yield ""
        rows = [
            (
                str(row.rank),
                f"{row.probability:.2f}",
                row.label,
                row.given.replace("|", ", ") or "-",
                row.file,
            )
            for row in audit.missing[:_FIRST]
        ]
        yield from _table(("rank", "prob.", "probably missing", "given", "file"), rows, right=2)
    yield ""
    worst = sorted(audit.classes, key=_quality)[:_FIRST]
    yield from _table(
        ("class", "known", "hidden", "listed", "right", "separation", ""),
        [
            (
                each.label,
                f"{each.known:,}",
                f"{each.hidden:,.0f}",
                f"{yields[each.label].listed:,}",
                f"{yields[each.label].expected:,.0f}",
                f"{each.separation:.2f}" if each.known else "-",
                f"not learnable: {each.reason}" if each.reason else "",
            )
            for each in worst
        ],
    )
    more = len(audit.classes) - len(worst)
    yield f"({counted(more, 'class', 'classes')} with a better separation: classes.csv)" if more else ""
    if audit.wrong:
        first = audit.wrong[0]
        yield (
            f"given labels that look most like mistakes: {len(audit.wrong):,} in wrong.csv, first "
            f"{first.label} of {first.file}. How many of them are wrong can't be told from the data."
        )
    yield from (f"warning: {warning}" for warning in about.warnings)
    yield f"{folder}: audit.json, missing.csv, wrong.csv, classes.csv, audit.png written"
    yield f"next: spml review {shlex.quote(str(folder))}"


def _quality(summary: ClassSummary) -> tuple[bool, float]:
    return summary.learnable, summary.separation if summary.known else 0.0


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], right: int = 0) -> list[str]:
    """Lay out a table; the first `right` columns are flush right, the last one is as wide as it needs."""
    from ..plots.style import cut

    cells = [tuple(header), *(tuple(cut(cell, 30) for cell in row[:-1]) + (row[-1],) for row in rows)]
    return columns(cells, right=range(right))
