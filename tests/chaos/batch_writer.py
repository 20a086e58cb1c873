"""Writes batches to Kafka one after the other, and notes each: what exactly once rests on in a driver.

    python batch_writer.py ADDRESS TOPIC DIRECTORY BATCHES

What it writes depends on the batch alone, as with a pipeline. It goes on behind the last batch that is noted
in the directory, so one that was killed between writing and noting is written again, or would be.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

import pyarrow as pa
from pyspark.sql import DataFrame

from distributary.spark.pipeline.kafka_sink import write_once

PER_BATCH = 300


def values_of(batch: int) -> list[str]:
    """The messages of a batch."""
    return [f"{batch} {number}" for number in range(PER_BATCH)]


class BatchMessages:
    """What the sink asks of a DataFrame of messages."""

    def __init__(self, topic: str, batch: int) -> None:
        values = values_of(batch)
        self._table = pa.table(
            {"topic": [topic] * len(values), "key": ["ann"] * len(values), "value": values}
        )

    def toArrow(self) -> pa.Table:  # noqa: N802
        return self._table


def main(address: str, topic: str, directory: Path, batches: int) -> None:
    """Write all batches that are not noted."""
    options = {"kafka.bootstrap.servers": address}
    for batch in range(batches):
        note = directory / f"{batch}.json"
        if not note.exists():
            (directory / "begun").write_text(str(batch))
            messages = cast("DataFrame", BatchMessages(topic, batch))
            write_once(messages, options, topic, str(directory), batch)
            note.touch()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
