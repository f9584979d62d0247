"""The commands `spml audit sample` and `spml audit use`. Heavy modules are imported when one runs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import ArgumentParser, Namespace

from ..common.errors import InputError
from ..config import DataConfig, from_dict
from .evaluate import add_engine_arguments
from .own_network import add_backbone_argument

if TYPE_CHECKING:
    from ..runs.run import Run

_SHEET = "sample.csv"


def add_audit_sample_command(parent: Any) -> None:
    """Add `audit-sample`, which people call `spml audit sample`, to the commands of `spml`."""
    parser = ArgumentParser(
        description="Draw random samples to label in full, write a table for their labels, and say what they "
        "would tell: the mean labels per sample K, mAP, and which of several models is better. Images are "
        "neither copied nor linked."
    )
    parser.add_argument(
        "runs",
        nargs="+",
        help="folder of a run, or of several to compare, and after them, optionally, the data to draw from; "
        "default: all samples that the runs have held-out scores of",
    )
    parser.add_class_arguments(DataConfig, "data")
    parser.add_argument("--rows", type=int, default=100, help="number of samples to label in full")
    parser.add_argument("--seed", type=int, default=0, help="seed of the draw")
    parser.add_argument(
        "--mean_labels",
        type=float | None,
        default=None,
        help="mean labels per sample K, for what the samples would tell; default: that of the first run",
    )
    parser.add_argument(
        "--output", default="", help=f"table to write (CSV); default: {_SHEET} in the folder of the first run"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the table if it exists")
    add_backbone_argument(parser)
    parent.add_subcommand("audit-sample", parser, help="draw random samples to label in full")


def run_audit_sample(arguments: Namespace) -> None:
    """Draw samples, write the table, and print what its labels would tell.

    Raises:
        InputError: Runs, data, number of rows or output do not suit.
    """
    from ..audit.sheets import check_sheet
    from ..common.phrases import counted
    from ..runs.audits.sample import sample_for_audit
    from ..runs.console import Console
    from .audit_text import worth

    settings: dict[str, Any] = arguments.data.as_dict()
    folders, settings["path"] = _runs_and_data(arguments.runs, settings["path"])
    data = from_dict({"data": settings}).data
    if not data.path and data != DataConfig():
        raise InputError("--data options say how data is read: name the data after the runs.")
    sheet = Path(arguments.output) if arguments.output else Path(folders[0]) / _SHEET
    runs = _load_runs(folders)
    check_sheet(sheet, overwrite=arguments.overwrite)
    sample = sample_for_audit(
        runs,
        data if data.path else None,
        rows=arguments.rows,
        seed=arguments.seed,
        mean_labels=arguments.mean_labels,
        report=Console().line,
    )
    files = sample.write(sheet)
    print(
        f"{sheet}: {counted(len(sample.ids), 'sample')}, drawn at random (seed {sample.seed}) from "
        f"{counted(sample.available, 'sample')} with held-out scores. Names are those in "
        f"{sample.data['path'] if sample.data else 'the training data'}."
    )
    print(
        "Write ALL labels of each row into `labels`, with | between them, and then yes into `complete`. "
        f"The names of the {counted(len(sample.classes), 'class', 'classes')} are in {files.classes}."
    )
    for line in worth(sample):
        print(line)
    print(f"Afterwards: spml audit use {shlex.join([str(sheet), *folders])}")


def add_audit_use_command(parent: Any) -> None:
    """Add `audit-use`, which people call `spml audit use`, to the commands of `spml`."""
    parser = ArgumentParser(
        description="Learn from samples that people labelled in full: the mean labels per sample K, the "
        "shares of the classes, thresholds and probabilities of each run, and which of several runs is best. "
        "Writes thresholds.json, thresholds.png and audited.json into the folder of each run."
    )
    parser.add_argument("file", help="table that `spml audit sample` wrote and people filled in")
    parser.add_argument("runs", nargs="+", help="folder of a run, or of several to compare")
    parser.add_argument(
        "--target",
        default="",
        help="what thresholds aim at, as for `spml thresholds`; default: as in the run",
    )
    parser.add_argument("--per_class", action="store_true", help="reach the target in each class")
    parser.add_argument(
        "--images",
        type=str | None,
        default=None,
        help="folder that file names are relative to, for samples that a run has no held-out scores of; "
        "default: the folder of the table",
    )
    parser.add_argument("--draws", type=int, default=200, help="number of bootstrap draws, at least 50")
    parser.add_argument("--seed", type=int, default=0, help="seed of the bootstrap draws")
    add_engine_arguments(parser)
    parent.add_subcommand("audit-use", parser, help="learn from samples that people labelled in full")


def run_audit_use(arguments: Namespace) -> None:
    """Learn from fully labelled samples, print what they tell and write it.

    Raises:
        InputError: Table, runs or target do not suit.
    """
    from ..decisions import read_target
    from ..metrics import MIN_DRAWS
    from ..runs.audits.use import use_audit
    from ..runs.compute.predict import Engine
    from ..runs.console import Console
    from .audit_text import learned

    if arguments.draws < MIN_DRAWS:
        raise InputError(f"--draws must be at least {MIN_DRAWS}, got {arguments.draws}")
    if arguments.per_class and not arguments.target:
        raise InputError("--per_class belongs to --target: pass both.")
    target = read_target(arguments.target, per_class=arguments.per_class) if arguments.target else None
    runs, console = _load_runs(arguments.runs), Console()
    used = use_audit(
        arguments.file,
        runs,
        images=arguments.images,
        target=target,
        draws=arguments.draws,
        seed=arguments.seed,
        engine=Engine(arguments.batch_size, arguments.workers, arguments.device, console),
    )
    used.write(runs, console.line)
    for line in learned(used):
        print(line)
    for name, policy in used.thresholds.items():
        print(
            f"{name}: thresholds.json, thresholds.png and audited.json written ({policy.target.describe()})"
        )


def _load_runs(folders: Sequence[str]) -> dict[str, Run]:
    """Load runs, each named by its folder.

    Raises:
        InputError: A folder holds no finished run, or is named twice.
    """
    from ..runs.api import load

    runs: dict[str, Run] = {}
    for folder in folders:
        if any(Path(folder).resolve() == run.folder.resolve() for run in runs.values()):
            raise InputError(f"{folder}: is named twice; name each run once.")
        runs[folder] = load(folder)
    return runs


def _runs_and_data(paths: Sequence[str], data: str) -> tuple[list[str], str]:
    """Separate the folders of the runs from the data, which may be named last or by --data.path."""
    from ..runs.folder.layout import holds_run

    if data or len(paths) == 1 or holds_run(Path(paths[-1])):
        return list(paths), data
    return list(paths[:-1]), paths[-1]
