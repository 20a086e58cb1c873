"""Where everything of a tree goes in its picture: in rows, or for many sites in rings.

Rules:

- A site is as far from the root's place as data takes from the root to it; where no latencies are known, as
  far as it has links.
- In rows every site has a row of its own below its parent's, as in the text. Lines come from the left and
  from above, so nothing ever lies to the right of a site but its label.
- In rings the root is in the middle and every leaf has its share of the circle. Labels of leaves are outside
  of all rings, each on the ray of its leaf. Those of inner sites search for a free place beside them, with
  the largest subtrees first, and are shortened or left out if there is none.

Cost: linear in the sites, but for the search, which tries at most `len(AROUND) * 2` places an inner site.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from distributary.plan.pictures.free_places import LabelBox, TakenSpace, text_box
from distributary.plan.pictures.lettering import SIZE, shortened, text_width
from distributary.plan.pictures.scales import ticks
from distributary.plan.trees.tree import Sites, Tree

ROW, SPAN, MARGIN, HEAD = 18.0, 560.0, 14.0, 24.0
"""In pixels: a site's row, the greatest delay, around the picture, and the numbers of the scale above it."""

SCALE_SIZE = 10.0
"""The letters of the scale."""

LONGEST_NAME, SHORT_NAME = 220.0, 70.0
"""Pixels of a name, and of one that found no place."""

OUTER_SIZE, PITCH, CROWD, BEYOND = 11.0, 13.5, 34.0, 14.0
"""In rings: the letters outside, pixels between two leaves there, the outermost ring for every root of the
sites at least, and from there to the labels."""

LETTERS_MIDDLE = 0.34 * OUTER_SIZE
"""From the line of a text up to the middle of its letters."""

DOT = 5.0
"""Around a site's middle, pixels where no label may be."""

AROUND = (
    (8.0, 4.0, "start"),
    (-8.0, 4.0, "end"),
    (8.0, -8.0, "start"),
    (8.0, 16.0, "start"),
    (-8.0, -8.0, "end"),
    (-8.0, 16.0, "end"),
    (0.0, -10.0, "middle"),
    (0.0, 18.0, "middle"),
    (14.0, -20.0, "start"),
    (14.0, 28.0, "start"),
    (-14.0, -20.0, "end"),
    (-14.0, 28.0, "end"),
)
"""Where a label may stand, seen from its site, the best first."""


@dataclass(frozen=True)
class SiteText:
    """What is written at a site: its name, and its cost if it has one."""

    name: str
    cost: str

    def within(self, width: float, size: float = SIZE) -> str:
        """Both, with the name shortened to so many pixels."""
        return f"{shortened(self.name, width, size)}  {self.cost}".strip()


@dataclass(frozen=True)
class Label:
    """A text, where its line begins or ends, and how it is turned."""

    text: str
    x: float
    y: float
    anchor: str = "start"
    size: float = SIZE
    turned: float = 0.0


@dataclass(frozen=True)
class TreeLayout:
    """Where everything goes; `labels` has None for sites whose label found no place."""

    width: float
    height: float
    places: Sequence[tuple[float, float]]
    labels: Sequence[Label | None]
    link: Callable[[int], str]
    """The way of the link from a site's parent."""
    scale: Sequence[tuple[str, Label | None]]
    """Lines at round delays, and the number of each."""
    leaders: Sequence[str] = ()
    """Lines from sites to labels that are far away."""


def delays_of(tree: Tree, sites: Sites) -> list[float]:
    """How long data takes from the root to each site, without what sites do in between.

    >>> delays_of(Tree((-1, 0, 1)), Sites(latency=[[0, 5, 9], [5, 0, 3], [9, 3, 0]]))
    [0.0, 5.0, 8.0]
    """
    delays = [0.0] * len(tree.parents)
    for site in tree.order[1:]:
        parent = tree.parents[site]
        delays[site] = delays[parent] + max(float(sites.latency[parent][site]), 0.0)
    return delays


def in_rows(
    tree: Tree, texts: Sequence[SiteText], away: Sequence[float], most: float, unit: str
) -> TreeLayout:
    """The root at the left; `away` is how far each site is from it, `most` how far any in the picture is."""
    row = {site: number for number, site in enumerate(tree.order)}
    places = [
        (MARGIN + SPAN * away[site] / most, HEAD + ROW * (row[site] + 0.5))
        for site in range(len(tree.parents))
    ]
    labels = [
        Label(text.within(LONGEST_NAME), x + 9, y + 4) for text, (x, y) in zip(texts, places, strict=True)
    ]
    bottom = HEAD + ROW * len(places)
    scale = _verticals(most, unit, bottom)

    def link(site: int) -> str:
        (x, y), (up_x, up_y) = places[site], places[tree.parents[site]]
        return f"M{up_x:.1f} {up_y:.1f}V{y:.1f}H{x:.1f}"

    right = max(label.x + text_width(label.text) for label in labels)
    numbers = [label.x + text_width(label.text, label.size) for _, label in scale if label is not None]
    return TreeLayout(max(right, MARGIN + SPAN, *numbers), bottom + 6, places, labels, link, scale)


def _verticals(most: float, unit: str, bottom: float) -> list[tuple[str, Label | None]]:
    """The lines of round delays, with their numbers above where these are free."""
    found: list[tuple[str, Label | None]] = []
    space = TakenSpace()
    for delay in ticks(most) if unit else ():
        x, told = MARGIN + SPAN * delay / most, f"{delay:g} {unit}"
        anchor = "middle" if delay else "start"
        free = space.take_first([text_box(x, HEAD - 9, told, anchor, SCALE_SIZE)]) is not None
        label = Label(told, x, HEAD - 9, anchor, SCALE_SIZE) if free else None
        found.append((f"M{x:.1f} {HEAD - 4:.1f}V{bottom:.1f}", label))
    return found


