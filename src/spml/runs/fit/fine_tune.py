"""Method `auto` on a network that is trained: solve the auto head, fine-tune from it, keep the better one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from ...common.errors import InputError
from ...common.files import write_checked_json, write_with
from ...config import Config
from ...engine.resume import check_classes
from ...metrics import compare_ranks, ranks_of
from ...metrics.top_scores import TopScores
from .. import recipes
from ..console import Console
from ..folder import layout as run_files
from ..folder.contents import load_model, read_summary
from ..folder.held_out import read_held_out

HEAD, TUNED = "head", "fine-tuned"
TRUSTED = 2.5
"""Difference of SP-scores, in its standard deviations, from which the fine-tuned network is kept."""

_KEPT = (
    *run_files.MODEL,
    run_files.HELD_OUT,
    run_files.THRESHOLDS,
    run_files.THRESHOLDS_PICTURE,
    run_files.METRICS,
    run_files.CURVES,
    run_files.EXAMPLES,
    run_files.SKIPPED,
)

Train = Callable[[Config, bool], None]
"""Trains a run in the folder that the configuration names, or goes on with it."""


def fine_tune(
    config: Config, folder: Path, classes: Sequence[str], *, resume: bool, train: Train, console: Console
) -> Path:
    """Train the two runs in folders of their own, and copy one of them: the network if it is clearly better.

    Both are scored on the same validation samples, which neither was fitted to: the head by members that were
    not solved on them, the network at its best epoch. The network is kept if its SP-score is ahead by more
    than 2.5 standard deviations of the difference (paired bootstrap), since the best of several epochs looks
    better than it is, and the head learns from the validation samples in the end. With full labels, the
    higher mAP decides.

    Args:
        config: Resolved settings with method `auto` and a backbone that is not frozen.
        folder: Folder of the run.
        classes: Class names of the data.
        resume: Go on with what the folder holds.
        train: Trains one of the two.
        console: Shows progress.

    Returns:
        The folder.

    Raises:
        InputError: More than one device is asked for, or what the folder holds has other class names or is
            damaged; nothing was written.
        SpmlError: A training failed, or a file could not be written.
    """
    if config.devices > 1:
        # Every process would make both runs.
        raise InputError(
            f"--method {config.method} --model.frozen no is two runs, which are made on one device only, but "
            f"--devices is {config.devices}: make the first (--model.frozen yes), then the second from it "
            f"(--method {recipes.read('default')['trained']} --init-from RUN --model.frozen no)."
        )
    if not resume:
        run_files.clear(folder)
        run_files.write_config(folder, config)
    frozen = replace(config.model, frozen="yes", scaling="auto", scores="auto")
    # What says how to train is for the second run.
    defaults = Config()
    head = replace(
        config,
        # Where `spml predict` looks for the features of a head that is kept.
        data=replace(config.data, cache=config.data.cache or str(folder / run_files.FEATURES)),
        model=frozen,
        optim=defaults.optim,
        epochs=defaults.epochs,
        patience=defaults.patience,
        compile=False,
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
        if resume and (own / run_files.SUMMARY).is_file():
            check_classes(own, load_model(own)[1]["classes"], classes)
        else:
            console.line(f"{own}:")
            train(part, resume and run_files.holds_run(own))
        summaries[name] = read_summary(own)
    scores = {name: _score(summary) for name, summary in summaries.items()}
    metric = summaries[HEAD]["selected"]["metric"]
    z = None
    chosen = TUNED if scores[TUNED] > scores[HEAD] else HEAD
    if chosen == TUNED and metric == "val/SP":
        z = _lead(folder, float(summaries[HEAD]["selected"]["mean_labels"]))
        chosen = TUNED if z is None or z > TRUSTED else HEAD
    for name in _KEPT:
        source = folder / chosen / name
        if source.is_file():
            write_with(folder / name, partial(_copy, source))
    candidates = [
        {"run": name, metric: scores[name], "test": summaries[name]["test"], "kept": name == chosen}
        for name in summaries
    ]
    summary = {**summaries[chosen], "candidates": candidates, "lead_z": z}
    write_checked_json(folder / run_files.SUMMARY, summary)
    told = ", ".join(f"{name} {100 * score:.2f}" for name, score in scores.items())
    lead = "" if z is None else f" (z = {z:.1f}; above {TRUSTED:g} is trusted)"
    console.line(f"{metric}: {told}{lead}; kept: {chosen}\n{folder}: done")
    return folder


def _lead(folder: Path, mean_labels: float) -> float | None:
    """How far the network is ahead of the head in SP-score, in standard deviations of the difference.

    None where there were too many scores to keep, so that no samples can be ranked in every class.
    """
    head, tuned = (read_held_out(folder / name) for name in (HEAD, TUNED))
    if isinstance(head.scores, TopScores) or isinstance(tuned.scores, TopScores):
        return None
    # The head may have scores of training samples, too.
    row = {name: number for number, name in enumerate(head.ids)}
    of_head = head.scores[[row[name] for name in tuned.ids]]
    positives = tuned.labels.entries(1)
    ranks = {
        name: ranks_of(scores, positives)[0] for name, scores in ((HEAD, of_head), (TUNED, tuned.scores))
    }
    compared = compare_ranks(ranks, len(tuned.ids), mean_labels)
    # JSON knows no infinity.
    return min(next(candidate.z for candidate in compared.candidates if candidate.name == HEAD), 1e6)


def _score(summary: dict[str, Any]) -> float:
    return float(summary["validation"][summary["selected"]["metric"]])


def _copy(source: Path, stream: BinaryIO) -> None:
    with source.open("rb") as file:
        shutil.copyfileobj(file, stream)
