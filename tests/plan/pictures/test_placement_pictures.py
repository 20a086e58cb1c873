"""Pictures of placed queries: labels that stay apart, a legend with units and scales, before and after."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest

from distributary.plan.queries.drawing import MOST_RATES, DrawnPlacement, flows_of, placement_svg
from distributary.plan.queries.generator import at_clients, feed_workload, random_network
from distributary.plan.queries.placement import Placement
from plan.pictures.drawn import SVG, beyond, group, notes, overlapping, words


def placed(sites: int, queries: int) -> Placement:
    """Queries of the seed's kind, at their clients' sites."""
    network = random_network(sites=sites, trees=min(5, sites), seed=1)
    stems = ("ams", "WWW-MIAMI", "a-very-long-name-of-a-site-in-a-data-centre", "東京")
    names = [f"{stems[site % len(stems)]}-{site}" for site in range(sites)]
    network = replace(network, sites=replace(network.sites, names=names))
    return at_clients(feed_workload(network, queries, seed=1, feeds=60), network)


def moved_to_roots(start: Placement) -> tuple[Placement, list[int]]:
    """Every third operator at a root."""
    free = [index for index, each in enumerate(start.workload.operators) if each.pinned is None][::3]
    after = start.moved({index: start.network.trees[index % 2].root for index in free})
    return after, [index for index in free if start.hosts[index] != after.hosts[index]]


@cache
def picture(sites: int, queries: int) -> str:
    start = placed(sites, queries)
    after, moved = moved_to_roots(start)
    before = DrawnPlacement("before", "Today: 7 B/s", start, moved)
    return placement_svg([before, DrawnPlacement("planned", "Planned: 5 B/s", after, moved)], "minimise")


@pytest.mark.parametrize(("sites", "queries"), [(2, 3), (10, 30), (25, 20), (100, 200)])
def test_no_text_lies_on_another_or_on_a_site_or_is_cut_off(sites: int, queries: int) -> None:
    drawn = picture(sites, queries)
    assert overlapping(drawn) == []
    assert beyond(drawn) == []


def test_the_legend_says_what_everything_means_with_units_and_both_scales() -> None:
    drawn = picture(10, 30)
    legend = " ".join(words(drawn, "legend"))
    for meaning in (
        "a site that publishes sources",
        "a site that runs operators, has clients, or sends on",
        "an operator that moves",
        "which way data flows",
        "texts that are too long are shortened: ",
    ):
        assert meaning in legend
    assert re.search(r"a link that carries [\d,]+ B/s", legend)
    assert re.search(r"a link's delay: up to (\d+) ms \1 to \d+ ms ", legend)


def test_rates_are_written_beside_the_links_that_carry_most_and_the_rest_is_counted() -> None:
    start = placed(100, 200)
    links = len(flows_of(start))
    assert links > MOST_RATES
    drawn = placement_svg([DrawnPlacement("before", "", start)], "minimise")
    told = [each for each in words(drawn, "before") if re.fullmatch(r"[\d,.]+ B/s", each)]
    lacking = re.search(r"links without their rate beside them: (\d+)", " ".join(words(drawn, "legend")))
    assert lacking
    assert len(told) > MOST_RATES / 4
    assert len(told) + int(lacking[1]) == links
    assert (
        sum(bool(re.search(r" to .*: [\d,.]+ B/s, [\d.]+ ms$", note)) for note in notes(drawn, "before"))
        == links
    )


def test_of_many_links_those_that_carry_most_stand_out() -> None:
    drawn = picture(100, 200)
    for name in ("before", "planned"):
        assert len(list(group(drawn, name).iter(f"{SVG}polygon"))) == MOST_RATES
        looks = [each.attrib for each in group(drawn, name).iter(f"{SVG}path")]
        clear = [float(look["stroke-width"]) for look in looks if float(look["stroke-opacity"]) > 0.5]
        faint = [float(look["stroke-width"]) for look in looks if float(look["stroke-opacity"]) < 0.5]
        assert len(clear) == MOST_RATES
        assert min(clear) >= max(faint)
    assert f"links beyond the {MOST_RATES} that carry most are faint, without their direction" in words(
        drawn, "legend"
    )


def test_many_sites_have_their_operators_counted_and_named_to_the_pointer() -> None:
    drawn = picture(100, 200)
    assert "operators are counted, as there are many sites; the pointer at a site names them" in words(
        drawn, "legend"
    )
    assert any(re.fullmatch(r"\d+ operators?, \d+ clients?", each) for each in words(drawn, "planned"))
    assert any(re.fullmatch(r"\d+ of these move", each) for each in words(drawn, "planned"))
    assert any(
        "load" in note and "cycles/s\n" in note and "(filter)" in note for note in notes(drawn, "planned")
    )


def test_what_moves_stands_out_before_and_after() -> None:
    start = placed(4, 2)
    index = next(at for at, each in enumerate(start.workload.operators) if each.pinned is None)
    site = next(site for site in range(4) if site != start.hosts[index])
    both = [
        DrawnPlacement("before", "", start, [index]),
        DrawnPlacement("planned", "", start.moved({index: site}), [index]),
    ]
    drawn = placement_svg(both, "minimise")
    told = f"{start.workload.operators[index].name} ("
    for name in ("before", "planned"):
        found = group(drawn, name).iter(f"{SVG}text")
        marked = [each.text or "" for each in found if "moved" in each.attrib.get("class", "")]
        assert len(marked) == 1
        assert marked[0].startswith(told)


def test_links_are_as_wide_as_their_rates_and_coloured_by_their_delays() -> None:
    drawn = picture(10, 30)
    looks = {}
    for link in group(drawn, "before").iter(f"{SVG}g"):
        title, path = link.find(f"{SVG}title"), link.find(f"{SVG}path")
        if title is not None and path is not None:
            rate, delay = re.findall(r"([\d,.]+) (?:B/s|ms)", title.text or "")
            looks[float(rate.replace(",", "")), float(delay)] = path.attrib
    assert len(looks) > 5
    by_rate = [float(look["stroke-width"]) for _, look in sorted(looks.items())]
    assert by_rate == sorted(by_rate)
    assert by_rate[-1] > 2 * by_rate[0]
    by_delay = [look["class"] for _, look in sorted(looks.items(), key=lambda item: item[0][1])]
    assert by_delay == sorted(by_delay)
    assert len(set(by_delay)) > 1


def test_the_same_plan_gives_the_same_picture() -> None:
    assert picture(25, 20) == picture.__wrapped__(25, 20)
