"""Limits of the cost of a request, and the refusal of one that is not answered."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from ..common.errors import InputError, one_line


@dataclass(frozen=True)
class Limits:
    """Limits of the cost of a request.

    Attributes:
        max_request_bytes: Bytes of the body of a request; all requests together hold at most eight times as
            many.
        max_image_bytes: Bytes of an encoded image.
        max_pixels: Pixels of an image, which its header states. Decoding takes up to 20 bytes for each.
        max_samples: Images, rows or texts of a request.
        max_queue: Samples that are decoded, wait for the model, or are in it, of all requests together.
            Further requests get status 429.
        body_timeout: Seconds in which the body of a request must arrive.
        answer_timeout: Seconds after which a request whose body has arrived is given up.

    Raises:
        InputError: A value is not positive and finite, or a request could never be taken.
    """

    max_request_bytes: int = 32_000_000
    max_image_bytes: int = 16_000_000
    max_pixels: int = 25_000_000
    max_samples: int = 64
    max_queue: int = 256
    body_timeout: float = 20.0
    answer_timeout: float = 30.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (value > 0 and math.isfinite(value)):
                raise InputError(f"{field.name} must be greater than 0, got {value:g}.")
        if self.max_queue < self.max_samples:
            raise InputError(
                f"`max_queue` must be at least `max_samples` ({self.max_samples}), or a request with so many "
                f"could never be taken; got {self.max_queue}."
            )


class RefusedError(Exception):
    """A request that is refused; the message tells the client why, and what it can do."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(one_line(message))
        self.status = status

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the answer: when to try again, and whether the connection ends."""
        if self.status in (429, 503):
            return {"Retry-After": "1"}
        # The rest of a body that comes too slowly is not waited for.
        return {"Connection": "close"} if self.status == 408 else {}
