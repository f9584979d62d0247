"""Write the report of a run, at the end of the training and again where what it shows has changed."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from ...common.errors import InputError, escaped
from ...common.files import write_text
from ...common.messages import log
from ...common.phrases import counted, one_per_cause, shorten
from ...config import AUTO
from ...data import Samples
from ...decisions import ClassCut
from ...methods.registry import methods
from ...metrics import FEWEST_SHOWN, shown_score
from ..folder import layout as run_files
from ..folder.contents import read_document
from ..folder.held_out import HeldOut, read_held_out
from ..headline import Headline, headline, scored_in_turn
from ..predict.batches import Engine
from ..run import Run
from .samples import MOST_SHOWN, choose_samples, data_address, read_photos, reopened

MOST_ROWS = 1000
"""Most classes in the table."""

MOST_TOGETHER = 12
"""Most labels in the table of those that are predicted together."""

_ROWS_TOGETHER = 20_000  # held-out samples that it counts

_LARGEST = 4 << 20  # bytes of a picture; those of this package have a twentieth


class _F1(msgspec.Struct):
    f1: float


class _Averages(msgspec.Struct):
    micro: _F1
    macro: _F1


class _Evaluation(msgspec.Struct):
    """The parts of evaluation.json, where labels are full, that a report shows."""

    data: str
    split: str
    samples: int
    mAP: float
    thresholded: _Averages


class _Interval(msgspec.Struct):
    value: float
    low: float
    high: float


class _Audited(msgspec.Struct):
    """The parts of audited.json that a report shows."""

    samples: int
    mean_labels: _Interval


def write_report(run: Run, parts: Iterable[Samples], engine: Engine, *, remarks: Sequence[str] = ()) -> None:
    """Write report.html to the folder of a finished run, from the files there.

    Args:
        run: The run.
        parts: Splits of its training data; samples that are missing there are shown by their names.
        engine: Settings of prediction, by which windows are found.
        remarks: What the report lacks, and why.

    Raises:
        InputError: A file of the run is missing or damaged.
        SpmlError: The report could not be written.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    folder, policy, images, summary = run.folder, run.thresholds, bool(run.spec.size), run.summary
    held_out, shown_as = read_held_out(folder, run.classes), headline(summary)
    selected, numbers = summary["selected"], summary["data"]["samples"]
    never = set(run.card["without_positives"])
    cuts = [np.inf if name in never else cut for name, cut in zip(run.classes, run.cuts, strict=True)]
    shown = choose_samples(held_out, cuts)
    chosen = dict.fromkeys(row for each in shown for group in each[1:] for row in group)
    photos = read_photos(run, parts, held_out, chosen, engine)

    def count(number: int) -> str:
        return counted(number, "photo" if images else "sample")

    in_turn = scored_in_turn(summary, len(held_out.ids))
    many = "photos" if images else "samples"
    judged = f"{len(held_out.ids):,} {many}, "
    judged += "each scored by models that had not learned from it" if in_turn else "that were held back"

    def warnings() -> list[str]:
        skipped = summary["data"]["skipped"]
        unusable = (
            f"{count(skipped)} could not be used. The file skipped.csv in the folder of the run says which "
            "and why; repair or remove them, and train again."
        )
        found = one_per_cause([*summary["warnings"], *selected.get("warnings", ()), *policy.warnings])
        return [*found, *([unusable] if skipped else []), *remarks]

    def figure(row: int, column: int) -> dict[str, Any]:
        logit = held_out.scores.at(np.asarray([row]), np.asarray([column])).astype(np.float32)
        given = held_out.labels.take([row]).entries(1)[1]
        return {
            "name": held_out.ids[row],
            "score": float(run.probabilities(logit)[0]),
            "probability": None if policy.calibrated is None else float(policy.calibrated(logit)[0]),
            "given": shorten(run.classes[column] for column in given.tolist()),
            "photo": photos.get(held_out.ids[row]),
        }

    environment = Environment(
        loader=PackageLoader("spml.runs.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Control characters and halves of characters in names are escaped.
        finalize=lambda value: value if hasattr(value, "__html__") else escaped(str(value)),
    )
    page = environment.get_template("page.html").render(
        run=run,
        summary=summary,
        headline=shown_as,
        in_turn=in_turn,
        checked=f"the {numbers['val']} validation {many}"
        + (", each scored by models that had not learned from it" if in_turn else ""),
        judged=judged,
        about_curves=_about_curves(run, shown_as),
        config=run.config,
        policy=policy,
        k=policy.mean_labels,
        images=images,
        many=many,
        count=count,
        counted=counted,
        method=_method(summary["method"]),
        sizes=_sizes(summary.get("sizes")),
        warnings=warnings,
        fewest=FEWEST_SHOWN,
        shown_score=shown_score,
        evaluation=_optional(run, run_files.EVALUATION, _Evaluation),
        audited=_optional(run, run_files.AUDITED, _Audited),
        held_out=len(held_out.ids),
        rows=class_rows(run, held_out, cuts),
        together=labels_together(run, held_out, cuts),
        shown=shown,
        most_shown=MOST_SHOWN,
        windows=any(photo.windows is not None for photo in photos.values()),
        figure=figure,
        curves=_picture(folder / run_files.CURVES),
        thresholds=_picture(folder / run_files.THRESHOLDS_PICTURE),
        folder=shlex.quote(str(folder)),
        config_file=shlex.quote(f"{folder}/{run_files.CONFIG}"),
    )
    write_text(folder / run_files.REPORT, page)


def renew_report(run: Run, engine: Engine) -> None:
    """Write the report of a run again, if it has one: thresholds, an evaluation or an audit have changed.

    The training data is opened again for its photos; where it can't be, samples are shown by their names.
    """
    path = run.folder / run_files.REPORT
    if not path.is_file():
        return
    parts: list[Samples] = []
    remarks: list[str] = []
    changed = run.unread()
    try:
        if run.spec.size:
            parts = reopened(changed)
    except InputError as error:
        remarks.append(f"This report shows no photos, because the data can't be read again ({error}).")
    try:
        write_report(changed, parts, engine, remarks=remarks)
    except InputError as error:
        path.unlink(missing_ok=True)  # it would show what is no longer so
        log.info(f"{path} was removed, because it could not be made again: {error}")


def _about_curves(run: Run, headline: Headline) -> str:
    """What the picture of the training shows, for people who do not know the field."""
    metric = "mAP" if headline.full else f"SP-score at K = {headline.mean_labels:.3g}"
    if "epoch" in run.summary["selected"]:
        return f"How the model changed during training. The marked epoch, of the highest {metric}, was kept."
    return (
        "Each point is a model that was tried. A larger penalty gives a simpler model: with a small penalty, "
        "a model memorises its training samples; with a large one, it learns too little. The marked points "
        f"were kept. The vertical axis is the {metric} in this search. The finished model combines the "
        "marked ones and has a score of its own."
    )


def _sizes(sizes: dict[str, Any] | None) -> str:
    """Sizes of images that are used, and what was tried; empty if there was one size only."""
    tried = [
        f"{each['size']:g}: {shown_score(each['val/SP' if 'val/SP' in each else 'val/mAP'])} "
        f"({each['samples']:,.0f} samples, {each['seconds']:.0f} s)"
        for each in (sizes or {}).get("tried", ())
    ]
    used = " and ".join((sizes or {}).get("weights", ()))
    return f"{used} pixels. Held-out score of each size that was tried: {', '.join(tried)}" if tried else ""


def _method(name: str) -> str:
    """A method in words; empty if its name says all."""
    if name == AUTO:
        return "a weighted average of simple models of the features; weights follow their held-out scores"
    objectives = methods()
    return objectives[name].card.title if name in objectives else ""


def class_rows(run: Run, held_out: HeldOut, cuts: Sequence[float]) -> list[dict[str, Any]]:
    """Rows of the table of classes, the one with most known positives first.

    `known` counts the known positives among all samples that the run knows, `given` those among the held-out
    samples, `recognised` the ones of these for which the class is predicted, and `predicted` all held-out
    samples for which it is.

    Args:
        run: The run.
        held_out: Held-out scores of H samples over C classes, with their observed labels.
        cuts: Logit from which on each class is predicted, (C,); infinite = never.
    """
    policy, limits = run.thresholds, np.asarray(cuts, np.float64).astype(np.float32)
    columns = range(len(run.classes)) if policy.columns is None else policy.columns
    stated: dict[int, ClassCut] = dict(zip(columns, policy.classes, strict=True))
    known, given, pairs = held_out.positives, held_out.labels.positives_per_class(), held_out.scores.pairs
    of_given = held_out.labels.entries(1)
    found = held_out.scores.at(*of_given) >= limits[of_given[1]]
    recognised = np.bincount(of_given[1][found], minlength=len(limits))
    rows = []
    for column in np.argsort(-known, kind="stable")[:MOST_ROWS].tolist():
        name, cut, limit = run.classes[column], stated.get(column), limits[column]
        threshold = None if cut is None or np.isinf(limit) else cut.threshold
        never = "by name" if name in run.by_name else "never"
        rows.append(
            {
                "name": name,
                "known": int(known[column]),
                "given": int(given[column]),
                "recognised": int(recognised[column]),
                "predicted": 0 if np.isinf(limit) else int((pairs.ascending(column) >= limit).sum()),
                "from_score": never if threshold is None or never == "by name" else f"{threshold:.2g}",
                "share": cut and cut.share,
                "precision": cut and cut.precision,
                "recall": cut and cut.recall,
            }
        )
    return rows


def labels_together(
    run: Run, held_out: HeldOut, cuts: Sequence[float]
) -> list[tuple[str, int, list[float | None]]]:
    """Which labels are predicted together, of the `MOST_TOGETHER` that are predicted most often.

    Returns:
        Per label its name, the number of held-out samples for which it is predicted, and the share of these
        for which each of the labels is predicted, too; None for itself. Empty with fewer than two labels.
    """
    limits = np.asarray(cuts, np.float64).astype(np.float32)
    columns = np.argsort(-held_out.positives, kind="stable")[: 5 * MOST_TOGETHER]
    columns = columns[np.isfinite(limits[columns])]
    rows = np.arange(min(len(held_out.ids), _ROWS_TOGETHER))
    found = held_out.scores.at(np.repeat(rows, len(columns)), np.tile(columns, len(rows)))
    predicted = found.reshape(len(rows), len(columns)) >= limits[columns]
    most = np.argsort(-predicted.sum(0), kind="stable")[:MOST_TOGETHER]
    most = most[predicted[:, most].any(0)]
    counts = predicted[:, most].astype(np.float64).T @ predicted[:, most]
    shares = counts / np.diag(counts)[:, None]
    return [
        (
            run.classes[columns[column]],
            int(counts[row, row]),
            [None if row == other else float(share) for other, share in enumerate(shares[row])],
        )
        for row, column in enumerate(most.tolist())
        if len(most) > 1
    ]


def _picture(path: Path) -> str | None:
    """Address of a picture of the folder; None if there is none."""
    if not path.is_file() or path.stat().st_size > _LARGEST:
        return None
    return data_address(path.read_bytes(), "image/png")


_T = TypeVar("_T")


def _optional(run: Run, name: str, kind: type[_T]) -> _T | None:
    """Content of a JSON file of a run; None if there is none, or it holds something else.

    A damaged file, or one of another run, is left out with a line.
    """
    if not (run.folder / name).is_file():
        return None
    try:
        return msgspec.convert(read_document(run.folder / name), kind)
    except msgspec.ValidationError:
        return None
    except InputError as error:
        log.info(f"{run_files.REPORT} does not show {name}: {error}")
        return None
