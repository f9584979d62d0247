"""Compare several runs on the same samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...common.errors import InputError
from ...short_names import python_names
from ..api import load
from ..compute.predict import Engine
from ..console import Console
from ..inputs import labelled
from ..run import Run
from .common_classes import UnknownClasses
from .evaluate import evaluate


@python_names(data_by_name=True)
def compare(
    runs: Sequence[Run | str | Path],
    data: Any,
    y: Any = None,
    *,
    classes: Sequence[str] | None = None,
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
        data, y, classes: As in `Run.evaluate`.
        split: `train`, `val` or `test`.
        observed: Compare by observed labels alone, even if true labels are available. If false, fully
            labelled data is compared by full labels.
        mean_labels: Mean labels per sample K of the SP-score; if None, 2, or half of fewer than 4 classes. By
            full labels, as in `Run.decision`.
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
    engine = Engine(batch_size, workers, device, console)
    more: dict[str, Any] = {"draws": draws, "seed": seed, "unknown_classes": unknown_classes, **settings}
    more |= {"y": y, "classes": classes}
    return evaluate_runs(runs, data, engine, split, observed=observed, mean_labels=mean_labels, **more)


def evaluate_runs(
    runs: Sequence[Run | str | Path],
    data: Any,
    engine: Engine,
    split: str,
    *,
    y: Any = None,
    classes: Sequence[str] | None = None,
    observed: bool,
    mean_labels: float | None,
    decision: Mapping[str, Any] = MappingProxyType({}),
    unknown_classes: UnknownClasses = "stop",
    intervals: bool = True,
    draws: int = 200,
    seed: int = 0,
    **settings: Any,
) -> dict[str, Any]:
    """Evaluate runs on labelled data (`spml.runs.judge.evaluate.evaluate`); each is named by its folder.

    Raises:
        InputError: As in `compare`.
    """
    if not runs:
        raise InputError("no run to evaluate: name the folder of at least one")
    loaded: dict[str, Run] = {}
    for run_or_folder in runs:
        run = run_or_folder if isinstance(run_or_folder, Run) else load(run_or_folder)
        name = str(run.folder)
        if any(run.folder.resolve() == other.folder.resolve() for other in loaded.values()):
            raise InputError(f"{name}: is named twice; name each run once.")
        loaded[name] = run
    known = next(iter(loaded.values())).classes
    names = _common_names(loaded)
    config, records = labelled(data, y, settings, classes=classes, known=known, names=names)
    engine = engine._replace(cache=engine.cache or config.cache)
    return evaluate(
        loaded,
        config,
        split=split,
        observed=observed,
        mean_labels=mean_labels,
        decision=decision,
        predict=lambda run, samples: run.logits(samples, engine),
        report=(engine.console or Console(silent=True)).line,
        records=records,
        unknown_classes=unknown_classes,
        intervals=intervals,
        draws=draws,
        seed=seed,
    )


def _common_names(runs: Mapping[str, Run]) -> dict[str, str]:
    """Wanted names of classes by given ones, of all runs."""
    names: dict[str, str] = {}
    for name, run in runs.items():
        for given, wanted in run.names.items():
            if names.setdefault(given, wanted) != wanted:
                raise InputError(
                    f"{name}: was trained with the name {wanted!r} for the class {given!r}, and another run "
                    f"with {names[given]!r}, so they can't be compared. Name one run at a time."
                )
    return names
