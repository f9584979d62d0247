"""Export: a trained model as files that run without this package. One file per format, in `formats`."""

from __future__ import annotations

from .model import Model
from .registry import (
    Exporter,
    Files,
    check_export,
    exporters,
    find_exporter,
    register_exporter,
    write_export,
)

__all__ = [
    "Exporter",
    "Files",
    "Model",
    "check_export",
    "exporters",
    "find_exporter",
    "register_exporter",
    "write_export",
]
