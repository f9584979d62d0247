"""Search spaces: ranges of settings, and proposals of trials."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ..common.draws import raw, uniform
from ..common.errors import missing_extra

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

Sampler = Literal["random", "grid", "tpe"]

_DIGITS = 4  # significant digits of a proposal


@dataclass(frozen=True)
class Range:
    """Values that a setting may take.

    Attributes:
        low, high: Bounds, included; not stated if there are choices.
        log: Whether values are uniform in the logarithm.
        integer: Whether values are whole numbers.
        choices: The values themselves, instead of bounds.
    """

    low: float = -math.inf
    high: float = math.inf
    log: bool = False
    integer: bool = False
    choices: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        """Check that there are values between the bounds."""
        if self.choices:
            return
        possible = -math.inf < self.low < self.high < math.inf and (self.low > 0 or not self.log)
        if not possible or (self.integer and (self.low % 1 or self.high % 1)):
            raise ValueError(
                "expected a list of values, or low < high (log: true needs low > 0, integer: true whole "
                "numbers)"
            )

    def at(self, share: float) -> Any:
        """Return the value at a fraction of the range, `share` in [0, 1)."""
        if self.choices:
            return self.choices[int(share * len(self.choices))]
        low, high = self.low, self.high + self.integer
        if self.log:
            low, high = math.log(low), math.log(high)
        value = low + share * (high - low)
        value = math.exp(value) if self.log else value
        if self.integer:
            return min(max(math.floor(value), int(self.low)), int(self.high))  # exp(log(5)) lies below 5
        return _rounded(value)

    @property
    def ends(self) -> tuple[Any, Any]:
        """First and last value."""
        if self.choices:
            return self.choices[0], self.choices[-1]
        return self.at(0.0), int(self.high) if self.integer else self.high


Space = Mapping[str, Range]


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def grid_size(space: Space) -> int:
    """Number of combinations of choices."""
    return math.prod(len(part.choices) for part in space.values())


def propose(
    sampler: Sampler,
    space: Space,
    name: str,
    seed: int,
    trial: int,
    earlier: Sequence[tuple[dict[str, Any], float | None]],
) -> dict[str, Any]:
    """Propose the settings of a trial, independently of the process that asks.

    Args:
        sampler: `random` draws a setting from (its name, seed, trial) alone, so that candidates which search
            the same setting get the same values; `grid` takes all combinations; `tpe` is Optuna's
            Tree-structured Parzen Estimator on the earlier trials.
        space: Ranges by setting.
        name: Name of the series, for `tpe`.
        seed: Seed of the series.
        trial: Number of the trial, from 0.
        earlier: Settings and value (higher is better; None = failed) of the earlier trials, in order.
    """
    if not space:
        return {}
    if sampler == "grid":  # all combinations; the last setting varies fastest
        combinations = itertools.product(*(part.choices for part in space.values()))
        return dict(zip(space, next(itertools.islice(combinations, trial, None)), strict=True))
    if sampler == "random":
        return {key: part.at(float(uniform(1, "search", key, seed, trial)[0])) for key, part in space.items()}
    return _tpe(space, name, trial, earlier)


def _tpe(
    space: Space, name: str, trial: int, earlier: Sequence[tuple[dict[str, Any], float | None]]
) -> dict[str, Any]:
    try:
        import optuna
        from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
        from optuna.trial import TrialState, create_trial
    except ImportError as error:
        raise missing_extra("optuna", "bench") from error

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    distributions: dict[str, BaseDistribution] = {}
    for key, part in space.items():
        if part.choices:
            distributions[key] = CategoricalDistribution(part.choices)
        elif part.integer:
            distributions[key] = IntDistribution(int(part.low), int(part.high), log=part.log)
        else:
            distributions[key] = FloatDistribution(part.low, part.high, log=part.log)
    sampler = optuna.samplers.TPESampler(seed=int(raw(1, "tpe", name, trial)[0] % 2**32))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study = optuna.create_study(direction="maximize", sampler=sampler)
        for params, value in earlier:
            state = TrialState.FAIL if value is None else TrialState.COMPLETE
            study.add_trial(
                create_trial(state=state, value=value, params=params, distributions=distributions)
            )
        proposal = study.ask(distributions).params
    for key, part in space.items():
        if isinstance(proposal[key], float):
            proposal[key] = _rounded(proposal[key])
            if not part.choices:  # Optuna refuses trials outside
                proposal[key] = min(max(proposal[key], part.low), part.high)
    return {key: proposal[key] for key in space}
