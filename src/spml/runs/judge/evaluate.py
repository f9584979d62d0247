"""Evaluate trained runs on labelled data: against full labels, or compared by observed labels alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from ...common.errors import InputError
from ...common.files import same_path
from ...common.label_checks import rows_of
from ...common.notebook import Listing
from ...common.phrases import counted, first_few
from ...data import Dataset, start_opening
from ...data.groups import SEPARATED
from ...data.rename import NOTE
from ...decisions import default_mean_labels
from ...metrics import MIN_DRAWS, Comparison, compare_ranks
from ...metrics.bootstrap import drawn_groups
from ...scores import InMemory, Scores, fits, ranks_of
from ..api import load_each
from ..folder import layout as run_files
from ..inputs import labelled
from ..predict.batches import Engine
from ..run import Run
from ..settle.conflicts import check_mean_labels
from .common_classes import UnknownClasses, common_classes, leave_out
from .full_labels import Measured, measure_runs

_LISTED = 100
"""Largest number of classes that a note names."""


def evaluate(
    runs: Sequence[Run],
    data: Any,
    y: Any = None,
    *,
    classes: Sequence[str] | None = None,
    groups: Sequence[Any] | None = None,
    split: str,
    observed: bool,
    mean_labels: float | None,
    decision: Mapping[str, Any] = MappingProxyType({}),
    engine: Engine,
    unknown_classes: UnknownClasses = "stop",
    intervals: bool = True,
    draws: int = 200,
    seed: int = 0,
    **settings: Any,
) -> dict[str, Any]:
    """Compute metrics of one or several runs on the same samples; each run is named by its folder.

    Args:
        runs: Runs, each once.
        data, y, classes, groups: Labelled data, as in `Run.evaluate`.
        split: `train`, `val` or `test`.
        observed: Compare by observed labels even if true labels are available. Data that is not fully
            labelled is always compared in this way.
        mean_labels: Mean labels per sample K of the SP-score; None = as the first run knows it, otherwise
            `default_mean_labels`. Where labels are full, an argument of the decision.
        decision: Further arguments of `Run.decision`, by which labels are predicted.
        engine: Settings of prediction.
        unknown_classes: `stop` refuses data with a class that the runs do not know; `leave_out` evaluates
            over the classes that both have. Then, where labels are full, a sample whose labels are all left
            out stays, as one that has none; by observed labels it is left out.
        intervals: Where labels are full, compare runs by a bootstrap over samples.
        draws: Number of draws of the bootstrap, as in `spml.metrics.compare_models`.
        seed: Seed of the bootstrap.
        settings: Fields of `DataConfig` by name.

    Returns:
        A dict that can be written as JSON. `labels` is `full`, with the metrics of each run in `runs`, in
        [0, 1] and over the classes of the data, `calibration` where the run has probabilities, and, with
        `intervals`, the `tie_set` of the best by mAP; or `observed only`, with `candidates`, `tie_set` and
        `cross_checks`, where SP and A exceed 1 if a model does better than K allows for. Both have
        `left_out`, `warnings` and `notes`; where bootstrap draws are of groups, `groups` is their number.

    Raises:
        InputError: No run is named, or the runs have different classes; the data can't
            be read, has no such split, has a class that the runs do not know, has no known positive label,
            or, with `observed`, has no unknown one; or there are too few draws.
    """
    if not runs:
        raise InputError("no run to evaluate: name the folder of at least one")
    named = {str(run.folder): run for run in runs}
    check_classes(named)
    name, first = next(iter(named.items()))
    if draws < MIN_DRAWS:
        raise InputError(f"`draws` must be at least {MIN_DRAWS}, got {draws}")
    for run in runs:
        run.decision(**decision)  # refuses wrong values before images are read
    config, records = labelled(
        data,
        y,
        settings,
        classes=classes,
        known=first.classes,
        names=_common_names(named),
        text=first.text_columns,
        groups=groups,
    )
    engine = engine._replace(cache=engine.cache or config.cache)
    opening = start_opening(config, purpose="evaluate", records=records)
    common = common_classes(config.path, opening.classes, name, first.classes, unknown_classes)

    @cache
    def finish(size: int, interpolation: str) -> Dataset:
        return opening.finish(size=config.side or size, interpolation=interpolation)

    dataset = finish(first.spec.size, first.spec.interpolation)
    if split not in dataset.splits:
        raise InputError(f"{config.path}: has no {split!r} split, but {', '.join(dataset.splits)} (`split`).")
    truth, labels = dataset.truth.get(split), dataset.splits[split].observed
    full = truth is not None and not observed
    if full and truth is not None:
        labels = truth
    elif labels.full:
        raise InputError(
            f"{config.path}: every label of the {split!r} split is known, so nothing is left to estimate. "
            "Leave out `observed` to measure mAP, or hide labels (data.observe=single)."
        )
    elif not labels.positives_per_class().any():
        raise InputError(
            f"{config.path}: no sample of the {split!r} split has a known positive label, so models can't be "
            "judged on it. Label some, or name another `split`."
        )
    labels, rows, left = leave_out(common, labels, drop=not full)
    check_mean_labels(mean_labels, len(first.classes), [] if full else [labels])
    if not labels.positives_per_class().any():
        raise InputError(
            f"{config.path}: no sample of the {split!r} split has a label of a class that can be measured. "
            "Name another `split`, or other data."
        )
    whole = fits(len(labels), len(first.classes))
    if full and intervals and not whole:
        raise InputError(
            f"{config.path}: {len(labels)} samples x {len(first.classes)} classes are too many scores to "
            "keep for a comparison on full labels. Evaluate one run at a time, without a folder as `output`, "
            "or compare by observed labels (`observed`)."
        )

    def logits(run: Run) -> Scores:
        """Logits of a run over its own classes."""
        samples = finish(run.spec.size, run.spec.interpolation).splits[split]
        scores = run.scores(samples.take(rows) if len(rows) < len(samples) else samples, engine)
        return InMemory(scores.gather()) if whole else scores

    in_groups = dataset.splits[split].groups
    in_groups = None if in_groups is None else in_groups[rows]
    if full:
        names = tuple(first.classes[column] for column in np.sort(common.positions))
        measured = {
            name: Measured(
                partial(logits, run),
                run.decision(mean_labels=mean_labels, **decision),
                rows_of(run.classes, names).tolist(),
                run.calibrated,
            )
            for name, run in named.items()
        }
        in_order = labels.take_classes(np.argsort(common.positions))
        result = measure_runs(
            measured,
            in_order,
            names,
            dataset.empty,
            draws=draws if intervals else 0,
            seed=seed,
            groups=in_groups,
        )
        # A class that the data does not list is unknown in it, not absent.
        absent = [name for name in first.classes if name not in set(names)]
        result["classes_not_in_data"] = absent
        result["notes"] = [f"Not in the data, and left out: {first_few(absent, _LISTED)}."] if absent else []
        if result.get("not_measured"):
            result["notes"].append(
                f"Not measured, because {len(labels)} samples x {len(names)} classes are too many scores to "
                f"keep: {', '.join(result['not_measured'])}."
            )
        stated = {"mean_labels": mean_labels, **decision}
        if not any(stated.get(name) for name in ("mean_labels", "threshold", "thresholds", "top_k")):
            result["notes"] += _assumptions(named)
    else:
        labels = labels.with_classes(common.positions, len(first.classes))
        positives, ranks = labels.entries(1), {}
        for name, run in named.items():
            (ranks[name],) = ranks_of(logits(run).select(rows_of(run.classes, first.classes)), positives)
        k, source, about_k = _mean_labels(mean_labels, named)
        result = _describe(compare_ranks(ranks, len(labels), k, draws, seed, in_groups))
        notes = ["The data is fully labelled; its true labels were not used."] if truth is not None else []
        if useless := [name for name, value in decision.items() if value]:
            notes.append(f"The SP-score needs no predicted labels: {', '.join(useless)} changed nothing.")
        result |= {"mean_labels_source": source, "notes": [*notes, *about_k]}
    not_held_out = split == "train" or set(dataset.splits) == {"test"}
    warnings = [
        f"{name} was trained on samples of {config.path}, so these results say little about new samples. "
        "Evaluate on other samples (another file, or a split)."
        for name, run in named.items()
        if not_held_out and records is None and same_path(run.trained_on, config.path)
    ]
    warnings += [note for note in dataset.notes if note.startswith(SEPARATED)]
    if in_groups is not None and "draws" in result:
        if drawn_groups(len(in_groups), in_groups) is not None:
            result["groups"] = len(np.unique(in_groups))
        else:
            warnings.append(
                f"All {counted(len(in_groups), 'sample')} are in one group, so intervals are from draws of "
                "samples, and say nothing about other groups."
            )
    result["warnings"] = [*warnings, *result.get("warnings", [])]
    renamed = [note for note in opening.records.notes if note.startswith(NOTE)]
    result["notes"] = [*renamed, *left.describe(), *result["notes"]]
    about = {"data": config.path, "split": split, "samples": len(labels)}
    return {**about, "left_out": {**left._asdict(), "classes": list(left.classes)}, **result}


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


def _mean_labels(stated: float | None, runs: Mapping[str, Run]) -> tuple[float, str, list[str]]:
    """K of the SP-score, its source (`stated`, `runs` or `default`), and notes."""
    if stated is not None:
        return stated, "stated", []
    known = {
        name: run.thresholds.mean_labels.value
        for name, run in runs.items()
        if (run.folder / run_files.THRESHOLDS).is_file() and run.thresholds.mean_labels.known
    }
    if not known:
        return default_mean_labels(len(next(iter(runs.values())).classes)), "default", []
    name, k = next(iter(known.items()))
    others = sorted({f"{value:g}" for value in known.values()} - {f"{k:g}"})
    note = f"K is that of {name}; other runs have {first_few(others, 5)} (`mean_labels` states one)."
    return k, "runs", [note] if others else []


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
        batch_size, workers, device: As in `Run.predict`.
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


class Evaluation(dict[str, Any]):
    """Metrics of one run, which can be written as JSON; the prompt shows those over all classes."""

    def __repr__(self) -> str:
        return self._listing().text()

    def _repr_html_(self) -> str:
        return self._listing().html()

    def _listing(self) -> Listing:
        rows = [(key, f"{value:.4g}") for key, value in self.items() if isinstance(value, float)]
        others = [key for key in self if key not in dict(rows)]
        about = f"{counted(self['samples'], 'sample')}; further keys: {', '.join(others)}"
        return Listing(f"Evaluation of {about}", ("metric", "value"), rows)


def of_one(result: dict[str, Any]) -> Evaluation:
    """Reduce the result of `evaluate` for a single run: leave out what compares it with others."""
    if result["labels"] == "full":
        (metrics,) = result["runs"].values()
        return Evaluation({**{key: value for key, value in result.items() if key != "runs"}, **metrics})
    (candidate,) = result["candidates"]
    left_out = ("candidates", "tie_set", "cross_checks")
    about = {key: value for key, value in result.items() if key not in left_out}
    scores = {key: candidate[key] for key in ("SP", "P", "A", "naive_mAP", "SP_interval")}
    return Evaluation(about | scores)


def check_classes(runs: Mapping[str, Run]) -> None:
    """Refuse to compare runs with different classes; their order may differ.

    Raises:
        InputError: A run has a class that another one lacks.
    """
    first, *others = runs
    for name in others:
        for one, other in ((first, name), (name, first)):
            known = set(runs[other].classes)
            missing = [label for label in runs[one].classes if label not in known]
            if missing:
                raise InputError(
                    f"{one} knows the class {missing[0]!r} and {other} does not: only runs with the same "
                    "classes can be compared. Name one run at a time."
                )


def _describe(comparison: Comparison) -> dict[str, Any]:
    """A comparison by observed labels, for JSON, which has no infinity."""
    candidates = [
        {
            "run": each.name,
            "SP": each.sp,
            "P": each.p,
            "A": each.a,
            "naive_mAP": each.naive,
            "SP_interval": [each.low, each.high],
            "ranks": {"SP": each.sp_rank, "P": each.p_rank, "A": each.a_rank, "naive_mAP": each.naive_rank},
            "behind": each.behind,
            "sd": each.sd,
            "z": "infinity" if math.isinf(each.z) else each.z,
            "in_tie_set": each.tied,
        }
        for each in comparison.candidates
    ]
    return {
        "labels": "observed only",
        "samples_with_a_positive": comparison.samples,
        "classes": comparison.classes,
        "mean_labels": comparison.mean_labels,
        "draws": comparison.draws,
        "seed": comparison.seed,
        "candidates": candidates,
        "tie_set": list(comparison.tie_set),
        "cross_checks": {
            "spearman_SP_naive_mAP": comparison.spearman_naive,
            "spearman_P_A_upper_half": comparison.spearman_p_a,
        },
        "warnings": list(comparison.warnings),
    }


def _assumptions(runs: Mapping[str, Run]) -> list[str]:
    """Name the runs whose thresholds stand on a number of labels per sample that nobody stated."""
    assumed: dict[float, list[str]] = {}
    for name, run in runs.items():
        k = run.thresholds.mean_labels
        if not k.known:
            assumed.setdefault(k.value, []).append(name)
    return [
        f"{', '.join(names)}: K is not known, so thresholds are placed as for {k:g} labels per sample (spml "
        "thresholds, with `mean_labels` or `audit`, decides them again)."
        for k, names in assumed.items()
    ]
