"""Audits of observed labels: probable missing and wrong labels, and the folder that holds them.

The functions answer three questions about plain arrays, without a run: which labels are missing, which given
ones are doubtful, and how much is missing in each class and in all. `spml audit` asks them about a run.
"""

from .missing import (
    HiddenLabels,
    MissingLabels,
    Yield,
    expected_yield,
    find_missing_labels,
    rank_missing_labels,
)
from .report import ClassSummary, class_report, health_summary
from .wrong import WrongLabels, rank_wrong_labels

__all__ = [
    "ClassSummary",
    "HiddenLabels",
    "MissingLabels",
    "WrongLabels",
    "Yield",
    "class_report",
    "expected_yield",
    "find_missing_labels",
    "health_summary",
    "rank_missing_labels",
    "rank_wrong_labels",
]
