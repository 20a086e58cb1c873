"""Writes batches to a table one after the other, and notes each: what exactly once rests on in a driver.

    python table_writer.py FORMAT DIRECTORY BATCHES

What it writes depends on the batch alone, as with a pipeline. It goes on behind the last batch that is noted
in the directory, so one that was killed between writing and noting is written again, or would be.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa

from distributary.spark.pipeline.tables.table import BatchRows, DeliveryTable

PER_BATCH = 300
SCHEMA = pa.schema(
    [("event_id", pa.string()), ("subscriptions", pa.list_(pa.string())), ("batch", pa.int64())]
)


def ids_of(batch: int) -> list[str]:
    """The events of a batch."""
    return [f"{batch} {number}" for number in range(PER_BATCH)]


def options_of(place: Path) -> dict[str, str]:
    """A catalog of Iceberg that is a file."""
    return {"type": "sql", "uri": f"sqlite:///{place}/catalog.db", "warehouse": f"file://{place}/warehouse"}


def table_in(place: Path, format: str) -> DeliveryTable:
    """The table of a format in a directory."""
    if format == "delta":
        from distributary.spark.pipeline.tables.delta import DeltaDeliveries

        return DeltaDeliveries(str(place / "table"), {})
    from distributary.spark.pipeline.tables.iceberg import IcebergDeliveries

    return IcebergDeliveries("alerts.deliveries", options_of(place))


def rows_for(batch: int) -> BatchRows:
    """The deliveries of a batch."""
    rows = pa.table({"event_id": ids_of(batch), "subscriptions": [["s1"]] * PER_BATCH})
    return BatchRows(SCHEMA, batch, lambda: iter(rows.to_batches()))


def main(format: str, directory: Path, batches: int) -> None:
    """Write all batches that are not noted."""
    table = table_in(directory, format)
    for batch in range(batches):
        note = directory / f"{batch}.json"
        if not note.exists():
            (directory / "begun").write_text(str(batch))
            table.write_once(rows_for(batch), "q")
            note.touch()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
