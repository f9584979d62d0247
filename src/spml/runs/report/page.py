"""Write the report of a run, at the end of the training and again where what it shows has changed."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from ...common.errors import InputError, escaped
from ...common.files import write_text
from ...common.messages import log
from ...common.notebook import SHOWN_SIDE, data_address, photo_address
from ...common.phrases import counted, one_per_cause, shorten
from ...config import AUTO
from ...data import Samples, start_opening
from ...data.images.image_files import ImageFiles, small_photo
from ...decisions import ClassCut
from ...methods.registry import methods
from ...metrics import FEWEST_SHOWN, shown_score
from ..folder import layout as run_files
from ..folder.contents import read_document
from ..folder.held_out import HeldOut, read_held_out
from ..headline import headline, scored_in_turn
from ..predict.batches import Engine
from ..run import Run

if TYPE_CHECKING:
    from jinja2 import Template

MOST_ROWS = 1000
"""Most classes in the table."""

_LARGEST = 4 << 20  # bytes of a picture; those of this package have a twentieth


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
    folder, policy, summary, images = run.folder, run.thresholds, run.summary, bool(run.spec.size)
    held_out, shown_as = read_held_out(folder, run.classes), headline(summary)
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
        own = summary["warnings"], summary["selected"].get("warnings", ()), policy.warnings
        found = one_per_cause([warning for each in own for warning in each])
        if skipped := summary["data"]["skipped"]:
            found.append(
                f"{count(skipped)} could not be used. The file skipped.csv in the folder of the run says "
                "which and why; repair or remove them, and train again."
            )
        return [*found, *remarks]

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

    page = _template().render(
        run=run,
        summary=summary,
        headline=shown_as,
        in_turn=in_turn,
        checked=f"the {shown_as.samples} validation {many}"
        + (", each scored by models that had not learned from it" if in_turn else ""),
        judged=judged,
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
        evaluation=_optional(run, run_files.EVALUATION),
        audited=_optional(run, run_files.AUDITED),
        held_out=len(held_out.ids),
        rows=class_rows(run, held_out, cuts),
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


@cache
def _template() -> Template:
    """The template of a report, which is compiled once."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("spml.runs.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Control characters and halves of characters in names are escaped.
        finalize=lambda value: value if hasattr(value, "__html__") else escaped(str(value)),
    )
    return environment.get_template("page.html")


def renew_report(run: Run, engine: Engine) -> None:
    """Write the report of a run again, if it has one: thresholds, an evaluation or an audit have changed.

    The training data is opened again for its photos; where it can't be, samples are shown by their names.
    """
    from jinja2 import TemplateError

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
    except (TemplateError, LookupError, TypeError, ValueError) as error:  # a document lacks a part
        path.unlink(missing_ok=True)  # it would show what is no longer so
        log.info(f"{path} was removed, because it could not be made again: {type(error).__name__}: {error}")


def _sizes(sizes: dict[str, Any] | None) -> str:
    """Sizes of images that are used, and what was tried; empty if there was one size only."""
    tried = (sizes or {}).get("tried", ())
    if not sizes or not tried:
        return ""
    metric, name = ("val/SP", "SP-score") if "val/SP" in tried[0] else ("val/mAP", "mAP")
    told = [
        f"{each['size']:g}: {shown_score(each[metric])} "
        f"({each['samples']:,.0f} samples, {each['seconds']:.0f} s)"
        for each in tried
    ]
    return f"{' and '.join(sizes['weights'])} pixels. {name} of each size that was tried: {', '.join(told)}"


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


def _picture(path: Path) -> str | None:
    """Address of a picture of the folder; None if there is none."""
    if not path.is_file() or path.stat().st_size > _LARGEST:
        return None
    return data_address(path.read_bytes(), "image/png")


def _optional(run: Run, name: str) -> dict[str, Any] | None:
    """Content of a JSON file of a run; None if there is none. A damaged one is left out with a line."""
    if not (run.folder / name).is_file():
        return None
    try:
        return read_document(run.folder / name)
    except InputError as error:
        log.info(f"{run_files.REPORT} does not show {name}: {error}")
        return None


# -- samples of each class, and their photos --------------------------------------------------------------

MOST_SHOWN = 120
"""Most samples that a report shows, over all classes; one that is shown for two classes counts twice."""

_PER_GROUP = 3
_BATCH = 16


class ShownClass(NamedTuple):
    """Samples that are shown for a class, as rows of the held-out samples.

    Attributes:
        column: Number of the class.
        best: Samples that were given the label, with the highest scores.
        worst: Samples that were given the label, with the lowest scores, the lowest first.
        uncertain: Samples of which the label is not known, with scores nearest to the threshold. Where all
            labels are known, samples without it.
    """

    column: int
    best: list[int]
    worst: list[int]
    uncertain: list[int]


