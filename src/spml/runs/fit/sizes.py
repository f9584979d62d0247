"""Sizes of images of an auto head on a frozen network: which are used, and the average of their scores."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from ... import models
from ...common.draws import permutation
from ...common.errors import InputError, first_line
from ...common.messages import log
from ...decisions import Judge
from ...metrics import shown_score
from ...models.solved.members import LEAST_WEIGHT, class_logits, relative_weights
from ...scores import InMemory, Scores
from ..predict.features import drop_windows
from ..settle.resolve import Resolved
from .build import Build, frozen_features
from .local import fit_with_windows
from .solve import Fitted, HeldOutJudge, HeldOutScores, Logits, Rows

_PART = 1000
"""Samples by which the best two of three sizes are found, where there are at least twice as many."""

_USED = 2


class _AtSize(NamedTuple):
    """An auto head for images of one size, and its scores of held-out and test samples."""

    size: int
    samples: int  # training and validation samples
    score: float
    logits: Logits  # of held-out samples
    rows: Rows
    fitted: Fitted
    top: models.Top
    test: Scores | None
    seconds: float


def check_sizes(backbone: models.Backbone, sizes: tuple[int, ...]) -> None:
    """Check that a network takes images of each size.

    Raises:
        InputError: It does not.
    """
    for size in sizes:
        image = torch.zeros(1, 3, backbone.spec.size, backbone.spec.size, dtype=torch.uint8)
        try:
            with torch.inference_mode():
                backbone.at(size).eval()(image)
        except (RuntimeError, ValueError, AssertionError) as error:
            raise InputError(
                f"backbone {backbone.spec.name} can't take images of {size} pixels ({first_line(error)}): "
                "state other sizes (data.size)."
            ) from error


def fit_sizes(build: Build, judge: Judge, cache: Path, *, cluster: str | None = None) -> Fitted:
    """Solve an auto head for each size of images that may be used, and average the best one or two.

    Of three sizes, one is left out by the scores of a part of the samples, where there are many. weight =
    exp((score - best) / (.03 best)), and sizes below .05 are dropped, as for the members of the auto head.
    Sizes that are stated are averaged likewise. The score of the sum decides nothing: by one known label per
    sample it may be lower than that of the best size where the sum is a point of mAP ahead
    (benchmarks/results/sizes.md).

    Args:
        build: Model that has not been placed. It predicts images afterwards.
        judge: Scores validation samples.
        cache: Folder for features.
        cluster: As in `run_training`.
    """
    run, sizes, tried, part = build.run, build.run.sizes, list[dict[str, Any]](), build.run
    found: list[_AtSize] = []

    def fit(of: Resolved, sizes: Sequence[int]) -> list[_AtSize]:
        """Solve heads for sizes, the most wanted first, as far as time allows."""
        fitted, count = list[_AtSize](), _count(of)
        for size in sizes:
            cost, last = 0.0, (fitted or found)[-1:]
            for each in last:
                cost = each.seconds * (size / each.size) ** 2 * count / each.samples
            needed = not last or (size == sizes[-1] and not fitted)
            if needed or build.budget.allows(f"images of {size} pixels", cost):
                fitted.append(_fit_at(build, of, size, judge, cache, cluster))
        tried.extend(
            {"size": each.size, "samples": each.samples, judge.metric: each.score, "seconds": each.seconds}
            for each in fitted
        )
        return fitted

    if run.config.data.size == "auto" and len(sizes) > _USED:
        part = _part_of(run)
        found = fit(part, sizes)
        weights = _weights([each.score for each in found])
        ranked = sorted(zip(weights, found, strict=True), key=lambda pair: -pair[0])[:_USED]
        found = [each for weight, each in ranked if weight > 0]
        sizes = tuple(each.size for each in found)
        told = ", ".join(f"{each['size']} {shown_score(each[judge.metric])}" for each in tried)
        log.info(
            f"sizes of images, {_held_out_judge(run, judge).by} of {_count(part):,} samples: {told}; "
            f"{' and '.join(map(str, sizes))} used"
        )
    if part is not run or not found:
        found = fit(run, sizes)
    if not run.config.data.cache:
        for size in run.sizes:
            assert build.backbone is not None
            drop_windows(cache, build.backbone.at(size).key())
    return _join(build, found, judge, tried)


def _part_of(run: Resolved) -> Resolved:
    """The run with a random part of its training and validation samples; itself where it has few."""
    splits, truth = dict(run.data.splits), dict(run.data.truth)
    share = _PART / _count(run)
    if share > 0.5:
        return run
    for name in ("train", "val"):
        count = max(1, round(share * len(splits[name])))
        rows = np.sort(permutation(len(splits[name]), f"sizes {name}", run.config.seed)[:count])
        splits[name] = splits[name].take(rows)
        if name in truth:
            truth[name] = truth[name].take(rows)
    for name in splits.keys() - {"train", "val"}:
        del splits[name]
        truth.pop(name, None)
    return replace(run, data=replace(run.data, splits=splits, truth=truth))


def _fit_at(
    build: Build, run: Resolved, size: int, judge: Judge, cache: Path, cluster: str | None
) -> _AtSize:
    """Solve an auto head for images of one size."""
    assert build.backbone is not None
    started, own = time.perf_counter(), copy.copy(build)
    own.run, own.backbone = run, build.backbone.at(size)
    own.place(frozen_features(run, own.backbone, build.fabric, cache, cluster=cluster, windows=True))
    if run is not build.run:
        truth, config = run.data.truth.get("val"), run.config
        judge = Judge(run.data.splits["val"], truth, config.select, config.mean_labels, run.data.empty)
    fitted = fit_with_windows(own, lambda: own.fit(judge), judge)
    assert fitted.held_out is not None
    logits, rows = fitted.held_out.to_compare.gather(), fitted.held_out.rows
    score = _held_out_judge(run, judge)(logits, rows)
    test = own.scores(own.data.splits["test"]) if "test" in run.data.truth else None
    seconds = time.perf_counter() - started
    return _AtSize(size, _count(run), score, logits, rows, fitted, own.top, test, seconds)


def _weights(scores: list[float]) -> list[float]:
    """Weights of sizes by their scores, which sum to 1."""
    kept = [each if each >= LEAST_WEIGHT else 0.0 for each in relative_weights(scores)]
    return [weight / sum(kept) for weight in kept]


def _held_out_judge(run: Resolved, judge: Judge) -> HeldOutJudge:
    """Judge of held-out samples among the training and validation samples of a run."""
    splits = run.data.splits
    return HeldOutJudge(judge, splits["train"], splits["val"], run.head_mean_labels.value)


def _join(build: Build, found: list[_AtSize], judge: Judge, tried: list[dict[str, Any]]) -> Fitted:
    """Average the scores of sizes that help each other, the one with the largest weight first."""
    run, splits, mean_labels = build.run, build.run.data.splits, build.run.head_mean_labels.value
    score = _held_out_judge(run, judge)
    pairs = zip(_weights([each.score for each in found]), found, strict=True)
    used = sorted((pair for pair in pairs if pair[0] > 0), key=lambda pair: -pair[0])
    rows = reduce(np.intersect1d, [each.rows for _, each in used])
    parts, windows, start = [], [], 0
    for _, each in used:
        order = np.argsort(each.rows)
        own = order[np.isin(each.rows[order], rows)]
        parts.append(each.logits[own])
        assert each.fitted.held_out is not None
        if each.top.local and (found_in := each.fitted.held_out.windows) is not None:
            windows.append((parts[-1], found_in[own] + start))
            start += sum(each.top.local.settings.windows.counts)
    sums = np.average(parts, 0, [weight for weight, _ in used]).astype(np.float32)
    best = used[0][1]
    fitted, test, backbone = best.fitted, best.test, build.backbone
    if len(used) > 1:
        together = score(sums, rows)
        told = ", ".join(f"{each.size} {shown_score(each.score)}" for _, each in used)
        log.info(
            f"sizes of images, {score.by} of {len(rows):,} held-out samples: {told}, together "
            f"{shown_score(together)}"
        )
        # An average is closer to 0 than its parts: all get the line that makes logits of it.
        labels = torch.from_numpy(score.ternary(rows) == 1)
        offset, scale, left_out = class_logits(torch.from_numpy(sums), labels, mean_labels)
        for _, each in used:
            last: Any = each.top.local or each.top.head
            last.offset.copy_(offset.to(last.offset) + scale.to(last.offset) * last.offset)
            last.scale.mul_(scale.to(last.scale))
        sums = (offset + scale * torch.from_numpy(sums)).float().numpy()
        if test is not None:
            scores = [each.test.gather() for _, each in used if each.test is not None]
            test = InMemory(np.average(scores, 0, [weight for weight, _ in used]).astype(np.float32))
        strongest = None
        if windows:  # of the size with the highest logit, as in `Classifier`
            logits_at, numbers = (np.stack(each) for each in zip(*windows, strict=True))
            highest = logits_at.argmax(0)[None]
            strongest = np.take_along_axis(numbers, highest, 0)[0].astype(np.int16)
        held_out = HeldOutScores(InMemory(left_out.numpy()), rows, strongest, InMemory(sums))
        of_val = held_out.of_validation(len(splits["train"]), compared=True)
        complete = len(of_val) == len(splits["val"])
        measured = judge(of_val) if complete else {"val/SP": together}
        local = fitted.local and {**fitted.local, "validation": measured}
        history = [{**fitted.history[fitted.best], **measured}]
        fitted = fitted._replace(held_out=held_out, local=local, history=history, best=0)

    # From now on, the model predicts images.
    assert backbone is not None
    build.top, *others = (each.top for _, each in used)
    sizes = [models.SizeSettings(each.size, weight) for weight, each in used]
    if len(sizes) == 1 and best.size == backbone.spec.size:
        sizes = []
    build.classifier = models.Classifier(backbone, build.top, frozen=True, sizes=sizes, others=others)
    build.trained = build.classifier.to(build.fabric.device)
    build.data, build.test = run.data, test
    described = {"tried": tried, "weights": {str(each.size): weight for weight, each in used}}
    return fitted._replace(seconds=sum(each["seconds"] for each in tried), sizes=described)


def _count(run: Resolved) -> int:
    """Number of training and validation samples."""
    return len(run.data.splits["train"]) + len(run.data.splits["val"])
