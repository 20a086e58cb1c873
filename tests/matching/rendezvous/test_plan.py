"""Rendezvous plans on workloads and special values: how large parts become, and where things meet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from distributary import Event, Subscription
from distributary.errors import DistributaryError, InputError
from distributary.filters.kinds import parse_filters
from distributary.matching.batch import EventBatch
from distributary.matching.rendezvous.census import SubscriptionCensus
from distributary.matching.rendezvous.plan import Rendezvous
from distributary.workloads import workload

COUNT, CAPACITY = 20_000, 1_000


def census_of(subscriptions: Iterable[Subscription], seed: int = 0) -> SubscriptionCensus:
    census = SubscriptionCensus(seed)
    for one in subscriptions:
        census.add(parse_filters(one))
    return census


def plan_for(subscriptions: Iterable[Subscription], capacity: int) -> Rendezvous:
    return Rendezvous.plan(census_of(subscriptions), capacity=capacity)


def homes(plan: Rendezvous, subscriptions: Iterable[Subscription]) -> dict[str, list[int]]:
    return {one.id: plan.parts_of(parse_filters(one), one.id) for one in subscriptions}


def visited(plan: Rendezvous, *events: Event) -> list[set[int]]:
    rows, parts = plan.route(EventBatch.from_events(events))
    return [set(parts[rows == row].tolist()) for row in range(len(events))]


def where(*conditions: str) -> list[Subscription]:
    return [Subscription(f"s{number}", "u", where=text) for number, text in enumerate(conditions)]


@pytest.mark.parametrize(
    ("name", "most_parts", "most_seen", "most_stored"),
    [
        ("topics", 2, 0.06, 1.0),
        ("market", 4, 0.15, 1.1),
        ("ranges", 11, 0.5, 2.5),
        ("rules", 9, 0.3, 1.2),
        ("documents", 12, 0.4, 1.0),
    ],
)
@pytest.mark.parametrize("sampled", [pytest.param(1, marks=pytest.mark.chaos), 5])
def test_parts_stay_small_and_events_see_few_subscriptions(
    name: str, most_parts: float, most_seen: float, most_stored: float, sampled: int
) -> None:
    """The bounds are those of the whole set: parts an event visits, share it sees, copies stored."""
    subscriptions = list(workload(name).subscriptions(COUNT, seed=3))
    plan = Rendezvous.plan(census_of(subscriptions[::sampled]), capacity=CAPACITY, weight=sampled)
    lives = homes(plan, subscriptions)
    sizes = np.bincount([part for parts in lives.values() for part in parts], minlength=plan.parts)
    assert sizes.max() <= 2.5 * CAPACITY
    assert sizes.sum() <= most_stored * COUNT
    assert plan.parts <= 2 * sizes.sum() / CAPACITY + 2
    events = list(workload(name).events(300, seed=4))
    rows, parts = plan.route(EventBatch.from_events(events))
    assert len(rows) / len(events) <= most_parts
    assert sizes[parts].sum() / len(events) <= most_seen * COUNT


def test_a_topic_that_too_many_share_is_divided_by_its_next_level() -> None:
    wanted = [
        Subscription(f"s{n}", "u", topic=f"quotes/{exchange}/{n}")
        for exchange in ("NYSE", "ASE")
        for n in range(100)
    ]
    plan = plan_for(wanted, 100)
    lives = homes(plan, wanted)
    assert max(Counter(part for parts in lives.values() for part in parts).values()) <= 125
    nyse, ase = visited(plan, Event("1", topic="quotes/NYSE/3"), Event("2", topic="quotes/ASE/3"))
    assert len(nyse) == len(ase) == 2
    assert len(nyse & ase) == 1


def test_subscriptions_to_one_and_the_same_topic_are_divided_by_their_ids() -> None:
    wanted = [Subscription(f"s{n}", "u", topic="quotes") for n in range(1000)]
    plan = plan_for(wanted, 100)
    sizes = Counter(part for parts in homes(plan, wanted).values() for part in parts)
    assert len(sizes) >= 8
    assert max(sizes.values()) <= 200
    assert set(sizes) <= visited(plan, Event("e", topic="quotes/NYSE"))[0]


def test_a_value_that_very_many_name_is_divided_and_leaves_the_others_alone() -> None:
    wanted = where(*["a = 5"] * 500, *[f"a = {n}" for n in range(100, 400)])
    plan = plan_for(wanted, 100)
    lives = homes(plan, wanted)
    assert max(Counter(part for parts in lives.values() for part in parts).values()) <= 200
    hot, other = visited(plan, Event("1", attributes={"a": 5}), Event("2", attributes={"a": 250.0}))
    assert len(hot) >= 5
    assert len(other) == 2
    assert {part for one in lives.values() for part in one} >= hot - other


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ("a >= 9007199254740993", 9007199254740993),
        ("a > 9007199254740992", 9007199254740993),
        ("a <= -9007199254740993", -(10**400)),
        ("a = 0", -0.0),
        ("a < 1", float("-inf")),
        ("a between 3 and 8", 8),
        ("a = true", True),
        ("a in (7, 'x')", "x"),
        ("a in (7, 'x')", 7),
        ("a > 'b' and a < 'd'", "c"),
        ("a = ''", ""),
        ("a is null", None),
        ("a is not null", ("x",)),
        ("a = 1 or b = 2", None),
    ],
)
def test_values_at_the_edges_are_met_once(condition: str, value: object) -> None:
    others = [f"a = {n}" for n in (*range(-20, 20), 2**53, 2**53 + 2, -(2**53) - 2)]
    texts = [f"a = '{n}'" for n in (*range(20), "", "x")]
    many = where(*others, *texts, "a = true", "a = false", *[f"a between {n} and {n + 5}" for n in range(20)])
    plan = plan_for(many, 3)
    assert len(plan.values["a"].places) > 20
    lives = plan.parts_of(parse_filters(where(condition)[0]), "s")
    given = {"b": 2} if value is None else {"a": value}
    assert len(visited(plan, Event("e", attributes=given))[0] & set(lives)) == 1


def test_a_range_lives_in_every_bucket_that_it_reaches_into() -> None:
    wanted = where(*[f"a between {n} and {n + 3}" for n in range(0, 1000, 2)])
    plan = plan_for(wanted, 50)
    lives = homes(plan, wanted)
    assert max(map(len, lives.values())) == 2
    assert sum(map(len, lives.values())) < 1.2 * len(lives)
    everyone = plan.route(EventBatch.from_events([Event("e", attributes={"a": n}) for n in range(1000)]))
    for number in range(1000):
        seen = set(everyone.slots[everyone.rows == number].tolist())
        for one in wanted:
            low = 2 * int(one.id[1:])
            if low <= number <= low + 3:
                assert len(seen & set(lives[one.id])) == 1


def test_a_tolerance_keeps_a_range_in_one_part() -> None:
    wanted = where(*[f"a between {n} and {n + 3}" for n in range(0, 1000, 2)])
    plan = plan_for(wanted, 50)
    for one in wanted:
        assert len(plan.parts_of(parse_filters(replace(one, change={"a": 1.0})), one.id)) == 1


def test_documents_meet_paths_at_the_rarest_name() -> None:
    wanted = [
        Subscription(f"s{n}", "u", path=f"/rss/channel/item[{name}]")
        for name in "abcdefgh"
        for n in range(50)
    ]
    plan = plan_for(wanted, 50)
    found, none, plain = visited(
        plan,
        Event("1", document="<rss><channel><item><c/></item></channel></rss>"),
        Event("2", document="<rss><channel/></rss>"),
        Event("3"),
    )
    assert len(found) == 2
    assert none == plain
    assert set(plan.parts_of(parse_filters(wanted[100]), "s")) == found - none


def test_without_a_census_everything_lives_in_one_part_that_every_event_visits() -> None:
    plan = Rendezvous.plan(SubscriptionCensus(), capacity=10)
    assert plan.parts == 1
    assert homes(plan, where("a = 1", "b > 2")) == {"s0": [0], "s1": [0]}
    assert visited(plan, Event("e"), Event("f", topic="A")) == [{0}, {0}]


def test_a_batch_without_rows_or_with_malformed_ones_is_routed() -> None:
    plan = plan_for(where(*[f"a = {n}" for n in range(50)]), 5)
    assert len(plan.route(EventBatch.from_events([])).rows) == 0
    table = pa.table({"id": ["1", "2", "3"], "topic": ["", "A", None], "a": [1, 2, None]})
    assert set(plan.route(EventBatch.from_table(table)).rows.tolist()) == {1, 2}


def test_a_census_keeps_a_sample_and_says_for_how_many_each_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distributary.matching.rendezvous.census.KEPT", 100)
    # Every second one is of another kind: a sample must not fall into step with that.
    wanted = where(*[f"a = {n}" if n % 2 else f"b = {n}" for n in range(3000)])
    census = census_of(wanted)
    assert 100 <= len(census.kept) <= 200
    assert census.weight == 3000 / len(census.kept)
    assert 0.3 < sum("a" in keys.values for keys in census.kept) / len(census.kept) < 0.7


def test_censuses_gathered_apart_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distributary.matching.rendezvous.census.KEPT", 100)
    large, small = census_of(where(*["a = 1"] * 3000)), census_of(where(*["b = 1"] * 150), seed=1)
    merged = SubscriptionCensus.from_bytes(large.to_bytes())
    merged.merge(small)
    assert merged.seen == 3150
    assert merged.share == large.share
    of_small = sum("b" in keys.values for keys in merged.kept)
    assert of_small < 0.3 * len(merged.kept)


def test_additions_after_reading_a_census_back_are_sampled_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distributary.matching.rendezvous.census.KEPT", 100)
    census = SubscriptionCensus.from_bytes(census_of(where(*["a = 1"] * 1000)).to_bytes())
    for one in where(*["b = 1"] * 1000):
        census.add(parse_filters(one))
    assert 0.3 < sum("b" in keys.values for keys in census.kept) / len(census.kept) < 0.7


def test_a_plan_describes_itself() -> None:
    plan = plan_for(workload("market").subscriptions(2000, seed=1), 200)
    described = plan.describe()
    assert f"{plan.parts} parts" in described
    assert "values of symbol" in described
    assert "everywhere" in described


def test_what_cannot_be_planned_or_read_is_refused() -> None:
    with pytest.raises(DistributaryError, match="capacity and weight must be positive"):
        Rendezvous.plan(SubscriptionCensus(), capacity=0)
    with pytest.raises(DistributaryError, match="this version reads"):
        Rendezvous.from_json('{"format": 99}')
    with pytest.raises(InputError, match="not the bytes of a census"):
        SubscriptionCensus.from_bytes(b"nonsense")
