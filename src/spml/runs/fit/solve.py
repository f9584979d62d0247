"""Solve a head instead of training it: one solution per penalty, of which the judge prefers one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ... import models
from ...common.errors import SpmlError
from ...common.messages import log
from ...config import AUTO
from ...data import Samples
from ...decisions import Judge
from ...engine.lbfgs import solve_path
from ...engine.loop import Judging
from ...metrics import FEWEST_SHOWN, compare_ranks, shown_score, sp_score
from ...scores import InMemory, Ranks, ScoreBlocks, Scores, fits
from ..folder.held_out import drawn_part, keep_scores, labels_of

if TYPE_CHECKING:
    from .build import Build

ENOUGH_HELD_OUT = 5000
"""Held-out images whose windows are scored: fewer validation samples are joined by training samples.

Audits and thresholds use these scores, so that up to this size the windows are scored once.
"""

Rows = npt.NDArray[np.int64]
Logits = npt.NDArray[np.float32]


class HeldOutScores(NamedTuple):
    """Scores of samples by a model that was not fitted to them.

    Attributes:
        scores: Logits (H, C), in memory or the highest of each sample.
        rows: Their samples, numbered over training, then validation samples, int64 (H,).
        windows: Number of the window that speaks most for each class, int16 (H, C); None where windows are
            not scored.
        compared: Logits (H, C) by which models are compared, where in `scores` the label of a sample is left
            out of its own logit: that lowers known labels among the samples of a class. None = `scores`.
    """

    scores: Scores
    rows: Rows
    windows: npt.NDArray[np.int16] | None = None
    compared: Scores | None = None

    @property
    def to_compare(self) -> Scores:
        """Logits (H, C) by which models are compared."""
        return self.scores if self.compared is None else self.compared

    def of_validation(self, train: int, *, compared: bool = False) -> Scores:
        """Scores of the validation samples, in their order, or those by which models are compared.

        Args:
            train: Number of training samples.
            compared: Whether to take those by which models are compared.
        """
        scores, order = self.to_compare if compared else self.scores, np.argsort(self.rows)
        rows = order[self.rows[order] >= train]
        return scores if np.array_equal(rows, np.arange(len(self.rows))) else scores.take(rows)


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
        local: What was tried of local evidence, and its weights; None if nothing was.
        sizes: Sizes of images that were tried, and the weights of those that are used; None if one was given.
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
    local: dict[str, Any] | None = None
    sizes: dict[str, Any] | None = None


def describe_scores(record: dict[str, Any], judge: Judging) -> str:
    """Format the held-out score of a record for the terminal, and the SP-score where that selects."""
    if judge.metric == "val/mAP":
        return f"mAP {100 * record['val/mAP']:.2f}"
    text = f"held-out score not shown (< {FEWEST_SHOWN} samples)"
    if not isinstance(judge, Judge) or judge.known >= FEWEST_SHOWN:
        naive = f"held-out score {100 * record['val/naive_mAP']:.2f}, " if "val/naive_mAP" in record else ""
        text = f"{naive}SP-score {shown_score(record['val/SP'])}"
    return f"{text}  (true mAP {100 * record['val/mAP']:.2f}, not used)" if "val/mAP" in record else text


class Solver:
    """Solves the head of a model, and leaves in it the solution that the judge prefers.

    Args:
        build: Model that has been placed.
        judge: Scores the validation samples.
    """

    def __init__(self, build: Build, judge: Judging) -> None:
        self._build, self._config, self._top, self._judge = build, build.run.config, build.top, judge
        self._train, self._val = build.data.splits["train"], build.data.splits["val"]
        self._mean_labels = build.run.head_mean_labels.value
        self._started = time.perf_counter()
        self._ranks: dict[str, Ranks] = {}
        self._history: list[dict[str, Any]] = []
        self._best = 0

    def solve(self) -> Fitted:
        """Solve a linear head for each penalty; for method `auto`, an ensemble takes its place.

        Raises:
            SpmlError: Scores or loss are not finite.
            InputError: All samples have the same features, or no label is a known positive.
        """
        if self._config.method == AUTO:
            return self._ensemble()
        if (objective := self._build.objective) is None:
            return self._closed_form()
        head, best = self._top.head, dict[str, Tensor]()

        def add(number: int, record: dict[str, Any]) -> None:
            if self._add(self._build.scores(self._val), record):
                best.update({name: value.clone() for name, value in head.state_dict().items()})

        solve_path(objective, self._top, self._train, on_solution=add, epochs=self._config.epochs)
        head.load_state_dict(best)
        passes = sum(record["evaluations"] for record in self._history)
        state = {name: value.clone() for name, value in objective.state_dict().items()}
        return self._fitted(passes, state)

    def _closed_form(self) -> Fitted:
        """Solve the head that the run names for each penalty, and fill it with the best solution.

        Of many classes, only those that the judge asks for are solved for each penalty, and all of them for
        the best one.
        """
        head = self._top.head
        assert isinstance(head, nn.Linear)
        some = isinstance(self._judge, Judge) and models.Columns.of_samples(self._val).own is not None
        stats = models.moments(self._train, self._top.scaling, device=next(self._top.parameters()).device)
        solver = models.ClosedForm(self._config.model.head, stats, self._mean_labels)
        for penalty in solver.penalties:
            scores: Scores
            if some:
                scores = self._some_scores(partial(solver.scorer, penalty))
            else:
                solver.fill(head, penalty)
                scores = self._build.scores(self._val)
            name = "infinity" if penalty is not None and math.isinf(penalty) else penalty
            self._add(scores, {} if penalty is None else {"penalty": name})
        if some or self._best < len(solver.penalties) - 1:
            solver.fill(head, solver.penalties[self._best])
        return self._fitted(1, {})

    def solve_auto(self, *, windows: bool = False, every: bool = False) -> models.AutoHead:
        """Solve the auto head, or one that is going to score `windows`.

        With `every`, members are selected by cross-validation whatever the number of samples, so that all of
        them are held out; the scores of all must fit (`models.MOST_JUDGED`).

        `held_out` of the result is a pair: metrics, empty where all scores fit, and `HeldOutScores`.
        """
        train, val, judge = self._train, self._val, self._judge
        count, classes = len(train), train.observed.num_classes
        by_truth = isinstance(judge, Judge) and judge.metric == "val/mAP"
        labelled = sum(int((part.observed.positives_per_sample() > 0).sum()) for part in (train, val))
        few = every or labelled < models.FEW or (windows and len(val) < ENOUGH_HELD_OUT)
        few = few and (count + len(val)) * classes <= models.MOST_JUDGED

        def keep(logits: models.HeldOutLogits) -> tuple[dict[str, float], HeldOutScores]:
            """Metrics and a part of the logits where not all fit; all logits where they do."""
            if fits(len(val), classes):
                scores, rows = InMemory(models.keep_all(logits)), np.empty(0, np.int64)
                if logits.left_out is None:
                    return {}, HeldOutScores(scores, rows)
                return {}, HeldOutScores(InMemory(logits.left_out), rows, compared=scores)
            blocks = ScoreBlocks(len(val), classes, lambda columns: (block for _, block in logits(columns)))
            drawn = drawn_part(len(val), classes, self._config.seed)
            kept = keep_scores(blocks.take(drawn), val.observed.take(drawn))
            return judge(blocks), HeldOutScores(kept, count + drawn)

        return models.fit_auto(
            train,
            val,
            HeldOutJudge(judge, train, val, self._mean_labels),
            cross_validate=few and not by_truth,
            mean_labels=self._mean_labels,
            seed=self._config.seed,
            classes=np.arange(classes) if by_truth else None,
            keep=keep,
            windows=windows,
            forest=not self._build.run.spec.size,
            names=self._build.names,
            budget=self._build.budget,
        )

    def _ensemble(self) -> Fitted:
        """Solve the auto head, and judge it by scores of validation samples that it was not solved on."""
        solved = self.solve_auto()
        self._top.set_ensemble(solved.head)
        metrics, held_out = solved.held_out
        if not metrics:
            self._check_finite(held_out.scores.gather())
            held_out = held_out._replace(rows=solved.rows)
            metrics = self._judge(held_out.of_validation(len(self._train), compared=True))
        seconds, members = time.perf_counter() - self._started, solved.head.describe()
        log.debug(f"{'member':<38} {'head':<6} {'penalty':>9} {'score':>6} {'weight':>7}")
        for member in sorted(members, key=lambda member: -member["weight"]):
            log.debug(
                f"{member['space']:<38} {member['head']:<6} {member['penalty'] or '':>9} "
                f"{100 * member['score']:>6.2f} {member['weight']:>7.3f}"
            )
        record = {"members": len(members), **metrics, "seconds": round(seconds, 3)}
        tried = solved.tried
        return Fitted([record], 0, seconds, 1, {}, members=members, held_out=held_out, tried=tried)

    def _add(self, scores: Scores, record: dict[str, Any]) -> bool:
        """Judge a solution. Returns whether it is the best so far."""
        metric, number = self._judge.metric, len(self._history)
        if scores.array is not None:  # blocks are checked when they are computed
            self._check_finite(scores.array)
        seconds = round(time.perf_counter() - self._started, 3)
        record = {**record, **self._judge(scores), "seconds": seconds}
        self._history.append(record)
        if is_best := not number or record[metric] > self._history[self._best][metric]:
            self._best = number
        if "penalty" in record:
            if isinstance(self._judge, Judge) and metric == "val/SP":
                self._ranks[str(number)] = self._judge.ranks(scores)
            line = f"penalty {record['penalty']:<10}  {describe_scores(record, self._judge)}"
            if record.get("converged", True):
                log.debug(line)
            else:
                log.info(f"{line}  not converged")
        return is_best

    def _fitted(self, passes: int, state: dict[str, Tensor]) -> Fitted:
        """Result, after these passes over the training set, with the size of the tie set of the best one."""
        seconds, tied = time.perf_counter() - self._started, None
        if self._ranks:
            assert isinstance(self._judge, Judge)
            k, groups = self._judge.mean_labels, self._val.groups
            tied = len(compare_ranks(self._ranks, len(self._val), k, groups=groups).tie_set)
        return Fitted(self._history, self._best, seconds, passes, state, tied)

    def _some_scores(self, scorer: Callable[[Rows], Callable[[Tensor], Tensor]]) -> ScoreBlocks:
        """Logits of validation samples for the classes that a judge asks for, by the function of `scorer`.

        Raises:
            SpmlError: Logits are not finite; raised when they are computed.
        """
        top, val, rows = self._top, self._val, 4 * self._config.batch_size
        classes, device = val.observed.num_classes, next(top.parameters()).device

        @torch.no_grad()
        def compute(columns: Rows | None) -> Iterator[Logits]:
            score = scorer(np.arange(classes) if columns is None else columns)
            for first in range(0, len(val), rows):
                features = val.inputs.fetch(range(first, min(first + rows, len(val))), None).to(device)
                logits: Logits = score(top.scaling(features.float())).cpu().numpy()
                self._check_finite(logits)
                yield logits

        return ScoreBlocks(len(val), classes, compute)

    def _check_finite(self, scores: npt.NDArray[np.floating]) -> None:
        """Check the scores of a head that was solved.

        Raises:
            SpmlError: One is NaN or infinite.
        """
        if not np.isfinite(scores).all():
            raise SpmlError(
                f"{self._config.data.path}: with these features, scores become NaN or infinite in float32: "
                "scale them (model.scaling=standard)."
            )


class HeldOutJudge:
    """Scores held-out samples, numbered over training, then validation samples, by what a run selects by: the
    mAP of validation samples whose labels are all known, or the SP-score of all.

    Args:
        judge: Scores validation samples.
        train, val: The samples.
        mean_labels: Mean labels per sample K of the SP-score.
    """

    def __init__(self, judge: Judging, train: Samples, val: Samples, mean_labels: float) -> None:
        self._parts, self._mean_labels = (train, val), mean_labels
        self._truth = judge if isinstance(judge, Judge) and judge.metric == "val/mAP" else None
        self._rows: Rows | None = None
        self._labels: npt.NDArray[Any] | None = None

    @property
    def by(self) -> str:
        """What it scores by, for a line."""
        return "mAP" if self._truth else f"SP-score at K = {self._mean_labels:.3g}"

    def __call__(self, scores: Logits, rows: Rows, classes: Rows | None = None) -> float:
        """Score of logits (H, C) of some samples, or (H, J) of some classes, ascending."""
        if self._truth:
            of_val = rows >= len(self._parts[0])
            return self._truth.true_map(scores[of_val], rows[of_val] - len(self._parts[0]))
        return sp_score(scores, self.ternary(rows, classes), self._mean_labels).score

    def ternary(self, rows: Rows, classes: Rows | None = None) -> npt.NDArray[Any]:
        """Observed labels (H, C) in {-1, 0, +1}, or (H, J) of some classes.

        Those of the last samples are kept: all solutions have the same.
        """
        if self._rows is not rows or self._labels is None:
            self._rows, self._labels = rows, labels_of(*self._parts, rows, classes).to_ternary()
        return self._labels
