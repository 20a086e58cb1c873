"""Routes with an index answer as trying every profile does, whatever children ask for and give up."""

from __future__ import annotations

from random import Random

import pytest

from distributary.filters.kinds import parse_filters
from distributary.filters.profile import Profile
from distributary.model import Event, Subscription
from distributary.overlay.node import Node
from distributary.overlay.tree.interest import Form, Interest, form_of
from distributary.overlay.tree.routes import ScannedRoutes, wanted_together
from distributary.overlay.tree.state import TreeSettings
from distributary.systems.assembly import Settings
from distributary.systems.interests import FEW
from distributary.systems.tree.broker import TreeAssembly, TreeBroker
from distributary.systems.tree.routes import IndexedRoutes

KINDS = ("topic", "where", "path", "change")


def some_form(random: Random, kinds: tuple[str, ...]) -> Form:
    values: dict[str, object] = {
        "topic": random.choice(["quotes", "quotes/A", "news/*/x"]),
        "where": f"price > {random.randrange(10)} and size <> {random.randrange(4)}",
        "path": random.choice(["/a/b", "//c", "/a[b]/c"]),
        "change": {"price": random.randrange(4)},
    }
    chosen = random.sample(kinds, random.randint(1, len(kinds)))
    asked = Subscription("s", "ann", **{kind: values[kind] for kind in chosen})  # type: ignore[arg-type]
    return () if random.random() < 0.02 else form_of(Profile(parse_filters(asked)))


def some_event(random: Random, number: int) -> Event:
    topic = random.choice([None, "quotes/A", "quotes/B", "/quotes/A", "news/1/x"])
    attributes = {"price": random.choice([None, "high", random.randrange(12)]), "size": random.randrange(4)}
    return Event(f"e{number}", topic, attributes, random.choice([None, "<a><b/></a>", "<a><b/><c/></a>"]))


@pytest.mark.parametrize("kinds", [KINDS, ("topic",)])
@pytest.mark.parametrize("seed", range(6))
def test_the_index_answers_as_trying_every_profile_does(seed: int, kinds: tuple[str, ...]) -> None:
    random = Random(seed)
    routes: tuple[IndexedRoutes, ScannedRoutes] = IndexedRoutes(), ScannedRoutes()
    asked: dict[int, int] = {}
    largest = found = 0
    for step in range(100):
        child = random.randrange(8)
        if random.random() < 0.3:
            for each in routes:
                each.drop(child)
            asked.pop(child, None)
        elif random.random() < 0.6:
            forms = {some_form(random, kinds) for _ in range(random.randrange(12))}
            interest = Interest(tuple(sorted(forms)))
            for each in routes:
                each.put(child, interest)
            asked[child] = len(forms)
        events = [some_event(random, number) for number in range(4 * step, 4 * step + 4)]
        indexed, scanned = ([list(each.wanted(event)) for event in events] for each in routes)
        assert indexed == scanned, "the same children in the same order"
        assert wanted_together(routes[0], events) == wanted_together(routes[1], events) == scanned
        largest, found = max(largest, sum(asked.values())), found + sum(map(len, scanned))
    assert largest > FEW, "the indexes were never used"
    assert found


def test_brokers_of_a_tree_have_routes_with_an_index() -> None:
    founders = [1, 2, 3]
    assembly = TreeAssembly(Settings(3), founders, lambda one: 1, tree=TreeSettings())
    broker: TreeBroker = assembly(1)
    assert isinstance(broker.node, Node)
    assert isinstance(broker.tree._children._routes, IndexedRoutes)
