"""The events of a file in batches, as the matcher takes them; what is malformed goes to the quarantine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from distributary.arrow_rows import row_record
from distributary.files import LineBlock, is_table, read_batches, read_blocks, read_line
from distributary.json_text import read_object
from distributary.model import Event
from distributary.quarantine import Quarantine, Rejection

if TYPE_CHECKING:
    from distributary.matching.batch import EventBatch
    from distributary.matching.lines import LineBatch

PlaceOf = Callable[[int], tuple[str, Any]]
"""From a row of a batch to its place and its record."""


def event_batches(name: str, size: int, quarantine: Quarantine) -> Iterator[tuple[EventBatch, PlaceOf]]:
    """The events of a file, `size` at a time at most; what is no event goes to the quarantine.

    Of a pipe, a batch is what has come: an event that is there does not wait for the next.
    """
    from distributary.matching.batch import EventBatch
    from distributary.matching.lines import EventLines

    if is_table(name):
        before = 0
        for batch in read_batches(name, size):
            yield EventBatch.from_table(batch), partial(_place_in_table, name, before, batch)
            before += batch.num_rows
        return
    lines = EventLines()
    for block in read_blocks(name):
        if isinstance(block, Rejection):
            quarantine.add(block)
            continue
        for read in lines.batches(block.data, size, partial(_exact, block, quarantine)):
            yield read.batch, partial(_place_in_block, block, read)


def _exact(block: LineBlock, quarantine: Quarantine, number: int, line: bytes) -> Event | None:
    """The event of a line that is not plain; None when it was set aside."""
    read = read_line(block.place(number), line, Event.from_record)
    if isinstance(read, Rejection):
        quarantine.add(read)
        return None
    return read[1]


def _place_in_block(block: LineBlock, read: LineBatch, row: int) -> tuple[str, Any]:
    event = Event.from_record(read_object(read.line(row)))
    return block.place(int(read.lines[row])), event.to_record()


def _place_in_table(name: str, before: int, batch: pa.RecordBatch, row: int) -> tuple[str, Any]:
    return f"{name} row {before + row}", row_record(batch, row)
