"""How a home files its subscriptions on the ring, and files them anew when they or the placements change.

Rules:

- What a part asks of an attribute is an entry under every key at which the placement stores one of its cells.
  A home remembers all that it filed. Subscribing, updating, unsubscribing and moving to another placement are
  one operation: compare what should be filed with what is, and send the difference. So an update touches only
  the values that its old and new ranges do not share (004 section 3.1.2).
- How a change travels is the placement's to say: a route for each key, a walk along the ring, or one message
  that divides on its way.
- Filed again (`refresh`) is everything, as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from distributary.errors import FilterError
from distributary.overlay.ring.placement import AttributePlacement, Spread, point_key
from distributary.overlay.ring.ring import Ring
from distributary.systems.attributes.messages import EntryChange, EntryDrop, EntryName, EntryStore, ListEntry
from distributary.systems.attributes.parts import PartCondition
from distributary.systems.attributes.schema import CellRange, ValueSet

MOST_KEYS = 100_000
"""A subscription that would be stored under more keys is refused."""


class KeyShare(NamedTuple):
    """What a part asks of the cells that one key is for."""

    cells: tuple[CellRange, ...]
    point: str | None
    wanted: PartCondition | None


Place = tuple[EntryName, int]
"""An entry's name and one of its keys."""

Filed = dict[Place, KeyShare]


class FiledEntry(NamedTuple):
    """One entry that a home wants to have under every key of a reach."""

    name: EntryName
    reach: ValueSet
    wanted: PartCondition | None
    placement: AttributePlacement | None
    """None for an attribute that has points only."""


def slips_of(claim: FiledEntry, ring: Ring) -> Filed:
    """Everything that a claim puts on the ring, along its cells."""
    filed: dict[int, list[CellRange]] = {}
    count = 0
    for first, last in claim.reach.runs:
        assert claim.placement is not None, "runs have cells, and cells have a placement"
        for key, start, end in claim.placement.stored(first, last):
            filed.setdefault(key, []).append(CellRange(max(start, first), min(end, last)))
            count += 1
            if count > MOST_KEYS:
                raise FilterError(
                    f"asks for so many values of {claim.name.attribute!r} that it would be stored more than "
                    f"{MOST_KEYS:,} times; ask for fewer, or declare a coarser precision",
                    field="where",
                )
    slips: Filed = {
        (claim.name, key): KeyShare(tuple(runs), None, claim.wanted) for key, runs in filed.items()
    }
    for point in claim.reach.points:
        key = point_key(ring.circle, claim.name.attribute, point)
        slips[claim.name, key] = KeyShare((), point, claim.wanted)
    return slips


class Filing:
    """What one home has filed."""

    def __init__(self, ring: Ring) -> None:
        self.ring = ring
        self._filed: dict[str, Filed] = {}
        self._claims: dict[str, dict[EntryName, tuple[FiledEntry, int]]] = {}
        """For each subscription, its claims, each with the serial of its last change."""
        self._serial = 0

    def file(self, subscription_id: str, claims: Iterable[FiledEntry]) -> None:
        """Have these claims of a subscription on the ring, and no others; FilterError when they are too many.

        Nothing has changed when an error is raised.
        """
        claims = list(claims)
        should = {place: slip for claim in claims for place, slip in slips_of(claim, self.ring).items()}
        filed = self._filed.get(subscription_id, {})
        known = self._claims.get(subscription_id, {})
        self._serial = max(self._serial + 1, int(self.ring.node.now * 1000))
        gone: dict[EntryName, list[int]] = {}
        for name, key in filed:
            if (name, key) not in should:
                gone.setdefault(name, []).append(key)
        changed: dict[EntryName, list[int]] = {}
        for (name, key), slip in should.items():
            if filed.get((name, key)) != slip:
                changed.setdefault(name, []).append(key)
        self._filed[subscription_id] = should
        self._claims[subscription_id] = {
            claim.name: (claim, self._serial if claim.name in changed else known[claim.name][1])
            for claim in claims
            if claim.name in changed or claim.name in known
        }
        for name, keys in changed.items():
            self._store(self._claims[subscription_id][name], keys, should)
        for name, keys in gone.items():
            self._send(known[name][0].placement, name, keys, filed, EntryDrop(name, self._serial))

    def forget(self, subscription_id: str) -> None:
        """Take everything of a subscription from the ring."""
        self.file(subscription_id, ())
        del self._filed[subscription_id], self._claims[subscription_id]

    def refresh(self) -> None:
        """Store everything again."""
        for subscription_id, filed in self._filed.items():
            keys: dict[EntryName, list[int]] = {}
            for name, key in filed:
                keys.setdefault(name, []).append(key)
            for name, its_keys in keys.items():
                self._store(self._claims[subscription_id][name], its_keys, filed)

    def _store(self, claimed: tuple[FiledEntry, int], keys: list[int], filed: Filed) -> None:
        claim, serial = claimed
        store = EntryStore(claim.name, ListEntry(serial, claim.reach, claim.wanted))
        self._send(claim.placement, claim.name, keys, filed, store)

    def _send(
        self,
        placement: AttributePlacement | None,
        name: EntryName,
        keys: list[int],
        filed: Mapping[Place, KeyShare],
        change: EntryStore | EntryDrop,
    ) -> None:
        spread = Spread.EACH if placement is None else placement.spread
        if spread is Spread.JUMP:
            self.ring.multicast(keys, change)
        elif spread is Spread.EACH:
            for key in keys:
                self.ring.route(key, change)
        else:
            for stretch in _stretches(keys, [filed[name, key] for key in keys]):
                along = EntryChange(tuple(stretch), change)
                self.ring.route(stretch[0], along if len(stretch) > 1 else change)


def _stretches(keys: list[int], slips: list[KeyShare]) -> list[list[int]]:
    """Keys in groups of which the cells follow one another."""
    stretches: list[list[int]] = []
    previous: KeyShare | None = None
    for key, slip in zip(keys, slips, strict=True):
        follows = (
            previous is not None
            and previous.cells
            and slip.cells
            and slip.cells[0].first == previous.cells[0].last + 1
        )
        if follows:
            stretches[-1].append(key)
        else:
            stretches.append([key])
        previous = slip
    return stretches
