"""Metrics of multi-label scores, against full labels and against observed labels.

Scores are raw (no sigmoid), float32 or float64 of shape (N, C); results are float64. Imports torch and numpy
only.
"""

from ..scores import Ranks, ScoreBlocks, ranks_of
from .average_precision import (
    average_precision,
    mean_average_precision,
    mean_over_classes,
    naive_map,
    precision_of_ranks,
)
from .bootstrap import (
    MIN_DRAWS,
    PairedScore,
    bootstrap_map,
    compare_paired,
    drawn_metrics,
    paired_resamples,
    resamples,
)
from .comparison import (
    FEWEST_SHOWN,
    TRUSTED,
    Candidate,
    Comparison,
    compare_models,
    compare_ranks,
    sample_warnings,
    shown_score,
)
from .observed import SPScore, observed_ranks, sp_of_ranks, sp_score, sp_scores
from .propensity import PropensityScored, propensities, propensity_scored_top_k
from .registry import LabelledScores, Metric, metrics, register_metric
from .thresholded import PrecisionRecallF1, TopK, cost_sensitive_hamming, precision_recall_f1, top_k

__all__ = [
    "FEWEST_SHOWN",
    "MIN_DRAWS",
    "TRUSTED",
    "Candidate",
    "Comparison",
    "LabelledScores",
    "Metric",
    "PairedScore",
    "PrecisionRecallF1",
    "PropensityScored",
    "Ranks",
    "SPScore",
    "ScoreBlocks",
    "TopK",
    "average_precision",
    "bootstrap_map",
    "compare_models",
    "compare_paired",
    "compare_ranks",
    "cost_sensitive_hamming",
    "drawn_metrics",
    "mean_average_precision",
    "mean_over_classes",
    "metrics",
    "naive_map",
    "observed_ranks",
    "paired_resamples",
    "precision_of_ranks",
    "precision_recall_f1",
    "propensities",
    "propensity_scored_top_k",
    "ranks_of",
    "register_metric",
    "resamples",
    "sample_warnings",
    "shown_score",
    "sp_of_ranks",
    "sp_score",
    "sp_scores",
    "top_k",
]
