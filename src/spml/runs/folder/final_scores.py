"""Scores of a trained model from which its folder is made: thresholds, the test, example pictures."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...data import Samples
from ...decisions import true_map
from ...metrics import ScoreBlocks
from ...metrics.top_scores import TopScores
from ..fit.build import Build
from ..fit.solve import Fitted, HeldOutScores
from .held_out import drawn_part, keep_scores

Logits = npt.NDArray[np.float32]

_EXAMPLES = 12


class FinalScores(NamedTuple):
    """Scores of a trained model.

    Attributes:
        held_out: Scores of samples that the scoring model was not fitted to, which decide thresholds.
        val: Those of validation samples among them.
        test_map: mAP of the test samples; None if their labels are not fully known.
        examples: Logits (E, C) of the samples that are drawn as examples, `example_rows` of the test split,
            or of the validation split without one.
    """

    held_out: HeldOutScores
    val: Logits | TopScores
    test_map: float | None
    examples: Logits


def final_scores(build: Build, fitted: Fitted) -> FinalScores:
    """Compute the scores of a trained model, on every process.

    Where the scores of the validation samples do not fit (`spml.metrics.top_scores.fits`), those of a random
    part are kept: all scores of as many samples as 5,000,000 scores allow for, or, of more than 5,000
    classes, the 1,000 highest scores of 5,000 samples.
    """
    data, count = build.data, len(build.data.splits["train"])
    scores = {name: build.scores(data.splits[name]) for name in data.splits if name != "train"}
    held_out = fitted.held_out
    if held_out is None:
        held_out = _held_out(build, scores["val"])
    val = held_out.of_validation(count)
    test_map = None
    if "test" in scores and "test" in data.truth:
        test_map = true_map(scores["test"], data.truth["test"], data.empty)
    split = "test" if "test" in scores else "val"
    rows = example_rows(data.splits[split])
    scored = scores["test"] if split == "test" else val
    if isinstance(scored, np.ndarray) and len(scored) == len(data.splits[split]):
        examples = scored[rows]
    else:  # not kept
        examples = build.logits(data.splits[split].take(rows))
    return FinalScores(held_out, val, test_map, examples)


def example_rows(samples: Samples) -> npt.NDArray[np.int64]:
    """Up to 12 samples that are drawn as examples, evenly spaced."""
    rows = np.linspace(0, len(samples) - 1, min(_EXAMPLES, len(samples)))
    return np.asarray(rows.round(), np.int64)


def _held_out(build: Build, scores: Logits | ScoreBlocks) -> HeldOutScores:
    """Scores of the validation samples, or of a random part of them."""
    val, first = build.data.splits["val"], len(build.data.splits["train"])
    if not isinstance(scores, ScoreBlocks):
        return HeldOutScores(scores, first + np.arange(len(scores)))
    drawn = drawn_part(len(val), scores.classes, build.run.config.seed)
    samples = val.take(drawn)
    part = build.scores(samples)
    blocks = part.blocks() if isinstance(part, ScoreBlocks) else [(np.arange(len(part)), part)]
    return HeldOutScores(keep_scores(blocks, samples.observed), first + drawn)
