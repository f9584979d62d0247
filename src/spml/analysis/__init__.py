"""Figures of the papers, drawn from runs and stores: each function returns an `Analysis`.

An `Analysis` holds the matplotlib figure and the numbers behind it, and writes both. `spml analyse` draws the
same figures on the command line.
"""

from .landscape import landscape
from .loss_curves import gradients, losses
from .maps import maps
from .predictions import predictions
from .registry import FigureKind, draw_figure, figures, register_figure
from .result import Analysis

__all__ = [
    "Analysis",
    "FigureKind",
    "draw_figure",
    "figures",
    "gradients",
    "landscape",
    "losses",
    "maps",
    "predictions",
    "register_figure",
]
