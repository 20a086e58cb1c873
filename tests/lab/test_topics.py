"""The experiments of the topic paper: small runs, and verdicts on rows that are made up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distributary_lab.engines import run_here
from distributary_lab.experiment import Outcome, Row, grid
from distributary_lab.tasks import tasks_of
from distributary_lab.topics import matching as topics
from distributary_lab.topics import tree_size as topic_tree_size

(TREE,) = topic_tree_size.EXPERIMENTS
(COSTS,) = topics.EXPERIMENTS


def rows_of(**costs: float) -> list[Row]:
    """Rows with the same cost for every measure."""
    common: Row = {"subscriptions": 1000, "repeat": 0}
    return [
        {**common, "algorithm": name, "compile": 1.0, "match_spread": 1.0}
        | dict.fromkeys(("match", "add", "remove", "memory"), cost)
        for name, cost in costs.items()
    ]


def test_every_algorithm_is_measured_and_answers_rightly() -> None:
    small = replace(COSTS, quick=grid(repeat=[0], subscriptions=[200], algorithm=topics.ALGORITHMS))
    outcomes = run_here(tasks_of(small, quick=True, seed=1), lambda count: None)
    assert [done.failure for done in outcomes] == [None] * len(topics.ALGORITHMS)
    rows = [row for done in outcomes for row in done.rows]
    assert all(float(row[measure]) > 0 for row in rows for measure in ("match", "memory", "add", "remove"))
    for answer in small.answers.values():
        assert answer.check(rows).outcome in (Outcome.HOLDS, Outcome.DOES_NOT_HOLD)


def test_a_hash_that_is_not_close_is_told_why() -> None:
    verdict = topics.check_match(rows_of(tree=1, hash=10, regex=10_000, shapes=0.1))
    assert verdict.outcome is Outcome.DOES_NOT_HOLD
    assert "From least to most: tree, hash, regex" in verdict.reason
    assert "constructs 2^6 candidates" in verdict.reason


def test_our_index_has_to_be_ahead_everywhere() -> None:
    ahead = rows_of(tree=2, hash=1, regex=1, shapes=0.5)
    assert topics.check_ours(ahead).outcome is Outcome.HOLDS
    assert topics.check_memory(ahead).outcome is Outcome.HOLDS
    behind = [*ahead, *({**row, "repeat": 1} for row in rows_of(tree=2, hash=1, regex=1, shapes=3))]
    assert topics.check_ours(behind).outcome is Outcome.DOES_NOT_HOLD


def test_a_tree_has_an_edge_more_than_nodes_for_each_subscription_but_one() -> None:
    small = replace(TREE, quick=grid(levels=[2, 5], subscriptions=[300], values=[4, 50]))
    rows = [
        row for done in run_here(tasks_of(small, quick=True, seed=1), lambda n: None) for row in done.rows
    ]
    assert len(rows) == 4
    assert all(row["edges"] == int(row["nodes"]) + int(row["entries"]) - 1 for row in rows)
    assert topic_tree_size.check(rows).outcome is Outcome.NOT_REPRODUCED


@pytest.mark.parametrize(("nodes", "outcome"), [(798_000, Outcome.HOLDS), (663_000, Outcome.DOES_NOT_HOLD)])
def test_figure_6_is_judged_by_the_largest_tree(nodes: int, outcome: Outcome) -> None:
    largest: Row = {"levels": 10, "subscriptions": 100_000, "entries": 100_000}
    rows: list[Row] = [
        {**largest, "values": 50, "nodes": nodes, "edges": nodes + 99_999},
        {**largest, "values": 5_000, "nodes": 798_188, "edges": 898_187},
    ]
    verdict = topic_tree_size.check(rows)
    assert verdict.outcome is outcome
    assert "5,000 values a level give 798,188 nodes" in verdict.reason
    assert verdict.ratio == pytest.approx(nodes / 798_188)
