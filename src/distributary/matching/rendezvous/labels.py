"""Where paths and documents meet: at one name that the path certainly needs, the rarest by the census.

A path lives in one part, so a document may visit more parts than it must without meeting any path twice. It
visits the parts of all names that it has and the plan knows. A path none of whose names the plan knows is
not filed here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from distributary.matching.batch import EventBatch
from distributary.matching.rendezvous.parts import PROVISIONAL, PartAllotment, PartRange, Visits

MAX_LABELS = 20_000
"""So many names, the most frequent ones, are known to a plan."""

Labels = Sequence[str]


@dataclass(frozen=True)
class LabelParts:
    """The part of a plan that concerns documents: by name, the share of paths that need it, and its place."""

    shares: dict[str, float]
    places: dict[str, PartRange]
    _seen: dict[tuple[str, ...], NDArray[np.int32]] = field(default_factory=dict, repr=False, compare=False)

    def find(self, labels: Labels) -> str | None:
        """The name under which a path with these names is filed; None when there is none."""
        known = [label for label in labels if label in self.places]
        return min(known, key=self.shares.__getitem__) if known else None

    def visits(self, batch: EventBatch) -> Visits:
        """The rows and the parts that they visit, each pair once."""
        documents = {row: document for row in range(batch.rows) if (document := batch.document(row))}
        parts = [self._parts_of_document(tuple(document.labels)) for document in documents.values()]
        if not parts:
            return np.empty(0, np.int32), np.empty(0, np.int32)
        rows = np.fromiter(documents, np.int32, len(documents))
        return np.repeat(rows, [len(found) for found in parts]), np.concatenate(parts)

    def _parts_of_document(self, labels: tuple[str, ...]) -> NDArray[np.int32]:
        """By the labels of its path classes: documents of one schema mostly have the same ones."""
        found = self._seen.get(labels)
        if found is None:
            places = {self.places[label] for label in labels if label in self.places}
            parts = {part for first, count in places for part in range(first, first + count)}
            found = np.array(sorted(parts), np.int32)
            if len(self._seen) >= MAX_LABELS:
                self._seen.clear()
            self._seen[labels] = found
        return found


def draft(given: Iterable[Labels]) -> LabelParts:
    """The names that these paths need; places are provisional."""
    counted: Counter[str] = Counter()
    total = 0
    for labels in given:
        counted.update(labels)
        total += 1
    known = counted.most_common(MAX_LABELS)
    shares = {label: count / total for label, count in known}
    return LabelParts(shares, dict.fromkeys(shares, PROVISIONAL))


def settle(drafted: LabelParts, filed: Sequence[Labels], allotment: PartAllotment) -> LabelParts:
    """The same names with places: `filed` are the paths that are filed by a name after all."""
    loads: Counter[str] = Counter()
    beside: dict[str, str] = {}
    for labels in filed:
        label = drafted.find(labels)
        assert label is not None, "everything has a place in a draft"
        loads[label] += 1
        beside.setdefault(label, max(labels, key=lambda one: drafted.shares.get(one, 0.0)))
    if allotment.is_small(loads.total()):
        return LabelParts({}, {})
    # Names of one kind of document have their most frequent name in common, and are best packed together.
    order = sorted(loads, key=lambda label: (beside[label], label))
    places = allotment.pack([(label, loads[label]) for label in order], "names in documents")
    return LabelParts({label: drafted.shares[label] for label in places}, places)
