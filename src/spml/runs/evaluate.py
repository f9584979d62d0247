"""Evaluate trained runs on labelled data: against full labels, or compared by observed labels alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from ..config import DataConfig
from ..data import Dataset, Samples, start_opening
from ..decisions import default_mean_labels
from ..errors import InputError
from ..files import write_json, write_rows
from ..labels import ObservedLabels
from ..metrics import (
    Candidate,
    Comparison,
    LabelledScores,
    Ranks,
    compare_ranks,
    metrics,
    observed_ranks,
)
from ..models import BackboneSpec
from .resolve import check_mean_labels

Logits = npt.NDArray[np.float32]

JSON, CSV, PICTURE = "comparison.json", "comparison.csv", "comparison.png"


class Trained(Protocol):
    """A trained model; `spml.Run` is one.

    Attributes:
        classes: Class names, in the order of the columns of its scores.
        threshold: Logit at and above which a label is predicted.
    """

    classes: tuple[str, ...]
    threshold: float

    @property
    def trained_on(self) -> str:
        """Path of the training data; empty if it is not known."""
        ...

    @property
    def spec(self) -> BackboneSpec:
        """Backbone, and how images are prepared for it."""
        ...

    def columns(self, path: str, classes: tuple[str, ...]) -> npt.NDArray[np.int64]:
        """Column of the model for each class of a data set."""
        ...


_Trained = TypeVar("_Trained", bound=Trained)


def evaluate(
    runs: Mapping[str, _Trained],
    config: DataConfig,
    *,
    split: str,
    observed: bool,
    mean_labels: float | None,
    predict: Callable[[_Trained, Samples], Logits],
    report: Callable[[str], None],
    draws: int = 200,
    seed: int = 0,
) -> dict[str, Any]:
    """Compute metrics of one or several runs on the same samples.

    Args:
        runs: Runs by name; at least one.
        config: Settings of the labelled data.
        split: `train`, `val` or `test`.
        observed: Compare by observed labels even if true labels are available. Data that is not fully
            labelled is always compared in this way.
        mean_labels: Mean labels per sample K of the SP-score; None = `default_mean_labels`.
        predict: Computes the logits (N, C) of a run.
        report: Called with a line before something that takes long.
        draws: Number of draws of the bootstrap, as in `spml.metrics.compare_models`.
        seed: Seed of the bootstrap.

    Returns:
        A dict that can be written as JSON. `labels` is `full`, with the metrics of each run in `runs`, in
        [0, 1] and over the classes of the data; or `observed only`, with `candidates`, `tie_set` and
        `cross_checks`, where SP and A exceed 1 if a model does better than K allows for. Both have `warnings`
        and `notes`.

    Raises:
        InputError: The runs have different classes; or the data can't be read, has no such split, has a class
            that the runs do not know, has no known positive label, or, with `observed`, has no unknown one.
    """
    first = next(iter(runs.values()))
    check_classes(runs)
    check_mean_labels(mean_labels, len(first.classes))
    opening = start_opening(config, purpose="evaluate", report=report)

    @cache
    def finish(size: int, interpolation: str) -> Dataset:
        return opening.finish(size=config.size or size, interpolation=interpolation)

    dataset = finish(first.spec.size, first.spec.interpolation)
    if split not in dataset.splits:
        raise InputError(f"{config.path}: has no {split!r} split, but {', '.join(dataset.splits)} (--split).")
    columns = first.columns(config.path, dataset.classes)

    def logits(run: _Trained) -> Logits:
        """Logits of a run in the order of the classes of the first run."""
        column_of = {name: column for column, name in enumerate(run.classes)}
        samples = finish(run.spec.size, run.spec.interpolation).splits[split]
        return predict(run, samples)[:, [column_of[name] for name in first.classes]]

    truth, labels = dataset.truth.get(split), dataset.splits[split].observed
    if truth is not None and not observed:
        result = _against_truth(runs, logits, truth, columns, dataset.empty)
    else:
        _check_observed(labels, config.path, split)
        labels = labels.with_classes(columns, len(first.classes))
        ranks = {name: _ranks(logits(run), labels, name, config.path) for name, run in runs.items()}
        k = mean_labels or default_mean_labels(len(first.classes))
        result = _describe(compare_ranks(ranks, len(labels), k, draws, seed))
        result["mean_labels_source"] = "default" if mean_labels is None else "stated"
        result["notes"] = _notes(truth is not None)
    not_held_out = split == "train" or set(dataset.splits) == {"test"}
    warnings = [
        f"{name} was trained on samples of {config.path}, so these results say little about new samples. "
        "Evaluate on other samples (another file, or a split)."
        for name, run in runs.items()
        if not_held_out and _same_path(run.trained_on, config.path)
    ]
    result["warnings"] = [*warnings, *result.get("warnings", [])]
    return {"data": config.path, "split": split, "samples": len(labels), **result}


def _against_truth(
    runs: Mapping[str, _Trained],
    logits: Callable[[_Trained], Logits],
    truth: ObservedLabels,
    columns: npt.NDArray[np.int64],
    empty: Literal["exclude", "zero"],
) -> dict[str, Any]:
    """Metrics of each run against full labels, over the classes of the data."""
    classes = next(iter(runs.values())).classes
    # A class that the data does not list is unknown in it, not absent, so it is left out.
    known = np.sort(columns)
    full = truth.with_classes(columns, len(classes)).to_ternary()[:, known]
    names = tuple(classes[column] for column in known)
    absent = [name for name in classes if name not in names]
    return {
        "labels": "full",
        "classes_not_in_data": absent,
        "warnings": [],
        "notes": [f"Not in the data, and left out: {', '.join(absent)}."] if absent else [],
        "runs": {
            name: full_metrics(logits(run)[:, known], full, names, run.threshold, empty)
            for name, run in runs.items()
        },
    }


def of_one(result: dict[str, Any]) -> dict[str, Any]:
    """Reduce the result of `evaluate` for a single run: leave out what compares it with others."""
    if result["labels"] == "full":
        (metrics,) = result["runs"].values()
        return {**{key: value for key, value in result.items() if key != "runs"}, **metrics}
    (candidate,) = result["candidates"]
    left_out = ("candidates", "tie_set", "cross_checks")
    about = {key: value for key, value in result.items() if key not in left_out}
    return about | {key: candidate[key] for key in ("SP", "P", "A", "naive_mAP", "SP_interval")}


def write_comparison(folder: Path, comparison: dict[str, Any]) -> None:
    """Write a comparison by observed labels as JSON, as CSV (a row per run) and as a picture.

    Raises:
        SpmlError: A file could not be written.
    """
    from .. import plots

    write_json(folder / JSON, comparison)
    header = ["run", "SP", "SP_low", "SP_high", "P", "A", "naive_mAP"]
    header += ["rank_SP", "rank_P", "rank_A", "rank_naive_mAP", "behind", "sd", "z", "in_tie_set"]
    rows = [
        [
            *(c["run"], c["SP"], *c["SP_interval"], c["P"], c["A"], c["naive_mAP"], *c["ranks"].values()),
            *(c["behind"], c["sd"], c["z"], int(c["in_tie_set"])),
        ]
        for c in comparison["candidates"]
    ]
    write_rows(folder / CSV, header, rows)
    plots.tie_set(folder / PICTURE, comparison["candidates"])


def full_metrics(
    logits: Logits,
    truth: npt.NDArray[np.int8],
    classes: tuple[str, ...],
    threshold: float,
    empty: Literal["exclude", "zero"] = "exclude",
) -> dict[str, Any]:
    """Compute all registered metrics against full labels (N, C) in {-1, +1}, by name.

    A label is predicted at and above `threshold`. A class without positives is left out of mAP (`exclude`),
    or counts as 0 in it (`zero`).
    """
    data = LabelledScores(logits, truth, classes, threshold, empty)
    return {"labels": "full", **{name: metric.measure(data) for name, metric in metrics().items()}}


def _same_path(first: str, second: str) -> bool:
    return bool(first) and Path(first).resolve() == Path(second).resolve()


def check_classes(runs: Mapping[str, Trained]) -> None:
    """Refuse to compare runs with different classes; their order may differ.

    Raises:
        InputError: A run has a class that another one lacks.
    """
    (first, first_classes), *others = ((name, run.classes) for name, run in runs.items())
    for name, classes in others:
        for run, has, other, lacks in (
            (first, first_classes, name, classes),
            (name, classes, first, first_classes),
        ):
            missing = [label for label in has if label not in set(lacks)]
            if missing:
                raise InputError(
                    f"{run} knows the class {missing[0]!r} and {other} does not: only runs with the same "
                    "classes can be compared. Name one run at a time."
                )


def _check_observed(labels: ObservedLabels, path: str, split: str) -> None:
    if labels.full:
        raise InputError(
            f"{path}: every label of the {split!r} split is known, so nothing is left to estimate. Leave "
            "out --observed to measure mAP, or hide labels (--data.observe single)."
        )
    if not labels.positives_per_class().any():
        raise InputError(
            f"{path}: no sample of the {split!r} split has a known positive label, so models can't be judged "
            "on it. Label some, or name another --split."
        )


def _ranks(logits: Logits, labels: ObservedLabels, name: str, path: str) -> Ranks:
    if np.isnan(logits).any():
        raise InputError(f"{path}: the scores of {name} are NaN for some samples, which can't be ranked.")
    return observed_ranks(logits, labels.index if labels.index is not None else labels.to_ternary())


def _describe(comparison: Comparison) -> dict[str, Any]:
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


def _notes(fully_labelled: bool) -> list[str]:
    if not fully_labelled:
        return []
    return ["The data is fully labelled; its true labels were not used."]
