"""Spread web feeds over a dissemination tree: the root polls, clients get the items they asked for.

Run it with `python examples/rss_feeds.py`: generated feeds are polled for an hour by the root of a tree of 15
brokers, in the simulator. With a folder, `python examples/rss_feeds.py FOLDER [WORD ...]`, the RSS and Atom
files in it are the feeds, and there is a client for each word, who wants the items that have it in the title.
"""

import sys
from pathlib import Path

from distributary import DistributaryError, Subscription
from distributary.feeds import read_folder, write_feed
from distributary.filters.profile import Profile
from distributary.overlay.node import Node
from distributary.overlay.tree.state import TreeSettings
from distributary.sim.deployment import Deployment
from distributary.sim.latency import WideAreaLatency
from distributary.sim.simulator import Simulator
from distributary.systems.assembly import Settings
from distributary.systems.tree.broker import TreeAssembly
from distributary.systems.tree.feed_application import FeedApplication, FeedSource
from distributary.workloads import feeds as workload

BROKERS = range(1, 16)
SOURCE = 100


def tree_of_feeds(names, fetch):
    """A tree in the simulator whose root polls these feeds every five minutes."""
    world = Simulator(seed=1, network=WideAreaLatency(seed=1))
    assembly = TreeAssembly(Settings(len(BROKERS)), BROKERS, lambda address: 1, tree=TreeSettings(fanout=3))
    application = FeedApplication(assembly, dict.fromkeys(names, SOURCE), every=300)
    deployment = Deployment(world, application)
    world.add(FeedSource(Node(SOURCE), fetch).node)
    deployment.add_settled(BROKERS, application.settle)
    return world, application, deployment


def generated() -> None:
    pool = {feed.name: feed for feed in workload.feeds(30, seed=1, size=4000)}
    down = next(iter(pool))
    served = {}

    def fetch(name, now):
        if name == down and now < 2000:
            raise DistributaryError("503: service unavailable")
        served.update((event.id, event) for event in (item.event(name) for item in pool[name].held(now)))
        return pool[name].document(now)

    world, application, deployment = tree_of_feeds(pool, fetch)
    clients = list(workload.subscriptions(40, seed=1, feed_count=30, size=4000))
    for number, client in enumerate(clients):
        deployment.subscribe(client, at=BROKERS[number % len(BROKERS)])
    world.run(until=1800)
    print("failing:", application.poller.failing)
    world.run(until=3650)
    print("failing:", application.poller.failing)

    expected = sorted(
        (event.id, client.subscriber)
        for client in clients
        for event in served.values()
        if Profile.of(client).matches(event)
    )
    got = sorted((one.delivery.event.id, one.delivery.subscriber) for one in deployment.deliveries)
    polls = sum(state.polls for state in application.poller.feeds.values())
    published = sum(state.published for state in application.poller.feeds.values())
    print(f"{polls} polls, {published} new items, {len(got)} deliveries")
    print("every item went once to whoever asked for it:", got == expected)


def from_folder(folder: Path, words: list[str]) -> None:
    found, rejected = read_folder(folder)
    for one in rejected:
        print("set aside:", one)
    world, _, deployment = tree_of_feeds(found, lambda name, now: write_feed(name, found[name].items))
    for number, word in enumerate(words):
        client = Subscription(word, f"reader of {word}", where=f"title like '%{word}%'")
        deployment.subscribe(client, at=BROKERS[number % len(BROKERS)])
    world.run(until=700)
    titles = {item.event(name).id: item.title for name, feed in found.items() for item in feed.items}
    for received in deployment.deliveries:
        print(f"{received.delivery.subscriber}: {titles[received.delivery.event.id]}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        from_folder(Path(sys.argv[1]), sys.argv[2:])
    else:
        generated()
