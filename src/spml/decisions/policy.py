"""Thresholds of all classes with what is known about them, and warnings: the content of thresholds.json."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from ..common.errors import InputError
from ..common.files import check_json_sha256, json_sha256
from ..common.notebook import SHOWN, Listing
from ..common.phrases import counted, first_few
from .calibration import AnyLabels, AnyScores, Calibration
from .cuts import Cuts, f1_cuts, label_cuts, precision_cuts, recall_cuts
from .priors import BIASED_GAMMA, Priors, Source

Scale = Literal["sigmoid", "exp"]
"""How a score follows from a logit: its sigmoid, or its exponential where it is a log-probability."""

Floats = npt.NDArray[np.float64]


def scores_of(logits: npt.ArrayLike, scale: Scale) -> npt.NDArray[Any]:
    """Scores in [0, 1] of logits of any shape; an infinite logit (= never) stays infinite.

    Returns:
        float32 for float32 logits, otherwise float64.
    """
    from scipy.special import expit

    values = np.asarray(logits)
    values = values if values.dtype == np.float32 else values.astype(np.float64)
    scores = expit(values) if scale == "sigmoid" else np.exp(np.minimum(values, 0.0))
    return np.where(np.isposinf(values), np.inf, scores)


def logits_of(scores: npt.ArrayLike, scale: Scale) -> Floats:
    """Logits of scores of any shape, float64: the inverse of `scores_of`.

    They are exact to 1e-6 from -700 to 20. A score that rounding has made 0 or 1 has the nearest finite
    logit.
    """
    from scipy.special import logit

    values = np.asarray(scores, np.float64)
    highest = 1.0 if scale == "exp" else 1 - np.finfo(np.float64).epsneg
    inside = np.clip(values, np.finfo(np.float64).tiny, highest)
    logits = logit(inside) if scale == "sigmoid" else np.log(inside)
    return np.where(np.isposinf(values), np.inf, logits)


FEW_POSITIVES = 10
"""Known positives below which a class is hardly decided by its own samples."""

FEW_ROWS = 100
"""Samples below which probabilities are not reliable."""

MANY_LABELS = 1 / 3
"""Share of the classes that a sample has on average up to which probabilities were measured, as good as
where it is a thirtieth."""

FEW_LABELS = 1.3
"""Mean labels per sample below which the number of missing labels is hard to tell."""


def caveats(
    priors: Priors,
    names: Sequence[str],
    positives: npt.NDArray[np.int64],
    rows: int,
    *,
    full: bool,
    calibrated: bool,
) -> list[str]:
    """Warnings about decisions, one line each.

    Args:
        priors: Class priors.
        names: Names of the classes.
        positives: Number of known positives of each class, int64 (C,).
        rows: Number of these rows.
        full: Whether all their labels are known.
        calibrated: Whether there are probabilities.

    Source:
        The limits are measured: `docs/decisions.md`.
    """
    k = priors.mean_labels
    lines = []
    if priors.source == "default":
        lines.append(
            f"K, the mean labels per sample, is not known: thresholds are placed as for K = {k:g}, and no "
            "precision, recall or probability is stated (mean_labels=K, or audit=FILE)."
        )
    if calibrated and not full and priors.gamma is None:
        lines.append(
            "This assumes that the known label of a sample is a uniform draw among its labels. If frequent "
            "or salient ones were preferred, precision is 5 points or more too optimistic, and the yield of "
            "an audit 20. Single positives can't reveal it; 50 random samples labelled in full can (spml "
            "audit sample)."
        )
    if priors.looks_biased:
        lines.append(
            f"Frequent classes look preferred among the known labels (gamma {priors.gamma:.2f}, at most "
            f"{BIASED_GAMMA:g}): estimates without the audit would be too optimistic. Training again "
            "with `like` repeats it."
        )
    few = [name for name, count in zip(names, positives.tolist(), strict=True) if 0 < count < FEW_POSITIVES]
    if few:
        lines.append(
            f"{counted(len(few), 'class', 'classes')} with fewer than {FEW_POSITIVES} known positives: "
            f"their thresholds and estimates are hardly more than guesses. Label more ({first_few(few, 5)})."
        )
    without = [name for name, count in zip(names, positives.tolist(), strict=True) if not count]
    if without:
        lines.append(
            f"{counted(len(without), 'class', 'classes')} without a known positive: never predicted, unless "
            f"by name alone. Label some, or leave the class out ({first_few(without, 5)})."
        )
    if calibrated and rows < FEW_ROWS:
        lines.append(
            f"Only {counted(rows, 'sample')} with held-out scores: probabilities may be far off. Hold back "
            "more (data.val_share), or collect more."
        )
    if calibrated and not full and k > MANY_LABELS * len(names):
        lines.append(
            f"K = {k:.3g} is more than a third of the {len(names)} classes, and it was not measured how "
            "right probabilities are there. Check them: label 50 random samples in full (spml audit sample)."
        )
    if calibrated and not full and k < FEW_LABELS:
        lines.append(
            f"K = {k:.3g} is close to 1: the expected number of missing labels is proportional to K - 1, so "
            "a small error of K is a large one there. Label more samples in full (spml audit sample)."
        )
    return lines


HOW_TO_KNOW_K = (
    "The mean number of labels per sample K is not known, and single positives can't reveal it: state it "
    "(mean_labels=K), or label 50 or more random samples in full (spml audit sample) and pass them "
    "(audit=FILE)."
)
"""Advice where something needs K and it is not known."""

MANY_CLASSES = 5000
"""Number of classes above which only those with an expected positive are listed."""

_SHARE = Annotated[float, msgspec.Meta(ge=0, le=1)]
_COUNT = Annotated[int, msgspec.Meta(ge=0)]
_COLUMN = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]
_POSITIVE = Annotated[float, msgspec.Meta(gt=0)]
_WIDE = 0.2
"""Width of an interval, as a share of the estimate, from which it is shown."""


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Target of thresholds.

    Attributes:
        name: `f1` (the best F1 of each class), `labels` (K labels per sample, by one threshold), `precision`
            or `recall`.
        value: The precision or recall to reach; None for the others.
        per_class: Whether each class has a threshold of its own.
    """

    name: Literal["f1", "labels", "precision", "recall"] = "f1"
    value: Annotated[float, msgspec.Meta(gt=0, lt=1)] | None = None
    per_class: bool = True

    def describe(self) -> str:
        """The target as a user states it, such as `recall=0.8, per class`."""
        text = self.name if self.value is None else f"{self.name}={self.value:g}"
        return f"{text}, per class" if self.per_class else text


