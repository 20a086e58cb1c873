"""A tree to look at: as text and as an SVG picture.

In a picture a site is as far from the root as data takes to it, and a link as wide as the rate that it
carries, where rates are known; the legend says so, with both scales. A tree of up to `MOST_ROWS` sites grows
to the right, a row a site; larger ones grow from the middle in rings, so that a thousand sites are still seen
at once (`layout`). Links that are new in the plan and sites whose cost is the system's own stand out. What is
shortened or left out is counted in the legend, and told where the pointer rests.

Cost: linear in the sites, with a search for places in rings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from distributary.plan.amounts import shown, with_unit
from distributary.plan.goal.expression import Number
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
from distributary.plan.pictures.scales import RateScale
from distributary.plan.trees.layout import Label, SiteText, TreeLayout, delays_of, in_rings, in_rows
from distributary.plan.trees.tree import Sites, Tree
from distributary.plan.trees.units import TreeUnits

MOST_ROWS = 150
"""Sites in a picture that grows to the right."""


def tree_text(tree: Tree, sites: Sites, costs: Sequence[Number | None]) -> str:
    """Every site under its parent, with its cost.

    >>> print(tree_text(Tree((-1, 0, 0, 1)), Sites(latency=[[0] * 4] * 4, names="abcd"), [None, 5, 9, 7]))
    a
    ├── b  5
    │   └── d  7
    └── c  9
    """
    lines = []
    waiting: list[tuple[int, str, str]] = [(tree.root, "", "")]
    while waiting:
        site, before, below = waiting.pop()
        lines.append(f"{before}{sites.name(site)}  {shown(costs[site])}".rstrip())
        children = tree.children[site]
        for child in reversed(children):
            last = child == children[-1]
            branch, rest = ("└── ", "    ") if last else ("├── ", "│   ")
            waiting.append((child, below + branch, below + rest))
    return "\n".join(lines)


@dataclass(frozen=True)
class DrawnTree:
    """A tree to be drawn under a heading."""

    name: str
    """What the picture's element is called: `before` or `planned`."""
    heading: str
    tree: Tree
    costs: Sequence[Number | None]
    new: Collection[int] = ()
    """The sites whose link is new."""
    worst: Number | None = None
    """The cost of those sites that stand out."""


@dataclass(frozen=True)
class TreePictureUnits:
    """What the numbers of a picture are in."""

    given: TreeUnits
    cost: str | None
    """Of the sites' costs; None where the goal adds values of different units."""


def rates_of(tree: Tree, sites: Sites) -> list[float]:
    """The rate on the link to each site: of all streams that it or a site below it wants; zeros if not known.

    >>> sites = Sites(latency=[[0] * 3] * 3, interest=[0, 1, 3], rates=[10, 5])
    >>> rates_of(Tree((-1, 0, 1)), sites)
    [0.0, 15.0, 15.0]
    """
    if not sites.interest:
        return [0.0] * len(tree.parents)
    wanted = list(sites.interest)
    for site in reversed(tree.order[1:]):
        wanted[tree.parents[site]] |= wanted[site]
    return [0.0 if site == tree.root else float(sites.rate_of(each)) for site, each in enumerate(wanted)]


def tree_svg(sites: Sites, trees: Sequence[DrawnTree], title: str, units: TreePictureUnits) -> str:
    """A picture of trees over the same sites, on the same scales; in rings, each has its own of delays."""
    delays = [delays_of(drawn.tree, sites) for drawn in trees]
    unit = units.given.latency
    if not any(map(any, delays)):
        delays, unit = [[float(depth) for depth in drawn.tree.depth] for drawn in trees], ""
    rates = [rates_of(drawn.tree, sites) for drawn in trees]
    scale = RateScale(max(map(max, rates)), units.given.rate)
    places = in_rows if sites.count <= MOST_ROWS else in_rings
    furthest = [max(away) or 1.0 for away in delays]
    if places is in_rows:  # rings have the room for a scale of their own, and need it
        furthest = [max(furthest)] * len(trees)
    pictures = [
        _TreePicture(
            drawn,
            sites,
            places(drawn.tree, _texts(drawn, sites, units.cost), away, most, unit),
            rate,
            scale,
            units,
        )
        for drawn, away, most, rate in zip(trees, delays, furthest, rates, strict=True)
    ]
    return picture_page(
        title,
        [picture.panel() for picture in pictures],
        [
            *_legend(trees, units, "from the left" if places is in_rows else "from the middle", unit),
            *rate_legend(scale),
            *_notes(pictures),
        ],
    )


