"""What a node has for its clients, and for whoever runs it, handed to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from distributary.errors import DistributaryError
from distributary.flow import RejectedItem
from distributary.live.clients import ClientRoom
from distributary.model import Delivery, DeliveryBatch
from distributary.overlay.broker import LogGap, RequestRefusal


class InTurn(NamedTuple):
    """Passes through a node like a delivery, and so comes after all those before it."""

    action: Callable[[], None]


class HandingOut:
    """Hands out what one node delivers.

    Deliveries to clients that are not connected go to `on_delivery`, what should be told to `notice`, and why
    the node cannot go on to `fail`.
    """

    def __init__(
        self,
        clients: ClientRoom,
        on_delivery: Callable[[Delivery], None] | None,
        notice: Callable[[str], None],
        fail: Callable[[DistributaryError, str], None],
    ) -> None:
        self._clients, self._on_delivery = clients, on_delivery
        self._notice, self._fail = notice, fail
        self.delivered = 0

    def take(self, item: Any) -> None:
        """The node has delivered this."""
        if isinstance(item, Delivery):
            self.delivered += 1
            if not self._clients.deliver(item) and self._on_delivery is not None:
                self._on_delivery(item)
        elif isinstance(item, DeliveryBatch):
            self.delivered += len(item.events)
            if not self._clients.deliver(item) and self._on_delivery is not None:
                for delivery in item.deliveries:
                    self._on_delivery(delivery)
        elif isinstance(item, InTurn):
            item.action()
        elif isinstance(item, LogGap):
            self._clients.tell_gap(item)
        else:
            self._take_of_queries(item)

    def _take_of_queries(self, item: Any) -> None:
        """The node of a query network has this for its clients, or for whoever runs it."""
        from distributary.systems.queries.broker import QueryResult
        from distributary.systems.queries.registry_failover import RemovalNotice

        if isinstance(item, QueryResult):
            self.delivered += 1
            self._clients.deliver_result(item.stream, item.item)
        elif isinstance(item, RequestRefusal):
            self._clients.requests.refused(item.what, item.reason)
        elif isinstance(item, RejectedItem):
            self._notice(f"set aside: item {item.id!r} of {item.stream}: {item.reason}")
        elif isinstance(item, RemovalNotice):
            reason = (
                "it is no member any more, because it left, was silent or lost its memory: nodes of a query"
                " network come back when all of them are started again"
            )
            self._fail(DistributaryError(reason), reason)
