"""From scores to decisions: which model to choose, where to cut, what is probably missing."""

from .calibration import Calibration, Reliability, calibration_error, fit_calibration, refine_calibration
from .caveats import caveats
from .cuts import Cuts, RecallCurves, f1_cuts, label_cuts, precision_cuts, recall_cuts
from .decide import Decision, threshold_at, threshold_curve
from .hidden import hidden_probabilities, shown_probabilities
from .policy import (
    HOW_TO_KNOW_K,
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
    "Calibration",
    "ClassCut",
    "Cuts",
    "Decision",
    "Interval",
    "Judge",
    "Knots",
    "MeanLabels",
    "Policy",
    "Priors",
    "RecallCurves",
    "Reliability",
    "Rows",
    "Source",
    "Target",
    "calibration_error",
    "caveats",
    "decide_cuts",
    "decode_policy",
    "default_mean_labels",
    "encode_policy",
    "f1_cuts",
    "fit_calibration",
    "global_threshold",
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
