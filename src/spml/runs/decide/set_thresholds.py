"""Decide the thresholds of a finished run again: for another target, another K, or with an audit."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np

from ...common.errors import InputError
from ...common.files import same_path
from ...common.locks import check_no_writer, only_writer
from ...common.messages import log
from ...common.phrases import counted
from ...config import DataConfig
from ...data import Records, start_opening
from ...decisions import HOW_TO_KNOW_K, Policy, Target
from ...labels import ObservedLabels
from ...scores import InMemory, ScoreTable
from ..audits.answers import LEARNED, audited_scores, known_rows, read_audited
from ..folder import layout as run_files
from ..folder.held_out import HeldOut, join_labels, read_held_out
from ..predict.batches import Engine
from ..report.page import renew_report
from ..run import Run
from ..settle.conflicts import check_labels_known, check_mean_labels
from .policies import (
    HELD_OUT,
    Evidence,
    decide_thresholds,
    evidence_from_audit,
    evidence_from_policy,
    evidence_from_shares,
    read_thresholds,
    write_thresholds,
)


def set_thresholds(
    run: Run,
    data: DataConfig | None,
    target: Target,
    *,
    audit: Path | None,
    images: str | None,
    mean_labels: float | None,
    engine: Engine,
    records: Records | None = None,
) -> Policy:
    """Decide thresholds and probabilities, and write them to the folder of the run.

    Without `audit` and `mean_labels`, K is what earlier thresholds stand on, what training was told, or the
    mean of labels that are all known.

    Args:
        run: The run.
        data, records: Samples with observed labels that decide, from `spml.runs.inputs.labelled`; None, or
            the training data, for the held-out scores that the run has kept.
        target, audit, mean_labels: As in `Run.set_thresholds`.
        images: Folder that names in `audit` are relative to; None = the folder of the file.
        engine: Settings of prediction.

    Raises:
        InputError: K is not known, or stated and audited; a file does not suit; a precision is not reached;
            or another process writes to the folder of the run.
        SpmlError: A file could not be written.
    """
    if audit is not None and mean_labels is not None:
        raise InputError("pass `audit` or `mean_labels`, not both: an audit estimates K.")
    check_labels_known(run.folder, run.config, "no threshold can be decided")
    check_no_writer(run.folder, inside=True)
    own = data is None or (records is None and same_path(run.trained_on, data.path))
    if own:
        held_out, source = read_held_out(run.folder, run.classes), HELD_OUT
    else:
        assert data is not None
        held_out, source = _score(run, data, engine, records), data.path
    if not held_out.labels.positives_per_class().any():
        raise InputError(f"{source}: no sample has a known positive label, so no threshold can be decided.")
    check_mean_labels(mean_labels, len(run.classes), [held_out.labels])
    if audit is not None:
        audited = read_audited(audit, run, images)
        kept = held_out if own else _kept(run)
        scores, rows = audited_scores(run, audited, kept, engine)
        evidence = evidence_from_audit(held_out, rows if own else None, scores, audited.truth)
    elif mean_labels is not None:
        evidence = evidence_from_shares(held_out, mean_labels, "stated")
    else:
        evidence = _known_evidence(run, held_out, own)
    policy = decide_thresholds(
        run.weights_sha256, run.scale, run.classes, held_out, evidence, target, source=source
    )
    with only_writer(run.folder, inside=True):
        write_thresholds(run.folder, policy, held_out)
        renew_report(run, engine)
    return policy


def _score(run: Run, data: DataConfig, engine: Engine, content: Records | None) -> HeldOut:
    """Score the samples of other data, whichever split they are in.

    Of samples that the run knows, the scores that it has kept are taken, and those that it has learned from
    are left out; so the data may also be that of the training with other labels.

    Raises:
        InputError: The model has learned from all samples.
    """
    opening = start_opening(data, purpose="evaluate", records=content)
    columns = run.columns(data.path, opening.classes)
    dataset = opening.finish(size=data.side or run.spec.size, interpolation=run.spec.interpolation)
    records, kept, splits = opening.records, _kept(run), dataset.splits.values()
    known = known_rows(run, records.ids, records.inputs, kept).tolist()
    row_of = dict(zip(records.ids, known, strict=True))
    ids = [name for samples in splits for name in samples.ids]
    rows = np.asarray([row_of[name] for name in ids], np.int64)
    used = np.flatnonzero(rows != LEARNED)
    if not len(used):
        raise InputError(
            f"{data.path}: the model in {run.folder} has learned from all samples and has kept no other "
            "score of them, so that it would look too good. Name other data."
        )
    left_out = {ids[row] for row in np.flatnonzero(rows == LEARNED).tolist()}
    if left_out:
        log.info(
            f"{data.path}: {counted(len(left_out), 'sample')} left out, which the model has learned from"
        )
    every = join_labels([samples.observed.with_classes(columns, len(run.classes)) for samples in splits])
    labels, before, first = every.take(used), np.flatnonzero(rows[used] >= 0), 0
    table = ScoreTable(labels, highest=True if len(before) and kept.scores.array is None else None)
    if len(before):
        table.put(before, kept.scores.take(rows[used[before]]))
    for samples in splits:
        new = np.flatnonzero(rows[first : first + len(samples)] == -1)
        if len(new):
            table.put(np.searchsorted(used, first + new), run.scores(samples.take(new), engine))
        first += len(samples)
    learned = every.positives_per_class() - labels.positives_per_class()
    return HeldOut(tuple(ids[row] for row in used.tolist()), table.finish(), labels, left_out, learned)


def _kept(run: Run) -> HeldOut:
    """Held-out scores of the run; none where it has kept none."""
    if (run.folder / run_files.HELD_OUT).is_file():
        return read_held_out(run.folder, run.classes)
    empty = np.zeros((0, len(run.classes)), np.float32)
    return HeldOut((), InMemory(empty), ObservedLabels.from_ternary(empty.astype(np.int8)))


def _known_evidence(run: Run, held_out: HeldOut, own: bool) -> Evidence:
    """Evidence from a K that was stated or measured earlier.

    Raises:
        InputError: There is none.
    """
    full, before, stated = held_out.labels.full, None, run.config.mean_labels if run.config else None
    with suppress(InputError):  # none, or a damaged file, which is replaced
        before = read_thresholds(run.folder / run_files.THRESHOLDS, run.classes, run.weights_sha256)
    if own or not full:
        if before is not None and before.mean_labels.known:
            if own and before.rows.source == HELD_OUT:
                return evidence_from_policy(before)
            return evidence_from_shares(held_out, before.mean_labels.value, before.mean_labels.source)
        if stated is not None:
            return evidence_from_shares(held_out, stated, "stated")
    if full:
        mean = float(held_out.labels.positives_per_sample().mean())
        return evidence_from_shares(held_out, mean, "labels")
    raise InputError(f"{run.folder}: {HOW_TO_KNOW_K}")
