"""Figures of the papers, drawn from runs and stores: each function returns an `Analysis`.

An `Analysis` holds the matplotlib figure and the numbers behind it, and writes both. `spml analyse` draws the
same figures on the command line.
"""

from .counts import counts
from .curves import gradients, losses
from .epochs import epochs
from .landscape import landscape
from .pictures import maps, predictions
from .recorded import densities, observed_only, posterior, pseudo_labels, separation
from .registry import Analysis, FigureKind, draw_figure, figures, register_figure
from .sensitivity import sensitivity

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
