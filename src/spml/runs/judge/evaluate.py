"""Evaluate trained runs on labelled data: against full labels, or compared by observed labels alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from ...common.errors import InputError
from ...common.phrases import first_few
from ...config import DataConfig
from ...data import Dataset, Records, Samples, start_opening
from ...data.rename import NOTE
from ...decisions import Decision, Policy, default_mean_labels
from ...labels import ObservedLabels
from ...metrics import (
    MIN_DRAWS,
    Candidate,
    Comparison,
    ScoreBlocks,
    compare_ranks,
    ranks_of,
)
from ...metrics.top_scores import fits
from ...models import BackboneSpec
from ..settle.resolve import check_mean_labels
from .common_classes import UnknownClasses, columns_of, common_classes, left_out
from .full_labels import Logits, Measured, measure_blocks, measure_runs

_BLOCK_SCORES = 1 << 24
"""Number of scores that are computed and looked at together where not all fit."""

_LISTED = 100
"""Largest number of classes that a note names."""


class Trained(Protocol):
    """A trained model; `spml.Run` is one.

    Attributes:
        classes: Class names, in the order of the columns of its scores.
        card: Content of model.json.
    """

    classes: tuple[str, ...]
    card: dict[str, Any]

    @property
    def thresholds(self) -> Policy | None:
        """Thresholds of the classes; None if it has one for all of them."""
        ...

    @property
    def trained_on(self) -> str:
        """Path of the training data; empty if it is not known."""
        ...

    @property
    def spec(self) -> BackboneSpec:
        """Backbone, and how images are prepared for it."""
        ...

    def calibrated(self, logits: Logits) -> Logits | None:
        """Calibrated probabilities of logits; None where K is not known."""
        ...

    def decision(
        self,
        *,
        mean_labels: float | None = None,
        threshold: float | None = None,
        top_k: int = 0,
        top1_fallback: bool = False,
        thresholds: str | Path | float | None = None,
    ) -> Decision:
        """How logits become labels."""
        ...


_Trained = TypeVar("_Trained", bound=Trained)


def evaluate(
    runs: Mapping[str, _Trained],
    config: DataConfig,
    *,
    split: str,
    observed: bool,
    mean_labels: float | None,
    decision: Mapping[str, Any],
    predict: Callable[[_Trained, Samples], Logits],
    report: Callable[[str], None],
    records: Records | None = None,
    unknown_classes: UnknownClasses = "stop",
    intervals: bool = True,
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
        mean_labels: Mean labels per sample K of the SP-score; None = `default_mean_labels`. Where labels are
            full, an argument of the decision.
        decision: Further arguments of `Trained.decision`, by which labels are predicted.
        predict: Computes the logits (N, C) of a run.
        report: Called with a line before something that takes long.
        records: Data in memory; None = what `config.path` names.
        unknown_classes: `stop` refuses data with a class that the runs do not know; `leave_out` evaluates
            over the classes that both have. Then, where labels are full, a sample whose labels are all left
            out stays, as one that has none; by observed labels it is left out.
        intervals: Where labels are full, compare runs by a bootstrap over samples.
        draws: Number of draws of the bootstrap, as in `spml.metrics.compare_models`.
        seed: Seed of the bootstrap.

    Returns:
        A dict that can be written as JSON. `labels` is `full`, with the metrics of each run in `runs`, in
        [0, 1] and over the classes of the data, `calibration` where the run has probabilities, and, with
        `intervals`, the `tie_set` of the best by mAP; or `observed only`, with `candidates`, `tie_set` and
        `cross_checks`, where SP and A exceed 1 if a model does better than K allows for. Both have
        `left_out`, `warnings` and `notes`.

    Raises:
        InputError: The runs have different classes; or the data can't be read, has no such split, has a class
            that the runs do not know, has no known positive label, or, with `observed`, has no unknown one;
            or there are too few draws.
    """
    name, first = next(iter(runs.items()))
    check_classes(runs)
    check_mean_labels(mean_labels, len(first.classes))
    if draws < MIN_DRAWS:
        raise InputError(f"--draws must be at least {MIN_DRAWS}, got {draws}")
    for run in runs.values():
        run.decision(**decision)  # refuses wrong values before images are read
    opening = start_opening(config, purpose="evaluate", report=report, records=records)
    common = common_classes(config.path, opening.classes, name, first.classes, unknown_classes)

    @cache
    def finish(size: int, interpolation: str) -> Dataset:
        return opening.finish(size=config.size or size, interpolation=interpolation)

    dataset = finish(first.spec.size, first.spec.interpolation)
    if split not in dataset.splits:
        raise InputError(f"{config.path}: has no {split!r} split, but {', '.join(dataset.splits)} (--split).")
    truth, labels = dataset.truth.get(split), dataset.splits[split].observed
    if truth is not None and not observed:
        labels = truth
    else:
        _check_observed(labels, config.path, split)
    full = labels is truth
    left, rows = left_out(common, labels, drop=not full)
    labels = common.reduce(labels, rows)
    if not labels.positives_per_class().any():
        raise InputError(
            f"{config.path}: no sample of the {split!r} split has a label of a class that can be measured. "
            "Name another --split, or other data."
        )

    whole = fits(len(labels), len(first.classes))
    if full and intervals and not whole:
        raise InputError(
            f"{config.path}: {len(labels)} samples x {len(first.classes)} classes are too many scores to "
            "keep for a comparison on full labels. Evaluate one run at a time, without a folder as --output, "
            "or compare by observed labels (--observed)."
        )

    def logits(name: str) -> Logits | ScoreBlocks:
        """Logits of a run over its own classes."""
        run = runs[name]
        samples = finish(run.spec.size, run.spec.interpolation).splits[split]
        if len(rows) < len(samples):
            samples = samples.take(rows)

        def compute(columns: npt.NDArray[np.int64] | None) -> Iterator[Logits]:
            at_once = len(samples) if whole else max(1, _BLOCK_SCORES // len(run.classes))
            for start in range(0, len(samples), at_once):
                part = samples if whole else samples.take(range(start, min(start + at_once, len(samples))))
                found = predict(run, part)
                if np.isnan(found).any():
                    raise InputError(
                        f"{config.path}: the scores of {name} are NaN for some samples, which can't be "
                        "ranked."
                    )
                yield found if columns is None else found[:, columns]

        return next(compute(None)) if whole else ScoreBlocks(len(samples), len(run.classes), compute)

    def in_order(name: str) -> Logits | ScoreBlocks:
        """Logits of a run over the classes of the first one, in their order."""
        found, order = logits(name), np.asarray(columns_of(first.classes, runs[name].classes))
        if not isinstance(found, ScoreBlocks):
            return found[:, order]
        return ScoreBlocks(*found.shape, lambda columns: found.compute(order[columns]))

    labels = labels.with_classes(common.positions, len(first.classes))
    if full:
        # A class that the data does not list is unknown in it, not absent, so it is left out.
        known = np.sort(common.positions)
        names = tuple(first.classes[column] for column in known)
        measured = {
            name: Measured(
                partial(logits, name),
                run.decision(mean_labels=mean_labels, **decision),
                columns_of(names, run.classes),
                run.calibrated,
            )
            for name, run in runs.items()
        }
        truth_of_known = labels.take_classes(known)
        if whole:
            matrix = truth_of_known.to_ternary()
            result = measure_runs(
                measured, matrix, names, dataset.empty, draws=draws if intervals else 0, seed=seed
            )
        else:
            result = measure_blocks(measured, truth_of_known, names, dataset.empty)
        in_data = set(names)
        absent = [name for name in first.classes if name not in in_data]
        result["classes_not_in_data"] = absent
        result["notes"] = [f"Not in the data, and left out: {first_few(absent, _LISTED)}."] if absent else []
        if result.get("not_measured"):
            result["notes"].append(
                f"Not measured, because {len(labels)} samples x {len(names)} classes are too many scores to "
                f"keep: {', '.join(result['not_measured'])}."
            )
        stated = [mean_labels, *(decision.get(name) for name in ("threshold", "thresholds"))]
        if stated == [None] * 3 and not decision.get("top_k"):
            result["notes"] += _assumptions(runs)
    else:
        positives = labels.entries(1)
        ranks = {name: ranks_of(in_order(name), positives)[0] for name in runs}
        k = mean_labels or default_mean_labels(len(first.classes))
        result = _describe(compare_ranks(ranks, len(labels), k, draws, seed))
        result["mean_labels_source"] = "default" if mean_labels is None else "stated"
        result["notes"] = _notes(truth is not None, decision)
    not_held_out = split == "train" or set(dataset.splits) == {"test"}
    warnings = [
        f"{name} was trained on samples of {config.path}, so these results say little about new samples. "
        "Evaluate on other samples (another file, or a split)."
        for name, run in runs.items()
        if not_held_out and records is None and _same_path(run.trained_on, config.path)
    ]
    result["warnings"] = [*warnings, *result.get("warnings", [])]
    renamed = [note for note in opening.records.notes if note.startswith(NOTE)]
    result["notes"] = [*renamed, *left.describe(), *result["notes"]]
    about = {"data": config.path, "split": split, "samples": len(labels)}
    return {**about, "left_out": {**left._asdict(), "classes": list(left.classes)}, **result}


def of_one(result: dict[str, Any]) -> dict[str, Any]:
    """Reduce the result of `evaluate` for a single run: leave out what compares it with others."""
    if result["labels"] == "full":
        (metrics,) = result["runs"].values()
        return {**{key: value for key, value in result.items() if key != "runs"}, **metrics}
    (candidate,) = result["candidates"]
    left_out = ("candidates", "tie_set", "cross_checks")
    about = {key: value for key, value in result.items() if key not in left_out}
    return about | {key: candidate[key] for key in ("SP", "P", "A", "naive_mAP", "SP_interval")}


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


def _notes(fully_labelled: bool, decision: Mapping[str, Any]) -> list[str]:
    notes = ["The data is fully labelled; its true labels were not used."] if fully_labelled else []
    stated = [f"--{name}" for name, value in decision.items() if value]
    if stated:
        notes.append(f"The SP-score needs no predicted labels: {', '.join(stated)} changed nothing.")
    return notes


def _assumptions(runs: Mapping[str, Trained]) -> list[str]:
    """Name the runs whose thresholds stand on a number of labels per sample that nobody stated."""
    assumed: dict[float, list[str]] = {}
    for name, run in runs.items():
        source, k = run.card["threshold"]["source"], run.card["threshold"]["labels_per_sample"]
        if run.thresholds is not None:
            source, k = run.thresholds.mean_labels.source, run.thresholds.mean_labels.value
        if source == "default":
            assumed.setdefault(k, []).append(name)
    return [
        f"{', '.join(names)}: the thresholds assume {k:g} labels per sample (spml thresholds, with "
        "--mean_labels or --audit, decides them again)."
        for k, names in assumed.items()
    ]
