"""Rules by which labels are inferred during training, apart from the loss that uses them.

A published method has one of them as a part; `combine` puts any of them before any loss.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ..errors import nearest
from ..labels import ObservedLabels
from ..losses import large_loss_mask
from ..losses._core.domains import check_share
from ..metrics import average_precision
from ._shared import check_epochs, check_percent, one_of, stated_mean_labels
from .base import Batch, Facts, Needs, Outputs, Progress
from .memory import LabelMemory, known_first, lowest

_NOT_PREDICTED = 2.0
"""In place of an average probability: larger than any, so that such a sample is ranked last."""


class MemoryRule(nn.Module):
    """Base class of all rules. Settings are the keyword arguments of `__init__`.

    The hooks are called as those of an objective, with the labels as the user gave them. What is inferred
    never replaces a known label.
    """

    needs: Needs = Needs()
    warmup: int = 0  # as of an objective

    def on_fit_start(self, facts: Facts) -> None:
        """Allocate the memory."""
        raise NotImplementedError

    def on_epoch_start(self, progress: Progress) -> None:
        """Set what is scheduled; a function of `progress` alone."""

    def fill(self, batch: Batch) -> Batch:
        """The batch with inferred labels in place of unknown ones; an int8 (B, C) target where any can be.

        Args:
            batch: with the labels as the user gave them, or as another rule filled them.
        """
        raise NotImplementedError

    def after_step(self, outputs: Outputs, batch: Batch) -> None:
        """Infer from a step; called without gradient."""

    def on_epoch_end(self, progress: Progress, train_pass: Callable[[], Tensor] | None) -> None:
        """Infer from an epoch; `train_pass` as for an objective."""


class RunningAverage(nn.Module):
    """Each training sample's predicted probabilities, averaged over epochs.

    Args:
        observed: labels of the training set; their number of samples and classes counts here.
        decay: of the average, in [0, 1]; 0 = the last prediction alone.

    Attributes:
        average: float32 (N, C), `_NOT_PREDICTED` where there is no prediction yet.
    """

    average: Tensor

    def __init__(self, observed: ObservedLabels, decay: float) -> None:
        super().__init__()
        self.decay = decay
        shape = (len(observed), observed.num_classes)
        self.register_buffer("average", torch.full(shape, _NOT_PREDICTED))

    def update(self, outputs: Outputs, batch: Batch) -> None:
        """Add the predictions of a step."""
        now = torch.sigmoid(outputs.logits).to(self.average.dtype)
        before = self.average[batch.index]
        self.average[batch.index] = torch.where(
            before == _NOT_PREDICTED, now, self.decay * before + (1 - self.decay) * now
        )

    def rows(self, index: Tensor, otherwise: float) -> Tensor:
        """Averages (B, C) of the samples at `index`, `otherwise` where there is no prediction yet."""
        average = self.average[index]
        return average.masked_fill(average == _NOT_PREDICTED, otherwise)


class LastingPositives(MemoryRule):
    """Base class of rules that make positives of unknown labels for good.

    Attributes:
        labels: positives so far.
    """

    def on_fit_start(self, facts: Facts) -> None:
        self.observed = facts.observed
        self.labels = LabelMemory(facts.observed)

    def fill(self, batch: Batch) -> Batch:
        return replace(batch, target=self.labels.fill(batch.target, batch.index))


class LowestScores(MemoryRule):
    """Asymmetric pseudo-labels: after an epoch, the unknown labels with the lowest scores of each class
    become pseudo-negatives for good, each with its score as soft target.

    Args:
        warmup: epochs before the first pseudo-negatives, >= 0.
        proportion: share of each class's unknown labels that are pseudo-negatives in the last epoch, in
            [0, 1].
        predictions: where scores come from. `pass`: an evaluation pass after the epoch. `training`: what the
            model said of each sample during the epoch, which saves the pass.

    Attributes:
        labels: soft targets of the pseudo-negatives. `fill` makes hard negatives of them.
    """

    latest: Tensor | None

    def __init__(
        self,
        *,
        warmup: int = 5,
        proportion: float = 0.9,
        predictions: Literal["pass", "training"] = "pass",
    ) -> None:
        super().__init__()
        check_epochs(warmup=warmup)
        check_share(proportion=proportion)
        one_of("predictions", predictions, ("pass", "training"))
        self.warmup, self.proportion = warmup, proportion
        self.register_buffer("latest", None)
        self.from_training = predictions == "training"
        self.needs = Needs(train_pass=not self.from_training)

    def on_fit_start(self, facts: Facts) -> None:
        self.observed = observed = facts.observed
        self.labels = LabelMemory(observed, soft=True)
        self.unknown = len(observed) - observed.positives_per_class() - observed.negatives_per_class()
        if self.from_training:
            self.latest = torch.zeros(len(observed), observed.num_classes)

    def fill(self, batch: Batch) -> Batch:
        negative = self.labels.rows(batch.index) >= 0
        return replace(batch, target=known_first(batch.target, -negative.to(torch.int8)))

    def after_step(self, outputs: Outputs, batch: Batch) -> None:
        if self.latest is not None:
            self.latest[batch.index] = outputs.logits.to(self.latest.dtype)

    def on_epoch_end(self, progress: Progress, train_pass: Callable[[], Tensor] | None) -> None:
        done = progress.epoch + 1
        if not self.warmup <= done < progress.epochs:
            return
        logits = _predicted(train_pass) if self.latest is None else self.latest
        scores = torch.sigmoid(logits.to(self.labels.inferred.device))
        steps = progress.epochs - self.warmup
        counts = [int(self.proportion * unknown / steps) for unknown in self.unknown.tolist()]
        target, index = _everything(self.observed, scores.device)
        where = lowest(scores, self.labels.free(target, index), counts)
        self.labels.write(target, index, where, scores)


class LargeLosses(LastingPositives):
    """The largest assumed-negative losses of a batch become positives for good, from the second epoch on.

    Args:
        percent: Delta, how many per cent of the batch's labels become positives in a step, in (0, 100].
        strict: the k-th largest loss itself does not.

    Attributes:
        rate: share of the batch's labels in this epoch.
    """

    def __init__(self, *, percent: float = 0.1, strict: bool = False) -> None:
        super().__init__()
        check_percent(percent)
        self.percent, self.strict, self.rate = percent, strict, 0.0

    def on_epoch_start(self, progress: Progress) -> None:
        self.rate = self.percent / 100 if progress.epoch else 0.0

    def after_step(self, outputs: Outputs, batch: Batch) -> None:
        if self.rate:
            large = large_loss_mask(
                outputs.logits, self.fill(batch).target, rate=self.rate, strict=self.strict
            )
            self.labels.write(batch.target, batch.index, large, 1)


class HighestScores(LastingPositives):
    """After an epoch, unknown labels with the highest scores of each class become positives for good:
    int(rate N (1 - AP)) of them, with the AP of the class on the training set against observed labels. None
    for a class without a known positive.

    Args:
        rate: r, in [0, 1].
    """

    needs = Needs(train_pass=True)

    def __init__(self, *, rate: float = 1e-3) -> None:
        super().__init__()
        check_share(rate=rate)
        self.rate = rate

    def on_epoch_end(self, progress: Progress, train_pass: Callable[[], Tensor] | None) -> None:
        if progress.epoch + 1 < progress.epochs:
            logits = _predicted(train_pass)
            self.correct(logits, average_precision(logits, self.observed.to_multi_hot().astype(bool)))

    def correct(self, logits: Tensor, precision: npt.NDArray[np.float64]) -> None:
        """Infer from the logits (N, C) of the training set and the AP (C,) of each class, NaN without one."""
        flips = self.rate * len(logits) * (1 - np.nan_to_num(precision, nan=1.0))
        scores = logits.to(self.labels.inferred.device)
        target, index = _everything(self.observed, scores.device)
        where = lowest(-scores, self.labels.free(target, index), flips.astype(int).tolist())
        self.labels.write(target, index, where, 1)


class ConfidentPositives(LastingPositives):
    """After an epoch, unknown labels with a probability above a threshold become positives for good.

    Args:
        theta: the threshold, in [0, 1].
        warmup: epochs before the first, >= 0.
    """

    needs = Needs(train_pass=True)

    def __init__(self, *, theta: float = 0.95, warmup: int = 2) -> None:
        super().__init__()
        check_share(theta=theta)
        check_epochs(warmup=warmup)
        self.theta, self.warmup = theta, warmup

    def on_epoch_end(self, progress: Progress, train_pass: Callable[[], Tensor] | None) -> None:
        if self.warmup <= progress.epoch + 1 < progress.epochs:
            scores = torch.sigmoid(_predicted(train_pass).to(self.labels.inferred.device))
            target, index = _everything(self.observed, scores.device)
            self.labels.write(target, index, scores > self.theta, 1)


class LowestAverages(MemoryRule):
    """As many negatives per class as are expected, where averaged predictions are lowest; chosen anew after
    each epoch. In the first epoch every unknown label is a negative.

    Needs the mean labels per sample.

    Args:
        decay: of the average of a sample's predictions over epochs, in [0, 1]; 0 = the last prediction alone.

    Attributes:
        averages: average predictions.
        negatives: bool (N, C).
    """

    negatives: Tensor

    def __init__(self, *, decay: float = 0.5) -> None:
        super().__init__()
        check_share(decay=decay)
        self.decay = decay

    def on_fit_start(self, facts: Facts) -> None:
        mean_labels = stated_mean_labels(facts, "'combine' with memory expected_negatives")
        observed, count = facts.observed, len(facts.observed)
        positives = torch.from_numpy(observed.positives_per_class())
        expected = (mean_labels * count * positives / positives.sum().clamp(min=1)).round().long()
        # Known negatives are among the expected ones already.
        known = torch.from_numpy(observed.negatives_per_class())
        self.wanted = (count - expected - known).clamp(min=0).tolist()
        self.observed = observed
        self.averages = RunningAverage(observed, self.decay)
        self.register_buffer("negatives", torch.ones((count, observed.num_classes), dtype=torch.bool))

    def fill(self, batch: Batch) -> Batch:
        negative = -self.negatives[batch.index].to(torch.int8)
        return replace(batch, target=known_first(batch.target, negative))

    def after_step(self, outputs: Outputs, batch: Batch) -> None:
        self.averages.update(outputs, batch)

    def on_epoch_end(self, progress: Progress, train_pass: Callable[[], Tensor] | None) -> None:
        average = self.averages.average
        known = torch.from_numpy(self.observed.to_ternary() != 0).to(average.device)
        scores = average.masked_fill(known, torch.inf)
        self.negatives.fill_(False)
        for column, wanted in enumerate(self.wanted):
            self.negatives[scores[:, column].argsort(stable=True)[:wanted], column] = True


class AveragedPredictions(MemoryRule):
    """Unknown labels whose averaged prediction is high are positives, those where it is low are negatives, as
    long as it is.

    Args:
        decay: of the average of a sample's predictions over epochs, in [0, 1]; 0 = the last prediction alone.
        positive: an average of at least this is a positive, in [0, 1]; None = none are.
        negative: an average of at most this is a negative, below `positive`; None = none are.
        warmup: epochs before the first, >= 0.

    Attributes:
        averages: average predictions.
    """

    def __init__(
        self,
        *,
        decay: float = 0.5,
        positive: float | None = 0.9,
        negative: float | None = None,
        warmup: int = 2,
    ) -> None:
        super().__init__()
        check_share(decay=decay)
        check_epochs(warmup=warmup)
        given = {"positive": positive, "negative": negative}
        check_share(**{name: value for name, value in given.items() if value is not None})
        if positive is None and negative is None:
            raise ValueError("positive or negative must be given: with both None nothing would be inferred")
        if positive is not None and negative is not None and not negative < positive:
            raise ValueError(f"negative must be less than positive, {positive}, got {negative}")
        self.decay, self.positive, self.negative, self.warmup = decay, positive, negative, warmup
        self.active = False

    def on_fit_start(self, facts: Facts) -> None:
        self.averages = RunningAverage(facts.observed, self.decay)

    def on_epoch_start(self, progress: Progress) -> None:
        self.active = progress.epoch >= self.warmup

    def fill(self, batch: Batch) -> Batch:
        if not self.active:
            return batch
        # NaN, where there is no prediction yet, is on neither side of a threshold.
        average = self.averages.rows(batch.index, torch.nan)
        signs = torch.zeros_like(average, dtype=torch.int8)
        if self.positive is not None:
            signs = signs.masked_fill(average >= self.positive, 1)
        if self.negative is not None:
            signs = signs.masked_fill(average <= self.negative, -1)
        return replace(batch, target=known_first(batch.target, signs))

    def after_step(self, outputs: Outputs, batch: Batch) -> None:
        self.averages.update(outputs, batch)


RULES: Mapping[str, type[MemoryRule]] = {
    "apl": LowestScores,
    "confident": ConfidentPositives,
    "correction": HighestScores,
    "ema": AveragedPredictions,
    "expected_negatives": LowestAverages,
    "large_loss": LargeLosses,
}
"""The rules that a user can name."""


def make_rule(name: str, settings: Mapping[str, Any] | None = None) -> MemoryRule:
    """The rule `name` with these settings; the rest have their defaults.

    Raises:
        ValueError: unknown rule or setting (names the nearest), or a value outside its domain.
    """
    if name not in RULES:
        raise ValueError(f"unknown memory {name!r}. {nearest(name, RULES)}")
    if settings is not None and not isinstance(settings, Mapping):
        raise ValueError(f"memory {name!r}: expected settings by name, got {settings!r}")
    known = inspect.signature(RULES[name]).parameters
    for key in settings or {}:
        if key not in known:
            raise ValueError(f"memory {name!r} has no setting {key!r}. {nearest(key, known)}")
    try:
        return RULES[name](**(settings or {}))
    except (ValueError, TypeError) as error:
        raise ValueError(f"memory {name!r}: {error}") from error


def _predicted(train_pass: Callable[[], Tensor] | None) -> Tensor:
    assert train_pass is not None, "needs.train_pass"
    return train_pass()


def _everything(observed: ObservedLabels, device: torch.device) -> tuple[Tensor, Tensor]:
    """Target and index of all training samples."""
    count = len(observed)
    return observed.target(range(count)).to(device), torch.arange(count, device=device)
