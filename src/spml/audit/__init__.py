"""Audits of observed labels: probable missing and wrong labels, and the folder that holds them.

The functions answer three questions about plain arrays, without a run: which labels are missing, which given
ones are doubtful, and how much is missing in each class and in all. `spml audit` asks them about a run.
Further functions say which samples to label in full, and what their labels tell (`spml audit sample` and
`spml audit use`).
"""

from .hidden import HiddenLabels, MissingLabels
from .questions import (
    ClassSummary,
    WrongLabels,
    Yield,
    class_report,
    expected_yield,
    find_missing_labels,
    health_summary,
    rank_missing_labels,
    rank_wrong_labels,
)
from .selection import Selection, select_by_audit
from .sheets import draw_sample

__all__ = [
    "ClassSummary",
    "HiddenLabels",
    "MissingLabels",
    "Selection",
    "WrongLabels",
    "Yield",
    "class_report",
    "draw_sample",
    "expected_yield",
    "find_missing_labels",
    "health_summary",
    "rank_missing_labels",
    "rank_wrong_labels",
    "select_by_audit",
]
