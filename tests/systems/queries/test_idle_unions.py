"""A union whose inputs have replicas is idle; a later reader of its stream gets it all the same."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from distributary.flow import Catalogue, Item, QueryBuilder, Source, Union, interpret
from distributary.model import Subscription
from distributary.overlay.node import Address
from distributary.sim.faults import Crash, Fault, Injection
from distributary.systems.queries.settings import CheckpointSettings
from flow.random_queries import random_arrivals
from replay import many_seeds
from systems.queries.test_reconfiguration import random_faults
from systems.queries.worlds import World, expect_equal

SOURCES = [
    Source(name, {"size": "integer", "at": "integer"}, time="at", topic=name, lateness=15)
    for name in ("left", "right")
]
LATER = 1000
"""Items from this time on are published when all queries are registered."""
QUICK = CheckpointSettings(checkpoint=0.3, beat=0.2, silence=2.0)
ENDS = (1, 2, 3)


def query(name: str, kind: str, of: str | None = None) -> QueryBuilder:
    """Something behind a union of both sources, or behind another query's."""
    build = QueryBuilder(name)
    union = build.union("both", "left", "right") if of is None else of
    match kind:
        case "count":
            build.count("out", union, window="10 ms")
        case "filter":
            build.filter("out", union, where="size > 3")
        case "aggregate":
            build.aggregate("out", union, "20 ms every 5 ms", {"total": "sum(size)"}, ["size"])
        case _:
            build.rename("out", union, names={"size": "amount"})
    return build


def random_items(random: Random, since: int) -> dict[str, list[Item]]:
    return {
        source.name: [
            Item(f"i{since + number}", at, {"size": random.randint(0, 9), "at": at})
            for number, at in enumerate(sorted(random.randint(since, since + 60) for _ in range(15)))
        ]
        for source in SOURCES
    }


class Late:
    """A query behind a union is replicated while items flow; others come and want the union."""

    def __init__(self, seed: int, checkpoints: CheckpointSettings | None = None) -> None:
        self.random = Random(f"{seed}/late")
        self.rest = 300.0 if checkpoints is None else 50.0
        kinds = self.random.sample(["count", "filter", "aggregate", "rename"], 3)
        self.queries = {
            "first": query("first", kinds[0]).query(),
            "alike": query("alike", kinds[1]).query(),
            "by_name": query("by_name", kinds[2], "first.both").query(),
        }
        self.world = World(6, seed, checkpoints=checkpoints)
        self.where = {name: self.random.choice(ENDS) for name in ("left", "right", *self.queries, "ann")}
        self.items = {since: random_items(self.random, since) for since in (0, LATER)}
        self.all = {name: self.items[0][name] + self.items[LATER][name] for name in ("left", "right")}
        self.world.register(Catalogue(SOURCES, [self.queries["first"]]), self.where)

    def run(self) -> None:
        """Items of the first span, with changes among them; then those of the second."""
        comers = ["alike", "by_name", "ann"]
        self.random.shuffle(comers)
        moments = sorted(self.random.random() for _ in comers)
        steps = [step for step in random_arrivals(self.random, self.items[0]) if isinstance(step[1], Item)]
        for number, (source, item) in enumerate(steps):
            assert isinstance(item, Item)
            self.world.feed(source, item)
            self.replicate()
            if self.random.random() < 0.3:
                self.world.change()
            while comers and moments[0] * len(steps) <= number:
                moments.pop(0)
                self.come(comers.pop())
            self.world.run(self.random.choice([0.0, 0.02, 0.2]))
        for comer in comers:
            self.come(comer)
        self.world.run(self.rest / 5)
        for source, step in random_arrivals(self.random, self.items[LATER]):
            if isinstance(step, Item):
                self.world.feed(source, step)
            elif step >= 2**53:
                self.world.end(source)
            if self.random.random() < 0.2:
                self.world.change()
            self.world.run(self.random.choice([0.0, 0.02, 0.2]))
        self.world.run(self.rest)

    def replicate(self) -> None:
        """Replicate what is behind the union, if it is there to be replicated."""
        for name, at in self.world.operators():
            broker = self.world.broker(at)
            if (
                name == "first.out"
                and self.world.simulator.is_up(at)
                and broker.reconfiguration.can_replicate(name)
            ):
                self.world.simulator.call(at, lambda broker=broker: broker.replicate("first.out"))

    def come(self, who: str) -> None:
        at = self.where[who]
        broker = self.world.broker(at)
        while not self.world.simulator.is_up(at):
            self.world.run(0.1)
        if who == "ann":
            self.world.simulator.call(at, lambda: broker.subscribe(Subscription("s1", "ann", "first/both")))
        else:
            self.world.simulator.call(at, lambda: broker.register_query(self.queries[who]))

    def expect_all_answers(self, in_order: bool = True) -> None:
        """The first query's is exact, the others' from the time on at which all were there."""
        catalogue = Catalogue(SOURCES, self.queries.values())
        expect_equal(self.world, catalogue, self.all, in_order, queries=["first"])
        expected, found = interpret(catalogue, self.all).streams, self.world.results()
        for output in ("alike.out", "by_name.out"):
            # What a window has of both spans is of neither.
            got = sorted((one for one in found[output] if one.time >= LATER), key=lambda one: one.order)
            assert got == [one for one in expected[output] if one.time >= LATER], output
        delivered = Counter(one.event.id for one in self.world.deliveries())
        both = expected["first.both"]
        assert set(delivered.values()) == {1}
        assert delivered.keys() <= {one.id for one in both}
        assert delivered.keys() >= {one.id for one in both if one.time >= LATER}

    @property
    def woken(self) -> int:
        return sum(broker.engine.woken for broker in self.world.brokers)

    def idle(self) -> list[tuple[str, Address]]:
        return [
            (name, at)
            for name, at in self.world.operators()
            if not self.world.broker(at).engine.hosted[name].is_reading
        ]


