"""What events cost under KBSP: Figures 4.13 to 4.15, 4.17, 4.19, 4.20, 4.23 to 4.25, 5.2 and 5.4 of 001.

A point is a cube of so many nodes, one to a vertex. Every node has one subscription and publishes; a row is
one filter length. Deliveries and messages are counted on arrays (`hope.model`), for the whole collection
of documents, each published equally often. What a neighbour is known to want is one filter, joined by AND;
beside it stand one joined by OR, as the thesis writes it, which loses deliveries, and ours, sets of filters.
"""

from __future__ import annotations

from functools import partial
from typing import Any

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
from distributary_lab import words
from distributary_lab.experiment import (
    Experiment,
    OpenParameter,
    Plot,
    Point,
    Row,
    Rows,
    Runs,
    Verdict,
    answer,
    grid,
)
from distributary_lab.hope import model
from distributary_lab.rows import column_means, labelled, largest, listed, mean, means, named, shown

LENGTHS = (0, 128, 1024)
RATE = 0.1
"""Publications, and subscriptions, a node and second (Table 4.1)."""
SECONDS = 7200
LONGEST = max(LENGTHS)
LINKS = ("multicast", "multicast_or", "multicast_set")

PAPER_NODES, PAPER_PEAK = 4096, 1024
PAPER_IN, PAPER_OUT, PAPER_MOST_COVERAGE = 8_000.0, 10_000.0, 200.0
"""The largest setup, and the one after which requests and traffic no longer rise."""
PAPER_SMALL = 256
"""The largest setup of those in which long filters are said to save most (Figure 5.2)."""
PAPER_COVERAGE, PAPER_SAVING, PAPER_MULTICAST, PAPER_FALSE = 0.04, 0.98, 100, 0.004
"""Figures 4.15, 4.17, 4.23 and 4.25."""
PAPER_RELATIVE = 0.1
"""Figure 4.25: false positives relative to what is received without filters are below."""


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
        told = float(model.subscription_messages(asked, dimension, suppress=True).mean())
        rows.append({"length": length, **_row(counted, workload, length, hops, told)})
        rows[-1]["false_relative"] = float(rows[-1]["false"]) / max(1e-9, float(rows[0]["coverage"]))
    return rows


