"""Figures of the papers, drawn from runs and stores: each function returns an `Analysis`.

An `Analysis` holds the matplotlib figure and the numbers behind it, and writes both. `spml analyse` draws the
same figures on the command line.
"""

from .counts import counts
from .distributions import densities, separation
from .epochs import epochs
from .landscape import landscape
from .loss_curves import gradients, losses
from .maps import maps
from .posterior_check import posterior
from .predictions import predictions
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
    "landscape",
    "losses",
    "maps",
    "observed_only",
    "posterior",
    "predictions",
    "pseudo_labels",
    "register_figure",
    "sensitivity",
    "separation",
]
