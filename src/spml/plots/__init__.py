"""Figures, as PNG files with one look. matplotlib is imported when one is drawn."""

from .charts import (
    ClassBar,
    ThresholdCurve,
    audit_sheet,
    fit_curves,
    member_curves,
    reliability_diagram,
    threshold_curves,
    tie_set,
)
from .sheets import ExampleLabel, example_sheet, inspection_sheet

__all__ = [
    "ClassBar",
    "ExampleLabel",
    "ThresholdCurve",
    "audit_sheet",
    "example_sheet",
    "fit_curves",
    "inspection_sheet",
    "member_curves",
    "reliability_diagram",
    "threshold_curves",
    "tie_set",
]
