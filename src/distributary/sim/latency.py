"""How long a message takes from one node to another."""

from __future__ import annotations

from dataclasses import dataclass

from distributary.overlay.node import Address, Message


@dataclass(frozen=True)
class Constant:
    """The same for every message."""

    seconds: float

    def delays(self, now: float, sender: Address, to: Address, message: Message) -> tuple[float, ...]:
        return (self.seconds,)
