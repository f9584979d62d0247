"""Rules that infer labels during training, independent of the loss that uses the labels.

A published method has such a rule as a part. `combine` puts any of them before any loss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ..common.errors import InputError, nearest
from ..labels import ObservedLabels
from ..losses import large_loss_mask
from ..losses._core.domains import check_choice, check_epochs, check_percent, check_share
from ..metrics import average_precision
from .base import Batch, Facts, Needs, Objective, Outputs, Progress
from .memory import LabelMemory, RunningAverage, known_first, lowest
from .registry import instantiate


class InferenceRule(nn.Module):
    """Base class of all rules. Settings are the keyword arguments of `__init__`.

    The hooks are called like those of an objective, with the labels that the user gave. Inferred labels never
    replace known ones.
    """

    needs: Needs = Needs()
    warmup: int = 0
    """Epochs before the first inferred labels, as for an objective."""
    infers_negatives: bool = False
    """Whether the inferred labels may be negatives."""

    def on_fit_start(self, facts: Facts) -> None:
        """Allocate the memory."""
        raise NotImplementedError

    def on_epoch_start(self, progress: Progress) -> None:
        """Update scheduled values; depends on `progress` alone."""

    def fill(self, batch: Batch) -> Batch:
        """Replace unknown labels by inferred ones, as an int8 target (B, C) wherever labels can be inferred.

        Args:
            batch: Batch with the labels that the user gave, or with those that another rule has filled in.
        """
        raise NotImplementedError

    def after_step(self, outputs: Outputs, batch: Batch) -> None:
        """Infer labels from a step. Called without gradient."""

    def on_epoch_end(self, progress: Progress, train_pass: Callable[[], Tensor] | None) -> None:
        """Infer labels from an epoch. `train_pass` is the same as for an objective."""


class WithRule(Objective):
    """Base class of methods whose loss is one of the labels that a rule infers.

    Attributes:
        memory: The rule.
    """

    memory: InferenceRule

    def on_fit_start(self, facts: Facts) -> None:
        self.memory.on_fit_start(facts)

    def on_epoch_start(self, progress: Progress) -> None:
        self.memory.on_epoch_start(progress)

    def after_step(self, outputs: Outputs, batch: Batch) -> None:
        self.memory.after_step(outputs, batch)

    def on_epoch_end(self, progress: Progress, train_pass: Callable[[], Tensor] | None) -> None:
        self.memory.on_epoch_end(progress, train_pass)


class PermanentPositives(InferenceRule):
    """Base class of rules that turn unknown labels into positives permanently.

    Attributes:
        labels: Memory of the inferred positives.
    """

    def on_fit_start(self, facts: Facts) -> None:
        self.observed = facts.observed
        self.labels = LabelMemory(facts.observed)

    def fill(self, batch: Batch) -> Batch:
        return replace(batch, target=self.labels.fill(batch.target, batch.index))


class LowestScores(InferenceRule):
    """Asymmetric pseudo-labels: after an epoch, the unknown labels with the lowest scores of each class
    become permanent pseudo-negatives, each with its score as soft target.

    Args:
        warmup: Number of epochs before the first pseudo-negatives, >= 0.
        proportion: Share of each class's unknown labels that are pseudo-negatives in the last epoch, in
            [0, 1].
        predictions: Source of the scores. `pass`: an evaluation pass after the epoch. `training`: the
            predictions made for each sample during the epoch, which saves the pass.

    Attributes:
        labels: Memory of the soft targets of the pseudo-negatives. `fill` makes hard negatives of them.
    """

    latest: Tensor | None
    infers_negatives = True

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
        check_choice("predictions", predictions, ("pass", "training"))
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
        completed = progress.epoch + 1
        if not self.warmup <= completed < progress.epochs:
            return
        logits = _train_logits(train_pass) if self.latest is None else self.latest
        scores = torch.sigmoid(logits.to(self.labels.inferred.device))
        steps = progress.epochs - self.warmup
        counts = [int(self.proportion * unknown / steps) for unknown in self.unknown.tolist()]
        target, index = _all_samples(self.observed, scores.device)
        where = lowest(scores, self.labels.free(target, index), counts)
        self.labels.write(target, index, where, scores)


class LargeLosses(PermanentPositives):
    """The largest assumed-negative losses of a batch become permanent positives, from the second epoch on.

    Args:
        percent: Delta, percentage of the batch's labels that become positives in a step, in (0, 100].
        strict: Whether the k-th largest loss itself stays a negative.

    Attributes:
        rate: Share of the batch's labels that become positives in this epoch.
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


class HighestScores(PermanentPositives):
    """After an epoch, int(rate N (1 - AP)) unknown labels of each class, those with the highest scores,
    become permanent positives.

    AP is the average precision of the class on the training set against the observed labels. A class without
    a known positive gets no positives.

    Args:
        rate: Factor r in [0, 1].
    """

    needs = Needs(train_pass=True)

    def __init__(self, *, rate: float = 1e-3) -> None:
        super().__init__()
        check_share(rate=rate)
        self.rate = rate

    def on_epoch_end(self, progress: Progress, train_pass: Callable[[], Tensor] | None) -> None:
        if progress.epoch + 1 < progress.epochs:
            logits = _train_logits(train_pass)
            self.correct(logits, average_precision(logits, self.observed.to_multi_hot().astype(bool)))

    def correct(self, logits: Tensor, precision: npt.NDArray[np.float64]) -> None:
        """Infer positives.

        Args:
            logits: Logits (N, C) of the training set.
            precision: Average precision (C,) of each class, NaN for a class without a known positive.
        """
        flips = self.rate * len(logits) * (1 - np.nan_to_num(precision, nan=1.0))
        scores = logits.to(self.labels.inferred.device)
        target, index = _all_samples(self.observed, scores.device)
        where = lowest(-scores, self.labels.free(target, index), flips.astype(int).tolist())
        self.labels.write(target, index, where, 1)


