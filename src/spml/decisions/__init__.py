"""From scores to decisions: which model to choose, where to cut, what is probably missing."""

from .calibration import Calibration, Reliability, calibration_error, fit_calibration, refine_calibration
from .cuts import Cuts, RecallCurves, f1_cuts, label_cuts, precision_cuts, recall_cuts
from .decide import Decision, threshold_at, threshold_curve
from .hidden import hidden_probabilities, shown_probabilities
from .priors import Interval, Priors, mean_labels_interval, priors_from_audit, priors_from_shares
from .selection import Judge, default_mean_labels
from .thresholds import global_threshold

__all__ = [
    "Calibration",
    "Cuts",
    "Decision",
    "Interval",
    "Judge",
    "Priors",
    "RecallCurves",
    "Reliability",
    "calibration_error",
    "default_mean_labels",
    "f1_cuts",
    "fit_calibration",
    "global_threshold",
    "hidden_probabilities",
    "label_cuts",
    "mean_labels_interval",
    "precision_cuts",
    "priors_from_audit",
    "priors_from_shares",
    "recall_cuts",
    "refine_calibration",
    "shown_probabilities",
    "threshold_at",
    "threshold_curve",
]
