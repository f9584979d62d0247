"""Figures of the papers, drawn from runs and stores: each function returns an `Analysis`.

An `Analysis` holds the matplotlib figure and the numbers behind it, and writes both. `spml analyse` draws the
same figures on the command line.
"""

from .counts import counts
from .epochs import epochs
from .loss_curves import gradients, losses
from .networks.landscape import landscape
from .networks.maps import maps
from .networks.predictions import predictions
from .recorded.distributions import densities, observed_only, separation
from .recorded.shares import posterior, pseudo_labels
from .registry import Analysis, FigureKind, draw_figure, figures, register_figure
from .trials.sensitivity import sensitivity

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
