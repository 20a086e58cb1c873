"""Thresholds with segments whose length follows their work (`change`).

The guard knows the nodes that keep subscriptions, their numbers, and how many values they took, by their
reports; so measuring costs nothing. It does so every `period` seconds, when a value arrives. A survey covers
the longest possible segment, so a new guard finds everything.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from distributary.overlay.node import Address
from distributary.overlay.ring.ring import Arrival, Ring
from distributary.systems.state_aware.broker import DirectoryRegistration, GuardedRemoval
from distributary.systems.state_aware.lengths.answers import Answers, AnswersOfNodes
from distributary.systems.state_aware.lengths.change import BalancedBroker, HandBackRequest
from distributary.systems.state_aware.order import ValueStamp
from distributary.systems.state_aware.segments import Segments
from distributary.systems.state_aware.thresholds import (
    GuardedValue,
    QuietReport,
    ThresholdsBroker,
    ValueOffer,
)


class _Measurement(NamedTuple):
    """A guard's last measurement of an item's work."""

    time: float
    taken: int


class BalancedThresholds(BalancedBroker, ThresholdsBroker):
    """A node of a thresholds network in which each item's segment has its own length."""

    def __init__(self, ring: Ring, segments: Segments, **options: Any) -> None:
        self._measured: dict[str, _Measurement] = {}
        super().__init__(ring, segments, **options)
        self.wait_while_moving(ValueOffer, lambda message: message.item)
        self.wait_while_moving(DirectoryRegistration, lambda message: message.registered.item)
        self.wait_while_moving(GuardedRemoval, lambda message: message.unregister.item)

    def is_guard(self, item: str) -> bool:
        return item in self._guarded

    def answers_for(self, item: str, length: int) -> Answers:
        return AnswersOfNodes(self._guarded[item].nodes)

    def ask_back(self, request: HandBackRequest) -> None:
        for address, node in list(self._guarded[request.item].nodes.items()):
            self.tell(address, request._replace(after=tuple(sorted(node.sent.items()))))

    def place_again(self, register: DirectoryRegistration) -> None:
        self.assign(self._guarded[register.registered.item], register)

    def is_placed(self, item: str) -> bool:
        return not self._guarded[item].pending

    def has_seen(self, topic: str, stamp: ValueStamp) -> bool:
        latest, _ = self._latest_shown.get(topic, (None, -1))
        return latest is not None and not stamp.is_newer(latest)

    def on_answer(self, item: str, sender: Address, kept: int) -> None:
        if not kept:
            self._guarded[item].nodes.pop(sender, None)

    def _offered(self, message: ValueOffer, arrival: Arrival) -> None:
        super()._offered(message, arrival)
        self._measure(message.item)

    def _measure(self, item: str) -> None:
        """Measure the work of an item if the period is over, and change the length if needed."""
        guarded = self._guarded[item]
        taken = sum(node.taken for node in guarded.nodes.values())
        looked = self._measured.setdefault(item, _Measurement(self.node.now, taken))
        passed = self.node.now - looked.time
        if passed < self.balance.period or guarded.pending or not self.knows(guarded):
            return
        self._measured[item] = _Measurement(self.node.now, taken)
        kept = sum(node.kept for node in guarded.nodes.values())
        self.weigh(item, kept, 60 * max(0, taken - looked.taken) / passed)

    def _finish(self, item: str) -> None:
        self._measured.pop(item, None)
        super()._finish(item)

    def _reported(self, message: QuietReport) -> None:
        super()._reported(message)
        self.confirm_placed(message.item)

    def _shown(self, message: GuardedValue) -> None:
        super()._shown(message)
        self.look_again(message.item)
