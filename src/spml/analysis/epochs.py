"""mAP per epoch of runs: which methods degrade when they train for long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from ..common.errors import InputError
from ..config import Config, differences
from ..plots.style import COLOURS, add_legend, label_axes, new_figure, style_axes
from ..runs.folder import layout as run_files
from ..runs.folder.contents import read_metrics
from .registry import register_figure
from .result import Analysis, Column

_COLUMNS = {"mAP": "val/mAP", "SP": "val/SP"}
_LABELS = {"mAP": "validation mAP, true labels, %", "SP": "validation SP-score, observed labels, %"}
_STYLES = ("-", (0, (5, 2)), (0, (1.5, 1.5)))


@dataclass(frozen=True)
class _Run:
    """A run folder: its settings, and its metrics of every epoch."""

    folder: Path
    config: Config
    history: Sequence[dict[str, Any]]
    finished: bool

    def values(self, metric: str) -> list[float]:
        """Values of a metric.

        Raises:
            InputError: An epoch lacks it.
        """
        column = _COLUMNS[metric]
        try:
            return msgspec.convert([record.get(column) for record in self.history], list[float])
        except (ValueError, OverflowError) as error:
            path = self.folder / run_files.METRICS
            raise InputError(f"{path}: damaged: {column}: {error}. Train again.") from error

    def has(self, metric: str) -> bool:
        return all(_COLUMNS[metric] in record for record in self.history)


@register_figure("epochs", "mAP per epoch, several methods in one frame", needs="run folders")
def epochs(runs: Sequence[str | Path], *, metric: Literal["auto", "mAP", "SP"] = "auto") -> Analysis:
    """Draw validation mAP per epoch; runs that differ in their seeds only are one line with a band.

    Args:
        runs: Run folders, on the same data; unfinished ones too.
        metric: `mAP` on fully labelled validation samples, or `SP`, the SP-score on observed labels; `auto`
            is mAP if all runs have it.

    Returns:
        The figure; its table has one row per line and epoch, with mean and standard deviation over runs.

    Raises:
        InputError: A folder holds no run, or a head that was solved without epochs; the runs are of several
            data sets; or one has no true mAP and `metric` is `mAP`.

    Source: Li et al., "Pushing One Pair of Labels Apart Each Time in Multi-Label Learning", Fig. 4.
    """
    found = [_read(Path(run)) for run in dict.fromkeys(Path(run).resolve() for run in runs)]
    _check_data(found)
    chosen, notes = _metric(found, metric)
    notes += [f"{run.folder}: has not finished" for run in found if not run.finished]
    figure = new_figure(6.4, 3.8)
    axes = figure.subplots()
    style_axes(axes)
    table: dict[str, list[Any]] = {name: [] for name in ("line", "epoch", f"val_{chosen}", "sd", "runs")}
    lines = _lines(found)
    for number, (label, group) in enumerate(lines.items()):
        mean, sd, count = _over_runs([run.values(chosen) for run in group])
        numbers = np.arange(1, len(mean) + 1)
        colour = COLOURS[number % len(COLOURS)]
        axes.plot(
            numbers,
            100 * mean,
            color=colour,
            linestyle=_STYLES[number // len(COLOURS) % len(_STYLES)],
            linewidth=1.7,
            label=label if len(group) == 1 else f"{label} ({len(group)} runs)",
        )
        if len(group) > 1:
            band = np.nan_to_num(sd)
            axes.fill_between(
                numbers, 100 * (mean - band), 100 * (mean + band), color=colour, alpha=0.18, lw=0
            )
        table["line"] += [label] * len(mean)
        table["epoch"] += numbers.tolist()
        table[f"val_{chosen}"] += mean.tolist()
        table["sd"] += sd.tolist()
        table["runs"] += count
    if any(len(group) > 1 for group in lines.values()):
        notes.append("bands: standard deviation over runs that differ in their seeds only")
    label_axes(axes, "", "epoch", _LABELS[chosen])
    add_legend(axes)
    columns: dict[str, Column] = dict(table)
    return Analysis(figure, columns, tuple(notes))


def _read(folder: Path) -> _Run:
    path = folder / run_files.METRICS
    if not path.is_file():
        raise InputError(
            f"{folder}: holds no epochs of a run ({path.name} is missing). Train one: spml train --output "
            f"{folder}."
        )
    config, history = run_files.read_config(folder), read_metrics(folder)
    if not history or "epoch" not in history[0]:
        raise InputError(f"{folder}: its head was solved, not trained, so that there are no epochs to draw.")
    if not all(record.get("epoch", number) == number for number, record in enumerate(history, 1)):
        raise InputError(f"{path}: damaged: its epochs are not 1, 2, ... Train again.")
    return _Run(folder, config, history, (folder / run_files.SUMMARY).is_file())


def _check_data(runs: Sequence[_Run]) -> None:
    names = sorted({Path(run.config.data.path).name for run in runs})
    if len(names) > 1:
        raise InputError(f"the runs are of several data sets ({', '.join(names)}): draw one figure for each")


def _metric(runs: Sequence[_Run], metric: str) -> tuple[str, list[str]]:
    without = [run.folder.name for run in runs if not run.has("mAP")]
    if metric == "mAP" and without:
        raise InputError(
            f"{', '.join(without)}: no true validation mAP, because the validation samples are not fully "
            "labelled: draw --metric SP"
        )
    if metric == "auto":
        metric = "SP" if without else "mAP"
    if metric == "SP" and without:
        return metric, [f"the SP-score is drawn: {', '.join(without)} without true validation labels"]
    return metric, []


def _lines(runs: Sequence[_Run]) -> dict[str, list[_Run]]:
    """Runs by label; those of a label differ in their seeds only."""
    groups: list[list[_Run]] = []
    for run in runs:
        same = (group for group in groups if not _differ(group[0].config, run.config))
        group = next(same, None)
        if group is None:
            groups.append([run])
        else:
            group.append(run)
    return {_label(group[0], [other[0] for other in groups]): group for group in groups}


def _differ(first: Config, second: Config) -> list[str]:
    """Settings in which two runs differ, other than seeds, and what changes no number."""
    neutral = replace(
        second,
        **{
            name: getattr(first, name)
            for name in ("seed", "output", "threads", "checkpoint_steps", "record", "record_samples")
        },
    )
    neutral.data = replace(
        second.data,
        path=first.data.path,
        images=first.data.images,
        cache=first.data.cache,
        workers=first.data.workers,
        split_seed=first.data.split_seed,
        observe_seed=first.data.observe_seed,
    )
    return differences(first, neutral)


def _label(run: _Run, others: Sequence[_Run]) -> str:
    """The method, and the settings that set the run apart from others of this method."""
    name = run.config.method
    same = [other for other in others if other.config.method == name]
    apart = sorted({setting for other in same for setting in _differ(run.config, other.config)})
    return ", ".join([name, *(f"{setting} {_value(run.config, setting)}" for setting in apart)])


def _value(config: Config, setting: str) -> str:
    part: Any = asdict(config)
    for name in setting.split("."):
        part = part.get(name, "by default") if isinstance(part, dict) else "by default"
    return f"{part:g}" if isinstance(part, float) else str(part)


def _over_runs(
    curves: Sequence[Sequence[float]],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], list[int]]:
    """Mean, standard deviation (NaN for one run) and number of runs per epoch; runs may end early."""
    longest = max(map(len, curves))
    columns = [[curve[i] for curve in curves if i < len(curve)] for i in range(longest)]
    mean = np.array([np.mean(column) for column in columns])
    sd = np.array([np.std(column, ddof=1) if len(column) > 1 else np.nan for column in columns])
    return mean, sd, [len(column) for column in columns]
