"""Events of external sources, from whichever node a client published them at to the proxies of their sources.

Rules:

- The proxy of a source tells every broker of it (`SourceNotice`), and the source counts as registered when
  all have confirmed that, but for those that are removed. So whoever publishes afterwards, at any broker, is
  understood there; an event that no source accepts is refused at once.
- An event goes to the proxies of all sources that accept it, and is acknowledged when each has taken it in. A
  proxy rejects what comes late or does not fit the source's schema: then the event is refused, with the
  reason.
- A publisher may send an event again. A proxy knows the last `REMEMBERED` ids of each of its sources, and
  takes each in once.
- A proxy that is removed is lost with its sources: events of these are refused.

Cost: for an event that is published elsewhere than at the proxy, the event and a receipt.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from distributary.errors import DistributaryError, quoted
from distributary.flow import RejectedItem, Source
from distributary.model import Event, EventKey
from distributary.overlay.broker import RequestRefusal
from distributary.overlay.node import Address, RegistrationKey
from distributary.overlay.periodic import set_periodic_alarm
from distributary.systems.queries.connections import Connections
from distributary.systems.queries.settings import Addresses

REMEMBERED = 1 << 15
"""The ids of a source that its proxy remembers: more than publishers have under way."""
CHECK = 2.0
"""Seconds between two looks whether somebody is waited for who is removed."""


class SourceNotice(NamedTuple):
    """A source is registered, and the sender is its proxy."""

    source: Source


class SourceNoticeReceipt(NamedTuple):
    """The sender knows of a source."""

    source: str


class SourceEvent(NamedTuple):
    """An event for the sources whose proxy the receiver is."""

    event: Event


class SourceEventReceipt(NamedTuple):
    """An event has been taken in, or is refused."""

    key: EventKey
    refused: str | None = None


@dataclass
class _Awaited:
    """An event that proxies have not confirmed yet."""

    proxies: set[Address]
    refused: list[str] = field(default_factory=list)


TakeIn = Callable[[Event, Collection[str]], list[RejectedItem]]
"""Publishes an event of these sources, whose proxy this node is, and gives what was rejected of it."""


class SourceEvents:
    """What a node knows of sources, and the events on their way to them."""

    def __init__(
        self,
        connections: Connections,
        brokers: Addresses,
        take_in: TakeIn,
        on_source: Callable[[Source], None],
    ) -> None:
        self._node = node = connections.node
        self._connections = connections
        self._brokers = frozenset(brokers) - {node.address}
        self._take_in = take_in
        self._on_source = on_source
        self._sources: dict[str, tuple[Source, Address]] = {}
        """All sources that are known, and their proxies."""
        self._confirmed: dict[str, set[Address]] = {}
        """Of sources whose proxy this is and that are not registered everywhere: who knows of them."""
        self._awaited: dict[EventKey, _Awaited] = {}
        self._seen: dict[str, OrderedDict[str, None]] = {}
        node.handle(SourceNotice, self._notice)
        node.handle(SourceNoticeReceipt, self._notice_receipt)
        node.handle(SourceEvent, self._event)
        node.handle(SourceEventReceipt, self._receipt)
        set_periodic_alarm(node, "flow removed proxies", CHECK, self._check, delay=CHECK)

    def known(self, name: str) -> Source | None:
        """The source of that name, if there is one."""
        found = self._sources.get(name)
        return None if found is None else found[0]

    def is_confirmed(self, name: str) -> bool:
        """Whether a source is another node's, or all brokers know of it."""
        return name not in self._confirmed

    def begin(self, source: Source) -> None:
        """This node is the proxy of a source from now on: tell everybody."""
        if source.name not in self._sources:
            self._sources[source.name] = (source, self._node.address)
            self._confirmed[source.name] = set()
            for one in sorted(self._brokers):
                self._connections.send(one, SourceNotice(source))
            self._check_confirmed()

    def publish(self, event: Event) -> None:
        """Bring an event to the proxies of its sources; DistributaryError when there are none."""
        found = [(source.name, proxy) for source, proxy in self._sources.values() if source.accepts(event)]
        if not found:
            raise DistributaryError(
                f"no source takes event {quoted(event.id)}: register one that accepts its topic first"
            )
        for name, proxy in found:
            if proxy in self._connections.removed:
                raise DistributaryError(f"the node that took events of source {name!r} is lost")
        proxies = {proxy for _, proxy in found}
        self._awaited[event.key] = _Awaited(proxies)
        for proxy in sorted(proxies):
            self._connections.send(proxy, SourceEvent(event))

    # What other nodes say

    def _notice(self, message: SourceNotice, sender: Address) -> None:
        self._sources[message.source.name] = (message.source, sender)
        self._connections.send(sender, SourceNoticeReceipt(message.source.name))
        self._on_source(message.source)

    def _notice_receipt(self, message: SourceNoticeReceipt, sender: Address) -> None:
        if message.source in self._confirmed:
            self._confirmed[message.source].add(sender)
            self._check_confirmed()

    def _event(self, message: SourceEvent, sender: Address) -> None:
        event = message.event
        new = [name for name in self._own_sources(event) if event.id not in self._seen.get(name, ())]
        rejected = self._take_in(event, new) if new else []
        for name in {*new} - {each.stream for each in rejected}:
            self._remember(name, event.id)
        reason = "; ".join(f"source {each.stream!r}: {each.reason}" for each in rejected) or None
        self._connections.send(sender, SourceEventReceipt(event.key, reason))

    def _own_sources(self, event: Event) -> list[str]:
        here = self._node.address
        known = self._sources.items()
        return [name for name, (source, proxy) in known if proxy == here and source.accepts(event)]

    def _remember(self, source: str, id: str) -> None:
        seen = self._seen.setdefault(source, OrderedDict())
        seen[id] = None
        if len(seen) > REMEMBERED:
            seen.popitem(last=False)

    def _receipt(self, message: SourceEventReceipt, sender: Address) -> None:
        awaited = self._awaited.get(message.key)
        if awaited is not None:
            self._confirm(message.key, awaited, sender, message.refused)

    def _confirm(self, key: EventKey, awaited: _Awaited, proxy: Address, refused: str | None) -> None:
        awaited.proxies.discard(proxy)
        if refused is not None:
            awaited.refused.append(refused)
        if awaited.proxies:
            return
        del self._awaited[key]
        if awaited.refused:
            self._node.deliver(RequestRefusal(key, "; ".join(awaited.refused)))
        else:
            self._node.acknowledge(key)

    # Nodes that are removed

    def _check(self) -> None:
        self._check_confirmed()
        removed = self._connections.removed
        if removed:
            for key, awaited in list(self._awaited.items()):
                for proxy in sorted(awaited.proxies & removed):
                    self._confirm(key, awaited, proxy, "the node that took events of its source is lost")

    def _check_confirmed(self) -> None:
        """Acknowledge the sources that everybody knows."""
        for name, confirmed in list(self._confirmed.items()):
            if self._brokers <= confirmed | self._connections.removed:
                del self._confirmed[name]
                self._node.acknowledge(RegistrationKey("source", name))
