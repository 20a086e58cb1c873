"""Evaluate every filter for every event: for filter kinds an application adds, and as the plain baseline.

Adding and removing cost O(1); matching costs one evaluation for each filter held.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from distributary.filters.filter import Filter
from distributary.kernel import Flags, Ints
from distributary.matching.batch import EventBatch
from distributary.matching.index import HeldFilters
from distributary.matching.single import SingleEvent
from distributary.model import Event


class FilterScan(HeldFilters[Filter]):
    """Filters of any kind; made for one kind by `scan_of`."""

    name = "scan"

    def match(self, event: Event) -> list[int]:
        """Ask every filter."""
        return sorted(slot for slot, filter in self._filters.items() if filter.matches(event))

    def verify(self, batch: EventBatch, rows: Ints, slots: Ints) -> Flags:
        """For each pair of a row and a slot: does the row pass? Slots that hold no filter let all pass."""
        events: dict[int, Event] = {}
        passed = np.ones(len(rows), np.bool_)
        for at, (row, slot) in enumerate(zip(rows.tolist(), slots.tolist(), strict=True)):
            filter = self._filters.get(slot)
            if filter is not None:
                if row not in events:
                    events[row] = batch.event(row)
                passed[at] = filter.matches(events[row])
        return passed

    def passing(self, single: SingleEvent, slots: Ints) -> Ints:
        """Those of the slots whose filters the event passes. Slots that hold no filter let all pass."""
        held = ((slot, self._filters.get(slot)) for slot in slots.tolist())
        return np.array(
            [slot for slot, filter in held if filter is None or filter.matches(single.event)], np.int32
        )

    def memory(self) -> int:
        """The bytes of the filters and their texts, as far as Python can tell."""
        texts = sum(sys.getsizeof(filter.text) + sys.getsizeof(filter) for filter in self._filters.values())
        return sys.getsizeof(self._filters) + texts


def scan_of(filter_class_: type[Filter]) -> type[FilterScan]:
    """The scan that holds filters of this class."""
    members: dict[str, Any] = {"kind": filter_class_.kind, "filter_class": filter_class_}
    return type(f"ScanOf{filter_class_.__name__}", (FilterScan,), members)
