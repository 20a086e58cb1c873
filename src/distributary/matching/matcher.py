"""Matcher: every event against every subscription, whatever filters they are made of.

Subscriptions with the same filters share a slot. Of a slot's filters, the one estimated to let the fewest
events pass *drives*: it alone is searched, in the index of its kind, and the others are verified for the
pairs it finds. Tolerances come last, because they depend on which events pass everything else: the slot is
a group of the change engine. So the cost of an event grows with what it matches, not with who is subscribed.

Changes are live: adding or removing one subscription touches its own slot alone.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distributary.errors import InputError
from distributary.filters.filter import Filter
from distributary.filters.kinds import parse_filters
from distributary.matching import frozen
from distributary.matching.batch import EventBatch
from distributary.matching.engines import change_class, index_class, verifier_class
from distributary.matching.explain import Explanation, explain_change, explain_filter
from distributary.matching.index import Index, Pairs
from distributary.matching.layers import Verifier
from distributary.matching.order import by_row, by_row_and_rank
from distributary.matching.registry import Registry
from distributary.matching.scan import Scan
from distributary.matching.slots import Slots, digest_of
from distributary.model import Delivery, Event, Subscription

EVERYTHING = ""
"""The driver of the slot without filters: subscriptions that only have a tolerance."""


class Refused(NamedTuple):
    """A malformed subscription or event that was left out."""

    position: int
    """Which one of those given, from 0: the row, for a table."""
    id: str
    error: InputError


@dataclass(frozen=True, slots=True)
class Size:
    """What a matcher holds and the bytes each part occupies."""

    subscriptions: int
    slots: int
    bytes: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(self.bytes.values())


class Matcher:
    """Standing subscriptions, ready to be asked which of them want an event.

    >>> m = Matcher([
    ...     Subscription("s1", "ann", topic="quotes/NYSE/*", where="price > 8.3 and price < 8.7"),
    ...     Subscription("s2", "bob", topic="quotes"),
    ... ])
    >>> event = Event("e1", topic="quotes/NYSE/OTE", attributes={"price": 8.4})
    >>> m.match(event)
    ['s1', 's2']
    >>> m.remove("s2")
    >>> m.match(event)
    ['s1']

    A malformed subscription raises an `InputError`; pass a list as `rejected` and it is noted there instead
    while the others are registered. `engines` chooses algorithms by filter kind, such as {"topic": "tree"}.
    """

    def __init__(
        self,
        subscriptions: Iterable[Subscription] = (),
        *,
        engines: Mapping[str, str] | None = None,
        rejected: list[Refused] | None = None,
    ) -> None:
        self._engines = dict(engines or {})
        self._registry = Registry()
        self._slots = Slots()
        self._kinds = [EVERYTHING]
        self._indexes: dict[str, Index[Any]] = {}
        self._verifiers: dict[str, Verifier[Any] | Scan] = {}
        self._change = change_class(self._engines.get("change"))()
        self._everything: int | None = None
        self._slow: dict[str, str] = {}
        with _collector_paused():
            for position, subscription in enumerate(subscriptions):
                try:
                    self.add(subscription)
                except InputError as error:
                    if rejected is None:
                        raise
                    rejected.append(Refused(position, subscription.id, error))
            self.compact()

    def __len__(self) -> int:
        return len(self._registry)

    def __contains__(self, subscription_id: str) -> bool:
        return subscription_id in self._registry

    def add(self, subscription: Subscription) -> None:
        """Register a subscription; it takes part from the next event on."""
        filters = parse_filters(subscription)
        self._registry.require_new(subscription.id)
        change = filters.pop("change", None)
        slow = [f"{kind}: {filter.slow}" for kind, filter in filters.items() if filter.slow]
        slot = self._slot_for(filters)
        number = self._registry.add(
            subscription.id, subscription.subscriber, slot, changing=change is not None
        )
        if change is not None:
            self._change.add(number, change, slot)  # type: ignore[arg-type]
        if slow:
            self._slow[subscription.id] = "; ".join(slow)

    def remove(self, subscription_id: str) -> None:
        """Strike a subscription out; it takes no part from the next event on."""
        number, slot, changing = self._registry.remove(subscription_id)
        self._slow.pop(subscription_id, None)
        if changing:
            self._change.remove(number)
        if self._slots.leave(slot):
            self._release(slot)

    def compact(self) -> None:
        """Reorganise after many changes, so that matching is as fast as after building anew."""
        for part in (*self._indexes.values(), *self._verifiers.values()):
            part.compact()

    def match(self, event: Event) -> list[str]:
        """The ids of the subscriptions that want this event, sorted. Tolerances take note of it."""
        batch = EventBatch.from_events([event])
        for error in batch.malformed.values():
            raise error
        ids: list[str] = self._registry.names.take(self._match(batch).slots).to_pylist()
        return ids

    def deliveries(self, event: Event) -> list[Delivery]:
        """The event for each subscriber who wants it, once, however many of their subscriptions match."""
        wanted: dict[str, list[str]] = {}
        for subscription_id in self.match(event):
            wanted.setdefault(self.subscriber(subscription_id), []).append(subscription_id)
        return [Delivery(event.id, subscriber, tuple(ids)) for subscriber, ids in sorted(wanted.items())]

    def match_batch(
        self,
        table: pa.Table | pa.RecordBatch | Sequence[Event],
        *,
        id: str = "id",
        topic: str = "topic",
        document: str = "document",
        tolerances: bool = True,
        rejected: list[Refused] | None = None,
    ) -> pa.Table:
        """All matches of a table of events: `event_id` and `subscription_id`.

        In the order of the events, then by subscription id. Every column but the three named is an
        attribute. A malformed event raises; pass a list as `rejected` and it is noted there instead while
        the others are matched. With `tolerances=False`, change filters let everything pass and remember
        nothing: for a caller who keeps that state elsewhere.

        >>> m = Matcher([Subscription("s1", "ann", where="price > 8.3")])
        >>> m.match_batch(pa.table({"id": ["e1", "e2"], "price": [8.0, 8.4]})).to_pylist()
        [{'event_id': 'e2', 'subscription_id': 's1'}]
        """
        batch = self._batch(table, id, topic, document, rejected)
        rows, numbers = self._match(batch, tolerances=tolerances)
        return pa.table(
            {
                "event_id": batch.ids.take(pa.array(rows)),
                "subscription_id": self._registry.names.take(numbers),
            }
        )

    def deliver_batch(
        self,
        table: pa.Table | pa.RecordBatch | Sequence[Event],
        *,
        id: str = "id",
        topic: str = "topic",
        document: str = "document",
        rejected: list[Refused] | None = None,
    ) -> pa.Table:
        """One row for each event and subscriber who wants it: `event_id` and `subscriber`."""
        batch = self._batch(table, id, topic, document, rejected)
        rows, numbers = self._match(batch)
        pairs = np.unique(np.stack([rows, self._registry.subscriber_of[numbers]], axis=1), axis=0)
        return pa.table(
            {
                "event_id": batch.ids.take(pa.array(pairs[:, 0])),
                "subscriber": self._registry.subscriber_names(pairs[:, 1]),
            }
        )

    def explain(self, event: Event, subscription_id: str) -> Explanation:
        """Why the subscription wants the event, or which of its filters let it not pass. Changes nothing."""
        number = self._registry.number(subscription_id)
        filters = self._filters_of(int(self._registry.slot_of[number]))
        reasons = [explain_filter(filter, event) for _, filter in sorted(filters.items())]
        if self._registry.changing[number]:
            reasons.append(explain_change(self._change.filter(number), self._change.peek(event, number)))
        return Explanation(event.id, subscription_id, tuple(reasons))

    def subscriber(self, subscription_id: str) -> str:
        """Who gets the deliveries of a subscription."""
        return self._registry.subscriber(self._registry.number(subscription_id))

    def ids(self) -> list[str]:
        """The ids of all subscriptions, sorted."""
        return self._registry.ids()

    @property
    def slow(self) -> Mapping[str, str]:
        """Subscriptions that no index can serve, which are evaluated event by event, and why."""
        return self._slow

    def forget(self) -> None:
        """Forget what tolerances have seen: the next event of each topic is the first again."""
        self._change.forget()

    def size(self) -> Size:
        """How much it holds and what that takes."""
        parts = {f"{kind} index": index.memory() for kind, index in self._indexes.items()}
        parts.update({f"{kind} verifier": part.memory() for kind, part in self._verifiers.items()})
        parts["change engine"] = self._change.memory()
        parts["registry"] = self._registry.memory() + self._slots.memory()
        return Size(len(self), len(self._slots), parts)

    def freeze(self, directory: Path | str) -> None:
        """Write everything, with the state of tolerances, into a new directory that `open` maps."""
        arrays = {
            **frozen.under("registry", self._registry.freeze()),
            **frozen.under("slots", self._slots.freeze()),
            **frozen.under("change", self._change.freeze()),
        }
        for kind, index in self._indexes.items():
            arrays.update(frozen.under(f"index.{kind}", index.freeze()))
        for kind, verifier in self._verifiers.items():
            arrays.update(frozen.under(f"verifier.{kind}", verifier.freeze()))
        about = {
            "engines": self._engines,
            "kinds": self._kinds,
            "indexes": sorted(self._indexes),
            "verifiers": sorted(self._verifiers),
            "everything": self._everything,
            "slow": self._slow,
        }
        frozen.write(Path(directory), arrays, about)

    @classmethod
    def open(cls, directory: Path | str) -> Matcher:
        """The matcher that `freeze` wrote, its arrays memory-mapped, and live as before."""
        arrays, about = frozen.read(Path(directory))
        matcher = cls(engines=about["engines"])
        matcher._kinds = about["kinds"]
        matcher._everything = about["everything"]
        matcher._slow = about["slow"]
        matcher._registry = Registry.open(frozen.within(arrays, "registry"))
        matcher._slots = Slots.open(frozen.within(arrays, "slots"))
        matcher._change = type(matcher._change).open(frozen.within(arrays, "change"))
        for kind in about["indexes"]:
            engine = index_class(kind, about["engines"].get(kind))
            matcher._indexes[kind] = engine.open(frozen.within(arrays, f"index.{kind}"))
        for kind in about["verifiers"]:
            matcher._verifiers[kind] = verifier_class(kind).open(frozen.within(arrays, f"verifier.{kind}"))
        return matcher

    def _batch(
        self,
        table: pa.Table | pa.RecordBatch | Sequence[Event],
        id: str,
        topic: str,
        document: str,
        rejected: list[Refused] | None,
    ) -> EventBatch:
        if isinstance(table, (pa.Table, pa.RecordBatch)):
            batch = EventBatch.from_table(table, id=id, topic=topic, document=document)
        else:
            batch = EventBatch.from_events(table)
        for row, error in sorted(batch.malformed.items()):
            if rejected is None:
                raise error
            rejected.append(Refused(row, str(batch.ids[row].as_py()), error))
        return batch

    def _match(self, batch: EventBatch, *, tolerances: bool = True) -> Pairs:
        """Pairs of row and subscription number, in the order in which answers are given."""
        found = [self._search(kind, batch) for kind in self._indexes]
        if self._everything is not None:
            rows = np.arange(batch.rows, dtype=np.int32)
            found.append(Pairs(rows, np.full(batch.rows, self._everything, np.int32)))
        passed = Pairs.joined(found)
        if batch.malformed:
            passed = _without_rows(passed, np.fromiter(batch.malformed, np.int64), batch.rows)
        wanted = [self._registry.expand(passed)]
        if len(self._change):
            ordered = by_row(passed, batch.rows)
            if tolerances:
                wanted.append(self._change.fire(batch, ordered.rows, ordered.slots))
            else:
                wanted.append(self._registry.expand(ordered, changing=True))
        return by_row_and_rank(Pairs.joined(wanted), self._registry.names.ranks(), batch.rows)

    def _search(self, kind: str, batch: EventBatch) -> Pairs:
        """The pairs of row and slot that pass the driving filter of this kind and all others."""
        rows, slots = self._indexes[kind].match_batch(batch)
        for other, verifier in self._verifiers.items():
            if other != kind and len(verifier) and len(rows):
                passed = verifier.verify(batch, rows, slots)
                rows, slots = rows[passed], slots[passed]
        return Pairs(rows, slots)

    def _slot_for(self, filters: dict[str, Filter]) -> int:
        """The slot of this combination of filters, with one use more."""
        digest = digest_of(filters)
        slot = self._slots.find(digest)
        if slot is not None:
            self._slots.use(slot)
            return slot
        driver = min(filters, key=lambda kind: filters[kind].selectivity, default=EVERYTHING)
        slot = self._slots.add(digest, self._code(driver))
        if driver == EVERYTHING:
            self._everything = slot
        for kind, filter in filters.items():
            holder = self._index(kind) if kind == driver else self._verifier(kind)
            holder.add(slot, filter)
        return slot

    def _release(self, slot: int) -> None:
        """Take the filters of a slot that nobody uses any more out of the indexes."""
        driver = self._kinds[self._slots.driver(slot)]
        if driver == EVERYTHING:
            self._everything = None
            return
        self._indexes[driver].remove(slot)
        for kind, verifier in self._verifiers.items():
            if kind != driver and slot in verifier:
                verifier.remove(slot)

    def _filters_of(self, slot: int) -> dict[str, Filter]:
        driver = self._kinds[self._slots.driver(slot)]
        held = {
            kind: part.filter(slot)
            for kind, part in self._verifiers.items()
            if kind != driver and slot in part
        }
        return held if driver == EVERYTHING else {**held, driver: self._indexes[driver].filter(slot)}

    def _code(self, kind: str) -> int:
        if kind not in self._kinds:
            self._kinds.append(kind)
        return self._kinds.index(kind)

    def _index(self, kind: str) -> Index[Any]:
        if kind not in self._indexes:
            self._indexes[kind] = index_class(kind, self._engines.get(kind))()
        return self._indexes[kind]

    def _verifier(self, kind: str) -> Verifier[Any] | Scan:
        if kind not in self._verifiers:
            self._verifiers[kind] = verifier_class(kind)()
        return self._verifiers[kind]


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Building makes very many objects that stay: looking for cycles among them time and again is in vain."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _without_rows(pairs: Pairs, rows: NDArray[np.int64], count: int) -> Pairs:
    kept = np.ones(count, np.bool_)
    kept[rows] = False
    keep = kept[pairs.rows]
    return Pairs(pairs.rows[keep], pairs.slots[keep])
