"""The commands `spml audit sample` and `spml audit use`. Heavy modules are imported when one runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import ArgumentParser, Namespace

from ..config import DataConfig, from_dict
from ..data.phrases import counted
from ..errors import InputError

if TYPE_CHECKING:
    from ..runs.api import Run
    from ..runs.audit_sample import AuditSample

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
        help="mean labels per sample K, for what the samples would tell; default: as stated in training",
    )
    parser.add_argument(
        "--output", default="", help=f"table to write (CSV); default: {_SHEET} in the folder of the first run"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the table if it exists")
    parent.add_subcommand("audit-sample", parser, help="draw random samples to label in full")


def run_audit_sample(arguments: Namespace) -> None:
    """Draw samples, write the table, and print what its labels would tell.

    Raises:
        InputError: Runs, data, number of rows or output do not suit.
    """
    from ..audit.sheets import check_sheet
    from ..runs.audit_sample import sample_for_audit
    from ..runs.console import Console

    settings: dict[str, Any] = arguments.data.as_dict()
    folders, settings["path"] = _runs_and_data(arguments.runs, settings["path"])
    sheet = Path(arguments.output) if arguments.output else Path(folders[0]) / _SHEET
    runs = load_runs(folders)
    check_sheet(sheet, overwrite=arguments.overwrite)
    sample = sample_for_audit(
        runs,
        from_dict({"data": settings}).data if settings["path"] else None,
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
    for line in _worth(sample):
        print(line)
    print(f"Afterwards: spml audit use {sheet} {' '.join(folders)}")


def load_runs(folders: Sequence[str]) -> dict[str, Run]:
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
    from ..runs.folder import holds_run

    if data or len(paths) == 1 or holds_run(Path(paths[-1])):
        return list(paths), data
    return list(paths[:-1]), paths[-1]


def _worth(sample: AuditSample) -> list[str]:
    """What the labels of a sample would tell, one line each."""
    forecast = sample.forecast
    if forecast is None:
        return [
            "K, the mean labels per sample, is not known, so it can't be computed how precise K, mAP and a "
            "comparison of models would be (--mean_labels states a guess). On ten data sets, K from 50, 100 "
            "or 200 samples was off by 4.3, 2.8 or 2.0 % on average."
        ]
    k, margin = sample.mean_labels, forecast.mean_labels_margin
    side = "above" if forecast.map_shift >= 0 else "below"
    basis = (
        "simulated with these runs"
        if forecast.simulated
        else "assuming that the errors of the two models correlate by 0.9; name several runs to simulate it"
    )
    return [
        f"What {forecast.rows} fully labelled samples would tell, if K is {k:g} and the known label of a "
        "sample is a uniform draw among its labels:",
        f"  K             ±{margin:.2f} ({margin / forecast.mean_labels:.0%}), half of a 95 % interval",
        f"  mAP           ±{100 * forecast.map_margin:.1f} points, likewise, around a value that lies "
        f"{100 * abs(forecast.map_shift):.1f} points {side} mAP on all samples",
        f"  model choice  a difference of {100 * forecast.smallest_difference:.1f} points of mAP is found "
        f"with probability 80 % ({basis})",
    ]
