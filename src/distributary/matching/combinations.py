"""Combinations of filters: each distinct one has a slot, and an event finds the slots that let it pass.

Of a slot's filters, the one estimated to let the fewest events pass *drives*: it alone is searched, in the
index of its kind, and the others are verified for the pairs it finds. So the cost of an event grows with what
it matches, not with who is subscribed.

A combination without filters belongs to subscriptions that only have a tolerance; every event passes it.
Adding or removing one combination touches its own slot alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distributary.filters.filter import Filter
from distributary.filters.topic import TopicFilter
from distributary.kernel import Flags, Floats, Ints
from distributary.matching import frozen
from distributary.matching.batch import EventBatch
from distributary.matching.digests import PieceColumn, digests
from distributary.matching.engines import index_class, verifier_class
from distributary.matching.gathering import FilterColumn
from distributary.matching.index import NO_SLOTS, AnyArrays, Arrays, Index, Pairs
from distributary.matching.layers import Layers, Verifier
from distributary.matching.scan import FilterScan
from distributary.matching.single import SingleEvent
from distributary.matching.slots import SlotTable, digest_of
from distributary.matching.topic.shares import TopicShares

EVERYTHING = ""
"""The driver of the combination without filters."""


class CodedFilters(NamedTuple):
    """The filters of one kind of many rows."""

    codes: Ints
    """By row the code of its filter in the column; negative where it has none."""
    column: FilterColumn[Any]
    selectivity: Floats
    """By code."""

    def shares(self) -> Floats:
        """By row the share of events that its filter is guessed to let pass; infinite where it has none."""
        if not len(self.selectivity):
            return np.full(len(self.codes), np.inf)
        return np.where(self.codes >= 0, self.selectivity[self.codes], np.inf)


class Combinations:
    """Filters by slot, in an index or a verifier of their kind; `engines` names the indexes to use."""

    def __init__(self, engines: Mapping[str, str]) -> None:
        self._engines = engines
        self._opened: AnyArrays | None = None
        self._kinds = [EVERYTHING]
        self._indexes: dict[str, Index[Any]] = {}
        self._verifiers: dict[str, Verifier[Any] | FilterScan] = {}
        self._everything: int | None = None
        self._topics = TopicShares()

    def __len__(self) -> int:
        return len(self._slots)

    @cached_property
    def _slots(self) -> SlotTable:
        """The slots; those of opened combinations are opened when they are first needed, for changes."""
        if self._opened is None:
            return SlotTable()
        return SlotTable.open(frozen.within(self._opened, "slots"))

    def add(self, filters: dict[str, Filter]) -> int:
        """The slot of this combination of filters by kind, with one use more."""
        digest = digest_of(filters)
        slot = self._slots.find(digest)
        if slot is not None:
            self._slots.use(slot)
            return slot
        driver = self._driver_of(filters)
        slot = self._slots.add(digest, self._kind_code(driver))
        self._hold_all(slot, driver, filters)
        return slot

    def add_many(self, columns: Mapping[str, CodedFilters], others: Mapping[int, dict[str, Filter]]) -> Ints:
        """The slot of each row of these columns, with one use more; `others` are rows with other kinds too.

        The columns are of the same rows and in the order in which `add` is given kinds. For combinations that
        are all added in this way; nothing else may be asked of them before `settle`.
        """
        rows = len(next(iter(columns.values())).codes)
        pieces = [
            PieceColumn(
                np.frombuffer(f"{kind}\0".encode(), np.uint8),
                coded.codes,
                coded.column.texts["offsets"],
                coded.column.texts["bytes"],
            )
            for kind, coded in sorted(columns.items())
        ]
        found = digests(pieces, rows)
        drivers = self._drivers_of(columns)
        for row, filters in others.items():
            found[row] = np.frombuffer(digest_of(filters), np.uint8)
            drivers[row] = self._kind_code(self._driver_of(filters))
        slots, new = self._slots.add_many(found, drivers)
        if (everything := np.flatnonzero(new & (drivers == 0))).size:
            self._everything = int(slots[everything[0]])
        for kind, coded in columns.items():
            present = new & (coded.codes >= 0)
            driving = present & (drivers == self._kinds.index(kind)) if kind in self._kinds else ~new & new
            if driving.any():
                _hold(self._index(kind), slots[driving], coded, coded.codes[driving])
            present &= ~driving
            if present.any():
                _hold(self._verifier(kind), slots[present], coded, coded.codes[present])
        for row, filters in others.items():
            if new[row]:
                self._hold_all(int(slots[row]), self._kinds[drivers[row]], filters)
        return slots

    def settle(self) -> None:
        """Make what `add_many` added as ready as what `add` adds."""
        self._slots.settle()

    def _drivers_of(self, columns: Mapping[str, CodedFilters]) -> NDArray[np.int8]:
        """By row the code of the kind that drives it."""
        shares = np.stack([coded.shares() for coded in columns.values()])
        best = np.argmin(shares, axis=0)
        drivers = np.zeros(len(best), np.int8)
        for place, kind in enumerate(columns):
            chosen = (best == place) & np.isfinite(shares[place])
            if chosen.any():
                drivers[chosen] = self._kind_code(kind)
        return drivers

    def _kind_code(self, kind: str) -> int:
        if kind not in self._kinds:
            self._kinds.append(kind)
        return self._kinds.index(kind)

    def _hold_all(self, slot: int, driver: str, filters: dict[str, Filter]) -> None:
        """Give each filter of a new slot to the index or the verifier of its kind."""
        if driver == EVERYTHING:
            self._everything = slot
        for kind, filter in filters.items():
            holder = self._index(kind) if kind == driver else self._verifier(kind)
            holder.add(slot, filter)

    def leave(self, slot: int) -> None:
        """One use less; with the last, the filters are taken out of the indexes."""
        if not self._slots.leave(slot):
            return
        driver = self._driver(slot)
        if driver == EVERYTHING:
            self._everything = None
            return
        self._indexes[driver].remove(slot)
        for kind, verifier in self._verifiers.items():
            if kind != driver and slot in verifier:
                verifier.remove(slot)

    def filters(self, slot: int) -> dict[str, Filter]:
        """The filters of a slot by kind."""
        driver = self._driver(slot)
        held = {
            kind: part.filter(slot)
            for kind, part in self._verifiers.items()
            if kind != driver and slot in part
        }
        return held if driver == EVERYTHING else {**held, driver: self._indexes[driver].filter(slot)}

    def compact(self) -> None:
        """Reorganise after many changes, so that matching is as fast as after building anew."""
        for part in (*self._indexes.values(), *self._verifiers.values()):
            part.compact()

    def passed(self, batch: EventBatch) -> Pairs:
        """Pairs of a row that is not rejected and a slot all of whose filters it passes."""
        found = [self._search(kind, batch) for kind in self._indexes]
        if self._everything is not None:
            rows = np.arange(batch.rows, dtype=np.int32)
            found.append(Pairs(rows, np.full(batch.rows, self._everything, np.int32)))
        passed = Pairs.joined(found)
        if batch.rejected:
            rejected = np.zeros(batch.rows, np.bool_)
            rejected[list(batch.rejected)] = True
            passed = without_rows(passed, rejected)
        return passed

    def passed_by(self, single: SingleEvent) -> Ints:
        """The slots all of whose filters one event passes, in any order."""
        passed = NO_SLOTS if self._everything is None else np.array([self._everything], np.int32)
        verifiers = self._verifiers
        for kind, index in self._indexes.items():
            slots = index.find(single)
            if verifiers and len(slots):
                slots = self._verified(kind, single, slots)
            if len(slots):
                passed = np.concatenate((passed, slots)) if len(passed) else slots
        return passed

    def sizes(self) -> dict[str, int]:
        """The bytes that each index and verifier occupies."""
        sizes = {f"{kind} index": index.memory() for kind, index in self._indexes.items()}
        return sizes | {f"{kind} verifier": part.memory() for kind, part in self._verifiers.items()}

    def slots_memory(self) -> int:
        """The bytes that the table of slots occupies."""
        return self._slots.memory()

    def freeze(self) -> tuple[Arrays, dict[str, Any]]:
        """Everything as arrays, and what is to be known of them, as JSON can say it."""
        arrays = frozen.under("slots", self._slots.freeze())
        for kind, index in self._indexes.items():
            arrays.update(frozen.under(f"index.{kind}", index.freeze()))
        for kind, verifier in self._verifiers.items():
            arrays.update(frozen.under(f"verifier.{kind}", verifier.freeze()))
        return arrays, {
            "kinds": self._kinds,
            "indexes": sorted(self._indexes),
            "verifiers": sorted(self._verifiers),
            "everything": self._everything,
        }

    @classmethod
    def open(cls, engines: Mapping[str, str], arrays: AnyArrays, about: Mapping[str, Any]) -> Combinations:
        """The combinations that `freeze` wrote."""
        opened = cls(engines)
        opened._opened = arrays
        opened._kinds, opened._everything = about["kinds"], about["everything"]
        for kind in about["indexes"]:
            engine = index_class(kind, engines.get(kind))
            opened._indexes[kind] = engine.open(frozen.within(arrays, f"index.{kind}"))
        for kind in about["verifiers"]:
            opened._verifiers[kind] = verifier_class(kind).open(frozen.within(arrays, f"verifier.{kind}"))
        return opened

    @staticmethod
    def require_engines(engines: Mapping[str, str], about: Mapping[str, Any]) -> None:
        """Raise an error unless this process has all that `open` needs."""
        for kind in about["indexes"]:
            index_class(kind, engines.get(kind))
        for kind in about["verifiers"]:
            verifier_class(kind)

    def _search(self, kind: str, batch: EventBatch) -> Pairs:
        """The pairs of row and slot that pass the driving filter of this kind and all others."""
        rows, slots = self._indexes[kind].match_batch(batch)
        for other, verifier in self._verifiers.items():
            if other != kind and len(verifier) and len(rows):
                passed = verifier.verify(batch, rows, slots)
                rows, slots = rows[passed], slots[passed]
        return Pairs(rows, slots)

    def _verified(self, kind: str, single: SingleEvent, slots: Ints) -> Ints:
        """Those of the slots, driven by filters of this kind, whose other filters the event passes."""
        for other, verifier in self._verifiers.items():
            if other != kind and len(slots) and len(verifier):
                slots = verifier.passing(single, slots)
        return slots

    def _driver_of(self, filters: Mapping[str, Filter]) -> str:
        """The kind of the filter that is guessed to let the fewest events pass."""
        if len(filters) == 1:
            return next(iter(filters))
        shares = {kind: filter.selectivity for kind, filter in filters.items()}
        topic = filters.get("topic")
        if isinstance(topic, TopicFilter):
            shares["topic"] = self._topics.add(topic)
        return min(shares, key=shares.__getitem__, default=EVERYTHING)

    def _driver(self, slot: int) -> str:
        return self._kinds[self._slots.driver(slot)]

    def _index(self, kind: str) -> Index[Any]:
        if kind not in self._indexes:
            self._indexes[kind] = index_class(kind, self._engines.get(kind))()
        return self._indexes[kind]

    def _verifier(self, kind: str) -> Verifier[Any] | FilterScan:
        if kind not in self._verifiers:
            self._verifiers[kind] = verifier_class(kind)()
        return self._verifiers[kind]


def _hold(holder: Index[Any] | Verifier[Any], slots: Ints, coded: CodedFilters, codes: Ints) -> None:
    """Give filters of a column to an index or a verifier: by the column where it can take that."""
    if isinstance(holder, Layers):
        holder.add_column(slots, coded.column, codes)
    else:
        holder.add_many(slots.tolist(), map(coded.column.filter, codes.tolist()))


def without_rows(pairs: Pairs, unwanted: Flags) -> Pairs:
    """The pairs but those of the rows that are marked."""
    keep = ~unwanted[pairs.rows]
    return Pairs(pairs.rows[keep], pairs.slots[keep])
