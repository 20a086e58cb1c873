"""Placed queries to look at: what runs where as text, and as an SVG picture.

The picture has the sites around, neighbours in latency beside each other, each with the operators it runs;
between them what flows: a line is the wider the more it carries, its colour is the delay, and its arrow says
which way (`layout`). Where there are many sites, operators are counted. Sites at which nothing happens are
left out. What moves stands out, as do the sites that publish. The largest rates are written beside their
lines where there is room; the others, and all that is shortened, are told where the pointer rests.

Cost: every stream is followed to its readers once; a search for places for `MOST_RATES` labels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from distributary.plan.amounts import amount, with_unit
from distributary.plan.pictures.free_places import LabelBox, TakenSpace, text_box
from distributary.plan.pictures.page import (
    LegendEntry,
    PlanPanel,
    dot,
    explained,
    line,
    picture_page,
    rate_legend,
    text,
)
from distributary.plan.pictures.scales import DelayScale, RateScale
from distributary.plan.queries.cost import MeasuredPlacement
from distributary.plan.queries.goals import UNITS
from distributary.plan.queries.graph import CLIENT, RETIRED
from distributary.plan.queries.layout import Curve, PlacedLine, SiteBox, SiteLine, around
from distributary.plan.queries.placement import Placement
from distributary.plan.queries.relaxation import latency_space

MOST_LINES = 8
"""Operators listed at a site; more are counted."""
MOST_DETAILED = 30
"""Sites in a picture that lists operators; with more they are counted."""
MOST_PUBLISHED = 3
"""Sources named at the site that publishes them."""
MOST_RATES = 40
"""Links whose rate is written beside them, if there is room: those that carry most."""
MOST_LINKS = 100
"""Links in a picture that shows all alike; of more, those beyond `MOST_RATES` are faint and have no arrow."""
OPAQUE, FAINT = 0.75, 0.22
"""How much of what is behind a link it hides."""
RADIUS = 6.0
"""Pixels of a site's dot."""
RATE_SIZE = 10.0
"""The letters of these rates."""
ARROW = 0.7
"""Where on its link an arrow is."""
ALONG = (0.5, 0.42, 0.34, 0.26, 0.82, 0.18)
"""Where on its link a rate may stand, the best first."""
RATE, LOAD, LATENCY = UNITS["output rate"], UNITS["load"], UNITS["latency"]


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
class DrawnPlacement:
    """A placement to be drawn under a heading."""

    name: str
    """What the picture's element is called: `before` or `planned`."""
    heading: str
    placement: Placement
    moved: Collection[int] = ()
    """The operators that stand out."""


def placement_svg(placements: Sequence[DrawnPlacement], title: str) -> str:
    """A picture of placements over the same sites, all on the same scales."""
    flows = [flows_of(drawn.placement) for drawn in placements]
    rates = RateScale(max((rate for each in flows for rate in each.values()), default=0.0), RATE)
    latency = placements[0].placement.network.sites.latency
    delays = DelayScale.over((float(latency[a][b]) for each in flows for a, b in each), LATENCY)
    pictures = [
        _PlacementPicture(drawn, carried, rates, delays)
        for drawn, carried in zip(placements, flows, strict=True)
    ]
    panels = [picture.panel() for picture in pictures]
    return picture_page(title, panels, list(_legend(pictures, rates, delays)))


def _legend(
    pictures: Sequence[_PlacementPicture], rates: RateScale, delays: DelayScale
) -> Iterator[LegendEntry]:
    yield LegendEntry("a site that publishes sources", dot(6, 0, "ink", RADIUS), 12)
    yield LegendEntry("a site that runs operators, has clients, or sends on", dot(6, 0, "site", RADIUS), 12)
    if any(picture.drawn.moved for picture in pictures):
        yield LegendEntry("an operator that moves", text(0, 4, "name", "moved"), 34)
    if rates.most:
        yield from rate_legend(rates)
        arrow = Curve((0, 0), (15, 0), (30, 0)).arrow(ARROW, 2.0)
        yield LegendEntry("which way data flows", line("M0 0H30", "link", 2) + arrow.format("quiet"), 30)
    for step, told in enumerate(delays.samples()):
        meaning = f"a link's delay: {told}" if step == 0 else told
        yield LegendEntry(meaning, line("M0 0H30", f"delay{step}", 5), 30)
    short = sum(one.text != one.whole for picture in pictures for box in picture.boxes for one in box.lines)
    silent = sum(picture.without_rate for picture in pictures)
    if any(picture.faint for picture in pictures):
        yield LegendEntry(f"links beyond the {MOST_RATES} that carry most are faint, without their direction")
    if any(picture.counted for picture in pictures):
        yield LegendEntry("operators are counted, as there are many sites; the pointer at a site names them")
    if short:
        yield LegendEntry(f"texts that are too long are shortened: {short}; the pointer shows them whole")
    if silent:
        yield LegendEntry(f"links without their rate beside them: {silent}; the pointer shows it")


