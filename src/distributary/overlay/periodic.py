"""Periodic alarms, with which nodes refresh soft state: whatever expires unless it is repeated."""

from __future__ import annotations

from collections.abc import Callable

from distributary.overlay.node import Node


def set_periodic_alarm(
    node: Node, name: str, period: float | None, action: Callable[[], None], *, delay: float
) -> None:
    """Call `action` every `period` seconds from the start of a node on; never when the period is None.

    The first call comes `delay` periods after the start, a number that should differ from node to node, so
    that not all nodes of a network send at once (see `staggered`).
    """
    if period is None:
        return

    def ring(about: None) -> None:
        node.wake_after(period, name)
        action()

    node.at_alarm(name, ring)
    node.at_start(lambda: node.wake_after(period * delay, name))


def staggered(address: int) -> float:
    """A number between 0 and 1 that is spread evenly over the addresses of a network."""
    return (address * 0.618034) % 1.0
