"""Heads that are solved instead of trained: ridge, LDA, class-mean difference, and the auto head."""

from .auto import FEW, MOST_SCORES, AutoHead, HeldOutLogits, fit_auto, keep_all
from .columns import Columns
from .ensemble import Ensemble, EnsembleSettings
from .linear import CLOSED_FORM, FINITE_PENALTIES, LDA, MEAN_DIFFERENCE, PENALTIES, RIDGE, ClosedForm
from .moments import check_width, moments

__all__ = [
    "CLOSED_FORM",
    "FEW",
    "FINITE_PENALTIES",
    "LDA",
    "MEAN_DIFFERENCE",
    "MOST_SCORES",
    "PENALTIES",
    "RIDGE",
    "AutoHead",
    "ClosedForm",
    "Columns",
    "Ensemble",
    "EnsembleSettings",
    "HeldOutLogits",
    "check_width",
    "fit_auto",
    "keep_all",
    "moments",
]