class _PlacementPicture:
    """One placement, drawn; what was left out on the way is counted."""

    def __init__(
        self,
        drawn: DrawnPlacement,
        flows: Mapping[tuple[int, int], float],
        rates: RateScale,
        delays: DelayScale,
    ) -> None:
        self.drawn = drawn
        self.placement = drawn.placement
        self.workload = drawn.placement.workload
        self.sites = drawn.placement.network.sites
        self.flows = flows
        self.rates = rates
        self.delays = delays
        self.operators = operators_at(drawn.placement)
        self.roots = {tree.root for tree in drawn.placement.network.trees}
        self.published: dict[int, list[str]] = defaultdict(list)
        for source in self.workload.sources:
            self.published[drawn.placement.network.trees[source.tree].root].append(source.name)
        busy = {*self.operators, *self.roots, *(site for link in flows for site in link)}
        self.counted = len(busy) > MOST_DETAILED
        self.boxes = [SiteBox(site, self._lines(site)) for site in sorted(busy)]
        self.without_rate = self.faint = 0

    def panel(self) -> PlanPanel:
        """Lines first, the widest last of them, so that dots and texts are on top."""
        layout = around(self.boxes, latency_space(self.sites, dimensions=2))
        space = TakenSpace()
        for x, y in layout.places.values():
            space.take(LabelBox(x - RADIUS - 2, y - RADIUS - 2, x + RADIUS + 2, y + RADIUS + 2))
        for words in layout.texts:
            space.take(text_box(words.x, words.y, words.line.text, words.anchor, bold=words.line.bold))
        links = sorted(self.flows.items(), key=lambda item: (-item[1], item[0]))
        curves = {link: layout.curve(*link) for link, _ in links}
        for curve in [curves[link] for link, _ in links[:MOST_RATES]]:
            x, y = curve.point(ARROW)
            space.take(LabelBox(x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS))
        rates = [self._rate(curves[link], rate, space) for link, rate in links[:MOST_RATES]]
        told = [rate for rate in rates if rate]
        main = len(links) if len(links) <= MOST_LINKS else MOST_RATES
        self.faint = len(links) - main
        drawn = [
            self._link(link, rate, curves[link], faint=place >= main)
            for place, (link, rate) in enumerate(links)
        ]
        self.without_rate = len(links) - len(told)
        return PlanPanel(
            self.drawn.name,
            self.drawn.heading,
            layout.width,
            layout.height,
            [
                *reversed(drawn),
                *(self._dot(box.site, layout.places[box.site]) for box in self.boxes),
                *told,
                *map(_written, layout.texts),
            ],
        )

    # What is written

    def _lines(self, site: int) -> list[SiteLine]:
        """A site's name, what it publishes and what it runs."""
        lines = [SiteLine.of(self.sites.name(site), "ink", bold=True)]
        names = self.published[site]
        if self.counted:
            lines += [SiteLine.of(f"publishes {_several(len(names), 'source')}", "quiet")] if names else []
            return lines + self._counts(site)
        if names:
            rest = f" and {len(names) - MOST_PUBLISHED} more" if len(names) > MOST_PUBLISHED else ""
            lines.append(SiteLine.of(f"publishes {', '.join(names[:MOST_PUBLISHED])}{rest}", "quiet"))
        own = self._own(site)
        for index in own[:MOST_LINES]:
            lines.append(SiteLine.of(self._told(index), "moved" if index in self.drawn.moved else "quiet"))
        if len(own) > MOST_LINES:
            lines.append(SiteLine.of(f"and {len(own) - MOST_LINES} more", "quiet"))
        return lines

    def _counts(self, site: int) -> list[SiteLine]:
        own = self._own(site)
        clients = sum(self.workload.operators[index].kind == CLIENT for index in own)
        moved = sum(index in self.drawn.moved for index in own)
        told = [
            _several(count, what)
            for count, what in ((len(own) - clients, "operator"), (clients, "client"))
            if count
        ]
        lines = [SiteLine.of(", ".join(told), "quiet")] if told else []
        return [*lines, SiteLine.of(f"{moved} of these move", "moved")] if moved else lines

    def _own(self, site: int) -> list[int]:
        """The operators at a site; what moved comes first, as it is what one looks for."""
        return sorted(self.operators.get(site, ()), key=lambda index: (index not in self.drawn.moved, index))

    def _told(self, index: int) -> str:
        one = self.workload.operators[index]
        return f"client of {one.name}" if one.kind == CLIENT else f"{one.name} ({one.kind})"

    # What is drawn

    def _dot(self, site: int, place: tuple[float, float]) -> str:
        load = float(self.placement.network.duties_of(site).load)
        load += sum(float(self.placement.load(index)) for index in self.operators.get(site, ()))
        note = [f"{self.sites.name(site)}: load {with_unit(load, LOAD)}"]
        if self.published[site]:
            note.append(f"publishes {', '.join(self.published[site])}")
        note += [self._told(index) for index in self._own(site)]
        return explained("\n".join(note), [dot(*place, "ink" if site in self.roots else "site", RADIUS)])

    def _link(self, link: tuple[int, int], rate: float, curve: Curve, *, faint: bool) -> str:
        delay = float(self.sites.latency[link[0]][link[1]])
        step, width = self.delays.colour(delay), self.rates.width(rate)
        names = " to ".join(map(self.sites.name, link))
        note = f"{names}: {with_unit(rate, RATE)}, {with_unit(delay, LATENCY)}"
        way = line(curve.way, f"delay{step}", width, f' stroke-opacity="{FAINT if faint else OPAQUE}"')
        return explained(note, [way] if faint else [way, curve.arrow(ARROW, width).format(f"head{step}")])

    def _rate(self, curve: Curve, rate: float, space: TakenSpace) -> str:
        """The rate of a link beside it; nothing where there is no room."""
        told = with_unit(rate, RATE)
        points = [curve.point(share) for share in ALONG]
        boxes = [text_box(x, y + 4, told, "middle", RATE_SIZE) for x, y in points]
        found = space.take_first(boxes)
        if found is None:
            return ""
        x, y = points[found]
        return text(x, y + 4, told, "halo", anchor="middle", size=RATE_SIZE)


def _written(words: PlacedLine) -> str:
    look = words.line
    drawn = text(words.x, words.y, look.text, f"{look.colour} halo", anchor=words.anchor, bold=look.bold)
    return drawn if look.text == look.whole else explained(look.whole, [drawn])


def _several(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
