"""Write the report of a run, at the end of the training and again where what it shows has changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...common.errors import InputError
from ...common.files import write_text
from ...data import Samples
from ..compute.predict import Engine
from ..compute.trained_model import TrainedModel
from ..folder import layout as run_files
from ..folder.held_out import HeldOut, read_held_out
from .choose import choose_samples, count_predicted, count_recognised
from .classes import ClassCounts, Describe, class_examples, class_table
from .facts import Facts, read_facts
from .page import page
from .photos import Photo, read_photos, reopened


def write_report(
    run: TrainedModel, parts: Iterable[Samples], engine: Engine, *, remarks: Sequence[str] = ()
) -> None:
    """Write report.html to the folder of a finished run, from the files there.

    Args:
        run: The run.
        parts: Splits of its training data; samples that are missing there are shown by their names.
        engine: Settings of prediction, by which windows are found.
        remarks: What the report lacks, and why.

    Raises:
        InputError: A file of the run is missing or damaged.
        SpmlError: The report could not be written.
    """
    held_out = read_held_out(run.folder, run.classes)
    never = set(run.card["without_positives"])
    limits = [np.inf if name in never else limit for name, limit in zip(run.classes, run.cuts, strict=True)]
    shown = choose_samples(held_out, limits)
    rows = dict.fromkeys(sample.row for each in shown for sample in each.samples)
    photos = read_photos(run, parts, [held_out.ids[row] for row in rows], engine)
    facts = read_facts(run, remarks)
    text = page(facts, _table(run, facts, held_out, limits), _examples(run, facts, shown, held_out, photos))
    write_text(run.folder / run_files.REPORT, text)


def renew_report(run: TrainedModel, engine: Engine) -> None:
    """Write the report of a run again, if it has one: thresholds, an evaluation or an audit have changed.

    The training data is opened again for its photos; where it can't be, samples are shown by their names.
    """
    path = run.folder / run_files.REPORT
    if not path.is_file():
        return
    parts: list[Samples] = []
    remarks: list[str] = []
    changed = TrainedModel(run.folder, run.classifier, run.card)
    try:
        if run.spec.size:
            parts = reopened(changed)
    except InputError as error:
        remarks.append(f"This report shows no photos, because the data can't be read again ({error}).")
    try:
        write_report(changed, parts, engine, remarks=remarks)
    except InputError as error:
        path.unlink(missing_ok=True)  # it would show what is no longer so
        engine.display.line(f"{path} was removed, because it could not be made again: {error}")


def _table(run: TrainedModel, facts: Facts, held_out: HeldOut, limits: Sequence[float]) -> str:
    policy = facts.policy
    listed = range(len(run.classes)) if policy.columns is None else policy.columns
    cuts = dict(zip(listed, policy.classes, strict=True))
    counts = ClassCounts(
        held_out.positives,
        held_out.labels.positives_per_class(),
        count_predicted(held_out, limits),
        count_recognised(held_out, limits),
    )
    return class_table(
        facts,
        run.classes,
        [cuts.get(column) for column in range(len(run.classes))],
        counts,
        len(held_out.ids),
        np.isinf(limits),
        np.isin(run.classes, run.by_name),
    )


def _examples(
    run: TrainedModel, facts: Facts, shown: Any, held_out: HeldOut, photos: Mapping[str, Photo]
) -> str:
    calibrate = facts.policy.calibrated

    def score(logit: float) -> float:
        return float(run.probabilities(np.asarray([logit], np.float32))[0])

    def probability(logit: float) -> float:
        assert calibrate is not None
        return float(calibrate(np.asarray([logit], np.float32))[0])

    describe = Describe(score, probability if calibrate else None, photos)
    return class_examples(facts, run.classes, shown, held_out, describe)
