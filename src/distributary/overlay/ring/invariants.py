"""What must be true of the nodes of a ring: at every step, and at rest. For tests and simulations.

They are seen from outside, all at once, as no node can. `problems` and `unsettled` return what is wrong, in
words; nothing is good. Both look only at members that are up: give them the rings of those nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from distributary.overlay.node import Address
from distributary.overlay.ring.ring import Ring, at_rest


def problems(rings: Iterable[Ring]) -> list[str]:
    """What breaks the invariants of upkeep: lists in order, a live successor each, one ordered ring."""
    members = {ring.identifier: ring for ring in rings if ring.member}
    wrong = [
        f"the list of {ring.identifier} is out of order: {ring.successors}"
        for ring in members.values()
        if not is_in_order(ring)
    ]
    following: dict[Address, Address] = {}
    for ring in members.values():
        live = next((one for one in ring.successors if one in members), None)
        if live is None:
            wrong.append(f"{ring.identifier} has no live successor: {ring.successors}")
        else:
            following[ring.identifier] = live
    if len(following) == len(members):
        wrong += _problems_of_cycles(members, following)
    return wrong


def is_in_order(ring: Ring) -> bool:
    """Whether the successors lie one after the other, none twice and not the node itself unless alone."""
    distances = [ring.circle.clockwise(ring.identifier, one) for one in ring.successors]
    return ring.successors == [ring.identifier] or (
        0 < len(distances) <= ring.successor_count
        and distances[0] > 0
        and all(one < other for one, other in pairwise(distances))
    )


def cycles(following: Mapping[Address, Address | None]) -> list[list[Address]]:
    """The cycles that one comes to by following from anywhere; None or a missing entry ends a way.

    >>> cycles({1: 5, 5: 9, 9: 1, 3: 5}), cycles({1: 5, 5: 1, 3: 7, 7: 3})
    ([[1, 5, 9]], [[1, 5], [3, 7]])
    """
    found: list[list[Address]] = []
    seen: dict[Address, Address] = {}
    for start in following:
        path: list[Address] = []
        address: Address | None = start
        while address is not None and address not in seen:
            seen[address] = start
            path.append(address)
            address = following.get(address)
        if address is not None and seen[address] == start:
            found.append(path[path.index(address) :])
    return found


def _problems_of_cycles(members: dict[Address, Ring], following: dict[Address, Address]) -> list[str]:
    found = cycles(following)
    if len(found) > 1:
        return [f"there are {len(found)} rings: {found}"]
    wrong = []
    for cycle in found:
        circle = members[cycle[0]].circle
        steps = [circle.clockwise(one, following[one]) or circle.size for one in cycle]
        if sum(steps) != circle.size:
            wrong.append(f"the ring goes round {sum(steps) // circle.size} times: {cycle}")
    return wrong


def unsettled(rings: Iterable[Ring], fingers: bool = True) -> list[str]:
    """How nodes differ from a ring at rest: `problems` is about safety, this about having arrived."""
    members = {ring.identifier: ring for ring in rings if ring.member}
    order = sorted(members)
    wrong = []
    for address in order:
        ring = members[address]
        right = at_rest(ring, order)
        if ring.successors != right.successors:
            wrong.append(f"{address} has successors {ring.successors} rather than {right.successors}")
        if ring.predecessor != right.predecessor:
            wrong.append(f"{address} has predecessor {ring.predecessor} rather than {right.predecessor}")
        if fingers:
            wrong += _unsettled_fingers(ring, right.fingers)
    return wrong


def _unsettled_fingers(ring: Ring, right: list[Address | None]) -> list[str]:
    points = ring.rule.fingers(ring.circle, ring.identifier)
    return [
        f"{ring.identifier} has {has} at or {'after' if finger.clockwise else 'before'} {finger.point} "
        f"rather than {should}"
        for finger, has, should in zip(points, ring.fingers, right, strict=True)
        if has != should
    ]