def in_rings(
    tree: Tree, texts: Sequence[SiteText], away: Sequence[float], most: float, unit: str
) -> TreeLayout:
    """The root in the middle; arguments as for rows."""
    angles, leaves = _angles(tree)
    outermost = max(CROWD * math.sqrt(len(texts)), PITCH * leaves / (2 * math.pi) - BEYOND)
    outside = [text.within(LONGEST_NAME, OUTER_SIZE) for text in texts]
    room = max(
        text_width(text, OUTER_SIZE)
        for text, children in zip(outside, tree.children, strict=True)
        if not children
    )
    middle = outermost + BEYOND + room + MARGIN

    def at(radius: float, angle: float) -> tuple[float, float]:
        return middle + radius * math.cos(angle), middle + radius * math.sin(angle)

    radii = [outermost * each / most for each in away]
    places = [at(radius, angle) for radius, angle in zip(radii, angles, strict=True)]

    def link(site: int) -> str:
        """Along the parent's ring to the site's ray, and then along that."""
        parent = tree.parents[site]
        (up_x, up_y), (x, y) = places[parent], places[site]
        radius, turn = radii[parent], int(angles[site] > angles[parent])
        corner = at(radius, angles[site])
        arc = f"A{radius:.1f} {radius:.1f} 0 0 {turn} {corner[0]:.1f} {corner[1]:.1f}" if radius else ""
        return f"M{up_x:.1f} {up_y:.1f}{arc}L{x:.1f} {y:.1f}"

    space = TakenSpace()
    for x, y in places:
        space.take(LabelBox(x - DOT, y - DOT, x + DOT, y + DOT))
    scale = _circles(middle, outermost, most, unit, space)
    labels: list[Label | None] = [None] * len(places)
    leaders = []
    for site in sorted(tree.order, key=lambda site: (-tree.size[site], tree.position[site])):
        if not tree.children[site]:
            labels[site] = _outside(outside[site], at(outermost + BEYOND, angles[site]), angles[site])
            begin, end = at(radii[site] + DOT, angles[site]), at(outermost + BEYOND - 3, angles[site])
            leaders.append(f"M{begin[0]:.1f} {begin[1]:.1f}L{end[0]:.1f} {end[1]:.1f}")
        else:
            labels[site] = _beside(texts[site], places[site], space, (middle, outermost))
    return TreeLayout(2 * middle, 2 * middle, places, labels, link, scale, leaders)


def _angles(tree: Tree) -> tuple[list[float], int]:
    """The ray of every site: leaves share the circle, a parent is in the middle of its children."""
    across = [0.0] * len(tree.parents)
    leaves = [site for site in tree.order if not tree.children[site]]
    for place, leaf in enumerate(leaves):
        across[leaf] = place
    for site in reversed(tree.order):
        if tree.children[site]:
            of_children = [across[child] for child in tree.children[site]]
            across[site] = (min(of_children) + max(of_children)) / 2
    return [2 * math.pi * each / len(leaves) for each in across], len(leaves)


def _circles(
    middle: float, outermost: float, most: float, unit: str, space: TakenSpace
) -> list[tuple[str, Label | None]]:
    """The rings of round delays, with their numbers where these are free, above the root or below it."""
    found: list[tuple[str, Label | None]] = []
    for delay in ticks(most)[1:] if unit else ():
        radius = outermost * delay / most
        told = f"{delay:g} {unit}"
        above, below = middle - radius + 4, middle + radius + 4
        place = space.take_first(text_box(middle, y, told, "middle", SCALE_SIZE) for y in (above, below))
        label = None if place is None else Label(told, middle, (above, below)[place], "middle", SCALE_SIZE)
        way = (
            f"M{middle - radius:.1f} {middle:.1f}a{radius:.1f} {radius:.1f} 0 1 0 {2 * radius:.1f} 0"
            f"a{radius:.1f} {radius:.1f} 0 1 0 {-2 * radius:.1f} 0"
        )
        found.append((way, label))
    return found


def _outside(text: str, place: tuple[float, float], angle: float) -> Label:
    """The label of a leaf; at the left it is turned round, so that none stands on its head."""
    left = math.cos(angle) < 0
    degrees = math.degrees(angle) + (180 if left else 0)
    # The line of a text is below its middle, whichever way it is turned.
    down = (
        LETTERS_MIDDLE * math.sin(-math.radians(degrees)),
        LETTERS_MIDDLE * math.cos(math.radians(degrees)),
    )
    x, y = place[0] + down[0], place[1] + down[1]
    return Label(text, x, y, "end" if left else "start", OUTER_SIZE, degrees % 360)


def _beside(
    text: SiteText, place: tuple[float, float], space: TakenSpace, circle: tuple[float, float]
) -> Label | None:
    """The label of an inner site at the first free place within the rings: whole, or else shortened."""
    middle, outermost = circle
    for width in (LONGEST_NAME, SHORT_NAME):
        words = text.within(width)
        tried = [(place[0] + right, place[1] + down, anchor) for right, down, anchor in AROUND]
        boxes = [(one, text_box(*one[:2], words, one[2])) for one in tried]
        within = [(one, box) for one, box in boxes if _is_within(box, middle, outermost)]
        found = space.take_first(box for _, box in within)
        if found is not None:
            x, y, anchor = within[found][0]
            return Label(words, x, y, anchor)
    return None


def _is_within(box: LabelBox, middle: float, radius: float) -> bool:
    """Whether a box is inside the outermost ring."""
    corners = ((x, y) for x in (box.left, box.right) for y in (box.top, box.bottom))
    return all(math.hypot(x - middle, y - middle) < radius for x, y in corners)
