"""Heads that are solved instead of trained: ridge, LDA, class-mean difference, and the auto head."""

from .auto import FEW, MOST_SCORES, AutoHead, fit_auto
from .ensemble import Ensemble, EnsembleSettings
from .linear import (
    CLOSED_FORM,
    FINITE_PENALTIES,
    LDA,
    MEAN_DIFFERENCE,
    PENALTIES,
    RIDGE,
    fill_head,
    lda,
    mean_difference,
    ridge,
)
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
    "Ensemble",
    "EnsembleSettings",
    "check_width",
    "fill_head",
    "fit_auto",
    "lda",
    "mean_difference",
    "moments",
    "ridge",
]
