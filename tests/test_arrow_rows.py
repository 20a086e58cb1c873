"""Text of Arrow tables that is not UTF-8: found row by row, in any type, and nothing else is lost."""

from __future__ import annotations

from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.arrow_rows import check_names, readable_row, row_record, unreadable_text
from distributary.errors import InputError
from distributary.files import events_from_table
from distributary.matching.matcher import Matcher, RejectedInput
from distributary.model import Subscription
from distributary.quarantine import Rejection

cells = st.none() | st.sampled_from([b"A", b"A/B", b"caf\xc3\xa9", b"\xff", b"a\xe9", b"\xed\xa0\x80", b""])


def is_text(cell: bytes | None) -> bool:
    try:
        return cell is None or cell.decode() is not None
    except UnicodeDecodeError:
        return False


def strings(values: list[Any]) -> pa.Array:
    return pa.array(values, pa.binary()).view(pa.string())


def by_kind(values: list[bytes | None]) -> dict[str, pa.Array]:
    """The same texts in arrays of every type that holds texts."""
    plain = strings(values)
    offsets = pa.array(range(len(values) + 1), pa.int32())
    padded = pa.concat_arrays([strings([b"\xff"]), plain])
    return {
        "string": plain,
        "slice": padded.slice(1),
        "large": pa.array(values, pa.large_binary()).view(pa.large_string()),
        "struct": pa.StructArray.from_arrays([plain], ["x"]),
        "list": pa.ListArray.from_arrays(offsets, plain),
    }


@given(st.lists(cells, max_size=6), st.sampled_from(["string", "slice", "large", "struct", "list"]))
def test_exactly_the_rows_that_are_not_utf8_are_found(values: list[bytes | None], kind: str) -> None:
    found = unreadable_text(by_kind(values)[kind])
    assert sorted(found) == [row for row, cell in enumerate(values) if not is_text(cell)]


def test_a_dictionary_is_looked_at_by_its_rows() -> None:
    words = strings([b"tea", b"caf\xe9"])
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, None, 1]), words)
    assert sorted(unreadable_text(array)) == [1, 4]


@given(st.lists(st.tuples(cells, cells), max_size=6))
def test_a_batch_matches_as_if_the_rows_that_are_not_utf8_were_not_there(
    rows: list[tuple[bytes | None, bytes | None]],
) -> None:
    ids = [f"e{n}" for n in range(len(rows))]
    topics = [topic or b"none" for topic, _ in rows]
    attributes = [x for _, x in rows]
    table = pa.table({"id": ids, "topic": strings(topics), "x": strings(attributes)})
    good = [is_text(topic) and is_text(x) for topic, x in zip(topics, attributes, strict=True)]
    matcher = Matcher([Subscription("s1", "ann", topic="A"), Subscription("s2", "bob", where="x = 'A'")])
    rejected: list[RejectedInput] = []
    assert matcher.match_batch(table, rejected=rejected).equals(
        matcher.match_batch(table.filter(pa.array(good, pa.bool_())))
    )
    assert [one.position for one in rejected] == [row for row, fine in enumerate(good) if not fine]
    assert all(one.error.field in ("topic", "x") for one in rejected)


def test_the_event_that_is_not_utf8_is_raised_where_nobody_takes_rejections() -> None:
    table = pa.table({"id": strings([b"\xff"])})
    with pytest.raises(InputError, match="id: not UTF-8: 0xff at byte 0"):
        Matcher([Subscription("s1", "ann", topic="A")]).match_batch(table)


@given(st.lists(cells, max_size=6), st.sampled_from(["string", "slice", "large", "struct", "list"]))
def test_events_of_a_table_are_read_but_for_those_that_are_not_utf8(
    values: list[bytes | None], kind: str
) -> None:
    table = pa.table({"id": [f"e{n}" for n in range(len(values))], "x": by_kind(values)[kind]})
    read = list(events_from_table(table))
    assert [isinstance(one, Rejection) for one in read] == [not is_text(cell) for cell in values]
    for one in read:
        if isinstance(one, Rejection):
            assert one.field == "x"
            assert "not UTF-8" in one.reason


def test_values_that_python_does_not_have_are_set_aside_by_themselves() -> None:
    days = pa.array([0, 2**30, 1], pa.int32()).view(pa.date32())
    first, bad, last = events_from_table(pa.table({"id": ["a", "b", "c"], "d": days}))
    assert isinstance(bad, Rejection)
    assert (bad.place, bad.field) == ("events row 1", "d")
    assert "date32" in bad.reason
    assert not isinstance(first, Rejection)
    assert not isinstance(last, Rejection)
    assert last[1].attributes == {"d": date(1970, 1, 2)}


def test_a_row_is_shown_with_escapes() -> None:
    table = pa.table({"id": ["e1"], "x": strings([b"caf\xe9"]), "l": pa.array([["a"]])})
    assert row_record(table, 0) == {"id": "e1", "x": "caf\\xe9", "l": ["a"]}
    with pytest.raises(InputError, match="x: not UTF-8: 0xe9 at byte 3"):
        readable_row(table, 0)


def test_two_columns_of_one_name_are_refused() -> None:
    table = pa.Table.from_arrays([pa.array(["e1"]), pa.array([1]), pa.array([2])], ["id", "x", "x"])
    with pytest.raises(InputError, match="x: two columns have this name"):
        check_names(table.schema.names)
    with pytest.raises(InputError, match="x: two columns"):
        Matcher([]).match_batch(table)
    with pytest.raises(InputError, match="x: two columns"):
        list(events_from_table(table))


def test_a_column_that_cannot_be_texts_is_refused_by_name() -> None:
    table = pa.table({"id": ["e1"], "topic": [["A", "B"]]})
    with pytest.raises(InputError, match="topic: must be a column of texts, not of list"):
        Matcher([]).match_batch(table)
