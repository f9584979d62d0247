"""Figures of the papers, drawn from runs and stores: each function returns an `Analysis`.

An `Analysis` holds the matplotlib figure and the numbers behind it, and writes both. `spml analyse` draws the
same figures on the command line.
"""

from .counts import counts
from .distributions import densities, separation
from .epochs import epochs
from .loss_curves import gradients, losses
from .posterior_check import posterior
from .predictive_values import pseudo_labels
from .registry import FigureKind, draw_figure, figures, register_figure
from .result import Analysis
from .sensitivity import sensitivity
from .without_truth import observed_only

__all__ = [
    "Analysis",
    "FigureKind",
    "counts",
    "densities",
    "draw_figure",
    "epochs",
    "figures",
    "gradients",
    "losses",
    "observed_only",
    "posterior",
    "pseudo_labels",
    "register_figure",
    "sensitivity",
    "separation",
]
