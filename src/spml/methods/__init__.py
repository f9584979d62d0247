"""Published methods, one file per paper. A module in this folder is found by itself: no list to extend."""

from .base import Batch, Card, Extra, Facts, Needs, Objective, Outputs, Progress
from .registry import create, find, hyper_parameters, methods, register

__all__ = [
    "Batch",
    "Card",
    "Extra",
    "Facts",
    "Needs",
    "Objective",
    "Outputs",
    "Progress",
    "create",
    "find",
    "hyper_parameters",
    "methods",
    "register",
]
