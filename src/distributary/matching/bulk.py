"""Registering very many subscriptions at once: what `Matcher.add` does for one, by the column.

Subscriptions are taken some thousands at a time. Of each such lot:

1. Topics and paths are read once for each distinct text; conditions by their shapes (`where.column`), without
   an object each. What is malformed is refused as `Matcher.add` refuses it.
2. Ids must be new (`distinct`); a subscription that is refused does not take its id.
3. The combinations of filters get their slots by their digests (`digests`, `slots`); the filters of those
   that are new go to an index or a verifier by the column.
4. Slots, serials and subscribers are noted by number, and tolerances go to the change engine.

When all have come, the filters are compiled, and the registry takes what was noted.

What comes out is what adding them one by one would make: the same answers, refusals and serials. The lot is
all that is held of subscriptions and filters as objects of Python's, whatever their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from math import inf
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from distributary.errors import FilterError, InputError, RegisteredAlreadyError
from distributary.filters.change import ChangeFilter
from distributary.filters.filter import Filter
from distributary.filters.kinds import parse_filter, parse_filters
from distributary.filters.where.filter import WhereFilter
from distributary.kernel import Bytes, Flags, Longs
from distributary.matching.change.index import ChangeIndex
from distributary.matching.combinations import CodedFilters, Combinations
from distributary.matching.distinct import DistinctTexts
from distributary.matching.gathering import HeldColumn
from distributary.matching.growing import GrowingArray, return_free_memory
from distributary.matching.names import NameTable
from distributary.matching.registry import SubscriptionRegistry
from distributary.matching.where.column import ConditionColumn
from distributary.model import Subscription, require_instance

LOT = 1 << 13
"""Subscriptions that are registered at a time."""

FEW = 256
"""No more than so many subscriptions in all are added one by one, for which no kernel need be loaded."""

WHOLE_NUMBERS = range(-(2**63), 2**63)
"""What an int64 can hold."""

NONE = -1
"""The code of a filter that is not there."""

Refuse = Callable[[int, Subscription, InputError], None]
"""Is told the position of a subscription that is refused, and why; it may raise the error."""


class _ReadColumn(NamedTuple):
    """The filters of one kind of a lot, as they were read."""

    coded: CodedFilters
    refused: list[int]
    """The codes of texts that are no filter of this kind."""
    slow: dict[int, str]
    """By code, why a filter must be evaluated event by event."""


class BulkRegistration:
    """Fills a registry, combinations and a change engine, all of them empty.

    `slow` is given what `Matcher.slow` says of subscriptions, `refuse` is told of those that are malformed.
    """

    def __init__(
        self,
        registry: SubscriptionRegistry,
        combinations: Combinations,
        change: ChangeIndex,
        slow: dict[str, str],
        refuse: Refuse,
    ) -> None:
        self._registry = registry
        self._combinations = combinations
        self._change = change
        self._slow = slow
        self._refuse = refuse
        self._names = DistinctTexts()
        self._subscribers = DistinctTexts()
        self._subscriber_of, self._slot_of = GrowingArray("i"), GrowingArray("i")
        self._serial_of, self._changing = GrowingArray("q"), GrowingArray("B")
        self._position = 0

    def register(self, lot: list[Subscription], serials: list[int] | None) -> None:
        """Register some subscriptions; `serials` are theirs, if they are not to get the next ones."""
        first = len(self._names)
        read = _ReadLot(lot)
        accepted = self._accept(lot, read.read_others(lot))
        rows = np.flatnonzero(accepted)
        places = np.cumsum(accepted) - 1
        slots = self._combinations.add_many(
            {kind: each.coded._replace(codes=each.coded.codes[rows]) for kind, each in read.columns.items()},
            {int(places[row]): filters for row, filters in read.others.items() if accepted[row]},
        )
        changed = [row for row in sorted(read.tolerances) if accepted[row]]
        changing = np.zeros(len(lot), np.bool_)
        changing[changed] = True
        subscribers = [lot[row].subscriber for row in rows.tolist()]
        self._subscriber_of.extend(self._subscribers.number(*_bytes_of(subscribers)))
        self._slot_of.extend(slots)
        self._changing.extend(changing[rows])
        if serials is not None:
            self._serial_of.extend(np.array(serials, np.int64)[rows])
        tolerant = places[changed]
        self._change.add_many(
            (first + tolerant).tolist(), [read.tolerances[row] for row in changed], slots[tolerant].tolist()
        )
        self._slow.update({lot[row].id: why for row, why in read.slow().items() if accepted[row]})
        self._position += len(lot)

    def finish(self) -> None:
        """Make everything ready for questions and changes. Nothing may be registered after that.

        Compiling the filters takes the most memory meanwhile, so it comes before the registry takes its own.
        """
        names = NameTable.of_texts(self._names.packed())
        subscribers = NameTable.of_texts(self._subscribers.packed())
        del self._names, self._subscribers
        self._combinations.settle()
        return_free_memory()
        self._combinations.compact()
        self._change.compact()
        return_free_memory()
        noted = {"subscriber_of": self._subscriber_of.taken(), "slot_of": self._slot_of.taken()}
        noted["changing"] = self._changing.taken()
        if len(self._serial_of):
            noted["serial_of"] = self._serial_of.taken()
        del self._subscriber_of, self._slot_of, self._changing, self._serial_of
        self._registry.fill(names, subscribers, noted)

    def _accept(self, lot: list[Subscription], errors: dict[int, InputError]) -> Flags:
        """Which subscriptions are registered; those with errors and those whose id is not new are refused."""
        accepted = np.ones(len(lot), np.bool_)
        accepted[list(errors)] = False
        rows = np.flatnonzero(accepted)
        before = len(self._names)
        numbers = self._names.number(*_bytes_of([lot[row].id for row in rows.tolist()]))
        # A new id has a number that is greater than all before it.
        greatest = np.maximum.accumulate(np.append(np.int32(before - 1), numbers))[:-1]
        repeated = numbers <= greatest
        for row, kept in zip(rows[repeated].tolist(), numbers[repeated].tolist(), strict=True):
            errors[row] = RegisteredAlreadyError(lot[row].id, kept)
            accepted[row] = False
        for row, error in sorted(errors.items()):
            self._refuse(self._position + row, lot[row], error)
        return accepted


class _ReadLot:
    """The filters of some subscriptions, by row.

    Rows with filters of other kinds than the columns have, and those of which a filter was refused, are
    *others* and have no filter in the columns.
    """

    def __init__(self, lot: list[Subscription]) -> None:
        self.columns = {
            "topic": _read_distinct("topic", [None if one.more else one.topic for one in lot]),
            "where": _read_conditions([None if one.more else one.where for one in lot]),
            "path": _read_distinct("path", [None if one.more else one.path for one in lot]),
        }
        self.others: dict[int, dict[str, Filter]] = {}
        self.tolerances: dict[int, ChangeFilter] = {}
        self._left = np.array([bool(one.more) for one in lot], np.bool_)
        for column in self.columns.values():
            if column.refused:
                self._left |= np.isin(column.coded.codes, column.refused)
        for row, one in enumerate(lot):
            if one.change is not None and not self._left[row]:
                try:
                    self.tolerances[row] = _tolerance(one.change)
                except FilterError:
                    self._left[row] = True
        for column in self.columns.values():
            column.coded.codes[self._left] = NONE

    def read_others(self, lot: list[Subscription]) -> dict[int, InputError]:
        """Read the other rows one by one, as `Matcher.add` does; the errors of those that are malformed."""
        errors: dict[int, InputError] = {}
        for row in np.flatnonzero(self._left).tolist():
            try:
                filters = parse_filters(lot[row])
            except InputError as error:
                errors[row] = error
                continue
            change = filters.pop("change", None)
            if change is not None:
                assert isinstance(change, ChangeFilter)
                self.tolerances[row] = change
            self.others[row] = filters
        return errors

    def slow(self) -> dict[int, str]:
        """By row, in their order, what `Matcher.slow` says of it."""
        reasons: dict[int, list[str]] = {}
        for kind, column in self.columns.items():
            if column.slow:
                codes = column.coded.codes
                for row in np.flatnonzero(np.isin(codes, list(column.slow))).tolist():
                    reasons.setdefault(row, []).append(f"{kind}: {column.slow[int(codes[row])]}")
        for row, filters in self.others.items():
            told = [f"{kind}: {filter.slow}" for kind, filter in filters.items() if filter.slow]
            if told:
                reasons[row] = told
        return {row: "; ".join(reasons[row]) for row in sorted(reasons)}


def _tolerance(given: Any) -> ChangeFilter:
    """A change filter; one plain tolerance, by far the most common, needs no further look."""
    if type(given) is dict and len(given) == 1:
        ((name, tolerance),) = given.items()
        if type(tolerance) is float and 0 <= tolerance < inf and type(name) is str and name.isascii():
            return ChangeFilter(((name, tolerance + 0.0),))
    filter = parse_filter("change", given)
    assert isinstance(filter, ChangeFilter)
    return filter


def _read_distinct(kind: str, texts: list[str | None]) -> _ReadColumn:
    """Read each distinct text once."""
    numbers: dict[str | None, int] = {None: NONE}
    codes = np.array([numbers.setdefault(text, len(numbers) - 1) for text in texts], np.int32)
    del numbers[None]
    filters: list[Filter | None] = []
    selectivity = np.zeros(len(numbers))
    refused: list[int] = []
    slow: dict[int, str] = {}
    for text, code in numbers.items():
        try:
            filter = parse_filter(kind, text)
        except FilterError:
            refused.append(code)
            filters.append(None)
            continue
        filters.append(filter)
        selectivity[code] = filter.selectivity
        if filter.slow:
            slow[code] = filter.slow
    return _ReadColumn(CodedFilters(codes, HeldColumn(filters), selectivity), refused, slow)


def _read_conditions(texts: list[str | None]) -> _ReadColumn:
    """Read conditions by the column; the code of one is its place among those that are there."""
    given = [text for text in texts if text is not None]
    codes = np.array([text is not None for text in texts], np.int32)
    codes = np.where(codes > 0, np.cumsum(codes) - 1, NONE).astype(np.int32)
    column = ConditionColumn.read(*_bytes_of(given), _read_condition)
    slow = {code: filter.slow for code, filter in column.others.items() if filter.slow}
    return _ReadColumn(CodedFilters(codes, column, column.selectivity), column.refused, slow)


def _read_condition(text: str) -> WhereFilter:
    filter = parse_filter("where", text)
    assert isinstance(filter, WhereFilter)
    return filter


def _bytes_of(texts: list[str]) -> tuple[Bytes, Longs, Longs]:
    """Texts as bytes of UTF-8, and where each begins and ends."""
    _, offsets, data = pa.array(texts, pa.large_string()).buffers()
    ends = np.frombuffer(offsets, np.int64)[: len(texts) + 1] if texts else np.zeros(1, np.int64)
    return np.frombuffer(data or b"", np.uint8), ends[:-1], ends[1:]


def check_given(subscription: Subscription, serial: int | None) -> None:
    """Refuse what is no subscription, and a serial of more than 64 bits."""
    require_instance(subscription, Subscription)
    if serial is not None and serial not in WHOLE_NUMBERS:
        raise ValueError(f"the serial of {subscription.id!r} is {serial}, which 64 bits do not hold")


def lots(
    numbered: Iterator[tuple[Subscription, int | None]],
) -> Iterator[tuple[list[Subscription], list[int] | None, Exception | None]]:
    """Subscriptions and serials, some thousands at a time, and what kept the rest from coming, if it did.

    Those that came before a failure are to be told of first.
    """
    failure: Exception | None = None
    ended = False
    while not ended:
        lot: list[Subscription] = []
        serials: list[int] = []
        try:
            for subscription, serial in islice(numbered, LOT):
                check_given(subscription, serial)
                lot.append(subscription)
                if serial is not None:
                    serials.append(serial)
        except Exception as error:
            failure = error
        ended = failure is not None or len(lot) < LOT
        yield lot, serials or None, failure
