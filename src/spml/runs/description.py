"""A run in a few lines, for an interactive session."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from ..common.errors import SpmlError
from ..metrics import FEWEST_SHOWN, shown_score

if TYPE_CHECKING:
    from .run import Run

_SHOWN = 5  # class names


def describe(run: Run) -> dict[str, str]:
    """What a run is, by headings; what its folder does not record is left out."""
    names = ", ".join(run.classes[:_SHOWN]) + (", ..." if len(run.classes) > _SHOWN else "")
    top = run.card["top"]["head"]
    backbone = "features" if run.spec.name == "none" else run.spec.name
    facts = {
        "folder": str(run.folder),
        "data": run.trained_on,
        "method": run.card["method"]["name"],
        "model": f"{backbone}, head {top}",
        "classes": f"{len(run.classes)} ({names})",
    }
    try:
        summary = run.summary
        metric = summary["selected"]["metric"]
        facts["validation"] = f"{metric} {_score(summary, metric)}"
        if run.thresholds is not None:
            k = run.thresholds.mean_labels
            facts["thresholds"] = f"{run.thresholds.target.describe()}, K = {k.value:g} ({k.source})"
    except SpmlError as error:  # damaged files must not hide the run
        facts["damaged"] = str(error)
    return {heading: text for heading, text in facts.items() if text}


def _score(summary: dict[str, Any], metric: str) -> str:
    if metric != "val/mAP" and summary["data"]["samples"]["val"] < FEWEST_SHOWN:
        return f"not shown (< {FEWEST_SHOWN} samples)"
    return shown_score(summary["validation"][metric])


def as_text(run: Run) -> str:
    """One line for `repr`."""
    facts = describe(run)
    classes = f"{len(run.classes)} classes"
    rest = [facts[key] for key in ("method", "model", "validation") if key in facts]
    return f"Run({facts['folder']!r}: {', '.join([*rest, classes])})"


def as_html(run: Run) -> str:
    """A table for a notebook."""
    rows = (
        f"<tr><th style='text-align:left'>{escape(heading)}</th>"
        f"<td style='text-align:left'>{escape(text)}</td></tr>"
        for heading, text in describe(run).items()
    )
    return f"<table>{''.join(rows)}</table>"
