"""The folder of a run: its files, and when it may be written to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..engine.checkpoint import CURRENT, NEW, PREVIOUS, has_checkpoint
from ..errors import InputError
from ..files import check_folder, make_folder, remove_leftovers, write_text

CONFIG = "config.yaml"
METRICS = "metrics.jsonl"
SUMMARY = "summary.json"
CURVES = "curves.png"
EXAMPLES = "examples.png"
SKIPPED = "skipped.csv"
MODEL = ("model.safetensors", "model.json")
OBJECTIVE = "objective.safetensors"
HELD_OUT = "held_out.safetensors"
AUDITED = "audited.json"
THRESHOLDS, THRESHOLDS_PICTURE = "thresholds.json", "thresholds.png"
FEATURES = "features"
SCORES, SCORED_SAMPLES, SCORED_EPOCHS = "scores", "samples.safetensors", "epoch-*.safetensors"
_FILES = (
    CONFIG,
    METRICS,
    SUMMARY,
    CURVES,
    EXAMPLES,
    SKIPPED,
    *MODEL,
    OBJECTIVE,
    HELD_OUT,
    AUDITED,
    THRESHOLDS,
    THRESHOLDS_PICTURE,
    CURRENT,
    NEW,
    PREVIOUS,
)


def holds_run(folder: Path) -> bool:
    """Whether a run was started in this folder."""
    return (folder / CONFIG).exists() or has_checkpoint(folder)


def how_to_continue(folder: Path) -> str:
    """Say what an interrupted run left in its folder, and how to go on."""
    if has_checkpoint(folder):
        return f"the last checkpoint is in {folder}. Continue with the same command and --resume."
    if holds_run(folder):
        return f"{folder} holds no checkpoint yet. Start again with the same command and --overwrite."
    return "nothing was written."


def features_of_neighbours(folder: Path) -> list[Path]:
    """Caches of features in the folders of runs next to the one whose cache is `folder`."""
    if folder.name != FEATURES:
        return []
    found = folder.absolute().parent.parent.glob(f"*/{FEATURES}")
    return [path for path in sorted(found) if path != folder.absolute() and holds_run(path.parent)]


def check_free(folder: Path, *, resume: bool, overwrite: bool) -> None:
    """Check that a run may be written to a folder.

    Raises:
        InputError: The folder holds a run and neither `resume` nor `overwrite` is set, or it holds no run to
            resume, or it is a file.
    """
    check_folder(folder)
    if resume and not holds_run(folder):
        raise InputError(f"{folder}: holds no run to resume. Start one without --resume.")
    if holds_run(folder) and not resume and not overwrite:
        raise InputError(
            f"{folder}: already holds a run. Continue it (--resume), replace it (--overwrite), or name "
            "another folder (--output)."
        )


def clear(folder: Path) -> None:
    """Make the folder, and remove the files of an earlier run from it; other files stay.

    Raises:
        InputError: The folder can't be made.
    """
    make_folder(folder)
    for name in _FILES:
        (folder / name).unlink(missing_ok=True)
    remove_leftovers(folder)
    _clear_scores(folder / SCORES)


def _clear_scores(folder: Path) -> None:
    """Remove recorded scores; files that `spml` did not write stay, and the folder with them."""
    if not folder.is_dir():
        return
    for path in (folder / SCORED_SAMPLES, *folder.glob(SCORED_EPOCHS)):
        path.unlink(missing_ok=True)
    remove_leftovers(folder)
    if not any(folder.iterdir()):
        folder.rmdir()


def write_lines(path: Path, records: list[dict[str, Any]]) -> None:
    """Write one JSON object per line, whole or not at all."""
    write_text(path, "".join(json.dumps(record, allow_nan=False) + "\n" for record in records))
