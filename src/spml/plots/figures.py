"""Figures of a run and of the demo, as PNG files. Colours are told apart by colour-blind readers too."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..files import write_with

# Okabe and Ito's palette, without yellow, which is too light for lines and text.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
RIGHT, WRONG, MISSED, GIVEN = "#00795A", "#C44601", "#757575", "#0067A3"
_NAMES = {"train/loss": "training loss", "val/SP": "validation SP-score, %", "val/mAP": "validation mAP, %"}
_GRID = "#DDDDDD"
_MOST_LINES = 7


def learning_curves(
    path: Path, history: Sequence[Mapping[str, Any]], *, metric: str, best_epoch: int
) -> None:
    """Training loss, the validation metric that selects, and, if known, the true mAP, per epoch.

    Args:
        path: PNG to write.
        history: one record per epoch: `epoch` (from 1), `train/loss`, `metric`, perhaps `val/mAP`.
        metric: name of the metric by which the epoch was selected, in [0, 1].
        best_epoch: the selected epoch.

    Raises:
        SpmlError: the file could not be written.
    """
    epochs = [record["epoch"] for record in history]
    keys = ["train/loss", metric]
    _curves(path, history, epochs, epochs.index(best_epoch), keys, ("epoch", f"epoch {best_epoch}"))


def penalty_curves(path: Path, history: Sequence[Mapping[str, Any]], *, metric: str, best: int) -> None:
    """The validation metric that selects and, if known, the true mAP, for each penalty of a head in closed
    form.

    Args:
        path: PNG to write.
        history: one record per penalty: `penalty` (a number or `infinity`), `metric`, perhaps `val/mAP`.
        metric: name of the metric by which the penalty was selected, in [0, 1].
        best: position of the selected record.

    Raises:
        SpmlError: the file could not be written.
    """
    names = [_short_penalty(record["penalty"]) for record in history]
    places = list(range(len(history)))
    _curves(path, history, places, best, [metric], ("penalty", f"penalty {names[best]}"), names)


def _short_penalty(penalty: float | str) -> str:
    return "\N{INFINITY}" if penalty == "infinity" else f"{penalty:.3g}"


def _curves(
    path: Path,
    history: Sequence[Mapping[str, Any]],
    places: Sequence[int],
    best: int,
    keys: list[str],
    what: tuple[str, str],
    names: Sequence[str] = (),
) -> None:
    """One panel per key; `what` names the horizontal axis and the record at `best`, `names` its ticks."""
    metric = keys[-1]
    if metric != "val/mAP" and "val/mAP" in history[0]:
        keys = [*keys, "val/mAP"]
    figure = new_figure(3.4 * len(keys), 2.9)
    for key, axes in zip(keys, figure.subplots(1, len(keys), squeeze=False)[0], strict=True):
        loss = key == "train/loss"
        values = [(1 if loss else 100) * record[key] for record in history]
        x, y = places[best], values[best]
        style_axes(axes)
        axes.axvline(x, color=MISSED, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.plot(places, values, color=COLOURS[0], linewidth=1.8, marker="o", markersize=3.2)
        axes.plot([x], [y], marker="o", markersize=8, color=COLOURS[1], markeredgecolor="white")
        axes.annotate(
            f"{y:.3g}" if loss else f"{y:.2f}",
            (x, y),
            xytext=(0, 9 if loss else -9),
            textcoords="offset points",
            ha="left" if best == 0 < len(places) - 1 else "center",  # not over the ticks' labels
            va="bottom" if loss else "top",
            color=COLOURS[1],
            fontweight="bold",
            fontsize=9,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )
        axes.set_xlim(places[0] - 0.5, places[-1] + 0.5)
        axes.margins(y=0.12)
        role = {"train/loss": "", metric: f" (selects {what[1]})"}.get(key, " (only shown)")
        axes.set_title(_NAMES.get(key, key) + role, fontsize=9.5, loc="left")
        axes.set_xlabel(what[0], fontsize=9)
        if names:
            axes.set_xticks(places[::2], names[::2])
    figure.get_layout_engine().set(wspace=0.06)
    save(figure, path)


def compare_curves(path: Path, curves: Mapping[str, Sequence[tuple[float, float]]], *, ylabel: str) -> None:
    """One line per method with a band of one standard deviation, named at its right end.

    Args:
        path: PNG to write.
        curves: for each method, (mean, standard deviation) per epoch, in [0, 1]; drawn in percent.
        ylabel: what is drawn.

    Raises:
        SpmlError: the file could not be written.
    """
    figure = new_figure(7.2, 4.2)
    axes = figure.subplots()
    style_axes(axes)
    ends = {}
    for number, (label, points) in enumerate(curves.items()):
        mean, deviation = 100 * np.asarray(points, np.float64).T
        epochs = np.arange(1, len(mean) + 1)
        colour = COLOURS[number % len(COLOURS)]
        style = ("-", "--", ":")[number // len(COLOURS) % 3]
        axes.fill_between(epochs, mean - deviation, mean + deviation, color=colour, alpha=0.15, linewidth=0)
        axes.plot(epochs, mean, style, color=colour, linewidth=2)
        ends[label] = (len(mean), mean[-1], colour)
    axes.margins(x=0)
    axes.set_xlabel("epoch")
    axes.set_ylabel(f"{ylabel}, %")
    low, high = axes.get_ylim()
    places = _apart([value for _, value, _ in ends.values()], 0.055 * (high - low))
    for (label, (last, value, colour)), place in zip(ends.items(), places, strict=True):
        axes.annotate(
            f"{label}  {value:.1f}",
            (last, place),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            fontweight="bold",
            fontsize=9,
            annotation_clip=False,
            parse_math=False,
        )
    save(figure, path)


def tie_set(path: Path, candidates: Sequence[Mapping[str, Any]]) -> None:
    """SP-scores of compared models with their intervals, the highest at the top; the tie set is filled.

    Args:
        path: PNG to write.
        candidates: for each model `run` (its name), `SP` and `SP_interval` (low, high) in [0, 1], and
            `in_tie_set`.

    Raises:
        SpmlError: the file could not be written.
    """
    ordered = sorted(candidates, key=lambda candidate: candidate["SP"])
    figure = new_figure(7.2, 1.0 + 0.26 * len(ordered))
    axes = figure.subplots()
    style_axes(axes)
    axes.grid(axis="x", color=_GRID, linewidth=0.7)
    axes.grid(visible=False, axis="y")
    for place, candidate in enumerate(ordered):
        tied = candidate["in_tie_set"]
        colour = COLOURS[0] if tied else MISSED
        low, high = (100 * end for end in candidate["SP_interval"])
        axes.plot([low, high], [place, place], color=colour, linewidth=1.8)
        axes.plot(
            [100 * candidate["SP"]],
            [place],
            marker="o",
            markersize=7,
            color=colour if tied else "white",
            markeredgecolor=colour,
        )
    axes.set_ylim(-0.6, len(ordered) - 0.4)
    axes.set_yticks(range(len(ordered)))
    for label in axes.set_yticklabels([_cut_start(candidate["run"]) for candidate in ordered]):
        label.set_parse_math(False)
    axes.set_xlabel("SP-score, % (not mAP), and its 95 % interval", fontsize=9)
    axes.set_title("Filled: the tie set, not to be told from the best", fontsize=9.5, loc="left")
    save(figure, path)


def example_sheet(
    path: Path,
    images: npt.NDArray[np.uint8],
    observed: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    truth: Sequence[Sequence[str]] | None,
) -> None:
    """Samples with the observed labels, what is predicted and, if known, whether it is right.

    Args:
        path: PNG to write.
        images: (n, channels, H, W), grey or RGB; n at least 1.
        observed: known positive labels of each sample.
        predicted: predicted labels of each sample.
        truth: true labels of each sample, if they are known.

    Raises:
        SpmlError: the file could not be written.
    """
    count = len(images)
    cells = [_lines(observed[i], predicted[i], None if truth is None else truth[i]) for i in range(count)]
    columns = min(max(count, 4), 6)  # four, so that the legend has room
    side, line, gap, top = 1.5, 0.165, 0.14, 0.42  # inches
    heights = [
        side + line * max(map(len, cells[first : first + columns])) + 0.22
        for first in range(0, count, columns)
    ]
    figure = new_figure(columns * (side + gap) + gap, sum(heights) + top)
    width, whole = figure.get_size_inches()
    figure.set_layout_engine("none")
    _legend(figure, gap / width, 1 - 0.2 / whole, truth is not None)
    for number, (image, cell) in enumerate(zip(images, cells, strict=True)):
        row, column = divmod(number, columns)
        x, y = gap + column * (side + gap), whole - top - sum(heights[:row])
        axes = figure.add_axes((x / width, (y - side) / whole, side / width, side / whole))
        axes.set_axis_off()
        pixels = image.transpose(1, 2, 0)
        axes.imshow(
            pixels[..., 0] if pixels.shape[2] == 1 else pixels,
            cmap="gray",
            vmin=0,
            vmax=255,
            interpolation="nearest" if image.shape[2] < 100 else "antialiased",
        )
        for place, (text, colour, weight) in enumerate(cell):
            figure.text(
                x / width,
                (y - side - 0.05 - line * place) / whole,
                text,
                color=colour,
                weight=weight,
                fontsize=8.5,
                va="top",
                parse_math=False,
            )
    save(figure, path)


def _legend(figure: Any, x: float, y: float, truth: bool) -> None:
    entries = [("observed label", GIVEN, "bold"), ("\N{BULLET} predicted", "black", "normal")]
    if truth:
        entries[1:] = [
            ("\N{CHECK MARK} predicted, true", RIGHT, "normal"),
            ("\N{BALLOT X} predicted, not true", WRONG, "normal"),
            ("\N{EN DASH} missed", MISSED, "normal"),
        ]
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    before: Any = "axes fraction"
    for text, colour, weight in entries:
        # Each entry starts where the one before it ends.
        first = before == "axes fraction"
        before = axes.annotate(
            text,
            (x, y) if first else (1, 0.5),
            xycoords=before,
            xytext=(0 if first else 16, 0),
            textcoords="offset points",
            color=colour,
            weight=weight,
            fontsize=9.5,
            va="center",
        )


def _lines(
    observed: Sequence[str], predicted: Sequence[str], truth: Sequence[str] | None
) -> list[tuple[str, str, str]]:
    """(text, colour, weight) of the lines under a sample; lines that would be too many are counted."""
    lines = [(cut(name), GIVEN, "bold") for name in observed] or [("no observed label", GIVEN, "normal")]
    if truth is None:
        lines += [(f"\N{BULLET} {cut(name)}", "black", "normal") for name in predicted]
    else:
        known = set(truth)
        lines += [(f"\N{CHECK MARK} {cut(n)}", RIGHT, "normal") for n in predicted if n in known]
        lines += [(f"\N{BALLOT X} {cut(n)}", WRONG, "normal") for n in predicted if n not in known]
        lines += [(f"\N{EN DASH} {cut(n)}", MISSED, "normal") for n in truth if n not in set(predicted)]
    if len(lines) > _MOST_LINES:
        left = len(lines) - _MOST_LINES + 1
        lines[_MOST_LINES - 1 :] = [(f"... {left} more", MISSED, "normal")]
    return lines


def cut(name: str, most: int = 20) -> str:
    """A name, shortened to `most` characters."""
    return name if len(name) <= most else name[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"


def _cut_start(name: str, most: int = 40) -> str:
    return name if len(name) <= most else "\N{HORIZONTAL ELLIPSIS}" + name[1 - most :]


def _apart(values: Sequence[float], least: float) -> list[float]:
    """The values, moved so that neighbours differ by at least `least`; their order stays."""
    order = np.argsort(values, kind="stable")
    placed = np.array(values, np.float64)[order]
    groups = [[value] for value in placed]
    # Neighbours that are too close become one group, spread evenly around its mean.
    place = 0
    while place + 1 < len(groups):
        here, after = groups[place], groups[place + 1]
        reach = least * (len(here) + len(after)) / 2
        if np.mean(after) - np.mean(here) < reach:
            groups[place : place + 2] = [here + after]
            place = max(place - 1, 0)
        else:
            place += 1
    spread = np.concatenate([np.mean(g) + least * (np.arange(len(g)) - (len(g) - 1) / 2) for g in groups])
    result = np.empty(len(values))
    result[order] = spread
    return [float(value) for value in result]


def new_figure(width: float, height: float) -> Any:
    """An empty figure, in inches."""
    from matplotlib.figure import Figure

    return Figure((width, height), dpi=150, layout="constrained", facecolor="white")


def style_axes(axes: Any) -> None:
    """Whole numbers below, and no more lines than needed."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.grid(axis="y", color=_GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8.5, length=0)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")


def save(figure: Any, path: Path) -> None:
    """Write a figure as PNG, whole or not at all."""
    with warnings.catch_warnings():
        # Names in scripts that the font lacks become boxes; nothing else is worth a line on the terminal.
        warnings.simplefilter("ignore", UserWarning)
        # Without matplotlib's version in the file, equal figures are equal files.
        write_with(path, lambda stream: figure.savefig(stream, format="png", metadata={"Software": None}))
