"""The invariants of a ring's upkeep: what must be true of the nodes that are up at every step."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from distributary.overlay.node import Address
from distributary.overlay.ring.invariants import cycles
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


def unsettled_fingers(rings: Iterable[Ring]) -> list[str]:
    """How the fingers of nodes differ from those in a ring at rest; an empty list if they do not."""
    members = {ring.identifier: ring for ring in rings if ring.member}
    wrong = []
    for ring in members.values():
        points = ring.rule.fingers(ring.circle, ring.identifier)
        right = at_rest(ring, sorted(members)).fingers
        wrong += [
            f"{ring.identifier} has {has} at or {'after' if finger.clockwise else 'before'} {finger.point} "
            f"rather than {should}"
            for finger, has, should in zip(points, ring.fingers, right, strict=True)
            if has != should
        ]
    return wrong
