"""Method `auto` on a network that is trained: solve the auto head, fine-tune from it, keep the better one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from ..config import Config, to_yaml
from ..files import write_json, write_text, write_with
from . import folder as run_files
from . import recipes
from .console import Console

HEAD, TUNED = "head", "fine-tuned"
_KEPT = (*run_files.MODEL, run_files.METRICS, run_files.CURVES, run_files.EXAMPLES, run_files.SKIPPED)

Train = Callable[[Config, bool], None]
"""Trains a run in the folder that the configuration names, or goes on with it."""


def fine_tune(config: Config, folder: Path, *, resume: bool, train: Train, console: Console) -> Path:
    """Train the two runs in folders of their own, and copy the one with the higher validation score.

    Both are scored on the same validation samples, which neither was fitted to: the head by members that were
    not solved on them, the network at its best epoch. Of equal ones, the head is kept.

    Args:
        config: Resolved settings with method `auto` and a backbone that is not frozen.
        folder: Folder of the run.
        resume: Go on with what the folder holds.
        train: Trains one of the two.
        console: Shows progress.

    Returns:
        The folder.

    Raises:
        SpmlError: A training failed, or a file could not be written.
    """
    if not resume:
        run_files.clear(folder)
        write_text(folder / run_files.CONFIG, to_yaml(config))
    frozen = replace(config.model, frozen="yes", scaling="auto", scores="auto")
    # What says how to train is for the second run.
    defaults = Config()
    head = replace(
        config,
        model=frozen,
        optim=defaults.optim,
        epochs=defaults.epochs,
        patience=defaults.patience,
        output=str(folder / HEAD),
    )
    tuned = replace(
        config,
        method=recipes.read("default")["trained"],
        model=replace(frozen, frozen="no"),
        init_from=str(folder / HEAD),
        output=str(folder / TUNED),
    )
    summaries = {}
    for name, part in ((HEAD, head), (TUNED, tuned)):
        own = folder / name
        if not (resume and (own / run_files.SUMMARY).is_file()):
            console.line(f"{own}:")
            train(part, resume and run_files.holds_run(own))
        summaries[name] = json.loads((own / run_files.SUMMARY).read_text(encoding="utf-8"))
    scores = {name: _score(summary) for name, summary in summaries.items()}
    chosen = TUNED if scores[TUNED] > scores[HEAD] else HEAD
    for name in _KEPT:
        source = folder / chosen / name
        if source.is_file():
            write_with(folder / name, partial(_copy, source))
    metric = summaries[HEAD]["selected"]["metric"]
    candidates = [
        {"run": name, metric: scores[name], "test": summaries[name]["test"], "kept": name == chosen}
        for name in summaries
    ]
    write_json(folder / run_files.SUMMARY, {**summaries[chosen], "candidates": candidates})
    told = ", ".join(f"{name} {100 * score:.2f}" for name, score in scores.items())
    console.line(f"{metric}: {told}; kept: {chosen}\n{folder}: done")
    return folder


def _score(summary: dict[str, Any]) -> float:
    return float(summary["validation"][summary["selected"]["metric"]])


def _copy(source: Path, stream: BinaryIO) -> None:
    with source.open("rb") as file:
        shutil.copyfileobj(file, stream)
