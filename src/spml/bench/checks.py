"""What must fit together in a specification whose parts have been read."""

from __future__ import annotations

from typing import Any

from ..config import check, from_dict
from ..data.hiding import check_observe
from ..errors import InputError, nearest
from ..methods.registry import create
from ..models import CLOSED_FORM
from ..runs.resolve import missed_warmup
from .document import Document, Where
from .nesting import merged, nested
from .space import Space, grid_size
from .spec import Candidate, Spec

MAX_RUNS = 1_000_000


def check_spec(spec: Spec, document: Document) -> None:
    """Refuse what could only fail later.

    Raises:
        InputError: an unknown candidate or setting, a value outside its domain, or a budget that is not
            possible, with its line.
    """
    names = [candidate.name for candidate in spec.candidates]
    for what in ("baseline", "ceiling"):
        name = getattr(spec, what)
        if name and name not in names:
            raise document.error((what,), f"{what}: no candidate is called {name!r}. {nearest(name, names)}")
    for candidate in spec.candidates:
        where = _place(candidate, document)
        if spec.sampler == "grid":
            _check_grid(spec, candidate, where, document)
        _check_settings(spec, candidate, where, document)
    runs = sum(map(spec.trials_of, spec.candidates))
    runs *= len(spec.data) * len(spec.hidings) * len(spec.seeds)
    if runs > MAX_RUNS:
        raise document.error(("search",), f"this would be {runs:,} runs; at most {MAX_RUNS:,} are possible")


def _place(candidate: Candidate, document: Document) -> Where:
    for number, entry in enumerate(document.value["candidates"]):
        named = entry if isinstance(entry, str) else entry.get("name", entry.get("method"))
        if named == candidate.name:
            return ("candidates", number)
    return ("candidates",)


def _check_grid(spec: Spec, candidate: Candidate, where: Where, document: Document) -> None:
    for key, part in candidate.space.items():
        if not part.choices:
            raise document.error(where, f"sampler grid needs a list of values for {key}, not a range")
    count = grid_size(candidate.space)
    if count > spec.trials:
        raise document.error(
            where,
            f"candidate {candidate.name!r} has a grid of {count} trials, but search.trials allows "
            f"{spec.trials} for each candidate",
        )


def _check_settings(spec: Spec, candidate: Candidate, where: Where, document: Document) -> None:
    """On every data set, at the ends of every range: settings must exist and be in their domain."""
    for ends in _ends(candidate.space):
        for data in spec.data:
            for hiding in spec.hidings:
                try:
                    settings = merged(
                        spec.train, data.train, candidate.settings, nested(ends),
                        {"data": {**data.settings, **hiding.settings}, "output": "-"},
                    )  # fmt: skip
                    config = from_dict(settings)
                    check(config)
                    check_observe(config.data)
                    if config.method and (note := missed_warmup(config, create(config.method, config.hp))):
                        raise InputError(note)
                except (InputError, ValueError) as error:
                    raise document.error(where, f"candidate {candidate.name!r}: {error}") from error
                if not config.method and config.model.head not in CLOSED_FORM:
                    raise document.error(where, f"candidate {candidate.name!r} has no method (method: ...)")


def _ends(space: Space) -> list[dict[str, Any]]:
    """Settings at the lower, and at the upper ends of all ranges."""
    if not space:
        return [{}]
    low = {key: part.choices[0] if part.choices else part.at(0.0) for key, part in space.items()}
    high = {
        key: part.choices[-1] if part.choices else int(part.high) if part.integer else part.high
        for key, part in space.items()
    }
    return [low, high]
