"""The data of the next round: labels with the answers of a review, and the split of the first training."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..common.errors import InputError
from ..common.messages import log
from ..data.records import Records
from ..data.writers import named_from, write
from ..data.writers.samples import image_files
from ..review.merged import reviewed
from ..runs.audits.out_of_fold import open_for_run
from ..runs.run import Run
from .folder import Begun, Round, write_data


def next_labels(last: Round, following: Round, run: Run, begun: Begun, without: Collection[str]) -> None:
    """Write the labels that the next round learns from, and then the file with which it begins.

    The split is that of the last training, so that what was held back stays so. Answers about samples that
    were labelled in full are left out: these only measure.

    Args:
        last: Round whose review is learned from.
        following: The next round.
        run: Run of the last round.
        begun: How the loop was begun.
        without: Names of the samples that were labelled in full.

    Raises:
        InputError: Nothing was reviewed, the data was changed, or its samples are neither image files nor
            features.
        SpmlError: The file could not be written.
    """
    records, notes = reviewed(last.audit, without=without)
    for note in notes:
        log.info(note)
    files = image_files(records)
    features = getattr(records.inputs, "kind", "") == "feature"
    if files is None and not features:
        raise InputError(
            f"{records.source}: a loop needs image files or features, which it can read again with other "
            "labels. Train, audit and review such data by the single commands."
        )
    data = open_for_run(run, run.settings.data)
    split = {name: part for part, samples in data.splits.items() for name in samples.ids}
    rows = np.asarray([row for row, name in enumerate(records.ids) if name in split], np.int64)
    kept = _take(records, rows, split)
    path = following.labels(features)
    settings = {"path": str(path)}
    if not features:
        root = image_root(records)
        kept, settings["images"] = named_from(kept, root), str(root)
    if kept.groups is not None:
        settings["group"] = "group"
    following.folder.mkdir(exist_ok=True)
    write(kept, path, "nan" if features else "csv", overwrite=True)
    write_data(following, begun, settings)


def _take(records: Records, rows: Any, split: dict[str, str]) -> Records:
    """The samples that the last run was given, in their order, with their split."""
    inputs: Any = records.inputs
    return replace(
        records,
        ids=tuple(records.ids[row] for row in rows.tolist()),
        inputs=[inputs[row] for row in rows.tolist()]
        if image_files(records) is not None
        else inputs.take(rows),
        labels=records.labels.take(rows),
        split=tuple(split[records.ids[row]] for row in rows.tolist()),
        groups=None if records.groups is None else tuple(records.groups[row] for row in rows.tolist()),
        objects=None,
        protocol=None,
    )


def image_root(records: Records) -> Path:
    """Folder that the names of image files are relative to.

    Raises:
        InputError: There is none, because the names are not those of the files.
    """
    files = image_files(records)
    assert files is not None
    path, name = files[0].absolute().as_posix(), records.ids[0]
    root = path.removesuffix(f"/{name}")
    if root == path:
        raise InputError(
            f"{records.source}: its samples are not named by their files ({name} is {path}), so a loop can't "
            "find them again. Train, audit and review such data by the single commands."
        )
    return Path(root)
