"""Local evidence of a fitted model: whether windows of the feature map tell more than the whole image."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ... import models
from ...common.draws import permutation
from ...common.errors import InputError
from ...common.messages import log, progress
from ...common.torch_draws import borrowed_generators
from ...config import AUTO
from ...decisions import Judge
from ...engine.loop import Judging
from ...metrics import FEWEST_SHOWN, shown_score, sp_score
from ...scores import InMemory
from ..folder.held_out import keep_scores
from .build import Build, no_windows, with_parts
from .solve import ENOUGH_HELD_OUT, Fitted, HeldOutScores, KnownLabels

Rows = npt.NDArray[np.int64]

_MOST_SCORES = 1 << 26  # scores of all variants of held-out samples: 256 MiB


class _Variants(nn.Module):
    """Scores of whole images and of windows, as `Top.variants` gives them, (B, V C)."""

    def __init__(
        self,
        backbone: models.Backbone,
        top: models.Top,
        windows: models.Windows,
        advance: Callable[[int], None],
    ) -> None:
        super().__init__()
        self.backbone, self.top, self.windows, self._advance = backbone, top, windows, advance

    def forward(self, inputs: Tensor) -> Tensor:
        scores = self.top.variants(*self.windows.features(self.backbone, inputs))
        self._advance(len(inputs))
        return scores.transpose(0, 1).flatten(1)


def fit_with_windows(build: Build, fit: Callable[[], Fitted], judge: Judging) -> Fitted:
    """Fit a model, which scores windows, too, where that is better.

    The auto head that scores windows is another one than that of whole images. It is tried first, because
    the usual one takes several times as long, and is not needed where windows are better.

    Args:
        build, judge: As in `use_windows`.
        fit: Fits the model as it is without windows.
    """
    config = build.run.config
    if config.method != AUTO or config.model.local == "off":
        return use_windows(build, fit(), judge)
    started = time.perf_counter()
    fitted = use_windows(build, None, judge)
    if fitted.local is None or fitted.local["weights"] is None:
        return fit()._replace(local=fitted.local)
    seconds = time.perf_counter() - started
    record = {"members": len(fitted.members), **fitted.local["validation"], "seconds": round(seconds, 3)}
    return fitted._replace(history=[record], seconds=seconds)


def use_windows(build: Build, fitted: Fitted | None, judge: Judging, *, every: bool = False) -> Fitted:
    """Score windows of the feature map, too, where the held-out samples say that this is better.

    Their images go through the backbone once more: maps take too much memory to be kept. Parts of feature
    files take the place of windows.

    Args:
        build: Model that has been fitted, or is an auto head. It scores windows afterwards if this is better,
            and takes images.
        fitted: Result of the fit; None of an auto head that has not been solved for whole images.
        judge: Scores validation samples.
        every: Score all held-out samples of an auto head, which are then all of its samples, if they fit into
            memory.

    Returns:
        `fitted`, with the scores of held-out samples by the model as it is now.

    Raises:
        InputError: Windows are required (`model.local` is `on`), and the model has none.
    """
    fitted = fitted or Fitted([], 0, 0.0, 1, {})
    local = build.run.config.model.local
    required = local in ("on", "crops")
    if local == "off" or build.backbone is None:
        return fitted
    try:
        windows = models.crops() if local == "crops" else build.windows()
        solved = _solve_for_windows(build, judge, every)
    except InputError as error:
        if required:
            raise no_windows(local, error) from error
        log.info(f"local evidence: none, because {str(error).rstrip('.')}")
        return fitted
    count, classes = len(build.data.splits["train"]), len(build.data.classes)
    heads = _held_out_heads(build, solved)
    most = max(1, _MOST_SCORES // (classes * (len(windows.sides) + 2)))
    heads = _some_of(heads, count, most, build.run.config.seed, every)
    rows = np.concatenate([of_head for of_head, _ in heads])
    if not required and len(rows) < FEWEST_SHOWN:
        log.info(
            f"local evidence: none, because {len(rows)} held-out samples can't tell whether it is better"
        )
        return fitted
    with progress(len(rows), "parts of samples") as advance:
        scored = [_variants(build, top, windows, of_head, advance) for of_head, top in heads]
    variants = torch.cat(scored, 1)
    known = KnownLabels(build.data.splits["train"], build.data.splits["val"])
    labels = known.of(rows)
    by_truth = isinstance(judge, Judge) and judge.metric == "val/mAP"
    mean_labels = build.run.head_mean_labels.value

    def score(scores: Tensor) -> float:
        if by_truth:
            assert isinstance(judge, Judge)
            return judge.true_map(scores.numpy(), rows - count)
        return sp_score(scores.numpy(), labels, mean_labels).score

    weighed, tried = models.fit_local(
        variants,
        torch.from_numpy(labels == 1),
        windows,
        score,
        mean_labels=mean_labels,
        required=required,
    )
    described: dict[str, Any] = {"windows": msgspec.to_builtins(windows), "scores": tried}
    what = "crops of the image" if windows.crops else "windows of the feature map"
    what = what if build.backbone.spec.size else "parts"
    whole = tried["whole image"]
    best = max(list(tried)[1:], key=lambda name: tried[name])
    by = "mAP" if by_truth else f"SP-score at K = {mean_labels:.3g}"
    compared = (
        f"{by} of {len(rows):,} held-out samples: {shown_score(whole)} by the whole image, "
        f"{shown_score(tried[best])} by {best}"
    )
    if weighed is None:
        log.info(f"local evidence: {what} are not used ({compared})")
        return fitted._replace(local={**described, "weights": None})
    described["weights"] = dict(zip(tried, weighed.settings.weights, strict=True))
    why = f", as `local` is {local}" if required and whole >= tried[best] else ""
    log.info(f"local evidence: {what} are scored, too{why} ({compared})")
    if solved:
        build.top.set_ensemble(solved.head.to(build.fabric.device))
        fitted = fitted._replace(members=solved.head.describe(), tried=solved.tried)
    logits = weighed(variants).numpy()
    held_out = HeldOutScores(keep_scores(InMemory(logits), known.labels(rows)), rows)
    build.score_windows(weighed)
    of_val = held_out.of_validation(count)
    if len(of_val) == len(build.data.splits["val"]):
        described["validation"] = judge(of_val)
    else:  # of a part of the samples
        described["validation"] = {"val/SP": score(torch.from_numpy(logits))}
    return fitted._replace(local=described, held_out=held_out)


def _solve_for_windows(build: Build, judge: Judging, every: bool) -> models.AutoHead | None:
    """The auto head for windows, in place of one with members that do not suit them; None for other heads.

    Raises:
        InputError: The head can't be applied to windows.
    """
    if build.top.takes_maps:
        raise InputError("the head takes the feature map itself.")
    if build.run.config.method != AUTO:
        return None
    return build.solver(judge).solve_auto(windows=True, every=every)


def _held_out_heads(build: Build, solved: models.AutoHead | None) -> list[tuple[Rows, models.Top]]:
    """Held-out samples, and tops that were not fitted to them."""
    if solved is None:
        count, val = len(build.data.splits["train"]), len(build.data.splits["val"])
        return [(count + np.arange(val), build.top)]
    tops = []
    for rows, head in solved.parts:
        with borrowed_generators():
            top = models.Top(build.top.num_features, build.top.num_classes, scaling=models.RAW)
        top.set_ensemble(head)
        tops.append((rows, top.to(build.fabric.device)))
    return tops


def _some_of(
    heads: list[tuple[Rows, models.Top]], count: int, most: int, seed: int, every: bool
) -> list[tuple[Rows, models.Top]]:
    """The held-out samples whose windows are scored: validation samples, and some training samples if there
    are fewer than `ENOUGH_HELD_OUT`.

    Args:
        heads: All of them, as `_held_out_heads` gives them.
        count: Number of training samples.
        most: Number of samples that fit into memory.
        seed: Seed of the draw.
        every: As many as fit into memory.
    """
    rows = np.concatenate([of_head for of_head, _ in heads])
    drawn = rows[permutation(len(rows), "local evidence", seed)]
    drawn = np.concatenate([drawn[drawn >= count], drawn[drawn < count]])
    wanted = len(drawn) if every else max(ENOUGH_HELD_OUT, int((rows >= count).sum()))
    chosen = drawn[: min(most, wanted)]
    return [(np.sort(of_head[np.isin(of_head, chosen)]), top) for of_head, top in heads]


def _variants(
    build: Build, top: models.Top, windows: models.Windows, rows: Rows, advance: Callable[[int], None]
) -> Tensor:
    """Scores (V, H, C) of images, numbered over training, then validation samples."""
    assert build.backbone is not None
    network, start, parts = _Variants(build.backbone, top, windows, advance), 0, []
    for name in ("train", "val"):
        samples = build.run.data.splits[name]
        own = rows[(rows >= start) & (rows < start + len(samples))] - start
        start += len(samples)
        if len(own):
            chosen = with_parts(samples.take(own))
            parts.append(build.logits(chosen, network, workers=build.run.config.data.workers))
    scores = torch.from_numpy(np.concatenate(parts))
    return scores.view(len(scores), len(windows.sides) + 2, -1).transpose(0, 1)
