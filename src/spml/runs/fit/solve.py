"""Solve a head instead of training it: one solution per penalty, of which the judge prefers one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ... import models
from ...common.errors import SpmlError
from ...config import AUTO, Config
from ...data import Samples
from ...decisions import Judge
from ...engine.lbfgs_path import solve_path
from ...engine.loop import Judging
from ...methods.base import Objective
from ...metrics import FEWEST_SHOWN, ScoreBlocks, compare_ranks, shown_score, sp_score
from ...metrics.top_scores import TopScores, fits
from ..compute.score_table import take_scores
from ..folder.held_out import drawn_part, keep_scores

Rows = npt.NDArray[np.int64]
Logits = npt.NDArray[np.float32]


class HeldOutScores(NamedTuple):
    """Scores of samples by a model that was not fitted to them.

    Attributes:
        scores: Logits, float32 (H, C), or the highest of each sample.
        rows: Their samples, numbered over training, then validation samples, int64 (H,).
    """

    scores: Logits | TopScores
    rows: Rows

    def of_validation(self, train: int) -> Logits | TopScores:
        """Scores of the validation samples, in their order; `train` is the number of training samples."""
        order = np.argsort(self.rows)
        rows = order[self.rows[order] >= train]
        if np.array_equal(rows, np.arange(len(self.rows))):
            return self.scores
        return take_scores(self.scores, rows)


class Fitted(NamedTuple):
    """Result of fitting a model, trained or solved.

    Attributes:
        history: One record per epoch, or per solution.
        best: Position of the chosen record.
        seconds: Time spent.
        passes: Passes over the training set.
        state: State of the objective at the chosen epoch.
        tied: Number of records in the tie set of the chosen one; None if it was not computed.
        members: Description of each member of an ensemble.
        tried: Space, head, penalty and score of every solution from which the members were chosen.
        held_out: Scores of validation samples, and perhaps of training samples, by models that were not
            fitted to them, where the final one was; None = validation samples are scored by the final model.
        start_loss: Loss of the first step; None for a head that is solved.
    """

    history: list[dict[str, Any]]
    best: int
    seconds: float
    passes: int
    state: dict[str, Tensor]
    tied: int | None = None
    members: Sequence[dict[str, Any]] = ()
    held_out: HeldOutScores | None = None
    tried: Sequence[dict[str, Any]] = ()
    start_loss: float | None = None


def describe_scores(record: dict[str, Any], judge: Judging) -> str:
    """Format the validation scores of a record for the terminal."""
    metric = judge.metric
    text = f"{metric} {100 * record[metric]:.2f}"
    if metric == "val/SP":
        few = isinstance(judge, Judge) and judge.known < FEWEST_SHOWN
        shown = f"not shown (< {FEWEST_SHOWN} samples)" if few else shown_score(record[metric])
        text = f"{metric} {shown}"
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
    val: Samples,
    mean_labels: float,
    predict: Callable[[], Logits | ScoreBlocks],
    report: Callable[[str], None],
) -> Fitted:
    """Solve the head of a model, and leave in it the solution that the judge prefers.

    A linear head is solved for each penalty; for method `auto`, an ensemble takes its place.

    Args:
        config: Resolved settings of the run.
        objective: Started method whose loss is minimised; None for the head in closed form that `config`
            names.
        top: Maps features to logits.
        samples: Features and observed labels to learn from.
        judge: Scores the validation samples.
        val: Validation samples.
        mean_labels: Mean labels per sample K, for heads in closed form.
        predict: Computes the logits of the validation samples with the current head.
        report: Called with a line for each penalty.

    Raises:
        SpmlError: Scores or loss are not finite.
        InputError: All samples have the same features, or no label is a known positive.
    """
    if config.method == AUTO:
        return _solve_ensemble(config, top, samples, val, judge, mean_labels, report)
    if objective is None:
        return _solve_closed_form(config, top, samples, val, judge, mean_labels, predict, report)
    solutions = _Solutions(config, judge, report)
    best_head: dict[str, Tensor] = {}

    def add(number: int, record: dict[str, Any]) -> None:
        nonlocal best_head
        if solutions.add(predict(), record):
            best_head = {name: value.clone() for name, value in top.head.state_dict().items()}

    solve_path(objective, top, samples, on_solution=add, epochs=config.epochs)
    top.head.load_state_dict(best_head)
    passes = sum(record["evaluations"] for record in solutions.history)
    return solutions.fitted(passes, {name: value.clone() for name, value in objective.state_dict().items()})


class _Solutions:
    """Judges solutions by the logits of the validation samples."""

    def __init__(self, config: Config, judge: Judging, report: Callable[[str], None]) -> None:
        self._config, self._judge, self._report = config, judge, report
        self._started = time.perf_counter()
        self._ranks: dict[str, Any] = {}
        self._count = 0
        self.history: list[dict[str, Any]] = []
        self.best = 0

    def add(self, scores: Logits | ScoreBlocks, record: dict[str, Any]) -> bool:
        """Judge a solution. Returns whether it is the best so far."""
        metric, number = self._judge.metric, len(self.history)
        self._count = len(scores)
        if isinstance(scores, np.ndarray):  # blocks are checked when they are computed
            check_finite(scores, self._config)
        seconds = round(time.perf_counter() - self._started, 3)
        record = {**record, **self._judge(scores), "seconds": seconds}
        self.history.append(record)
        if is_best := not number or record[metric] > self.history[self.best][metric]:
            self.best = number
        if "penalty" in record:
            if isinstance(self._judge, Judge) and metric == "val/SP":
                self._ranks[str(number)] = self._judge.ranks(scores)
            unsolved = "" if record.get("converged", True) else "  not converged"
            self._report(f"penalty {record['penalty']:<10}  {describe_scores(record, self._judge)}{unsolved}")
        return is_best

    def fitted(self, passes: int, state: dict[str, Tensor]) -> Fitted:
        """Result, after these passes over the training set."""
        seconds = time.perf_counter() - self._started
        return Fitted(self.history, self.best, seconds, passes, state, self._tie_set_size())

    def _tie_set_size(self) -> int | None:
        """Number of solutions in the tie set of the best one; None where the SP-score did not choose."""
        if not self._ranks:
            return None
        assert isinstance(self._judge, Judge)
        return len(compare_ranks(self._ranks, self._count, self._judge.mean_labels).tie_set)


def _solve_closed_form(
    config: Config,
    top: models.Top,
    train: Samples,
    val: Samples,
    judge: Judging,
    mean_labels: float,
    predict: Callable[[], Logits | ScoreBlocks],
    report: Callable[[str], None],
) -> Fitted:
    """Solve the head that `config` names for each penalty, and fill it with the best solution.

    Of many classes, only those that the judge asks for are solved for each penalty, and all of them for the
    best one.
    """
    assert isinstance(top.head, nn.Linear)
    solutions = _Solutions(config, judge, report)
    some = isinstance(judge, Judge) and models.Columns.of_samples(val).own is not None
    solver = models.ClosedForm(config.model.head, models.moments(train, top), mean_labels)
    for penalty in solver.penalties:
        scores: Logits | ScoreBlocks
        if some:
            scores = _some_scores(config, top, val, partial(solver.scorer, penalty))
        else:
            solver.fill(top.head, penalty)
            scores = predict()
        name = "infinity" if penalty is not None and math.isinf(penalty) else penalty
        solutions.add(scores, {} if penalty is None else {"penalty": name})
    if some or solutions.best < len(solver.penalties) - 1:
        solver.fill(top.head, solver.penalties[solutions.best])
    return solutions.fitted(1, {})


def _some_scores(
    config: Config, top: models.Top, val: Samples, scorer: Callable[[Rows], Callable[[Tensor], Tensor]]
) -> ScoreBlocks:
    """Logits of validation samples for the classes that a judge asks for, of which `scorer` makes a function.

    Raises:
        SpmlError: Logits are not finite; raised when they are computed.
    """
    rows, classes, device = 4 * config.batch_size, val.observed.num_classes, next(top.parameters()).device

    @torch.no_grad()
    def compute(columns: Rows | None) -> Iterator[Logits]:
        score = scorer(np.arange(classes) if columns is None else columns)
        for first in range(0, len(val), rows):
            features = val.inputs.fetch(range(first, min(first + rows, len(val))), None).to(device)
            logits: Logits = score(top.scaling(features.float())).cpu().numpy()
            check_finite(logits, config)
            yield logits

    return ScoreBlocks(len(val), classes, compute)


def check_finite(scores: Logits, config: Config) -> None:
    """Check the scores of a head that was solved.

    Raises:
        SpmlError: One is NaN or infinite.
    """
    if not np.isfinite(scores).all():
        raise SpmlError(
            f"{config.data.path}: with these features, scores become NaN or infinite in float32: scale them "
            "(--model.scaling standard)."
        )


def _solve_ensemble(
    config: Config,
    top: models.Top,
    train: Samples,
    val: Samples,
    judge: Judging,
    mean_labels: float,
    report: Callable[[str], None],
) -> Fitted:
    """Solve the auto head, and judge it by scores of validation samples that it was not solved on."""
    started, count = time.perf_counter(), len(train)
    by_truth = isinstance(judge, Judge) and judge.metric == "val/mAP"
    labelled = sum(int((part.observed.positives_per_sample() > 0).sum()) for part in (train, val))
    few = labelled < models.FEW and (count + len(val)) * train.observed.num_classes <= models.MOST_SCORES
    known = KnownLabels(train, val)

    def score(scores: npt.NDArray[np.float32], rows: Rows, classes: Rows) -> float:
        if by_truth:
            assert isinstance(judge, Judge)
            return judge.true_map(scores, rows - count)
        return sp_score(scores, known.of(rows, classes), mean_labels).score

    def keep(logits: models.HeldOutLogits) -> tuple[dict[str, float], HeldOutScores]:
        """Metrics and a part of the logits where not all fit; all logits where they do."""
        classes = train.observed.num_classes
        if fits(len(val), classes):
            return {}, HeldOutScores(models.keep_all(logits), np.empty(0, np.int64))
        blocks = ScoreBlocks(len(val), classes, lambda columns: (block for _, block in logits(columns)))
        drawn = drawn_part(len(val), classes, config.seed)
        kept = keep_scores(_rows_of(blocks, drawn), val.observed.take(drawn))
        return judge(blocks), HeldOutScores(kept, count + drawn)

    solved = models.fit_auto(
        train,
        val,
        score,
        cross_validate=few and not by_truth,
        mean_labels=mean_labels,
        seed=config.seed,
        report=report,
        classes=np.arange(train.observed.num_classes) if by_truth else None,
        keep=keep,
    )
    top.set_ensemble(solved.head)
    metrics, held_out = solved.held_out
    if not metrics:
        check_finite(held_out.scores, config)
        held_out = held_out._replace(rows=solved.rows)
        metrics = judge(held_out.of_validation(count))
    seconds, members = time.perf_counter() - started, solved.head.describe()
    for line in _members_table(members):
        report(line)
    record = {"members": len(members), **metrics, "seconds": round(seconds, 3)}
    return Fitted([record], 0, seconds, 1, {}, members=members, held_out=held_out, tried=solved.tried)


def _rows_of(scores: ScoreBlocks, drawn: Rows) -> Iterator[tuple[Rows, Logits]]:
    """Blocks of some samples, ascending, numbered from 0."""
    for rows, block in scores.blocks():
        first, last = np.searchsorted(drawn, [rows[0], rows[-1] + 1])
        if first < last:
            yield np.arange(first, last), block[drawn[first:last] - rows[0]]


class KnownLabels:
    """Observed labels of training samples, followed by validation samples, as the SP-score takes them."""

    def __init__(self, train: Samples, val: Samples) -> None:
        self._parts = train, val
        self._rows: npt.NDArray[np.int64] | None = None
        self._labels: npt.NDArray[Any] | None = None

    def of(self, rows: Rows, classes: Rows | None = None) -> npt.NDArray[Any]:
        """Labels (H, C) of some samples in {-1, 0, +1}, or (H, J) of some classes, ascending.

        Those of the last samples are kept: all solutions have the same.
        """
        if self._rows is not rows or self._labels is None:
            train, val = self._parts
            position = np.argsort(rows, kind="stable")
            in_val = rows[position] >= len(train)
            parts = [train.observed.take(rows[position][~in_val])]
            parts.append(val.observed.take(rows[position][in_val] - len(train)))
            if classes is not None and len(classes) < train.observed.num_classes:
                parts = [part.take_classes(classes) for part in parts]
            ternary = np.concatenate([part.to_ternary() for part in parts])
            self._rows, self._labels = rows, ternary[np.argsort(position)]
        return self._labels


def _members_table(members: Sequence[dict[str, Any]]) -> list[str]:
    """Lay out the members of an ensemble, the largest weight first."""
    lines = [f"{'member':<38} {'head':<6} {'penalty':>9} {'score':>6} {'weight':>7}"]
    for member in sorted(members, key=lambda member: -member["weight"]):
        score = f"{100 * member['score']:.2f}"
        lines.append(
            f"{member['space']:<38} {member['head']:<6} {member['penalty']:>9} {score:>6} "
            f"{member['weight']:>7.3f}"
        )
    return lines
