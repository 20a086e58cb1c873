"""A client of any broker can ask what is registered, and use what it finds."""

from __future__ import annotations

import pytest

from distributary.flow import Catalogue, QueryBuilder
from distributary.overlay.node import Address
from distributary.sim.faults import Duplication, Injection, Loss
from distributary.systems.queries.listing import RegistryListing
from distributary.systems.queries.settings import CheckpointSettings
from systems.queries.test_optimiser import queries
from systems.queries.worlds import World

AT = {"trades": 1, "quotes": 2, "q0": 3, "q1": 4}


def listed(world: World, node: Address, wait: float = 5.0) -> RegistryListing:
    """What a client of a node is told when it asks now."""
    before = len(world.simulator.delivered)
    world.simulator.call(node, world.broker(node).list_registry)
    world.run(wait)
    (found,) = [
        one.item
        for one in world.simulator.delivered[before:]
        if isinstance(one.item, RegistryListing) and one.address == node
    ]
    return found


def registered(**settings: CheckpointSettings) -> tuple[World, Catalogue]:
    catalogue = queries(2)
    world = World(5, 1, **settings)  # type: ignore[arg-type]
    world.register(catalogue, AT)
    return world, catalogue


@pytest.mark.parametrize("node", range(1, 6))
def test_a_client_of_any_broker_is_told_streams_operators_and_queries(node: Address) -> None:
    world, catalogue = registered()
    found = listed(world, node)
    assert {(one.name, one.topic, one.schema, one.is_source) for one in found.streams} == {
        (name, one.topic, one.schema, name in catalogue.sources) for name, one in catalogue.streams.items()
    }
    assert {(one.name, one.client, one.outputs) for one in found.queries} == {
        (name, AT[name], tuple(catalogue.outputs(name))) for name in catalogue.queries
    }
    assert {one.name: one.node for one in found.operators} == dict(world.operators())
    kinds = {one.name: one.kind for one in found.operators}
    assert (kinds["q0.both"], kinds["q0.large"], kinds["q0.per_ten"]) == ("union", "filter", "count")
    inputs = {one.name: one.inputs for one in found.operators}
    assert (inputs["q0.both"], inputs["q0.large"]) == (("trades", "quotes"), ("q0.both",))
    used = [name for one in found.operators for name in one.used_as]
    expected = [f"{name}.{one.name}" for name, query in catalogue.queries.items() for one in query.operators]
    assert sorted(used) == sorted(expected), "each runs in one place, shared or not"


def test_streams_inside_a_super_operator_are_not_listed() -> None:
    build = QueryBuilder("q")
    build.count("n", build.filter("large", "trades", where="size > 3"), "1 second")
    build.unit("together", "large", "n")
    world = World(2, 1)
    world.register(Catalogue(queries(0).sources.values(), [build.query()]), {"trades": 1, "q": 2})
    assert [one.name for one in listed(world, 1).streams] == ["q.n", "quotes", "trades"]


def test_what_is_told_follows_moves_and_withdrawals() -> None:
    world, _ = registered()
    moved = next(name for name, at in world.operators() if at == 3)
    world.simulator.call(3, lambda: world.broker(3).move(moved, 5))
    world.run(5)
    assert {one.name: one.node for one in listed(world, 2).operators}[moved] == 5
    world.simulator.call(4, lambda: world.broker(4).unregister_query("q1"))
    world.run(5)
    assert [one.name for one in listed(world, 2).queries] == ["q0"]


def test_a_stream_that_was_found_can_be_read_by_its_name() -> None:
    world, _ = registered()
    (found,) = [one for one in listed(world, 5).streams if one.name == "q0.per_ten"]
    build = QueryBuilder("mine")
    build.filter("many", found.name, where=f"{next(iter(found.schema.attributes))} is not null")
    world.simulator.call(5, lambda: world.broker(5).register_query(build.query()))
    world.run(5)
    assert "mine" in {one.name for one in listed(world, 1).queries}


def test_it_is_told_while_messages_are_lost_and_by_the_standby_when_the_registry_is_gone() -> None:
    world, _ = registered(checkpoints=CheckpointSettings(checkpoint=1.0, beat=0.5, silence=4.0))
    now = world.simulator.now
    faults = [
        Loss(start=now, end=now + 40, probability=0.2),
        Duplication(start=now, end=now + 40, probability=0.2, within=0.3),
    ]
    fired = Injection(world.population, faults).fired
    before = listed(world, 4, wait=20)
    assert [one.name for one in before.queries] == ["q0", "q1"]
    world.run(30)
    assert fired["loss"]
    assert fired["duplication"]
    world.population.crash(1)
    world.run(30)
    assert listed(world, 4, wait=20).streams == before.streams
