"""What events cost under KBSP: Figures 4.12 to 4.17, 4.19, 4.20, 4.23 to 4.25, 5.2 and 5.4 of 001.

A point is a cube of so many nodes, one to a vertex. Every node has one subscription and publishes; a row is
one filter length. Deliveries and messages are counted on arrays (`hope_model`), for the whole collection of
documents, each published equally often. What a neighbour is known to want is a set of filters; beside it
stand one filter a neighbour, joined by AND, and joined by OR as the thesis writes it, which loses deliveries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distributary.filters.kinds import parse_filters
from distributary.filters.path.document import Document, parse_document
from distributary.filters.path.filter import PathFilter, selects
from distributary.matching.path.signature import Item, document_items
from distributary.model import Event
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.fingers import ONE_WAY
from distributary.overlay.ring.static import StaticRing
from distributary.overlay.wire import size_of
from distributary.systems.hope.addressing import Addressing, fitting_dimension
from distributary.systems.hope.messages import Advert, Passed, Publication
from distributary.workloads import xml_collection
from distributary_lab.claims import Claim
from distributary_lab.experiment import Answer, Experiment, Plot, Point, Row, Rows, Verdict, grid
from distributary_lab.hope.model import (
    Addresses,
    Aggregate,
    AggregatedTree,
    covering,
    subscription_messages,
    visited,
)
from distributary_lab.rows import mean, means, number, select, shown

LENGTHS = (0, 128, 1024)
RATE = 0.1
"""Publications, and subscriptions, a node and second (Table 4.1)."""
SECONDS = 7200
DEPTH = 3
"""Gives paths of three steps on average, as Table 4.1 has them."""
LONGEST = max(LENGTHS)


@dataclass(frozen=True)
class Workload:
    """Documents, parsed, and one path for every node."""

    events: list[Event]
    documents: list[Document]
    items: list[set[Item]]
    """What the documents are made of."""
    paths: list[PathFilter]

    @classmethod
    def of(cls, documents: int, nodes: int, random: np.random.Generator) -> Workload:
        events = list(xml_collection.events(documents, seed=int(random.integers(2**31))))
        subscriptions = xml_collection.subscriptions(
            nodes, seed=int(random.integers(2**31)), depth=DEPTH, branching=0.2
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

    def matches(self, possible: NDArray[np.bool_]) -> NDArray[np.bool_]:
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


def run(point: Point, random: np.random.Generator) -> list[Row]:
    """One cube, all filter lengths."""
    nodes = int(point["nodes"])
    dimension = fitting_dimension(nodes)
    workload = Workload.of(int(point["documents"]), nodes, random)
    hops = _hops_to_the_vertex(workload, nodes, dimension, random)
    exact = workload.matches(covering(*workload.addresses(dimension, LONGEST)))
    rows: list[Row] = []
    for length in LENGTHS:
        published, asked = workload.addresses(dimension, length)
        counted = _count(published, asked, dimension, exact)
        rows.append({"length": length, **_row(counted, workload, asked, dimension, length, hops, rows)})
    return rows


def _hops_to_the_vertex(workload: Workload, nodes: int, dimension: int, random: np.random.Generator) -> float:
    """The mean path from a publisher to the vertex of its event."""
    ring = StaticRing.of(list(range(nodes)), Circle(dimension), ONE_WAY)
    keys = workload.addresses(dimension, 0)[0].keys
    return float(ring.hops(random.integers(nodes, size=len(keys)), keys).mean())


@dataclass(frozen=True)
class Counted:
    """What all events together did, with each way of keeping filters."""

    covered: NDArray[np.bool_]
    exact: NDArray[np.bool_]
    edges: dict[Aggregate, NDArray[np.int64]]
    """Messages between vertices, by event."""
    lost: float
    """The share of wanted deliveries that OR loses."""
    handled: NDArray[np.int64]
    """Publications that each node receives for its vertex."""
    used: int
    """Links between vertices that some event used."""


def _count(published: Addresses, asked: Addresses, dimension: int, exact: NDArray[np.bool_]) -> Counted:
    covered = covering(published, asked)
    trees = {kind: AggregatedTree(asked, dimension, kind) for kind in (Aggregate.AND, Aggregate.OR)}
    edges = {kind: np.zeros(len(published), np.int64) for kind in Aggregate}
    handled = np.zeros(1 << dimension, np.int64)
    used: set[tuple[int, int]] = set()
    wanted = lost = 0
    known: dict[bytes, tuple[Any, ...]] = {}
    for place in range(len(published)):
        root, filter = int(published.keys[place]), published.filters[place]
        structure = root.to_bytes(8, "little") + filter.tobytes()
        if structure not in known:
            known[structure] = _ways(root, filter, asked.keys[covered[place]], trees, dimension)
        reached, links, counts = known[structure]
        handled += reached[Aggregate.SET]
        used |= links
        for kind in Aggregate:
            edges[kind][place] = counts[kind]
        wanted += int(exact[place].sum())
        lost += int((exact[place] & ~reached[Aggregate.OR][asked.keys]).sum())
    return Counted(covered, exact, edges, lost / max(1, wanted), handled, len(used))


def _ways(
    root: int,
    filter: NDArray[np.uint64],
    targets: NDArray[np.int64],
    trees: dict[Aggregate, AggregatedTree],
    dimension: int,
) -> tuple[Any, ...]:
    """Where an event comes to, over which links, and how many they are, by way of keeping filters."""
    reached = {kind: tree.visited(root, filter) for kind, tree in trees.items()}
    reached[Aggregate.SET] = visited(root, np.append(targets, root), dimension)
    below = np.flatnonzero(reached[Aggregate.SET])
    below = below[below != root]
    lacking = root & ~below
    above = below | np.left_shift(1, np.frexp(lacking.astype(float))[1] - 1)
    links = set(zip(above.tolist(), below.tolist(), strict=True))
    return reached, links, {kind: int(found.sum()) - 1 for kind, found in reached.items()}


def _row(
    counted: Counted,
    workload: Workload,
    asked: Addresses,
    dimension: int,
    length: int,
    hops: float,
    before: list[Row],
) -> Row:
    nodes = 1 << dimension
    coverage = counted.covered.sum(axis=1)
    received = float(coverage.mean())
    false = received - float(counted.exact.sum(axis=1).mean())
    received_unfiltered = float(before[0]["coverage"]) if before else received
    multicast = {kind: float(edges.mean()) for kind, edges in counted.edges.items()}
    whole = subscription_messages(asked, dimension, suppress=False)
    told = subscription_messages(asked, dimension, suppress=True)
    size = _publication_bytes(workload, length)
    advert = size_of(Passed((0,), Advert(0, 0, (1 << max(1, length) - 1,), (), 1 << 63, False, 10**9)))
    publishing = RATE * (hops + multicast[Aggregate.SET] + received) * size
    return {
        "sent": nodes * RATE * SECONDS,
        "received": nodes * RATE * SECONDS * received,
        "coverage": received,
        "coverage_most": int(coverage.max()),
        "reached_most": int(counted.edges[Aggregate.SET].max()) + 1,
        "subscription_requests": RATE * float(whole.mean()),
        "subscription_requests_suppressed": RATE * float(told.mean()),
        "publication_requests": RATE * (1 + multicast[Aggregate.SET]),
        "busiest": float(counted.handled.max() / max(1e-9, counted.handled.mean())),
        "multicast": multicast[Aggregate.SET],
        "multicast_and": multicast[Aggregate.AND],
        "multicast_or": multicast[Aggregate.OR],
        "lost_by_or": counted.lost,
        "false_absolute": false / max(1e-9, received),
        "false_relative": false / max(1e-9, received_unfiltered),
        "exact": received - false,
        "traffic": publishing + RATE * float(told.mean()) * advert,
        "link_traffic": nodes * RATE * multicast[Aggregate.SET] * size / max(1, counted.used),
        "links": counted.used,
    }


def _publication_bytes(workload: Workload, length: int) -> float:
    filter = 1 << max(1, length) - 1
    sample = workload.events[:200]
    return float(np.mean([size_of(Passed((0,), Publication(event, filter, 0))) for event in sample]))


# Checks.


def _largest(rows: Rows) -> int:
    return int(max(number(row, "nodes") for row in rows))


def _nodes(rows: Rows) -> Iterator[int]:
    return (int(nodes) for nodes in means(rows, "multicast", by="nodes"))


def _value(rows: Rows, column: str, nodes: int, length: int) -> float:
    return mean(rows, column, nodes=nodes, length=length)


def _by_length(rows: Rows, column: str, nodes: int) -> list[float]:
    return [_value(rows, column, nodes, length) for length in LENGTHS]


def _lengths_text(values: list[float]) -> str:
    return ", ".join(f"{shown(value)} at l = {length}" for length, value in zip(LENGTHS, values, strict=True))


def check_sent(rows: Rows) -> Verdict:
    """Figure 4.12."""
    equal = all(len(set(_by_length(rows, "sent", nodes))) == 1 for nodes in _nodes(rows))
    return Verdict.of(
        equal, ours="equal" if equal else "unequal", reason="Who publishes does not depend on filters."
    )


def _check_falling(rows: Rows, column: str, what: str) -> Verdict:
    """Longer filters, less of it: at no number of nodes more, and at the most nodes strictly less."""
    falling = all(
        one >= other for nodes in _nodes(rows) for one, other in pairwise(_by_length(rows, column, nodes))
    )
    values = _by_length(rows, column, _largest(rows))
    return Verdict.of(
        falling and values[0] > values[-1],
        ours=f"{_lengths_text(values)} ({_largest(rows):,} nodes)",
        reason=f"{what} at {_largest(rows):,} nodes: {_lengths_text(values)}.",
    )


def check_received(rows: Rows) -> Verdict:
    """Figures 4.13 and 5.4."""
    return _check_falling(rows, "received", "Publications received in 7,200 s")


def check_coverage(rows: Rows) -> Verdict:
    """Figure 4.14."""
    return _check_falling(rows, "coverage", "Homes that a publication is sent to")


PAPER_COVERAGE = 0.04


def check_most_coverage(rows: Rows) -> Verdict:
    """Figure 4.15."""
    nodes = _largest(rows)
    share = _value(rows, "reached_most", nodes, 0) / nodes
    homes, filtered = (_value(rows, "coverage_most", nodes, length) for length in (0, LONGEST))
    return Verdict.of(
        share <= 2 * PAPER_COVERAGE,
        ours=f"{share * nodes:,.0f} of {nodes:,} nodes ({share:.1%}) for their vertices",
        ratio=share / PAPER_COVERAGE,
        reason="Counted are nodes that get a publication because their vertex is on its way; this is the "
        "reading "
        f"that comes near the paper's 200. Homes are more: {homes:,.0f} get some publication at l = 0 and "
        f"{filtered:,.0f} at l = 1024, where {_value(rows, 'exact', nodes, 0) / nodes:.0%} of the nodes "
        "want the "
        f"average one, each having one subscription to one of nine document types. Keys of "
        f"{fitting_dimension(nodes)} bits are nearly full for documents of some thirty labels and pairs.",
    )


def check_subscription_requests(rows: Rows) -> Verdict:
    """Figure 4.16."""
    equal = all(len(set(_by_length(rows, "subscription_requests", nodes))) == 1 for nodes in _nodes(rows))
    nodes = _largest(rows)
    whole = _value(rows, "subscription_requests", nodes, 0)
    told = _by_length(rows, "subscription_requests_suppressed", nodes)
    return Verdict.of(
        equal,
        ours=f"{shown(whole)} a node and second for every l ({nodes:,} nodes)",
        reason="That is when every subscription climbs to every vertex that covers its key. Our nodes tell a "
        f"filter no further than where a less demanding one is known, which leaves {_lengths_text(told)}.",
    )


PAPER_SAVING = 0.98


def check_publication_requests(rows: Rows) -> Verdict:
    """Figure 4.17."""
    by_nodes = [_value(rows, "publication_requests", nodes, 0) for nodes in _nodes(rows)]
    nodes = 1024 if select(rows, nodes=1024) else _largest(rows)
    none, longest = (_value(rows, "publication_requests", nodes, length) for length in (0, LONGEST))
    saving = 1 - longest / none
    rises = all(one <= other for one, other in pairwise(by_nodes[:-1]))
    eases = by_nodes[-1] < by_nodes[-2]
    lossy = 1 - _value(rows, "multicast_or", nodes, LONGEST) / max(
        1e-9, _value(rows, "multicast_or", nodes, 0)
    )
    return Verdict.of(
        rises and eases and saving >= 0.9 * PAPER_SAVING,
        ours=f"-{saving:.0%} at {nodes:,} nodes",
        ratio=saving / PAPER_SAVING,
        reason=f"Without filters, by nodes: {', '.join(map(shown, by_nodes))} a node and second, which "
        f"{'eases' if eases else 'does not ease'} at the end. What l = 1024 leaves goes to vertices where "
        f"somebody wants it ({shown(_value(rows, 'exact', nodes, LONGEST))} exact matches a publication). "
        f"Joining filters by OR, as the thesis does, saves {lossy:.0%} of the messages between vertices, "
        "and loses "
        f"{_value(rows, 'lost_by_or', nodes, LONGEST):.0%} of the deliveries.",
    )


def check_traffic(rows: Rows, paper: float) -> Verdict:
    """Figures 4.19 and 4.20."""
    by_nodes = [_value(rows, "traffic", nodes, LONGEST) for nodes in _nodes(rows)]
    levels = by_nodes[-1] / by_nodes[-2] < 1.25
    return Verdict.of(
        levels,
        ours=f"{by_nodes[-1] / 1000:.1f} KB/s at l = 1024",
        ratio=by_nodes[-1] / paper,
        reason=f"By nodes, at l = 1024: {', '.join(f'{value / 1000:.1f}' for value in by_nodes)} KB/s. Every "
        "node has one subscription, so a publication reaches more homes the more nodes there are; most of "
        "the "
        "traffic is deliveries that were asked for. In and out are the same on average, for nothing is lost.",
    )


PAPER_MULTICAST = 100


def check_multicast(rows: Rows) -> Verdict:
    """Figure 4.23."""
    most = max(_value(rows, "multicast", nodes, LONGEST) for nodes in _nodes(rows))
    return Verdict.of(
        most < PAPER_MULTICAST,
        ours=f"{shown(most)} messages between vertices at most",
        ratio=most / PAPER_MULTICAST,
        reason="Vertices that want a publication hold more than one subscription each, so its tree has fewer "
        f"links ({shown(most)}) than homes.",
    )


def check_multicast_ratio(rows: Rows) -> Verdict:
    """Figure 4.24."""
    nodes = _largest(rows)
    none, some, longest = _by_length(rows, "multicast", nodes)
    and_only = _value(rows, "multicast_and", nodes, LONGEST)
    lossy, lost = (_value(rows, column, nodes, LONGEST) for column in ("multicast_or", "lost_by_or"))
    return Verdict.of(
        longest / none < 0.01,
        ours=f"{longest / none:.2f} of l = 0 at l = 1024, {some / none:.2f} at l = 128",
        reason=f"At {nodes:,} nodes the tree of l = 0 has {shown(none)} links and that of l = 1024 "
        f"{shown(longest)}, which are needed: every vertex on the way has, or leads to, a filter that the "
        "event "
        f"covers. One filter a neighbour, joined soundly by AND, leaves {shown(and_only)}. Joined by OR, as "
        "the "
        f"thesis has it, {shown(lossy)} links are left, and {lost:.0%} of the deliveries are lost.",
    )


PAPER_FALSE = 0.004


def check_false_positives(rows: Rows) -> Verdict:
    """Figure 4.25."""
    nodes = _largest(rows)
    _, some, longest = _by_length(rows, "false_relative", nodes)
    all_under = all(max(_by_length(rows, "false_relative", each)[1:]) < 0.1 for each in _nodes(rows))
    return Verdict.of(
        all_under and longest <= 2.5 * PAPER_FALSE,
        ours=f"{longest:.4f} at l = 1024, {some:.3f} at l = 128",
        ratio=longest / PAPER_FALSE,
        reason=f"Relative to what is received without filters, at {nodes:,} nodes. Left at l = 1024 are "
        "documents that have a twig's labels and pairs, but not in one place.",
    )


def check_link_traffic(rows: Rows) -> Verdict:
    """Figure 5.2."""
    series = {
        length: [_value(rows, "link_traffic", nodes, length) for nodes in _nodes(rows)]
        for length in LENGTHS[1:]
    }
    tapers = all(values[-1] <= values[-2] <= max(values) for values in series.values())
    texts = [f"l = {length}: {', '.join(map(shown, values))}" for length, values in series.items()]
    return Verdict.of(
        tapers,
        ours=f"{shown(series[LONGEST][-1])} B/s a used link at l = 1024",
        reason=f"Bytes a second and used link, by nodes; {'; '.join(texts)}. The publications of all nodes "
        "share "
        f"{_value(rows, 'links', _largest(rows), LONGEST):,.0f} links between vertices, for there are not "
        "more "
        "kinds of structure: what nodes are added publish, and the links do not become more in proportion.",
    )


def check_or_loses(rows: Rows) -> Verdict:
    """Ours: what the aggregate of section 4.5 loses."""
    nodes = _largest(rows)
    lost = _value(rows, "lost_by_or", nodes, LONGEST)
    return Verdict.of(
        lost > 0.01,
        ours=f"OR loses {lost:.0%} of the deliveries",
        reason=f"{nodes:,} nodes, l = 1024; links a publication: set "
        f"{shown(_value(rows, 'multicast', nodes, LONGEST))}, AND "
        f"{shown(_value(rows, 'multicast_and', nodes, LONGEST))}, OR "
        f"{shown(_value(rows, 'multicast_or', nodes, LONGEST))}. Sets and AND lose nothing.",
    )


def _plot(title: str, y: str | tuple[str, ...], label: str, log_y: bool = False) -> tuple[Plot, ...]:
    return (
        Plot(title, x="nodes", y=y, series="length", x_label="nodes", y_label=label, log_x=True, log_y=log_y),
    )


COVERAGE = _plot("Homes a publication is sent to", ("coverage", "exact"), "homes", log_y=True)
RECEIVED = _plot("Publications received in 7,200 s", "received", "publications", log_y=True)
TRAFFIC = _plot("Application traffic of a node", "traffic", "bytes a second")

EXPERIMENTS = (
    Experiment(
        name="hope-delivery",
        title="Publications and subscriptions of HOPE by nodes and filter length",
        grid=grid(nodes=[16, 64, 256, 1024, 4096], documents=[3600]),
        quick=grid(nodes=[16, 64, 256], documents=[150]),
        run=run,
        answers={
            "001-fig4.12": Answer(check_sent, _plot("Publications sent", "sent", "publications")),
            "001-fig4.13": Answer(check_received, RECEIVED),
            "001-fig4.14": Answer(check_coverage, COVERAGE),
            "001-fig4.15": Answer(
                check_most_coverage,
                _plot("Most nodes a publication comes to", ("reached_most", "coverage_most"), "nodes", True),
            ),
            "001-fig4.16": Answer(
                check_subscription_requests,
                _plot(
                    "Subscription requests a node and second",
                    ("subscription_requests", "subscription_requests_suppressed"),
                    "requests a second",
                    log_y=True,
                ),
            ),
            "001-fig4.17": Answer(
                check_publication_requests,
                _plot("Publication requests a node and second", "publication_requests", "requests a second"),
            ),
            "001-fig4.19": Answer(partial(check_traffic, paper=8_000), TRAFFIC),
            "001-fig4.20": Answer(partial(check_traffic, paper=10_000), TRAFFIC),
            "001-fig4.23": Answer(
                check_multicast, _plot("Links of a publication's tree", "multicast", "links", log_y=True)
            ),
            "001-fig4.24": Answer(
                check_multicast_ratio,
                _plot(
                    "Links by aggregate", ("multicast", "multicast_and", "multicast_or"), "links", log_y=True
                ),
            ),
            "001-fig4.25": Answer(
                check_false_positives,
                _plot("False positives", ("false_relative", "false_absolute"), "share", log_y=True),
            ),
            "001-fig5.2": Answer(
                check_link_traffic,
                _plot("Traffic of a used link", "link_traffic", "bytes a second", True),
            ),
            "001-fig5.4": Answer(check_received, RECEIVED),
            "beyond-hope-aggregate": Answer(
                check_or_loses,
                _plot("Share of deliveries lost by OR", "lost_by_or", "share"),
                claim=Claim(
                    "beyond-hope-aggregate",
                    "an aggregate joined by OR loses deliveries; sets of least demanding filters lose none "
                    "and "
                    "prune more than one filter joined by AND",
                    "001 section 4.5, which joins by OR",
                ),
            ),
        },
        deviation="Documents are generated (the collection is gone); each node has one subscription of three "
        "steps on average and keeps it; every vertex is a node and every document is published equally "
        "often; "
        "messages are counted on arrays that the tests compare with the nodes themselves.",
    ),
)
