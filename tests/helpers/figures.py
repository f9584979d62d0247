"""Texts of a figure."""

from __future__ import annotations

from typing import Any


def texts(analysis: Any) -> list[str]:
    axes = [text.get_text() for each in analysis.figure.axes for text in each.texts]
    return [text.get_text() for text in analysis.figure.texts] + axes