def read_target(text: str, *, per_class: bool = False) -> Target:
    """Understand a target as a user states it.

    Args:
        text: `f1`, `labels`, `precision=0.9` or `recall=0.8`, with a number between 0 and 1.
        per_class: Reach a precision or recall in each class, instead of by one threshold over all of them.

    Raises:
        InputError: It is something else, or `labels` per class.
    """
    match = re.fullmatch(r"(f1|labels)|(precision|recall)=([0-9.eE+-]+)", text.strip())
    try:
        value = float(match[3]) if match and match[3] else None
    except ValueError:
        match = None
    if match is None or (value is not None and not 0 < value < 1):
        raise InputError(
            "`target` must be f1, labels, or precision=P or recall=R with a number between 0 and 1, such as "
            f"recall=0.8 for 80 %; got {text!r}"
        )
    if match[1] == "labels" and per_class:
        raise InputError("target=labels is one threshold for all classes: leave out `per_class`.")
    name = match[1] or match[2]
    return Target(name, value, per_class or name == "f1")  # type: ignore[arg-type]


class MeanLabels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Mean labels per sample K.

    Attributes:
        value: K.
        source: Origin of K, as in `Priors`.
        low, high: Ends of its 95 % interval, where an audit gave it.
    """

    value: _POSITIVE
    source: Source
    low: float | None = None
    high: float | None = None

    @property
    def known(self) -> bool:
        """Whether somebody stated or measured K."""
        return self.source != "default"


class ClassCut(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Threshold of a class.

    Attributes:
        name: Name of the class.
        threshold: Score from 0 to 1, as `spml predict` writes it, at and above which it is predicted; None =
            never.
        precision: Estimated precision at the threshold; None without predictions, or where K is not known.
        recall: Estimated recall; None without positives, or where K is not known.
        support: Expected number of positives among the samples of which `known` counts; None where K is not
            known. Version 3 counted the rows that decide.
        share: Expected share of samples that have the class; None where K is not known.
        known: Number of known positives among all samples that the run knows, or the rows that decide where
            these are others or labelled in full.
    """

    name: str
    threshold: _SHARE | None
    precision: _SHARE | None
    recall: _SHARE | None
    support: Annotated[float, msgspec.Meta(ge=0)] | None
    share: _SHARE | None
    known: _COUNT
    low: Annotated[float, msgspec.Meta(ge=0)] | None = None
    high: Annotated[float, msgspec.Meta(ge=0)] | None = None

    @property
    def positives(self) -> str:
        """Expected number of positives for people, with its interval where it is wide: `840 (760 to 950)`."""
        if self.support is None:
            return ""
        if self.low is None or self.high is None or self.high - self.low <= _WIDE * self.support:
            return _rounded(self.support, self.known)
        return f"{_rounded(self.support, self.known)} ({self.low:,.0f} to {self.high:,.0f})"


