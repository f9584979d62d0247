"""From scores to decisions: which model to choose, where to cut, what is probably missing."""

from .by_class import AnyLabels, AnyScores, KnownPositives, by_class
from .calibration import Calibration, Reliability, calibration_error, fit_calibration, refine_calibration
from .caveats import caveats
from .choose import Chooser
from .cuts import Cuts, RecallCurves, f1_cuts, label_cuts, precision_cuts, recall_cuts
from .decide import Decision, threshold_at, threshold_curve
from .hidden import hidden_of_highest, hidden_probabilities, shown_probabilities
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
from .selection import Judge, default_mean_labels, true_map
from .thresholds import global_threshold

__all__ = [
    "HOW_TO_KNOW_K",
    "MANY_CLASSES",
    "AnyLabels",
    "AnyScores",
    "Calibration",
    "Chooser",
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
    "Rows",
    "Source",
    "Target",
    "by_class",
    "calibration_error",
    "caveats",
    "decide_cuts",
    "decode_policy",
    "default_mean_labels",
    "encode_policy",
    "f1_cuts",
    "fit_calibration",
    "global_threshold",
    "hidden_of_highest",
    "hidden_probabilities",
    "label_cuts",
    "mean_labels_interval",
    "precision_cuts",
    "priors_from_audit",
    "priors_from_shares",
    "read_target",
    "recall_cuts",
    "refine_calibration",
    "shown_probabilities",
    "threshold_at",
    "threshold_curve",
    "true_map",
]
