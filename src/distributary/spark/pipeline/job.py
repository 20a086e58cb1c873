"""The one job of a micro-batch: events in, outputs staged, receipts out.

    events -> match, stage                                                     -> receipts
    events -> match, stage, pack what tolerances decide -> by topic -> match, stage -> receipts
    events -> route to parts -> match [-> with state] -> by event -> stage      -> receipts

The first way is that of an index of one part: nothing is moved, each task matches and stages what it reads.
Where there may be tolerances, events that depend on one go by topic to a task that remembers what was last
delivered, in files (`tolerance_memory`) or, with a checkpoint of an earlier release, in Spark's state store;
all else is staged where it was read. With an index of several parts, the matches of an event come from
several tasks, so they are brought together by event.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from distributary.spark.match import match_with, with_arrival
from distributary.spark.micro_batch import running_micro_batch
from distributary.spark.pipeline.receipts import RECEIPT, RECEIPT_DDL
from distributary.spark.pipeline.staging import StagedRows, Staging
from distributary.spark.pipeline.tolerance_memory import (
    CHANGES,
    COLUMNS,
    MEMORY,
    MOST_CHANGES,
    WHOLE,
    keep,
    memory_before,
)
from distributary.spark.rows import Batches
from distributary.spark.tasks import MatchTasks
from distributary.spark.tolerances import PACKED, PackTask, from_bytes, packed_rows, topic_places, with_state
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
    packed = map_in_arrow(arrived, task.packed, PACKED)
    if staging.divisions is None:
        return map_in_arrow(with_state(packed, tasks), task.unpacked, RECEIPT_DDL)
    division = F.pmod("bucket", F.lit(staging.divisions))
    return map_in_arrow(packed.repartitionById(staging.divisions, division), task.remembered, RECEIPT_DDL)


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

    def remembered(self, batches: Batches) -> Batches:
        """Match the packed events of divisions with what is remembered of them, and pass receipts on."""
        rows = StagedRows(self.staging)
        events: dict[int, list[pa.Table]] = {}
        version = 0
        for batch in batches:
            for packed in batch.to_pylist():
                found = from_bytes(packed["payload"])
                if packed["bucket"] < 0:
                    yield from found.to_batches()
                    continue
                assert self.staging.divisions is not None, "tolerances are kept in files"
                events.setdefault(packed["bucket"] % self.staging.divisions, []).append(found)
                version = packed["version"]
        for division, tables in events.items():
            self._match_division(rows, division, version, pa.concat_tables(tables))
        yield from rows.receipts()

    def _match_division(self, rows: StagedRows, division: int, version: int, table: pa.Table) -> None:
        running = running_micro_batch()
        assert running is not None, "a task of a stream"
        columns, place, run = self.tasks.columns, self.staging.places[MEMORY], self.staging.run
        ordered = table.sort_by([(name, "ascending") for name in columns.ordering])
        matcher = self.tasks.index.matcher(0, version)
        memory = memory_before(place, run, division, running[1])
        topics = topic_places(ordered, columns).topics
        matcher.restore(topics, [memory.topics.get(topic) for topic in topics])
        for matched in self.tasks.matched(matcher, ordered, version):
            rows.take(matched)
        changed = pa.table([pa.array(topics, pa.string()), matcher.recall(topics)], schema=COLUMNS)
        memory.take(changed)
        memory.batch = running[1]
        rows.add_file(MEMORY, f"{division}/{CHANGES}", changed)
        if memory.changes + 1 >= MOST_CHANGES:
            rows.add_file(MEMORY, f"{division}/{WHOLE}", memory.table())
        keep(run, division, memory)
