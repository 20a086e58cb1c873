"""The topic workload: repeatable, and shaped as the paper describes."""

from __future__ import annotations

from random import Random

import pytest

from distributary.workloads import topics


def test_the_same_seed_gives_the_same_workload() -> None:
    assert list(topics.subscriptions(20, seed=1)) == list(topics.subscriptions(20, seed=1))
    assert list(topics.subscriptions(20, seed=1)) != list(topics.subscriptions(20, seed=2))
    assert list(topics.events(20, seed=1)) == list(topics.events(20, seed=1))


def test_every_subscription_has_its_wildcards_and_none_first() -> None:
    for subscription in topics.subscriptions(200, seed=1, levels=5, wildcards=2):
        levels = (subscription.topic or "").split("/")
        assert len(levels) == 5
        assert levels[0] != "*"
        assert levels.count("*") == 2


def test_random_shapes_are_distinct_and_no_more_than_there_are() -> None:
    every = topics.random_shapes(14, Random(1), levels=3)
    assert len(set(every)) == 14
    assert {depth for depth, _, _ in every} == {1, 2, 3}
    assert all(0 < level < depth for depth, wild, _ in every for level in wild)
    with pytest.raises(ValueError, match="14 shapes"):
        topics.random_shapes(15, Random(1), levels=3)
