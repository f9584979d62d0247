"""Bodies of requests, and answers as JSON, of both pages."""

from __future__ import annotations

from typing import Any

from fastapi import Depends, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict

MOST_CARDS = 200
"""Samples that one request may be about."""


class Body(BaseModel):
    """Body of a request: fields of their types and no others."""

    model_config = ConfigDict(strict=True, extra="forbid")


def once(quotes: int) -> Any:
    """Dependency that refuses a body with a field twice, of which JSON would take the last.

    Args:
        quotes: Quotes of a valid body: two of each name and each text.
    """

    async def check(request: Request) -> None:
        if (await request.body()).count(b'"') > quotes:
            problem = "a field is given more than once. Expected one value."
            raise RequestValidationError([{"loc": ("body",), "msg": problem}])

    return Depends(check)


def plain(value: Any) -> Any:
    """A value with objects in place of the named tuples in it, which JSON would make lists of."""
    if hasattr(value, "_asdict"):
        return {name: plain(part) for name, part in value._asdict().items()}
    return [plain(part) for part in value] if isinstance(value, (list, tuple)) else value
