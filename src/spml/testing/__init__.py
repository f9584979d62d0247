"""The suite that every method passes. Run it on your own: `spml.check_objective(MyMethod)`.

Each check is a function of a `Case` and raises AssertionError with a sentence that says what does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..methods.base import Objective
from ..methods.registry import create
from . import losses, memories
from .cases import Case, make_case


def check_objective(method: str | type[Objective], **hp: Any) -> None:
    """Check that a method keeps the rules that the engine, checkpoints and several processes rely on.

    Args:
        method: a registered name, or a class.
        hp: hyper-parameters; defaults where not given.

    Raises:
        AssertionError: a rule is broken; the message says which and how.
    """
    for name, check in checks(method, **hp):
        try:
            check()
        except AssertionError as error:
            raise AssertionError(f"{method}: {name}: {error}") from error


def checks(method: str | type[Objective], **hp: Any) -> Iterator[tuple[str, Callable[[], None]]]:
    """The checks of a method by name, for a test runner that reports them one by one."""
    make = (lambda: create(method, hp)) if isinstance(method, str) else (lambda: method(**hp))
    case = make_case(make)
    for check in (*losses.CHECKS, *memories.CHECKS):
        yield check.__name__.removeprefix("_").replace("_", " "), lambda check=check: check(case)  # type: ignore[misc]


__all__ = ["Case", "check_objective", "checks"]
