"""The one job of a micro-batch: events in, outputs staged, receipts out.

    events -> match, stage                                                     -> receipts
    events -> match, stage, pack what tolerances decide -> by topic, with state -> stage -> receipts
    events -> route to parts -> match [-> with state] -> by event -> stage      -> receipts

The first way is that of an index of one part: nothing is moved, each task matches and stages what it reads.
Where there may be tolerances, events that depend on one go by topic to the state that remembers what was last
delivered, all else is staged where it was read. With an index of several parts, the matches of an event come
from several tasks, so they are brought together by event.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from distributary.spark.match import match_with, with_arrival
from distributary.spark.pipeline.receipts import RECEIPT, RECEIPT_DDL
from distributary.spark.pipeline.staging import StagedRows, Staging
from distributary.spark.rows import Batches
from distributary.spark.tasks import MatchTasks
from distributary.spark.tolerances import PACKED, PackTask, from_bytes, packed_rows, with_state
from distributary.spark.workers import map_in_arrow


def staged(tasks: MatchTasks, events: DataFrame, staging: Staging) -> DataFrame:
    """The receipts of tasks that match a stream of events and stage what comes of it."""
    if tasks.index.plan is not None:
        rows = match_with(tasks, events).repartition("event_id")
        return map_in_arrow(rows, staging.run_task, RECEIPT_DDL)
    task = MatchAndStage(tasks, staging)
    arrived = with_arrival(events)
    if not tasks.index.tolerances:
        return map_in_arrow(arrived, task.run, RECEIPT_DDL)
    remembered = with_state(map_in_arrow(arrived, task.packed, PACKED), tasks)
    return map_in_arrow(remembered, task.unpacked, RECEIPT_DDL)


@dataclass(frozen=True)
class MatchAndStage:
    """What tasks do that have all matches of an event."""

    tasks: MatchTasks
    staging: Staging

    def run(self, events: Batches) -> Batches:
        """Match events, none of which depends on a tolerance, and stage the rows."""
        return self.staging.run_task(self.tasks.match(events))

    def packed(self, events: Batches) -> Batches:
        """The same for events that depend on no tolerance; the others are packed for the state."""
        rows, pack = StagedRows(self.staging), PackTask(self.tasks)
        for batch in events:
            yield from pack.run(iter([batch]))
            for matched in self.tasks.match(iter([batch])):
                rows.take(matched)
        yield from packed_rows(rows.receipts())

    def unpacked(self, batches: Batches) -> Batches:
        """Stage the rows that come from the state, and pass on the receipts that come with them."""
        rows = StagedRows(self.staging)
        for batch in batches:
            for payload in batch.column("payload"):
                found: pa.Table = from_bytes(payload.as_py())
                for one in found.to_batches():
                    if RECEIPT in found.column_names:
                        yield one
                    else:
                        rows.take(one)
        yield from rows.receipts()
