"""Audit a data set with a run: which labels are missing, which look wrong, and what each class allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ... import models, plots
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
from ...audit.hidden import HiddenLabels, MissingLabels, check_limits
from ...audit.questions import class_report, health_summary, rank_wrong_labels
from ...common.errors import InputError
from ...common.label_checks import rows_of
from ...common.messages import log
from ...common.torch_draws import borrowed_generators
from ...config import from_dict
from ...data import Dataset, Samples
from ...decisions import MeanLabels, priors_from_shares
from ..folder.held_out import HeldOut
from ..folder.layout import only_writer_in
from ..inputs import as_in_run
from ..predict.batches import Engine
from ..predict.cluster import connected
from ..run import Run, load
from ..settle.conflicts import check_labels_known, check_mean_labels
from .out_of_fold import open_for_run, score_samples

Integers = npt.NDArray[np.int64]

PICTURE = "audit.png"
MOST_WRONG = 100
"""Largest number of given labels that are listed as looking wrong."""


class Limits(NamedTuple):
    """Limits of the list of missing labels.

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
        overwrite: Replace an earlier audit.
        engine: Settings of prediction.

    Returns:
        The audit, and the health of the data set as in `spml.audit.health_summary`.

    Raises:
        InputError: The run, the data or an argument does not suit, K is not known, there is an audit, or
            another process writes to the folder.
        SpmlError: A training failed, or a file could not be written.
    """
    check_limits(*limits)
    with only_writer_in(output), connected(engine.cluster):
        if (output / ABOUT).exists() and not overwrite:
            raise InputError(
                f"{output}: already holds an audit. Replace it (`overwrite`), or name another folder "
                "(`output`)."
            )
        run = load(folder)
        check_labels_known(run.folder, run.config, "missing labels can't be told from absent ones")
        k = run.thresholds.mean_labels if mean_labels is None else MeanLabels(mean_labels, "stated")
        if not k.known:
            raise InputError(
                "The mean number of labels per sample K is not known, and single positives can't reveal it: "
                "state it (mean_labels=K), or label 50 or more random samples in full (spml audit sample, "
                "then spml audit use)."
            )
        config = from_dict({"data": {**asdict(run.settings.data), **settings}}).data
        config = as_in_run(config, run.names, run.text_columns)
        data = open_for_run(run, config)
        if all(samples.observed.full for samples in data.splits.values()):
            raise InputError(
                f"{config.path}: every label is known, so none is missing. To try an audit on such data, "
                "hide labels (data.observe=single)."
            )
        check_mean_labels(k.value, len(data.classes), [part.observed for part in data.splits.values()])
        scored = score_samples(
            run, data, config, folds=folds, folder=output, overwrite=overwrite, engine=engine
        )
        columns, calibration = run.columns(config.path, data.classes), None
        if k.source == "audit":  # what samples labelled in full have shown calibrates scores, too
            priors, calibration = run.thresholds.priors, run.thresholds.calibrated
            priors = priors._replace(shares=priors.shares[columns])
        else:
            priors = priors_from_shares(scored.labels.positives_per_class(), k.value, k.source)
        hidden = HiddenLabels(scored.labels, scored.scores, priors, calibration)
        classes = class_report(hidden, class_names=data.classes)
        health = health_summary(hidden, classes=classes)
        health["warnings"] = [*scored.warnings, *health["warnings"]]
        # Beyond the end of the list, the curve of the picture shows what a longer one would hold.
        longest = max(limits.top, round(health["expected_hidden"])) if limits.top else 0
        ranked = hidden.rank(**limits._replace(top=longest)._asdict())
        found = MissingLabels._make(part[: limits.top or None] for part in ranked)
        says = _by_name(run, data, columns, k.value, found.rows, found.columns, engine)
        places = [""] * len(says)
        if run.locates and run.spec.size:
            places = _places(run, data, found.rows, columns[found.columns], scored.kept, engine)
        if asked := len(says) - says.count(""):
            log.info(f"names: agree with {says.count('yes'):,} of {asked:,} listed labels (column by_name)")
        known = map(BETWEEN_NAMES.join, scored.labels.take(found.rows).to_names(data.classes))
        listed = zip(known, *(part.tolist() for part in found), places, says, strict=True)
        wrong = zip(*(part.tolist() for part in rank_wrong_labels(hidden, top=MOST_WRONG)), strict=True)
        records = read_observed(config)
        about = About(
            run=str(run.folder.absolute()),
            data=data_settings(config),
            fingerprint=fingerprint(records.ids, records.classes, records.labels),
            classes=data.classes,
            mean_labels=k.value,
            mean_labels_source=k.source,  # type: ignore[arg-type]  # is known
            samples=len(scored.ids),
            unknown=hidden.unknown,
            listed=len(found.rows),
            expected=float(found.probability.sum()),
            warnings=tuple(health["warnings"]),
            how=scored.how,
            hidden=health["expected_hidden"],
            probable=health["probably_missing"],
        )
        audit = Audit(
            about,
            [
                MissingLabel(scored.ids[row], labels, data.classes[column], *rest)
                for labels, row, column, *rest in listed
            ],
            [WrongLabel(scored.ids[row], data.classes[column], *rest) for row, column, *rest in wrong],
            classes,
        )
        (output / ABOUT).unlink(missing_ok=True)  # it comes last: with it, all files are there
        bars = [plots.ClassBar(each.label, each.known, each.hidden, each.learnable) for each in classes]
        precision = np.cumsum(ranked.probability) / np.arange(1, len(ranked.probability) + 1)
        plots.audit_sheet(output / PICTURE, bars, precision, about.listed)
        write_audit(output, audit)
    return audit, health


def _by_split(data: Dataset, rows: Integers) -> Iterator[tuple[Integers, Samples]]:
    """Samples with some numbers, which are counted over all splits, split by split, each once."""
    start = 0
    for samples in data.splits.values():
        own = np.unique(rows[(rows >= start) & (rows < start + len(samples))])
        if len(own):
            yield own, samples.take(own - start)
        start += len(samples)


def _places(
    run: Run, data: Dataset, rows: Integers, columns: Integers, kept: HeldOut | None, engine: Engine
) -> list[str]:
    """Window of each pair of a sample, counted over all splits, and a class of the model; see `MissingLabel`.

    Windows that were kept with held-out scores are used. Those of other samples are found by the model of the
    run, which may have seen the images: it is asked where a label is, not whether.
    """
    windows: dict[int, npt.NDArray[np.integer[Any]]] = {}
    for numbers, samples in _by_split(data, rows):
        known = np.full(1, -1) if kept is None or kept.windows is None else rows_of(kept.ids, samples.ids)
        if known.min() >= 0:
            assert kept is not None
            assert kept.windows is not None
            found = np.minimum(kept.windows[known], len(run.places) - 1)
            windows |= zip(numbers.tolist(), found, strict=True)
        else:
            for batch in run.stream(samples.inputs, engine, where=True):
                assert batch.windows is not None
                windows |= zip(numbers[batch.rows].tolist(), batch.windows, strict=True)
    places = [""] * len(rows)
    for pair, (row, column) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
        if row in windows:  # could be read
            places[pair] = " ".join(f"{share:.4g}" for share in run.places[windows[row][column]].tolist())
    return places


def _by_name(
    run: Run, data: Dataset, columns: Integers, k: float, rows: Integers, listed: Integers, engine: Engine
) -> list[str]:
    """A second opinion on missing labels: whether the name of the class, which no known label has taught, is
    among the K best names of the image, `yes`, `no` or, of a class without a name, empty.

    Args:
        run, data: Run and data.
        columns: Column of the model for each class of the data.
        k: Mean labels per sample K.
        rows, listed: Sample, counted over all splits, and class of each missing label, int64 (M,).
        engine: Settings of prediction.

    Returns:
        An opinion on each missing label; empty ones where names are no part of the model.
    """
    head = run.classifier.top.head
    alone = head.names_alone() if isinstance(head, models.Ensemble) else None
    if alone is None:
        return [""] * len(rows)
    with borrowed_generators():
        top = models.Top(run.classifier.top.num_features, run.classifier.top.num_classes)
    top.set_ensemble(alone)
    names = Run(run.folder, models.Classifier(run.classifier.backbone, top), run.card)
    named = alone.named.numpy()[columns]
    best = np.zeros((sum(len(each) for each in data.splits.values()), len(columns)), np.bool_)
    for numbers, samples in _by_split(data, rows):
        for batch in names.stream(samples.inputs, engine):
            scores = np.where(named, batch.logits[:, columns], -np.inf)
            first = np.argsort(-scores, 1, kind="stable")[:, : max(1, round(k))]
            best[numbers[batch.rows][:, None], first] = True
    says = np.where(named[listed], np.where(best[rows, listed], "yes", "no"), "")
    return [str(word) for word in says]
