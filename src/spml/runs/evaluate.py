"""Trained runs measured on labelled data: against full labels, or compared by observed labels alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from ..config import DataConfig
from ..data import Dataset, Samples, open_dataset
from ..decisions.selection import default_mean_labels
from ..errors import InputError
from ..files import write_json, write_rows
from ..labels import ObservedLabels
from ..metrics import (
    Candidate,
    Comparison,
    Ranks,
    average_precision,
    compare_ranks,
    mean_average_precision,
    observed_ranks,
    precision_recall_f1,
    top_k,
)
from ..models import BackboneSpec
from .resolve import check_mean_labels

Logits = npt.NDArray[np.float32]

JSON, CSV, PICTURE = "comparison.json", "comparison.csv", "comparison.png"


class Trained(Protocol):
    """What is asked of a trained model; `spml.Run` is one.

    Attributes:
        classes: names, in the order of the columns of its scores.
        threshold: logit from which on a label is predicted.
    """

    classes: tuple[str, ...]
    threshold: float

    @property
    def trained_on(self) -> str:
        """Path of the data that it was trained on; empty if that is not known."""
        ...

    @property
    def spec(self) -> BackboneSpec:
        """How images are prepared for it."""
        ...

    def columns(self, path: str, classes: tuple[str, ...]) -> npt.NDArray[np.int64]:
        """Its column of each class of some data."""
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
    """Metrics of one or several runs on the same samples.

    Args:
        runs: at least one, by name.
        config: the labelled data.
        split: `train`, `val` or `test`.
        observed: compare by observed labels even if the true ones are there. Data that is not fully labelled
            is always measured so.
        mean_labels: K of the SP-score, as `default_mean_labels` if None.
        predict: gives the logits (N, C) of a run.
        report: told what takes long.
        draws, seed: of the bootstrap, as in `spml.metrics.compare_models`.

    Returns:
        A JSON-able dict. `labels` is `full`, with the metrics of each run in `runs`, in [0, 1] and over the
        classes that the data has, or `observed only`, with `candidates`, `tie_set` and `cross_checks`; SP and
        A pass 1 where a model does better than K allows for. `warnings` and `notes` with both.

    Raises:
        InputError: runs have different classes, the data can't be read, has no such split, a class that the
            runs do not know, no known positive label, or, with `observed`, none that is hidden.
    """
    first = next(iter(runs.values()))
    _check_classes(runs)
    check_mean_labels(mean_labels, len(first.classes))
    dataset = open_dataset(config, purpose="evaluate", report=report)
    if split not in dataset.splits:
        raise InputError(f"{config.path}: has no {split!r} split, but {', '.join(dataset.splits)} (--split).")
    columns = first.columns(config.path, dataset.classes)

    def in_columns(labels: ObservedLabels) -> ObservedLabels:
        return labels.with_classes(columns, len(first.classes))

    def logits(run: _Trained) -> Logits:
        """In the order of the first run's classes."""
        place = {name: column for column, name in enumerate(run.classes)}
        found = predict(run, _resized(dataset, config, run).splits[split])
        return found[:, [place[name] for name in first.classes]]

    about: dict[str, Any] = {"data": config.path, "split": split, "samples": len(dataset.splits[split])}
    seen = [
        f"{name} was trained on samples of {config.path}, which it knows: this says little about new ones. "
        "Evaluate on samples of their own (another file, or a split)."
        for name, run in runs.items()
        if (split == "train" or set(dataset.splits) == {"test"}) and _same_place(run.trained_on, config.path)
    ]
    truth = dataset.truth.get(split)
    if truth is not None and not observed:
        # Of a class that the data does not have nothing is known, though no sample has it.
        kept = np.sort(columns)
        full, names = in_columns(truth).to_ternary()[:, kept], tuple(first.classes[c] for c in kept)
        metrics = {
            name: full_metrics(logits(run)[:, kept], full, names, run.threshold, dataset.empty)
            for name, run in runs.items()
        }
        absent = [name for name in first.classes if name not in names]
        notes = [f"Not in the data, and left out: {', '.join(absent)}."] if absent else []
        about |= {"labels": "full", "classes_not_in_data": absent}
        return {**about, "warnings": seen, "notes": notes, "runs": metrics}

    labels = dataset.splits[split].observed
    _check_observed(labels, config.path, split)
    labels = in_columns(labels)
    target = labels.index if labels.index is not None else labels.to_ternary()
    ranks = {name: _ranks(logits(run), target, name, config.path) for name, run in runs.items()}
    told = mean_labels or default_mean_labels(len(first.classes))
    found = _describe(compare_ranks(ranks, len(labels), told, draws, seed))
    found["warnings"] = [*seen, *found["warnings"]]
    source = "default" if mean_labels is None else "stated"
    return {**about, **found, "mean_labels_source": source, "notes": _notes(truth is not None)}


def of_one(found: dict[str, Any]) -> dict[str, Any]:
    """What `evaluate` found for its only run, without what would compare it to others."""
    if found["labels"] == "full":
        (metrics,) = found["runs"].values()
        return {**{key: value for key, value in found.items() if key != "runs"}, **metrics}
    (candidate,) = found["candidates"]
    left_out = ("candidates", "tie_set", "cross_checks")
    about = {key: value for key, value in found.items() if key not in left_out}
    return about | {key: candidate[key] for key in ("SP", "P", "A", "naive_mAP", "SP_interval")}


