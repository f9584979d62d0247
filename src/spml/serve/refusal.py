"""A request that is not answered with predictions."""

from __future__ import annotations

from ..common.errors import one_line


class RefusedError(Exception):
    """A request that is refused; the message tells the client why, and what it can do.

    Args:
        status: HTTP status code.
        message: Message for the client.
    """

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