def _rounded(value: float, least: int) -> str:
    """An estimate with three digits, but no less than what is known."""
    return f"{max(float(f'{value:.3g}'), least):,.0f}"


class Rows(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Samples that thresholds were decided on.

    Attributes:
        count: Number of samples with observed labels.
        source: `held out` (scores that the run kept), or the path of other data.
        audited: Number of fully labelled samples.
    """

    count: _COUNT
    source: str
    audited: _COUNT = 0


class Knots(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Knots of a `Calibration`, whose scores are logits."""

    logits: list[float]
    probabilities: list[float]
    hidden: list[float]


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Thresholds of a model.

    Attributes:
        version: Version of this structure.
        spml: Version of the package that decided.
        model: SHA-256 of the weights that the scores are from.
        scale: How scores follow from the logits of the model.
        target: What the thresholds aim at.
        mean_labels: Mean labels per sample K.
        gamma: Exponent of the class priors, estimated from an audit; None = 1.
        rows: Samples that decided.
        classes: Threshold of each class, in the order of the scores.
        columns: Column of each of `classes` where these are not all of them, ascending; a class that is not
            listed has no expected positive and is never predicted. None = they are all.
        num_classes: Number of classes C, where not all are listed.
        calibration: Map from scores to probabilities; None where K is only assumed.
        warnings: What the user should know, one line each.
    """

    version: Literal[3, 4] = 4
    spml: str
    model: str
    scale: Scale
    target: Target
    mean_labels: MeanLabels
    gamma: float | None = None
    rows: Rows
    classes: tuple[ClassCut, ...]
    columns: tuple[_COLUMN, ...] | None = None
    num_classes: _COLUMN | None = None
    calibration: Knots | None = None
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.columns is None) != (self.num_classes is None):
            raise ValueError("columns and num_classes must be stated together")
        if self.columns is not None:
            columns = np.asarray(self.columns, np.int64)
            ascending = (np.diff(columns) > 0).all() and not (columns >= (self.num_classes or 0)).any()
            if len(columns) != len(self.classes) or not ascending:
                raise ValueError("columns must ascend, one for each class that is listed")

    def __repr__(self) -> str:
        return self._listing().text()

    def _repr_html_(self) -> str:
        return self._listing().html()

    def _listing(self) -> Listing:
        rows = [
            (
                cut.name,
                "never" if cut.threshold is None else f"{cut.threshold:.3f}",
                *("" if value is None else f"{100 * value:.0f} %" for value in (cut.precision, cut.recall)),
            )
            for cut in self.classes[:SHOWN]
        ]
        title = f"Thresholds of {counted(len(self.classes), 'class', 'classes')}: {self.describe()}"
        headings = ("class", "threshold", "precision", "recall")
        return Listing(title, headings, rows, len(self.classes) - len(rows))

    def describe(self) -> str:
        """What the thresholds aim at and stand on, such as `recall=0.8, K = 2.5 (stated)`."""
        k = self.mean_labels
        return f"{self.target.describe()}, " + (f"K = {k.value:g} ({k.source})" if k.known else "K not known")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the classes that are listed."""
        return tuple(cut.name for cut in self.classes)

    def is_of(self, classes: Sequence[str]) -> bool:
        """Whether these are thresholds of some classes, in their order."""
        if self.columns is None:
            return self.names == tuple(classes)
        return self.num_classes == len(classes) and all(
            classes[column] == name for column, name in zip(self.columns, self.names, strict=True)
        )

    @property
    def logits(self) -> tuple[float, ...]:
        """Logit at and above which each class is predicted; infinite = never."""
        listed = [math.inf if cut.threshold is None else cut.threshold for cut in self.classes]
        return tuple(logits_of(self._of_all(listed, math.inf), self.scale).tolist())

    @property
    def priors(self) -> Priors:
        """Class priors that the thresholds stand on, where K is known."""
        shares = self._of_all([cut.share or 0.0 for cut in self.classes], 0.0)
        ends: list[npt.NDArray[np.float64]] = []
        if any(cut.low is not None for cut in self.classes):
            total = next(cut.support / cut.share for cut in self.classes if cut.support and cut.share)
            for counts in ([cut.low for cut in self.classes], [cut.high for cut in self.classes]):
                ends.append(self._of_all([(count or 0.0) / total for count in counts], 0.0))
        return Priors(shares, self.mean_labels.value, self.mean_labels.source, self.gamma, *ends)

    def _of_all(self, listed: Sequence[float], rest: float) -> npt.NDArray[np.float64]:
        """A number of each class, from those of the classes that are listed."""
        if self.columns is None or self.num_classes is None:
            return np.asarray(listed, np.float64)
        values = np.full(self.num_classes, rest)
        values[list(self.columns)] = listed
        return values

    @property
    def calibrated(self) -> Calibration | None:
        """Map from logits to probabilities; None where K is only assumed."""
        if self.calibration is None:
            return None
        knots = self.calibration
        return Calibration.from_dict(
            {"scores": knots.logits, "probabilities": knots.probabilities, "hidden": knots.hidden}
        )


def decode_policy(content: bytes) -> Policy:
    """Read the content of thresholds.json.

    Raises:
        ValueError: It has another structure or version, or an impossible value.
    """
    fields = msgspec.json.decode(content, type=dict[str, Any])
    policy = msgspec.convert({key: value for key, value in fields.items() if key != "sha256"}, Policy)
    check_json_sha256(fields)
    estimates = [(cut.precision, cut.recall, cut.support, cut.share) for cut in policy.classes]
    some = policy.calibrated is not None or any(value is not None for row in estimates for value in row)
    if some and not policy.mean_labels.known:
        raise ValueError("it has probabilities or estimates, although K is not known")
    if len(set(policy.names)) != len(policy.classes):
        raise ValueError("it names a class twice")
    return policy


def encode_policy(policy: Policy) -> bytes:
    """Content of thresholds.json."""
    fields = msgspec.to_builtins(policy)
    if policy.columns is None:
        del fields["columns"], fields["num_classes"]
    text = msgspec.json.encode({**fields, "sha256": json_sha256(fields)})
    return msgspec.json.format(text, indent=1) + b"\n"


def decide_cuts(
    target: Target,
    scores: AnyScores,
    labels: AnyLabels,
    priors: Priors,
    calibration: Calibration | None,
) -> Cuts:
    """Thresholds that reach a target.

    Args:
        target: Target.
        scores, labels, priors: As in `RecallCurves`.
        calibration: Map from scores to probabilities, by which precision and recall are estimated; None where
            K is not known.

    Raises:
        InputError: A precision is not reached, or there are no probabilities.
    """
    if target.name == "f1":
        return f1_cuts(scores, labels, priors, calibration)
    if target.name == "labels":
        return label_cuts(scores, labels, priors, priors.mean_labels, calibration)
    assert target.value is not None
    if target.name == "recall":
        return recall_cuts(
            scores, labels, priors, target.value, per_class=target.per_class, calibration=calibration
        )
    if calibration is None:
        raise InputError(f"target={target.describe()} needs probabilities. {HOW_TO_KNOW_K}")
    return precision_cuts(scores, labels, priors, calibration, target.value, per_class=target.per_class)