def choose_samples(held_out: HeldOut, thresholds: Sequence[float]) -> list[ShownClass]:
    """Choose up to three samples of each kind for each class, and at most `MOST_SHOWN` over all classes.

    With more classes there are fewer of each, and from 41 classes on only those with the most known positives
    are shown.

    Args:
        held_out: Held-out scores of H samples over C classes, with their observed labels.
        thresholds: Logit from which on each class is predicted, (C,); infinite = never.

    Returns:
        Classes with a known positive among the held-out samples, the one with most of them first.
    """
    known = held_out.labels.positives_per_class()
    columns = np.argsort(-known, kind="stable")[: min(int((known > 0).sum()), MOST_SHOWN // 3)]
    each = min(_PER_GROUP, MOST_SHOWN // (3 * max(len(columns), 1)))
    everything, shown = np.arange(len(held_out.ids)), []
    for column in columns.tolist():
        of_class = np.full(len(everything), column)
        scores, labels = held_out.scores.at(everything, of_class), held_out.labels.at(everything, of_class)
        there = np.isfinite(scores)  # of many classes, only the highest scores of a sample are kept
        given = np.flatnonzero((labels == 1) & there)
        given = given[np.argsort(-scores[given], kind="stable")]
        unknown = np.flatnonzero((labels == (0 if (labels == 0).any() else -1)) & there)
        if np.isinf(thresholds[column]):
            unknown = unknown[:0]
        nearest = unknown[np.argsort(np.abs(scores[unknown] - thresholds[column]), kind="stable")]
        worst = given[each:][::-1]
        shown.append(ShownClass(column, *(some[:each].tolist() for some in (given, worst, nearest))))
    return shown


class Photo(NamedTuple):
    """A small copy of a photo.

    Attributes:
        address: Address that holds the JPEG itself.
        width, height: Its size in pixels.
        original: Address of the photo itself, relative to the folder of the run; empty if it is in no file.
        windows: Left, top, width and height of the window that speaks most for each class, as shares of the
            photo, float32 (C, 4); None of a model that scores photos as a whole.
    """

    address: str
    width: int
    height: int
    original: str
    windows: npt.NDArray[np.float32] | None


def reopened(run: Run) -> list[Samples]:
    """Open the training data of a run again, without reading an image.

    Raises:
        InputError: The data can't be read.
    """
    dataset = start_opening(run.settings.data).finish_unread()
    size, interpolation = run.spec.size, run.spec.interpolation
    return [
        replace(samples, inputs=replace(samples.inputs, size=size, interpolation=interpolation))
        if isinstance(samples.inputs, ImageFiles)
        else samples
        for samples in dataset.splits.values()
    ]


def read_photos(
    run: Run, parts: Iterable[Samples], held_out: HeldOut, wanted: Iterable[int], engine: Engine
) -> dict[str, Photo]:
    """Reduce photos to at most `SHOWN_SIDE` pixels, and find their windows.

    Args:
        run: Model whose windows are found.
        parts: Splits of the data.
        held_out: Held-out scores, with which windows may have been kept.
        wanted: Samples to show, as rows of these.
        engine: Settings of prediction, by which windows are found otherwise.

    Returns:
        Photos by name, without those that can't be read, and without samples that are no images.
    """
    photos: dict[str, Photo] = {}
    row_of = {held_out.ids[row]: row for row in wanted}
    missing = set(row_of)
    for samples in parts:
        rows = {name: row for row, name in enumerate(samples.ids) if name in missing}
        names, missing = list(rows), missing - rows.keys()
        if samples.inputs.kind != "image" or not names:
            continue
        chosen = samples.inputs.take(list(rows.values()))
        windows: dict[int, npt.NDArray[np.float32]] = {}
        if run.locates and held_out.windows is not None:
            numbers = np.minimum(held_out.windows[[row_of[name] for name in names]], len(run.places) - 1)
            windows = dict(enumerate(run.places[numbers]))
        elif run.locates:
            for batch in run.stream(chosen, engine._replace(batch_size=_BATCH), where=True):
                assert batch.windows is not None
                windows |= zip(batch.rows.tolist(), run.places[batch.windows], strict=True)
        for row, name in enumerate(names):
            if picture := small_photo(chosen, row, SHOWN_SIDE):
                original = _link(chosen.paths[row], run.folder) if isinstance(chosen, ImageFiles) else ""
                photos[name] = Photo(photo_address(picture), *picture.size, original, windows.get(row))
    return photos


def _link(photo: object, folder: Path) -> str:
    """Address of a photo relative to a folder; empty if it is in no file, or on another drive."""
    try:
        return quote(os.path.relpath(photo, folder)) if isinstance(photo, (str, Path)) else ""
    except ValueError:
        return ""
