"""Several methods in one: their weighted terms are added, after any memory of inferred labels."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from .base import Batch, Card, Extra, Facts, Needs, Objective, Outputs, Progress, Strength
from .inference_rules import InferenceRule, make_rule
from .registry import create, register


@register("combine")
class Combine(Objective):
    """The weighted sum of several methods, each with its own schedule and memory.

    In a configuration file:

        method: combine
        hp:
          weights: {gr: 1.0, epr: 0.1}
          hp: {gr: {q2: 0.5}}
          memory: {large_loss: {percent: 0.2}}

    Before any method sees the labels of a batch, the rules of `memory` replace unknown labels by inferred
    ones. Each rule infers from the labels that the user gave; where two rules differ, the first one wins.
    In the method `iu`, labels that stay unknown have no loss: with both thresholds of `ema` that is Eq. 15-16
    of the GR paper, with `expected_negatives` it is EN. Until a rule has inferred negatives, `iu` learns from
    positives alone; `expected_negatives` starts with all unknown labels as negatives.

        apl (warmup, proportion, predictions): after an epoch, the lowest scores of each class become
            negatives
        confident (theta, warmup): after an epoch, probabilities above theta become positives
        correction (rate): after an epoch, the highest scores of each class become positives, more of them in
            classes with a low average precision
        ema (decay, positive, negative, warmup): labels are positives or negatives while their averaged
            prediction is beyond a threshold
        expected_negatives (decay): the lowest averaged predictions of each class are negatives, as many as
            are expected; needs the mean labels per sample
        large_loss (percent, strict): after a step, the largest losses of its batch become positives

    Args:
        weights: Weight of each method by its name, finite and greater than 0.
        hp: Hyper-parameters of these methods by method name; defaults where not given.
        memory: Settings of the rules by rule name; defaults where not given.
    """

    card = Card(
        title="Combination of methods",
        paper="of this library: a weighted sum of the terms of published methods",
        year=2026,
        equations="sum of weight * term",
        formula="L = sum over the methods m of weight_m L_m",
        state="that of the methods and rules combined",
    )

    def __init__(
        self,
        *,
        weights: Mapping[str, float] = {"an": 1.0},
        hp: Mapping[str, Mapping[str, Any]] = {},
        memory: Mapping[str, Mapping[str, Any]] = {},
    ) -> None:
        super().__init__()
        if not weights:
            raise ValueError("weights must name at least one method")
        for name, weight in weights.items():
            if name == "combine":
                raise ValueError("weights can't name 'combine' itself")
            if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 < weight < math.inf:
                raise ValueError(
                    f"the weight of {name!r} must be a number, finite and greater than 0, got {weight!r}"
                )
        for name in hp:
            if name not in weights:
                raise ValueError(f"hp names {name!r}, which is not in weights: {', '.join(weights)}")
        if not isinstance(memory, Mapping):
            raise ValueError(
                f"memory must contain rules with their settings, as in {{apl: {{}}}}, got {memory!r}"
            )
        self.weights = dict(weights)
        self.parts = nn.ModuleDict({name: create(name, hp.get(name)) for name in weights})
        self.memory = nn.ModuleDict({name: make_rule(name, memory[name]) for name in memory})
        with_extra = [
            name
            for name, part in self._objectives().items()
            if type(part).extra_inputs is not Objective.extra_inputs
        ]
        if len(with_extra) > 1:
            raise ValueError(
                f"weights contain {' and '.join(map(repr, with_extra))}, each of which needs a further "
                "forward pass of its own; at most one such method can be combined"
            )
        self.with_extra = with_extra[0] if with_extra else None
        needs = [part.needs for part in self._objectives_and_rules()]
        flags = (
            "train_pass", "batch_coupled", "class_maps", "trained_maps", "regions", "latent", "posterior",
            "features",
        )  # fmt: skip
        self.needs = Needs(
            views=_union_of_views(each.views for each in needs),
            embedding=max(each.embedding for each in needs),
            **{flag: any(getattr(each, flag) for each in needs) for flag in flags},
        )
        self.warmup = max(part.warmup for part in self._objectives_and_rules())
        self.view_positions = {
            name: _view_positions(part.needs.views, self.needs.views)
            for name, part in self._objectives().items()
        }

    def param_groups(self) -> list[dict[str, Any]]:
        return [group for part in self._objectives().values() for group in part.param_groups()]

    def on_fit_start(self, facts: Facts) -> None:
        facts = replace(facts, inferred_negatives=any(rule.infers_negatives for rule in self._rules()))
        for part in self._objectives_and_rules():
            part.on_fit_start(facts)

    def on_features(self, features: Tensor) -> None:
        for part in self._objectives().values():
            if part.needs.features:
                part.on_features(features)

    def on_epoch_start(self, progress: Progress) -> None:
        for part in self._objectives_and_rules():
            part.on_epoch_start(progress)

    def extra_inputs(self, inputs: Tensor, outputs: Outputs, batch: Batch) -> Extra | None:
        if self.with_extra is None:
            return None
        part = self._objectives()[self.with_extra]
        return part.extra_inputs(inputs, self._outputs_for(self.with_extra, outputs), self._filled(batch))

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        filled = self._filled(batch)
        return {
            f"{name}/{term}": self.weights[name] * value
            for name, part in self._objectives().items()
            for term, value in part(self._outputs_for(name, outputs), filled).items()
        }

    def after_step(self, outputs: Outputs, batch: Batch) -> None:
        filled = self._filled(batch)
        for name, part in self._objectives().items():
            part.after_step(self._outputs_for(name, outputs), filled)
        for rule in self._rules():
            rule.after_step(outputs, batch)

    def on_epoch_end(self, progress: Progress, train_pass: Callable[[], Tensor] | None) -> None:
        # All parts share one pass over the training set.
        shared_pass = None if train_pass is None else functools.cache(train_pass)
        for part in self._objectives_and_rules():
            part.on_epoch_end(progress, shared_pass if part.needs.train_pass else None)

    def _filled(self, batch: Batch) -> Batch:
        """Return the batch with the labels that the rules have inferred."""
        for rule in self._rules():
            batch = rule.fill(batch)
        return batch

    def _outputs_for(self, name: str, outputs: Outputs) -> Outputs:
        """Select the outputs that one method needs."""
        positions = self.view_positions[name]
        views = tuple(outputs.views[position] for position in positions)
        first, others = outputs.embeddings[:1], outputs.embeddings[1:]
        embeddings = (*first, *(others[position] for position in positions if others))
        selected = outputs._replace(views=views, embeddings=embeddings)
        return selected if name == self.with_extra else selected._replace(extra=None, extra_target=None)

    def _objectives(self) -> dict[str, Objective]:
        return {name: part for name, part in self.parts.items() if isinstance(part, Objective)}

    def _rules(self) -> list[InferenceRule]:
        return [rule for rule in self.memory.values() if isinstance(rule, InferenceRule)]

    def _objectives_and_rules(self) -> list[Objective | InferenceRule]:
        return [*self._objectives().values(), *self._rules()]


def _union_of_views(needed: Iterable[Sequence[Strength]]) -> tuple[Strength, ...]:
    """Return the fewest views that contain those of every method; methods share views."""
    union: list[Strength] = []
    for views in needed:
        unused = list(union)
        for strength in views:
            if strength in unused:
                unused.remove(strength)
            else:
                union.append(strength)
    return tuple(union)


def _view_positions(needed: Sequence[Strength], views: Sequence[Strength]) -> list[int]:
    """Return the positions of the needed views among all views, each position at most once."""
    unused, positions = list(range(len(views))), []
    for strength in needed:
        position = next(position for position in unused if views[position] == strength)
        unused.remove(position)
        positions.append(position)
    return positions
