"""Scores of samples: what a model says about N samples and C classes.

There is one type, `Scores`, in three forms: `InMemory`, an array; `ScoreBlocks`, computed again, block by
block, at every look; and `TopScores`, the highest scores of each sample. Metrics, decisions and audits take
any of them. Imports torch and numpy only.
"""

from .forms import (
    HIGHEST,
    InMemory,
    KnownPositives,
    Pairs,
    ScoreBlocks,
    Scores,
    ScoreTable,
    TopScores,
    as_scores,
    fits,
    highest,
    score_array,
)
from .ranks import Ranks, ranks_of

__all__ = [
    "HIGHEST",
    "InMemory",
    "KnownPositives",
    "Pairs",
    "Ranks",
    "ScoreBlocks",
    "ScoreTable",
    "Scores",
    "TopScores",
    "as_scores",
    "fits",
    "highest",
    "ranks_of",
    "score_array",
]
