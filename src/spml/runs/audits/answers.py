"""Fully labelled samples: their labels from a file, and scores by a model that was not fitted to them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...audit.sheets import read_answers
from ...common.errors import InputError
from ...common.label_checks import rows_of
from ...common.phrases import counted
from ...common.safe import quote
from ...config import Config, DataConfig
from ...data import Inputs, Samples
from ...data.dataset import ImageInputs
from ...data.images.image_files import ImageSource
from ...data.matrix import FeatureMatrix
from ...data.names import RowNames
from ...data.readers import Source, read
from ...data.readers.shards import is_shards
from ...data.tables.formats import open_delimited
from ...decisions.priors import FEWEST_AUDITED
from ...labels import ObservedLabels
from ..folder.held_out import HeldOut, all_scores
from ..predict.batches import Engine
from ..run import Run

_ROWS = 4096  # feature vectors hashed at a time


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


def read_audited(path: Path, run: Run, images: str | None = None) -> Audited:
    """Read fully labelled samples: a label that the file does not list is absent.

    Args:
        path: CSV file with the columns file, labels and complete, as `spml audit sample` writes it, whose
            files need not exist where the run has kept scores of them; or data as for `spml train`.
        run: Run whose classes the labels are of.
        images: Folder that names of files are relative to; None = the folder of the file.

    Raises:
        InputError: The file can't be read, has a class that the model does not know, a row that is not
            labelled in full, or fewer than 20 rows.
    """
    is_table = path.suffix.lower() in (".csv", ".tsv") and path.is_file()
    if is_table and "complete" in map(str.lower, open_delimited(path).names):
        answers, root = read_answers(path, run.classes), path.parent if images is None else Path(images)
        audited = Audited(str(path), answers.ids, answers.truth, tuple(root / name for name in answers.ids))
    else:
        records = read(DataConfig(path=str(path), images=images, unlisted="negative", rename=run.names))
        ternary, inputs = records.labels.to_ternary(), records.inputs
        truth = np.zeros((len(ternary), len(run.classes)), np.bool_)
        truth[:, run.columns(str(path), records.classes)] = ternary == 1
        partial = np.flatnonzero((ternary == 0).any(1))
        if len(partial):
            rows = counted(len(partial), "sample is", "samples are")
            raise InputError(
                f"{path}: {rows} not labelled in full, such as {quote(records.ids[partial[0]])}. An audit "
                "needs every label of a sample."
            )
        if not isinstance(inputs, FeatureMatrix):
            files = inputs if isinstance(inputs, Sequence) else ()
            inputs = tuple(file for file in files if isinstance(file, Path))
            if len(inputs) < len(records.ids):
                raise InputError(f"{path}: an audit must name image files, or hold features.")
        audited = Audited(str(path), tuple(records.ids), truth, inputs)
    if len(audited.ids) < FEWEST_AUDITED:
        raise InputError(
            f"{path}: has {counted(len(audited.ids), 'sample')}, but an audit needs at least "
            f"{FEWEST_AUDITED}, and better 50 or more, drawn at random (spml audit sample)."
        )
    return audited


def audited_scores(
    run: Run, audited: Audited, held_out: HeldOut, engine: Engine
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Scores of audited samples by a model that was not fitted to them.

    Those that the run has kept; other samples are predicted.

    Args:
        run: The run.
        audited: The m samples.
        held_out: Scores that the run has kept.
        engine: Settings of prediction.

    Returns:
        Logits, float32 (m, C), and the held-out sample that each of them is, int64 (m,), as in `known_rows`.

    Raises:
        InputError: The model has learned from a sample and kept no other score of it, or a file is missing.
    """
    rows = known_rows(run, audited.ids, audited.inputs, held_out)
    if (rows == LEARNED).any():
        name = audited.ids[int(np.argmax(rows == LEARNED))]
        raise InputError(
            f"{audited.source}: the model in {run.folder} has learned from {quote(name)} and has kept no "
            "other score of it, so that it would look too good. Draw the samples to label with spml audit "
            "sample."
        )
    scores = np.empty(audited.truth.shape, np.float32)
    found, new = np.flatnonzero(rows >= 0), np.flatnonzero(rows < 0).tolist()
    if len(found):
        scores[found] = all_scores(held_out.scores.take(rows[found]), "an audit")
    if not new:
        return scores, rows
    inputs: Inputs
    if isinstance(audited.inputs, FeatureMatrix):
        inputs = audited.inputs.take(np.asarray(new))
    else:
        files = [audited.inputs[row] for row in new]
        for row, file in zip(new, files, strict=True):
            if not file.is_file():
                raise InputError(
                    f"{audited.source}: the run has kept no score of {quote(audited.ids[row])}, and there is "
                    f"no file {quote(str(file))} to predict. Name the folder of the images (data.images), "
                    "or draw the samples to label with spml audit sample."
                )
        inputs = run.list_inputs([str(file) for file in files])[1]
    observed = ObservedLabels.from_multi_hot(audited.truth[new])
    scores[new] = run.logits(Samples(tuple(audited.ids[row] for row in new), inputs, observed), engine)
    return scores, rows


