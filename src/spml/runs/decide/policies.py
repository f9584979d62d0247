"""Decide thresholds and probabilities of a model, and keep them in the folder of its run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ... import plots
from ...common.errors import InputError
from ...common.files import write_bytes
from ...common.safe import read_bytes
from ...decisions import (
    MANY_CLASSES,
    Calibration,
    ClassCut,
    Interval,
    Knots,
    MeanLabels,
    Policy,
    Priors,
    RecallCurves,
    Rows,
    Scale,
    Source,
    Target,
    caveats,
    decide_cuts,
    decode_policy,
    encode_policy,
    fit_calibration,
    fit_probabilities,
    mean_labels_interval,
    priors_from_audit,
    priors_from_shares,
    refine_calibration,
    scores_of,
)
from ...version import __version__
from ..folder import layout as run_files
from ..folder.held_out import HeldOut

HELD_OUT = "held out"
"""Origin of samples whose scores the run has kept."""

_PANELS = 12
"""Classes in the picture, those with most positives."""


class Evidence(NamedTuple):
    """Evidence that decisions stand on.

    Attributes:
        priors: Class priors, with K.
        calibration: Map from scores to probabilities; None where K is only assumed.
        interval: 95 % interval of K, where an audit gave it.
        audited: Number of fully labelled samples.
    """

    priors: Priors
    calibration: Calibration | None
    interval: Interval | None = None
    audited: int = 0


def evidence_from_shares(held_out: HeldOut, mean_labels: float, source: Source) -> Evidence:
    """Priors from the known labels, and probabilities unless K is only assumed.

    Args:
        held_out: Scores of samples that the model was not fitted to, and their observed labels.
        mean_labels: Mean labels per sample K.
        source: Origin of K: `stated`, `audit`, `labels` or `default`.

    Raises:
        InputError: K is out of its domain, or no label is a known positive.
    """
    positives, total = held_out.positives, held_out.total
    priors = priors_from_shares(positives, mean_labels, source, samples=total)
    if source == "default":
        return Evidence(priors, None)
    calibration, priors = fit_probabilities(held_out.scores, held_out.labels, priors, positives, total)
    return Evidence(priors, calibration)


def evidence_from_audit(
    held_out: HeldOut,
    rows: npt.NDArray[np.int64] | None,
    scores: npt.NDArray[np.float32],
    truth: npt.NDArray[np.bool_],
) -> Evidence:
    """K, priors and probabilities from randomly chosen, fully labelled samples.

    Args:
        held_out: Scores of samples that the model was not fitted to, and their observed labels.
        rows: Held-out sample that each of the m audited samples is, -1 for others; None = they are others.
        scores: Scores of the audited samples by a model that was not fitted to them, (m, C).
        truth: All their labels, bool (m, C).

    Raises:
        InputError: Fewer than 20 samples were audited, they have no label, or no label is a known positive.
    """
    positives, total = held_out.positives, held_out.total
    known = None
    if rows is not None and (rows >= 0).all():
        own = held_out.labels.take(rows).to_ternary()
        # Of other samples, and of those whose answers are part of the labels by now, it is not known which of
        # their labels would have been known without the audit.
        if (own == 0).any(1).all() and (truth & (own != 1)).any():
            known = own == 1
    priors = priors_from_audit(positives, truth, known=known, samples=total)
    interval = mean_labels_interval(truth, known=known, least=float(positives.sum()) / total)
    calibration = fit_calibration(held_out.scores, held_out.labels, priors)
    refined = refine_calibration(calibration, scores, truth)
    return Evidence(priors, refined, interval, len(truth))


def evidence_from_policy(policy: Policy) -> Evidence:
    """Evidence that earlier thresholds stood on."""
    k = policy.mean_labels
    interval = None if k.low is None or k.high is None else Interval(k.value, k.low, k.high)
    return Evidence(policy.priors, policy.calibrated, interval, policy.rows.audited)


def decide_thresholds(
    model: str,
    scale: Scale,
    classes: Sequence[str],
    held_out: HeldOut,
    evidence: Evidence,
    target: Target = Target(),  # noqa: B008 (immutable)
    *,
    source: str = HELD_OUT,
) -> Policy:
    """Decide the threshold of each class.

    Args:
        model: SHA-256 of the weights that the scores are from.
        scale: How scores follow from the logits of the model.
        classes: Names of the C classes.
        held_out: Logits of samples that the model was not fitted to, and their observed labels.
        evidence: What the decision stands on.
        target: What the thresholds aim at.
        source: Path of the data that `held_out` is from, or `held out`.

    Raises:
        InputError: The target needs K, which is only assumed, or is a precision that is not reached.
    """
    priors, calibration, interval, audited = evidence
    scores, labels, positives = held_out.scores, held_out.labels, held_out.positives
    cuts = decide_cuts(target, scores, labels, priors, calibration)
    cuts = cuts._replace(thresholds=scores_of(cuts.thresholds, scale))
    warnings = caveats(
        priors, classes, positives, len(scores), full=labels.full, calibrated=calibration is not None
    )
    low, high = (None, None) if interval is None else (interval.low, interval.high)
    many = len(classes) > MANY_CLASSES
    listed = np.flatnonzero(priors.shares > 0) if many else np.arange(len(classes))
    names = (classes[column] for column in listed.tolist())
    nothing: list[float | None] = [None] * len(listed)
    ends = [nothing if end is None else (end[listed] * held_out.total).tolist() for end in priors[-2:]]
    support, shares = priors.shares * held_out.total, priors.shares
    columns = [*(values[listed].tolist() for values in (*cuts[:3], support, shares, positives)), *ends]
    if calibration is None:  # then nothing that depends on K is stated
        columns[3:5] = [nothing] * 2
    return Policy(
        spml=__version__,
        model=model,
        scale=scale,
        target=target,
        mean_labels=MeanLabels(priors.mean_labels, priors.source, low, high),
        gamma=priors.gamma,
        rows=Rows(len(scores), source, audited),
        classes=tuple(
            ClassCut(name, _finite(threshold), _finite(precision), _finite(recall), *numbers)
            for name, threshold, precision, recall, *numbers in zip(names, *columns, strict=True)
        ),
        columns=tuple(listed.tolist()) if many else None,
        num_classes=len(classes) if many else None,
        calibration=Knots(*calibration.to_dict().values()) if calibration else None,
        warnings=tuple(warnings),
    )


def write_thresholds(folder: Path, policy: Policy, held_out: HeldOut, *, picture: bool = True) -> None:
    """Write thresholds and, where K is known, a picture of the estimates for the classes with most positives.

    Args:
        folder: Folder of the run.
        policy: Thresholds.
        held_out: Scores that they were decided on.
        picture: Whether the picture is wanted.

    Raises:
        SpmlError: A file could not be written.
    """
    path = folder / run_files.THRESHOLDS_PICTURE
    if policy.calibration is None:  # an earlier picture would state what is not known
        path.unlink(missing_ok=True)
    elif picture:
        known = np.asarray([cut.known for cut in policy.classes])
        columns = np.arange(len(known)) if policy.columns is None else np.asarray(policy.columns, np.int64)
        curves = RecallCurves(held_out.scores, held_out.labels, policy.priors, policy.calibrated)
        support = curves.support[columns]
        drawable = (support > 0) & curves.pairs.filled[columns]
        shown = [row for row in np.argsort(-support, kind="stable").tolist() if drawable[row]][:_PANELS]
        panels = []
        for row in shown:
            logits, precision, recall = curves.of_class(int(columns[row]))
            cut, scores = policy.classes[row], scores_of(logits, policy.scale)
            panels.append(plots.ThresholdCurve(cut.name, scores, precision, recall, cut.threshold))
        total = len(support) if policy.num_classes is None else policy.num_classes
        left_out = f"; the {len(shown)} most frequent of {total} classes" if len(shown) < total else ""
        title = f"Estimated precision and recall, target {policy.target.describe()}{left_out}"
        plots.threshold_curves(path, panels, title=title)
    write_bytes(folder / run_files.THRESHOLDS, encode_policy(policy))


def read_thresholds(path: Path, classes: Sequence[str], model: str) -> Policy:
    """Read thresholds.

    Args:
        path: File of thresholds.
        classes: Names of the classes that they must be of.
        model: SHA-256 of the weights that they must have been decided for.

    Raises:
        InputError: The file is missing or damaged, or has thresholds of other classes or of another model.
    """
    again = "Make it again (spml thresholds RUN)."
    try:
        policy = decode_policy(read_bytes(path))
    except FileNotFoundError as error:
        raise InputError(
            f"{path}: is missing. Copy it from the folder that the run was trained in, make it again (spml "
            "thresholds RUN), or use one threshold for all classes (thresholds=global)."
        ) from error
    except OSError as error:
        raise InputError(f"{path}: can't be read ({error.strerror}).") from error
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: damaged, or not written by this version of spml ({error}). {again}"
        ) from error
    if not policy.is_of(classes):
        raise InputError(f"{path}: has thresholds of other classes than the model. {again}")
    if policy.model != model:
        raise InputError(f"{path}: was decided for another model, whose scores are on another scale. {again}")
    return policy


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
