"""Pictures of trees: labels that stay apart, a legend with units and scales, light and dark."""

from __future__ import annotations

import re
from functools import cache
from random import Random
from xml.etree import ElementTree

import pytest

from distributary.plan.trees.drawing import DrawnTree, TreePictureUnits, tree_svg
from distributary.plan.trees.layout import delays_of
from distributary.plan.trees.tree import Sites, Tree, random_tree, star
from distributary.plan.trees.units import TreeUnits
from plan.pictures.drawn import SVG, beyond, group, notes, overlapping, words

UNITS = TreePictureUnits(TreeUnits(), "ms")


def sites_of(count: int, *, rates: bool = True) -> Sites:
    """Sites at random, with short, long and wide names."""
    random = Random(count)
    stems = ("ams", "WWW-MIAMI", "site", "a-very-long-name-of-a-site-in-a-data-centre", "東京", "ö")
    latency = [
        [0 if one == other else random.randint(1, 90) for other in range(count)] for one in range(count)
    ]
    return Sites(
        latency=latency,
        names=[f"{stems[site % len(stems)]}-{site}" for site in range(count)],
        interest=[0, *(1 << random.randrange(5) for _ in range(count - 1))] if rates else (),
        rates=[1.5, 20, 300, 4, 55] if rates else (),
    )


@cache
def picture(count: int, *, rates: bool = True, fanout: int | None = 4) -> str:
    """A tree before, and another."""
    sites = sites_of(count, rates=rates)
    before, after = (random_tree(count, Random(seed), fanout=fanout) for seed in (1, 2))
    new = [site for site in range(count) if before.parents[site] != after.parents[site]]

    def drawn(name: str, tree: Tree, new: list[int]) -> DrawnTree:
        costs = [delay if site else None for site, delay in enumerate(delays_of(tree, sites))]
        return DrawnTree(name, f"{name}: {max(delays_of(tree, sites))} ms", tree, costs, new, max(costs[1:]))

    return tree_svg(sites, [drawn("before", before, []), drawn("planned", after, new)], "minimise", UNITS)


@pytest.mark.parametrize(("count", "fanout"), [(2, 4), (10, 1), (100, 4), (170, 4), (170, None), (170, 1)])
def test_no_text_lies_on_another_or_on_a_site_or_is_cut_off(count: int, fanout: int | None) -> None:
    drawn = picture(count, fanout=fanout)
    assert overlapping(drawn) == []
    assert beyond(drawn) == []


def test_the_ring_is_large_enough_for_the_labels_of_all_leaves() -> None:
    sites = Sites(latency=[[0] * 300] * 300)
    planned = DrawnTree("planned", "", star(300), [None, *[7] * 299])
    assert overlapping(tree_svg(sites, [planned], "minimise", UNITS)) == []


@pytest.mark.parametrize("count", [100, 170])
def test_every_site_is_drawn_and_labelled_or_counted(count: int) -> None:
    drawn = picture(count)
    sites = sites_of(count)
    for name in ("before", "planned"):
        assert len(list(group(drawn, name).iter(f"{SVG}circle"))) == count
        told = notes(drawn, name)
        assert all(any(note.startswith(site) for note in told) for site in sites.names)
    labelled = sum(
        any(each.startswith(stem) for stem in ("ams", "WWW", "site", "a-very", "東京", "ö"))
        for name in ("before", "planned")
        for each in words(drawn, name)
    )
    lacking = re.search(r"sites without a label, for lack of room: (\d+)", " ".join(words(drawn, "legend")))
    assert labelled + (int(lacking[1]) if lacking else 0) == 2 * count


