"""Several methods in one: their terms, weighted and added; any memory of labels before them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from ._memories import MemoryRule, make_rule
from .base import Batch, Card, Extra, Facts, Needs, Objective, Outputs, Progress, Strength
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

    Before any method sees the labels of a batch, the rules of `memory` replace unknown ones by what they have
    inferred. Each rule infers from the labels that the user gave; where two differ, the first named counts.

        apl (warmup, proportion, predictions): after an epoch, the lowest scores of each class become
            negatives
        confident (theta, warmup): after an epoch, probabilities above theta become positives
        correction (rate): after an epoch, the highest scores of each class become positives, more of them in
            classes with a low average precision
        ema (decay, positive, negative, warmup): averaged predictions beyond a threshold are positives or
            negatives as long as they are beyond it
        expected_negatives (decay): the lowest averaged predictions of each class are negatives, as many as
            are expected; needs the mean labels per sample
        large_loss (percent, strict): after a step, the largest losses of its batch become positives

    Args:
        weights: weight of each method by its name, finite and greater than 0.
        hp: hyper-parameters of these methods by name; defaults where not given.
        memory: settings of the rules by name; defaults where not given.
    """

    card = Card(
        title="Combination of methods",
        paper="of this library: a weighted sum of the terms of published methods",
        year=2026,
        equations="sum of weight * term",
        formula="L = sum over the methods m of weight_m L_m",
        state="that of the methods and rules combined",
        deviations=(
            "head and its bias are those of this card; choose others with --model.head, --model.head_bias",
            "a negative of the memory apl is a hard one for every method; the soft target that EM+APL keeps "
            "with it is for the loss of EM+APL alone",
        ),
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
            if isinstance(weight, bool) or not isinstance(weight, (int, float)):
                raise ValueError(f"the weight of {name!r} must be a number, got {weight!r}")
            if not 0 < weight < math.inf:
                raise ValueError(f"the weight of {name!r} must be finite and greater than 0, got {weight}")
        for name in hp:
            if name not in weights:
                raise ValueError(f"hp names {name!r}, which weights does not: {', '.join(weights)}")
        self.weights = dict(weights)
        if not isinstance(memory, Mapping):
            raise ValueError(
                f"memory must name rules with their settings, as in {{apl: {{}}}}, got {memory!r}"
            )
        self.parts = nn.ModuleDict({name: create(name, hp.get(name)) for name in weights})
        self.memory = nn.ModuleDict({name: make_rule(name, memory[name]) for name in memory})
        further = [name for name, part in self._parts() if _has_extra(part)]
        if len(further) > 1:
            raise ValueError(
                f"weights name {' and '.join(map(repr, further))}, each of which needs a further forward "
                "pass of its own; at most one such method can be combined"
            )
        self.further = further[0] if further else None
        self.needs = Needs(
            train_pass=any(part.needs.train_pass for part in self._all()),
            batch_coupled=any(part.needs.batch_coupled for part in self._objectives()),
            views=_all_views(part.needs.views for part in self._objectives()),
            class_maps=any(part.needs.class_maps for part in self._objectives()),
            latent=any(part.needs.latent for part in self._objectives()),
        )
        self.warmup = max(part.warmup for part in self._all())
        self.places = {name: _places(part.needs.views, self.needs.views) for name, part in self._parts()}

    def param_groups(self) -> list[dict[str, Any]]:
        return [group for part in self._objectives() for group in part.param_groups()]

    def on_fit_start(self, facts: Facts) -> None:
        for part in self._all():
            part.on_fit_start(facts)

    def on_epoch_start(self, progress: Progress) -> None:
        for part in self._all():
            part.on_epoch_start(progress)

    def extra_inputs(self, inputs: Tensor, outputs: Outputs, batch: Batch) -> Extra | None:
        if self.further is None:
            return None
        part = dict(self._parts())[self.further]
        return part.extra_inputs(inputs, self._share(self.further, outputs), self._filled(batch))

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        filled = self._filled(batch)
        return {
            f"{name}/{term}": self.weights[name] * value
            for name, part in self._parts()
            for term, value in part(self._share(name, outputs), filled).items()
        }

    def after_step(self, outputs: Outputs, batch: Batch) -> None:
        filled = self._filled(batch)
        for name, part in self._parts():
            part.after_step(self._share(name, outputs), filled)
        for rule in self._rules():
            rule.after_step(outputs, batch)

    def on_epoch_end(self, progress: Progress, train_pass: Callable[[], Tensor] | None) -> None:
        # One pass for all that want one.
        once = None if train_pass is None else functools.cache(train_pass)
        for part in self._all():
            part.on_epoch_end(progress, once if part.needs.train_pass else None)

    def _filled(self, batch: Batch) -> Batch:
        for rule in self._rules():
            batch = rule.fill(batch)
        return batch

    def _share(self, name: str, outputs: Outputs) -> Outputs:
        """What a method asked for, of the outputs that all of them asked for."""
        own = outputs._replace(views=tuple(outputs.views[place] for place in self.places[name]))
        return own if name == self.further else own._replace(extra=None, extra_target=None)

    def _parts(self) -> list[tuple[str, Objective]]:
        return [(name, part) for name, part in self.parts.items() if isinstance(part, Objective)]

    def _objectives(self) -> list[Objective]:
        return [part for _, part in self._parts()]

    def _all(self) -> list[Objective | MemoryRule]:
        return [*self._objectives(), *self._rules()]

    def _rules(self) -> list[MemoryRule]:
        return [rule for rule in self.memory.values() if isinstance(rule, MemoryRule)]


def _has_extra(part: Objective) -> bool:
    return type(part).extra_inputs is not Objective.extra_inputs


def _all_views(wanted: Iterable[Sequence[Strength]]) -> tuple[Strength, ...]:
    """The fewest views of which every method can be given its own; methods share views."""
    found: list[Strength] = []
    for views in wanted:
        rest = list(found)
        for strength in views:
            if strength in rest:
                rest.remove(strength)
            else:
                found.append(strength)
    return tuple(found)


def _places(wanted: Sequence[Strength], given: Sequence[Strength]) -> list[int]:
    """Where among the views given those lie that a method wants, in its order; no place twice."""
    free, places = list(range(len(given))), []
    for strength in wanted:
        places.append(next(place for place in free if given[place] == strength))
        free.remove(places[-1])
    return places
