"""Addresses of the page on which a sample is labelled in full."""

from __future__ import annotations

import shlex
import subprocess
import sys
import threading
from typing import Annotated, Any, Literal

from fastapi import FastAPI, HTTPException, Query
from fastapi.responses import JSONResponse

from ..common.web.pages import only_query
from .bodies import MOST_CARDS, Body, once, plain
from .contents import Pictures
from .labelling import Labelling, Show


class Decide(Body):
    """Whether a sample has a label."""

    sample: int
    column: int
    answer: Literal["yes", "no"]


class Complete(Body):
    """Whether all labels of a sample are given."""

    sample: int
    complete: bool


def use_command(labelling: Labelling) -> list[str]:
    """Words of the command, after `spml`, that learns from the labels."""
    return ["audit", "use", str(labelling.sheet), *labelling.sample.runs]


def add(app: FastAPI, prefix: str, labelling: Labelling, pictures: Pictures) -> None:
    """Add the addresses of what the page shows, and of the answers that it sends."""
    command, running = use_command(labelling), threading.Lock()

    @app.get(f"{prefix}/about", dependencies=[only_query()])
    def about() -> dict[str, Any]:
        return {
            "name": labelling.records.name,
            "reviewer": labelling.reviewer,
            "classes": labelling.sample.classes,
            "images": pictures.available,
            "ordered": labelling.ordered,
            "next": [f"spml {shlex.join(command)}"],
        }

    @app.get(f"{prefix}/queue", dependencies=[only_query("status")])
    def queue(status: Show = "all") -> dict[str, Any]:
        samples, start = labelling.shown(status)
        return {"samples": samples, "start": start, "progress": plain(labelling.progress())}

    @app.get(f"{prefix}/cards", dependencies=[only_query(lists="samples")])
    def cards(samples: Annotated[list[int], Query(max_length=MOST_CARDS)]) -> Any:
        try:
            return plain(labelling.cards(samples))
        except KeyError as error:
            raise HTTPException(404) from error

    @app.post(f"{prefix}/decide", dependencies=[only_query(), once(8)])
    def decide(given: Decide) -> dict[str, Any]:
        try:
            labelling.decide(given.sample, given.column, given.answer)
        except KeyError as error:
            raise HTTPException(404) from error
        return _state(labelling, given.sample)

    @app.post(f"{prefix}/complete", dependencies=[only_query(), once(4)])
    def complete(given: Complete) -> dict[str, Any]:
        try:
            labelling.complete(given.sample, complete=given.complete)
        except KeyError as error:
            raise HTTPException(404) from error
        return _state(labelling, given.sample)

    @app.post(f"{prefix}/undo", dependencies=[only_query()])
    def undo() -> dict[str, Any]:
        return {"undone": plain(labelling.undo()), "progress": plain(labelling.progress())}

    @app.post(f"{prefix}/use", dependencies=[only_query()])
    def use() -> Any:
        if not running.acquire(blocking=False):
            return JSONResponse({"error": "The labels are being used already. Wait for the end."}, 409)
        try:
            # In a process of its own: it takes memory that the page does not need, and may fail without it.
            done = subprocess.run(
                [sys.executable, "-m", "spml", *command], capture_output=True, text=True, check=False
            )
        finally:
            running.release()
        return {"code": done.returncode, "text": (done.stdout + done.stderr).strip()}


def _state(labelling: Labelling, sample: int) -> dict[str, Any]:
    (card,) = labelling.cards([sample])
    return {"card": plain(card), "progress": plain(labelling.progress())}
