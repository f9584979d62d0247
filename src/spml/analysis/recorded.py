"""Figures of recorded scores: densities, separation, and shares of labels that are true."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..common.errors import InputError, nearest
from ..plots.style import (
    COLOURS,
    add_legend,
    colours_of,
    cut,
    label_axes,
    new_figure,
    single_panel,
    style_axes,
)
from ..runs.fit.recording import Recording, read_recording
from ..runs.folder.contents import read_metrics
from .registry import Analysis, register_figure

Mask = npt.NDArray[np.bool_]
Values = npt.NDArray[np.float64]

RUNS_WITH_TRUTH = "runs that were trained with record=scores on samples with true labels"
EPOCHS = "epoch (0: before training)"
CURVE = {"linewidth": 1.8, "marker": "o", "markersize": 3}
"""Look of a curve over epochs."""


def read_runs(folders: Sequence[str | Path], *, truth: bool) -> tuple[dict[str, Recording], tuple[str, ...]]:
    """Read the recorded scores of several runs on the same samples.

    Args:
        folders: Folders of the runs, at least one, each once.
        truth: Whether true labels are needed. If not, they are removed even if they were recorded.

    Returns:
        The recordings, named by their methods, or by their folders if two have the same method; and notes for
        the reader of the figure.
    """
    if not folders:
        raise InputError("no run to draw: name the folder of at least one")
    recordings = [read_recording(folder) for folder in folders]
    if len({recording.folder.resolve() for recording in recordings}) < len(recordings):
        raise InputError("a run is named twice: name each once")
    if not truth:
        recordings = [replace(recording, truth=None) for recording in recordings]
    first = recordings[0]
    for recording in recordings:
        if truth and recording.truth is None:
            raise InputError(
                f"{recording.folder}: no true labels were recorded, because its samples are not fully "
                "labelled: train on fully labelled data of which labels are hidden (data.unlisted=negative "
                "data.observe=single), or draw observed-only."
            )
        for what, same in (
            ("classes", recording.classes == first.classes),
            ("samples", recording.ids == first.ids),
            ("true labels", np.array_equal(recording.truth, first.truth)),  # type: ignore[arg-type]
        ):
            if not same:
                raise InputError(
                    f"{recording.folder}: recorded other {what} than {first.folder}: a figure compares runs "
                    "on the same data, split and `record_samples`. Draw them in separate figures."
                )
    names = [recording.method for recording in recordings]
    if len({*names}) < len(names):
        names = [recording.folder.name for recording in recordings]
    if len({*names}) < len(names):
        names = [str(recording.folder) for recording in recordings]
    notes = []
    if any(not np.array_equal(recording.observed, first.observed) for recording in recordings):
        notes.append("The runs have other observed labels, so their unknown labels differ.")
    if any(recording.normalised for recording in recordings):
        notes.append(
            "A method that compares the classes of a sample gives probabilities that sum to 1 over them."
        )
    return dict(zip(names, recordings, strict=True)), tuple(notes)


def chosen_epochs(
    recordings: dict[str, Recording], epochs: Sequence[int] | Literal["best"] | None
) -> dict[str, list[int]]:
    """Epochs to draw of each run: those that are named, its best one, or the last one."""
    if epochs is not None and not epochs:
        raise InputError("no epoch to draw (`epochs`)")
    chosen = {}
    for name, recording in recordings.items():
        if epochs == "best":
            chosen[name] = [best_epoch(recording)]
        else:
            chosen[name] = [recording.epochs[-1]] if epochs is None else list(epochs)
        for epoch in chosen[name]:
            recording.check_epoch(epoch)
    return chosen


def best_epoch(recording: Recording) -> int:
    """The first epoch with the highest true validation mAP, counted from 1."""
    records = read_metrics(recording.folder)
    values = [record["val/mAP"] for record in records if isinstance(record.get("val/mAP"), float)]
    if not values or len(values) < len(records):
        raise InputError(
            f"{recording.folder}: has no true validation mAP of every epoch, so its best one is not known: "
            "name epochs (epochs=[1,2])"
        )
    return 1 + int(np.argmax(values))


def counted_labels(
    recording: Recording, *, label: str | None = None, known: bool = False
) -> tuple[Mask, Mask]:
    """Labels of a recording that a figure counts, and which labels are true; both bool (N, C).

    Counted are those of the class `label`, or of all; those that were observed count if `known`.
    """
    assert recording.truth is not None
    mask = np.ones_like(recording.truth) if known else recording.unknown
    if label is not None:
        if label not in recording.classes:
            raise InputError(
                f"{recording.folder}: has no class {label!r} (`label`). {nearest(label, recording.classes)}"
            )
        mask[:, np.arange(len(recording.classes)) != recording.classes.index(label)] = False
    for sign, there in (("positive", mask & recording.truth), ("negative", mask & ~recording.truth)):
        if not there.any():
            of_class = "" if label is None else f" of class {label!r}"
            raise InputError(
                f"{recording.folder}: none of the {'' if known else 'unknown '}labels{of_class} of its "
                f"recorded samples is truly {sign}. Hide labels when training (data.observe=single), or "
                "count observed ones, too, where a figure can (known=true)."
            )
    return mask, recording.truth


def describe_labels(label: str | None, known: bool) -> str:
    """Describe the labels that are counted, for titles."""
    return ("all" if known else "unknown") + " labels" + ("" if label is None else f" of class {label}")


def epoch_title(name: str, epoch: int) -> str:
    """Title of a panel of one epoch of a run."""
    return f"{name}, epoch {epoch}" if epoch else f"{name}, before training"


def new_panels(rows: int, columns: int) -> npt.NDArray[Any]:
    """Styled axes (rows, columns) of a new figure, which share their axes row by row."""
    figure = new_figure(max(3.2 * columns, 4.2), 2.7 * rows + 0.3)
    panels: npt.NDArray[Any] = figure.subplots(rows, columns, squeeze=False, sharey="row")
    for axes in panels.flat:
        style_axes(axes, whole=False)
    return panels


def bin_edges(bins: int) -> Values:
    """Edges of equal bins between 0 and 1, shape (bins + 1,)."""
    if bins < 1:
        raise InputError(f"the number of bins must be at least 1, got {bins}")
    return np.linspace(0, 1, bins + 1)


_NAMED = 25
"""Names of more classes than this can't be read below each other."""


