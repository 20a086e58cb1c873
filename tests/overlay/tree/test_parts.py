"""What a tree is made of: summaries of interests, the register of parents, streams, shapes."""

from __future__ import annotations

from collections import Counter
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from distributary.errors import DistributaryError
from distributary.filters.profile import Profile
from distributary.model import Event, Subscription
from distributary.overlay.node import Node
from distributary.overlay.tree import interest
from distributary.overlay.tree.event_log import EventLog
from distributary.overlay.tree.interest import Form, Interest, InterestSummary, form_of, profile_of
from distributary.overlay.tree.messages import ParentRequest
from distributary.overlay.tree.node import TreeNode
from distributary.overlay.tree.registry import ParentRegistry
from distributary.overlay.tree.topology import (
    balanced_parents,
    best_effort_parents,
    loops,
    random_parents,
    settle,
    unsettled,
)
from distributary.workloads import market

ALL = Interest(((),))


def wish(
    node: int, stamp: int, current: int | None, wanted: int | None = None, offers: int = 0
) -> ParentRequest:
    return ParentRequest(node, stamp, None, current, wanted, offers=offers)


def form(**filters: object) -> Form:
    return form_of(Profile.of(Subscription("s", "ann", **filters)))  # type: ignore[arg-type]


FORMS = some.one_of(
    some.builds(
        lambda sign, bound: form(where=f"a {sign} {bound}"), some.sampled_from("<>"), some.integers(0, 9)
    ),
    some.builds(lambda topic: form(topic=topic), some.sampled_from(["A", "A/B", "A/B/#", "C"])),
    some.builds(
        lambda topic, bound: form(topic=topic, where=f"a > {bound}"),
        some.sampled_from(["A", "C"]),
        some.integers(0, 9),
    ),
    some.builds(lambda name: form(path=f"/r/{name}"), some.sampled_from("xyz")),
    some.builds(lambda bound: form(topic="A", change={"a": bound}), some.integers(0, 3)),
)
EVENTS = [
    Event(f"{topic}{a}{name}", topic, {"a": a}, f"<r><{name}/></r>")
    for topic in ("A", "A/B", "A/B/C", "C", "D")
    for a in (0, 3, 7)
    for name in ("x", "w")
]


@settings(max_examples=150, deadline=None)
@given(
    some.lists(some.tuples(some.booleans(), FORMS), max_size=30),
    some.integers(1, 6),
    some.sampled_from([1, 3, interest.OUTLINED]),
)
def test_a_summary_never_asks_for_too_little_and_forgets_what_is_given_up(
    steps: list[tuple[bool, Form]], most: int, outlined: int
) -> None:
    with patch.object(interest, "OUTLINED", outlined):
        check_summary(InterestSummary(most), steps, most)


def check_summary(summary: InterestSummary, steps: list[tuple[bool, Form]], most: int) -> None:
    asked = Counter[Form]()
    for is_new, one in steps:
        if is_new:
            summary.add(one)
            asked[one] += 1
        elif asked[one]:
            summary.remove(one)
            asked[one] -= 1
        told = summary.interest
        assert len(told.forms) <= most
        for event in EVENTS:
            assert told.matches(event) or not any(
                profile_of(each).matches(event) for each, count in asked.items() if count
            )
    for one in asked.elements():
        summary.remove(one)
    assert summary.interest == Interest()


def test_a_summary_of_many_forms_is_asked_little_for_one_more_and_one_less() -> None:
    """Work is counted by the pairs of profiles that were compared or merged for the first time."""
    subscriptions = market.subscriptions(1_200, seed=5)
    forms = list(dict.fromkeys(form_of(Profile.of(one)) for one in subscriptions))
    summary = InterestSummary(most=32)
    for one in forms[:800]:
        summary.add(one)
    interest.covers.cache_clear()
    for one in forms[800:1_000]:
        summary.add(one)
    added = interest.covers.cache_info().misses
    assert added < 200 * 40, "most are covered by what is there, and found at once"
    interest.covers.cache_clear()
    for one in forms[:200]:
        summary.remove(one)
    assert interest.covers.cache_info().misses < 200 * 40, "profiles of many are not made anew each time"
    for one in forms[200:1_000]:
        summary.remove(one)
    assert summary.interest == Interest()


@given(some.lists(FORMS, max_size=8, unique=True))
def test_with_room_enough_a_summary_matches_exactly_what_was_asked_for(forms: list[Form]) -> None:
    summary = InterestSummary(most=100)
    for one in forms:
        summary.add(one)
    for event in EVENTS:
        assert summary.interest.matches(event) == any(profile_of(one).matches(event) for one in forms)
    kept = summary.interest.forms
    assert not any(one != other and Interest((other,)).covers(one) for one in kept for other in kept)


@given(some.sets(FORMS, max_size=6), some.sets(FORMS, max_size=6))
def test_an_interest_is_told_by_its_differences(before: set[Form], after: set[Form]) -> None:
    old, new = Interest(tuple(sorted(before))), Interest(tuple(sorted(after)))
    assert old.changed(*new.differs_from(old)) == new


@settings(max_examples=100, deadline=None)
@given(some.integers(0, 10**6))
def test_whatever_mixture_of_old_and_new_parents_is_real_there_is_no_loop(seed: int) -> None:
    """Changes are allowed and come about in any order; some never do, and some nodes are missed."""
    random = Random(seed)
    registry = ParentRegistry(root=0, fanout=3, random=random)
    real: dict[int, int | None] = {}
    allowed: dict[int, tuple[int, int]] = {}
    for stamp in range(1, 200):
        node = random.randint(1, 10)
        if random.random() < 0.6:
            allowed.pop(node, None)
            wanted = random.choice([None, random.randint(0, 10)])
            answer = registry.request(wish(node, stamp, real.get(node), wanted))
            assert answer is not None
            if isinstance(answer, int):
                allowed[node] = (stamp, answer)
        elif node in allowed:
            taken, real[node] = allowed.pop(node)
            if random.random() < 0.8:
                registry.taken(node, taken)
        children = Counter(real.values())
        assert max((children[parent] for parent in children if parent is not None), default=0) <= 3
        for start in real:
            way, at = [start], real[start]
            while at:
                assert at not in way
                way.append(at)
                at = real.get(at)