def _row(
    counted: model.DeliveryCounts,
    workload: model.PublishedCollection,
    length: int,
    hops: float,
    told: float,
) -> Row:
    """One filter length; `told` are the messages of a subscription that is told no further than it must.

    What is not said to be by sets or by OR is by one filter a neighbour, joined by AND.
    """
    nodes = len(counted.handled)
    coverage = counted.covered.sum(axis=1)
    received = float(coverage.mean())
    false = received - float(counted.exact.sum(axis=1).mean())
    by_set, by_and, by_or = (float(counted.edges[kind].mean()) for kind in model.FilterAggregate)
    filter = 1 << max(1, length) - 1
    sizes = [_sizes_of(event, filter) for event in workload.events[:200]]
    passed, delivered = (float(np.mean(column)) for column in zip(*sizes, strict=True))
    advert = size_of(DirectMessage((0,), FilterAdvert(0, 0, (filter,), (), 1 << 63, False, 10**9)))
    publishing = RATE * ((hops + by_and) * passed + received * delivered)
    return {
        "received": nodes * RATE * SECONDS * received,
        "coverage": received,
        "coverage_most": int(coverage.max()),
        "publication_requests": RATE * (1 + by_and),
        "busiest": float(counted.handled.max() / max(1e-9, counted.handled.mean())),
        "multicast": by_and,
        "multicast_or": by_or,
        "multicast_set": by_set,
        "lost_by_or": counted.lost,
        "false": false,
        "false_absolute": false / max(1e-9, received),
        "exact": received - false,
        "traffic": publishing + RATE * told * advert,
        "link_traffic": nodes * RATE * by_and * passed / max(1, counted.used),
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


def by_nodes(rows: Rows, column: str, length: int) -> dict[int, float]:
    """A column at one filter length, by the number of nodes."""
    return means(rows, column, by="nodes", length=length)


def _at_lengths(values: dict[str, float]) -> str:
    return ", ".join(f"{shown(value)} at l = {length}" for length, value in values.items())


def _fall(rows: Rows, column: str) -> bool:
    """Whether longer filters leave less, at every number of nodes."""
    return all(words.falls(list(by_length(rows, column, n).values())) for n in labelled(rows, "nodes"))


def check_received(rows: Rows) -> Verdict:
    """Figure 4.13: linear in the nodes, and fewer with longer filters."""
    received = {length: by_nodes(rows, "received", length) for length in LENGTHS}
    powers = {f"l = {length}": words.exponent(each) for length, each in received.items()}
    nodes = largest(rows, "nodes")
    return Verdict.of(
        _fall(rows, "received") and all(words.linear(each) for each in received.values()),
        ours=f"{_at_lengths(by_length(rows, 'received', nodes))} in 7,200 s ({nodes:,} nodes); grow with the "
        f"power {named(powers, '{:.2f}')} of the nodes",
        reason="Longer filters leave fewer. With every node more there is one more to publish, and one more "
        "to receive what all publish: each has a subscription of its own, and its share of the documents "
        "does not fall. That is the square of the nodes; the thesis draws a line.",
    )


def check_fewer(rows: Rows) -> Verdict:
    """Figure 5.4: fewer with longer filters."""
    nodes = largest(rows, "nodes")
    return Verdict.of(
        _fall(rows, "received"),
        ours=f"{_at_lengths(by_length(rows, 'received', nodes))} in 7,200 s ({nodes:,} nodes)",
        reason="At every number of nodes fewer the longer the filter. A filter is a further condition, so "
        "more cannot be.",
    )


def check_coverage(rows: Rows) -> Verdict:
    """Figure 4.14: drastically fewer subscribers with long filters."""
    nodes = largest(rows, "nodes")
    homes = by_length(rows, "coverage", nodes)
    exact = mean(rows, "exact", nodes=nodes, length=0)
    return Verdict.of(
        _fall(rows, "coverage") and words.much_less(homes["1024"], homes["0"]),
        ours=f"{_at_lengths(homes)} ({nodes:,} nodes)",
        reason=f"Subscribers that a publication is sent to. {shown(exact)} of them want it.",
    )


def check_most_coverage(rows: Rows) -> Verdict:
    """Figure 4.15: how many subscribers a publication is received by at most."""
    if PAPER_NODES not in labelled(rows, "nodes"):
        return Verdict.not_run("no cube of 4,096 nodes was run")
    homes = by_length(rows, "coverage_most", PAPER_NODES)
    share = homes["0"] / PAPER_NODES
    exact = mean(rows, "exact", nodes=PAPER_NODES, length=0) / PAPER_NODES
    return Verdict.of(
        words.as_low_as(share, PAPER_COVERAGE) and words.much_less(homes["1024"], homes["0"]),
        ours=f"{_at_lengths(homes)} of {PAPER_NODES:,} nodes; {share:.0%} without filters",
        ratio=share / PAPER_COVERAGE,
        reason=f"Every node has one subscription to one of nine document types, and {exact:.0%} of the nodes "
        f"want the average publication. Keys of {fitting_dimension(PAPER_NODES)} bits are nearly full for "
        "documents of some thirty labels and pairs, and so rule out little.",
    )


def check_publication_requests(rows: Rows) -> Verdict:
    """Figure 4.17: rises to 1,024 nodes, eases a little, and long filters save nearly all."""
    requests = by_nodes(rows, "publication_requests", 0)
    if not {PAPER_PEAK, PAPER_NODES} <= set(requests):
        return Verdict.not_run("the cubes of 1,024 and 4,096 nodes were not run")
    none, _, longest = by_length(rows, "publication_requests", PAPER_PEAK).values()
    saving = 1 - longest / none
    risen = {nodes: found for nodes, found in requests.items() if nodes <= PAPER_PEAK}
    eases = words.slightly(requests[PAPER_PEAK], requests[PAPER_NODES])
    joined = by_length(rows, "multicast_or", PAPER_PEAK)
    exact, lost = column_means(rows, "exact", "lost_by_or", nodes=PAPER_PEAK, length=LONGEST)
    return Verdict.of(
        words.rises(risen) and eases and words.saves_as_given(saving, PAPER_SAVING),
        ours=f"-{saving:.0%} at {PAPER_PEAK:,} nodes",
        ratio=saving / PAPER_SAVING,
        reason=f"Without filters, by nodes: {listed(requests, shown)} a node and second, which "
        f"{'eases' if eases else 'does not ease'} at the end. What l = 1024 leaves goes to vertices where "
        f"somebody wants it ({shown(exact)} exact matches a publication). Joining filters by OR, as the "
        f"thesis does, saves {1 - joined['1024'] / max(1e-9, joined['0']):.0%} of the messages between "
        f"vertices, and loses {lost:.0%} of the deliveries.",
    )


def check_traffic(rows: Rows, paper: float) -> Verdict:
    """Figures 4.19 and 4.20: rises to 1,024 nodes and levels off, at the paper's bytes a second."""
    traffic = by_nodes(rows, "traffic", length=LONGEST)
    if not {PAPER_PEAK, PAPER_NODES} <= set(traffic):
        return Verdict.not_run("the cubes of 1,024 and 4,096 nodes were not run")
    kilobytes = listed(traffic, lambda sent: f"{sent / 1000:.1f}")
    levels_off = words.flat([traffic[PAPER_PEAK], traffic[PAPER_NODES]])
    return Verdict.of(
        levels_off and words.as_given(traffic[PAPER_NODES], paper),
        ours=f"{traffic[PAPER_NODES] / 1000:.1f} KB/s at l = 1024",
        ratio=traffic[PAPER_NODES] / paper,
        reason=f"By nodes, at l = 1024: {kilobytes} KB/s. Every node has one subscription, so a publication "
        "reaches more homes the more nodes there are; most of the traffic is deliveries that were asked for. "
        "In and out are the same on average, for nothing is lost.",
    )


def check_multicast(rows: Rows) -> Verdict:
    """Figure 4.23: rises with the nodes, and stays below 100 with long filters."""
    links = by_nodes(rows, "multicast", length=LONGEST)
    return Verdict.of(
        words.rises(links) and max(links.values()) < PAPER_MULTICAST,
        ours=f"{listed(links, shown)} links at {listed(list(links))} nodes",
        ratio=max(links.values()) / PAPER_MULTICAST,
        reason="Links between vertices that a publication takes at l = 1024, on average. Vertices that want "
        "it hold more than one subscription each, so its tree has fewer links than homes.",
    )


def check_multicast_ratio(rows: Rows) -> Verdict:
    """Figure 4.24: orders of magnitude fewer links with filters."""
    nodes = largest(rows, "nodes")
    none, some, longest = by_length(rows, "multicast", nodes).values()
    ored, lost = column_means(rows, "multicast_or", "lost_by_or", nodes=nodes, length=LONGEST)
    return Verdict.of(
        words.orders_of_magnitude(longest, none),
        ours=f"{longest / none:.2f} of l = 0 at l = 1024, {some / none:.2f} at l = 128",
        reason=f"At {nodes:,} nodes the tree of l = 0 has {shown(none)} links and that of l = 1024 "
        f"{shown(longest)}, with one filter a neighbour, joined soundly. Joined by OR, as the thesis has it, "
        f"{shown(ored)} links are left, and {lost:.0%} of the deliveries are lost.",
    )


def check_false_positives(rows: Rows) -> Verdict:
    """Figure 4.25: below a tenth with any filter, and as low as 0.004 with long ones."""
    nodes = largest(rows, "nodes")
    _, some, longest = by_length(rows, "false_relative", nodes).values()
    most = max(max(by_nodes(rows, "false_relative", length).values()) for length in LENGTHS if length)
    return Verdict.of(
        most < PAPER_RELATIVE and words.as_low_as(longest, PAPER_FALSE),
        ours=f"{longest:.4f} at l = 1024, {some:.3f} at l = 128; at most {most:.3f}",
        ratio=longest / PAPER_FALSE,
        reason=f"Relative to what is received without filters, at {nodes:,} nodes. Left at l = 1024 are "
        "documents that have a twig's labels and pairs, but not in one place.",
    )


def check_link_traffic(rows: Rows) -> Verdict:
    """Figure 5.2: tapers, and long filters reduce it largely in small networks."""
    short, long = LENGTHS[1:]
    traffic = {length: by_nodes(rows, "link_traffic", length) for length in (short, long)}
    texts = named(traffic, lambda values: listed(values, shown), separator="; l = ")
    links = mean(rows, "links", nodes=largest(rows, "nodes"), length=LONGEST)
    small = [nodes for nodes in traffic[short] if nodes <= PAPER_SMALL]
    return Verdict.of(
        all(words.tapers(each) for each in traffic.values())
        and all(words.much_less(traffic[long][nodes], traffic[short][nodes]) for nodes in small),
        ours=f"{listed(traffic[long], shown)} B/s a used link at l = 1024",
        reason=f"Bytes a second and used link, by nodes; l = {texts}. The publications of all nodes share "
        f"{links:,.0f} links between vertices, for there are not more kinds of structure: what nodes are "
        "added publish, and the links do not become more in proportion.",
    )


def check_or_loses(rows: Rows) -> Verdict:
    """Ours: what the aggregate of section 4.5 loses, and what sets in its place save."""
    nodes = largest(rows, "nodes")
    anded, ored, kept, lost = column_means(rows, *LINKS, "lost_by_or", nodes=nodes, length=LONGEST)
    return Verdict.of(
        not words.equal(1 - lost, 1) and words.no_worse(kept, anded),
        ours=f"OR loses {lost:.0%} of the deliveries",
        reason=f"{nodes:,} nodes, l = 1024; links a publication: set {shown(kept)}, AND {shown(anded)}, OR "
        f"{shown(ored)}. Sets and AND lose nothing.",
    )


def _plot(title: str, y: str | tuple[str, ...], label: str, log_y: bool = False, **look: Any) -> Plot:
    return Plot(title, "nodes", y, "length", y_label=label, log_x=True, log_y=log_y, **look)


def _traffic(paper: float) -> Plot:
    bytes_a_second = {"the paper's at l = 1024": paper}
    return _plot("Application traffic of a node", "traffic", "bytes a second", reference=bytes_a_second)


RECEIVED = _plot("Publications received in 7,200 s", "received", "publications", log_y=True)
EXPERIMENTS = (
    Experiment(
        name="hope-delivery",
        title="Publications and subscriptions of HOPE by nodes and filter length",
        grid=grid(nodes=[16, 64, 256, 1024, 4096], documents=[3600]),
        quick=grid(nodes=[16, 64, 256], documents=[150]),
        run=run,
        answers={
            "001-fig4.13": answer(check_received, RECEIVED),
            "001-fig4.14": answer(
                check_coverage, _plot("Homes a publication is sent to", ("coverage", "exact"), "homes", True)
            ),
            "001-fig4.15": answer(
                check_most_coverage,
                _plot(
                    "Most subscribers that receive a publication",
                    "coverage_most",
                    "nodes",
                    True,
                    reference={"the paper's at 4,096 nodes, l = 0": PAPER_MOST_COVERAGE},
                ),
            ),
            "001-fig4.17": answer(
                check_publication_requests,
                _plot("Publication requests a node and second", "publication_requests", "requests a second"),
            ),
            "001-fig4.19": answer(partial(check_traffic, paper=PAPER_IN), _traffic(PAPER_IN)),
            "001-fig4.20": answer(partial(check_traffic, paper=PAPER_OUT), _traffic(PAPER_OUT)),
            "001-fig4.23": answer(
                check_multicast,
                _plot(
                    "Links of a publication's tree",
                    "multicast",
                    "links",
                    True,
                    reference={"the paper's bound at l = 1024": PAPER_MULTICAST},
                ),
            ),
            "001-fig4.24": answer(check_multicast_ratio, _plot("Links by aggregate", LINKS, "links", True)),
            "001-fig4.25": answer(
                check_false_positives,
                _plot(
                    "False positives",
                    ("false_relative", "false_absolute"),
                    "share",
                    True,
                    reference={"the paper's bound": PAPER_RELATIVE, "its least, l = 1024": PAPER_FALSE},
                ),
            ),
            "001-fig5.2": answer(
                check_link_traffic, _plot("Traffic of a used link", "link_traffic", "bytes a second", True)
            ),
            "001-fig5.4": answer(check_fewer, RECEIVED),
            "beyond-hope-aggregate": answer(
                check_or_loses, _plot("Share of deliveries lost by OR", "lost_by_or", "share")
            ),
        },
        measured=(
            *("received", "coverage", "coverage_most", "publication_requests", "multicast", "multicast_or"),
            *("lost_by_or", "false_relative", "exact", "traffic", "link_traffic", "links"),
        ),
        our_measured=("multicast_set",),
        labels=("length",),
        runs=Runs.MODEL,
        open_parameters=(
            OpenParameter(
                "subscriptions of a node",
                "one, for as long as it runs",
                "the thesis gives a rate of 0.1 a second and no lifetime; as many that stand as nodes",
                after=False,
            ),
            OpenParameter(
                "bits of a key", "log2 of the nodes", "every vertex is a node, as in section 4.3", after=False
            ),
        ),
        deviation="Documents are generated (the collection is gone); each node has one subscription of three "
        "steps on average and keeps it; every vertex is a node and every document is published equally "
        "often; documents go from publishers to homes, not along the tree; messages are counted on arrays "
        "that the tests compare with the nodes themselves.",
    ),
)