@register_figure(
    "separation",
    "Wasserstein distance between the probabilities of true positives and true negatives, per epoch",
    needs=RUNS_WITH_TRUTH,
)
def separation(runs: Sequence[str | Path], *, label: str | None = None, known: bool = False) -> Analysis:
    """Draw how well each run tells the unknown labels that are truly positive from those that are not.

    Args:
        runs: Folders of runs with recorded scores, on the same samples.
        label: Class to draw; all classes together if None.
        known: Count the labels that were observed, too; fully labelled samples have no others.

    Returns:
        The figure; its table has the columns run, epoch (0 = before the first), distance, and the numbers of
        positives and negatives.

    Raises:
        InputError: A run has no recorded scores or true labels, or other samples than the first one.

    Source: Chen et al., "Boosting Single Positive Multi-label Classification with Generalized Robust Loss",
    Fig. 3a; Zhou et al., "Acknowledging the Unknown for Multi-label Learning with Single Positive Labels".
    """
    recordings, notes = read_runs(runs, truth=True)
    figure, axes = single_panel(6.4, 3.8)
    rows: list[tuple[Any, ...]] = []
    for colour, (name, recording) in zip(colours_of(recordings), recordings.items(), strict=True):
        mask, truth = counted_labels(recording, label=label, known=known)
        positive, epochs = truth[mask], recording.epochs
        distances = [wasserstein(recording.probabilities(epoch)[mask], positive) for epoch in epochs]
        axes.plot(epochs, distances, color=colour, label=name, **CURVE)
        numbers = int(positive.sum()), int((~positive).sum())
        rows += [(name, *point, *numbers) for point in zip(epochs, distances, strict=True)]
    axes.set_ylim(bottom=0)
    title = f"True positives against true negatives of {describe_labels(label, known)}"
    label_axes(axes, title, EPOCHS, "Wasserstein distance of probabilities")
    add_legend(axes)
    return Analysis.from_rows(figure, ("run", "epoch", "distance", "positives", "negatives"), rows, notes)


