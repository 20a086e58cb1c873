"""What events cost under KBSP: Figures 4.12 to 4.17, 4.19, 4.20, 4.23 to 4.25, 5.2 and 5.4 of 001.

A point is a cube of so many nodes, one to a vertex. Every node has one subscription and publishes; a row is
one filter length. Deliveries and messages are counted on arrays (`hope.model`), for the whole collection
of documents, each published equally often. What a neighbour is known to want is a set of filters; beside it
stand one filter a neighbour, joined by AND, and joined by OR as the thesis writes it, which loses deliveries.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np

from distributary.model import Event
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.fingers import ONE_WAY
from distributary.overlay.ring.static import StaticRing
from distributary.overlay.wire import size_of
from distributary.systems.hope.addressing import fitting_dimension
from distributary.systems.hope.documents import without_document
from distributary.systems.hope.messages import (
    DirectMessage,
    DocumentReply,
    DocumentRequest,
    EventNotice,
    FilterAdvert,
    XmlPublication,
)
from distributary_lab.experiment import Experiment, Plot, Point, Row, Rows, Verdict, answer, grid
from distributary_lab.hope import model
from distributary_lab.rows import column_means, largest, listed, mean, means, named, select, shown

LENGTHS = (0, 128, 1024)
RATE = 0.1
"""Publications, and subscriptions, a node and second (Table 4.1)."""
SECONDS = 7200
LONGEST = max(LENGTHS)
LINKS = ("multicast", "multicast_and", "multicast_or")

PAPER_COVERAGE, PAPER_SAVING, PAPER_MULTICAST, PAPER_FALSE = 0.04, 0.98, 100, 0.004
"""Figures 4.15, 4.17, 4.23 and 4.25."""


def run(point: Point, random: np.random.Generator) -> list[Row]:
    """One cube, all filter lengths."""
    nodes = int(point["nodes"])
    dimension = fitting_dimension(nodes)
    workload = model.PublishedCollection.of(int(point["documents"]), nodes, random)
    ring = StaticRing.of(list(range(nodes)), Circle(dimension), ONE_WAY)
    keys = workload.addresses(dimension, 0)[0].keys
    hops = float(ring.hops(random.integers(nodes, size=len(keys)), keys).mean())
    """The mean path from a publisher to the vertex of its event."""
    exact = workload.matches(model.covering(*workload.addresses(dimension, LONGEST)))
    rows: list[Row] = []
    for length in LENGTHS:
        published, asked = workload.addresses(dimension, length)
        counted = model.count_deliveries(published, asked, dimension, exact)
        told = [model.subscription_messages(asked, dimension, suppress).mean() for suppress in (False, True)]
        rows.append({"length": length, **_row(counted, workload, length, hops, *map(float, told))})
        rows[-1]["false_relative"] = float(rows[-1]["false_relative"]) / max(1e-9, float(rows[0]["coverage"]))
    return rows


def _row(
    counted: model.DeliveryCounts,
    workload: model.PublishedCollection,
    length: int,
    hops: float,
    whole: float,
    told: float,
) -> Row:
    """One filter length; `whole` and `told` are the messages of a subscription that is told everywhere, and
    of one that is told no further than it must."""
    nodes = len(counted.handled)
    coverage = counted.covered.sum(axis=1)
    received = float(coverage.mean())
    false = received - float(counted.exact.sum(axis=1).mean())
    by_set, by_and, by_or = (float(counted.edges[kind].mean()) for kind in model.FilterAggregate)
    filter = 1 << max(1, length) - 1
    sizes = [_sizes_of(event, filter) for event in workload.events[:200]]
    passed, delivered = (float(np.mean(column)) for column in zip(*sizes, strict=True))
    advert = size_of(DirectMessage((0,), FilterAdvert(0, 0, (filter,), (), 1 << 63, False, 10**9)))
    publishing = RATE * ((hops + by_set) * passed + received * delivered)
    return {
        "sent": nodes * RATE * SECONDS,
        "received": nodes * RATE * SECONDS * received,
        "coverage": received,
        "coverage_most": int(coverage.max()),
        "reached_most": int(counted.edges[model.FilterAggregate.SET].max()) + 1,
        "subscription_requests": RATE * whole,
        "subscription_requests_suppressed": RATE * told,
        "publication_requests": RATE * (1 + by_set),
        "busiest": float(counted.handled.max() / max(1e-9, counted.handled.mean())),
        **dict(zip(LINKS, (by_set, by_and, by_or), strict=True)),
        "lost_by_or": counted.lost,
        "false_absolute": false / max(1e-9, received),
        "false_relative": false,
        "exact": received - false,
        "traffic": publishing + RATE * told * advert,
        "link_traffic": nodes * RATE * by_set * passed / max(1, counted.used),
        "links": counted.used,
    }


def _sizes_of(event: Event, filter: int) -> tuple[int, int]:
    """The bytes that an event takes between two vertices, and to a home: notice, request and document."""
    header = without_document(event)
    passed = DirectMessage((0,), XmlPublication(header, filter, (0,), 0))
    told = (EventNotice(header, (0,)), DocumentRequest(event.key), DocumentReply(event.key, event))
    return size_of(passed), sum(map(size_of, told))


# Checks.


def by_length(rows: Rows, column: str, nodes: int) -> dict[str, float]:
    """By filter length, as it stands in texts: a column at one number of nodes."""
    return {f"{length}": mean(rows, column, nodes=nodes, length=length) for length in LENGTHS}


def by_nodes(rows: Rows, column: str, length: int) -> list[float]:
    """A column at one filter length, by the number of nodes."""
    return list(means(rows, column, by="nodes", length=length).values())


def _sizes(rows: Rows) -> list[int]:
    return list(means(rows, "multicast", by="nodes"))


def _at_lengths(values: dict[str, float]) -> str:
    return ", ".join(f"{shown(value)} at l = {length}" for length, value in values.items())


def _all_lengths_equal(rows: Rows, column: str) -> bool:
    return all(len(set(by_length(rows, column, nodes).values())) == 1 for nodes in _sizes(rows))


def check_sent(rows: Rows) -> Verdict:
    """Figure 4.12."""
    equal = _all_lengths_equal(rows, "sent")
    return Verdict.of(
        equal, ours="equal" if equal else "unequal", reason="Who publishes does not depend on filters."
    )


def check_falling(rows: Rows, column: str, what: str) -> Verdict:
    """Longer filters, less of it: at no number of nodes more, and at the most nodes strictly less."""
    columns = {nodes: list(by_length(rows, column, nodes).values()) for nodes in _sizes(rows)}
    falling = all(one >= other for values in columns.values() for one, other in pairwise(values))
    nodes = largest(rows, "nodes")
    texts = _at_lengths(by_length(rows, column, nodes))
    return Verdict.of(
        falling and columns[nodes][0] > columns[nodes][-1],
        ours=f"{texts} ({nodes:,} nodes)",
        reason=f"{what} at {nodes:,} nodes: {texts}.",
    )


check_received = partial(check_falling, column="received", what="Publications received in 7,200 s")
check_coverage = partial(check_falling, column="coverage", what="Homes that a publication is sent to")


def check_most_coverage(rows: Rows) -> Verdict:
    """Figure 4.15."""
    nodes = largest(rows, "nodes")
    reached = mean(rows, "reached_most", nodes=nodes, length=0)
    homes = by_length(rows, "coverage_most", nodes)
    return Verdict.of(
        reached / nodes <= 2 * PAPER_COVERAGE,
        ours=f"{reached:,.0f} of {nodes:,} nodes ({reached / nodes:.1%}) for their vertices",
        ratio=reached / nodes / PAPER_COVERAGE,
        reason="Counted are nodes that get a publication because their vertex is on its way; this is the "
        f"reading that comes near the paper's 200. Homes are more: {homes['0']:,.0f} get some publication at "
        f"l = 0 and {homes['1024']:,.0f} at l = 1024, where "
        f"{mean(rows, 'exact', nodes=nodes, length=0) / nodes:.0%} of the nodes want the average one, each "
        f"having one subscription to one of nine document types. Keys of {fitting_dimension(nodes)} bits are "
        "nearly full for documents of some thirty labels and pairs.",
    )


def check_subscription_requests(rows: Rows) -> Verdict:
    """Figure 4.16."""
    nodes = largest(rows, "nodes")
    whole = mean(rows, "subscription_requests", nodes=nodes, length=0)
    told = by_length(rows, "subscription_requests_suppressed", nodes)
    return Verdict.of(
        _all_lengths_equal(rows, "subscription_requests"),
        ours=f"{shown(whole)} a node and second for every l ({nodes:,} nodes)",
        reason="That is when every subscription climbs to every vertex that covers its key. Our nodes tell a "
        f"filter no further than where a less demanding one is known, which leaves {_at_lengths(told)}.",
    )


def check_publication_requests(rows: Rows) -> Verdict:
    """Figure 4.17."""
    requests = by_nodes(rows, "publication_requests", 0)
    nodes = 1024 if select(rows, nodes=1024) else largest(rows, "nodes")
    none, _, longest = by_length(rows, "publication_requests", nodes).values()
    saving = 1 - longest / none
    rises = all(one <= other for one, other in pairwise(requests[:-1]))
    eases = requests[-1] < requests[-2]
    joined = by_length(rows, "multicast_or", nodes)
    exact, lost = column_means(rows, "exact", "lost_by_or", nodes=nodes, length=LONGEST)
    return Verdict.of(
        rises and eases and saving >= 0.9 * PAPER_SAVING,
        ours=f"-{saving:.0%} at {nodes:,} nodes",
        ratio=saving / PAPER_SAVING,
        reason=f"Without filters, by nodes: {listed(requests, shown)} a node and second, which "
        f"{'eases' if eases else 'does not ease'} at the end. What l = 1024 leaves goes to vertices where "
        f"somebody wants it ({shown(exact)} exact matches a publication). Joining filters by OR, as the "
        f"thesis does, saves {1 - joined['1024'] / max(1e-9, joined['0']):.0%} of the messages between "
        f"vertices, and loses {lost:.0%} of the deliveries.",
    )


def check_traffic(rows: Rows, paper: float) -> Verdict:
    """Figures 4.19 and 4.20."""
    traffic = by_nodes(rows, "traffic", LONGEST)
    kilobytes = listed(traffic, lambda sent: f"{sent / 1000:.1f}")
    return Verdict.of(
        traffic[-1] / traffic[-2] < 1.25,
        ours=f"{traffic[-1] / 1000:.1f} KB/s at l = 1024",
        ratio=traffic[-1] / paper,
        reason=f"By nodes, at l = 1024: {kilobytes} KB/s. Every node has one subscription, so a publication "
        "reaches more homes the more nodes there are; most of the traffic is deliveries that were asked for. "
        "In and out are the same on average, for nothing is lost.",
    )


def check_multicast(rows: Rows) -> Verdict:
    """Figure 4.23."""
    most = max(by_nodes(rows, "multicast", LONGEST))
    return Verdict.of(
        most < PAPER_MULTICAST,
        ours=f"{shown(most)} messages between vertices at most",
        ratio=most / PAPER_MULTICAST,
        reason="Vertices that want a publication hold more than one subscription each, so its tree has fewer "
        f"links ({shown(most)}) than homes.",
    )


def check_multicast_ratio(rows: Rows) -> Verdict:
    """Figure 4.24."""
    nodes = largest(rows, "nodes")
    none, some, longest = by_length(rows, "multicast", nodes).values()
    anded, ored, lost = column_means(rows, *LINKS[1:], "lost_by_or", nodes=nodes, length=LONGEST)
    return Verdict.of(
        longest / none < 0.01,
        ours=f"{longest / none:.2f} of l = 0 at l = 1024, {some / none:.2f} at l = 128",
        reason=f"At {nodes:,} nodes the tree of l = 0 has {shown(none)} links and that of l = 1024 "
        f"{shown(longest)}, which are needed: every vertex on the way has, or leads to, a filter that the "
        f"event covers. One filter a neighbour, joined soundly by AND, leaves {shown(anded)}. Joined by "
        f"OR, as the thesis has it, {shown(ored)} links are left, and {lost:.0%} of the deliveries are lost.",
    )


def check_false_positives(rows: Rows) -> Verdict:
    """Figure 4.25."""
    nodes = largest(rows, "nodes")
    _, some, longest = by_length(rows, "false_relative", nodes).values()
    most = max(max(by_nodes(rows, "false_relative", length)) for length in LENGTHS[1:])
    return Verdict.of(
        most < 0.1 and longest <= 2.5 * PAPER_FALSE,
        ours=f"{longest:.4f} at l = 1024, {some:.3f} at l = 128",
        ratio=longest / PAPER_FALSE,
        reason=f"Relative to what is received without filters, at {nodes:,} nodes. Left at l = 1024 are "
        "documents that have a twig's labels and pairs, but not in one place.",
    )


def check_link_traffic(rows: Rows) -> Verdict:
    """Figure 5.2."""
    traffic = {f"l = {length}:": by_nodes(rows, "link_traffic", length) for length in LENGTHS[1:]}
    texts = named(traffic, lambda values: listed(values, shown), separator="; ")
    links = mean(rows, "links", nodes=largest(rows, "nodes"), length=LONGEST)
    return Verdict.of(
        all(values[-1] <= values[-2] <= max(values) for values in traffic.values()),
        ours=f"{shown(traffic['l = 1024:'][-1])} B/s a used link at l = 1024",
        reason=f"Bytes a second and used link, by nodes; {texts}. The publications of all nodes share "
        f"{links:,.0f} links between vertices, for there are not more kinds of structure: what nodes are "
        "added publish, and the links do not become more in proportion.",
    )


def check_or_loses(rows: Rows) -> Verdict:
    """Ours: what the aggregate of section 4.5 loses."""
    nodes = largest(rows, "nodes")
    kept, anded, ored, lost = column_means(rows, *LINKS, "lost_by_or", nodes=nodes, length=LONGEST)
    return Verdict.of(
        lost > 0.01,
        ours=f"OR loses {lost:.0%} of the deliveries",
        reason=f"{nodes:,} nodes, l = 1024; links a publication: set {shown(kept)}, AND {shown(anded)}, OR "
        f"{shown(ored)}. Sets and AND lose nothing.",
    )


def _plot(title: str, y: str | tuple[str, ...], label: str, log_y: bool = False) -> Plot:
    return Plot(title, x="nodes", y=y, series="length", y_label=label, log_x=True, log_y=log_y)


RECEIVED = _plot("Publications received in 7,200 s", "received", "publications", log_y=True)
TRAFFIC = _plot("Application traffic of a node", "traffic", "bytes a second")
REQUESTS = ("subscription_requests", "subscription_requests_suppressed")
EXPERIMENTS = (
    Experiment(
        name="hope-delivery",
        title="Publications and subscriptions of HOPE by nodes and filter length",
        grid=grid(nodes=[16, 64, 256, 1024, 4096], documents=[3600]),
        quick=grid(nodes=[16, 64, 256], documents=[150]),
        run=run,
        answers={
            "001-fig4.12": answer(check_sent, _plot("Publications sent", "sent", "publications")),
            "001-fig4.13": answer(check_received, RECEIVED),
            "001-fig4.14": answer(
                check_coverage, _plot("Homes a publication is sent to", ("coverage", "exact"), "homes", True)
            ),
            "001-fig4.15": answer(
                check_most_coverage,
                _plot("Most nodes a publication comes to", ("reached_most", "coverage_most"), "nodes", True),
            ),
            "001-fig4.16": answer(
                check_subscription_requests,
                _plot("Subscription requests a node and second", REQUESTS, "requests a second", log_y=True),
            ),
            "001-fig4.17": answer(
                check_publication_requests,
                _plot("Publication requests a node and second", "publication_requests", "requests a second"),
            ),
            "001-fig4.19": answer(partial(check_traffic, paper=8_000), TRAFFIC),
            "001-fig4.20": answer(partial(check_traffic, paper=10_000), TRAFFIC),
            "001-fig4.23": answer(
                check_multicast, _plot("Links of a publication's tree", "multicast", "links", log_y=True)
            ),
            "001-fig4.24": answer(check_multicast_ratio, _plot("Links by aggregate", LINKS, "links", True)),
            "001-fig4.25": answer(
                check_false_positives,
                _plot("False positives", ("false_relative", "false_absolute"), "share", log_y=True),
            ),
            "001-fig5.2": answer(
                check_link_traffic, _plot("Traffic of a used link", "link_traffic", "bytes a second", True)
            ),
            "001-fig5.4": answer(check_received, RECEIVED),
            "beyond-hope-aggregate": answer(
                check_or_loses, _plot("Share of deliveries lost by OR", "lost_by_or", "share")
            ),
        },
        deviation="Documents are generated (the collection is gone); each node has one subscription of three "
        "steps on average and keeps it; every vertex is a node and every document is published equally "
        "often; documents go from publishers to homes, not along the tree; messages are counted on arrays "
        "that the tests compare with the nodes themselves.",
    ),
)
