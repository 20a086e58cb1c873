"""Placed queries to look at: what runs where as text, and as an SVG picture.

The picture has the sites around, neighbours in latency beside each other, each with the operators it runs;
between them what flows, the wider the more. Sites at which nothing happens are left out. What has moved
stands out, as do the sites that publish.

Cost: every stream is followed to its readers once.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from distributary.plan.queries.cost import MeasuredPlacement
from distributary.plan.queries.graph import CLIENT, RETIRED
from distributary.plan.queries.placement import Placement
from distributary.plan.queries.relaxation import latency_space
from distributary.plan.svg import svg_page
from distributary.plan.trees.drawing import shown

LINE, CHARACTER, MARGIN, HEAD, GAP = 15, 6.6, 24, 56, 18
"""In pixels: a line of text, a letter, around the picture, its title, between two sites."""
MOST_LINES = 8
"""Operators listed at a site in the picture; more are counted."""
WIDEST = 9.0
"""Pixels of the link that carries most."""
FLOW, SITE, PUBLISHER, MOVED, QUIET = "#7a9cc6", "#369", "#222", "#c25a00", "#555"


def amount(value: float) -> str:
    """A cost, a rate or a load as people read it.

    >>> amount(12.34567), amount(96240.2)
    ('12.35', '96,240')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else shown(value)


def flows_of(placement: Placement) -> dict[tuple[int, int], float]:
    """The bytes a second on every link that carries any."""
    found: dict[tuple[int, int], float] = defaultdict(float)
    for (_, link), rate in MeasuredPlacement(placement).carried.items():
        found[link] += float(rate)
    return dict(found)


def spread_streams(placement: Placement) -> dict[int, Mapping[int, int]]:
    """The operators whose streams reach some site by way of another, with the sites that send them on."""
    found = {}
    for operator, host in enumerate(placement.hosts):
        parents = placement.spread(operator)
        if any(parent != host for parent in parents.values()):
            found[operator] = parents
    return found


def operators_at(placement: Placement) -> dict[int, list[int]]:
    """The operators and clients at every site that has any; what replication left without work is gone."""
    found: dict[int, list[int]] = defaultdict(list)
    for index, host in enumerate(placement.hosts):
        if placement.workload.operators[index].kind != RETIRED:
            found[host].append(index)
    return dict(sorted(found.items()))


def placement_text(placement: Placement) -> str:
    """Every site with what it runs and what that reads, and the trees by which operators' streams spread.

    >>> from distributary.plan.queries.generator import at_clients, feed_workload, random_network
    >>> network = random_network(sites=4, trees=1, seed=1)
    >>> print(placement_text(at_clients(feed_workload(network, 1, seed=1, operators=1), network)))
    1  load 0.1
      q0.0  copy of feed508
      q0.client  gets q0.0
    """
    workload, names = placement.workload, placement.network.sites.name
    streams = [source.name for source in workload.sources] + [one.name for one in workload.operators]
    lines = []
    for site, operators in operators_at(placement).items():
        besides = float(placement.network.duties_of(site).load)
        load = besides + sum(float(placement.load(index)) for index in operators)
        lines.append(f"{names(site)}  load {amount(load)}{f', {amount(besides)} besides' if besides else ''}")
        for index in operators:
            one = workload.operators[index]
            reads = ", ".join(streams[stream] for stream in one.inputs)
            lines.append(f"  {one.name}  {'gets' if one.kind == CLIENT else f'{one.kind} of'} {reads}")
    for operator, parents in spread_streams(placement).items():
        ways = ", ".join(f"{names(site)} from {names(parent)}" for site, parent in parents.items())
        lines.append(f"{workload.operators[operator].name} spreads by a tree: {ways}")
    return "\n".join(lines)


@dataclass(frozen=True)
class _Box:
    """A site in the picture: its lines of text, each with its colour."""

    site: int
    lines: Sequence[tuple[str, str]]

    @property
    def height(self) -> float:
        return LINE * len(self.lines) + GAP


