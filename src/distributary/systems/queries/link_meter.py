"""The measurements of a node: round trips to other brokers, by probes (`links` has what is known of links).

Rules:

- A node sends probes to the other brokers, and each is echoed at once. A probe carries the time at which it
  was sent, by the sender's own clock, and the echo returns it: so only round trips are measured, and no two
  clocks need agree. A latency is half of the median of the last round trips of first probes.
- The first probes of a period are sent to all brokers at once, and on a narrow line they hold each other up.
  So each broker that has answered gets a pair of probes by itself, a short one and then a long one, one pair
  after the other, in the next period if need be. What the shortest round trip of long probes takes more than
  that of short ones in such pairs is the time that the additional bytes took: that gives the bandwidth from
  here to there, as far as it is free. Where it is no more than the short ones differ among themselves, the
  bandwidth is more than can be measured so, and is infinite.
- Probes and echoes are not sent again when they are lost: that would only add to the time. Of echoes that
  come twice the first counts.
- At most `MOST_PROBED` brokers are probed in a period, in turn.
- What has changed by more than `CHANGED` is reported to the registry, which chooses roots and parents by it.

Cost: six messages for each broker probed in a period, and a report where something has changed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from math import inf
from statistics import median
from typing import Literal

from distributary.overlay.node import Address, Node
from distributary.overlay.periodic import set_periodic_alarm
from distributary.systems.queries.links import LinkEcho, LinkEstimate, LinkProbe, LinkReport, LinkTable
from distributary.systems.queries.registry_failover import RegistryLink

SAMPLES = 8
"""How many of the last round trips count."""
PADDING = bytes(1024)
"""What a long probe carries more than a short one."""
MOST_PROBED = 32
CHANGED = 0.2
"""The share by which an estimate changes before the registry is told."""


Step = Literal["first", "short", "long"]
"""A probe beside those to other brokers, or the short or the long one of a pair."""


class RoundTrips:
    """The last round trips to one node, in seconds.

    >>> trips = RoundTrips()
    >>> for step, seconds in (("first", 0.3), ("short", 0.2), ("short", 0.4), ("long", 1.224)):
    ...     trips.add(seconds, step)
    >>> trips.estimate()
    LinkEstimate(latency=0.15, bandwidth=1000.0)
    """

    def __init__(self) -> None:
        self._last: dict[Step, deque[float]] = {
            step: deque(maxlen=SAMPLES) for step in ("first", "short", "long")
        }

    def add(self, seconds: float, step: Step) -> None:
        """An echo has come after so many seconds."""
        self._last[step].append(seconds)

    def estimate(self) -> LinkEstimate | None:
        """The link, once an echo of a first probe has come."""
        first, short, long = self._last.values()
        if not first:
            return None
        bandwidth = inf
        if long:
            least = min(short)
            more = min(long) - least
            if more > median(short) - least and more > 0:
                bandwidth = round(len(PADDING) / more, 3)
        return LinkEstimate(median(first) / 2, bandwidth)


class LinkMeter:
    """The measurements of one node."""

    def __init__(
        self, registry: RegistryLink, brokers: Iterable[Address], period: float, speed: float
    ) -> None:
        self._node: Node = registry.connections.node
        self._registry = registry
        self._speed = speed
        self._others = [one for one in brokers if one != self._node.address]
        self._trips: dict[Address, RoundTrips] = {}
        self._told: dict[Address, LinkEstimate] = {}
        """What the registry was told last."""
        self._turn = 0
        self._under_way: dict[tuple[Address, LinkEcho], Step] = {}
        """Nodes and the echoes that are expected from them, with what was sent."""
        self._pairs_due: deque[Address] = deque()
        """Nodes that a pair of probes is due to; that to the first is under way."""
        self._node.handle(LinkProbe, self._probe)
        self._node.handle(LinkEcho, self._echo)
        if self._others:
            set_periodic_alarm(self._node, "flow probe links", period, self.probe, delay=1.0)
            self._node.at_alarm("flow report links", lambda about: self._report())
            self._node.at_start(self.probe)

    def links(self) -> dict[Address, LinkEstimate]:
        """What is known of the links to other nodes."""
        found = {other: trips.estimate() for other, trips in self._trips.items()}
        return {other: estimate for other, estimate in found.items() if estimate is not None}

    def table(self) -> LinkTable:
        """The same, by both ends."""
        here = self._node.address
        return LinkTable({(here, other): each for other, each in self.links().items()})

    def probe(self) -> None:
        """Probe the brokers whose turn it is; what they answer within the shortest retry is reported."""
        there = [one for one in self._others if one not in self._registry.connections.removed]
        first = self._turn = self._turn % max(1, len(there))
        probed = (*there[first:], *there[:first])[:MOST_PROBED]
        self._turn += len(probed)
        self._under_way.clear()
        later = list(self._pairs_due)[1:]  # an echo of the first was lost, or is late
        self._pairs_due = deque(other for other in later if other in there)
        for other in probed:
            self._send(other, "first")
        self._send_pair()
        self._node.wake_after(self._registry.connections.timeout, "flow report links")

    def _send(self, other: Address, step: Step) -> None:
        probe = LinkProbe(self._node.now, PADDING if step == "long" else b"")
        self._under_way[other, LinkEcho(probe.sent, step == "long")] = step
        self._node.send(other, probe)

    def _probe(self, message: LinkProbe, sender: Address) -> None:
        if sender not in self._registry.connections.removed:
            self._node.send(sender, LinkEcho(message.sent, bool(message.padding)))

    def _echo(self, message: LinkEcho, sender: Address) -> None:
        step = self._under_way.pop((sender, message), None)
        if step is None:
            return
        self._trips.setdefault(sender, RoundTrips()).add(self._node.now - message.sent, step)
        if step == "short":
            self._send(sender, "long")
        elif step == "long":
            self._pairs_due.popleft()
            self._send_pair()
        elif sender not in self._pairs_due:
            self._pairs_due.append(sender)
            if len(self._pairs_due) == 1:
                self._send_pair()

    def _send_pair(self) -> None:
        """Begin the pair that is due next."""
        if self._pairs_due:
            self._send(self._pairs_due[0], "short")

    def _report(self) -> None:
        news = {other: link for other, link in self.links().items() if self._is_news(other, link)}
        if news or not self._told:
            self._told.update(news)
            self._registry.send(LinkReport(self._speed, tuple(news.items())))

    def _is_news(self, other: Address, link: LinkEstimate) -> bool:
        told = self._told.get(other)
        if told is None:
            return True
        return any(
            abs(new - old) > CHANGED * old if old < inf else new < inf
            for old, new in zip(told, link, strict=True)
        )
