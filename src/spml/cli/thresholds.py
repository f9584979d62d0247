"""The command `spml thresholds`. Heavy modules are imported when it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jsonargparse import ArgumentParser, Namespace

from ..common.errors import InputError
from ..config import DataConfig, from_dict
from .evaluate import add_engine_arguments

if TYPE_CHECKING:
    from ..decisions import ClassCut, Policy

_SHOWN = 20
"""Classes in the table."""


def add_thresholds_command(commands: Any) -> None:
    """Add `thresholds` to the commands of `spml`."""
    parser = ArgumentParser(
        description="Decide from which score on each class is predicted, and calibrate probabilities. Writes "
        "thresholds.json and thresholds.png into the folder of the run; predict, evaluate and data convert "
        "use them. The default, the best F1 of each class, has a better macro F1 and a slightly worse micro "
        "F1 than one threshold for all classes (--target labels)."
    )
    parser.add_argument("run", help="folder of the run")
    parser.add_argument(
        "path",
        nargs="?",
        default="",
        help="samples with observed labels that decide; default: the held-out scores that the run has kept",
    )
    parser.add_class_arguments(DataConfig, "data")
    parser.add_argument(
        "--target",
        default="f1",
        help="f1 (best F1 of each class), labels (K labels per sample, by one threshold), precision=0.9 or "
        "recall=0.8",
    )
    parser.add_argument(
        "--per_class", action="store_true", help="reach the precision or recall in each class, not overall"
    )
    parser.add_argument(
        "--audit",
        default="",
        help="randomly chosen, fully labelled samples (spml audit sample), from which K, class priors and "
        "probabilities are estimated",
    )
    parser.add_argument(
        "--mean_labels", type=float | None, default=None, help="mean labels per sample K, if you know it"
    )
    add_engine_arguments(parser)
    commands.add_subcommand("thresholds", parser, help="decide from which score on labels are predicted")


def run_thresholds(arguments: Namespace) -> None:
    """Decide thresholds, write them and print a table.

    Raises:
        InputError: Run, data or audit do not suit, or K is not known.
    """
    settings: dict[str, Any] = arguments.data.as_dict()
    if settings["path"] and arguments.path:
        raise InputError(f"the data is named twice: {arguments.path} and --data.path {settings['path']}")
    settings["path"] = arguments.path or settings["path"]
    config = from_dict({"data": settings}).data

    from ..runs.api import load
    from ..runs.console import Console

    run = load(arguments.run)
    images = {} if config.path else {"images": config.images}
    policy = run.set_thresholds(
        config if config.path else None,
        target=arguments.target,
        per_class=arguments.per_class,
        audit=arguments.audit or None,
        mean_labels=arguments.mean_labels,
        batch_size=arguments.batch_size,
        workers=arguments.workers,
        device=arguments.device,
        console=Console(),
        **images,
    )
    print_policy(policy)
    print(f"{run.folder}: thresholds.json, thresholds.png written")


def print_policy(policy: Policy) -> None:
    """Print thresholds with their estimates, and the warnings."""
    k, rows = policy.mean_labels, policy.rows
    sources = {
        "stated": "stated",
        "audit": f"from {rows.audited} audited samples" if rows.audited else "from an audit",
        "labels": "mean of labels that are all known",
        "default": "assumed",
    }
    interval = "" if k.low is None else f", 95 % interval {k.low:.2f} to {k.high:.2f}"
    origin = f"{sources[k.source]}{interval}"
    print(f"target {policy.target.describe()}; K = {k.value:.3g} labels per sample ({origin})")
    print(f"decided on {rows.count:,} samples ({rows.source})")
    classes = sorted(policy.classes, key=lambda cut: -cut.support)
    table = [
        ("class", "threshold", "precision", "recall", "positives", "known"),
        *map(_row, classes[:_SHOWN]),
    ]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for first, *others in table:
        cells = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        print("  ".join([first.ljust(widths[0]), *cells]))
    if len(classes) > _SHOWN:
        print(f"... and {len(classes) - _SHOWN:,} classes with fewer positives (all in thresholds.json)")
    print("precision, recall and positives are estimates; the threshold is a logit")
    for warning in policy.warnings:
        print(f"warning: {warning}")


def _row(cut: ClassCut) -> tuple[str, ...]:
    shares = ("" if share is None else f"{100 * share:.0f} %" for share in (cut.precision, cut.recall))
    threshold = "never" if cut.threshold is None else f"{cut.threshold:.2f}"
    return cut.name, threshold, *shares, f"{cut.support:.1f}", str(cut.known)
