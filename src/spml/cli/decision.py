"""The options that say how scores become labels, shared by `spml predict` and `spml evaluate`."""

from __future__ import annotations

from typing import Any

from jsonargparse import ArgumentParser, Namespace


def add_decision_arguments(parser: ArgumentParser) -> None:
    """Add the options by which labels are predicted otherwise than the run itself does."""
    parser.add_argument(
        "--mean_labels",
        type=float | None,
        default=None,
        help="mean labels per sample K: cut where the model predicted K labels per validation sample",
    )
    parser.add_argument(
        "--threshold", type=float | None, default=None, help="predict labels whose score is at least this"
    )
    parser.add_argument(
        "--top_k",
        type=int,
        default=0,
        help="largest number of labels of a sample; without --mean_labels and --threshold, exactly so many",
    )
    parser.add_argument(
        "--top1_fallback",
        action="store_true",
        help="predict the label with the highest score where no other is predicted",
    )


def decision_settings(arguments: Namespace) -> dict[str, Any]:
    """Keyword arguments of `Run.decision` from the parsed options."""
    names = ("mean_labels", "threshold", "top_k", "top1_fallback")
    return {name: getattr(arguments, name) for name in names}
