"""The command `spml audit`. Heavy modules are imported when it runs."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jsonargparse import ArgumentParser, Namespace

from ..config import DataConfig
from .evaluate import add_cluster_arguments, add_engine_arguments

if TYPE_CHECKING:
    from ..audit.folder import Audit
    from ..audit.report import ClassSummary

_OUTPUT = "audit"
_FIRST = 10


def add_audit_command(commands: Any) -> None:
    """Add `audit` to the commands of `spml`."""
    parser = ArgumentParser(
        description="Find labels that are probably missing in a data set, with the scores of a trained run: "
        "a ranked list with its expected yield, given labels that look wrong, and a report on every class. "
        "Samples that the run was trained on are scored by models that were fitted without them."
    )
    parser.add_argument("run", help="folder of the run")
    parser.add_argument(
        "data_path", nargs="?", default="", metavar="data", help="data; default: that of the training"
    )
    # Only what is stated replaces a setting of the training.
    first = len(parser._actions)
    parser.add_class_arguments(DataConfig, "data")
    for action in parser._actions[first:]:
        action.default = argparse.SUPPRESS
    parser.add_argument("--output", default="", help=f"folder of the audit; default: {_OUTPUT} in the run")
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier audit")
    parser.add_argument(
        "--folds",
        type=int | None,
        default=None,
        help="parts of the training samples, each scored by a model that is fitted without it; 0 = none. "
        "Default: 5 where the head is solved, in seconds; 0 where the model is trained, because each part "
        "takes as long as the training. A command that was killed goes on when it is given again",
    )
    parser.add_argument("--top", type=int, default=1000, help="most labels that are listed; 0 = all")
    parser.add_argument("--per_class", type=int, default=0, help="most labels of a class; 0 = any")
    parser.add_argument(
        "--min_probability", type=float, default=0.05, help="least probability of a label that is listed"
    )
    parser.add_argument(
        "--mean_labels",
        type=float | None,
        default=None,
        help="mean number of labels per sample K; default: as stated for the training",
    )
    parser.add_argument(
        "--format",
        type=Literal["csv", "jsonl", "parquet"],
        default="csv",
        help="also write the list as missing.jsonl or missing.parquet",
    )
    add_engine_arguments(parser)
    add_cluster_arguments(parser, "samples are scored")
    commands.add_subcommand("audit", parser, help="find missing labels")


def run_audit_command(arguments: Namespace) -> None:
    """Audit a data set, and print what was found.

    Raises:
        InputError: Run, data or output do not suit.
        SpmlError: A training failed or was interrupted.
    """
    from ..common.errors import InputError
    from ..engine import Interrupted
    from ..runs.audits.find import Limits, run_audit
    from ..runs.compute.cluster.connection import check_engine
    from ..runs.compute.predict import Engine
    from ..runs.console import Console

    cluster = check_engine(arguments.engine, arguments.address)
    settings = arguments.data.as_dict() if "data" in arguments else {}
    if arguments.data_path:
        if settings.get("path", arguments.data_path) != arguments.data_path:
            raise InputError(
                f"the data is named twice: {arguments.data_path} and --data.path {settings['path']}"
            )
        settings["path"] = arguments.data_path
    output = Path(arguments.output or Path(arguments.run) / _OUTPUT)
    try:
        audit, health = run_audit(
            Path(arguments.run),
            settings,
            output=output,
            folds=arguments.folds,
            limits=Limits(arguments.top, arguments.per_class, arguments.min_probability),
            mean_labels=arguments.mean_labels,
            form=arguments.format,
            overwrite=arguments.overwrite,
            engine=Engine(
                arguments.batch_size, arguments.workers, arguments.device, Console(), cluster=cluster
            ),
        )
    except Interrupted as stop:
        raise Interrupted(f"{stop}; the same command goes on with what is saved.") from stop
    for line in describe_audit(output, audit, health):
        print(line)


def describe_audit(folder: Path, audit: Audit, health: dict[str, Any]) -> Iterator[str]:
    """Yield the lines that tell what an audit has found.

    Args:
        folder: Folder of the audit.
        audit: The audit.
        health: Health of the data set.
    """
    from ..audit.missing import Yield
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
        ("class", "known", "hidden", "separation", ""),
        [
            (
                each.label,
                f"{each.known:,}",
                f"{each.hidden:,.0f}",
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


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], right: int = 0) -> Iterator[str]:
    """Lay out a table; the first `right` columns are flush right, the last one is as wide as it needs."""
    from ..plots.style import cut

    cells = [tuple(header), *(tuple(cut(cell, 30) for cell in row[:-1]) + (row[-1],) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        parts = [
            cell.rjust(width) if number < right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(parts).rstrip()
