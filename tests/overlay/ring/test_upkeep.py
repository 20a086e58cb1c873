"""Joins, leaves and failures: the invariants after every event, rest in the end, and mistakes caught."""

from __future__ import annotations

from random import Random

import pytest

from distributary.overlay.node import Node
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.fingers import BOTH_WAYS, ONE_WAY, Rule
from distributary.overlay.ring.invariants import cycles, unsettled
from distributary.overlay.ring.questions import NeighboursRequest
from distributary.overlay.ring.ring import Ring, settle
from distributary.overlay.ring.stabilisation import PredecessorNotice, Stabilisation
from distributary.overlay.ring.upkeep import Upkeep
from overlay.ring.broken import (
    AdoptsUnasked,
    JoinsWithoutList,
    KeepsDeadPredecessors,
    NeverFillsLists,
)
from overlay.ring.churn import RingWorld, founders, under_churn
from overlay.ring.safety import problems, unsettled_fingers
from overlay.ring.seeds import seeds


@seeds(75)
def test_the_invariants_hold_after_every_event_of_churn(seed: int) -> None:
    ring = under_churn(seed)
    assert ring.run(45.0) == []
    ring.rest(60.0)


@pytest.mark.parametrize("mistake", [AdoptsUnasked, JoinsWithoutList, NeverFillsLists])
def test_a_mistake_breaks_an_invariant_where_the_right_protocol_does_not(
    mistake: type[Stabilisation],
) -> None:
    caught = next(seed for seed in range(200) if under_churn(seed, mistake).run(45.0))
    assert under_churn(caught).run(45.0) == []


@pytest.mark.parametrize("mistake", [AdoptsUnasked, NeverFillsLists, KeepsDeadPredecessors])
def test_a_mistake_keeps_the_ring_from_coming_to_rest(mistake: type[Stabilisation]) -> None:
    for seed in range(20):
        ring = under_churn(seed, mistake)
        ring.run(45.0)
        try:
            ring.rest(15.0)
        except AssertionError:
            break
    else:
        pytest.fail("the ring came to rest whatever the seed")
    right = under_churn(seed)
    right.run(45.0)
    right.rest(15.0)


@pytest.mark.parametrize("rule", [ONE_WAY, BOTH_WAYS])
def test_a_ring_grows_from_one_node(rule: Rule) -> None:
    ring = RingWorld(1, [500], rule=rule)
    newcomers = Random(1).sample(range(500), 24)
    for number, address in enumerate(newcomers):
        ring.world.at(0.3 * number + 0.1, lambda address=address: ring.population.add(address))
    ring.world.run(until=30.0)
    assert sorted(ring.members) == sorted([500, *newcomers])
    ring.rest(60.0)


def test_a_ring_shrinks_to_one_node_when_the_others_leave() -> None:
    ring = RingWorld(2, founders(2, 6))
    for number, address in enumerate(founders(2, 6)[1:]):
        ring.world.at(8.0 * (number + 1), lambda address=address: ring.population.leave(address))
    ring.world.run(until=45.0)
    ring.rest(30.0)
    assert list(ring.members) == founders(2, 6)[:1]


def test_leaving_in_good_order_is_noticed_at_once() -> None:
    ring = RingWorld(3, founders(3, 8))
    ring.world.run(until=5.0)
    ring.population.leave(sorted(ring.members)[3])
    ring.world.run(until=5.2)
    leader, follower = sorted(ring.members)[2:4]
    assert ring.members[leader].ring.successors[0] == follower
    assert ring.members[follower].ring.predecessor == leader
    assert ring.run(20.0) == []


def test_a_node_joins_through_whichever_contact_is_up() -> None:
    ring = RingWorld(4, founders(4, 8))
    down, up = sorted(ring.members)[:2]
    ring.population.crash(down)
    newcomer = Ring(Node(1000), ring.circle, successor_count=3)
    Upkeep(newcomer, [down, up])
    ring.world.add(newcomer.node)
    ring.world.run(until=20.0)
    assert newcomer.member


def test_a_joining_node_answers_nothing_and_owns_nothing_it_is_asked_for() -> None:
    node = Node(5)
    ring = Ring(node, Circle(4))
    upkeep = Upkeep(ring, via=[9])
    node.start(0.0)
    assert node.receive(NeighboursRequest(1), 3, 0.1) == []
    assert node.receive(PredecessorNotice(), 3, 0.1) == []
    assert ring.predecessor is None
    assert not upkeep.left


def resting(*identifiers: int) -> dict[int, Ring]:
    rings = {one: Ring(Node(one), Circle(6), successor_count=2) for one in identifiers}
    settle(list(rings.values()))
    return rings


def test_a_ring_at_rest_has_no_problem() -> None:
    rings = resting(3, 17, 30, 44, 60)
    assert problems(rings.values()) == []
    assert unsettled(rings.values()) + unsettled_fingers(rings.values()) == []


def test_two_rings_are_a_problem() -> None:
    rings = resting(3, 17, 30, 44)
    for one, other in ((3, 30), (17, 44)):
        rings[one].successors, rings[other].successors = [other], [one]
    assert [one.partition(":")[0] for one in problems(rings.values())] == ["there are 2 rings"]


def test_a_ring_that_goes_round_twice_is_a_problem() -> None:
    rings = resting(3, 17, 30, 44)
    for one, other in ((3, 30), (30, 17), (17, 44), (44, 3)):
        rings[one].successors = [other]
    assert [one.partition(":")[0] for one in problems(rings.values())] == ["the ring goes round 2 times"]


def test_a_list_that_names_only_the_dead_is_a_problem() -> None:
    rings = resting(3, 17, 30, 44)
    rings[3].successors = [20, 29]
    assert problems(rings.values()) == ["3 has no live successor: [20, 29]"]


def test_a_list_out_of_order_is_a_problem() -> None:
    rings = resting(3, 17, 30, 44)
    rings[3].successors = [30, 17]
    assert problems(rings.values()) == ["the list of 3 is out of order: [30, 17]"]


def test_what_leads_to_the_ring_is_no_problem() -> None:
    rings = resting(3, 17, 30, 44)
    rings[3].successors = [30]
    assert problems(rings.values()) == []
    assert unsettled(rings.values()) != []
    assert cycles({3: 30, 17: 30, 30: 44, 44: 3}) == [[3, 30, 44]]
