"""Addresses of the page on which the lists of an audit are reviewed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Query
from pydantic import Field

from ..common.web.pages import only_query
from .bodies import MOST_CARDS, Body, once, plain
from .contents import Pictures
from .progress import LEAST_CHECKS
from .queue import ListName, Selection
from .session import Review, Show
from .store import Answer

_SELECTION = "column minimum list"


class Decide(Body):
    """One answer to a label of some samples."""

    samples: Annotated[list[int], Field(min_length=1, max_length=MOST_CARDS)]
    column: int
    answer: Answer


def _selection(
    column: int | None = None,
    minimum: Annotated[float, Query(ge=0, le=1)] = 0.0,
    name: Annotated[ListName, Query(alias="list")] = "missing",
) -> Selection:
    return Selection(column, minimum, name)


Chosen = Annotated[Selection, Depends(_selection)]


def add(app: FastAPI, prefix: str, review: Review, pictures: Pictures) -> None:
    """Add the addresses of what the page shows, and of the answers that it sends."""

    @app.get(f"{prefix}/about", dependencies=[only_query()])
    def about() -> dict[str, Any]:
        return {
            "name": review.records.name,
            "reviewer": review.reviewer,
            "classes": review.records.classes,
            "listed": {name: review.listed_per_class(name) for name in ("missing", "wrong")},
            "images": pictures.available,
            "least_checks": LEAST_CHECKS,
            "warnings": review.about.warnings,
            "how": review.about.how,
            "next": next_commands(review),
        }

    @app.get(f"{prefix}/queue", dependencies=[only_query(f"{_SELECTION} show")])
    def queue(chosen: Chosen, show: Show = "all") -> dict[str, Any]:
        samples, start = review.shown(chosen, show)
        return {"samples": samples, "start": start, "progress": plain(review.progress(chosen))}

    @app.get(f"{prefix}/cards", dependencies=[only_query(_SELECTION, lists="samples")])
    def cards(samples: Annotated[list[int], Query(max_length=MOST_CARDS)], chosen: Chosen) -> Any:
        try:
            return plain(review.cards(samples, chosen))
        except KeyError as error:
            raise HTTPException(404) from error

    @app.post(f"{prefix}/decide", dependencies=[only_query(_SELECTION), once(8)])
    def decide(given: Decide, chosen: Chosen) -> dict[str, Any]:
        try:
            review.decide_all(given.samples, given.column, given.answer, chosen)
        except (KeyError, IndexError) as error:
            raise HTTPException(404) from error
        cards = review.cards(given.samples, chosen)
        return {"cards": plain(cards), "progress": plain(review.progress(chosen))}

    @app.post(f"{prefix}/undo", dependencies=[only_query(_SELECTION)])
    def undo(chosen: Chosen) -> dict[str, Any]:
        return {"undone": plain(review.undo()), "progress": plain(review.progress(chosen))}


def next_commands(review: Review) -> list[str]:
    """Commands that write the answers as labels, and train with them."""
    files = isinstance(review.records.inputs, Sequence)
    source = Path(review.records.source)
    folder = source if source.is_dir() else source.parent
    output = str(folder / ("reviewed.csv" if files else "reviewed.npz"))
    export = [
        "review",
        "export",
        str(review.store.path.parent),
        output,
        "`format`",
        "csv" if files else "nan",
    ]
    return [f"spml {shlex.join(export)}", f"spml {shlex.join(['train', output])}"]
