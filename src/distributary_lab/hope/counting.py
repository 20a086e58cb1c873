"""What all events of a collection do on a full cube of HOPE's nodes, counted on arrays (`hope.model`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distributary.filters.kinds import parse_filters
from distributary.filters.path.document import Document, parse_document
from distributary.filters.path.filter import PathFilter, selects
from distributary.matching.path.signature import Item, document_items
from distributary.model import Event
from distributary.systems.hope.addressing import Addressing
from distributary.workloads import xml_collection
from distributary_lab.experiment import seed_from
from distributary_lab.hope.model import (
    Addresses,
    AggregatedTree,
    Bits,
    FilterAggregate,
    Flags,
    Keys,
    covering,
    visited,
)

DEPTH = 3
"""Gives paths of three steps on average, as Table 4.1 has them."""


@dataclass(frozen=True)
class PublishedCollection:
    """Documents, parsed, and one path for every node."""

    events: list[Event]
    documents: list[Document]
    items: list[set[Item]]
    """What the documents are made of."""
    paths: list[PathFilter]

    @classmethod
    def of(cls, documents: int, nodes: int, random: np.random.Generator) -> PublishedCollection:
        """Draw so many documents, and a path for each of so many nodes."""
        events = list(xml_collection.events(documents, seed=seed_from(random)))
        subscriptions = xml_collection.subscriptions(
            nodes, seed=seed_from(random), depth=DEPTH, branching=0.2
        )
        paths = [parse_filters(each)["path"] for each in subscriptions]
        parsed = [parse_document(event.document) for event in events if event.document is not None]
        items = [document_items(document) for document in parsed]
        return cls(events, parsed, items, [path for path in paths if isinstance(path, PathFilter)])

    def addresses(self, dimension: int, length: int) -> tuple[Addresses, Addresses]:
        """Of the events and of the subscriptions."""
        addressing = Addressing(dimension, length)
        asked = (addressing.of_filters({"path": path}) for path in self.paths)
        return Addresses.of(map(addressing.of_items, self.items), length), Addresses.of(asked, length)

    def matches(self, possible: Flags) -> Flags:
        """By event and subscription: whether the path selects something, where that is possible."""
        texts = {path.text: path for path in self.paths}
        columns = {text: np.array([path.text == text for path in self.paths]) for text in texts}
        found = np.zeros_like(possible)
        for text, path in texts.items():
            some = int(np.flatnonzero(columns[text])[0])
            for event in np.flatnonzero(possible[:, some]):
                if selects(path, self.documents[event]):
                    found[event, columns[text]] = True
        return found


@dataclass(frozen=True)
class DeliveryCounts:
    """What all events together did, with each way of keeping filters."""

    covered: Flags
    exact: Flags
    edges: dict[FilterAggregate, NDArray[np.int64]]
    """Messages between vertices, by event."""
    lost: float
    """The share of wanted deliveries that OR loses."""
    handled: NDArray[np.int64]
    """Publications that each node receives for its vertex."""
    used: int
    """Links between vertices that some event used."""


def count_deliveries(published: Addresses, asked: Addresses, dimension: int, exact: Flags) -> DeliveryCounts:
    """Follow every event through the cube; those of the same address are followed once."""
    covered = covering(published, asked)
    trees = {
        kind: AggregatedTree(asked, dimension, kind) for kind in (FilterAggregate.AND, FilterAggregate.OR)
    }
    edges = {kind: np.zeros(len(published), np.int64) for kind in FilterAggregate}
    handled = np.zeros(1 << dimension, np.int64)
    used: set[tuple[int, int]] = set()
    wanted = lost = 0
    known: dict[bytes, Ways] = {}
    for place in range(len(published)):
        root, filter = int(published.keys[place]), published.filters[place]
        structure = root.to_bytes(8, "little") + filter.tobytes()
        if structure not in known:
            known[structure] = _ways(root, filter, asked.keys[covered[place]], trees, dimension)
        ways = known[structure]
        handled += ways.reached[FilterAggregate.SET]
        used |= ways.links
        for kind, reached in ways.reached.items():
            edges[kind][place] = int(reached.sum()) - 1
        wanted += int(exact[place].sum())
        lost += int((exact[place] & ~ways.reached[FilterAggregate.OR][asked.keys]).sum())
    return DeliveryCounts(covered, exact, edges, lost / max(1, wanted), handled, len(used))


class Ways(NamedTuple):
    """The vertices that an event comes to, by way of keeping filters, and the links it takes with sets."""

    reached: dict[FilterAggregate, Flags]
    links: set[tuple[int, int]]


def _ways(
    root: int, filter: Bits, targets: Keys, trees: dict[FilterAggregate, AggregatedTree], dimension: int
) -> Ways:
    reached = {kind: tree.visited(root, filter) for kind, tree in trees.items()}
    reached[FilterAggregate.SET] = visited(root, np.append(targets, root), dimension)
    below = np.flatnonzero(reached[FilterAggregate.SET])
    below = below[below != root]
    lacking = root & ~below
    above = below | np.left_shift(1, np.frexp(lacking.astype(float))[1] - 1)
    return Ways(reached, set(zip(above.tolist(), below.tolist(), strict=True)))
