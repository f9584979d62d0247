"""Heads that are solved instead of trained: one solution per penalty, of which the judge prefers one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from .. import models
from ..config import Config
from ..data import Samples
from ..decisions.selection import Judge
from ..engine.lbfgs_path import solve_path
from ..engine.loop import Judging
from ..errors import SpmlError
from ..methods.base import Objective
from ..metrics import compare_ranks


class Fitted(NamedTuple):
    """What came of training, or of solving a head.

    Attributes:
        history: one record per epoch, or per solution.
        best: position of the chosen record.
        seconds: spent.
        passes: over the training set.
        state: of the objective at the chosen epoch.
        tied: how many records can't be told from the chosen one; None where that was not found out.
    """

    history: list[dict[str, Any]]
    best: int
    seconds: float
    passes: int
    state: dict[str, Tensor]
    tied: int | None = None


def shown(record: dict[str, Any], metric: str) -> str:
    """A record's scores for the terminal."""
    text = f"{metric} {100 * record[metric]:.2f}"
    if metric != "val/mAP" and "val/mAP" in record:
        text += f"  (true val/mAP {100 * record['val/mAP']:.2f}, not used)"
    return text


def solve(
    config: Config,
    objective: Objective | None,
    top: models.Top,
    samples: Samples,
    judge: Judging,
    *,
    mean_labels: float | None,
    predict: Callable[[], npt.NDArray[np.float32]],
    report: Callable[[str], None],
) -> Fitted:
    """Solve the top's linear head for each penalty and leave the one in it that the judge prefers.

    Args:
        config: resolved settings of the run.
        objective: whose loss is minimised, started; None for the head in closed form that `config` names.
        top: features to logits.
        samples: features and observed labels to learn from.
        judge: scores the validation samples.
        mean_labels: K, for a head in closed form.
        predict: logits of the validation samples with the present head.
        report: given a line for each penalty.

    Raises:
        SpmlError: scores or loss are not finite.
        InputError: all samples have the same features, or no label is a known positive.
    """
    started, metric = time.perf_counter(), judge.metric
    history: list[dict[str, Any]] = []
    best, kept, ranks, count = 0, {}, {}, 0

    def judged(place: int, found: dict[str, Any]) -> None:
        nonlocal best, kept, count
        scores = predict()
        count = len(scores)
        if not np.isfinite(scores).all():
            raise SpmlError(
                f"{config.data.path}: with these features, scores become NaN or infinite in float32: scale "
                "them (--model.standardise true)."
            )
        record = {**found, **judge(scores), "seconds": round(time.perf_counter() - started, 3)}
        history.append(record)
        if not place or record[metric] > history[best][metric]:
            best, kept = place, {name: value.clone() for name, value in top.head.state_dict().items()}
        if "penalty" in record:
            if isinstance(judge, Judge) and metric == "val/SP":
                ranks[str(place)] = judge.ranks(scores)
            unsolved = "" if record.get("converged", True) else "  not converged"
            report(f"penalty {record['penalty']:<10}  {shown(record, metric)}{unsolved}")

    passes, state = 1, {}
    if objective is None:
        for place, found in enumerate(_closed_form(config.model.head, top, samples, mean_labels)):
            judged(place, found)
    else:
        solve_path(objective, top, samples, on_solution=judged, epochs=config.epochs)
        passes = sum(record["evaluations"] for record in history)
        state = {name: value.clone() for name, value in objective.state_dict().items()}
    top.head.load_state_dict(kept)
    tied = None
    if ranks:
        assert isinstance(judge, Judge)
        tied = len(compare_ranks(ranks, count, judge.mean_labels).tie_set)
    return Fitted(history, best, time.perf_counter() - started, passes, state, tied)


def _closed_form(
    head: str, top: models.Top, samples: Samples, mean_labels: float | None
) -> Iterator[dict[str, Any]]:
    """Fill the head with each solution in turn; gives its record."""
    assert isinstance(top.head, nn.Linear)
    assert mean_labels is not None
    found = models.moments(samples, top)
    if head != models.RIDGE:
        models.fill_head(top.head, models.mean_difference(found), found, mean_labels)
        yield {}
        return
    for penalty, weights in zip(models.PENALTIES, models.ridge(found), strict=True):
        models.fill_head(top.head, weights, found, mean_labels)
        yield {"penalty": "infinity" if math.isinf(penalty) else penalty}
