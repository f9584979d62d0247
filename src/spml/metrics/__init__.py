"""Metrics of multi-label scores, against full labels and against observed ones.

Scores are raw, float32 or float64 of shape (N, C); results are float64. Everything imports torch and numpy
only.
"""

from .average_precision import average_precision, mean_average_precision, mean_over_classes, naive_map
from .observed import SPScore, sp_score, sp_scores
from .ranks import Ranks, observed_ranks
from .thresholded import PrecisionRecallF1, TopK, precision_recall_f1, top_k

__all__ = [
    "PrecisionRecallF1",
    "Ranks",
    "SPScore",
    "TopK",
    "average_precision",
    "mean_average_precision",
    "mean_over_classes",
    "naive_map",
    "observed_ranks",
    "precision_recall_f1",
    "sp_score",
    "sp_scores",
    "top_k",
]
