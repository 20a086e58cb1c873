"""Several subscriptions of one subscriber that read one stream, each at a position of its own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from distributary.flow import BEGINNING, Item
from distributary.model import Delivery, Subscription
from distributary.systems.queries.engine import Engine, Sink
from distributary.systems.queries.messages import InputCursor, SubscriptionStreams
from distributary.systems.queries.reader_names import subscriber_name
from distributary.systems.queries.stream_subscriptions import StreamSubscriptions


class Readers:
    """An engine whose readers take what a test gives them, in any order."""

    def __init__(self, *names: str) -> None:
        self.hosted: dict[str, SimpleNamespace] = {}
        self.watermarks: dict[str, int] = {}
        self.delivered: list[Delivery] = []
        self.subscriptions = StreamSubscriptions(cast("Engine", self), self.delivered.append)
        for name in names:
            asked = Subscription(name, "ann", topic="busy")
            streams = (("busy.large", "busy.large"),)
            self.subscriptions.begin(SubscriptionStreams(asked, streams, (), 1, ()))

    def serve(self, name: str, cursor: InputCursor, sink: Sink) -> None:
        self.hosted[name] = SimpleNamespace(cursors=[cursor], sink=sink)

    def watermark_of(self, name: str) -> int:
        return self.watermarks.get(name, BEGINNING)

    def named(self, name: str) -> str:
        asked = Subscription(name, "ann", topic="busy")
        return subscriber_name(asked.key, 1, "busy.large")

    def stand(self, name: str, position: int) -> None:
        """A reader has taken everything up to a position."""
        hosted = self.hosted[self.named(name)]
        hosted.cursors = [hosted.cursors[0]._replace(position=position)]

    def take(self, name: str, number: int) -> list[tuple[str, tuple[str, ...]]]:
        """A reader takes an item; what that delivers."""
        self.stand(name, number)
        before = len(self.delivered)
        self.hosted[self.named(name)].sink(number, Item(f"i{number}", number, {"size": number}))
        return [(each.event.id, each.subscriptions) for each in self.delivered[before:]]

    def skipped(self) -> dict[str, dict[str, int]]:
        """What subscriptions still have to skip."""
        known = self.subscriptions._sharing["ann", "busy.large"].values()
        return {one.id: one.skipped for one in known if one.skipped}


def test_the_first_reader_delivers_for_all_that_are_still_to_get_the_item() -> None:
    readers = Readers("s1", "s2")
    readers.stand("s1", 0)
    readers.stand("s2", 0)
    assert readers.take("s2", 1) == [("i1", ("s1", "s2"))]
    assert readers.take("s1", 1) == []
    assert readers.skipped() == {}


def test_one_that_began_behind_the_item_is_not_named() -> None:
    readers = Readers("s1", "s2")
    readers.stand("s1", 2)
    readers.stand("s2", 7)
    assert readers.take("s1", 3) == [("i3", ("s1",))]
    assert readers.skipped() == {}


@pytest.mark.parametrize("comes", [True, False])
def test_one_that_is_not_granted_yet_is_not_named_and_skips_the_item_if_it_comes(comes: bool) -> None:
    readers = Readers("s1", "s2")
    readers.stand("s1", 0)
    assert readers.take("s1", 1) == [("i1", ("s1",))]
    if comes:
        assert readers.take("s2", 1) == []
    readers.watermarks[readers.named("s2")] = 2
    assert readers.take("s2", 2) == [("i2", ("s1", "s2"))]
    assert readers.skipped() == {"s1": {"i2": 2}}
    assert readers.take("s1", 2) == []
    assert readers.skipped() == {}