def wasserstein(values: npt.NDArray[Any], positive: Mask) -> float:
    """First Wasserstein distance between the distributions of positives and of negatives.

    It is the area between their cumulative distributions, which takes one sort.

    Args:
        values: Real numbers, shape (M,).
        positive: Which of them belong to the first distribution, bool (M,); some do, and some do not.
    """
    order = np.argsort(values)
    share = np.where(positive, 1 / positive.sum(), -1 / (~positive).sum())[order]
    return float(np.abs(share.cumsum()[:-1]) @ np.diff(values[order].astype(np.float64)))


@register_figure(
    "densities",
    "Densities of the probabilities of true positives and true negatives",
    needs=RUNS_WITH_TRUTH,
)
def densities(
    runs: Sequence[str | Path],
    *,
    epochs: list[int] | Literal["best"] | None = None,
    label: str | None = None,
    known: bool = False,
    together: bool = False,
    bins: int = 50,
    log: bool = True,
) -> Analysis:
    """Draw histograms of the predicted probabilities by true label: a row per epoch, a column per run.

    Args:
        runs: Folders of runs with recorded scores, on the same samples.
        epochs: Epochs to draw, 0 for the one before the first; `best` is the one of each run with the highest
            true validation mAP, as in the paper; the last one if None.
        label: Class to draw; all classes together if None.
        known: Count the labels that were observed, too; fully labelled samples have no others.
        together: Draw the positives of all runs in one column, and no negatives.
        bins: Number of bins between 0 and 1.
        log: Logarithmic density axis, because most negatives lie in few bins.

    Returns:
        The figure; its table has the columns run, epoch, truth (positive or negative), p_low, p_high, labels
        (in this bin) and density. The densities of positives, and those of negatives, integrate to 1.

    Raises:
        InputError: A run has no recorded scores or true labels, other samples than the first one, or did not
            record an epoch; or the best one is not known, for lack of true validation labels.

    Source: Chen et al., "Boosting Single Positive Multi-label Classification with Generalized Robust Loss",
    Fig. 3b-c; Zhou et al., "Acknowledging the Unknown for Multi-label Learning with Single Positive Labels";
    Li et al., "Pushing One Pair of Labels Apart Each Time in Multi-Label Learning: From Single Positive to
    Full Labels", Fig. 3.
    """
    recordings, notes = read_runs(runs, truth=True)
    chosen = chosen_epochs(recordings, epochs)
    panels = new_panels(len(next(iter(chosen.values()))), 1 if together else len(recordings))
    rows: list[tuple[Any, ...]] = []
    for column, (name, recording) in enumerate(recordings.items()):
        mask, truth = counted_labels(recording, label=label, known=known)
        positive, colour = truth[mask], colours_of(recordings)[column]
        for axes, epoch in zip(panels[:, 0 if together else column], chosen[name], strict=True):
            p, title = recording.probabilities(epoch)[mask], epoch_title(name, epoch)
            if together:
                bars = _draw_histograms(axes, {title: (p[positive], colour)}, bins, log=log)
                rows += [(name, epoch, "positive", *bar) for _, *bar in bars]
            else:
                groups = {"negative": (p[~positive], COLOURS[1]), "positive": (p[positive], COLOURS[0])}
                rows += [(name, epoch, *bar) for bar in _draw_histograms(axes, groups, bins, log=log)]
            label_axes(axes, "" if together else title, "probability p", "density")
    for axes in panels[:, 0] if together else panels[0, :1]:
        add_legend(axes, title="" if together else "truly")
    title = f"Probabilities of {'true positives among ' * together}{describe_labels(label, known)}"
    panels[0, 0].figure.suptitle(title, fontsize=10, parse_math=False)
    header = ("run", "epoch", "truth", "p_low", "p_high", "labels", "density")
    return Analysis.from_rows(panels[0, 0].figure, header, rows, notes)


