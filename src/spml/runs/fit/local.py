"""Local evidence of a fitted model: whether windows of the feature map tell more than the whole image."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from ... import models
from ...common.draws import permutation
from ...common.errors import InputError
from ...common.messages import Advance, log, progress
from ...common.torch_draws import borrowed_generators
from ...config import AUTO
from ...engine.loop import Judging
from ...metrics import FEWEST_SHOWN, shown_score
from ...scores import InMemory
from ..folder.held_out import keep_scores, labels_of
from .build import Build, no_windows
from .solve import ENOUGH_HELD_OUT, Fitted, HeldOutJudge, HeldOutScores, Rows, Solver

_MOST_SCORES = 1 << 26  # scores of all variants of held-out samples: 256 MiB


class _Variants(nn.Module):
    """Scores of whole images and of windows, and numbers of the best windows, as `Top.variants` gives them,
    (B, (V + S) C)."""

    def __init__(
        self, backbone: models.Backbone, top: models.Top, windows: models.Windows, advance: Advance
    ) -> None:
        super().__init__()
        self.backbone, self.top, self.windows, self._advance = backbone, top, windows, advance

    def forward(self, inputs: Tensor) -> Tensor:
        scores, numbers = self.top.variants(*self.windows.features(self.backbone, inputs))
        self._advance(len(inputs))
        return torch.cat([scores, torch.stack(numbers).float()]).transpose(0, 1).flatten(1)


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
    config, train, val = build.run.config, build.data.splits["train"], build.data.splits["val"]
    local, count, classes = config.model.local, len(train), len(build.data.classes)
    required = local in ("on", "crops")
    if local == "off" or build.backbone is None:
        return fitted
    if local == "auto" and not build.budget.allows("parts of photos", build.pass_seconds):
        return fitted

    # Windows, and a head that suits them: an auto head has other members then.
    solved: models.AutoHead | None = None
    try:
        windows = models.crops() if local == "crops" else build.windows()
        if build.top.takes_maps:
            raise InputError("the head takes the feature map itself.")
        if config.method == AUTO:
            solved = Solver(build, judge).solve_auto(windows=True, every=every)
    except InputError as error:
        if required:
            raise no_windows(local, error) from error
        log.info(f"local evidence: none, because {str(error).rstrip('.')}")
        return fitted

    # Held-out samples, numbered over training, then validation samples; and tops not fitted to them.
    tops = [(count + np.arange(len(val)), build.top)]
    if solved:
        tops = []
        for rows, head in solved.parts:
            with borrowed_generators():
                top = models.Top(build.top.num_features, build.top.num_classes, scaling=models.RAW)
            top.set_ensemble(head)
            tops.append((rows, top.to(build.fabric.device)))
    # Validation samples, and some training samples if there are too few, as many as fit into memory.
    rows = np.concatenate([of_top for of_top, _ in tops])
    drawn = rows[permutation(len(rows), "local evidence", config.seed)]
    drawn = np.concatenate([drawn[drawn >= count], drawn[drawn < count]])
    wanted = len(drawn) if every else max(ENOUGH_HELD_OUT, int((rows >= count).sum()))
    chosen = drawn[: min(max(1, _MOST_SCORES // (2 * classes * (len(windows.sides) + 1))), wanted)]
    tops = [(np.sort(of_top[np.isin(of_top, chosen)]), top) for of_top, top in tops]
    rows = np.concatenate([of_top for of_top, _ in tops])
    if not required and len(rows) < FEWEST_SHOWN:
        log.info(
            f"local evidence: none, because {len(rows)} held-out samples can't tell whether it is better"
        )
        return fitted

    with progress(len(rows), "parts of samples") as advance:
        scored = [_variants(build, top, windows, of_top, advance) for of_top, top in tops]
    counts = [len(windows.sides) + 2, len(windows.sides)]
    variants, numbers = torch.split(torch.cat(scored, 1), counts)
    mean_labels = build.run.head_mean_labels.value
    held_out_judge = HeldOutJudge(judge, train, val, mean_labels)

    def score(scores: Tensor) -> float:
        return held_out_judge(scores.numpy(), rows)

    weighed, tried, calibrated = models.fit_local(
        variants,
        torch.from_numpy(held_out_judge.ternary(rows) == 1),
        windows,
        score,
        mean_labels=mean_labels,
        required=required,
    )
    described: dict[str, Any] = {"windows": msgspec.to_builtins(windows), "scores": tried, "weights": None}
    what = "crops of the image" if windows.crops else "windows of the feature map"
    what = what if build.backbone.spec.size else "parts"
    whole = tried["whole image"]
    best = max(list(tried)[1:], key=lambda name: tried[name])
    compared = (
        f"{held_out_judge.by} of {len(rows):,} held-out samples: {shown_score(whole)} by the whole image, "
        f"{shown_score(tried[best])} by {best}"
    )
    if weighed is None or calibrated is None:
        log.info(f"local evidence: {what} are not used ({compared})")
        return fitted._replace(local=described)
    why = f", as `local` is {local}" if required and whole >= tried[best] else ""
    log.info(f"local evidence: {what} are scored, too{why} ({compared})")

    # The model scores windows from now on.
    described["weights"] = dict(zip(tried, weighed.settings.weights, strict=True))
    if solved:
        build.top.set_ensemble(solved.head.to(build.fabric.device))
        fitted = fitted._replace(members=solved.head.describe(), tried=solved.tried)
    logits = weighed(variants)
    strongest = weighed.strongest(variants, [*numbers.long()]).numpy().astype(np.int16)
    labels = labels_of(train, val, rows)
    kept, plain = (keep_scores(InMemory(each.numpy()), labels) for each in (calibrated, logits))
    held_out = HeldOutScores(kept, rows, strongest, plain)
    build.score_windows(weighed)
    of_val = held_out.of_validation(count, compared=True)
    if len(of_val) == len(val):
        described["validation"] = judge(of_val)
    else:  # of a part of the samples
        described["validation"] = {"val/SP": score(logits)}
    return fitted._replace(local=described, held_out=held_out)


def _variants(build: Build, top: models.Top, windows: models.Windows, rows: Rows, advance: Advance) -> Tensor:
    """Scores (V, H, C) of images, numbered over training, then validation samples, and behind them the
    numbers (S, H, C) of their best windows."""
    assert build.backbone is not None
    network, start, parts = _Variants(build.backbone, top, windows, advance), 0, []
    for name in ("train", "val"):
        samples = build.windowed(name)
        own = rows[(rows >= start) & (rows < start + len(samples))] - start
        start += len(samples)
        if len(own):
            workers = build.run.config.data.workers if samples.inputs.kind == "image" else 0
            parts.append(build.logits(samples.take(own), network, workers=workers))
    scores = torch.from_numpy(np.concatenate(parts))
    return scores.view(len(scores), 2 * len(windows.sides) + 2, -1).transpose(0, 1)
