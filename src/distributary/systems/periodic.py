"""A periodic alarm, with which brokers refresh soft state: registrations that expire unless repeated."""

from __future__ import annotations

from collections.abc import Callable

from distributary.overlay.node import Node


class PeriodicAlarm:
    """Calls `action` every `period` seconds from the start of its node on; never when the period is None.

    The first call comes `delay` periods after the start, a number that should differ from node to node, so
    that not all nodes of a network send at once (see `staggered`).
    """

    def __init__(
        self, node: Node, name: str, period: float | None, action: Callable[[], None], *, delay: float
    ) -> None:
        self._node, self._name, self._action = node, name, action
        if period is not None:
            self._period = period
            node.at_alarm(name, self._ring)
            node.at_start(lambda: node.wake_after(period * delay, name))

    def _ring(self, about: None) -> None:
        self._node.wake_after(self._period, self._name)
        self._action()


def staggered(address: int) -> float:
    """A number between 0 and 1 that is spread evenly over the addresses of a network."""
    return (address * 0.618034) % 1.0
