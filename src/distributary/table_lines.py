"""JSON lines of a table, joined in Arrow.

Columns of texts and of lists of texts need no Python object a row; of others, values are encoded one by one.
The lines are, byte for byte, those that `json.JSONEncoder(ensure_ascii=False)` writes for the rows.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

BACKSLASH = ord("\\")
ESCAPED = (BACKSLASH, ord('"'), *range(0x20))
"""The bytes that JSON text escapes; the backslash first, because escapes have one."""


def table_lines(table: pa.Table) -> str:
    """A line for each row, an object of the columns.

    >>> print(table_lines(pa.table({"event": ["e1", "e'2"], "who": [["ann"], ["ann", "bob"]]})), end="")
    {"event": "e1", "who": ["ann"]}
    {"event": "e'2", "who": ["ann", "bob"]}
    """
    return "".join(_lines(batch) for batch in table.combine_chunks().to_batches())


def _lines(rows: pa.RecordBatch) -> str:
    texts, columns = "{", []  # what stands between the columns is joined first, because each join is a copy
    between = []
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        before, values, behind = _values(column)
        between.append(f"{texts}{json.dumps(name, ensure_ascii=False)}: {before}")
        columns.append(values)
        texts = f"{behind}, "
    parts = [part for pair in zip(map(_scalar, between), columns, strict=True) for part in pair]
    lines = pc.binary_join_element_wise(*parts, _scalar(texts.removesuffix(", ") + "}\n"), _scalar(""))
    return _bytes(lines).tobytes().decode()


def _values(column: pa.Array) -> tuple[str, pa.Array, str]:
    """The JSON of each value: what all begin with, what is between, and what all end with."""
    if pa.types.is_list(column.type) and _is_text(column.type.value_type) and not column.null_count:
        before, texts, behind = _values(column.flatten())
        quoted = pc.binary_join_element_wise(_scalar(before), texts, _scalar(behind), _scalar(""))
        lists = pa.LargeListArray.from_arrays(_offsets(column), quoted)
        return "[", pc.binary_join(lists, _scalar(", ")), "]"
    if _is_text(column.type) and not column.null_count:
        return '"', _escaped(column), '"'
    encode = json.JSONEncoder(ensure_ascii=False, default=str).encode
    return "", pa.array([encode(value) for value in column.to_pylist()], pa.large_string()), ""


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _escaped(texts: pa.Array) -> pa.Array:
    """The texts as large strings, with escapes for what JSON does not take as it is."""
    texts = texts.cast(pa.large_string())
    used = np.zeros(256, np.bool_)
    used[_bytes(texts)] = True
    for byte in ESCAPED:
        if used[byte]:
            escape = json.dumps(chr(byte))[1:-1]
            texts = pc.replace_substring(texts, chr(byte), escape)
    return texts


def _bytes(texts: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """The bytes of all texts one behind the other, in place."""
    _, offsets, data = texts.buffers()
    if not len(texts) or data is None:
        return np.empty(0, np.uint8)
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]


def _offsets(lists: pa.Array) -> pa.Array:
    """Where each list starts among the flattened texts, and the end of the last."""
    lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))


def _scalar(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())
