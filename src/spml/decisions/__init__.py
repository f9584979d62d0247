"""From scores to decisions: which model to choose, where to cut, what is probably missing."""

from ..scores import KnownPositives
from .calibration import (
    AnyLabels,
    AnyScores,
    Calibration,
    Reliability,
    ReliabilityBins,
    calibration_error,
    fit_calibration,
    fit_probabilities,
    refine_calibration,
)
from .caveats import caveats
from .cuts import Cuts, RecallCurves, f1_cuts, label_cuts, precision_cuts, recall_cuts
from .decide import Decision, global_threshold, threshold_at, threshold_curve
from .hidden import Chances, hidden_of_pairs, hidden_probabilities, label_chances
from .policy import (
    HOW_TO_KNOW_K,
    MANY_CLASSES,
    ClassCut,
    Knots,
    MeanLabels,
    Policy,
    Rows,
    Target,
    decide_cuts,
    decode_policy,
    encode_policy,
    read_target,
)
from .priors import Interval, Priors, Source, mean_labels_interval, priors_from_audit, priors_from_shares
from .scale import Scale, logits_of, scores_of
from .selection import Judge, assumed_for_thresholds, default_mean_labels, true_map

__all__ = [
    "HOW_TO_KNOW_K",
    "MANY_CLASSES",
    "AnyLabels",
    "AnyScores",
    "Calibration",
    "Chances",
    "ClassCut",
    "Cuts",
    "Decision",
    "Interval",
    "Judge",
    "Knots",
    "KnownPositives",
    "MeanLabels",
    "Policy",
    "Priors",
    "RecallCurves",
    "Reliability",
    "ReliabilityBins",
    "Rows",
    "Scale",
    "Source",
    "Target",
    "assumed_for_thresholds",
    "calibration_error",
    "caveats",
    "decide_cuts",
    "decode_policy",
    "default_mean_labels",
    "encode_policy",
    "f1_cuts",
    "fit_calibration",
    "fit_probabilities",
    "global_threshold",
    "hidden_of_pairs",
    "hidden_probabilities",
    "label_chances",
    "label_cuts",
    "logits_of",
    "mean_labels_interval",
    "precision_cuts",
    "priors_from_audit",
    "priors_from_shares",
    "read_target",
    "recall_cuts",
    "refine_calibration",
    "scores_of",
    "threshold_at",
    "threshold_curve",
    "true_map",
]
