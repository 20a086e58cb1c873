"""The courier: once at a node that is up, however lossy the links; round a node that is down."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from distributary.overlay.courier import Ack, Courier, Packet
from distributary.overlay.node import Node, Send, Wake
from distributary.sim.latency import ConstantLatency
from distributary.sim.simulator import Network, Simulator
from overlay.ring.rings import Hello, Lossy, RestingRing


def pair(network: Network) -> tuple[Simulator, dict[int, Courier]]:
    world = Simulator(1, network)
    couriers = {}
    for address in (1, 2):
        node = Node(address)
        couriers[address] = Courier(node)
        node.handle(Hello, lambda message, sender, node=node: node.deliver(message.number))
        world.add(node)
    return world, couriers


def numbers(world: Simulator) -> list[Any]:
    return sorted(delivered.item for delivered in world.delivered)


@pytest.mark.parametrize("seed", range(20))
def test_each_message_is_handled_once_over_a_lossy_link(seed: int) -> None:
    network = Lossy(seed, loss=0.3, repeat=0.3)
    world, couriers = pair(network)
    for number in range(30):
        world.at(number * 0.3, lambda n=number: world.call(1, lambda: couriers[1].send(2, Hello(n))))
    world.run()
    assert network.lost
    assert network.repeated
    given_up = couriers[1].given_up
    assert given_up <= 2
    assert len(numbers(world)) >= 30 - given_up
    assert len(set(numbers(world))) == len(numbers(world))


def test_whoever_sent_is_told_when_a_message_is_given_up() -> None:
    world, couriers = pair(ConstantLatency(0.1))
    failures: list[Any] = []
    couriers[1].on_failure(lambda to, message: failures.append((to, message)))
    world.crash(2)
    world.call(1, lambda: couriers[1].send(2, Hello(7)))
    world.run()
    assert failures == [(2, Hello(7))]
    assert couriers[1].repeated == couriers[1].tries - 1


def test_a_message_arrives_when_its_receiver_comes_back_in_time() -> None:
    world, couriers = pair(ConstantLatency(0.1))
    world.crash(2)
    world.call(1, lambda: couriers[1].send(2, Hello(7)))
    world.at(5.0, lambda: world.restart(2))
    world.run()
    assert numbers(world) == [7]


def test_a_sender_that_restarts_with_its_state_takes_up_what_was_under_way() -> None:
    world, couriers = pair(Lossy(1, loss=0, repeat=0))
    world.crash(2)
    world.call(1, lambda: couriers[1].send(2, Hello(7)))
    world.run(until=0.5)
    world.crash(1)
    world.restart(2)
    world.run(until=20.0)
    assert numbers(world) == []
    world.restart(1)
    world.run()
    assert numbers(world) == [7]


def test_the_numbers_of_a_new_life_are_not_taken_for_old_ones() -> None:
    world, couriers = pair(ConstantLatency(0.1))
    world.call(1, lambda: couriers[1].send(2, Hello(1)))
    world.run(until=5.0)
    fresh = Node(1)
    again = Courier(fresh)
    world.crash(1)
    world.restart(1, fresh)
    world.call(1, lambda: again.send(2, Hello(2)))
    world.run()
    assert numbers(world) == [1, 2]


def test_a_message_that_was_given_up_is_not_handled_late() -> None:
    node = Node(2)
    Courier(node)
    node.handle(Hello, lambda message, sender: node.deliver(message.number))
    node.start(0.0)
    assert node.receive(Packet(0.0, 5, 4, Hello(5)), 1, 1.0)[1:] != []
    assert node.receive(Packet(0.0, 3, 3, Hello(3)), 1, 2.0) == [Send(1, Ack(0.0, 3))]


def test_numbers_are_remembered_only_while_they_are_under_way() -> None:
    world, couriers = pair(Lossy(3, loss=0.2, repeat=0.2))
    for number in range(200):
        world.at(number * 0.1, lambda n=number: world.call(1, lambda: couriers[1].send(2, Hello(n))))
    world.run()
    world.call(1, lambda: couriers[1].send(2, Hello(200)))
    world.run()
    assert len(couriers[2]._incoming[1].handled) <= 1
    assert not couriers[1]._outgoing[2].waiting


def test_a_retry_has_the_cause_of_what_it_retries() -> None:
    world, couriers = pair(ConstantLatency(0.1))
    world.crash(2)
    world.call(1, lambda: couriers[1].send(2, Hello(7)), cause="greeting")
    world.at(2.0, lambda: world.restart(2))
    world.run()
    assert [delivered.cause for delivered in world.delivered] == ["greeting"]


def test_an_unanswered_packet_asks_for_an_alarm() -> None:
    node = Node(1)
    courier = Courier(node, timeout=2.0)
    effects = node.call(lambda: courier.send(2, Hello(1)), 0.0)
    assert [effect.after for effect in effects if isinstance(effect, Wake)] == [2.0]


@pytest.mark.parametrize("seed", range(20))
def test_a_ring_message_goes_round_nodes_that_are_down(seed: int) -> None:
    random = Random(seed)
    ring = RestingRing(random.sample(range(1024), 30), 10, couriers=True)
    down = random.sample(ring.members, 3)
    for address in down:
        ring.world.crash(address)
    up = [member for member in ring.members if member not in down]
    sender, key = random.choice(up), random.choice(up)
    ring.world.call(sender, lambda: ring.rings[sender].route(key, Hello(1)))
    ring.world.run(until=60)
    assert ring.reached() == [key]


@pytest.mark.parametrize("seed", range(20))
def test_a_multicast_over_lossy_links_is_handed_over_once_for_each_key(seed: int) -> None:
    random = Random(seed)
    network = Lossy(seed, loss=0.15, repeat=0.2)
    ring = RestingRing(random.sample(range(1024), 20), 10, couriers=True, network=network)
    keys = random.sample(range(1024), 12)
    ring.world.call(ring.members[0], lambda: ring.rings[ring.members[0]].multicast(keys, Hello(1)))
    ring.world.run(until=120)
    handed = sorted((key, one.address) for one in ring.world.delivered for key in one.item[1])
    assert handed == sorted((key, ring.owner(key)) for key in keys)


@pytest.mark.parametrize("seed", range(20))
def test_payloads_that_go_together_over_lossy_links_are_handed_over_once_for_each_key(seed: int) -> None:
    random = Random(seed)
    network = Lossy(seed, loss=0.15, repeat=0.2)
    ring = RestingRing(random.sample(range(1024), 20), 10, couriers=True, network=network)
    sent = {number: random.sample(range(1024), 6) for number in range(5)}
    sender = ring.rings[ring.members[0]]
    payloads = [(keys, Hello(number)) for number, keys in sent.items()]
    ring.world.call(sender.identifier, lambda: sender.multicast_all(payloads))
    ring.world.run(until=120)
    handed = [(one.item[0], key, one.address) for one in ring.world.delivered for key in one.item[1]]
    assert sorted(handed) == sorted(
        (number, key, ring.owner(key)) for number, keys in sent.items() for key in keys
    )


@pytest.mark.parametrize("seed", range(20))
def test_a_segment_multicast_over_lossy_links_reaches_each_owner_once(seed: int) -> None:
    random = Random(seed)
    network = Lossy(seed, loss=0.15, repeat=0.2)
    ring = RestingRing(random.sample(range(1024), 20), 10, couriers=True, network=network)
    start, length = random.randrange(1024), random.randrange(1, 1025)
    sender = random.choice(ring.members)
    ring.world.call(sender, lambda: ring.rings[sender].multicast_segment(start, length, Hello(1)))
    ring.world.run(until=120)
    assert ring.reached() == ring.owners(start, length, 1024)


@pytest.mark.parametrize("seed", range(10))
def test_a_segment_multicast_waits_for_a_node_that_is_wrongly_suspected(seed: int) -> None:
    random = Random(seed)
    ring = RestingRing(random.sample(range(1024), 12), 10, couriers=True)
    suspected = random.choice(ring.members)
    for layer in ring.rings.values():
        layer.suspect(suspected)
    sender = random.choice(ring.members)
    ring.world.call(sender, lambda: ring.rings[sender].multicast_segment(0, 1024, Hello(1)))
    ring.world.run(until=3.0)
    others = [member for member in ring.members if member != suspected]
    assert [member for member in ring.reached() if member != suspected] == others
    for layer in ring.rings.values():
        layer.trust(suspected)
    ring.world.run(until=10.0)
    assert ring.reached() == ([] if sender == suspected else [suspected])


def test_messages_do_not_multiply_on_a_network_slower_than_the_timeout() -> None:
    """A round trip takes longer than three tries: whoever gives up then has two copies on their way."""
    random = Random(1)
    ring = RestingRing(random.sample(range(1024), 24), 10, couriers=True, network=ConstantLatency(1.6))
    for number in range(30):
        sender, key = random.choice(ring.members), random.choice(ring.members)
        ring.world.at(
            number * 0.5,
            lambda sender=sender, key=key, number=number: ring.world.call(
                sender, lambda: ring.rings[sender].route(key, Hello(number))
            ),
        )
    ring.world.run(until=32)
    assert sorted({delivered.item[0] for delivered in ring.world.delivered}) == list(range(30))
    given_up = sum(courier.given_up for courier in ring.couriers.values())
    assert given_up < 4 * 30, "each goes round a slow hop about once, until it is known to be slow"


def test_a_hop_is_awaited_no_longer_once_answers_are_quick_again() -> None:
    world, couriers = pair(ConstantLatency(0.1))
    world.call(1, lambda: couriers[1].send(2, Hello(0)))
    world.run()
    outgoing = couriers[1]._outgoing[2]
    assert couriers[1]._patience(outgoing) == couriers[1].timeout
    outgoing.round_trip = couriers[1].round_trip = 30.0
    assert couriers[1]._patience(outgoing) == 4 * couriers[1].timeout
    for number in range(1, 60):
        world.call(1, lambda n=number: couriers[1].send(2, Hello(n)))
        world.run()
    assert couriers[1]._patience(outgoing) == couriers[1].timeout


def test_a_node_that_was_slow_long_ago_is_awaited_no_longer_than_others() -> None:
    world, couriers = pair(ConstantLatency(0.1))
    world.call(1, lambda: couriers[1].send(2, Hello(0)))
    world.run(until=1)
    outgoing = couriers[1]._outgoing[2]
    outgoing.round_trip = 30.0
    assert couriers[1]._patience(outgoing) == 4 * couriers[1].timeout
    world.run(until=20)
    world.call(1, lambda: None)
    assert couriers[1]._patience(outgoing) == couriers[1].timeout
