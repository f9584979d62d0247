"""Options, checks and tables that several commands share."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..common.errors import InputError
from ..config import DataConfig, check, from_dict

if TYPE_CHECKING:
    from rich.table import Table

    from ..runs.predict.batches import Engine


@dataclass
class Network:
    """Option with which a command gets the network of runs that have one of the user's own.

    Attributes:
        backbone: module:callable that makes the network of a run with a network of your own; it is imported,
            from the current folder, too.
    """

    backbone: str = ""  # at hand by the time that the command runs


@dataclass
class Prediction:
    """Options of prediction.

    Attributes:
        batch_size: Samples per step.
        workers: Number of processes that decode images; -1 = one per core, at most 8.
        device: auto, cpu, cuda or mps.
    """

    network: Network
    batch_size: int = 64
    workers: int = -1
    device: str = "auto"

    def engine(self, cache: str | None = None, cluster: str | None = None) -> Engine:
        """Engine that predicts with these options."""
        from ..runs.predict.batches import Engine

        return Engine(self.batch_size, self.workers, self.device, cache, cluster)


@dataclass
class Cluster:
    """Options that let the machines of a Ray cluster compute.

    Attributes:
        engine: Where samples are processed, or the runs of a comparison are made: in processes of this
            machine, or on the machines of a Ray cluster. The result is the same.
        address: Address of a Ray cluster (HOST:PORT); default: start Ray here.
    """

    engine: Literal["local", "ray"] = "local"
    address: str = ""

    def find(self) -> str | None:
        """Address of the cluster that computes, as `check_engine` states it."""
        from ..runs.predict.cluster import check_engine

        return check_engine(self.engine, self.address)


@dataclass
class Decision:
    """Options by which labels are predicted otherwise than the run itself does, as for `Run.decision`.

    Attributes:
        thresholds: Thresholds of the classes (a file, `global` or a number); default: thresholds.json of the
            run, for the best F1 of each class (better macro F1). `global`: one threshold, at K labels per
            validation sample (better micro F1). A number: that score.
        mean_labels: Mean labels per sample K: one threshold for all classes, at which the model predicted K
            labels per validation sample.
        threshold: Predict labels whose score, from 0 to 1, is at least this.
        top_k: Largest number of labels of a sample; without one of the three above, exactly so many.
        top1_fallback: Predict the label with the highest score where no other is predicted.
    """

    thresholds: str | None = None
    mean_labels: float | None = None
    threshold: float | None = None
    top_k: int = 0
    top1_fallback: bool = False


def data_config(data: dict[str, Any], path: str = "") -> DataConfig:
    """Settings of the data that a command line states, checked, where an argument may name the data."""
    config = from_dict({"data": with_path(data, path)})
    check(config)
    return config.data


def with_path(data: dict[str, Any], path: str) -> dict[str, Any]:
    """Add the data that an argument names to settings of the data."""
    if path and data.get("path", "") not in ("", path):
        raise InputError(f"the data is named twice: {path} and --data.path {data['path']}")
    return {**data, "path": path} if path else data


def check_order(run: str, others: Sequence[str]) -> None:
    """Refuse data in front of the run that it is for."""
    from ..runs.folder.layout import holds_run

    later = next((name for name in others if holds_run(Path(name))), None)
    if later and not holds_run(Path(run)) and os.path.exists(run):
        raise InputError(f"{run}: holds no run, but {later} does. Name the run first: {later} {run}.")


def runs_and_data(runs: list[str], data: dict[str, Any]) -> tuple[list[str], DataConfig]:
    """Separate the folders of runs from the data, which may be named last among them or by --data.path."""
    from ..runs.folder.layout import holds_run

    check_order(runs[0], runs[1:])
    if data.get("path") or len(runs) == 1 or holds_run(Path(runs[-1])):
        return runs, data_config(data)
    return runs[:-1], data_config(data, runs[-1])


def new_table(
    headers: Sequence[str], *, left: int = 1, wrapped: Collection[int] = (), lines: bool = False
) -> Table:
    """Make a table to be filled and printed.

    Args:
        headers: Headers of the columns.
        left: Number of columns at the start that are flush left; the others are flush right.
        wrapped: Columns whose cells may be broken.
        lines: Whether a terminal draws lines around the cells.
    """
    from rich.table import Table

    table = Table() if lines and sys.stdout.isatty() else Table(box=None, pad_edge=False)
    for number, header in enumerate(headers):
        table.add_column(header, justify="left" if number < left else "right", no_wrap=number not in wrapped)
    return table


def print_table(table: Table, width: int | None = None) -> None:
    """Print a table, by default as wide as the terminal, or 160 columns wide where there is none."""
    from rich.console import Console

    Console(width=width or (None if sys.stdout.isatty() else 160)).print(table)


def columns(rows: Sequence[Sequence[str]], right: Iterable[int] = ()) -> list[str]:
    """Lay out rows in columns.

    Args:
        rows: Cells of each row.
        right: Columns that are flush right.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    right = set(right)
    return [
        "  ".join(
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
