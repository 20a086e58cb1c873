"""One semantics for all types: events, Arrow, every engine and `explain` against the oracle of values.

50,000 pairs of an event and a condition here, 1,000,000 with `make chaos`. A failure prints the seed, the
condition and the row.
"""

from __future__ import annotations

import random

import pytest

from distributary import Event, Matcher, Subscription
from distributary.filters.where.domain import contains_value
from distributary.filters.where.filter import WhereFilter
from distributary.filters.where.lookup import value_under
from properties.oracle_values import (
    COLUMNS,
    attributes_of,
    meanings_of,
    random_condition,
    random_row,
    table_of,
)

EVENTS, CONDITIONS = 100, 100


def cases(seed: int, conditions: int = CONDITIONS, events: int = EVENTS, names=tuple(COLUMNS)):
    """Conditions on these columns, rows, and which of the pairs the oracle says match."""
    rng = random.Random(seed)
    rows = [random_row(rng) for _ in range(events)]
    meanings = [meanings_of(row) for row in rows]
    found = []
    while len(found) < conditions:
        condition = random_condition(rng, list(names))
        WhereFilter.parse(condition.text)
        found.append(condition)
    expected = {
        (f"e{row}", f"s{number}")
        for row, values in enumerate(meanings)
        for number, condition in enumerate(found)
        if condition.holds(values) is True
    }
    return rows, found, expected


def explained(seed: int, rows, conditions, wrong) -> str:
    """What is needed to see a difference again."""
    event, subscription = sorted(wrong)[0]
    text = conditions[int(subscription[1:])].text
    row = {name: cell for name, cell in rows[int(event[1:])].items() if name in text}
    return f"seed {seed}: {len(wrong)} pairs differ; the first: {text!r} on {row}"


def check(seed: int, found: set, expected: set, rows, conditions) -> None:
    assert found == expected, explained(seed, rows, conditions, found ^ expected)


def subscriptions(conditions, topic=None):
    return [
        Subscription(f"s{number}", "ann", where=condition.text, topic=topic)
        for number, condition in enumerate(conditions)
    ]


def pairs_of(table) -> set:
    return set(zip(table["event_id"].to_pylist(), table["subscription_id"].to_pylist(), strict=True))


def pairs_of_each(matcher, events) -> set:
    """What each event finds alone."""
    return {(event.id, subscription) for event in events for subscription in matcher.match(event)}


def events_of(rows):
    return [Event(f"e{number}", "A/B", attributes_of(row)) for number, row in enumerate(rows)]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("engine", ["bitsets", "counting"])
def test_tables_and_events_match_as_the_oracle_says(seed, engine):
    rows, conditions, expected = cases(seed)
    matcher = Matcher(subscriptions(conditions), engines={"where": engine})
    check(seed, pairs_of(matcher.match_batch(table_of(rows))), expected, rows, conditions)
    check(seed, pairs_of(matcher.match_batch(events_of(rows))), expected, rows, conditions)
    check(seed, pairs_of_each(matcher, events_of(rows)), expected, rows, conditions)


@pytest.mark.parametrize("seed", [10])
def test_filters_and_single_events_match_as_the_oracle_says(seed):
    rows, conditions, expected = cases(seed)
    filters = [WhereFilter.parse(condition.text) for condition in conditions]
    events = events_of(rows)
    found = {
        (event.id, f"s{number}")
        for event in events
        for number, one in enumerate(filters)
        if one.matches(event)
    }
    check(seed, found, expected, rows, conditions)


@pytest.mark.parametrize("seed", [20])
def test_a_condition_beside_a_topic_is_verified_as_the_oracle_says(seed):
    rows, conditions, expected = cases(seed)
    matcher = Matcher(subscriptions(conditions, topic="A/B"))
    found = pairs_of(matcher.match_batch(events_of(rows)))
    check(seed, found, expected, rows, conditions)
    check(seed, pairs_of_each(matcher, events_of(rows)), expected, rows, conditions)


@pytest.mark.parametrize("seed", [30])
def test_explain_says_what_the_oracle_says(seed):
    rows, conditions, expected = cases(seed, 30, 30)
    matcher = Matcher(subscriptions(conditions))
    found = {
        (event.id, one)
        for event in events_of(rows)
        for one in matcher.ids()
        if matcher.explain(event, one).matches
    }
    check(seed, found, expected, rows, conditions)


@pytest.mark.parametrize("seed", [40])
def test_conjunctions_hold_when_the_condition_does(seed):
    rows, conditions, expected = cases(seed)
    events = events_of(rows)
    for number, condition in enumerate(conditions):
        filter = WhereFilter.parse(condition.text)
        assert WhereFilter.parse(filter.text) == filter
        for event in events:
            wanted = (event.id, f"s{number}") in expected
            held = [
                conjunction.residual
                for conjunction in filter.conjunctions or ()
                if all(contains_value(domain, value_under(event, key)) for key, domain in conjunction.domains)
            ]
            if filter.conjunctions is not None:
                assert held if wanted else all(held), (condition.text, event)


@pytest.mark.parametrize("seed", [50])
def test_cover_and_merge_are_sound(seed):
    rows, conditions, expected = cases(seed, 60, 60)
    filters = [WhereFilter.parse(condition.text) for condition in conditions]
    wanted = [{event for event, one in expected if one == f"s{number}"} for number in range(len(filters))]
    events = {event.id: event for event in events_of(rows)}
    for number, one in enumerate(filters):
        for other in range(number):
            if one.covers(filters[other]):
                assert wanted[other] <= wanted[number], (one, filters[other])
            merged = one.merge(filters[other])
            if merged is not None:
                assert all(merged.matches(events[each]) for each in wanted[number] | wanted[other]), merged


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(1000, 1100))
def test_a_million_pairs_on_every_engine(seed):
    rows, conditions, expected = cases(seed)
    for engine in ("bitsets", "counting"):
        matcher = Matcher(subscriptions(conditions), engines={"where": engine})
        check(seed, pairs_of(matcher.match_batch(table_of(rows))), expected, rows, conditions)
        check(seed, pairs_of(matcher.match_batch(events_of(rows))), expected, rows, conditions)
        check(seed, pairs_of_each(matcher, events_of(rows)), expected, rows, conditions)
    verified = Matcher(subscriptions(conditions, topic="A/B"))
    check(seed, pairs_of(verified.match_batch(events_of(rows))), expected, rows, conditions)
    check(seed, pairs_of_each(verified, events_of(rows)), expected, rows, conditions)