def test_costs_have_their_unit_and_the_legend_says_what_everything_means() -> None:
    drawn = picture(20)
    assert any(re.fullmatch(r"ams-6  [\d,.]+ ms", each) for each in words(drawn, "planned"))
    assert words(drawn, "planned")[0].endswith(" ms")
    legend = " ".join(words(drawn, "legend"))
    for meaning in (
        "the root",
        "a site whose cost is that of the whole tree",
        "a link that is new",
        "distance from the left: delay from the root over the links, in ms",
        "number after a name: the site's cost, in ms",
        "a link that carries 200 events/s 50 events/s 10 events/s",
        "names that are too long are shortened: ",
    ):
        assert meaning in legend


def test_places_and_widths_are_on_the_scales_that_are_drawn() -> None:
    sites = Sites(latency=[[0, 10, 30], [10, 0, 20], [30, 20, 0]], interest=[0, 1, 2], rates=[25, 75])
    costs = [None, 10, 30]
    drawn = tree_svg(sites, [DrawnTree("planned", "", Tree((-1, 0, 0)), costs)], "minimise", UNITS)
    root, near, far = (float(each.attrib["cx"]) for each in group(drawn, "planned").iter(f"{SVG}circle"))
    assert far - root == pytest.approx(3 * (near - root), abs=0.2)
    numbers = {
        each.text: float(each.attrib["x"])
        for each in group(drawn, "planned").iter(f"{SVG}text")
        if re.fullmatch(r"\d+ ms", each.text or "") and "quiet" in each.attrib["class"]
    }
    assert numbers["0 ms"] == pytest.approx(root, abs=0.1)
    assert numbers["10 ms"] == pytest.approx(near, abs=0.1)
    paths = group(drawn, "planned").iter(f"{SVG}path")
    widths = [float(each.attrib["stroke-width"]) for each in paths if each.attrib["class"] == "link"]
    assert widths[1] / widths[0] == pytest.approx(3**0.5, abs=0.05)


def test_what_is_not_known_is_said() -> None:
    sites = Sites(latency=[[0] * 3] * 3)
    drawn = tree_svg(
        sites, [DrawnTree("planned", "", star(3), [None, 1, 2])], "t", TreePictureUnits(TreeUnits(), None)
    )
    legend = words(drawn, "legend")
    assert "rates are not known: all links are equally wide" in legend
    assert "distance from the left: links from the root, as no latencies are known" in legend
    assert "number after a name: the site's cost in the goal, which names no unit" in legend


def test_a_link_tells_its_ends_its_latency_and_its_rate_to_the_pointer() -> None:
    sites = Sites(latency=[[0, 10], [10, 0]], interest=[0, 1], rates=[25], names=["a", "b & c"])
    drawn = tree_svg(sites, [DrawnTree("planned", "", star(2), [None, 10])], "t", UNITS)
    assert notes(drawn, "planned") == ["a to b & c: 10 ms, 25 events/s", "a", "b & c: 10 ms"]


def test_colours_follow_the_reader_s_choice_of_light_or_dark_and_no_background_is_painted() -> None:
    drawn = picture(10)
    root = ElementTree.fromstring(drawn)
    assert list(root.iter(f"{SVG}rect")) == []
    (style,) = (each.text or "" for each in root.iter(f"{SVG}style"))
    light, _, dark = style.partition("@media (prefers-color-scheme:dark){")
    assert "color-scheme:light dark" in light
    rules = [dict(re.findall(r"(\S+)\{(?:fill|stroke):(#\w+)\}", part)) for part in (light, dark)]
    assert rules[0].keys() == rules[1].keys()
    assert all(rules[0][each] != rules[1][each] for each in rules[0])
    used = {one for each in root.iter() for one in each.attrib.get("class", "").split()}
    assert used - {"legend", "before", "planned"} <= {name.removeprefix(".") for name in rules[0]}
    assert not re.search(r'(?:fill|stroke)="#', drawn), "every colour is in the style sheet"


@pytest.mark.parametrize("count", [30, 170])
def test_the_same_plan_gives_the_same_picture(count: int) -> None:
    assert picture(count) == picture.__wrapped__(count)