def _texts(drawn: DrawnTree, sites: Sites, unit: str | None) -> list[SiteText]:
    return [SiteText(sites.name(site), with_unit(cost, unit)) for site, cost in enumerate(drawn.costs)]


def _legend(
    trees: Sequence[DrawnTree], units: TreePictureUnits, where: str, delay_unit: str
) -> Iterator[LegendEntry]:
    """What everything means but the widths of links."""
    yield LegendEntry("the root", dot(4, 0, "ink"), 8)
    yield LegendEntry("a site", dot(4, 0, "site"), 8)
    if any(drawn.worst is not None for drawn in trees):
        yield LegendEntry("a site whose cost is that of the whole tree", dot(4, 0, "worst"), 8)
    if any(drawn.new for drawn in trees):
        yield LegendEntry("a link that is new", line("M0 0H30", "new", 2), 30)
    if delay_unit:
        yield LegendEntry(f"distance {where}: delay from the root over the links, in {delay_unit}")
    else:
        yield LegendEntry(f"distance {where}: links from the root, as no latencies are known")
    if any(cost is not None for drawn in trees for cost in drawn.costs):
        measured = f", in {units.cost}" if units.cost else " in the goal, which names no unit"
        yield LegendEntry(f"number after a name: the site's cost{measured}")


def _notes(pictures: Sequence[_TreePicture]) -> Iterator[LegendEntry]:
    """How many labels are not whole."""
    short = sum(picture.shortened() for picture in pictures)
    lacking = sum(label is None for picture in pictures for label in picture.layout.labels)
    if short:
        yield LegendEntry(f"names that are too long are shortened: {short}; the pointer shows them whole")
    if lacking:
        yield LegendEntry(
            f"sites without a label, for lack of room: {lacking}; the pointer shows their names"
        )


@dataclass(frozen=True)
class _TreePicture:
    drawn: DrawnTree
    sites: Sites
    layout: TreeLayout
    rates: Sequence[float]
    scale: RateScale
    units: TreePictureUnits

    def panel(self) -> PlanPanel:
        """Lines first, so that dots and texts are on top of them; new links on top of the others."""
        links = sorted(self.drawn.tree.order[1:], key=lambda site: site in self.drawn.new)
        return PlanPanel(
            self.drawn.name,
            self.drawn.heading,
            self.layout.width,
            self.layout.height,
            [
                *(line(way, "grid") for way, _ in self.layout.scale),
                *(line(way, "grid", 1, ' stroke-dasharray="1 4"') for way in self.layout.leaders),
                *map(self._link, links),
                *(_written(label, "quiet halo") for _, label in self.layout.scale if label is not None),
                *map(self._site, self.drawn.tree.order),
            ],
        )

    def shortened(self) -> int:
        """How many names are."""
        return sum(
            label is not None and not label.text.startswith(self.sites.name(site))
            for site, label in enumerate(self.layout.labels)
        )

    def _link(self, site: int) -> str:
        parent = self.drawn.tree.parents[site]
        new = site in self.drawn.new
        latency = with_unit(self.sites.latency[parent][site], self.units.given.latency)
        note = f"{self.sites.name(parent)} to {self.sites.name(site)}: {latency}"
        if self.scale.most:
            note += f", {with_unit(self.rates[site], self.scale.unit)}"
        width = self.scale.width(self.rates[site])
        way = self.layout.link(site)
        return explained(note, [line(way, "new" if new else "link", max(width, 2.0) if new else width)])

    def _site(self, site: int) -> str:
        drawn, label = self.drawn, self.layout.labels[site]
        stands_out = drawn.worst is not None and drawn.costs[site] == drawn.worst
        colour = "ink" if site == drawn.tree.root else "worst" if stands_out else "site"
        told = SiteText(self.sites.name(site), with_unit(drawn.costs[site], self.units.cost))
        elements = [dot(*self.layout.places[site], colour)]
        if label is not None:
            elements.append(_written(label, f"{colour} halo"))
        return explained(f"{told.name}: {told.cost}" if told.cost else told.name, elements)


def _written(label: Label, classes: str) -> str:
    return text(
        label.x, label.y, label.text, classes, anchor=label.anchor, size=label.size, turned=label.turned
    )
