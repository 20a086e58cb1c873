"""What a tree's optimiser is told of the streams that clients here want."""

from __future__ import annotations

import pytest

from distributary.filters.where.filter import WhereFilter
from distributary.model import Event, Subscription
from distributary.overlay.node import Node
from distributary.overlay.tree.node import TreeNode
from distributary.plan.trees.goals import parse_goal
from distributary.systems.tree.broker import TreeBroker
from distributary.systems.tree.settings import OptimisationSettings

GOAL = "minimise aggregate(SUM, superfluous data, BROKERS)"


def test_clients_are_not_tried_one_by_one_to_tell_which_streams_they_want(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree = TreeNode(Node(3), is_root=True)
    broker = TreeBroker(tree, OptimisationSettings(parse_goal(GOAL)))
    broker.node.start(now=0.0)
    asked = [
        Subscription(f"s{each}", "ann", topic="quotes", where=f"price > {each + 8}") for each in range(50)
    ]
    for each in asked:
        broker.node.call(lambda each=each: broker.subscribe(each), 0.0)  # type: ignore[misc]
    broker.node.call(lambda: broker.unsubscribe(asked[0].key), 0.0)
    tried: list[Event] = []
    whole = WhereFilter.matches

    def counted(self: WhereFilter, event: Event) -> bool:
        tried.append(event)
        return whole(self, event)

    monkeypatch.setattr(WhereFilter, "matches", counted)
    for name, topic, price in (("e1", "quotes/A", 9), ("e2", "quotes/B", 10), ("e3", "news", 10)):
        event = Event(name, topic, {"price": price})
        broker.node.call(lambda event=event: broker.publish(event), 1.0)  # type: ignore[misc]
    assert not tried
    assert broker.optimiser is not None
    wanted = broker.optimiser.statistics.facts.streams
    assert [stream for stream, _ in wanted] == ["quotes/B"]
