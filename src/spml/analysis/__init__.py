"""Figures of the papers, drawn from runs and stores: each function returns an `Analysis`.

An `Analysis` holds the matplotlib figure and the numbers behind it, and writes both. `spml analyse` draws the
same figures on the command line.
"""

from .counts import counts
from .epochs import epochs
from .loss_curves import gradients, losses
from .registry import FigureKind, draw_figure, figures, register_figure
from .result import Analysis
from .sensitivity import sensitivity

__all__ = [
    "Analysis",
    "FigureKind",
    "counts",
    "draw_figure",
    "epochs",
    "figures",
    "gradients",
    "losses",
    "register_figure",
    "sensitivity",
]
