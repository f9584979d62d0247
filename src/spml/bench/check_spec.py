"""Checks that the parts of a specification fit together, before anything runs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from ..common.errors import InputError, nearest
from ..config import AUTO, LBFGS, Config, check, from_dict
from ..data.hiding import check_observe
from ..methods.registry import create
from ..models import CLOSED_FORM
from ..models.spec import OWN, origin_of
from ..runs.settle.resolve import missed_warmup
from ..short_names import nested
from .rows import ORACLE
from .space import grid_size
from .spec import Candidate, Spec, merged
from .yaml_lines import Document, KeyPath

MAX_RUNS = 1_000_000

_OF_TRAINING = {"epochs", "batch_size", "patience", "optim", "hp"}
"""Settings that have no effect where heads are solved in closed form."""


def check_spec(spec: Spec, document: Document, positions: Mapping[str, KeyPath]) -> None:
    """Refuse a specification that could only fail later."""
    names = [candidate.name for candidate in spec.candidates]
    for key, name in (("baseline", spec.baseline), ("ceiling", spec.ceiling)):
        if name and name not in names:
            raise document.error((key,), f"{key}: no candidate is called {name!r}. {nearest(name, names)}")
    for candidate in spec.candidates:
        with document.at(positions[candidate.name], f"candidate {candidate.name!r}: "):
            _check_search(spec, candidate)
            _check_settings(spec, candidate)
    runs = sum(map(spec.trials_of, spec.candidates))
    runs *= len(spec.data) * len(spec.hidings) * len(spec.seeds)
    if runs > MAX_RUNS:
        raise document.error(("search",), f"these are {runs:,} runs; at most {MAX_RUNS:,} are possible")


def _check_search(spec: Spec, candidate: Candidate) -> None:
    if spec.sampler_of(candidate) == "grid":
        for key, part in candidate.space.items():
            if not part.choices:
                raise InputError(f"sampler grid needs a list of values for {key}, not a range")
        if (count := grid_size(candidate.space)) > spec.trials:
            raise InputError(
                f"its space is a grid of {count} trials, but search.trials allows {spec.trials} for each "
                "candidate"
            )
    searched = [key for key in candidate.space if key.partition(".")[0] in _OF_TRAINING]
    if candidate.settings.get("method") == AUTO and searched:
        raise InputError(
            f"method {AUTO} solves its heads instead of training them and chooses their penalties itself, so "
            f"there is nothing to search in {', '.join(searched)}. Write {{name: {candidate.name}, method: "
            f"{AUTO}, space: {{}}}}"
        )


def _check_settings(spec: Spec, candidate: Candidate) -> None:
    """Check that all settings exist and are valid, on every data set and at both ends of every range."""
    ends = [part.ends for part in candidate.space.values()]
    for values in zip(*ends, strict=True) if ends else [()]:
        at_end = nested(dict(zip(candidate.space, values, strict=True)))
        for data, hiding in itertools.product(spec.data, spec.hidings):
            settings = merged(
                spec.train, data.train, candidate.settings, at_end,
                {"data": {**data.settings, **candidate.hide(hiding)}, "output": "-"},
            )  # fmt: skip
            config = from_dict(settings)
            _check_run(config)
            if candidate.first is not None:
                _check_first(config, from_dict(merged(settings, candidate.first)), spec.modes)
            if not config.method and config.model.head not in CLOSED_FORM:
                raise InputError("it needs a method (method: ...)")


def _check_run(config: Config) -> None:
    check(config)
    if origin_of(config.model.backbone) == OWN:
        raise InputError(
            f"backbone {config.model.backbone!r} is code of your own, which no specification can name: "
            "compute its features once, and compare on these (.npz)"
        )
    check_observe(config.data)
    trained = config.method and config.method != AUTO
    if trained and (note := missed_warmup(config, create(config.method, config.hp))):
        raise InputError(note)


def _check_first(config: Config, first: Config, modes: Sequence[str]) -> None:
    """Check the first phase of a run; only a model that is trained can go through two phases."""
    _check_run(first)
    if first.select == ORACLE and {*modes} != {ORACLE}:
        raise InputError(
            "a first phase that is selected by true labels would reach the modes that go without them: leave "
            "out `select` in `first`, or compare in `modes: [oracle]` alone"
        )
    for phase in (config, first):
        if phase.method in ("", AUTO) or phase.optim.name == LBFGS:
            raise InputError("a head that is solved has no first phase: leave out `first`, or train it")