def write_comparison(folder: Path, found: dict[str, Any]) -> None:
    """Write what observed labels say about runs as JSON, CSV (a row per run) and a picture to `folder`.

    Raises:
        SpmlError: a file could not be written.
    """
    from .. import plots

    write_json(folder / JSON, found)
    header = ["run", "SP", "SP_low", "SP_high", "P", "A", "naive_mAP"]
    header += ["rank_SP", "rank_P", "rank_A", "rank_naive_mAP", "behind", "sd", "z", "in_tie_set"]
    rows = [
        [
            *(c["run"], c["SP"], *c["SP_interval"], c["P"], c["A"], c["naive_mAP"], *c["ranks"].values()),
            *(c["behind"], c["sd"], c["z"], int(c["in_tie_set"])),
        ]
        for c in found["candidates"]
    ]
    write_rows(folder / CSV, header, rows)
    plots.tie_set(folder / PICTURE, found["candidates"])


def full_metrics(
    logits: Logits,
    truth: npt.NDArray[np.int8],
    classes: tuple[str, ...],
    threshold: float,
    empty: Literal["exclude", "zero"] = "exclude",
) -> dict[str, Any]:
    """Metrics against full labels (N, C) in {-1, +1}, in [0, 1]; a label is predicted from `threshold` on,
    and a class without positives is left out of mAP, or counts as 0 there.
    """
    per_class = average_precision(logits, truth)
    found: dict[str, Any] = {
        "labels": "full",
        "mAP": mean_average_precision(logits, truth, empty),
        "AP": {name: float(ap) for name, ap in zip(classes, per_class, strict=True) if ap == ap},
        "classes_without_positives": [n for n, ap in zip(classes, per_class, strict=True) if ap != ap],
        "threshold": threshold,
        "thresholded": {},
        "top_k": {},
    }
    for average in ("micro", "macro", "samples"):
        result = precision_recall_f1(logits, truth, threshold, average=average)
        found["thresholded"][average] = result._asdict()
    for k in (1, 3, 5):
        if k <= len(classes):
            found["top_k"][str(k)] = top_k(logits, truth, k)._asdict()
    return found


def _same_place(one: str, other: str) -> bool:
    return bool(one) and Path(one).resolve() == Path(other).resolve()


def _check_classes(runs: Mapping[str, Trained]) -> None:
    """Refuse to compare runs that do not know the same classes; their order may differ."""
    (first, known), *others = ((name, run.classes) for name, run in runs.items())
    for name, classes in others:
        for one, mine, other, theirs in ((first, known, name, classes), (name, classes, first, known)):
            missing = [label for label in mine if label not in set(theirs)]
            if missing:
                raise InputError(
                    f"{one} knows the class {missing[0]!r} and {other} does not: only runs with the same "
                    "classes can be compared. Evaluate them one at a time."
                )


def _check_observed(labels: ObservedLabels, path: str, split: str) -> None:
    if labels.full:
        raise InputError(
            f"{path}: every label of the {split!r} split is known, so there is nothing to estimate. Leave "
            "out --observed to measure mAP, or hide labels (--data.observe single)."
        )
    if not labels.positives_per_class().any():
        raise InputError(
            f"{path}: no sample of the {split!r} split has a known positive label, so models can't be judged "
            "on it. Label some, or name another --split."
        )


def _resized(dataset: Dataset, config: DataConfig, run: Trained) -> Dataset:
    return dataset.resized(config.size or run.spec.size, run.spec.interpolation)


def _ranks(logits: Logits, target: npt.NDArray[Any], name: str, path: str) -> Ranks:
    if np.isnan(logits).any():
        raise InputError(f"{path}: the scores of {name} are NaN for some samples, which can't be ranked.")
    return observed_ranks(logits, target)


def _describe(found: Comparison) -> dict[str, Any]:
    return {
        "labels": "observed only",
        "samples_with_a_positive": found.samples,
        "classes": found.classes,
        "mean_labels": found.mean_labels,
        "draws": found.draws,
        "seed": found.seed,
        "candidates": [_describe_candidate(candidate) for candidate in found.candidates],
        "tie_set": list(found.tie_set),
        "cross_checks": {
            "spearman_SP_naive_mAP": found.spearman_naive,
            "spearman_P_A_upper_half": found.spearman_p_a,
        },
        "warnings": list(found.warnings),
    }


def _describe_candidate(found: Candidate) -> dict[str, Any]:
    return {
        "run": found.name,
        "SP": found.sp,
        "P": found.p,
        "A": found.a,
        "naive_mAP": found.naive,
        "SP_interval": [found.low, found.high],
        "ranks": {
            "SP": found.sp_rank,
            "P": found.p_rank,
            "A": found.a_rank,
            "naive_mAP": found.naive_rank,
        },
        "behind": found.behind,
        "sd": found.sd,
        "z": "infinity" if math.isinf(found.z) else found.z,  # JSON has no infinity
        "in_tie_set": found.tied,
    }


def _notes(fully_labelled: bool) -> list[str]:
    if not fully_labelled:
        return []
    return ["The data is fully labelled; its true labels were not used."]
