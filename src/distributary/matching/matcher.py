"""Matcher: every event against every subscription, whatever filters they are made of.

Subscriptions with the same filters share a slot, and `combinations` finds the slots whose filters an event
passes; `registry` knows whose subscriptions those are. Tolerances come last, because they depend on which
events pass everything else: the slot is a group of the change engine.

Changes are live: adding or removing one subscription touches its own slot alone.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from distributary.errors import DamagedError, InputError
from distributary.filters.kinds import parse_filters
from distributary.kernel import Flags, Ints
from distributary.matching import bulk, frozen
from distributary.matching.batch import EventBatch
from distributary.matching.bulk import Refuse
from distributary.matching.change import memory
from distributary.matching.change.index import ChangeIndex
from distributary.matching.combinations import Combinations, without_rows
from distributary.matching.engines import change_class, checked_engines
from distributary.matching.explain import Explanation, explain_change, explain_filter
from distributary.matching.index import Pairs
from distributary.matching.matches import Matches as Matches
from distributary.matching.matches import codes_at
from distributary.matching.order import by_row
from distributary.matching.registry import SubscriptionRegistry
from distributary.matching.single import SingleEvent
from distributary.model import Delivery, Event, Subscription

Tolerances = Literal["apply", "ignore", "leave"]
"""What becomes of change filters when a batch is matched.

