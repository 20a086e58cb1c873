"""What a request is refused with: a status of HTTP and a sentence."""

from __future__ import annotations

from distributary.errors import DistributaryError


class WebError(DistributaryError):
    """A request that cannot be done: which status it gets, and why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
