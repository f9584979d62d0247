"""Compare several runs on the same samples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..api import load_each
from ..console import Console
from ..predict.batches import Engine
from ..run import Run
from .common_classes import UnknownClasses
from .evaluate import evaluate


def compare(
    runs: Sequence[Run | str | Path],
    data: Any,
    y: Any = None,
    *,
    classes: Sequence[str] | None = None,
    groups: Sequence[Any] | None = None,
    split: str = "test",
    observed: bool = True,
    mean_labels: float | None = None,
    unknown_classes: UnknownClasses = "stop",
    draws: int = 200,
    seed: int = 0,
    batch_size: int = 64,
    workers: int = 0,
    device: str = "auto",
    console: Console | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Compare runs with the same classes by observed labels, or by full ones.

    Args:
        runs: Runs, or their folders; each once.
        data, y, classes, groups: As in `Run.evaluate`.
        split: `train`, `val` or `test`.
        observed: Compare by observed labels alone, even if true labels are available. If false, fully
            labelled data is compared by full labels.
        mean_labels: Mean labels per sample K of the SP-score; if None, as the first run knows it, otherwise
            2, or half of fewer than 4 classes. By full labels, as in `Run.decision`.
        unknown_classes: As in `Run.evaluate`.
        draws: Number of draws of the bootstrap, as in `spml.metrics.compare_models`.
        seed: Seed of the bootstrap.
        batch_size, workers, device, console: As in `Run.predict`.
        settings: Fields of `DataConfig`, for example `observe="single"`.

    Returns:
        A dict that can be written as JSON, with `tie_set`, the best run first, `warnings` and `notes`. By
        observed labels, `candidates` in the order of `runs` and `cross_checks`; scores lie in [0, 1], rank
        runs, and none is a mAP. By full labels, `runs`: the metrics of each by name, with `intervals`.

    Raises:
        InputError: No run is named, a run is named twice or is not finished, the runs have different classes,
            or the data does not suit; the message says what to do.

    Example:
        spml.compare(["runs/em", "runs/gr"], "held_out.csv")["tie_set"]
    """
    return evaluate(
        load_each(runs),
        data,
        y,
        classes=classes,
        groups=groups,
        split=split,
        observed=observed,
        mean_labels=mean_labels,
        engine=Engine(batch_size, workers, device),
        unknown_classes=unknown_classes,
        draws=draws,
        seed=seed,
        **settings,
    )
