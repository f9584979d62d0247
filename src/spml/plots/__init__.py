"""Figures, as PNG files with one look. matplotlib is imported when one is drawn."""

from .audit import ClassBar, audit_sheet
from .comparison import compare_curves, tie_set
from .curves import fit_curves, member_curves
from .sheets import ExampleLabel, example_sheet, inspection_sheet
from .thresholds import ThresholdCurve, reliability_diagram, threshold_curves

__all__ = [
    "ClassBar",
    "ExampleLabel",
    "ThresholdCurve",
    "audit_sheet",
    "compare_curves",
    "example_sheet",
    "fit_curves",
    "inspection_sheet",
    "member_curves",
    "reliability_diagram",
    "threshold_curves",
    "tie_set",
]
