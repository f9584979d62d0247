"""The commands `spml review` and `spml review export`. Heavy modules are imported when one runs."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..common.errors import InputError, require_packages

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ..review.session import Words


def review(
    path: Path,
    *,
    data: str = "",
    port: int = 0,
    reviewer: str = "",
    order: Literal["rank", "class", "unsure"] = "rank",
    rows: Path | None = None,
    open: bool = False,
) -> None:
    """Say yes or no to the lists of an audit, or label a random sample in full, on a local web page, whose
    address is printed. Every answer is on disk before the page goes on. `spml review export` writes the
    answers to an audit as labels, `spml audit use` learns from a sample.

    Args:
        path: Folder that `spml audit` wrote, or table (CSV) that `spml audit sample` wrote.
        data: Path of the data, if it was moved since.
        port: Port of the page; 0 = a free one.
        reviewer: Name kept with each answer; default: your user name.
        order: Of the lists of an audit: most probable entries first; the best of every class first, then the
            second of every class; or least sure entries first. The page has the same choice.
        rows: CSV, TSV or Parquet file whose columns are shown with each sample, such as its text; the first
            column holds the names of the samples.
        open: Open the page in the browser.
    """
    require_packages("review", "fastapi", "uvicorn")
    name = reviewer.strip()
    if not name:
        try:
            name = getpass.getuser()
        except (OSError, KeyError, ImportError):  # the system does not know it
            name = "reviewer"
    if len(name) > 100 or not name.isprintable():
        raise InputError("--reviewer must be a name of at most 100 printable characters.")

    from ..review.app import open_site, serve
    from ..review.labelling import Labelling
    from ..review.session import Review

    opened: Review | Labelling
    if path.is_file() or path.suffix.lower() == ".csv":
        scores, remark = _scores_of(path)
        opened = Labelling(path, name, data=data, rows=rows, scores=scores)
    else:
        words = _words_of(path)
        opened, remark = Review(path, name, data=data, order=order, rows=rows, words=words), ""
    site = open_site(opened, port=port)
    if remark:
        print(f"note: {remark}", file=sys.stderr)
    serve(site, browser=open)


def _scores_of(sheet: Path) -> tuple[npt.NDArray[np.float32] | None, str]:
    """Scores of a sample by the runs that it was drawn for, or None and why there are none."""
    from ..audit.sheets import read_sample
    from ..runs.audits.sample import scores_of_sample
    from ..runs.folder.layout import holds_run
    from ..runs.run import load_each

    sample = read_sample(sheet)
    if not sample.runs:
        return None, f"{sheet} names no run, so classes are not ordered by scores."
    if gone := [run for run in sample.runs if not holds_run(Path(run))]:
        return None, f"{gone[0]} is gone, so classes are not ordered by its scores."
    runs = dict(zip(sample.runs, load_each(sample.runs), strict=True))
    return scores_of_sample(runs, sample.ids, sample.classes), ""


def _words_of(audit: Path) -> Words | None:
    """What finds the words of a text that speak for a class: the run of an audit of texts, if it is there."""
    from ..audit.folder import read_audit
    from ..runs.folder.layout import holds_run
    from ..runs.run import load

    about = read_audit(audit).about
    if not about.config.text or not about.run or not holds_run(Path(about.run)):
        return None
    return load(about.run).words_for


def review_export(
    audit: Path,
    output: Path,
    *,
    format: str,
    data: str = "",
    damaged: Literal["stop", "skip"] = "stop",
    overwrite: bool = False,
) -> None:
    """Write the labels of the data with the answers merged in: yes as a known positive, no as a known
    negative. `spml train` reads the result.

    Args:
        audit: Folder that `spml audit` wrote.
        output: File to write; a folder for COCO JSON of data with a split.
        format: Format, as for `spml data convert`.
        data: Path of the data, if it was moved since the audit.
        damaged: Damaged rows of the database: stop and name them, or skip them and write what the others say.
        overwrite: Replace files that exist.
    """
    from ..common.phrases import counted
    from ..data.writers import check_place, find_writer, write
    from ..review.merged import reviewed

    # Before the data is read, which may take long.
    check_place(output, find_writer(format))
    records, notes = reviewed(audit, data, skip_damaged=damaged == "skip")
    further = write(records, output, format, overwrite=overwrite)
    print(f"{output}: {counted(len(records.ids), 'sample')}")
    for note in (*notes, *further):
        print(note)
