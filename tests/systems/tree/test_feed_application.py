"""Feeds over a tree: every new item reaches whoever asked for it once, whatever feeds and polls do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import DistributaryError
from distributary.feeds import FeedItem, read_feed
from distributary.filters.profile import Profile
from distributary.model import Event
from distributary.overlay.node import Address, Node
from distributary.overlay.tree.state import TreeSettings
from distributary.overlay.tree.topology import random_parents
from distributary.sim.deployment import Deployment
from distributary.sim.faults import Duplication, Fault, Loss, Reordering
from distributary.sim.latency import UniformLatency
from distributary.sim.scenario import Scenario
from distributary.sim.simulator import Simulator
from distributary.systems.assembly import Settings
from distributary.systems.tree.broker import TreeAssembly
from distributary.systems.tree.feed_application import FeedApplication, FeedPoller, FeedSource, News
from distributary.workloads import feeds as workload

NODES = 12
SOURCE = 1000
EVERY = 120.0
POOL = workload.feeds(8, seed=5, size=2500, revised=0.5)
Fetch = Callable[[str, float], str]


class World:
    """A tree whose root polls eight feeds, with forty clients; remembers what was served."""

    def __init__(
        self, seed: int, *, robust: bool = False, fetch: Fetch | None = None, **options: float
    ) -> None:
        self.simulator = Simulator(seed, UniformLatency(0.01, 0.2, seed=seed))
        self.served: dict[str, Event] = {}
        self._fetch = fetch or fetch_generated
        self._known: set[str] = set()
        self._profiles: list[tuple[tuple[Address, str], Profile]] = []
        feeds = {feed.name: SOURCE for feed in POOL}
        assembly = TreeAssembly(
            Settings.robust(NODES) if robust else Settings(NODES),
            range(1, NODES + 1),
            lambda one: self.deployment.contact(one),
            tree=TreeSettings(fanout=3, heartbeat=1.0 if robust else None),
            parents=lambda nodes: random_parents(nodes, 3, Random(seed)),
            seed=seed,
        )
        self.application = FeedApplication(assembly, feeds, **{"every": EVERY, **options})
        self.deployment = Deployment(self.simulator, self.application)  # type: ignore[arg-type]
        self.source = FeedSource(Node(SOURCE), self.fetch)
        self.simulator.add(self.source.node)
        self.deployment.add_settled(range(1, NODES + 1), self.application.settle)  # type: ignore[arg-type]
        for number, one in enumerate(workload.subscriptions(40, seed=5, feed_count=8, size=2500)):
            at = 2 + number % (NODES - 1)
            self.deployment.subscribe(one, at=at)
            self._profiles.append(((at, one.subscriber), Profile.of(one)))

    def fetch(self, feed: str, now: float) -> str:
        document = self._fetch(feed, now)
        if document not in self._known and document.endswith("</rss>"):
            self._known.add(document)
            events = (item.event(feed) for item in read_feed(document).items)
            self.served.update((event.id, event) for event in events)
        return document

    def forget(self) -> None:
        """Remember only what is served from now on."""
        self.served.clear()
        self._known.clear()

    def run(self, seconds: float) -> None:
        self.simulator.run(until=self.simulator.now + seconds)

    def wanted(self, event: Event) -> set[tuple[Address, str]]:
        """Who must get an event, by brute force."""
        return {who for who, profile in self._profiles if profile.matches(event)}

    def got(self) -> Counter[tuple[str, Address, str]]:
        return Counter(
            (delivery.event.id, address, delivery.subscriber)
            for _, address, delivery, _ in self.deployment.deliveries
        )

    def expected(self) -> Counter[tuple[str, Address, str]]:
        """Everything that was ever served, once to everybody who asked for it."""
        return Counter((event.id, *who) for event in self.served.values() for who in self.wanted(event))


def fetch_generated(feed: str, now: float) -> str:
    return next(one for one in POOL if one.name == feed).document(now)


@pytest.mark.parametrize("seed", range(3))
def test_every_new_item_reaches_whoever_asked_for_it_once(seed: int) -> None:
    world = World(seed)
    random = Random(seed)
    for _ in range(20):
        node, new = random.sample(range(2, NODES + 1), 2)
        broker = world.deployment.members[node]
        world.simulator.call(node, lambda broker=broker, new=new: broker.change_parent(new))
        world.run(360)
    world.run(10)
    assert world.got() == world.expected()
    changed = [event for event in world.served.values() if "Corrected" in (event.document or "")]
    assert len(changed) > 3
    assert len(world.got()) > 200


def test_sources_are_asked_by_the_root_alone() -> None:
    world = World(1)
    world.run(10 * EVERY + 1)
    assert world.source.asked == 10 * len(POOL)
    states = world.application.poller.feeds.values()
    assert sum(state.published for state in states) == len(world.served)
    assert all(
        not poller.feeds[POOL[0].name].polls for node, poller in world.application.pollers.items() if node > 1
    )


@pytest.mark.parametrize("seed", range(3))
def test_polls_that_overlap_repeat_and_overtake_each_other_lose_nothing_and_repeat_nothing(seed: int) -> None:
    world = World(seed)
    faults: list[Fault] = [
        Reordering(start=0, end=6000, probability=0.5, by=4 * EVERY, nodes=(SOURCE,)),
        Duplication(start=0, end=6000, probability=0.3, within=3 * EVERY, nodes=(SOURCE,)),
    ]
    injection = Scenario.of("slow sources", faults).inject(world.deployment)
    world.run(6000)
    assert min(injection.fired.values()) > 0
    world.run(5 * EVERY)
    got = world.got()
    assert set(got.values()) == {1}
    assert got.keys() <= world.expected().keys()
    current = [item.event(feed.name) for feed in POOL for item in feed.held(world.simulator.now - EVERY - 1)]
    assert {(event.id, *who) for event in current for who in world.wanted(event)} <= got.keys()
    require_versions_in_order(world)


def require_versions_in_order(world: World) -> None:
    """Nobody is told the old version of an item after the new one, and some are told both."""
    told: dict[tuple[Address, str, object], int] = {}
    for _, address, delivery, _ in world.deployment.deliveries:
        event = world.served[delivery.event.id]
        who = (address, delivery.subscriber, event.attributes["item"])
        assert "Corrected" in (event.document or "") or who not in told
        told[who] = told.get(who, 0) + 1
    assert set(told.values()) == {1, 2}


def test_answers_that_are_lost_are_made_good_by_the_next_poll() -> None:
    world = World(4)
    Scenario.of("lossy", [Loss(start=0, end=6000, probability=0.4, nodes=(SOURCE,))]).inject(world.deployment)
    world.run(6000)
    poller = world.application.poller
    assert all(0 < state.failures < state.polls for state in poller.feeds.values())
    world.run(4 * EVERY)
    assert poller.failing == {}
    current = [item.event(feed.name) for feed in POOL for item in feed.held(world.simulator.now - EVERY - 1)]
    assert {(event.id, *who) for event in current for who in world.wanted(event)} <= world.got().keys()


def test_feeds_that_fail_are_reported_and_the_others_go_on() -> None:
    refused, broken, half, silent = (feed.name for feed in POOL[:4])

    def fetch(feed: str, now: float) -> str:
        document = fetch_generated(feed, now)
        if now > 3000:
            return document
        if feed == refused:
            raise DistributaryError("404: not found")
        if feed == broken:
            return document[:-20]
        return document.replace("</channel>", "<item/></channel>") if feed == half else document

    world = World(2, fetch=fetch)
    world.application.pollers[1].feeds[silent].source = 2000
    world.run(2900)
    poller = world.application.poller
    assert set(poller.failing) == {refused, broken, silent}
    assert poller.failing[refused] == "404: not found"
    assert "no well-formed document" in poller.failing[broken]
    assert poller.failing[silent] == "no answer within 120 s"
    assert 1 <= poller.feeds[half].rejected <= poller.feeds[half].answers
    assert "neither title nor text" in poller.feeds[half].last_rejected
    assert world.got() == world.expected()
    poller.feeds[silent].source = SOURCE
    world.run(1000)
    assert poller.failing == {}
    assert all(state.published for state in poller.feeds.values())
    assert world.got() == world.expected()


@pytest.mark.parametrize("seed", range(3))
def test_another_root_goes_on_polling_and_repeats_nothing(seed: int) -> None:
    world = World(seed, robust=True, every=20.0)
    world.run(60)
    before = world.expected()
    world.deployment.crash(1)
    world.forget()
    world.run(200)
    assert world.application.assembly.root != 1
    assert world.application.poller.failing == {}
    got = world.got()
    assert set(got.values()) == {1}
    assert world.expected().keys() <= got.keys() <= world.expected().keys() | before.keys()
    assert before.total() > 50


# What is new.

items = st.builds(FeedItem, st.sampled_from("abc"), st.sampled_from(["Rain", "Wind", "Sun", "Fog"]))


@given(st.lists(st.lists(items, max_size=4), max_size=6))
def test_content_is_new_once(documents: list[list[FeedItem]]) -> None:
    news, said = News(), []
    for document in documents:
        new = news.take(document)
        assert [item.title for item in new] == list(
            dict.fromkeys(item.title for item in reversed(document) if item.title not in said)
        )
        said += [item.title for item in new]


def test_changes_count_only_where_they_should() -> None:
    news = News(changes=False)
    assert news.take([FeedItem("1", "Rain")]) == [FeedItem("1", "Rain")]
    assert news.take([FeedItem("1", "Sun")]) == []
    assert news.take([FeedItem("2", "Sun")]) == [FeedItem("2", "Sun")]
    followed = News()
    followed.take([FeedItem("1", "Sun")])
    assert followed.take([FeedItem("1", "Rain"), FeedItem("2", "Fog")], outdated=True) == [
        FeedItem("2", "Fog")
    ]


def test_memory_is_bounded_but_holds_a_whole_document() -> None:
    news = News(remembered=3)
    long = [FeedItem(str(number), f"Title {number}") for number in range(10)]
    assert len(news.take(long)) == 10
    assert news.take(long) == []
    assert news.take(long[:2]) == []
    assert len(news.take(long)) == 7


def test_feeds_are_polled_at_some_interval() -> None:
    world = World(1)
    with pytest.raises(DistributaryError, match="every 0 seconds"):
        FeedPoller(world.application.assembly(99), {}, every=0)