LEARNED = -2


def known_rows(
    run: Run, ids: Sequence[str], inputs: Inputs | Sequence[ImageSource], held_out: HeldOut
) -> npt.NDArray[np.int64]:
    """Held-out sample of a run that each of all samples of some data is, int64 (N,).

    -1 for one that the run does not know; `LEARNED` for one that it has learned from, and has kept no other
    score of.
    """
    kept = {name: row for row, name in enumerate(held_out.ids)}
    rows = np.full(len(ids), -1)
    for row, names in enumerate(names_in_training(run.config, ids, inputs)):
        learned = any(name in held_out.learned for name in names)
        rows[row] = next((kept[name] for name in names if name in kept), LEARNED if learned else -1)
    return rows


def audited_groups(audited: Audited, held_out: HeldOut) -> npt.NDArray[np.int64] | None:
    """Group of each audited sample, int64 (m,), as the held-out scores state it; None where they have none.

    A sample without held-out scores is a group of its own.
    """
    if held_out.groups is None:
        return None
    rows, alone = rows_of(held_out.ids, audited.ids), -1 - np.arange(len(audited.ids))
    return np.where(rows < 0, alone, held_out.groups[rows])


def names_in_training(
    config: Config | None, ids: Sequence[str], inputs: Inputs | Sequence[ImageSource]
) -> Iterator[tuple[str, ...]]:
    """Names that each sample may have in the data that a run was trained on.

    Args:
        config: Settings of the training; None if they are not known.
        ids: Names of all samples of the data.
        inputs: The samples, or their files.
    """
    trained_on = Path(config.data.path) if config and config.data.path else None
    if isinstance(inputs, FeatureMatrix) and ids == RowNames(len(ids)):
        # Row 7 of one file is not row 7 of another one, so that features are compared instead.
        same: dict[bytes, str] = {}
        if trained_on and (trained_on.is_file() or is_shards(Source(trained_on))):
            records = read(DataConfig(path=str(trained_on), unlabelled="skip"))
            if isinstance(records.inputs, FeatureMatrix):
                same = dict(zip(digests(records.inputs), records.ids, strict=True))
        for digest in digests(inputs):
            yield (same[digest],) if digest in same else ()
        return
    if not isinstance(inputs, Sequence) or config is None or trained_on is None:
        yield from ((name,) for name in ids)
        return
    folder = trained_on if trained_on.is_dir() else trained_on.parent
    root = os.path.abspath(config.data.images or folder)
    for name, file in zip(ids, inputs, strict=True):
        if isinstance(file, Path):
            yield name, Path(os.path.relpath(os.path.abspath(file), root)).as_posix()
        else:
            yield (name,)


def digests(inputs: Inputs) -> Iterator[bytes]:
    """Digest of the content of each sample."""
    if isinstance(inputs, ImageInputs):
        yield from (digest.tobytes() for digest in inputs.identities())
        return
    for first in range(0, len(inputs), _ROWS):
        rows = range(first, min(first + _ROWS, len(inputs)))
        yield from (hashlib.sha256(row.tobytes()).digest() for row in inputs.fetch(rows, None).numpy())
