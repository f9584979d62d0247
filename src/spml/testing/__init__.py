"""The contract of methods: checks of the rules that the engine, checkpoints and several processes rely on.

Every registered method passes them. Run them on your own method with `spml.check_objective(MyMethod)`, or as
one pytest test each with `parametrize_with_checks`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from ..methods.base import Objective
from ..methods.registry import create
from .contract import CHECKS, Case, make_case

if TYPE_CHECKING:
    import pytest

Method: TypeAlias = str | type[Objective]
"""Registered name or class of a method."""

MethodWithHyperParameters: TypeAlias = tuple[Method, Mapping[str, Any]]


def check_objective(method: Method, **hp: Any) -> None:
    """Check that a method fulfils the contract.

    Args:
        method: Registered name or class of the method.
        hp: Hyper-parameters; defaults where not given.

    Raises:
        AssertionError: A check failed; the message says which one and how.

    Example:
        >>> check_objective("gr", q2=0.5)
    """
    for name, check in checks(method, **hp):
        try:
            check()
        except AssertionError as error:
            raise AssertionError(f"{_name(method)}: {name}: {error}") from error


def checks(method: Method, **hp: Any) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the name and function of each check of a method, for test runners other than pytest."""
    for name, check in _CHECKS.items():
        yield name, lambda check=check: check((method, hp))  # type: ignore[misc]


def parametrize_with_checks(
    objectives: Iterable[Method | MethodWithHyperParameters],
) -> pytest.MarkDecorator:
    """Make one pytest test for each objective and check.

    Args:
        objectives: Registered names or classes, or pairs of these and hyper-parameters.

    Returns:
        Decorator of a test function with the arguments `objective` and `check`.

    Raises:
        ImportError: pytest is not installed.

    Example:
        >>> @parametrize_with_checks(["gr", ("gr", {"q2": 0.5})])
        ... def test_contract(objective, check):
        ...     check(objective)
    """
    try:
        import pytest
    except ImportError as error:
        raise ImportError("parametrize_with_checks needs pytest: pip install pytest") from error
    return pytest.mark.parametrize(
        ("objective", "check"),
        [
            pytest.param(objective, check, id=f"{_identifier(objective)}-{name}")
            for objective in objectives
            for name, check in _CHECKS.items()
        ],
    )


def _with_case(
    check: Callable[[Case], None],
) -> Callable[[Method | MethodWithHyperParameters], None]:
    """Turn a check of a case into a check of a method, each time on data of its own."""

    def run(objective: Method | MethodWithHyperParameters) -> None:
        method, hp = objective if isinstance(objective, tuple) else (objective, {})
        check(make_case(lambda: create(method, hp) if isinstance(method, str) else method(**hp)))

    return run


def _name(method: Method) -> str:
    return method if isinstance(method, str) else method.__qualname__


def _identifier(objective: Method | MethodWithHyperParameters) -> str:
    method, hp = objective if isinstance(objective, tuple) else (objective, {})
    settings = ", ".join(f"{key}={value}" for key, value in hp.items())
    return f"{_name(method)}({settings})" if settings else _name(method)


_CHECKS = {check.__name__.removeprefix("_").replace("_", " "): _with_case(check) for check in CHECKS}

__all__ = ["Case", "check_objective", "checks", "parametrize_with_checks"]