class ConfidentPositives(PermanentPositives):
    """After an epoch, unknown labels with a probability above a threshold become permanent positives.

    Args:
        theta: Threshold in [0, 1].
        warmup: Number of epochs before the first positives, >= 0.
    """

    needs = Needs(train_pass=True)

    def __init__(self, *, theta: float = 0.95, warmup: int = 2) -> None:
        super().__init__()
        check_share(theta=theta)
        check_epochs(warmup=warmup)
        self.theta, self.warmup = theta, warmup

    def on_epoch_end(self, progress: Progress, train_pass: Callable[[], Tensor] | None) -> None:
        if self.warmup <= progress.epoch + 1 < progress.epochs:
            scores = torch.sigmoid(_train_logits(train_pass).to(self.labels.inferred.device))
            target, index = _all_samples(self.observed, scores.device)
            self.labels.write(target, index, scores > self.theta, 1)


class LowestAverages(InferenceRule):
    """The labels with the lowest averaged predictions of each class are negatives, as many as are expected.

    They are selected again after each epoch. In the first epoch every unknown label is a negative. Needs the
    mean labels per sample.

    Args:
        decay: Weight of the previous value in the average of a sample's predictions over epochs, in [0, 1];
            0 = the last prediction alone.

    Attributes:
        averages: Average predictions.
        negatives: Mask of the negatives, bool of shape (N, C).
    """

    negatives: Tensor
    infers_negatives = True

    def __init__(self, *, decay: float = 0.5) -> None:
        super().__init__()
        check_share(decay=decay)
        self.decay = decay

    def on_fit_start(self, facts: Facts) -> None:
        mean_labels = facts.stated_mean_labels("'combine' with memory expected_negatives")
        observed, count = facts.observed, len(facts.observed)
        positives = torch.from_numpy(observed.positives_per_class())
        expected = (mean_labels * count * positives / positives.sum().clamp(min=1)).round().long()
        # The known negatives are among the expected ones.
        known = torch.from_numpy(observed.negatives_per_class())
        self.counts = (count - expected - known).clamp(min=0).tolist()
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
        for column, count in enumerate(self.counts):
            self.negatives[scores[:, column].argsort(stable=True)[:count], column] = True


class AveragedPredictions(InferenceRule):
    """Unknown labels are positives while their averaged prediction is high, and negatives while it is low.

    Args:
        decay: Weight of the previous value in the average of a sample's predictions over epochs, in [0, 1];
            0 = the last prediction alone.
        positive: Lowest average of a positive, in [0, 1]; None = no positives.
        negative: Highest average of a negative, below `positive`; None = no negatives.
        warmup: Number of epochs before the first inferred labels, >= 0.

    Attributes:
        averages: Average predictions.
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
        thresholds = {"positive": positive, "negative": negative}
        check_share(**{name: value for name, value in thresholds.items() if value is not None})
        if positive is None and negative is None:
            raise ValueError("positive or negative must be given: with both None no label would be inferred")
        if positive is not None and negative is not None and not negative < positive:
            raise ValueError(f"negative must be less than positive, {positive}, got {negative}")
        self.decay, self.positive, self.negative, self.warmup = decay, positive, negative, warmup
        self.infers_negatives = negative is not None
        self.active = False

    def on_fit_start(self, facts: Facts) -> None:
        self.averages = RunningAverage(facts.observed, self.decay)

    def on_epoch_start(self, progress: Progress) -> None:
        self.active = progress.epoch >= self.warmup

    def fill(self, batch: Batch) -> Batch:
        if not self.active:
            return batch
        # NaN stands for a missing prediction and is on neither side of a threshold.
        average = self.averages.rows(batch.index, torch.nan)
        signs = torch.zeros_like(average, dtype=torch.int8)
        if self.positive is not None:
            signs = signs.masked_fill(average >= self.positive, 1)
        if self.negative is not None:
            signs = signs.masked_fill(average <= self.negative, -1)
        return replace(batch, target=known_first(batch.target, signs))

    def after_step(self, outputs: Outputs, batch: Batch) -> None:
        self.averages.update(outputs, batch)


RULES: Mapping[str, type[InferenceRule]] = {
    "apl": LowestScores,
    "confident": ConfidentPositives,
    "correction": HighestScores,
    "ema": AveragedPredictions,
    "expected_negatives": LowestAverages,
    "large_loss": LargeLosses,
}
"""Rules by the names that a user gives in `combine`."""


def make_rule(name: str, settings: Mapping[str, Any] | None = None) -> InferenceRule:
    """Create a rule; settings that are not given have their defaults."""
    if name not in RULES:
        raise InputError(f"unknown memory {name!r}. {nearest(name, RULES)}")
    if settings is not None and not isinstance(settings, Mapping):
        raise InputError(f"memory {name!r}: expected settings by name, got {settings!r}")
    return instantiate(RULES[name], settings or {}, f"memory {name!r}", "setting")


def _train_logits(train_pass: Callable[[], Tensor] | None) -> Tensor:
    assert train_pass is not None, "needs.train_pass"
    return train_pass()


def _all_samples(observed: ObservedLabels, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return target and index of all training samples."""
    count = len(observed)
    return observed.target(range(count)).to(device), torch.arange(count, device=device)
