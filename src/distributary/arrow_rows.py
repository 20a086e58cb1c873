"""Rows of Arrow tables that cannot be read: text that is not UTF-8, values that Python does not have.

Arrow and Spark pass such text on unchecked, and reading it raises UnicodeDecodeError amid a batch. Here it is
found beforehand, row by row, and shown so that one can see what it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from distributary.errors import InputError
from distributary.json_text import not_utf8

UNREADABLE = (UnicodeDecodeError, ValueError, OverflowError, TypeError, pa.ArrowException)
"""What reading a value of Arrow's may raise: bad text, a year beyond 9999, nanoseconds."""


def check_names(names: Sequence[str]) -> None:
    """Refuse a table with two columns of one name: readers do not agree on which of them counts."""
    if len(set(names)) < len(names):
        name = next(name for place, name in enumerate(names) if name in names[:place])
        raise InputError("two columns have this name; rename one of them", field=name)


def check_structure(batch: pa.RecordBatch) -> None:
    """Raise `pa.ArrowInvalid` where a batch from a file points to where it has nothing, or has bad names.

    Arrow takes the offsets of a file's arrays as they are, and following wrong ones ends the process. Text
    that is not UTF-8 passes: it is a matter of its row.
    """
    str(batch.schema)  # raises UnicodeDecodeError where a name cannot be read
    for column in batch.columns:
        (column.view(_as_bytes(column.type)) if _holds_text(column.type) else column).validate(full=True)


def unreadable_text(array: pa.Array) -> dict[int, str]:
    """The rows of an array whose text is not UTF-8, and what is wrong with each.

    Cost: one pass over the text, for ASCII at the speed of memory, else some ten nanoseconds a row; where
    something is wrong, another one over each half that has it, and so on down to the rows.

    >>> bad = pa.array([b"caf\\xe9", b"tea"]).view(pa.string())
    >>> unreadable_text(bad)
    {0: 'not UTF-8: 0xe9 at byte 3; write the text in UTF-8'}
    """
    if not _holds_text(array.type) or _is_ascii(array) or _is_valid(array):
        return {}
    if pa.types.is_dictionary(array.type):
        return unreadable_text(array.dictionary_decode())
    found: dict[int, str] = {}
    suspect = [(0, len(array))]
    while suspect:
        start, stop = suspect.pop()
        # A slice of a nested array shares the text of all rows, what is taken of it does not.
        part = array.slice(start, stop - start)
        part = part if _is_text(array.type) else part.take(pa.array(range(len(part)), pa.int64()))
        if _is_valid(part):
            continue
        if len(part) == 1:
            found[start] = _problem(part)
        else:
            middle = (start + stop) // 2
            suspect += [(middle, stop), (start, middle)]
    return found


def row_record(table: pa.Table | pa.RecordBatch, row: int) -> dict[str, Any]:
    """A row as Python values; what cannot be read is shown as text, with escapes for bad bytes."""
    return {name: _shown(table.column(name), row) for name in table.schema.names}


def readable_row(table: pa.Table | pa.RecordBatch, row: int) -> dict[str, Any]:
    """A row as Python values; `InputError` names the column that cannot be read, and says why."""
    record = {}
    for name in table.schema.names:
        column = table.column(name)
        try:
            record[name] = column[row].as_py()
        except UNREADABLE as error:
            raise InputError(_reason(_one(column, row), error), field=name) from None
    return record


def _reason(one: pa.Array, error: Exception) -> str:
    if _holds_text(one.type) and not _is_valid(one):
        return _problem(one)
    return f"cannot be read as {one.type}: {error}"


def _shown(column: pa.Array | pa.ChunkedArray, row: int) -> Any:
    try:
        return column[row].as_py()
    except UNREADABLE:
        one = _one(column, row)
        return _bytes(one).decode(errors="backslashreplace") if _is_text(one.type) else f"<{one.type}>"


def _problem(one: pa.Array) -> str:
    if not _is_text(one.type):
        return "holds text that is not UTF-8; write the text in UTF-8"
    data = _bytes(one)
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return not_utf8(data, error.start)
    return "not UTF-8"


def _one(column: pa.Array | pa.ChunkedArray, row: int) -> pa.Array:
    taken = column.take(pa.array([row]))
    return taken.combine_chunks() if isinstance(taken, pa.ChunkedArray) else taken


def _bytes(one: pa.Array) -> bytes:
    data: bytes = one.cast(pa.large_binary())[0].as_py()
    return data


def _is_ascii(array: pa.Array) -> bool:
    """Whether no byte of the text needs a look; False also where that cannot be said in a moment."""
    wide = pa.types.is_large_string(array.type)
    if not len(array) or not (wide or pa.types.is_string(array.type)):
        return False
    _, offsets, data = array.buffers()
    if data is None:
        return True
    ends = np.frombuffer(offsets, np.int64 if wide else np.int32)[
        array.offset : array.offset + len(array) + 1
    ]
    text = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    return bool(not len(text) or text.max() < 128)


def _is_valid(array: pa.Array) -> bool:
    try:
        array.validate(full=True)
    except pa.ArrowException:
        return False
    return True


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view())


def _as_bytes(kind: pa.DataType) -> pa.DataType:
    """The type with bytes in the place of texts."""
    if pa.types.is_string(kind):
        return pa.binary()
    if pa.types.is_large_string(kind):
        return pa.large_binary()
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _as_bytes(kind.value_type), kind.ordered)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_as_bytes(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_as_bytes(kind.key_type), _as_bytes(kind.item_type), kind.keys_sorted)
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_as_bytes(kind.value_type), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(_as_bytes(kind.value_type))
    return pa.list_(_as_bytes(kind.value_type)) if pa.types.is_list(kind) else kind


def _holds_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return _holds_text(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return _holds_text(kind.storage_type)
    return _is_text(kind) or any(_holds_text(kind.field(place).type) for place in range(kind.num_fields))
