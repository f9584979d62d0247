"""Evaluate trained runs on labelled data: against full labels, or compared by observed labels alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...common.errors import InputError
from ...common.files import same_path
from ...common.label_checks import rows_of
from ...common.phrases import counted, first_few
from ...data import Dataset, start_opening
from ...data.groups import SEPARATED
from ...data.rename import NOTE
from ...decisions import default_mean_labels
from ...labels import ObservedLabels
from ...metrics import MIN_DRAWS, Candidate, compare_ranks
from ...metrics.arrays import Empty
from ...metrics.bootstrap import drawn_groups
from ...scores import InMemory, Scores, fits, ranks_of
from ..folder import layout as run_files
from ..inputs import labelled
from ..settle.conflicts import check_mean_labels
from .common_classes import UnknownClasses, common_classes, leave_out
from .full_labels import Measured, measure_runs

if TYPE_CHECKING:
    from ..compute.predict import Engine
    from ..compute.trained_model import TrainedModel

_LISTED = 100
"""Largest number of classes that a note names."""


def evaluate(
    runs: Sequence[TrainedModel],
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
        decision: Further arguments of `TrainedModel.decision`, by which labels are predicted.
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
    opening = start_opening(
        config,
        purpose="evaluate",
        report=engine.display.line,
        progress=engine.display.progress,
        records=records,
    )
    common = common_classes(config.path, opening.classes, name, first.classes, unknown_classes)

    @cache
    def finish(size: int, interpolation: str) -> Dataset:
        return opening.finish(size=config.size or size, interpolation=interpolation)

    dataset = finish(first.spec.size, first.spec.interpolation)
    if split not in dataset.splits:
        raise InputError(f"{config.path}: has no {split!r} split, but {', '.join(dataset.splits)} (`split`).")
    truth, labels = dataset.truth.get(split), dataset.splits[split].observed
    full = truth is not None and not observed
    if full and truth is not None:
        labels = truth
    else:
        _check_observed(labels, config.path, split)
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

    def logits(name: str) -> Scores:
        """Logits of a run over its own classes."""
        spec = named[name].spec
        samples = finish(spec.size, spec.interpolation).splits[split]
        chosen = samples.take(rows) if len(rows) < len(samples) else samples
        scores = named[name].scores(chosen, engine)
        return InMemory(scores.gather()) if whole else scores

    labels = labels.with_classes(common.positions, len(first.classes))
    of_split = dataset.splits[split].groups
    in_groups = None if of_split is None else of_split[rows]
    if full:
        decision = {"mean_labels": mean_labels, **decision}
        draws = draws if intervals else 0
        known = np.sort(common.positions)
        result = _by_full_labels(
            named, logits, labels, known, dataset.empty, decision, draws, seed, in_groups
        )
    else:
        k = _mean_labels(mean_labels, named)
        result = _by_observed_labels(named, logits, labels, k.value, draws, seed, in_groups)
        result["mean_labels_source"] = k.source
        result["notes"] = [*_notes(truth is not None, decision), *k.notes]
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


def _common_names(runs: Mapping[str, TrainedModel]) -> dict[str, str]:
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


def _by_full_labels(
    runs: Mapping[str, TrainedModel],
    logits: Callable[[str], Scores],
    truth: ObservedLabels,
    known: npt.NDArray[np.int64],
    empty: Empty,
    decision: Mapping[str, Any],
    draws: int,
    seed: int,
    groups: npt.NDArray[np.int64] | None,
) -> dict[str, Any]:
    """Measure runs over the classes `known` of the first one, with notes.

    A class that the data does not list is unknown in it, not absent, so it is left out.
    """
    first = next(iter(runs.values())).classes
    names = tuple(first[column] for column in known)
    measured = {
        name: Measured(
            partial(logits, name),
            run.decision(**decision),
            rows_of(run.classes, names).tolist(),
            run.calibrated,
        )
        for name, run in runs.items()
    }
    result = measure_runs(
        measured, truth.take_classes(known), names, empty, draws=draws, seed=seed, groups=groups
    )
    absent = [first[column] for column in np.setdiff1d(np.arange(len(first)), known)]
    result["classes_not_in_data"] = absent
    result["notes"] = [f"Not in the data, and left out: {first_few(absent, _LISTED)}."] if absent else []
    if result.get("not_measured"):
        result["notes"].append(
            f"Not measured, because {len(truth)} samples x {len(names)} classes are too many scores to "
            f"keep: {', '.join(result['not_measured'])}."
        )
    if all(decision.get(name) is None for name in ("mean_labels", "threshold", "thresholds")):
        result["notes"] += [] if decision.get("top_k") else _assumptions(runs)
    return result


def _by_observed_labels(
    runs: Mapping[str, TrainedModel],
    logits: Callable[[str], Scores],
    labels: ObservedLabels,
    mean_labels: float,
    draws: int,
    seed: int,
    groups: npt.NDArray[np.int64] | None,
) -> dict[str, Any]:
    classes = next(iter(runs.values())).classes
    positives, ranks = labels.entries(1), {}
    for name, run in runs.items():
        (ranks[name],) = ranks_of(logits(name).select(rows_of(run.classes, classes)), positives)
    comparison = compare_ranks(ranks, len(labels), mean_labels, draws, seed, groups)
    return {
        "labels": "observed only",
        "samples_with_a_positive": comparison.samples,
        "classes": comparison.classes,
        "mean_labels": comparison.mean_labels,
        "draws": comparison.draws,
        "seed": comparison.seed,
        "candidates": [_describe_candidate(candidate) for candidate in comparison.candidates],
        "tie_set": list(comparison.tie_set),
        "cross_checks": {
            "spearman_SP_naive_mAP": comparison.spearman_naive,
            "spearman_P_A_upper_half": comparison.spearman_p_a,
        },
        "warnings": list(comparison.warnings),
    }


class _SettledK(NamedTuple):
    """K of the SP-score, its source (`stated`, `runs` or `default`), and notes."""

    value: float
    source: str
    notes: tuple[str, ...] = ()


def _mean_labels(stated: float | None, runs: Mapping[str, TrainedModel]) -> _SettledK:
    """K as stated, as the first run that knows it, or the default."""
    if stated is not None:
        return _SettledK(stated, "stated")
    known = {
        name: run.thresholds.mean_labels.value
        for name, run in runs.items()
        if (run.folder / run_files.THRESHOLDS).is_file() and run.thresholds.mean_labels.known
    }
    if not known:
        return _SettledK(default_mean_labels(len(next(iter(runs.values())).classes)), "default")
    name, k = next(iter(known.items()))
    others = sorted({f"{value:g}" for value in known.values()} - {f"{k:g}"})
    note = f"K is that of {name}; other runs have {first_few(others, 5)} (`mean_labels` states one)."
    return _SettledK(k, "runs", (note,) if others else ())


def of_one(result: dict[str, Any]) -> dict[str, Any]:
    """Reduce the result of `evaluate` for a single run: leave out what compares it with others."""
    if result["labels"] == "full":
        (metrics,) = result["runs"].values()
        return {**{key: value for key, value in result.items() if key != "runs"}, **metrics}
    (candidate,) = result["candidates"]
    left_out = ("candidates", "tie_set", "cross_checks")
    about = {key: value for key, value in result.items() if key not in left_out}
    return about | {key: candidate[key] for key in ("SP", "P", "A", "naive_mAP", "SP_interval")}


def check_classes(runs: Mapping[str, TrainedModel]) -> None:
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


def _check_observed(labels: ObservedLabels, path: str, split: str) -> None:
    if labels.full:
        raise InputError(
            f"{path}: every label of the {split!r} split is known, so nothing is left to estimate. Leave "
            "out `observed` to measure mAP, or hide labels (data.observe=single)."
        )
    if not labels.positives_per_class().any():
        raise InputError(
            f"{path}: no sample of the {split!r} split has a known positive label, so models can't be judged "
            "on it. Label some, or name another `split`."
        )


def _describe_candidate(candidate: Candidate) -> dict[str, Any]:
    return {
        "run": candidate.name,
        "SP": candidate.sp,
        "P": candidate.p,
        "A": candidate.a,
        "naive_mAP": candidate.naive,
        "SP_interval": [candidate.low, candidate.high],
        "ranks": {
            "SP": candidate.sp_rank,
            "P": candidate.p_rank,
            "A": candidate.a_rank,
            "naive_mAP": candidate.naive_rank,
        },
        "behind": candidate.behind,
        "sd": candidate.sd,
        "z": "infinity" if math.isinf(candidate.z) else candidate.z,  # JSON has no infinity
        "in_tie_set": candidate.tied,
    }


def _notes(fully_labelled: bool, decision: Mapping[str, Any]) -> list[str]:
    notes = ["The data is fully labelled; its true labels were not used."] if fully_labelled else []
    stated = [f"{name}" for name, value in decision.items() if value]
    if stated:
        notes.append(f"The SP-score needs no predicted labels: {', '.join(stated)} changed nothing.")
    return notes


def _assumptions(runs: Mapping[str, TrainedModel]) -> list[str]:
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
