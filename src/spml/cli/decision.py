"""The options that say how scores become labels, shared by `spml predict` and `spml evaluate`."""

from __future__ import annotations

from typing import Any

from jsonargparse import ArgumentParser, Namespace


def add_decision_arguments(parser: ArgumentParser) -> None:
    """Add the options by which labels are predicted otherwise than the run itself does."""
    parser.add_argument(
        "--thresholds",
        type=str | None,
        default=None,
        metavar="FILE|global|NUMBER",
        help="thresholds of the classes; default: thresholds.json of the run, for the best F1 of each class "
        "(better macro F1). `global`: one threshold, at K labels per validation sample (better micro F1). A "
        "number: that score",
    )
    parser.add_argument(
        "--mean_labels",
        type=float | None,
        default=None,
        help="mean labels per sample K: one threshold for all classes, at which the model predicted K labels "
        "per validation sample",
    )
    parser.add_argument(
        "--threshold", type=float | None, default=None, help="predict labels whose score is at least this"
    )
    parser.add_argument(
        "--top_k",
        type=int,
        default=0,
        help="largest number of labels of a sample; without one of the three above, exactly so many",
    )
    parser.add_argument(
        "--top1_fallback",
        action="store_true",
        help="predict the label with the highest score where no other is predicted",
    )


def decision_settings(arguments: Namespace) -> dict[str, Any]:
    """Keyword arguments of `Run.decision` from the parsed options."""
    names = ("mean_labels", "threshold", "top_k", "top1_fallback", "thresholds")
    return {name: getattr(arguments, name) for name in names}
