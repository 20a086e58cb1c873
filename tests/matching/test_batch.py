"""Batches: every Arrow type becomes tags, numbers and texts, however the table is cut."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import InputError
from distributary.files import events_to_table
from distributary.matching.batch import EventBatch
from distributary.matching.columns import (
    BOOLEAN,
    DURATION,
    INSTANT,
    NULL,
    NUMBER,
    OTHER,
    STRING,
    TIME,
)
from distributary.model import MAX_TOPIC_BYTES, MAX_TOPIC_LEVELS, Event

BIG = 2**53 + 1


def column_of(array: pa.Array) -> Any:
    column = EventBatch.from_table(pa.table({"id": list(map(str, range(len(array)))), "x": array})).column(
        "x"
    )
    assert column is not None
    return column


@pytest.mark.parametrize(
    ("array", "tags", "numbers"),
    [
        (pa.array([1, None, -3], pa.int8()), [NUMBER, NULL, NUMBER], [1, 0, -3]),
        (pa.array([BIG, 0], pa.int64()), [NUMBER, NUMBER], [float(BIG), 0]),
        (pa.array([2**64 - 1, None], pa.uint64()), [NUMBER, NULL], [float(2**64 - 1), 0]),
        (pa.array([0.5, float("nan"), None]), [NUMBER, OTHER, NULL], [0.5, None, None]),
        (pa.array([1.5, None], pa.float32()), [NUMBER, NULL], [1.5, None]),
        (pa.array([Decimal("1.25"), None]), [NUMBER, NULL], [1.25, None]),
        (pa.array([True, False, None]), [BOOLEAN, BOOLEAN, NULL], [1, 0, 0]),
        (pa.array([None, None], pa.null()), [NULL, NULL], [0, 0]),
        (pa.array([[1], None]), [OTHER, NULL], [0, 0]),
        (pa.array([datetime.date(1970, 1, 2), None]), [INSTANT, NULL], [86_400e6, 0]),
        (pa.array([1001, None], pa.timestamp("ns")), [INSTANT, NULL], [1.5, 0]),
        (pa.array([datetime.time(0, 0, 1)]), [TIME], [1e9]),
        (pa.array([datetime.timedelta(seconds=-1)]), [DURATION], [-1e6]),
        (pa.array([b"x", None]), [OTHER, NULL], [0, 0]),
    ],
)
def test_each_type_has_its_tag(array: pa.Array, tags: list[int], numbers: list[float | None]) -> None:
    column = column_of(array)
    assert column.tags.tolist() == tags
    for found, wanted in zip(column.numbers.tolist(), numbers, strict=True):
        assert wanted is None or found == wanted


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_texts_of_any_arrow_type_are_read_in_place_or_cast(kind: pa.DataType) -> None:
    column = column_of(pa.array(["a", None, "", "é"], pa.string()).cast(kind))
    assert column.tags.tolist() == [STRING, NULL, STRING, STRING]
    assert [column.strings.text(row) for row in range(4)] == ["a", None, "", "é"]
    assert [column.value(row) for row in range(4)] == ["a", None, "", "é"]


def test_whole_numbers_keep_their_exact_value() -> None:
    column = column_of(pa.array([BIG, BIG + 1]))
    assert [column.value(0), column.value(1)] == [BIG, BIG + 1]


def test_struct_fields_get_dotted_names_and_a_missing_struct_is_null_throughout() -> None:
    table = pa.table(
        {"id": ["e1", "e2", "e3"], "wind": [{"speed": 3, "at": {"x": "a"}}, None, {"speed": None}]}
    )
    batch = EventBatch.from_table(table)
    assert {"wind", "wind.at", "wind.at.x", "wind.speed"} <= set(batch.attributes)
    wind = batch.column("wind")
    assert wind is not None
    assert wind.tags.tolist() == [OTHER, NULL, OTHER]
    speed, place = batch.column("wind.speed"), batch.column("wind.at.x")
    assert speed is not None
    assert place is not None
    assert speed.tags.tolist() == [NUMBER, NULL, NULL]
    assert place.tags.tolist() == [STRING, NULL, NULL]


def test_an_unknown_attribute_is_no_column() -> None:
    assert EventBatch.from_table(pa.table({"id": ["e1"]})).column("x") is None


def test_rows_without_id_or_with_an_empty_topic_are_malformed() -> None:
    table = pa.table({"id": ["e1", None, "e3", "e4"], "topic": ["/A", "A", "", None]})
    batch = EventBatch.from_table(table)
    assert {row: error.field for row, error in batch.rejected.items()} == {1: "id", 2: "topic"}


def test_topics_are_kept_as_they_came() -> None:
    topics = ["/A", "A", "A//B", "A/", "/", "//", None]
    batch = EventBatch.from_table(pa.table({"id": list("1234567"), "topic": topics}))
    assert [batch.event(row).topic for row in range(batch.rows)] == topics
    assert not batch.rejected


@pytest.mark.parametrize(
    ("topic", "kept"),
    [
        ("x" * MAX_TOPIC_BYTES, True),
        ("x" * (MAX_TOPIC_BYTES + 1), False),
        ("é" * (MAX_TOPIC_BYTES // 2 + 1), False),
        ("/" * (MAX_TOPIC_LEVELS - 1), True),
        ("/" * MAX_TOPIC_LEVELS, False),
    ],
)
def test_a_topic_beyond_a_limit_is_rejected_in_a_batch_and_alone(topic: str, kept: bool) -> None:
    batch = EventBatch.from_table(pa.table({"id": ["1", "2"], "topic": [topic, "A"]}))
    assert {row: error.field for row, error in batch.rejected.items()} == ({} if kept else {0: "topic"})
    if kept:
        assert Event("1", topic=topic).topic == topic
    else:
        with pytest.raises(InputError, match="are allowed"):
            Event("1", topic=topic)


def test_documents_are_parsed_once_and_malformed_ones_set_aside() -> None:
    batch = EventBatch.from_table(pa.table({"id": ["e1", "e2", "e3"], "document": ["<a/>", "<a>", None]}))
    assert list(batch.rejected) == [1]
    assert batch.document(0) is not None
    assert batch.document(1) is None
    assert batch.document(2) is None


def test_a_mixed_attribute_is_tagged_row_by_row() -> None:
    values: list[Any] = [1, "one", True, None, (1,), float("nan"), 2.5]
    batch = EventBatch.from_events([Event(str(n), attributes={"x": value}) for n, value in enumerate(values)])
    column = batch.column("x")
    assert column is not None
    assert column.tags.tolist() == [NUMBER, STRING, BOOLEAN, NULL, OTHER, OTHER, NUMBER]


def test_numbers_beyond_all_floats_are_infinite_in_columns() -> None:
    column = EventBatch.from_events([Event("e", attributes={"x": 10**400})]).column("x")
    assert column is not None
    assert column.numbers.tolist() == [np.inf]
    assert column.value(0) == 10**400


def test_a_table_needs_its_id_column() -> None:
    with pytest.raises(InputError, match="no column 'key'"):
        EventBatch.from_table(pa.table({"id": ["e1"]}), id="key")


typed_events = st.lists(
    st.builds(
        lambda topic, x, name, up: Event(
            "e", topic, {k: v for k, v in {"x": x, "name": name, "up": up}.items() if v is not None}
        ),
        st.sampled_from([None, "A", "A/B", "é/ü"]),
        st.one_of(st.none(), st.integers(-(2**62), 2**62)),
        st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]), max_size=4)),
        st.one_of(st.none(), st.booleans()),
    ),
    max_size=8,
)


@given(typed_events, st.integers(0, 3), st.integers(1, 4))
def test_a_table_however_sliced_and_chunked_holds_the_same_events(
    events: list[Event], skipped: int, size: int
) -> None:
    table = events_to_table(events).slice(skipped)
    chunked = pa.Table.from_batches(table.to_batches(max_chunksize=size), table.schema)
    for given_table in (table, chunked):
        batch = EventBatch.from_table(given_table)
        assert [batch.event(row) for row in range(batch.rows)] == events[skipped:]
