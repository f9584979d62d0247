"""The held-out score: the one number by which a run is shown, on the terminal, in its report and in Python.

It is the naive mAP of the validation samples, in which every unknown label counts as absent; or their mAP
where all their labels are known. The SP-score, which chooses among epochs and heads, is the better guide
there, but it depends on K: a run that was told another K has another one, although the model is the same. The
naive mAP needs no K, ends at 100, and is stored by every run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..common.phrases import counted
from ..metrics import FEWEST_SHOWN


class Headline(NamedTuple):
    """Held-out score of a run.

    Attributes:
        value: mAP or naive mAP, in [0, 1]; None where there were too many scores to compute it from.
        full: Whether all labels of the validation samples are known.
        samples: Number of validation samples.
        sp: SP-score by which the model was chosen; None where it was chosen by mAP.
        mean_labels: K of that score.
    """

    value: float | None
    full: bool
    samples: int
    sp: float | None
    mean_labels: float

    @property
    def shown(self) -> str:
        """The score in percent; why there is none where there are too few samples."""
        if not self.full and self.samples < FEWEST_SHOWN:
            few = counted(self.samples, "validation sample is", "validation samples are")
            return f"not shown ({few} fewer than {FEWEST_SHOWN}: hold back more, data.val_share)"
        return "not computed" if self.value is None else f"{100 * self.value:.2f}"

    def describe(self) -> str:
        """The score with its name, in words for the terminal."""
        if self.full:
            return f"mAP {self.shown} of {self.samples:,} validation samples, all labels of which are known"
        if self.samples < FEWEST_SHOWN or self.value is None:
            return f"held-out score {self.shown}"
        return (
            f"held-out score {self.shown} (naive mAP of {self.samples:,} validation samples: a label that is "
            "not known counts as absent)"
        )


def headline(summary: Mapping[str, Any]) -> Headline:
    """Held-out score of a run, from the content of its summary.json."""
    validation, selected = summary["validation"], summary["selected"]
    full = selected["metric"] == "val/mAP"
    value = validation.get("val/mAP" if full else "val/naive_mAP")
    sp = None if full else validation.get("val/SP")
    return Headline(value, full, summary["data"]["samples"]["val"], sp, selected.get("mean_labels") or 0.0)


def scored_in_turn(summary: Mapping[str, Any], held_out: int) -> bool:
    """Whether held-out scores are by models that each left out a part of the samples, as of an auto head, not
    by the finished model on validation samples.

    Args:
        summary: Content of summary.json.
        held_out: Number of samples with held-out scores.
    """
    return held_out > int(summary["data"]["samples"]["val"])