def late_at_random(
    seed: int, faults: bool = False, checkpoints: CheckpointSettings | None = None, gone: bool = False
) -> tuple[Late, Counter[str]]:
    late = Late(seed, checkpoints)
    now = late.world.simulator.now
    planned: list[Fault] = random_faults(late.random, late.world, now) if faults else []
    if gone:
        victim = late.random.choice([node for node in late.world.nodes if node not in ENDS])
        planned.append(Crash(start=now + late.random.uniform(0.5, 6.0), node=victim))
    fired = Injection(late.world.population, planned).fired
    late.run()
    late.expect_all_answers(in_order=not gone)
    return late, fired


@pytest.mark.parametrize("seed", range(5))
def test_who_comes_later_gets_the_stream_of_a_union_that_was_replicated(seed: int) -> None:
    late_at_random(seed)


def test_unions_do_become_idle_and_wake() -> None:
    assert sum(late_at_random(seed)[0].woken for seed in range(10, 14)) > 2


@pytest.mark.parametrize("seed", range(100, 102))
def test_it_works_through_faults_of_messages_and_nodes_that_come_back(seed: int) -> None:
    _, fired = late_at_random(seed, faults=True)
    assert fired["loss"]


@pytest.mark.parametrize("seed", range(200, 203))
def test_it_works_while_a_node_is_gone_for_good(seed: int) -> None:
    _, fired = late_at_random(seed, checkpoints=QUICK, gone=True)
    assert fired["crash"] == 1


def test_a_union_is_idle_again_when_later_readers_have_left() -> None:
    world = World(3, 1)
    world.register(Catalogue(SOURCES, [query("first", "count").query()]), {"left": 1, "right": 2, "first": 3})
    broker = world.broker(3)
    world.simulator.call(3, lambda: broker.replicate("first.out"))
    world.run(5)
    hosted = broker.engine.operators["first.both"]
    assert isinstance(hosted.spec.operation, Union)
    for who in ("alike", "again"):
        assert not hosted.is_reading
        world.simulator.call(1, lambda who=who: world.broker(1).register_query(query(who, "filter").query()))
        world.run(5)
        assert hosted.is_reading
        world.simulator.call(1, lambda who=who: world.broker(1).unregister_query(who))
        world.run(5)
    assert not hosted.is_reading
    read = [one.acknowledged for at in (1, 2) for one in world.broker(at).router.publications.values()]
    assert read == [{("first.out/1", 0): 0}, {("first.out/2", 0): 0}], "no publisher waits for an idle union"


@pytest.mark.chaos
@pytest.mark.parametrize(
    ("faults", "checkpoints", "gone"), [(False, None, False), (True, None, False), (False, QUICK, True)]
)
def test_who_comes_later_gets_the_stream_on_many_seeds(
    faults: bool, checkpoints: CheckpointSettings | None, gone: bool
) -> None:
    total: Counter[str] = Counter()
    woken = 0
    seeds = many_seeds(8000, 150)
    for seed in seeds:
        late, fired = late_at_random(seed, faults, checkpoints, gone)
        woken += late.woken
        total.update(fired)
    assert woken > len(seeds) / 2
    assert not faults or total["loss"]
    assert not gone or total["crash"] == len(seeds)
