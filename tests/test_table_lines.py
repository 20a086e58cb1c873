"""Tables as JSON lines: byte for byte what Python's encoder writes."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from distributary.table_lines import table_lines

texts = st.text(max_size=8) | st.text(alphabet='"\\\n\t\x00\x1f\x7f/é\u2028', max_size=8)


@given(st.lists(st.tuples(texts, st.lists(texts, max_size=3), st.integers(0, 9) | st.none()), max_size=6))
def test_lines_are_those_of_the_encoder(rows: list[tuple[Any, ...]]) -> None:
    types = {"event": pa.large_string(), 'a "list"': pa.list_(pa.large_string()), "number": pa.int64()}
    records = [dict(zip(types, row, strict=True)) for row in rows]
    table = pa.Table.from_pylist(records, pa.schema(types))
    encode = json.JSONEncoder(ensure_ascii=False).encode
    expected = "".join(encode(record) + "\n" for record in records)
    assert table_lines(table) == expected
    assert table_lines(pa.concat_tables([table[:1], table[1:].slice(1), table[1:2]])) == "".join(
        encode(record) + "\n" for record in [*records[:1], *records[2:], *records[1:2]]
    )
