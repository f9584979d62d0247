"""Fully labelled samples: their labels from a file, and scores by a model that was not fitted to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from ...audit.sheets import read_answers
from ...common.errors import InputError, nearest
from ...common.phrases import counted
from ...common.safe import quote
from ...config import DataConfig
from ...data import Inputs, Samples
from ...data.matrix import FeatureMatrix
from ...data.readers import read
from ...data.tables.delimited import open_delimited
from ...decisions.priors import FEWEST_AUDITED
from ...labels import ObservedLabels
from ..compute.score_table import all_scores, take_scores
from ..folder.held_out import HeldOut
from .names import names_in_training

if TYPE_CHECKING:
    from ..compute.predict import Engine
    from ..run import Run


class Audited(NamedTuple):
    """Samples all labels of which are known.

    Attributes:
        source: File that they are from, for messages.
        ids: Names of the m samples.
        truth: All their labels, bool (m, C), with the columns of the model.
        inputs: Image file of each sample, or their features.
    """

    source: str
    ids: tuple[str, ...]
    truth: npt.NDArray[np.bool_]
    inputs: tuple[Path, ...] | FeatureMatrix


def read_audited(
    path: Path, classes: Sequence[str], images: str | None = None, names: Mapping[str, str] | None = None
) -> Audited:
    """Read fully labelled samples: a label that the file does not list is absent.

    Args:
        path: CSV file with the columns file, labels and complete, as `spml audit sample` writes it, whose
            files need not exist where the run has kept scores of them; or data as for `spml train`.
        classes: Classes of the model.
        images: Folder that names of files are relative to; None = the folder of the file.
        names: Wanted names of classes by given ones.

    Raises:
        InputError: The file can't be read, has a class that the model does not know, a row that is not
            labelled in full, or fewer than 20 rows.
    """
    if _is_sheet(path):
        answers, root = read_answers(path, classes), path.parent if images is None else Path(images)
        audited = Audited(str(path), answers.ids, answers.truth, tuple(root / name for name in answers.ids))
    else:
        audited = _read_data(path, classes, images, names or {})
    if len(audited.ids) < FEWEST_AUDITED:
        raise InputError(
            f"{path}: has {counted(len(audited.ids), 'sample')}, but an audit needs at least "
            f"{FEWEST_AUDITED}, and better 50 or more, drawn at random (spml audit sample)."
        )
    return audited


def audited_scores(run: Run, audited: Audited, held_out: HeldOut, engine: Engine) -> npt.NDArray[np.float32]:
    """Scores (m, C) of audited samples by a model that was not fitted to them.

    Those that the run has kept; other samples are predicted.

    Args:
        run: The run.
        audited: The samples.
        held_out: Scores that the run has kept.
        engine: Settings of prediction.

    Raises:
        InputError: The model has learned from a sample and kept no other score of it, or a file is missing.
    """
    kept = {name: row for row, name in enumerate(held_out.ids)}
    scores = np.empty(audited.truth.shape, np.float32)
    new, of_run = [], []
    for row, names in enumerate(names_in_training(run.config, audited.ids, audited.inputs)):
        if (name := next((name for name in names if name in kept), None)) is not None:
            of_run.append((row, kept[name]))
        elif any(name in held_out.learned for name in names):
            raise InputError(
                f"{audited.source}: the model in {run.folder} has learned from {quote(audited.ids[row])} and "
                "has kept no other score of it, so that it would look too good. Draw the samples to label "
                "with spml audit sample."
            )
        else:
            new.append(row)
    if of_run:
        rows, places = np.asarray(of_run, np.int64).T
        scores[rows] = all_scores(take_scores(held_out.scores, places), "an audit")
    if new:
        scores[new] = _predict(run, audited, new, engine)
    return scores


# -- reading ---------------------------------------------------------------------------------------------


def _is_sheet(path: Path) -> bool:
    """Whether a file is a table that says which rows are complete."""
    if path.suffix.lower() not in (".csv", ".tsv") or not path.is_file():
        return False
    return "complete" in map(str.lower, open_delimited(path).names)


def _read_data(path: Path, classes: Sequence[str], images: str | None, names: Mapping[str, str]) -> Audited:
    """Read data as for training, in which a label that is not listed is absent."""
    records = read(DataConfig(path=str(path), images=images, unlisted="negative", rename=dict(names)))
    position = {name: column for column, name in enumerate(classes)}
    for name in records.classes:
        if name not in position:
            raise InputError(
                f"{path}: the model does not know the class {quote(name)}. {nearest(name, classes)}"
            )
    ternary = records.labels.to_ternary()
    partial = np.flatnonzero((ternary == 0).any(1))
    if len(partial):
        rows = counted(len(partial), "sample is", "samples are")
        raise InputError(
            f"{path}: {rows} not labelled in full, such as {quote(records.ids[partial[0]])}. An audit needs "
            "every label of a sample."
        )
    truth = np.zeros((len(ternary), len(classes)), np.bool_)
    truth[:, [position[name] for name in records.classes]] = ternary == 1
    inputs = records.inputs
    if isinstance(inputs, FeatureMatrix):
        return Audited(str(path), tuple(records.ids), truth, inputs)
    if not isinstance(inputs, Sequence) or not all(isinstance(file, Path) for file in inputs):
        raise InputError(f"{path}: an audit must name image files, or hold features.")
    files = tuple(file for file in inputs if isinstance(file, Path))
    return Audited(str(path), tuple(records.ids), truth, files)


# -- scores ----------------------------------------------------------------------------------------------


def _predict(run: Run, audited: Audited, rows: list[int], engine: Engine) -> npt.NDArray[np.float32]:
    inputs: Inputs
    if isinstance(audited.inputs, FeatureMatrix):
        inputs = audited.inputs.take(np.asarray(rows))
    else:
        files = [audited.inputs[row] for row in rows]
        for row, file in zip(rows, files, strict=True):
            if not file.is_file():
                raise InputError(
                    f"{audited.source}: the run has kept no score of {quote(audited.ids[row])}, and there is "
                    f"no file {quote(str(file))} to predict. Name the folder of the images (--data.images), "
                    "or draw the samples to label with spml audit sample."
                )
        inputs = run.list_inputs([str(file) for file in files])[1]
    ids = tuple(audited.ids[row] for row in rows)
    return run.logits(Samples(ids, inputs, ObservedLabels.from_multi_hot(audited.truth[rows])), engine)
