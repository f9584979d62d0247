"""Published methods, one file per paper. The modules of this folder are found automatically."""

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