@register_figure(
    "observed-only",
    "Without true labels: probabilities of observed positives against unknown labels, and expected labels",
    needs="runs that were trained with record=scores",
)
def observed_only(
    runs: Sequence[str | Path], *, epoch: int | None = None, bins: int = 50, log: bool = True
) -> Analysis:
    """Draw what can be seen without true labels; they are not used, even if they were recorded.

    Above, the densities of the probabilities of observed positives and of unknown labels. Below, for each
    class the number of samples of which it is an observed positive, and the number that is expected to have
    it: the sum of its probabilities over all samples.

    Args:
        runs: Folders of runs with recorded scores, on the same samples.
        epoch: Epoch to draw, 0 for the one before the first; the last one if None.
        bins: Number of bins between 0 and 1.
        log: Logarithmic density axis, because most unknown labels lie in few bins.

    Returns:
        The figure; its table has the columns run, epoch, quantity, name, p_low, p_high and value. `density`
        is that of the group `name` (observed positive, unknown) in a bin, and integrates to 1; `observed` and
        `expected` are labels of the class `name`.

    Raises:
        InputError: A run has no recorded scores, other samples than the first one, no observed positive or no
            unknown label.
    """
    recordings, notes = read_runs(runs, truth=False)
    chosen = chosen_epochs(recordings, None if epoch is None else [epoch])
    panels = new_panels(2, len(recordings))
    rows: list[tuple[Any, ...]] = []
    for (above, below), (name, recording) in zip(panels.T, recordings.items(), strict=True):
        (number,) = chosen[name]
        p, known = recording.probabilities(number), recording.observed == 1
        unknown = p[recording.unknown], COLOURS[1]
        groups = {"unknown": unknown, "observed positive": (p[known], COLOURS[0])}
        for group, (values, _) in groups.items():
            if not len(values):
                raise InputError(
                    f"{recording.folder}: of the labels of its recorded samples, none is {group}: record "
                    "partly labelled samples (`record_samples`)."
                )
        for group, low, high, _, density in _draw_histograms(above, groups, bins, log=log):
            rows.append((name, number, "density", group, low, high, density))
        label_axes(above, epoch_title(name, number), "probability p", "density")
        observed, expected = known.sum(axis=0), p.sum(axis=0, dtype=np.float64)
        for quantity, counts in (("observed", observed), ("expected", expected)):
            for label, count in zip(recording.classes, counts.tolist(), strict=True):
                rows.append((name, number, quantity, label, "", "", count))
        order, places = np.argsort(-observed, kind="stable"), np.arange(len(recording.classes))
        below.bar(places, observed[order], color=COLOURS[0], width=0.75, label="observed")
        below.plot(places, expected[order], "o", color=COLOURS[1], markersize=4, label="expected")
        labels = [cut(recording.classes[place]) for place in order] if len(places) <= _NAMED else []
        below.set_xticks(places[: len(labels)], labels, rotation=90, parse_math=False)
        share = expected.sum() / len(p)
        label_axes(below, f"{share:.3g} labels per sample are expected", "class", "samples with it")
    add_legend(panels[0, 0])
    add_legend(panels[1, 0])
    panels[1, 0].set_ylim(bottom=0)  # when all are drawn, because they share the axis
    notes = (
        *notes,
        "Probabilities are not calibrated: expected labels compare classes and runs, and are no true counts.",
    )
    header = ("run", "epoch", "quantity", "name", "p_low", "p_high", "value")
    return Analysis.from_rows(panels[0, 0].figure, header, rows, notes)


def _draw_histograms(
    axes: Any, groups: Mapping[str, tuple[npt.NDArray[Any], str]], bins: int, *, log: bool
) -> list[tuple[str, float, float, int, float]]:
    """Draw the densities of groups of probabilities, each in its colour, over each other.

    Returns:
        For each group and bin: the group, the edges of the bin, the number of values in it, and its density.
        The densities of a group integrate to 1.
    """
    edges = bin_edges(bins)
    bars: list[tuple[str, float, float, int, float]] = []
    for name, (values, colour) in groups.items():
        counts, _ = np.histogram(values, edges)
        density = counts * bins / len(values)
        axes.stairs(density, edges, color=colour, fill=True, alpha=0.3)
        axes.stairs(density, edges, color=colour, linewidth=1.4, label=name)
        columns = (edges[:-1], edges[1:], counts, density)
        bars += [(name, *bar) for bar in zip(*(column.tolist() for column in columns), strict=True)]
    axes.set_xlim(0, 1)
    if log:
        axes.set_yscale("log")
        axes.tick_params(which="minor", length=0)
    return bars


