"""The command `spml review`. Heavy modules are imported when it runs."""

from __future__ import annotations

import getpass
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser, Namespace

from ..errors import InputError, missing_extra

SERVE, EXPORT = "serve", "export"


def add_review_command(parent: Any) -> None:
    """Add `review` and its sub-commands to the commands of `spml`."""
    parser = ArgumentParser(
        description="Say yes or no to probable missing labels on a local web page, and write the answers as "
        "labels. `spml review AUDIT` is short for `spml review serve AUDIT`."
    )
    parent.add_subcommand("review", parser, help="say yes or no to probable missing labels on a local page")
    commands = parser.add_subcommands(required=True)

    serve = ArgumentParser(
        description="Serve the page on this machine and print its address. Every answer is on disk before "
        "the page goes on."
    )
    _add_common(serve)
    serve.add_argument("--port", type=int, default=0, help="port of the page; 0 = a free one")
    serve.add_argument("--reviewer", default="", help="name kept with each answer; default: your user name")
    serve.add_argument("--open", action="store_true", help="open the page in the browser")
    commands.add_subcommand(SERVE, serve, help="serve the page (default)")

    export = ArgumentParser(
        description="Write the labels of the data with the answers merged in: yes as a known positive, no as "
        "a known negative. `spml train` reads the result."
    )
    _add_common(export)
    export.add_argument("output", help="file to write; a folder for COCO JSON of data with a split")
    # Not a list of choices: the registry of writers imports torch, which --help does without.
    export.add_argument(
        "--format", type=str, required=True, metavar="NAME", help="format, as for `spml data convert`"
    )
    export.add_argument("--overwrite", action="store_true", help="replace files that exist")
    commands.add_subcommand(EXPORT, export, help="write the answers as labels")


def _add_common(parser: ArgumentParser) -> None:
    parser.add_argument("audit", help="folder that `spml audit` wrote")
    parser.add_argument("--data", default="", help="path of the data, if it was moved since the audit")


def with_default_command(arguments: Sequence[str]) -> list[str]:
    """The words of a command line with `review AUDIT` written in full, `review serve AUDIT`."""
    command, *rest = arguments or [""]
    if command == "review" and rest[:1] not in ([SERVE], [EXPORT], ["-h"], ["--help"]):
        return [command, SERVE, *rest]
    return list(arguments)


def run_review(arguments: Namespace) -> None:
    """Run one of the commands of `spml review`."""
    command = arguments.subcommand
    {SERVE: _serve, EXPORT: _export}[command](arguments[command])


def _serve(arguments: Namespace) -> None:
    for package in ("fastapi", "uvicorn"):
        if importlib.util.find_spec(package) is None:
            raise missing_extra(package, "review")
    reviewer = arguments.reviewer.strip() or _user()
    if len(reviewer) > 100 or not reviewer.isprintable():
        raise InputError("--reviewer must be a name of at most 100 printable characters.")

    from ..review.serve import prepare, serve

    site = prepare(Path(arguments.audit), reviewer, port=arguments.port, data=arguments.data)
    serve(site, browser=arguments.open, report=lambda text: print(text, flush=True))


def _user() -> str:
    """Name of the user, if the system knows it."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "reviewer"


def _export(arguments: Namespace) -> None:
    from ..data.phrases import counted
    from ..data.writers import find_writer, write
    from ..review.export import reviewed

    find_writer(arguments.format)  # before the data is read, which may take long
    records, notes = reviewed(Path(arguments.audit), arguments.data)
    further = write(records, Path(arguments.output), arguments.format, overwrite=arguments.overwrite)
    print(f"{arguments.output}: {counted(len(records.ids), 'sample')}")
    for note in (*notes, *further):
        print(note)
