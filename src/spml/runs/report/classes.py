"""The parts of a report on classes: a table of all, and samples of some."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...common.phrases import counted, shorten
from ...decisions import ClassCut
from ..folder.held_out import HeldOut
from .choose import MOST_SHOWN, ShownClass, ShownSample
from .facts import Facts
from .page import data_address, paragraphs, text
from .photos import Photo

MOST_ROWS = 1000
"""Most classes in the table."""

_NAME = 40  # characters of the name of a sample
_OPEN = 3  # classes whose samples are seen at once; the others unfold


class ClassCounts(NamedTuple):
    """Counts of the classes, int64 (C,) each.

    Attributes:
        known: Known positives among all samples that the run knows.
        given: Known positives among the held-out samples.
        predicted: Held-out samples for which the class is predicted.
        recognised: Samples of `given` for which the class is predicted.
    """

    known: npt.NDArray[np.int64]
    given: npt.NDArray[np.int64]
    predicted: npt.NDArray[np.int64]
    recognised: npt.NDArray[np.int64]


def class_table(
    facts: Facts,
    names: Sequence[str],
    cuts: Sequence[ClassCut | None],
    counts: ClassCounts,
    held_out: int,
    never: npt.NDArray[np.bool_],
    by_name: npt.NDArray[np.bool_],
) -> str:
    """Table of the classes with known, predicted and, where K is known, expected numbers.

    Args:
        facts: Facts of the run.
        names: Names of the C classes.
        cuts: Threshold of each class with its estimates; None where it has none.
        counts: Counts.
        held_out: Number of held-out samples.
        never: Whether each class is never predicted, bool (C,).
        by_name: Whether each class is predicted by its name alone, bool (C,).
    """
    estimates, many = facts.policy.mean_labels.known, facts.many
    order = np.argsort(-counts.known, kind="stable")[:MOST_ROWS].tolist()
    header = ["label", f"given in all {many}", "given", "recognised of these", "predicted"]
    header += ["expected", "from a score of", "right", "found"] if estimates else ["from a score of"]
    rows = []
    for column in order:
        cut, given = cuts[column], int(counts.given[column])
        score = None if cut is None or never[column] else cut.threshold
        cells = [text(names[column]), f"{counts.known[column]:,}", f"{given:,}"]
        cells += [f"{counts.recognised[column]:,}" if given else "-", f"{counts.predicted[column]:,}"]
        from_score = "by name" if by_name[column] else "never" if score is None else f"{score:.2g}"
        if estimates and cut is not None:
            cells += [_number(cut.share, held_out), from_score, _share(cut.precision), _share(cut.recall)]
        else:
            cells += ["-", from_score, "-", "-"] if estimates else [from_score]
        rows.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    about = (
        f"The first number counts the {many} with this label in your data. The others are about the "
        f"{held_out:,} {many} that were held back when the model was fitted: how many were given the label, "
        f"for how many of these the model predicts it, and for how many of all {held_out:,}. It predicts a "
        "label from the score on that is stated for it (scores are between 0 and 1)."
    )
    expected = (
        "The rest is estimated: <i>expected</i> is how many of them really have the label, <i>right</i> how "
        "many of its predictions are right, and <i>found</i> how many of those that have it get it. "
        "If far fewer are predicted than expected, the model misses many."
    )
    left = len(names) - len(order)
    more = f"{counted(left, 'label')} given to fewer {many}: see thresholds.json." if left else ""
    heads = "".join(f"<th>{cell}</th>" for cell in header)
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return (
        paragraphs(about, expected if estimates else "")
        + f'<div class="wide">{table}</div>'
        + paragraphs(more)
    )


def _number(share: float | None, total: int) -> str:
    return "-" if share is None else f"{share * total:,.0f}"


def _share(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f}\N{NO-BREAK SPACE}%"


class Describe(NamedTuple):
    """How samples are described.

    Attributes:
        score: Turns a logit into a score in [0, 1].
        probability: Turns a logit into a probability; None where K is not known.
        photos: Photos by name of a sample.
    """

    score: Callable[[float], float]
    probability: Callable[[float], float] | None
    photos: Mapping[str, Photo]


def class_examples(
    facts: Facts, names: Sequence[str], shown: Sequence[ShownClass], held_out: HeldOut, describe: Describe
) -> str:
    """Samples of each class that the model is surest of, that it misses, and that it is unsure about."""
    if not shown:
        return ""
    many = facts.many
    windows = any(photo.windows is not None for photo in describe.photos.values())
    about = (
        f"Chosen by the scores of the {many} that were held back and by the labels that you gave; nothing "
        f"else is known about them. At most {MOST_SHOWN} are shown, of the labels that are given most often."
    )
    outlined = "The yellow frame is the part of the photo that speaks most for the label." if windows else ""
    blocks = [paragraphs(about, outlined)]
    for number, each in enumerate(shown):
        name = text(names[each.column])
        groups = (
            ("Given, and the model is surest", each.best),
            (f"Given, but the model sees it least: hard {many}, or a wrong label", each.worst),
            ("Not given, and the model is least sure whether it is there", each.uncertain),
        )
        parts = "".join(
            f'<div><h4>{heading}</h4><div class="photos">'
            + "".join(_figure(each.column, sample, names, held_out, describe) for sample in samples)
            + "</div></div>"
            for heading, samples in groups
            if samples
        )
        opened = " open" if number < _OPEN else ""
        blocks.append(
            f'<details{opened}><summary>{name}</summary><div class="groups">{parts}</div></details>'
        )
    return "".join(blocks)


def _figure(
    column: int, sample: ShownSample, names: Sequence[str], held_out: HeldOut, describe: Describe
) -> str:
    name = held_out.ids[sample.row]
    given = [names[c] for c in held_out.labels.take([sample.row]).entries(1)[1].tolist()]
    photo = describe.photos.get(name)
    told = f"score {describe.score(sample.score):.2f}"
    if describe.probability is not None:
        told += f"<br>probability {_share(describe.probability(sample.score))}"
    label = f"given: {text(shorten(given))}" if given else "nothing given"
    short = name if len(name) <= _NAME else "…" + name[1 - _NAME :]
    return (
        f"<figure>{_frame(photo, name, column) if photo else ''}<figcaption>"
        f'<span title="{text(name)}">{text(short)}</span><br>{told}<br>{label}</figcaption></figure>'
    )


def _frame(photo: Photo, name: str, column: int) -> str:
    small = ' class="small"' if max(photo.width, photo.height) < 100 else ""
    outline = ""
    if photo.windows is not None:
        left, top, width, height = (100 * share for share in photo.windows[column].tolist())
        outline = (
            f'<span class="window" style="left:{left:.1f}%;top:{top:.1f}%;width:{width:.1f}%;'
            f'height:{height:.1f}%"></span>'
        )
    return (
        f'<div class="frame"><img{small} alt="{text(name)}" width="{photo.width}" height="{photo.height}" '
        f'src="{data_address(photo.jpeg, "image/jpeg")}">{outline}</div>'
    )
