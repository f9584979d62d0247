"""Figures of the papers, drawn from runs and stores: each function returns an `Analysis`.

An `Analysis` holds the matplotlib figure and the numbers behind it, and writes both. `spml analyse` draws the
same figures on the command line.
"""

from .distributions import densities, separation
from .loss_curves import gradients, losses
from .posterior_check import posterior
from .predictive_values import pseudo_labels
from .registry import FigureKind, draw_figure, figures, register_figure
from .result import Analysis
from .without_truth import observed_only

__all__ = [
    "Analysis",
    "FigureKind",
    "densities",
    "draw_figure",
    "figures",
    "gradients",
    "losses",
    "observed_only",
    "posterior",
    "pseudo_labels",
    "register_figure",
    "separation",
]