@register_figure(
    "posterior",
    "Share of hidden positives among unknown labels by predicted probability, before and after training",
    needs=RUNS_WITH_TRUTH,
)
def posterior(
    runs: Sequence[str | Path],
    *,
    mean_labels: float | None = None,
    label: str | None = None,
    buckets: int = 100,
) -> Analysis:
    """Draw FN / (FN + TN) among unknown labels per bucket of p, before the first and after the last epoch.

    If each label is taken as negative where it is unknown, this is the share of false negatives. The curve is
    what Eq. 6 derives from p = P(y = 1 | x): k(p) = (1 - a) p / (1 - a p), where a = P(s = 1 | y = 1) = 1 / K
    for single-positive labels.

    Args:
        runs: Folders of runs with recorded scores, on the same samples.
        mean_labels: Mean labels per sample K, at least 1; that of the true labels of the samples if None.
        label: Class to draw; all classes together if None.
        buckets: Number of buckets between 0 and 1.

    Returns:
        The figure; its table has the columns run, epoch, p_low, p_high, unknown (labels in this bucket),
        positives (of these), ratio, and k (Eq. 6 in the middle of the bucket). Buckets without labels are
        left out.

    Raises:
        InputError: A run has no recorded scores or true labels, or other samples than the first one; or K is
            less than 1.

    Source: Chen et al., "Boosting Single Positive Multi-label Classification with Generalized Robust Loss",
    Eq. 6 and Fig. 5.
    """
    recordings, notes = read_runs(runs, truth=True)
    edges = bin_edges(buckets)
    middle = (edges[:-1] + edges[1:]) / 2
    panels = new_panels(len(recordings), 2)
    rows: list[tuple[Any, ...]] = []
    for row, (name, recording) in enumerate(recordings.items()):
        mask, truth = counted_labels(recording, label=label)
        k = float(truth.sum(axis=1).mean()) if mean_labels is None else mean_labels
        if not 1 <= k < np.inf:
            found = "the mean of the recorded samples" if mean_labels is None else "given"
            raise InputError(
                f"{recording.folder}: Eq. 6 needs at least 1 label per sample on average, but {k:.3g} is "
                f"{found}: state it (`mean_labels`)."
            )
        positive = truth[mask]
        for axes, epoch in zip(panels[row], (0, recording.epochs[-1]), strict=True):
            p = recording.probabilities(epoch)[mask]
            unknown, positives = (np.histogram(part, edges)[0] for part in (p, p[positive]))
            filled = np.flatnonzero(unknown)
            ratio = positives[filled] / unknown[filled]
            dots = {"color": COLOURS[1], "alpha": 0.7, "linewidth": 0, "label": "FN / (FN + TN)"}
            axes.scatter(middle[filled], ratio, s=6 + 6 * np.log10(unknown[filled]), **dots)
            curve = selected_completely_at_random(middle, k)
            if epoch:  # before training, p does not estimate P(y = 1 | x)
                axes.plot(middle, curve, color=COLOURS[0], label=f"Eq. 6, a = 1/{k:.3g}")
            x, y = "probability p of the unknown label", "truly positive, share"
            label_axes(axes, epoch_title(name, epoch), x, y)
            axes.set_xlim(0, 1)
            axes.set_ylim(-0.03, 1.03)
            bounds = edges[filled], edges[filled + 1]
            columns = (*bounds, unknown[filled], positives[filled], ratio, curve[filled])
            rows += [(name, epoch, *values) for values in zip(*(c.tolist() for c in columns), strict=True)]
    add_legend(panels[0, 1], loc="upper left")
    source = "of the recorded samples" if mean_labels is None else "as stated"
    notes = (*notes, f"K = {k:.4g} mean labels per sample, {source}.", "A larger dot stands for more labels.")
    header = ("run", "epoch", "p_low", "p_high", "unknown", "positives", "ratio", "k")
    return Analysis.from_rows(panels[0, 0].figure, header, rows, notes)


def selected_completely_at_random(p: Values, mean_labels: float) -> Values:
    """Eq. 6: k(p) = (1 - a) p / (1 - a p) with a = 1 / K, for p < 1."""
    a = 1 / mean_labels
    return (1 - a) * p / (1 - a * p)


