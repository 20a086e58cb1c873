"""MFD with segments whose length follows their work (`surveyed`).

A change moves every logical node of the item, and with them the sub-filters and their proxies. What these
remember does not move, since values on their way between levels would not be in it: all sub-filters of the
item begin again.

Rules, beside those of `change` and `surveyed`:

- The sequencer is the guard. A node that is asked hands back all subscriptions of the item, and drops its
  sub-filters and the latest values.
- When all subscriptions are in place, the guard casts the latest value of each topic once more, with which
  every sub-filter begins. Homes that had it by then ignore it, others are given it: a change costs a delivery
  to each subscription that is behind, and the bound holds from then on.
- Every value says how long the segment is. So nodes that join later know where the other levels are.
- The subscriptions of a node that does not answer are out of reach until their homes register them again.
"""

from __future__ import annotations

from typing import ClassVar

from distributary.matching.change.decomposition import chain_of, leading_unit
from distributary.model import Event
from distributary.overlay.ring.ring import Arrival
from distributary.systems.state_aware.broker import DirectoryRegistration, PublishedValue
from distributary.systems.state_aware.lengths.surveyed import SurveyedBroker
from distributary.systems.state_aware.mfd import LevelValue, MFDBroker
from distributary.systems.state_aware.order import ValueStamp
from distributary.systems.state_aware.sub_filters import logical_of


class BalancedMFD(SurveyedBroker, MFDBroker):
    """A node of an MFD network in which each item's segment has its own length."""

    moves_all: ClassVar[bool] = True

    def place_within(self, item: str, tolerance: float, length: int) -> int:
        *_, key = chain_of(leading_unit(tolerance, self.segments.digits), tolerance)
        return self.segments.logical_place(item, logical_of(key), length)

    def has_seen(self, topic: str, stamp: ValueStamp) -> bool:
        return True  # nothing is asked for: all begins again with the latest value

    # Publication.

    def _order(self, message: PublishedValue, arrival: Arrival) -> None:
        super()._order(message, arrival)
        self.measure(message.item)

    def send_to_lowest(self, item: str, event: Event, stamp: ValueStamp) -> None:
        self.learn_length(item, stamp, self.length_of(item))
        super().send_to_lowest(item, event, stamp)

    def _cast(self, message: LevelValue) -> None:
        length = self.length_of(message.item) if message.item in self._lengths else None
        super()._cast(message._replace(length=length))

    def _receive_value(self, message: LevelValue, arrival: Arrival) -> None:
        if message.length is not None:
            self.learn_length(message.item, message.stamp, message.length)
        super()._receive_value(message, arrival)

    # A change.

    def give_up(self, item: str) -> list[DirectoryRegistration]:
        given_up = super().give_up(item)
        self._filters.pop(item, None)
        if not self.is_guard(item):
            self.latest.forget(item)
        return given_up

    def _finish(self, item: str) -> None:
        for event, stamp in self.latest.of(item):
            self.send_to_lowest(item, event, stamp)
        super()._finish(item)
