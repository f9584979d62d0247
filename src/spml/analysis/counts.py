"""Observed and hidden positives of each class, and the statistics of data sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from ..common.errors import InputError
from ..config import DataConfig
from ..data import start_opening
from ..data.inspection import LabelMeans, PositiveCounts, count_positives, label_means
from ..plots.style import COLOURS, add_legend, cut, label_axes, new_figure, style_axes
from .registry import Analysis, register_figure

MAX_BARS = 100  # of more classes, areas under sorted curves are drawn
_MAX_NAMES = 30  # more names would overlap
_COLUMNS = 2  # panels side by side
_OBSERVED, _WRONG, _HIDDEN = COLOURS[0], COLOURS[1], COLOURS[4]

_STATISTICS = {
    "positives": "positives\nper sample",
    "negatives": "negatives\nper sample",
    "observed_positives": "observed\npositives",
    "hidden_positives": "hidden\npositives",
}


class _Counted(NamedTuple):
    """A data set under its name in the figure, and its counts."""

    name: str
    classes: Sequence[str]
    counts: PositiveCounts  # of the split that is drawn
    means: dict[str, LabelMeans]  # of every split
    order: list[int]  # classes from the most to the least frequent one


@register_figure(
    "counts",
    "Observed and hidden positives of each class, and statistics of data sets",
    needs="data, as for `spml train`; hidden positives are counted where all true labels are known",
)
def counts(
    paths: Sequence[str],
    *,
    split: Literal["train", "val", "test"] = "train",
    data: DataConfig | None = None,
) -> Analysis:
    """Draw the observed and the hidden positives of each class, one panel per data set, and a table of means.

    Bars are stacked: observed and hidden positives together are the samples that have the class, and wrong
    positives come on top. The dashed line is the number of all samples. Classes are sorted; more than 100 are
    drawn as areas. Images are not read.

    Args:
        paths: Data, as for `spml train`.
        split: Split whose labels are counted, after holding out as for training.
        data: Settings of the data other than its path, such as which labels are hidden.

    Returns:
        The figure; its table has the columns data, split, class, quantity and value. Rows without a class are
        the statistics of a split: samples, and mean labels per sample.

    Raises:
        InputError: Data can't be read or trained on, has no such split, or settings do not suit it.

    Source: Chen et al., "Boosting Single Positive Multi-label Classification with Generalized Robust Loss",
    Fig. 4 and Table 5.
    """
    config = data or DataConfig()
    if config.path:
        raise InputError(f"data.path={config.path}: name the data itself instead, before the options")
    opened = [start_opening(replace(config, path=str(path))).finish_unread() for path in paths]
    names = [data.name for data in opened]
    if len({*names}) < len(names):
        names = [str(path) for path in paths]
    counted: list[_Counted] = []
    rows: list[tuple[str, str, str, str, float]] = []
    notes: list[str] = []
    for path, name, dataset in zip(paths, names, opened, strict=True):
        if split not in dataset.splits:
            raise InputError(f"{path}: has no {split} split; there are {', '.join(dataset.splits)}.")
        positives = count_positives(dataset.splits[split].observed, dataset.truth.get(split))
        means = label_means(dataset)
        total = positives.observed
        if positives.hidden is not None and positives.wrong is not None:
            total = total + positives.hidden - positives.wrong
        order = np.argsort(-total, kind="stable").tolist()
        counted.append(_Counted(name, dataset.classes, positives, means, order))
        for kind, numbers in positives._asdict().items():
            for column in order if numbers is not None else ():
                rows.append((name, split, dataset.classes[column], f"{kind} positives", int(numbers[column])))
        for part, values in means.items():
            for kind, value in asdict(values).items():
                if value is not None:
                    quantity = kind if kind == "samples" else f"mean {kind.replace('_', ' ')}"
                    rows.append((name, part, "", quantity, value))
        notes += [note if note.startswith(name) else f"{name}: {note}" for note in dataset.notes]
        if positives.hidden is None:
            notes.append(
                f"{name}: the true labels are not known, so only observed positives are drawn. If every "
                "true label is listed, pass data.unlisted=negative."
            )
        elif not positives.hidden.any():
            notes.append(
                f"{name}: no positive is hidden in {split}. Pass data.observe=single (protocol for a "
                "benchmark) to see which would be."
            )

    columns = min(_COLUMNS, len(counted))
    lines = -(-len(counted) // columns)
    table_height = 0.6 + 0.3 * len(counted)
    figure = new_figure(max(6.6, 5.2 * columns), 3.6 * lines + table_height)
    grid = figure.add_gridspec(lines + 1, columns, height_ratios=[*[3.6] * lines, table_height])
    for number, one in enumerate(counted):
        _panel(figure.add_subplot(grid[divmod(number, columns)]), one, split)
    _statistics(figure.add_subplot(grid[lines, :]), counted, split)
    return Analysis.from_rows(figure, ("data", "split", "class", "quantity", "value"), rows, notes)


def _panel(axes: Any, one: _Counted, split: str) -> None:
    classes, samples = len(one.order), one.means[split].samples
    style_axes(axes)
    ranks = np.arange(1, classes + 1)
    base, handles = np.zeros(classes), []
    counts, hidden, wrong = one.counts.observed, one.counts.hidden, one.counts.wrong
    layers = [("observed positives", _OBSERVED, counts if wrong is None else counts - wrong)]
    if hidden is not None:
        layers.append(("hidden positives", _HIDDEN, hidden))
    if wrong is not None and wrong.any():
        layers.append(("wrong positives", _WRONG, wrong))
    for label, colour, numbers in layers:
        top = base + numbers[one.order]
        if classes <= MAX_BARS:
            handles.append(axes.bar(ranks, top - base, 0.85, base, color=colour, label=label))
        else:
            steps = (np.append(values, values[-1]) for values in (base, top))
            style = {"step": "post", "linewidth": 0, "color": colour, "label": label}
            handles.append(axes.fill_between(np.arange(classes + 1) + 0.5, *steps, **style))
        base = top
    label = f"all {samples:,} samples"
    handles.append(axes.axhline(samples, color="black", linestyle="--", linewidth=1, label=label))
    axes.set_xlim(0.4, classes + 0.6)
    axes.set_ylim(0, samples * 1.06)
    x = f"{classes:,} classes, the most frequent first"
    if classes <= _MAX_NAMES:
        x = "class"
        names = [cut(one.classes[column], 18) for column in one.order]
        turned = {"rotation": 60, "ha": "right", "rotation_mode": "anchor"}
        axes.set_xticks(ranks, names, fontsize=7.5, parse_math=False, **turned)
    label_axes(axes, f"{one.name}, {split}", x, "samples with the class")
    add_legend(axes, handles=handles, loc="upper right", bbox_to_anchor=(1, 0.93))


def _statistics(axes: Any, counted: Sequence[_Counted], split: str) -> None:
    axes.set_axis_off()
    rows = []
    for one in counted:
        parts = [one.means.get(name) for name in ("train", "val", "test")]
        sizes = ["-" if part is None else f"{part.samples:,}" for part in parts]
        values = asdict(one.means[split])
        means = ["unknown" if values[name] is None else f"{values[name]:.2f}" for name in _STATISTICS]
        rows.append([cut(one.name, 22), f"{len(one.order):,}", *sizes, *means])
    header = ["data", "classes", "train\nsamples", "val\nsamples", "test\nsamples", *_STATISTICS.values()]
    widths = [0.16, 0.08, 0.1, 0.1, 0.1, *[0.115] * len(_STATISTICS)]
    table = axes.table(rows, colLabels=header, colWidths=widths, loc="center", edges="horizontal")
    table.auto_set_font_size(False)
    table.set_fontsize(7.5)
    for (row, column), cell in table.get_celld().items():
        cell.set_height((0.45 if row == 0 else 0.26) / (0.6 + 0.3 * len(counted)))
        cell.set_linewidth(0.5)
        cell.set_text_props(ha="right" if column else "left", parse_math=False)
        cell.PAD = 0.05
