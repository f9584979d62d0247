"""Several methods in one: their terms, weighted and added."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from ..objective import Batch, Card, Facts, Needs, Objective, Outputs, Progress, create, register


@register("combine")
class Combine(Objective):
    """The weighted sum of several methods, each with its own schedule and memory.

    In a configuration file:

        method: combine
        hp:
          weights: {gr: 1.0, epr: 0.1}
          hp: {gr: {q2: 0.5}}

    Args:
        weights: weight of each method by its name, finite and greater than 0.
        hp: hyper-parameters of these methods by name; defaults where not given.
    """

    card = Card(
        title="Combination of methods",
        paper="of this library: a weighted sum of the terms of published methods",
        year=2026,
        equations="sum of weight * term",
        state="that of the methods combined",
        deviations=("the head bias is that of this card; choose another with --model.head_bias",),
    )

    def __init__(
        self,
        *,
        weights: Mapping[str, float] = {"an": 1.0},
        hp: Mapping[str, Mapping[str, Any]] = {},
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
        self.parts = nn.ModuleDict({name: create(name, hp.get(name)) for name in weights})
        self.needs = Needs(
            train_pass=any(part.needs.train_pass for part in self._parts()),
            batch_coupled=any(part.needs.batch_coupled for part in self._parts()),
        )

    def param_groups(self) -> list[dict[str, Any]]:
        return [group for part in self._parts() for group in part.param_groups()]

    def on_fit_start(self, facts: Facts) -> None:
        for part in self._parts():
            part.on_fit_start(facts)

    def on_epoch_start(self, progress: Progress) -> None:
        for part in self._parts():
            part.on_epoch_start(progress)

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        return {
            f"{name}/{term}": self.weights[name] * value
            for name, part in self.parts.items()
            for term, value in part(outputs, batch).items()
        }

    def after_step(self, outputs: Outputs, batch: Batch) -> None:
        for part in self._parts():
            part.after_step(outputs, batch)

    def on_epoch_end(self, progress: Progress, train_pass: Callable[[], Tensor] | None) -> None:
        for part in self._parts():
            part.on_epoch_end(progress, train_pass)

    def _parts(self) -> list[Objective]:
        return [part for part in self.parts.values() if isinstance(part, Objective)]