def placement_svg(placement: Placement, title: str, moved: Collection[int] = ()) -> str:
    """A picture; `moved` are the operators to stand out."""
    flows = flows_of(placement)
    boxes = _boxes(placement, moved, {site for link in flows for site in link})
    left, right = boxes[: len(boxes) // 2], boxes[len(boxes) // 2 :][::-1]
    letters = [max((len(text) for box in side for text, _ in box.lines), default=0) for side in (left, right)]
    tall = max(sum(box.height for box in side) for side in (left, right))
    radius = max(150.0, min(tall / 2, 420.0))
    wide = [CHARACTER * count + 16 for count in letters]
    needed = wide[0] + wide[1] + 2 * radius
    width = max(needed, 9.4 * len(title)) + 2 * MARGIN
    middle, height = (width - needed) / 2 + wide[0] + radius, HEAD + tall + MARGIN
    places: dict[int, tuple[float, float]] = {}
    texts: list[str] = []
    for side, row in ((-1, left), (1, right)):
        below = HEAD + (tall - sum(box.height for box in row)) / 2
        for box in row:
            y = below + box.height / 2
            x = middle + side * radius * math.sqrt(
                max(0.15, 1 - ((y - HEAD - tall / 2) / (tall / 2 + 1)) ** 2)
            )
            places[box.site] = x, y
            texts += _written(box, x + 12 * side, below + LINE, "end" if side < 0 else "start")
            below += box.height
    roots = {tree.root for tree in placement.network.trees}
    dots = [
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="{PUBLISHER if site in roots else SITE}"/>'
        for site, (x, y) in places.items()
    ]
    return svg_page(
        width,
        height,
        MARGIN,
        title,
        [
            f'<text x="{MARGIN}" y="42" fill="{QUIET}">black: sites that publish; orange: operators that '
            "moved; lines: what flows, the wider the more</text>",
            *_links(flows, places, (middle, HEAD + tall / 2)),
            *dots,
            *texts,
        ],
    )


def _boxes(placement: Placement, moved: Collection[int], busy: Collection[int]) -> list[_Box]:
    """The sites at which anything happens, in the order of their direction in the space of latencies."""
    workload, sites = placement.workload, placement.network.sites
    points = latency_space(sites, dimensions=2)
    local = operators_at(placement)
    there = sorted(set(local) | set(busy) | {tree.root for tree in placement.network.trees})
    published: dict[int, list[str]] = defaultdict(list)
    for source in workload.sources:
        published[placement.network.trees[source.tree].root].append(source.name)
    found = []
    for site in there:
        lines = [(sites.name(site), PUBLISHER)]
        if published[site]:
            names = published[site]
            rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
            lines.append((f"publishes {', '.join(names[:3])}{rest}", QUIET))
        # What moved comes first: it is what one looks for.
        own = sorted(local.get(site, ()), key=lambda index: (index not in moved, index))
        for index in own[:MOST_LINES]:
            one = workload.operators[index]
            text = f"client of {one.name}" if one.kind == CLIENT else f"{one.name} ({one.kind})"
            lines.append((text, MOVED if index in moved else QUIET))
        if len(own) > MOST_LINES:
            lines.append((f"and {len(own) - MOST_LINES} more", QUIET))
        found.append(_Box(site, lines))
    return sorted(found, key=lambda box: math.atan2(float(points[box.site][0]), float(points[box.site][1])))


def _written(box: _Box, x: float, y: float, anchor: str) -> list[str]:
    weights = ["bold"] + ["normal"] * (len(box.lines) - 1)
    return [
        f'<text x="{x:.1f}" y="{y + LINE * row:.1f}" text-anchor="{anchor}" fill="{colour}" '
        f'font-weight="{weights[row]}">{escape(text)}</text>'
        for row, (text, colour) in enumerate(box.lines)
    ]


def _links(
    flows: Mapping[tuple[int, int], float],
    places: Mapping[int, tuple[float, float]],
    middle: tuple[float, float],
) -> list[str]:
    """Curves that bend towards the middle; each has a note with its rate."""
    most = max(flows.values(), default=1.0) or 1.0
    lines = []
    for (start, end), rate in sorted(flows.items(), key=lambda item: -item[1]):
        (x, y), (a, b) = places[start], places[end]
        bend = ((x + a) / 2 + middle[0]) / 2, ((y + b) / 2 + middle[1]) / 2
        width = max(0.8, WIDEST * math.sqrt(rate / most))
        lines.append(
            f'<path d="M{x:.1f},{y:.1f} Q{bend[0]:.1f},{bend[1]:.1f} {a:.1f},{b:.1f}" fill="none" '
            f'stroke="{FLOW}" stroke-opacity="0.6" stroke-width="{width:.1f}">'
            f"<title>{amount(rate)} B/s</title></path>"
        )
    return lines
