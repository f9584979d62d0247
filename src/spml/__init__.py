"""Single-positive multi-label learning: one known label per sample in, every label out.

    run = spml.train("photos/", output="runs/photos")
    spml.load("runs/photos").predict("new/").labels

Names are loaded when they are used, so that `import spml.losses` brings in nothing else.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import audit, serve, sklearn
    from .common.errors import InputError, SpmlError
    from .config import Config
    from .labels import ObservedLabels
    from .methods.base import Batch, Card, Objective, Outputs
    from .methods.registry import register
    from .runs.api import train
    from .runs.evaluate import compare
    from .runs.predict.predictions import Predictions
    from .runs.run import Run, load
    from .testing import check_objective
    from .version import __version__

_WHERE = {
    "Batch": "methods.base",
    "Card": "methods.base",
    "Config": "config",
    "InputError": "common.errors",
    "Objective": "methods.base",
    "Outputs": "methods.base",
    "ObservedLabels": "labels",
    "Predictions": "runs.predict.predictions",
    "Run": "runs.run",
    "SpmlError": "common.errors",
    "__version__": "version",
    "check_objective": "testing",
    "compare": "runs.evaluate",
    "load": "runs.run",
    "register": "methods.registry",
    "train": "runs.api",
}

__all__ = [
    "Batch",
    "Card",
    "Config",
    "InputError",
    "Objective",
    "ObservedLabels",
    "Outputs",
    "Predictions",
    "Run",
    "SpmlError",
    "__version__",
    "audit",
    "check_objective",
    "compare",
    "load",
    "register",
    "serve",
    "sklearn",
    "train",
]

_MODULES = ("audit", "serve", "sklearn")
"""Parts that are used by name after `import spml`."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    if name in _WHERE:
        return getattr(importlib.import_module(f".{_WHERE[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
