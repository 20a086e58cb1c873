"""The latest events are gathered while somebody looks, and only then."""

from __future__ import annotations

from distributary.edge.console.recent import RecentEvents
from distributary.model import Delivery, DeliveryBatch, Event
from edge.console.quiet_broker import QuietBroker


def test_a_broker_is_asked_for_everything_from_the_first_page_to_the_last() -> None:
    broker = QuietBroker()
    recent = RecentEvents(broker, lambda: 0.0)
    assert not broker.registered
    recent.begin()
    recent.begin()
    assert len(broker.registered) == len(broker.clients) == 1
    recent.end()
    assert len(broker.registered) == 1
    recent.end()
    assert not broker.registered
    assert not broker.clients


def test_the_latest_events_are_remembered_in_order() -> None:
    recent = RecentEvents(QuietBroker(), lambda: 5.0, most=3)
    with recent.watched():
        recent.give(Delivery(Event("e1"), "x", ("everything",)))
        batch = tuple(Event(f"e{number}") for number in (2, 3, 4))
        recent.give(DeliveryBatch("x", 1.0, (2, 3, 4), batch, (("everything",),)))
    assert [(each.number, each.event.id) for each in recent.after(0)] == [(2, "e2"), (3, "e3"), (4, "e4")]
    assert [each.event.id for each in recent.after(3)] == ["e4"]
