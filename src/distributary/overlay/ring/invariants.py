"""How the nodes of a ring differ from a ring at rest, as an observer of all nodes sees it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from distributary.overlay.node import Address
from distributary.overlay.ring.ring import Ring, at_rest


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


def unsettled(rings: Iterable[Ring]) -> list[str]:
    """How the neighbours of nodes differ from those in a ring at rest; an empty list if they do not.

    Only members count: give the rings of the nodes that are up.
    """
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
    return wrong
