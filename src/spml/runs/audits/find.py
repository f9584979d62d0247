"""Audit a data set with a run: which labels are missing, which look wrong, and what each class allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ... import plots
from ...audit.checks import check_limits
from ...audit.folder import (
    ABOUT,
    BETWEEN_NAMES,
    About,
    Audit,
    MissingLabel,
    WrongLabel,
    data_settings,
    fingerprint,
    read_observed,
    write_audit,
)
from ...audit.hidden import HiddenLabels, MissingLabels, hidden_labels
from ...audit.lists import check_format, write_list
from ...audit.report import ClassSummary, summarise_classes, summarise_health
from ...audit.wrong import doubtful_labels
from ...common.errors import InputError
from ...config import from_dict
from ...data import Dataset
from ...decisions import priors_from_shares
from ..compute.cluster.connection import connected_if
from ..compute.predict import Engine
from ..folder.layout import only_writer_in
from ..inputs import with_names
from ..settle.resolve import check_mean_labels
from .out_of_fold import Scored, TrainedRun, score_samples

PICTURE, LIST = "audit.png", "missing"
MOST_WRONG = 100
"""Largest number of given labels that are listed as looking wrong."""


class Limits(NamedTuple):
    """What the list of missing labels may hold.

    Attributes:
        top: Largest number of labels; 0 = any.
        per_class: Largest number of labels of a class; 0 = any.
        min_probability: Least probability of a label.
    """

    top: int = 1000
    per_class: int = 0
    min_probability: float = 0.05


DEFAULT_LIMITS = Limits()


def run_audit(
    folder: Path,
    settings: Mapping[str, Any],
    *,
    output: Path,
    folds: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    mean_labels: float | None = None,
    form: str = "csv",
    overwrite: bool = False,
    engine: Engine,
) -> tuple[Audit, dict[str, Any]]:
    """Audit a data set with a run, and write the folder of the audit.

    Args:
        folder: Folder of the run.
        settings: Settings of the data by name that differ from those of the training, such as `path`.
        output: Folder of the audit.
        folds: As in `score_samples`.
        limits: What the list of missing labels may hold.
        mean_labels: Mean labels per sample K; None = as stated for the training.
        form: Format in which the list is written next to `missing.csv`: `jsonl` or `parquet`; `csv` = none.
        overwrite: Replace an earlier audit.
        engine: Settings of prediction, with a console.

    Returns:
        The audit, and the health of the data set as in `spml.audit.health_summary`.

    Raises:
        InputError: The run, the data or an argument does not suit, K is not known, there is an audit, or
            another process writes to the folder.
        SpmlError: A training failed, or a file could not be written.
    """
    check_limits(*limits)
    check_format(form)
    report = _console(engine).line
    with only_writer_in(output, report), connected_if(engine.cluster, report):
        return _audit(folder, settings, output, folds, limits, mean_labels, form, overwrite, engine)


def _audit(
    folder: Path,
    settings: Mapping[str, Any],
    output: Path,
    folds: int | None,
    limits: Limits,
    mean_labels: float | None,
    form: str,
    overwrite: bool,
    engine: Engine,
) -> tuple[Audit, dict[str, Any]]:
    """Audit a data set, as in `run_audit`."""
    if (output / ABOUT).exists() and not overwrite:
        raise InputError(
            f"{output}: already holds an audit. Replace it (--overwrite), or name another folder (--output)."
        )
    trained = TrainedRun(folder)
    k = _mean_labels(mean_labels, trained)
    config = from_dict({"data": {**asdict(trained.config.data), **settings}}).data
    config = with_names(config, trained.run.names)
    data = trained.open(config, _console(engine))
    if all(samples.observed.full for samples in data.splits.values()):
        raise InputError(
            f"{config.path}: every label is known, so none is missing. To try an audit on such data, hide "
            "labels (--data.observe single)."
        )
    check_mean_labels(k.value, len(data.classes))
    scored = score_samples(
        trained, data, config, folds=folds, folder=output, overwrite=overwrite, engine=engine
    )
    hidden = _hidden_labels(scored, k, trained, trained.run.columns(config.path, data.classes))
    classes = summarise_classes(hidden, data.classes)
    health = summarise_health(hidden, classes)
    warnings = (*scored.warnings, *health["warnings"])
    # Beyond the end of the list, the curve of the picture shows what a longer one would hold.
    longest = max(limits.top, round(health["expected_hidden"])) if limits.top else 0
    ranked = hidden.rank(**limits._replace(top=longest)._asdict())
    listed = len(ranked.rows) if not limits.top else min(limits.top, len(ranked.rows))
    missing = _missing_rows(ranked, listed, scored, data)
    wrong = doubtful_labels(hidden, top=MOST_WRONG)
    records = read_observed(config)
    audit = Audit(
        About(
            run=str(folder.absolute()),
            data=data_settings(config),
            fingerprint=fingerprint(records.ids, records.classes, records.labels),
            classes=data.classes,
            mean_labels=k.value,
            mean_labels_source=k.source,
            samples=len(scored.ids),
            unknown=hidden.unknown,
            listed=listed,
            expected=float(ranked.probability[:listed].sum()),
            warnings=warnings,
            how=scored.how,
            hidden=health["expected_hidden"],
            probable=health["probably_missing"],
        ),
        missing,
        [
            WrongLabel(scored.ids[row], data.classes[column], confidence, rank)
            for row, column, confidence, rank in zip(*(part.tolist() for part in wrong), strict=True)
        ],
        classes,
    )
    write_audit(output, audit)
    if form != "csv":
        write_list(output / f"{LIST}.{form}", missing)
    _draw(output / PICTURE, classes, ranked, listed)
    return audit, {**health, "warnings": list(warnings)}


class _MeanLabels(NamedTuple):
    """Mean labels per sample K, and its origin as in `About`."""

    value: float
    source: Literal["stated", "audit", "labels"]


def _mean_labels(stated: float | None, trained: TrainedRun) -> _MeanLabels:
    """K as stated now, as an audit or full labels gave it, or as stated for the training.

    Raises:
        InputError: K is not known.
    """
    if stated is not None:
        check_mean_labels(stated, len(trained.run.classes))
        return _MeanLabels(stated, "stated")
    policy = trained.run.thresholds
    if policy is not None and policy.mean_labels.source != "default":
        return _MeanLabels(policy.mean_labels.value, policy.mean_labels.source)
    if trained.config.mean_labels is None:
        raise InputError(
            "The mean number of labels per sample K is not known, and single positives can't reveal it: "
            "state it (--mean_labels K), or label 50 or more random samples in full (spml audit sample, then "
            "spml audit use)."
        )
    return _MeanLabels(trained.config.mean_labels, "stated")


def _hidden_labels(
    scored: Scored, k: _MeanLabels, trained: TrainedRun, columns: npt.NDArray[np.int64]
) -> HiddenLabels:
    """Calibrate scores; where samples were labelled in full for the run, with what they have shown.

    Args:
        scored: Samples with scores.
        k: Mean labels per sample.
        trained: Run.
        columns: Column of the run for each class of the data.
    """
    policy = trained.run.thresholds
    if k.source == "audit" and policy is not None:
        priors = policy.priors._replace(shares=policy.priors.shares[columns])
        return hidden_labels(scored.labels, scored.scores, priors, policy.calibrated)
    priors = priors_from_shares(scored.labels.positives_per_class(), k.value, k.source)
    return hidden_labels(scored.labels, scored.scores, priors)


def _console(engine: Engine) -> Any:
    assert engine.console is not None
    return engine.console


def _missing_rows(ranked: MissingLabels, listed: int, scored: Scored, data: Dataset) -> list[MissingLabel]:
    rows = ranked.rows[:listed]
    given = scored.labels.take(rows).to_names(data.classes)
    columns = (part[:listed].tolist() for part in ranked)
    return [
        MissingLabel(
            scored.ids[row], BETWEEN_NAMES.join(names), data.classes[column], probability, rank, place
        )
        for names, row, column, probability, rank, place in zip(given, *columns, strict=True)
    ]


def _draw(path: Path, classes: list[ClassSummary], ranked: MissingLabels, listed: int) -> None:
    lengths = np.arange(1, len(ranked.probability) + 1)
    bars = [plots.ClassBar(each.label, each.known, each.hidden, each.learnable) for each in classes]
    plots.audit_sheet(path, bars, np.cumsum(ranked.probability) / lengths, listed)
