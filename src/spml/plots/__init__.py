"""Figures, as PNG files with one look. matplotlib is imported when one is drawn."""

from .audit import ClassBar, audit_sheet
from .comparison import compare_curves, tie_set
from .curves import learning_curves, penalty_curves
from .data import inspection_sheet
from .examples import ExampleLabel, example_sheet
from .members import member_curves
from .thresholds import ThresholdCurve, reliability_diagram, threshold_curves

__all__ = [
    "ClassBar",
    "ExampleLabel",
    "ThresholdCurve",
    "audit_sheet",
    "compare_curves",
    "example_sheet",
    "inspection_sheet",
    "learning_curves",
    "member_curves",
    "penalty_curves",
    "reliability_diagram",
    "threshold_curves",
    "tie_set",
]