"apply": they decide and remember. "ignore": they let everything pass and remember nothing. "leave": an event
that passes the other filters of at least one subscription with a tolerance is left out, with all its matches.
"""


class RejectedInput(NamedTuple):
    """A subscription or event that was left out."""

    position: int
    """Which one of those given, from 0: the row, for a table."""
    id: str
    error: InputError


@dataclass(frozen=True, slots=True)
class MatcherSize:
    """What a matcher holds and the bytes each part occupies."""

    subscriptions: int
    slots: int
    bytes: Mapping[str, int]

    @property
    def total(self) -> int:
        """The bytes of all parts."""
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

    A subscription whose id is taken, or whose filter is of a kind that this process does not know, raises an
    `InputError` (one that cannot be read has done so when it was made); pass a list as `rejected` and it is
    noted there instead while the others are registered, or a function as `refused`, which is told position,
    subscription and error at once. `engines` chooses algorithms by filter kind, such as {"topic": "tree"}.
    `serials` gives each subscription its serial (see `add`), in the same order and number.
    """

    def __init__(
        self,
        subscriptions: Iterable[Subscription] = (),
        *,
        serials: Iterable[int] | None = None,
        engines: Mapping[str, str] | None = None,
        rejected: list[RejectedInput] | None = None,
        refused: Refuse | None = None,
    ) -> None:
        self._engines = checked_engines(engines)
        self._arrays: frozen.FrozenArrays
        self._registry = SubscriptionRegistry()
        self._combinations = Combinations(self._engines)
        self._change = change_class(self._engines.get("change"))()
        self._slow = {}
        numbered = (
            zip(subscriptions, repeat(None), strict=False)
            if serials is None
            else zip(subscriptions, serials, strict=True)
        )
        with collector_paused():
            self._register(numbered, refused or _noted_in(rejected))
            self.compact()

    def _register(self, numbered: Iterator[tuple[Subscription, int | None]], refuse: Refuse) -> None:
        """Register subscriptions with their serials: few one by one, many in bulk."""
        many: bulk.BulkRegistration | None = None
        for lot, serials, failure in bulk.lots(numbered):
            if many is None and len(lot) <= bulk.FEW:
                for position, subscription in enumerate(lot):
                    try:
                        self.add(subscription, serial=serials[position] if serials else None)
                    except InputError as error:
                        refuse(position, subscription, error)
            else:
                if many is None:
                    many = bulk.BulkRegistration(
                        self._registry, self._combinations, self._change, self._slow, refuse
                    )
                many.register(lot, serials)
            if failure is not None:
                raise failure
        if many is not None:
            many.finish()

    def __len__(self) -> int:
        return len(self._registry)

    def __contains__(self, subscription_id: str) -> bool:
        return subscription_id in self._registry

    def add(self, subscription: Subscription, *, serial: int | None = None) -> None:
        """Register a subscription; it takes part from the next event on.

        `serial` is a whole number of 64 bits that identifies this registration for good: what tolerances
        remember is kept under it (see `recall`). The default is a number that was not used before. No two
        registrations may have the same one; that is not checked.
        """
        bulk.check_given(subscription, serial)
        filters = parse_filters(subscription)
        self._registry.require_new(subscription.id)
        change = filters.pop("change", None)
        slow = [f"{kind}: {filter.slow}" for kind, filter in filters.items() if filter.slow]
        slot = self._combinations.add(filters)
        number = self._registry.add(
            subscription.id, subscription.subscriber, slot, serial=serial, changing=change is not None
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
        self._combinations.leave(slot)

    def compact(self) -> None:
        """Reorganise after many changes, so that matching is as fast as after building anew."""
        self._combinations.compact()
        self._registry.settle()

    def match(self, event: Event) -> list[str]:
        """The ids of the subscriptions that want this event, sorted. Tolerances take note of it."""
        single = SingleEvent(event)
        slots = self._combinations.passed_by(single)
        if not len(slots):
            return []
        return self._registry.ids_of(slots, single, self._change.fire_single)

    def match_numbers(self, event: Event) -> list[int]:
        """As `match`, with the subscriptions' numbers in place of their ids, in no particular order.

        For whoever keeps something of each subscription in a list (see `number`): no id is looked up, and
        nothing is sorted.
        """
        single = SingleEvent(event)
        slots = self._combinations.passed_by(single)
        if not len(slots):
            return []
        numbers = self._registry.numbers_of(slots, single, self._change.fire_single)
        found: list[int] = numbers if isinstance(numbers, list) else numbers.tolist()
        return found

    def match_numbers_together(self, events: Sequence[Event]) -> tuple[Ints, Ints]:
        """As `match_numbers`, of several events: their places and the subscriptions' numbers, by place."""
        batch = EventBatch.from_events(events)
        wanted = self._wanted(batch, self._combinations.passed(batch), "apply")
        rows, numbers = by_row(wanted, batch.rows)
        return rows, numbers

    def matches(self, batch: EventBatch, *, tolerances: Tolerances = "apply") -> Matches:
        """All matches of the well-formed events of a batch, as columns.

        >>> m = Matcher([Subscription("s1", "ann", topic="A"), Subscription("s2", "bob", change={"x": 1})])
        >>> batch = EventBatch.from_events([Event("e1", topic="A", attributes={"x": 5})])
        >>> for column in m.matches(batch):
        ...     column.tolist()
        [0, 0]
        ['s1', 's2']
        ['ann', 'bob']
        """
        passed, registry = self._combinations.passed(batch), self._registry
        found = registry.named(passed, batch.rows) or registry.coded(passed, batch.rows)
        if found is not None:  # no subscription of these has a tolerance
            return found
        return registry.ordered(self._wanted(batch, passed, tolerances), batch.rows)

    def tolerant_rows(self, batch: EventBatch) -> Flags:
        """Which events pass the other filters of at least one subscription with a tolerance.

        Their answers depend on what came before, those of all other events do not. Malformed events: False.
        """
        if not self.has_tolerances:
            return np.zeros(batch.rows, np.bool_)
        return self._tolerant(self._combinations.passed(batch), batch.rows)

    @property
    def has_tolerances(self) -> bool:
        """Whether some subscription has a tolerance."""
        return len(self._change) > 0

    def deliveries(self, event: Event) -> list[Delivery]:
        """The event for each subscriber who wants it, once, however many of their subscriptions match."""
        wanted: dict[str, list[str]] = {}
        for subscription_id in self.match(event):
            wanted.setdefault(self.subscriber(subscription_id), []).append(subscription_id)
        return [Delivery(event, subscriber, tuple(ids)) for subscriber, ids in sorted(wanted.items())]

    def match_batch(
        self,
        table: pa.Table | pa.RecordBatch | Sequence[Event],
        *,
        id: str = "id",
        topic: str = "topic",
        document: str = "document",
        tolerances: Tolerances = "apply",
        rejected: list[RejectedInput] | None = None,
        dictionaries: bool = False,
    ) -> pa.Table:
        """All matches of a table of events: `event_id` and `subscription_id`.

        In the order of the events, then by subscription id. Every column but the three named is an
        attribute. A malformed event raises; pass a list as `rejected` and it is noted there instead while
        the others are matched. With `dictionaries` both columns are dictionary arrays, which have each id
        once and four bytes for each match: where events match very much, texts cost more than matching.

        >>> m = Matcher([Subscription("s1", "ann", where="price > 8.3")])
        >>> m.match_batch(pa.table({"id": ["e1", "e2"], "price": [8.0, 8.4]})).to_pylist()
        [{'event_id': 'e2', 'subscription_id': 's1'}]
        """
        batch = self._batch(table, id, topic, document, rejected)
        found = self.matches(batch, tolerances=tolerances)
        if dictionaries:
            columns = codes_at(batch.ids, found.rows), found.subscription_codes
        else:
            columns = batch.ids.take(pa.array(found.rows)), found.subscriptions
        return pa.table(dict(zip(("event_id", "subscription_id"), columns, strict=True)))

    def explain(self, event: Event, subscription_id: str) -> Explanation:
        """Why the subscription wants the event, or which of its filters let it not pass. Changes nothing."""
        number = self._registry.number(subscription_id)
        filters = self._combinations.filters(self._registry.slot(number))
        reasons = [explain_filter(filter, event) for _, filter in sorted(filters.items())]
        if self._registry.is_changing(number):
            reasons.append(explain_change(self._change.filter(number), self._change.peek(event, number)))
        return Explanation(event.id, subscription_id, tuple(reasons))

    def last(self, subscription_id: str, topic: str | None) -> dict[str, float]:
        """What the tolerance of a subscription remembers of a topic, by attribute; nothing without one."""
        number = self._registry.number(subscription_id)
        return self._change.last(number, topic) if self._registry.is_changing(number) else {}

    def subscriber(self, subscription_id: str) -> str:
        """Who gets the deliveries of a subscription."""
        return self._registry.subscriber(self._registry.number(subscription_id))

    def number(self, subscription_id: str) -> int:
        """A small whole number that a subscription has until it is removed; others have it afterwards."""
        return self._registry.number(subscription_id)

    def serial(self, subscription_id: str) -> int:
        """What identifies this registration of a subscription for good."""
        return int(self._registry.serials(self._registry.number(subscription_id)))

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

    @property
    def topics(self) -> list[str | None]:
        """The topics that tolerances have met, and None for events without one: all that they remember."""
        return self._change.topics

    def recall(self, topics: Sequence[str | None]) -> list[bytes | None]:
        """What tolerances remember of each topic, to be kept elsewhere; None where that is nothing.

        The bytes speak of registrations by serial, so any matcher can `restore` them, whichever
        subscriptions it holds. None among the topics stands for events without one.

        >>> m = Matcher([Subscription("s1", "ann", change={"x": 1})])
        >>> event = Event("e1", topic="A", attributes={"x": 5})
        >>> m.match(event)
        ['s1']
        >>> memories = m.recall(["A"])
        >>> m.forget()
        >>> m.restore(["A"], memories)
        >>> m.match(event)
        []
        """
        places, distinct = _distinct(topics)
        remembered = self._change.recall(distinct)
        serials = self._registry.serials(remembered.owners)
        records = memory.pack(remembered._replace(owners=serials), len(distinct))
        return [records[place] for place in places]

    def restore(self, topics: Sequence[str | None], memories: Sequence[bytes | None]) -> None:
        """Put back what `recall` gave for each of these distinct topics.

        The registrations that it speaks of remember nothing of these topics now. Those that are gone, and
        attributes that a subscription does not name, are passed over.
        """
        _, distinct = _distinct(topics)
        if len(distinct) < len(topics) or len(topics) != len(memories):
            raise ValueError("give each topic once, and one memory for each")
        remembered = memory.unpack(memories)
        numbers = self._registry.find_changing(remembered.owners)
        held = remembered._replace(owners=numbers).chosen(np.flatnonzero(numbers >= 0))
        self._change.restore(distinct, held)

    def size(self) -> MatcherSize:
        """How much it holds and what that takes."""
        parts = self._combinations.sizes()
        parts["change engine"] = self._change.memory()
        parts["registry"] = self._registry.memory() + self._combinations.slots_memory()
        return MatcherSize(len(self), len(self._combinations), parts)

    def freeze(self, directory: Path | str, *, label: str = "") -> None:
        """Write everything, with the state of tolerances, into a new directory that `open` maps.

        `label` says which index this is, for directories of which one might be taken for another.
        """
        combinations, about = self._combinations.freeze()
        arrays = {
            **frozen.under("registry", self._registry.freeze()),
            **combinations,
            **frozen.under("change", self._change.freeze()),
        }
        slow = {"ids": list(self._slow), "reasons": list(self._slow.values())}
        for name, texts in slow.items():
            arrays.update(frozen.under(f"slow.{name}", frozen.pack_texts(texts)))
        frozen.write(Path(directory), arrays, {"engines": self._engines, "label": label, **about})

    @classmethod
    def open(cls, directory: Path | str, *, label: str | None = None, check: bool = False) -> Matcher:
        """The matcher that `freeze` wrote, its arrays memory-mapped, and live as before.

        Changes are layered over the arrays: the first costs no more than the next, and the files stay as
        they are. `label` is the one it must have been frozen with. `DamagedError` when the directory is not
        as it was written: from here, or for what is not read yet, from the first call that needs it; with
        `check` everything is read here.
        """
        arrays = frozen.read(Path(directory))
        if label is not None and label != arrays.about["label"]:
            found = arrays.about["label"]
            raise DamagedError(f"{directory} holds the index {found!r}, not {label!r}: build both again")
        if check:
            arrays.check()
        matcher = cls.__new__(cls)
        matcher._engines = arrays.about["engines"]
        matcher._arrays = arrays
        change_class(matcher._engines.get("change"))
        Combinations.require_engines(matcher._engines, arrays.about)
        return matcher

    # The parts of an opened matcher: each is opened, and checked, when it is first needed.

    @cached_property
    def _registry(self) -> SubscriptionRegistry:
        return SubscriptionRegistry.open(frozen.within(self._arrays, "registry"))

    @cached_property
    def _combinations(self) -> Combinations:
        return Combinations.open(self._engines, self._arrays, self._arrays.about)

    @cached_property
    def _change(self) -> ChangeIndex:
        return change_class(self._engines.get("change")).open(frozen.within(self._arrays, "change"))

    @cached_property
    def _slow(self) -> dict[str, str]:
        ids, reasons = (
            frozen.unpack_texts(frozen.within(self._arrays, f"slow.{name}")) for name in ("ids", "reasons")
        )
        return dict(zip(ids, reasons, strict=True))

    def _batch(
        self,
        table: pa.Table | pa.RecordBatch | Sequence[Event],
        id: str,
        topic: str,
        document: str,
        rejected: list[RejectedInput] | None,
    ) -> EventBatch:
        if isinstance(table, (pa.Table, pa.RecordBatch)):
            batch = EventBatch.from_table(table, id=id, topic=topic, document=document)
        else:
            batch = EventBatch.from_events(table)
        for row, error in sorted(batch.rejected.items()):
            if rejected is None:
                raise error
            rejected.append(RejectedInput(row, str(batch.ids[row].as_py()), error))
        return batch

    def _wanted(self, batch: EventBatch, passed: Pairs, tolerances: Tolerances) -> Pairs:
        """From pairs of row and slot to those of row and number, in any order."""
        if tolerances == "leave" and self.has_tolerances:
            passed = without_rows(passed, self._tolerant(passed, batch.rows))
        wanted = [self._registry.expand(passed)]
        if tolerances != "leave" and self.has_tolerances:
            ordered = by_row(passed, batch.rows)
            if tolerances == "apply":
                wanted.append(self._change.fire(batch, ordered.rows, ordered.slots))
            else:
                wanted.append(self._registry.expand(ordered, changing=True))
        return Pairs.joined(wanted)

    def _tolerant(self, passed: Pairs, rows: int) -> Flags:
        tolerant = np.zeros(rows, np.bool_)
        tolerant[passed.rows[self._registry.has_changing(passed.slots)]] = True
        return tolerant


@contextmanager
def collector_paused() -> Iterator[None]:
    """Building makes very many objects that stay: looking for cycles among them time and again is in vain."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _noted_in(rejected: list[RejectedInput] | None) -> Refuse:
    """Notes what is refused in the list, if there is one, and raises the error else."""

    def refuse(position: int, subscription: Subscription, error: InputError) -> None:
        if rejected is None:
            raise error
        rejected.append(RejectedInput(position, subscription.id, error))

    return refuse


def _distinct(topics: Sequence[str | None]) -> tuple[list[int], list[str | None]]:
    """The topics, each once, and where each is then."""
    places: dict[str | None, int] = {}
    where = [places.setdefault(topic, len(places)) for topic in topics]
    return where, list(places)
