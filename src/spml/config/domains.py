"""Domains of settings, with what a message calls them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

Positive = Annotated[int, Meta(ge=1, description="at least 1")]
Count = Annotated[int, Meta(ge=0, description="at least 0")]
Amount = Annotated[float, Meta(ge=0, description="at least 0")]
Rate = Annotated[float, Meta(gt=0, description="greater than 0")]
Fraction = Annotated[float, Meta(ge=0, lt=1, description="in [0, 1)")]
