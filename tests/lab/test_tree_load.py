"""The experiments on load and drift: what happens in them, and checks that can say no."""

from __future__ import annotations

import numpy as np
import pytest

from distributary.plan.trees.goals import parse_goal
from distributary.plan.trees.tree import Sites, Tree
from distributary_lab.rows import number, select
from distributary_lab.tree.load import (
    EAGER,
    GOALS,
    IDLE_PERIODS,
    KEEPERS,
    LONGER,
    PATIENT,
    SOON,
    STILL,
    DriftingLinks,
    WatchedAdaptation,
    run_drift,
    run_load,
)
from distributary_lab.tree.networks import network_at


def test_load_hits_the_star_hardest_and_the_optimiser_takes_it_off_again() -> None:
    rows = run_load({"nodes": 10}, np.random.default_rng(2))
    idle, loaded, last = rows[0], rows[IDLE_PERIODS], rows[-1]
    assert number(idle, "star") < number(idle, "tree")
    assert number(loaded, "star") / number(idle, "star") > number(loaded, "tree") / number(idle, "tree")
    assert number(last, "tree") < min(number(loaded, "star"), number(loaded, "tree"))


def test_links_drift_a_little_and_struck_sites_are_several_times_further() -> None:
    sites = network_at({"nodes": 20}, np.random.default_rng(1))
    links = DriftingLinks(sites, np.random.default_rng(2))
    assert links.true == sites
    links.drift()
    before = np.array(links.true.latency)
    apart = ~np.eye(20, dtype=bool)
    assert 0 < np.abs(before[apart] / np.array(sites.latency)[apart] - 1).mean() < 0.05
    links.strike()
    ratios = np.array(links.true.latency)[apart] / before[apart]
    assert set(np.round(ratios, 9)) == {1.0, LONGER}
    noisy = np.array(links.measured().latency)
    assert (noisy == noisy.T).all()
    assert not (noisy == np.array(links.true.latency))[apart].any()


def test_a_site_that_comes_back_soon_has_gone_to_and_fro() -> None:
    goal = parse_goal(GOALS["maximum"])
    near, far = ([[0, 5, nine], [5, 0, 3], [nine, 3, 0]] for nine in (9.0, 7.0))
    watched = WatchedAdaptation(goal, Tree((-1, 0, 1)), KEEPERS[EAGER])
    assert watched.period(1, Sites(latency=near)) == (0, 0)
    assert watched.period(2, Sites(latency=far)) == (1, 0)
    assert watched.period(3, Sites(latency=near)) == (1, 1)
    assert watched.period(4 + SOON, Sites(latency=far)) == (1, 0)


@pytest.mark.parametrize("goal", list(GOALS))
def test_patience_moves_less_and_ends_as_near(goal: str) -> None:
    rows = list(run_drift({"nodes": 12, "goal": goal}, np.random.default_rng(3)))
    moved = {name: sum(number(row, "moved") for row in select(rows, method=name)) for name in KEEPERS}
    assert moved[STILL] == 0 < moved[PATIENT] < moved[EAGER]
    assert min(number(row, "above") for row in rows) > -1e-6


def test_keepers_begin_with_the_best_tree() -> None:
    rows = list(run_drift({"nodes": 8, "goal": "average"}, np.random.default_rng(4)))
    first = [number(row, "above") for row in select(rows, period=1)]
    assert max(first) < 10
