"""Metrics of multi-label scores, against full labels and against observed labels.

Scores are raw (no sigmoid), float32 or float64 of shape (N, C); results are float64. Imports torch and numpy
only.
"""

from .average_precision import (
    average_precision,
    mean_average_precision,
    mean_over_classes,
    naive_map,
    precision_of_ranks,
)
from .blocks import ScoreBlocks
from .bootstrap import MIN_DRAWS, bootstrap_map, paired_resamples, resamples
from .comparison import (
    FEWEST_SHOWN,
    Candidate,
    Comparison,
    compare_models,
    compare_ranks,
    sample_warnings,
    shown_score,
)
from .counted_ranks import ranks_of
from .labelled_blocks import LabelledBlocks, count_blocks
from .observed import SPScore, sp_of_ranks, sp_score, sp_scores
from .paired import PairedScore, compare_paired, drawn_metrics
from .propensity import PropensityScored, propensities, propensity_scored_top_k
from .ranks import Ranks, observed_ranks
from .registry import Labelled, LabelledScores, Metric, metrics, register_metric
from .thresholded import PrecisionRecallF1, TopK, cost_sensitive_hamming, precision_recall_f1, top_k

__all__ = [
    "FEWEST_SHOWN",
    "MIN_DRAWS",
    "Candidate",
    "Comparison",
    "Labelled",
    "LabelledBlocks",
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
    "count_blocks",
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
