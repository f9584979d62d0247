"""What a request may cost."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from ..common.errors import InputError


@dataclass(frozen=True)
class Limits:
    """What a request may cost.

    Attributes:
        max_request_bytes: Bytes of the body of a request; all requests together hold at most eight times as
            many.
        max_image_bytes: Bytes of an encoded image.
        max_pixels: Pixels of an image, which its header states. Decoding takes up to 20 bytes for each.
        max_samples: Images or rows of a request.
        max_queue: Samples that are decoded, wait for the model, or are in it, of all requests together.
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
                raise InputError(f"--{field.name} must be greater than 0, got {value:g}.")
        if self.max_queue < self.max_samples:
            raise InputError(
                f"--max_queue must be at least --max_samples ({self.max_samples}), or a request with so many "
                f"could never be taken; got {self.max_queue}."
            )

    @property
    def max_held_bytes(self) -> int:
        """Bytes of the bodies of all requests together."""
        return 8 * self.max_request_bytes
