"""Objects in events are null or not alike, whether they come as records, JSON lines or Arrow structs."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from distributary import Event, Matcher, Subscription
from distributary.files import events_from_table
from distributary.matching.batch import EventBatch
from distributary.matching.lines import EventLines
from distributary.quarantine import Rejection

TYPES = pa.struct([("b", pa.struct([("c", pa.int64())])), ("d", pa.int64())])
SCHEMA = pa.schema([("id", pa.string()), ("a", TYPES), ("e", TYPES)])
NAMES = ("a", "a.b", "a.b.c", "a.d", "e", "e.b", "e.b.c", "e.d")
SUBSCRIPTIONS = [
    Subscription(f"{name} {test}", "ann", where=f"{name} {test}")
    for name in NAMES
    for test in ("is null", "is not null", "= 1", "<> 1", "is distinct from 1")
]

numbers = st.sampled_from([None, 1, 2])
inner = st.none() | st.fixed_dictionaries({}, optional={"c": numbers})
outer = st.none() | st.fixed_dictionaries({}, optional={"b": inner, "d": numbers})
records = st.lists(st.fixed_dictionaries({}, optional={"a": outer, "e": outer}), min_size=1, max_size=6)


def wanted(record: dict[str, Any]) -> list[str]:
    """The subscriptions that a record matches: SQL's logic on what is found by walking down its objects."""
    found = []
    for name in NAMES:
        value: Any = record
        for key in name.split("."):
            value = None if value is None else value.get(key)
        truths = {
            "is null": value is None,
            "is not null": value is not None,
            "= 1": value == 1,
            "<> 1": isinstance(value, int) and value != 1,
            "is distinct from 1": value != 1,
        }
        found += [f"{name} {test}" for test, holds in truths.items() if holds]
    return sorted(found)


def answers(table: pa.Table, rows: int) -> list[list[str]]:
    """The ids of the subscriptions by event."""
    found: list[list[str]] = [[] for _ in range(rows)]
    for event, subscription in zip(*(column.to_pylist() for column in table.columns), strict=True):
        found[int(event)].append(subscription)
    return found


def never(number: int, line: bytes) -> Event | None:
    raise AssertionError(f"line {number} is plain: {line!r}")


@given(records)
@example([{"a": {"d": 1}, "e": {}}, {"a": {"d": None}, "e": {"d": 1}}])
@example(
    [{"a": {}}, {"a": None}, {}, {"a": {"b": {}}}, {"a": {"b": None}}, {"a": {"b": {"c": None}, "d": 1}}]
)
def test_an_object_is_null_only_where_it_is_missing(made: list[dict[str, Any]]) -> None:
    matcher = Matcher(SUBSCRIPTIONS)
    given = [{"id": str(number), **record} for number, record in enumerate(made)]
    expected = [wanted(record) for record in made]

    events = [Event.from_record(record) for record in given]
    assert [matcher.match(event) for event in events] == expected
    assert answers(matcher.match_batch(events), len(made)) == expected
    assert [Event.from_record(event.to_record()) for event in events] == events

    (read,) = EventLines().batches(b"\n".join(json.dumps(record).encode() for record in given), 10, never)
    matches = matcher.matches(read.batch)
    by_row = [[] for _ in made]
    for row, subscription in zip(matches.rows.tolist(), matches.subscriptions.tolist(), strict=True):
        by_row[row].append(subscription)
    assert by_row == expected

    table = pa.Table.from_pylist(given, SCHEMA)
    assert answers(matcher.match_batch(table), len(made)) == expected
    for one, ids in zip(events_from_table(table), expected, strict=True):
        assert not isinstance(one, Rejection)
        assert matcher.match(one[1]) == ids


FLAT = ("a", "a.b", "a.b.c", "a.d", "e.d")
"""Names that are dotted already; that of an object may be an attribute's as well."""
flat = st.lists(st.fixed_dictionaries(dict.fromkeys(FLAT, numbers)), min_size=1, max_size=6)


@given(flat, st.sets(st.sampled_from(FLAT), min_size=1))
@example([{"a": None, "a.b": None, "a.b.c": 1, "a.d": None, "e.d": 2}], {"a.b.c", "e.d"})
@example([{"a": 2, "a.b": None, "a.b.c": None, "a.d": 1, "e.d": None}], {"a", "a.d"})
def test_dotted_names_make_an_object_in_a_table_as_in_an_event(
    made: list[dict[str, Any]], names: set[str]
) -> None:
    matcher = Matcher(SUBSCRIPTIONS)
    held = [{name: one[name] for name in sorted(names)} for one in made]
    present = [{name: value for name, value in one.items() if value is not None} for one in held]
    events = [Event(str(row), attributes=attributes) for row, attributes in enumerate(present)]
    expected = [matcher.match(event) for event in events]
    columns = {name: pa.array([one[name] for one in held], pa.int64()) for name in names}
    table = pa.table({"id": [event.id for event in events], **columns})
    assert answers(matcher.match_batch(table), len(made)) == expected
    assert answers(matcher.match_batch(events), len(made)) == expected
    for batch in (EventBatch.from_table(table), EventBatch.from_events(events)):
        assert [batch.event(row).attributes for row in range(batch.rows)] == present