@register_figure(
    "pseudo-labels",
    "Positive and negative predictive value of pseudo-labels at a threshold, and their number, per epoch",
    needs=RUNS_WITH_TRUTH,
)
def pseudo_labels(
    runs: Sequence[str | Path], *, tau: float = 0.9, label: str | None = None, known: bool = False
) -> Analysis:
    """Draw PPV = TP / (TP + FP) and NPV = TN / (TN + FN) of the pseudo-labels p > tau, means over classes.

    A class without a positive pseudo-label has no PPV, and one without a negative has no NPV; it is left out
    of the mean. The share of labels above the threshold is drawn as well: where none is, the threshold does
    nothing.

    Args:
        runs: Folders of runs with recorded scores, on the same samples.
        tau: Threshold of the probability, in [0, 1]: above it a label is taken as positive, else as negative.
            The paper takes the one that the run was trained with.
        label: Class to draw; the mean over all classes if None.
        known: Count the labels that were observed, too, as for the fully labelled test samples in the paper
            (recorded with --record_samples test).

    Returns:
        The figure; its table has the columns run, epoch (0 = before the first), ppv, npv (in [0, 1], NaN if
        no class has one), ppv_classes and npv_classes, the numbers of classes in the means, and above, the
        share of the counted labels with p > tau.

    Raises:
        InputError: A run has no recorded scores or true labels, or other samples than the first one; or the
            threshold is outside its range.

    Source: Cui et al., "Leveraged Asymmetric Loss with Disambiguation for Multi-label Recognition with
    One-Positive Annotations", Fig. 2.
    """
    if not 0 <= tau <= 1:
        raise InputError(f"`tau` must be a probability in [0, 1], got {tau:g}")
    recordings, notes = read_runs(runs, truth=True)
    figure = new_figure(9.6, 3.4)
    panels = figure.subplots(1, 3, sharex=True)
    rows: list[tuple[Any, ...]] = []
    for colour, (name, recording) in zip(colours_of(recordings), recordings.items(), strict=True):
        mask, truth = counted_labels(recording, label=label, known=known)
        epochs = recording.epochs
        positive = [recording.probabilities(epoch) > tau for epoch in epochs]
        values = [(*predictive_values(each, truth, mask), float(each[mask].mean())) for each in positive]
        rows += [(name, epoch, *value) for epoch, value in zip(epochs, values, strict=True)]
        for axes, part in zip(panels, (0, 1, 4), strict=True):
            axes.plot(epochs, [100 * value[part] for value in values], color=colour, label=name, **CURVE)
    panels[2].axhline(100 * truth[mask].mean(), color="black", linewidth=1, linestyle="--", label="true")
    for axes, title, y in zip(
        panels,
        (
            f"p > {tau:g}: positive",
            f"p \N{LESS-THAN OR EQUAL TO} {tau:g}: negative",
            f"labels with p > {tau:g}",
        ),
        ("positive predictive value, %", "negative predictive value, %", "share of the labels, %"),
        strict=True,
    ):
        style_axes(axes)
        label_axes(axes, title, EPOCHS, y)
    for axes in panels:
        axes.set_ylim(top=min(axes.get_ylim()[1], 100.5))  # a share is no more than 100 %
    panels[2].set_ylim(bottom=0)
    add_legend(panels[2])
    title = f"Pseudo-labels of {describe_labels(label, known)}; predictive values: means over classes"
    figure.suptitle(title, fontsize=10, parse_math=False)
    if any(math.isnan(row[2]) for row in rows):
        notes = (*notes, f"In some epochs no label is above tau = {tau:g}, so there is no positive value.")
    header = ("run", "epoch", "ppv", "npv", "ppv_classes", "npv_classes", "above")
    return Analysis.from_rows(figure, header, rows, notes)


def predictive_values(positive: Mask, truth: Mask, mask: Mask) -> tuple[float, float, int, int]:
    """Predictive values of pseudo-labels, means over classes.

    Args:
        positive: Pseudo-labels, bool (N, C).
        truth: True labels, bool (N, C).
        mask: Labels that count, bool (N, C).

    Returns:
        PPV and NPV, NaN where no class has such a pseudo-label; and the numbers of classes in these means.
    """
    means, counts = [], []
    for given, true in ((mask & positive, truth), (mask & ~positive, ~truth)):
        of_class = given.sum(axis=0)
        some = of_class > 0
        shares = (given & true).sum(axis=0)[some] / of_class[some]
        means.append(float(shares.mean()) if some.any() else math.nan)
        counts.append(len(shares))
    return means[0], means[1], counts[0], counts[1]
