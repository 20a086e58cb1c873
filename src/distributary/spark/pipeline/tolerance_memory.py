"""What tolerances remember from one micro-batch to the next, in files that are committed with the batch.

Topics are divided into a few *divisions*, a number that a checkpoint keeps for good. The events of a division
that depend on tolerances come to one task, which reads what the matcher is to remember of their topics,
matches, and stages what it remembers then. Below `<checkpoint>/tolerances`:

    divisions                             how many there are
    <division>/changes/<batch>.parquet    topic, memory: what a batch has changed; null for nothing
    <division>/whole/<batch>.parquet      the same, of all topics that the division has met so far

A batch starts from the newest whole file before it and the changes since, whatever later batches have left,
so a batch that is done again starts from the same. A whole file is written after `CHANGES` of changes, and
what nobody will need any more is removed.

Cost: a worker keeps what it has read or made, and reads only the changes since. So all that tolerances
remember of a division must fit into the memory of a Python worker: some 100 bytes a topic and more for each
subscription with a tolerance on it. Checkpoints of releases without this, and indexes of several parts, keep
their state in Spark's state store (`spark.tolerances`), at several times the cost.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import SparkSession

from distributary.errors import DistributaryError
from distributary.spark import storage
from distributary.spark.pipeline.receipts import StagedFile
from distributary.spark.tolerances import BUCKETS

MEMORY = "memory"
"""The output that tasks stage."""
CHANGES, WHOLE = "changes", "whole"
MOST_CHANGES = 32
"""Files of changes after which a whole one is written."""
COLUMNS = pa.schema([("topic", pa.string()), ("memory", pa.binary())])


def tolerances_unkept(count: int) -> str:
    """What is told of subscriptions whose tolerances cannot be kept, because events have no order."""
    return (
        f"{count:,} subscriptions with a tolerance are left out: name the column that orders the events "
        "with order under [events]"
    )


def memory_in(checkpoint: str) -> str:
    """Where below a checkpoint the memory of tolerances is."""
    return f"{checkpoint}/tolerances"


def divisions_of(spark: SparkSession, checkpoint: str, plan: str | None) -> int | None:
    """How many divisions a checkpoint has; None when its tolerances are kept by Spark's state store.

    A new checkpoint has some if its index has one part.
    """
    place = f"{memory_in(checkpoint)}/divisions"
    if storage.exists(place):
        if plan is not None:
            raise DistributaryError(
                f"the checkpoint {checkpoint} keeps its tolerances for an index of one part, and now there "
                'are so many subscriptions that it has several: write strategy = "index" under '
                "[subscriptions], or choose another checkpoint and other outputs"
            )
        return int(storage.read_text(place))
    if plan is not None or storage.exists(f"{checkpoint}/metadata"):
        return None
    count = min(int(spark.conf.get("spark.sql.shuffle.partitions") or 1), BUCKETS)
    storage.write_atomically(place, str(count))
    return count


@dataclass
class DivisionMemory:
    """What tolerances remember of the topics of a division after a batch."""

    batch: int = -1
    topics: dict[str | None, bytes] = field(default_factory=dict)
    changes: int = 0
    """Files of changes since the last whole one."""

    def take(self, table: pa.Table) -> None:
        """Take in what a file says."""
        for topic, memory in zip(table["topic"].to_pylist(), table["memory"].to_pylist(), strict=True):
            if memory is None:
                self.topics.pop(topic, None)
            else:
                self.topics[topic] = memory

    def table(self, topics: Iterable[str | None] | None = None) -> pa.Table:
        """What is remembered of some topics, or of all."""
        chosen = list(self.topics if topics is None else topics)
        memories = [self.topics.get(topic) for topic in chosen]
        return pa.table([pa.array(chosen, pa.string()), pa.array(memories, pa.binary())], schema=COLUMNS)


_kept: dict[tuple[str, int], DivisionMemory] = {}
"""What a Python worker remembers from one task to the next, by run and division."""


def memory_before(place: str, run: str, division: int, batch: int) -> DivisionMemory:
    """What is remembered of a division when a batch begins; it is whoever asked's to change."""
    for key in [key for key in _kept if key[0] != run]:
        del _kept[key]
    memory = _kept.pop((run, division), None)
    if memory is None or memory.batch >= batch:
        memory = DivisionMemory()
    files = {
        kind: sorted(one for one in storage.numbered_files(f"{place}/{division}/{kind}", ".parquet"))
        for kind in (CHANGES, WHOLE)
    }
    whole = max((one for one in files[WHOLE] if one < batch), default=-1)
    if memory.batch < whole:  # the changes before it may have been removed
        memory = DivisionMemory(whole)
        memory.take(storage.read_table(f"{place}/{division}/{WHOLE}/{whole}.parquet"))
    for one in files[CHANGES]:
        if memory.batch < one < batch:
            memory.take(storage.read_table(f"{place}/{division}/{CHANGES}/{one}.parquet"))
    memory.changes = sum(whole < one < batch for one in files[CHANGES])
    return memory


def keep(run: str, division: int, memory: DivisionMemory) -> None:
    """Keep for later tasks of this worker what is remembered after a batch."""
    _kept[run, division] = memory


def put_memory_in_place(files: Iterable[StagedFile], place: str, batch: int) -> None:
    """Make what tasks have staged what later batches begin with."""
    for one in files:
        target = f"{place}/{one.directory}"
        storage.make_directory(target)
        storage.replace(one.location, f"{target}/{batch}.parquet")


def remove_old_memory(files: Iterable[StagedFile], place: str, batch: int) -> None:
    """Remove what no batch needs any more, where a batch has written a whole file.

    This batch may be done again: what it began with, the whole file before, is kept.
    """
    for one in files:
        division, _, kind = one.directory.partition("/")
        if kind != WHOLE:
            continue
        whole = storage.numbered_files(f"{place}/{division}/{WHOLE}", ".parquet")
        before = max((number for number in whole if number < batch), default=0)
        for other in (CHANGES, WHOLE):
            for number in list(storage.numbered_files(f"{place}/{division}/{other}", ".parquet")):
                if number < before:
                    storage.remove_file(f"{place}/{division}/{other}/{number}.parquet")
