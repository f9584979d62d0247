"""mAP per epoch of runs: which methods degrade when they train for long."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from ..common.errors import InputError
from ..config import Config, differences, flat
from ..plots.style import COLOURS, add_legend, colours_of, label_axes, single_panel
from ..runs.folder import layout as run_files
from ..runs.folder.contents import read_metrics
from .registry import Analysis, register_figure

_LABELS = {"mAP": "validation mAP, true labels, %", "SP": "validation SP-score, observed labels, %"}
_STYLES = ("-", (0, (5, 2)), (0, (1.5, 1.5)))


class _Run(NamedTuple):
    """A run folder: its settings, and its metrics of every epoch."""

    folder: Path
    config: Config
    history: Sequence[dict[str, Any]]
    finished: bool


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
    found: list[_Run] = []
    for folder in dict.fromkeys(Path(run).resolve() for run in runs):
        path = folder / run_files.METRICS
        if not path.is_file():
            raise InputError(
                f"{folder}: holds no epochs of a run ({path.name} is missing). Train one: spml train "
                f"--output {folder}."
            )
        config, history = run_files.read_config(folder), read_metrics(folder)
        if not history or "epoch" not in history[0]:
            raise InputError(
                f"{folder}: its head was solved, not trained, so that there are no epochs to draw."
            )
        if not all(record.get("epoch", number) == number for number, record in enumerate(history, 1)):
            raise InputError(f"{path}: damaged: its epochs are not 1, 2, ... Train again.")
        found.append(_Run(folder, config, history, (folder / run_files.SUMMARY).is_file()))
    names = sorted({Path(run.config.data.path).name for run in found})
    if len(names) > 1:
        raise InputError(f"the runs are of several data sets ({', '.join(names)}): draw one figure for each")
    without = ", ".join(
        run.folder.name for run in found if not all("val/mAP" in each for each in run.history)
    )
    if metric == "mAP" and without:
        raise InputError(
            f"{without}: no true validation mAP, because the validation samples are not fully labelled: draw "
            "metric=SP"
        )
    chosen = "SP" if without or metric == "SP" else "mAP"
    notes = [f"the SP-score is drawn: {without} without true validation labels"] if without else []
    notes += [f"{run.folder}: has not finished" for run in found if not run.finished]
    figure, axes = single_panel(6.4, 3.8)
    rows: list[tuple[Any, ...]] = []
    lines = _lines(found)
    colours = colours_of(lines)
    for number, (label, group) in enumerate(lines.items()):
        # Runs may end early.
        curves = itertools.zip_longest(*(_values(run, chosen) for run in group))
        columns = [[value for value in values if value is not None] for values in curves]
        count = [len(column) for column in columns]
        mean = np.array([np.mean(column) for column in columns])
        sd = np.array([np.std(column, ddof=1) if len(column) > 1 else np.nan for column in columns])
        epoch = np.arange(1, len(mean) + 1)
        colour = colours[number]
        style = {"color": colour, "linestyle": _STYLES[number // len(COLOURS) % len(_STYLES)]}
        name = label if len(group) == 1 else f"{label} ({len(group)} runs)"
        axes.plot(epoch, 100 * mean, linewidth=1.7, label=name, **style)
        if len(group) > 1:
            low, high = (100 * (mean + sign * np.nan_to_num(sd)) for sign in (-1, 1))
            axes.fill_between(epoch, low, high, color=colour, alpha=0.18, lw=0)
        table = (epoch.tolist(), mean.tolist(), sd.tolist(), count)
        rows += [(label, *values) for values in zip(*table, strict=True)]
    if any(len(group) > 1 for group in lines.values()):
        notes.append("bands: standard deviation over runs that differ in their seeds only")
    label_axes(axes, "", "epoch", _LABELS[chosen])
    add_legend(axes)
    return Analysis.from_rows(figure, ("line", "epoch", f"val_{chosen}", "sd", "runs"), rows, notes)


def _values(run: _Run, metric: str) -> list[float]:
    """Values of a metric in all epochs; an epoch that lacks it is damage."""
    column = f"val/{metric}"
    try:
        return msgspec.convert([record.get(column) for record in run.history], list[float])
    except (ValueError, OverflowError) as error:
        path = run.folder / run_files.METRICS
        raise InputError(f"{path}: damaged: {column}: {error}. Train again.") from error


def _lines(runs: Sequence[_Run]) -> dict[str, list[_Run]]:
    """Runs by label, which is the method and the settings that set it apart from other lines of the method.

    Runs of one label differ in their seeds only.
    """
    groups: list[list[_Run]] = []
    for run in runs:
        for group in groups:
            if not _differ(group[0].config, run.config):
                group.append(run)
                break
        else:
            groups.append([run])
    lines = {}
    for group in groups:
        config = group[0].config
        others = [other[0].config for other in groups if other[0].config.method == config.method]
        apart = sorted({setting for other in others for setting in _differ(config, other)})
        # A hyper-parameter that this run leaves at its default is not in `own`: other lines name it.
        own = flat(asdict(config))
        values = {name.removeprefix("hp."): own[name] for name in apart if name in own}
        texts = [f"{k} {v:g}" if isinstance(v, float) else f"{k} {v}" for k, v in values.items()]
        lines[", ".join([config.method, *texts])] = group
    return lines


def _differ(first: Config, second: Config) -> list[str]:
    """Settings in which two runs differ, other than seeds, and what changes no number."""
    of_run = ("seed", "output", "threads", "checkpoint_steps", "record", "record_samples")
    of_data = ("path", "images", "cache", "workers", "split_seed", "observe_seed")
    neutral = replace(second, **{name: getattr(first, name) for name in of_run})
    neutral.data = replace(second.data, **{name: getattr(first.data, name) for name in of_data})
    return differences(first, neutral)
