"""Dependence of mAP on a hyper-parameter, from all trials of a comparison."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from ..bench.rows import ORACLE, Pick, Row, column, picks_of_runs
from ..common.errors import InputError, missing_extra, nearest
from ..plots.style import COLOURS, add_legend, colours_of, cut, label_axes, new_figure, style_axes
from .registry import Analysis, register_figure

Value = float | str

THRESHOLD = "tau"
_OF_SERIES = ("data", "hiding")
"""Axes that are names in the specification, instead of settings."""

_NOT_AXES = {"seed", "output", "threads", "method", "data.path", "data.images", "data.cache", "data.workers",
             "data.observe_seed", "data.split_seed"}  # fmt: skip
DIGITS = 4


class Point(NamedTuple):
    """mAP of one candidate at one place, over seeds.

    Attributes:
        candidate: Its name.
        epoch: Epoch of the scores, from 1; None = the selected one.
        x: Place on the axis; empty for a candidate that is drawn for reference.
        mean: Mean over seeds.
        sd: Standard deviation; NaN for a single seed.
        seeds: Number of seeds.
    """

    candidate: str
    epoch: int | None
    x: Value
    mean: float
    sd: float
    seeds: int

    @property
    def ends(self) -> tuple[float, float]:
        """The mean less and plus the standard deviation, in percent."""
        sd = float(np.nan_to_num(self.sd))
        return 100 * (self.mean - sd), 100 * (self.mean + sd)


def points_of(
    rows: Iterable[Row], name: str, x: str | None, mode: str, score: str, epoch: int | None
) -> list[Point]:
    """One point of a candidate per place: for each seed the best trial there by the mode.

    Args:
        rows: Trials of all candidates.
        name: The candidate.
        x: Axis, as in `value_of`; None = one point for all trials.
        mode: Selection mode that picks trials, and epochs where none is stated.
        score: Which mAP is drawn, `test` or `val`.
        epoch: Epoch, from 1.
    """
    picks = picks_of_runs([row for row in rows if row.series.candidate == name], [mode])
    if not picks:
        raise InputError(f"the trials of {name!r} have no values of mode {mode!r}")
    places: dict[Value, list[Pick]] = {}
    for pick in picks:
        if epoch is not None:
            true = pick.row.history.get(column(ORACLE), [])
            if not 1 <= epoch <= len(true):
                raise InputError(
                    f"epoch {epoch}: the trials of {name!r} have true validation mAP of {len(true)} epochs"
                )
            value = pick.row.history[column(mode)][epoch - 1]
            pick = pick._replace(epoch=epoch - 1, value=value, val=true[epoch - 1])
        place = "" if x is None else value_of(pick.row, x)
        if place is not None:
            places.setdefault(place, []).append(pick)
    points = []
    for place, here in places.items():
        tasks = sorted({pick.row.series[:2] for pick in here})
        if len(tasks) > 1:
            listed = "; ".join(" / ".join(task) for task in tasks)
            raise InputError(
                f"trials of several data sets or ways of hiding labels would be mixed ({listed}): choose one "
                "with `data_set` and `hiding`, or draw over them (`x` hiding)"
            )
        best: dict[int, Pick] = {}
        for pick in here:
            before = best.setdefault(pick.row.series.seed, pick)
            if pick.value > before.value:
                best[pick.row.series.seed] = pick
        scores = [getattr(best[seed], score) for seed in sorted(best)]
        if np.isnan(scores).any():
            raise InputError("the trials have no true validation mAP: draw score=test")
        sd = float(np.std(scores, ddof=1)) if len(scores) > 1 else float("nan")
        points.append(Point(name, epoch, place, float(np.mean(scores)), sd, len(scores)))
    return points


# -- settings as axes ------------------------------------------------------------------------------------


def value_of(row: Row, axis: str) -> Value | None:
    """Value of a trial along an axis; None if the trial has no such setting.

    Args:
        row: The trial.
        axis: A setting such as `hp.sigma` or `optim.lr`; of a hyper-parameter on a schedule [start, end] the
            end counts. `data` and `hiding` are the names in the specification, and `tau` is -b / w, where
            k(p) = sigmoid(w p + b) passes 1/2 at the end of the schedules `hp.w` and `hp.b`.
    """
    if axis in _OF_SERIES:
        return str(getattr(row.series, axis))
    if axis == THRESHOLD:
        w, b = value_of(row, "hp.w"), value_of(row, "hp.b")
        if not isinstance(w, float) or not isinstance(b, float) or w == 0:
            return None
        return float(f"{-b / w:.{DIGITS}g}")
    part = row.settings.get(axis)
    if isinstance(part, list) and len(part) == 2:
        part = part[1]
    if part is None or isinstance(part, (Mapping, list)):
        return None
    return float(part) if isinstance(part, (int, float)) and not isinstance(part, bool) else str(part)


def axes_of(rows: Iterable[Row]) -> list[str]:
    """Axes along which trials differ, in alphabetical order."""
    rows = list(rows)
    names = {name for row in rows for name in row.settings} | {*_OF_SERIES, THRESHOLD}
    values = {name: {value_of(row, name) for row in rows} - {None} for name in names - _NOT_AXES}
    return sorted(name for name, found in values.items() if len(found) > 1)


_FAR = 5.0
"""Where the largest number is further from the median than by this factor, the axis is logarithmic."""

_COLLAPSED = 0.1
"""An mAP that is further than this below the median, and than three times what the best is above it, would
leave no room for the others, so that the axis ends above it."""

_NAMES = {
    THRESHOLD: "threshold tau = -b / w of k in the last epoch",
    "hp.weight_pos": "lambda+ (weight of pseudo-positives)",
    "hp.consistency": "alpha (weight of the consistency)",
    "hp.rank_weight": "lambda (weight of the high-rank term)",
    "optim.lr": "learning rate",
    "hiding": "observed labels",
}
"""Names of settings in the papers."""

_TICKS = 12
"""More numbers than this, as from a random search, are not written below the axis one by one."""


@register_figure(
    "sensitivity",
    "mAP over a hyper-parameter",
    needs="folders (or store URLs) of comparisons made by `spml bench run`",
)
def sensitivity(
    stores: Sequence[str | Path],
    *,
    x: str,
    candidates: list[str] | None = None,
    references: list[str] | None = None,
    mode: str = "oracle",
    score: Literal["test", "val"] = "test",
    epochs: list[int] | None = None,
    data_set: str | None = None,
    hiding: str | None = None,
) -> Analysis:
    """Draw mAP over one setting as lines with error bars, each candidate by itself.

    Values that are names, such as ways of hiding labels, are not joined by lines. Over numbers, an mAP that
    has collapsed is not on the axis: an arrow and its value stand for it.

    Every trial of the stores counts, whether a mode would select it or not. Where trials of a candidate and
    a seed differ in settings other than the axis, the best by `mode` is drawn. Error bars are the standard
    deviation over seeds.

    Args:
        stores: Folders of comparisons, or URLs of their stores.
        x: Setting along the horizontal axis, such as `hp.sigma`, `optim.lr` or `data.observe_share`; of a
            hyper-parameter on a schedule, its end. `data` and `hiding` are the names in the specification.
            `tau` is -b / w, the threshold of k at the end of training.
        candidates: Candidates to draw, such as `[gr]`; all for which the axis varies if None.
        references: Candidates whose best trial is drawn as a line for comparison, such as `[an,em]`.
        mode: Selection mode that picks epochs and trials: `oracle`, `observed` or `audit:N`.
        score: mAP on `test` or fully labelled `val` samples.
        epochs: Draw a panel for each of these epochs, counted from 1, instead of the selected one. Validation
            mAP is drawn, because test mAP is kept for selected epochs only.
        data_set: Data set, if the stores hold several.
        hiding: Way of hiding labels, if the stores hold several.

    Returns:
        The figure; its table has one row per candidate, epoch and place, with mean and standard deviation of
        mAP over seeds.

    Raises:
        InputError: A store does not exist or lacks an axis, candidate, mode or epoch; or trials of several
            data sets would be mixed.

    Source: Chen et al., "Boosting Single Positive Multi-label Classification with Generalized Robust Loss",
    Fig. 2; Cui et al., "Leveraged Asymmetric Loss with Disambiguation", Fig. 1; Li et al., "Pushing One Pair
    of Labels Apart Each Time in Multi-Label Learning", Fig. 5 and 6.
    """
    try:
        from ..bench.store import find_store
    except ImportError as error:
        raise missing_extra("sqlalchemy", "bench") from error

    newest = [rows[0] for store in stores for rows in find_store(store).find().values()]
    rows = sorted(
        (row for row in newest if row.status == "done"), key=lambda row: (row.series, row.trial, row.key)
    )
    if not rows:
        raise InputError(f"{', '.join(map(str, stores))}: no run is finished. Use spml bench run first.")
    failed = len(newest) - len(rows)
    for option, part, wanted in (("data_set", "data", data_set), ("hiding", "hiding", hiding)):
        known = sorted({getattr(row.series, part) for row in rows})
        if wanted is not None and wanted not in known:
            raise InputError(f"{option} {wanted!r}: the comparison has {', '.join(map(repr, known))}")
        rows = [row for row in rows if wanted in (None, getattr(row.series, part))]

    # Candidates to draw: the stated ones, or those along whose trials the axis varies.
    stated, compared = candidates or [], references or []
    names = sorted({row.series.candidate for row in rows})
    for name in [*stated, *compared]:
        if name not in names:
            raise InputError(f"the comparison has no candidate {name!r}. {nearest(name, names)}")
    axes = {
        name: axes_of(row for row in rows if row.series.candidate == name)
        for name in stated or [name for name in names if name not in compared]
    }
    named = [name for name in axes if x in axes[name]]
    missing = [name for name in stated if name not in named]
    if not named or missing:
        of = f" for candidate {missing[0]!r}" if missing else ""
        differ = axes[missing[0]] if missing else sorted({axis for each in axes.values() for axis in each})
        raise InputError(
            f"no trials that differ in {x}{of}. Settings that differ: {', '.join(differ) or 'none'}. Search "
            "others with `space` in a specification (spml bench run)."
        )

    drawn = "val" if epochs else score
    shown: list[int | None] = [*epochs] if epochs else [None]
    points, lines = (
        [
            each
            for name in some
            for epoch in shown
            for each in points_of(rows, name, along, mode, drawn, epoch)
        ]
        for some, along in ((named, x), (compared, None))
    )
    notes = ["error bars and bands: standard deviation over seeds"]
    if epochs and score == "test":
        notes.append("validation mAP is drawn, because test mAP is kept for selected epochs only")
    for name in named:
        rest = {*axes[name]} - {x, *_OF_SERIES}
        if x == THRESHOLD:
            rest -= {"hp.w", "hp.b"}
        if x in ("hp.w", "hp.b"):
            rest -= {THRESHOLD}
        if x in _OF_SERIES:
            rest = {axis for axis in rest if not axis.startswith(("data.", "model."))}
        if rest:
            notes.append(f"{name}: best by {mode} over {', '.join(sorted(rest))}")
    if failed:
        notes.append(f"{failed} failed trials are left out")
    table = [
        (each.candidate, kind, *([each.epoch] if epochs else []), *each[2:])
        for kind, some in (("point", points), ("reference", lines))
        for each in some
    ]
    columns = ["candidate", "kind", *(["epoch"] if epochs else []), x, f"{drawn}_mAP", "sd", "seeds"]

    values = in_order(point.x for point in points)
    figure = new_figure(1.8 + max(4.8, 3.4 * len(shown)), 3.6)
    panels = figure.subplots(1, len(shown), squeeze=False)[0]
    quantity = f"{'validation' if drawn == 'val' else 'test'} mAP, %"
    for panel, epoch in zip(panels, shown, strict=True):
        style_axes(panel, whole=False)
        own, across = ([point for point in some if point.epoch == epoch] for some in (points, lines))
        _draw_panel(panel, own, across, named, values)
        title = "" if epoch is None else f"epoch {epoch}"
        label_axes(panel, title, name_of(x), quantity if panel is panels[0] else "")
    # Lines with error bars come last in matplotlib's order, here they are first.
    handles, _ = panels[-1].get_legend_handles_labels()
    handles.sort(key=lambda handle: not hasattr(handle, "has_yerr"))
    add_legend(panels[-1], handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1.02))
    return Analysis.from_rows(figure, columns, table, notes)


def in_order(values: Iterable[Value]) -> list[Value]:
    """Numbers by size, then names, in which numbers count by size as well (9 % before 10 %)."""

    def key(value: Value) -> tuple[Any, ...]:
        if isinstance(value, float):
            return (0, value)
        return (1, [(0, float(part), "") if part.isdigit() else (1, 0.0, part)
                    for part in re.split(r"(\d+)", value) if part])  # fmt: skip

    return sorted(set(values), key=key)


def name_of(axis: str) -> str:
    """An axis as a label, as the papers name it."""
    return _NAMES.get(axis, axis.removeprefix("hp."))


def text_of(value: Value) -> str:
    """A value as a label."""
    return f"{value:.{DIGITS}g}" if isinstance(value, float) else value


def lowest_shown(means: Sequence[float]) -> float:
    """The lowest mAP that has not collapsed, of at least one."""
    median = float(np.median(means))
    limit = median - max(_COLLAPSED, 3 * (max(means) - median))
    return min(mean for mean in means if mean >= limit)


def _draw_panel(
    axes: Any, points: Sequence[Point], lines: Sequence[Point], named: Sequence[str], values: Sequence[Value]
) -> None:
    """A line per candidate, and one across the panel per reference; collapsed ones are marked by arrows."""
    scaled = all(isinstance(value, float) for value in values)
    where = _place(axes, values)
    lowest = lowest_shown([point.mean for point in [*points, *lines]]) if scaled else 0.0
    collapsed: list[Value] = []

    def mark(point: Point, place: float, transform: Any, colour: str) -> None:
        axes.annotate(
            f"{100 * point.mean:.1f}",
            (place, 0),
            xycoords=transform,
            xytext=(28 * collapsed.count(point.x), 20),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            color=colour,
            arrowprops={"arrowstyle": "-|>", "color": colour},
        )
        collapsed.append(point.x)

    colours = colours_of([*(line.candidate for line in lines), *named])  # settings take what methods leave
    for number, name in enumerate(named):
        own = [point for point in points if point.candidate == name]
        own.sort(key=lambda point: where[point.x])
        aside = 0.0 if scaled else 0.12 * (number - (len(named) - 1) / 2)
        colour = colours[len(lines) + number]
        axes.errorbar(
            [where[point.x] + aside for point in own],
            [100 * point.mean for point in own],
            yerr=[100 * float(np.nan_to_num(point.sd)) for point in own],
            color=colour,
            marker="osD^v"[number // len(COLOURS) % 5],
            linestyle="-" if scaled else "none",
            linewidth=1.6,
            markersize=4,
            capsize=2.5,
            label=cut(name, 30),
        )
        for point in own:
            if point.mean < lowest:
                mark(point, where[point.x], axes.get_xaxis_transform(), colour)
    for number, line in enumerate(lines):
        colour = colours[number]
        axes.axhspan(*line.ends, color=colour, alpha=0.12, linewidth=0)
        axes.axhline(
            100 * line.mean,
            color=colour,
            linewidth=1.3,
            linestyle=((0, (5, 2)), (0, (1.5, 1.5)))[number % 2],
            label=f"{cut(line.candidate, 30)} (reference)",
        )
        if line.mean < lowest:
            mark(line, 0.06, "axes fraction", colour)
    shown = [point for point in [*points, *lines] if point.mean >= lowest]
    bottom, top = min(point.ends[0] for point in shown), max(point.ends[1] for point in shown)
    margin = 0.06 * (top - bottom) or 1
    axes.set_ylim(bottom - (3 if collapsed else 1) * margin, top + margin)  # room for arrows


def _place(axes: Any, values: Sequence[Value]) -> dict[Value, float]:
    """Positions of values on the horizontal axis, which gets its scale and ticks."""
    numbers = [value for value in values if isinstance(value, float)]
    if len(numbers) < len(values):
        axes.set_xticks(range(len(values)), [text_of(value) for value in values])
        return {value: float(position) for position, value in enumerate(values)}
    positive = sorted(number for number in numbers if number > 0)
    if positive and min(numbers) >= 0 and max(positive) > _FAR * positive[(len(positive) - 1) // 2]:
        if min(numbers) > 0:
            axes.set_xscale("log")
        else:
            axes.set_xscale("symlog", linthresh=min(positive))
    if len(numbers) <= _TICKS:
        axes.set_xticks(numbers, [text_of(number) for number in numbers])
        axes.minorticks_off()
    return {number: number for number in numbers}
