"""The commands `spml review` and `spml review export`. Heavy modules are imported when one runs."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Any, Literal

from jsonargparse import ArgumentParser, Namespace

from ..common.errors import InputError, require_packages


def add_review_command(commands: Any) -> None:
    """Add `review` to the commands of `spml`."""
    parser = ArgumentParser(
        description="Say yes or no to probable missing labels on a local web page, whose address is printed. "
        "Every answer is on disk before the page goes on. `spml review export` writes the answers as labels."
    )
    _add_common(parser)
    parser.add_argument("--port", type=int, default=0, help="port of the page; 0 = a free one")
    parser.add_argument("--reviewer", default="", help="name kept with each answer; default: your user name")
    parser.add_argument(
        "--order",
        type=Literal["rank", "class"],
        default="rank",
        help="most probable entries first, or the best of every class first, then the second of every class",
    )
    parser.add_argument(
        "--rows",
        default="",
        metavar="FILE",
        help="CSV, TSV or Parquet file whose columns are shown with each sample, such as its text; the first "
        "column holds the names of the samples",
    )
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    commands.add_subcommand("review", parser, help="say yes or no to probable missing labels on a local page")


def add_review_export_command(commands: Any) -> None:
    """Add `review-export`, which people call `spml review export`, to the commands of `spml`."""
    parser = ArgumentParser(
        description="Write the labels of the data with the answers merged in: yes as a known positive, no as "
        "a known negative. `spml train` reads the result."
    )
    _add_common(parser)
    parser.add_argument("output", help="file to write; a folder for COCO JSON of data with a split")
    # Not a list of choices: the registry of writers imports torch, which --help does without.
    parser.add_argument(
        "--format", type=str, required=True, metavar="NAME", help="format, as for `spml data convert`"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace files that exist")
    commands.add_subcommand("review-export", parser, help="write the answers of a review as labels")


def _add_common(parser: ArgumentParser) -> None:
    parser.add_argument("audit", help="folder that `spml audit` wrote")
    parser.add_argument("--data", default="", help="path of the data, if it was moved since the audit")


def run_review(arguments: Namespace) -> None:
    """Serve the page until it is interrupted.

    Raises:
        InputError: The audit, the data, the table or the port do not suit, or FastAPI or uvicorn is not
            installed.
    """
    require_packages("review", "fastapi", "uvicorn")
    reviewer = arguments.reviewer.strip() or _user()
    if len(reviewer) > 100 or not reviewer.isprintable():
        raise InputError("--reviewer must be a name of at most 100 printable characters.")

    from ..review.serve import prepare, serve

    site = prepare(
        Path(arguments.audit),
        reviewer,
        port=arguments.port,
        data=arguments.data,
        by_class=arguments.order == "class",
        rows=Path(arguments.rows) if arguments.rows else None,
    )
    serve(site, browser=arguments.open, report=lambda text: print(text, flush=True))


def _user() -> str:
    """Name of the user, if the system knows it."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "reviewer"


def run_review_export(arguments: Namespace) -> None:
    """Write the labels of the data with the answers merged in.

    Raises:
        InputError: The audit, the data, the answers or the output do not suit.
    """
    from ..common.phrases import counted
    from ..data.writers import check_place, find_writer, write
    from ..review.export import reviewed

    # Before the data is read, which may take long.
    check_place(Path(arguments.output), find_writer(arguments.format))
    records, notes = reviewed(Path(arguments.audit), arguments.data)
    further = write(records, Path(arguments.output), arguments.format, overwrite=arguments.overwrite)
    print(f"{arguments.output}: {counted(len(records.ids), 'sample')}")
    for note in (*notes, *further):
        print(note)
