"""Conditions that only evaluation can decide, beside keys: indexes against evaluation event by event."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.filters.where.filter import WhereFilter
from distributary.matching.batch import EventBatch
from distributary.matching.matcher import Matcher
from distributary.matching.where.verifier import WhereVerifier
from distributary.model import Event, Subscription
from properties.examples import examples
from properties.test_where_indexes import COMPILED

PREDICATES = [
    "name like '%-x-%'",
    "name not like '%y'",
    "name like 'a_%c' escape '!'",
    "name regexp 'x+y?$'",
    "a < b",
    "not a = b",
    "a + 1 > b",
    "a * 0.5 <= b",
    "a - b between -1 and 1",
    "a > 0.1000000000000000055511151231257827021181583404541015625",
    "array_contains(tags, 'x')",
    "array_contains(tags, 1)",
    "not array_contains(tags, 'y')",
    "tags[*] = 'x'",
    "lower(name) like '%X%'",
    "length(name) > a",
    "(name like '%x' or name like '%y' or name = 'x')",
    "(a < b or name like '%x%')",
    "(a is null or a < b)",
    "coalesce(a, b) = b",
    "name is distinct from other",
]
SMALL = st.sampled_from([None, -1, 0, 1, 2, 0.1, 0.5, 2.0**53])
TEXTS = st.sampled_from([None, "", "x", "a-x-c", "abc", "A-X-y", "xxy", "é-x-é"])
TAGS = st.sampled_from([None, [], ["x"], ["y", "x"], ["y", None], ["X"]])


@st.composite
def rules(draw: st.DrawFn) -> list[str]:
    found = []
    for _ in range(draw(st.integers(1, 8))):
        parts = draw(st.lists(st.sampled_from(PREDICATES), min_size=1, max_size=3))
        keys = draw(st.sampled_from(["key = {}", "key in ({}, 7)", "key = {} and a < 2", "key >= {}"]))
        parts.append(keys.format(draw(st.integers(0, 3))))
        found.append(" and ".join(parts))
        if draw(st.booleans()):
            found[-1] = (
                f"{found[-1]} or key = {draw(st.integers(0, 3))} and {draw(st.sampled_from(PREDICATES))}"
            )
    return found


def record(key: int, a: Any, b: Any, name: Any, other: Any, tags: Any) -> dict[str, Any]:
    return {"key": key, "a": a, "b": b, "name": name, "other": other, "tags": tags}


records = st.lists(
    st.builds(record, st.integers(0, 3), SMALL, SMALL, TEXTS, TEXTS, TAGS), min_size=1, max_size=6
)


def given_rows(found: list[dict[str, Any]], times: int) -> tuple[pa.Table, list[Event]]:
    """The records so many times in an Arrow table with a column of doubles, and as events."""
    rows = [dict(one, id=f"e{number}") for number, one in enumerate(found * times)]
    table = pa.table(
        {
            "id": [row["id"] for row in rows],
            "key": [row["key"] if number < 2 * len(found) else 9 for number, row in enumerate(rows)],
            "a": pa.array([row["a"] for row in rows], pa.float64()),
            "b": pa.array([row["b"] for row in rows], pa.float64()),
            "name": pa.array([row["name"] for row in rows], pa.string()),
            "other": pa.array([row["other"] for row in rows], pa.string()),
            "tags": pa.array([row["tags"] for row in rows], pa.list_(pa.string())),
        }
    )
    events = [
        Event(row.pop("id"), attributes={name: value for name, value in row.items() if value is not None})
        for row in table.to_pylist()
    ]
    return table, events


def expected(texts: list[str], events: list[Event]) -> set[tuple[int, int]]:
    return {
        (row, slot)
        for row, event in enumerate(events)
        for slot, text in enumerate(texts)
        if WhereFilter.parse(text).matches(event)
    }


@pytest.mark.parametrize("engine", COMPILED)
@given(texts=rules(), found=records, times=st.sampled_from([1, 40, 400]))
@settings(max_examples=examples(25), deadline=None)
def test_every_index_answers_as_evaluation_does(
    engine: Any, texts: list[str], found: list[dict[str, Any]], times: int
) -> None:
    table, events = given_rows(found, times)
    index = engine()
    for slot, text in enumerate(texts):
        index.add(slot, WhereFilter.parse(text))
    wanted = expected(texts, events[: 2 * len(found)])
    for batch in (EventBatch.from_table(table), EventBatch.from_events(events)):
        rows, slots = index.match_batch(batch)
        pairs = list(zip(rows.tolist(), slots.tolist(), strict=True))
        assert len(pairs) == len(set(pairs))
        assert {pair for pair in pairs if pair[0] < 2 * len(found)} == wanted
        assert {slot for row, slot in pairs if row >= 2 * len(found)} <= {
            slot for slot, text in enumerate(texts) if "key >=" in text
        }
    for row, event in enumerate(events[: 2 * len(found)]):
        assert sorted(index.match(event)) == sorted(slot for at, slot in wanted if at == row)


@given(texts=rules(), found=records, times=st.sampled_from([1, 40]))
@settings(max_examples=examples(40), deadline=None)
def test_the_verifier_answers_as_evaluation_does(
    texts: list[str], found: list[dict[str, Any]], times: int
) -> None:
    table, events = given_rows(found, times)
    verifier = WhereVerifier()
    for slot, text in enumerate(texts):
        verifier.add(slot, WhereFilter.parse(text))
    rows, slots = (
        np.array(each, np.int32) for each in np.divmod(np.arange(len(found) * len(texts)), len(texts))
    )
    passed = verifier.verify(EventBatch.from_table(table), rows, slots)
    wanted = expected(texts, events[: len(found)])
    assert {(int(row), int(slot)) for row, slot in zip(rows[passed], slots[passed], strict=True)} == wanted


def test_many_rules_that_share_a_residue_are_found_alike_alone_and_together() -> None:
    texts = [f"name like '%-x-%' and array_contains(tags, 'x') and key = {key}" for key in range(3000)]
    matcher = Matcher(Subscription(f"s{key}", "u", where=text) for key, text in enumerate(texts))
    found = [
        record(key, 1, 2, "a-x-c" if key % 3 else "abc", None, ["y", "x"] if key % 5 else ["y"])
        for key in range(0, 3000, 7)
    ]
    table = pa.Table.from_pylist([dict(one, id=f"e{one['key']}") for one in found])
    wanted = [(f"e{one['key']}", f"s{one['key']}") for one in found if one["key"] % 3 and one["key"] % 5]
    got = matcher.match_batch(table)
    assert sorted(
        zip(*(got[name].to_pylist() for name in ("event_id", "subscription_id")), strict=True)
    ) == sorted(wanted)
    for one in found[:20]:
        due = [f"s{one['key']}"] if one["key"] % 3 and one["key"] % 5 else []
        assert matcher.match(Event("e", attributes=one)) == due
