"""Writers: one file per format. What was given and what a model inferred are kept apart in all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from ...errors import InputError, nearest
from ..records import Records
from .coco import write_coco
from .common import Inferred, check_names
from .inferred import known_first
from .labelstudio import write_labelstudio
from .nan import write_nan
from .table import write_table

Format = Literal["csv", "coco", "labelstudio", "nan"]
Writer = Callable[[Records, Inferred, Path, bool], tuple[str, ...]]

WRITERS: Mapping[str, Writer] = {
    "csv": write_table,
    "coco": write_coco,
    "labelstudio": write_labelstudio,
    "nan": write_nan,
}


def write(
    records: Records,
    output: Path,
    form: str,
    inferred: Inferred | None = None,
    *,
    overwrite: bool = False,
) -> tuple[str, ...]:
    """Write the labels of data, so that reading them back gives the same samples, split, classes and labels.

    Images stay where they are. Where something is both given and inferred, only the given label is written.

    Args:
        records: what a reader found.
        output: file to write; a folder for COCO JSON of data with a split.
        form: `csv`, `coco`, `labelstudio` or `nan`.
        inferred: labels that a model inferred of the samples.
        overwrite: replace `output` if it is there.

    Returns:
        How to read it back, and what it does not hold, one line each.

    Raises:
        InputError: the format can't hold this data, or `output` is there.
        SpmlError: a file could not be written; what was there is untouched.
    """
    if form not in WRITERS:
        raise InputError(f"there is no format {form!r} to write. {nearest(form, WRITERS)}")
    if not output.parent.is_dir():
        raise InputError(f"{output}: there is no folder {output.parent}. Make it first.")
    check_names(records)
    free = Inferred.none() if inferred is None else known_first(inferred, records.labels)
    notes = WRITERS[form](records, free, output, overwrite)
    if inferred is None:
        return notes
    left = len(inferred.rows) - len(free.rows)
    return (
        f"{len(free.rows):,} inferred labels; {left:,} others were left out, since they are given.",
        *notes,
    )


__all__ = ["WRITERS", "Format", "Inferred", "write"]