def test_a_request_that_was_overtaken_is_not_answered() -> None:
    registry = ParentRegistry(root=1, fanout=2, random=Random(1))
    assert registry.request(wish(2, 5, None, 1)) is not None
    assert registry.request(wish(2, 4, None, 1)) is None


def test_a_full_parent_is_refused_and_a_child_that_it_misses_counts_no_more() -> None:
    registry = ParentRegistry(root=1, fanout=1, random=Random(1))
    registry.request(wish(2, 1, None, 1))
    registry.taken(2, stamp=1)
    assert registry.why_not(3, 1) == "1 has 1 children already"
    registry.missed(2, by=1, link=99)
    assert registry.why_not(3, 1)
    registry.missed(2, by=1, link=1)
    assert not registry.why_not(3, 1)


def test_a_new_register_trusts_no_way_up_that_it_does_not_know() -> None:
    registry = ParentRegistry(root=1, fanout=None, random=Random(1))
    registry.request(wish(3, 1, 2, None))
    assert registry.why_not(4, 3) == "the way up from 3 is not known"
    registry.taken(3, stamp=1)
    assert not registry.why_not(4, 3)


def test_a_stream_answers_only_for_what_it_certainly_has() -> None:
    stream = EventLog(room=2, room_bytes=1 << 20)
    stream.begin(0.0, 0)
    asked, wider = Interest((form(topic="A"),)), Interest((form(topic="C"),))
    stream.ask(asked, since=0)
    for number in (1, 3, 4):
        stream.take([(number, Event(f"e{number}", "A/B"))])
    assert stream.answers(Interest((form(topic="A/B"),)), 1, 4)
    assert not stream.answers(wider, 1, 4)
    assert not stream.answers(asked, 1, 5), "it has not come so far"
    assert not stream.answers(asked, 0, 4), "the first has been forgotten"
    assert [number for number, _ in stream.between(asked, 1, 3)] == [3]
    stream.retain(wider)
    assert not stream.answers(asked, 3, 4), "it is asked for no more"


@given(some.integers(1, 40), some.integers(1, 4), some.integers(0, 10**6))
def test_shapes_respect_the_fanout_and_lead_to_the_root(nodes: int, fanout: int, seed: int) -> None:
    addresses = list(range(100, 100 + nodes))
    for parents in (
        balanced_parents(addresses, fanout),
        random_parents(addresses, fanout, Random(seed)),
        best_effort_parents(addresses, fanout, lambda one, other: (one * other * (seed + 1)) % 97 + 1.0),
    ):
        trees = [TreeNode(Node(address), is_root=address == 100) for address in addresses]
        settle(trees, parents)
        assert unsettled(trees) == []
        assert max(Counter(parents.values()).values(), default=0) <= fanout


def test_a_best_effort_tree_without_constraint_is_a_star_where_distances_are_distances() -> None:
    points = [0, 40, 30, 20, 10]
    assert best_effort_parents(points, None, lambda one, other: abs(one - other) + 1) == dict.fromkeys(
        points[1:], 0
    )


def test_a_shape_needs_a_root_and_a_fanout() -> None:
    with pytest.raises(DistributaryError, match="one root"):
        settle([TreeNode(Node(1)), TreeNode(Node(2))], {2: 1})
    with pytest.raises(DistributaryError, match="fanout of 0"):
        random_parents([1, 2], 0, Random(1))


def test_a_loop_is_seen() -> None:
    trees = [TreeNode(Node(address)) for address in (1, 2, 3)]
    for tree, parent in zip(trees, (2, 3, 2), strict=True):
        tree.link.parent = parent
    assert loops(trees) == ["a loop: [2, 3]"]
    assert "0 roots: []" in unsettled(trees)


def test_offers_are_parents_that_a_node_may_have_and_allow_it_none_yet() -> None:
    registry = ParentRegistry(root=1, fanout=2, random=Random(1))
    for node, parent in ((2, 1), (3, 1), (4, 2), (5, 4)):
        registry.request(wish(node, 1, None, parent))
        registry.taken(node, stamp=1)
    offered = registry.offers(wish(2, 2, 1, offers=10))
    assert offered == (1, 3), "the root, where it is, and the one that is not below it"
    assert registry.parent(2) == 1
    assert registry.offers(wish(2, 1, 1, offers=10)) is None, "overtaken by a later request"
    assert len(registry.offers(wish(6, 1, None, offers=2)) or ()) == 2


def test_a_change_that_was_permitted_may_crowd_a_parent_and_that_is_seen() -> None:
    registry = ParentRegistry(root=1, fanout=1, random=Random(1))
    for node, parent in ((2, 1), (3, 2)):
        registry.request(wish(node, 1, None, parent))
        registry.taken(node, stamp=1)
    assert registry.why_not(3, 1) == "1 has 1 children already"
    registry.permitted[3] = 1
    assert registry.request(wish(3, 2, 2, 1)) is not None
    assert registry.parent(3) is None, "it has not gone yet"
    registry.taken(3, stamp=2)
    assert registry.crowded() == {1: [2, 3]}
    registry.missed(2, by=1, link=1)
    assert registry.crowded() == {}
