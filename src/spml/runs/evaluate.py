"""Evaluate trained runs on labelled data: against full labels, or compared by observed labels alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import plots
from ..common.errors import InputError
from ..common.files import same_path, write_json
from ..common.label_checks import rows_of
from ..common.notebook import Listing
from ..common.phrases import counted, first_few
from ..data import Dataset, start_opening
from ..data.groups import SEPARATED
from ..data.rename import NOTE
from ..decisions import Decision, Reliability, ReliabilityBins, default_mean_labels
from ..labels import ObservedLabels
from ..metrics import (
    FEWEST_SHOWN,
    MIN_DRAWS,
    Comparison,
    LabelledScores,
    compare_paired,
    compare_ranks,
    drawn_metrics,
    metrics,
    paired_resamples,
)
from ..metrics.arrays import Empty
from ..metrics.bootstrap import drawn_groups
from ..scores import InMemory, Scores, fits, ranks_of
from .folder import layout as run_files
from .inputs import labelled
from .predict.batches import Engine
from .run import Run, load_each
from .settle.conflicts import check_mean_labels

_LISTED = 100
"""Largest number of classes that a note names."""


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
    decision: Mapping[str, Any] = MappingProxyType({}),
    intervals: bool = True,
    draws: int = 200,
    seed: int = 0,
    batch_size: int = 64,
    workers: int = 0,
    device: str = "auto",
    **settings: Any,
) -> dict[str, Any]:
    """Compare runs with the same classes on the same samples, by observed labels or by full ones.

    Args:
        runs: Runs, or their folders; each once.
        data, y, groups: Labelled data, as in `spml.train`. Whether the runs have learned from samples in
            memory is not checked.
        classes: Class names, in the order of the indices or columns of `y`; None = those of the runs.
        split: `train`, `val` or `test`; samples in memory are all in `test`.
        observed: Compare by observed labels alone, even if true labels are available. If false, fully
            labelled data is compared by full labels.
        mean_labels: Mean labels per sample K of the SP-score; if None, as the first run knows it, otherwise
            2, or half of fewer than 4 classes. By full labels, as in `Run.decision`.
        decision: By full labels, further arguments of `Run.decision`, by which labels are predicted.
        intervals: By full labels, compare the runs by a bootstrap over samples.
        draws: Number of draws of the bootstrap, as in `spml.metrics.compare_models`.
        seed: Seed of the bootstrap.
        batch_size, workers, device: As in `Run.predict`.
        settings: Fields of `DataConfig`, for example `observe="single"`.

    Returns:
        A dict that can be written as JSON, with `warnings` and `notes`. By observed labels,
        `labels` is `observed only`, with `candidates` in the order of `runs`, `tie_set`, the best run first,
        and `cross_checks`; scores rank runs, and none is a mAP; SP and A exceed 1 if a model does better than
        K allows for. By full labels, `labels` is `full`, with `runs`: the metrics of each by name, in [0, 1]
        and over the classes of the data, `calibration` where it has probabilities, and with `intervals` the
        `tie_set` of the best by mAP. Where bootstrap draws are of groups, `groups` is their number.

    Raises:
        InputError: No run is named, a run is named twice or is not finished, or the runs have different
            classes; the data can't be read, has no such split, has a class that the runs do not know, has no
            known positive label, or, with `observed`, has no unknown one; or there are too few draws.

    Example:
        spml.compare(["runs/em", "runs/gr"], "held_out.csv")["tie_set"]
    """
    if not runs:
        raise InputError("no run to evaluate: name the folder of at least one")
    named = {str(run.folder): run for run in load_each(runs)}
    check_classes(named)
    first = next(iter(named.values()))
    if draws < MIN_DRAWS:
        raise InputError(f"`draws` must be at least {MIN_DRAWS}, got {draws}")
    for run in named.values():
        run.decision(**decision)  # refuses wrong values before images are read
    config, records = labelled(
        data,
        y,
        settings,
        classes=classes,
        known=first.classes,
        names={given: wanted for run in named.values() for given, wanted in run.names.items()},
        text=first.text_columns,
        groups=groups,
    )
    engine = Engine(batch_size, workers, device, config.cache)
    opening = start_opening(config, purpose="evaluate", records=records)
    positions = first.columns(config.path, opening.classes)

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
    check_mean_labels(mean_labels, len(first.classes), [] if full else [labels])
    if not labels.positives_per_class().any():
        raise InputError(
            f"{config.path}: no sample of the {split!r} split has a known positive label of a class that the "
            "model knows, so nothing can be measured. Label some, or name another `split`."
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
        scores = run.scores(finish(run.spec.size, run.spec.interpolation).splits[split], engine)
        return InMemory(scores.gather()) if whole else scores

    in_groups = dataset.splits[split].groups
    if full:
        names = tuple(first.classes[column] for column in np.sort(positions))
        measured = {
            name: Measured(
                partial(logits, run),
                run.decision(mean_labels=mean_labels, **decision),
                rows_of(run.classes, names).tolist(),
                run.calibrated,
            )
            for name, run in named.items()
        }
        in_order = labels.take_classes(np.argsort(positions))
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
        labels = labels.with_classes(positions, len(first.classes))
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
    result["notes"] = [*renamed, *result["notes"]]
    about = {"data": config.path, "split": split, "samples": len(labels)}
    return {**about, **result}


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
    """Reduce the result of `compare` for a single run: leave out what compares it with others."""
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


# -- against full labels ---------------------------------------------------------------------------------

Logits = npt.NDArray[np.float32]


class Measured(NamedTuple):
    """A run to be measured.

    Attributes:
        logits: Computes its logits, over its own classes.
        decision: How they become labels.
        columns: Columns of these logits that belong to the classes of the labels.
        calibrated: Turns logits of any shape into probabilities; returns None where K is not known.
    """

    logits: Callable[[], Scores]
    decision: Decision
    columns: list[int]
    calibrated: Callable[[Logits], npt.NDArray[np.float32] | None] = lambda logits: None


def measure_runs(
    runs: Mapping[str, Measured],
    truth: ObservedLabels,
    classes: tuple[str, ...],
    empty: Empty,
    *,
    draws: int,
    seed: int,
    groups: npt.NDArray[np.int64] | None = None,
) -> dict[str, Any]:
    """Compute the registered metrics of each run and, with draws, compare the runs.

    Args:
        runs: Runs by name.
        truth: Full labels of N samples over C classes, with at least one positive.
        classes: Names of the C classes.
        empty: Treatment of a class without positives in mAP.
        draws: Number of bootstrap draws, for which logits must be in memory; 0 = no comparison.
        seed: Seed of the draws.
        groups: Group of each sample, (N,), where whole groups are drawn; None = samples.

    Returns:
        `labels`; `runs` with the metrics of each by name and, with draws, `intervals`. With draws also
        `tie_set`, the names of the runs that are indistinguishable from the best by mAP, the best first;
        `draws` and `seed`. Where logits are computed block by block, also `not_measured`, the titles of the
        metrics that need all of them at once.
    """
    reported = [metric for metric in metrics().values() if len(classes) >= metric.fewest_classes]
    multiplicity = paired_resamples(truth.to_ternary() == 1, draws, seed, groups) if draws else None
    result: dict[str, Any] = {"labels": "full", "runs": {}}
    drawn = {}
    for name, run in runs.items():
        logits = run.logits()
        whole = logits.array is not None
        data, bins = _labelled(run, logits, truth, classes, empty)
        values = {metric.name: metric.measure(data) for metric in reported if whole or metric.blocks}
        result["runs"][name] = {
            "top_k_limit": run.decision.top_k,
            "top1_fallback": run.decision.top1_fallback,
            "never_predicted": [classes[column] for column in data.never],
            # The bins are filled when metrics look at what is predicted.
            **({"calibration": _describe_bins(bins.reliability())} if bins.filled else {}),
            **values,
        }
        if not whole:
            result["not_measured"] = [metric.title for metric in reported if not metric.blocks]
        if multiplicity is not None:
            drawn[name] = drawn_metrics(data, multiplicity)
    if not drawn:
        return result
    scores = compare_paired(drawn)
    for name, of_run in result["runs"].items():
        of_run["intervals"] = {
            metric: {
                "value": score.value,
                "margin": score.margin,
                "interval": [score.low, score.high],
                "behind": score.behind,
                "behind_margin": score.behind_margin,
                "behind_interval": [score.behind - score.behind_margin, score.behind + score.behind_margin],
                "tied": score.tied,
            }
            for metric, score in scores[name].items()
        }
    tied = [name for name in runs if scores[name]["mAP"].tied]
    tied.sort(key=lambda name: -scores[name]["mAP"].value)
    return {**result, "tie_set": tied, "draws": draws, "seed": seed}


def _labelled(
    run: Measured, logits: Scores, truth: ObservedLabels, classes: tuple[str, ...], empty: Empty
) -> tuple[LabelledScores, ReliabilityBins]:
    """Logits with labels, and bins of probabilities that are filled when the metrics look at these."""
    cut, bins = run.decision.threshold, ReliabilityBins()

    def decided() -> Iterator[tuple[Logits, npt.NDArray[np.bool_]]]:
        for rows, block in logits.blocks():
            own = block[:, run.columns]
            if (p := run.calibrated(own)) is not None:
                bins.add(p, truth.take(rows).to_ternary() == 1)
            # All classes of the run take part in the decision, also those that the data lacks.
            yield own, run.decision(block)[:, run.columns]

    own = logits.select(np.asarray(run.columns))
    data = LabelledScores(
        own if own.array is None else own.array,
        truth.entries(1) if own.array is None else truth.to_ternary(),
        classes,
        tuple(cut[column] for column in run.columns) if isinstance(cut, tuple) else cut,
        empty,
        decided,
        never=tuple(number for number, column in enumerate(run.columns) if column in run.decision.never),
    )
    return data, bins


def _describe_bins(found: Reliability) -> dict[str, Any]:
    columns = (found.expected, found.observed, found.counts)
    bins = [
        {"expected": mean, "observed": share, "count": count} if count else {"count": 0}
        for mean, share, count in zip(*(column.tolist() for column in columns), strict=True)
    ]
    return {"error": found.error, "bins": bins}


# -- files -----------------------------------------------------------------------------------------------

JSON, PICTURE = "comparison.json", "comparison.png"
RELIABILITY = "reliability.png"


def write_comparison(folder: Path, comparison: dict[str, Any]) -> list[str]:
    """Write a result of `compare` as JSON and as a picture.

    There is no picture of SP-scores on fewer samples than they are shown for; an earlier one is removed. A
    second picture shows the calibration of the runs that have probabilities, where labels are full.

    Returns:
        Names of the files.

    Raises:
        SpmlError: A file could not be written.
    """
    write_json(folder / JSON, comparison)
    (folder / RELIABILITY).unlink(missing_ok=True)
    if comparison["labels"] != "full":
        if comparison["samples_with_a_positive"] < FEWEST_SHOWN:
            (folder / PICTURE).unlink(missing_ok=True)
            return [JSON]
        plots.tie_set(folder / PICTURE, comparison["candidates"])
        return [JSON, PICTURE]
    runs = comparison["runs"]
    of_map = {name: result["intervals"]["mAP"] for name, result in runs.items()}
    bars = [
        {"run": name, "mAP": score["value"], "mAP_interval": score["interval"], "in_tie_set": score["tied"]}
        for name, score in of_map.items()
    ]
    plots.tie_set(folder / PICTURE, bars, score="mAP", axis="mAP, %, and its 95 % interval")
    calibrated = {name: result["calibration"] for name, result in runs.items() if "calibration" in result}
    if not calibrated:
        return [JSON, PICTURE]
    plots.reliability_diagram(folder / RELIABILITY, calibrated)
    return [JSON, PICTURE, RELIABILITY]
