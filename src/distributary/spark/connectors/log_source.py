"""A stream of Spark's whose rows are the messages of a log: what `mqtt` and `distributary` have in common.

Where what runs (PySpark 4.3): one reader lives on the driver, in a Python process of its own, as long as the
query; its `initialOffset`, `latestOffset`, `partitions` and `commit` are called there, one at a time. Others
are made to plan tasks, and in tasks, which call `read` alone: so a reader opens nothing until it is asked for
an offset. A query that goes on from a checkpoint may ask for `partitions` first. `commit` comes with the
batch after, and not at all before a crash; `stop` need not be called.

An offset is `{"log": id, "offset": n}`: all messages before n. What lies between two offsets is on the disk
and never changes, so a batch that is done again gives the same rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming import datasource as limits

from distributary.errors import DamagedError, SettingError
from distributary.spark.connectors.intake import LogIntake
from distributary.spark.connectors.message_log import LogRange, MessageLog, read_range
from distributary.spark.connectors.options import Option, Value

LOG = (
    Option("log", needed="message-log"),
    Option("maxRowsPerTrigger", "whole"),
    Option("maxLogBytes", "whole", 1 << 30),
    Option("quiet", "seconds", 2.0),
    Option("failOnLoss", "truth", False),
)
"""The options that say where the log is, and how it is read."""
ROWS_A_TASK = 20_000
"""Messages that one task reads, at most."""
ROWS_A_BATCH = 10_000


def check_log(options: Mapping[str, Value]) -> None:
    """`SettingError` for a log that cannot be one."""
    if "://" in str(options["log"]):
        raise SettingError(
            f'the option "log" is "{options["log"]}"; it must be a directory of this machine, or one that '
            "all machines of the cluster see at this path"
        )


class LogPartition(InputPartition):
    """What one task reads."""

    def __init__(self, place: LogRange) -> None:
        self.place = place


class LogStreamReader(DataSourceStreamReader, limits.SupportsTriggerAvailableNow):
    """Reads messages by their offsets in the log; see the module for where it lives."""

    def __init__(self, options: Mapping[str, Value]) -> None:
        self._options = options
        self._intake: LogIntake | None = None
        self._target: int | None = None
        """Where a run of what is available now ends."""

    # What is different between the formats.

    kind: type[msgspec.Struct]
    """What the records of the log are."""

    @abstractmethod
    def open_log(self, directory: str) -> MessageLog[Any]:
        """The log, with the name of its client."""

    @abstractmethod
    def make_intake(self, log: MessageLog[Any]) -> LogIntake:
        """The way into the log, not started yet."""

    @abstractmethod
    def rows(self, messages: Sequence[tuple[int, Any]]) -> pa.RecordBatch:
        """Messages with their offsets as rows."""

    # What Spark calls on the driver.

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a new query begins: behind what an earlier one has committed."""
        return self._offset(self._started().log.state.committed)

    def getDefaultReadLimit(self) -> limits.ReadLimit:  # noqa: N802
        """How much a batch may hold."""
        most = self._options["maxRowsPerTrigger"]
        return limits.ReadAllAvailable() if most is None else limits.ReadMaxRows(int(most))

    def latestOffset(self, start: dict[str, Any], limit: limits.ReadLimit) -> dict[str, Any]:  # noqa: N802
        """How far a batch that begins at `start` goes."""
        begin, intake = self._place(start), self._started()
        intake.processed(begin)
        end = intake.log.end
        if self._target is not None:
            end = min(end, max(self._target, begin))
        if isinstance(limit, limits.ReadMaxRows):
            end = min(end, begin + limit.max_rows)
        return self._offset(end)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """How far the log has come, for the progress of the query."""
        return self._offset(self._started().log.end)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Take what the broker has kept for this client: until nothing has come for a while."""
        self._target = self._started().wait_until_quiet(float(self._options["quiet"] or 0))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """What tasks read to have a batch."""
        places = self._started().log.ranges(self._place(start), self._place(end), ROWS_A_TASK)
        return [LogPartition(place) for place in places]

    def commit(self, end: dict[str, Any]) -> None:
        """A batch is done for good."""
        self._started().commit(self._place(end))

    def stop(self) -> None:
        """The query has ended."""
        if self._intake is not None:
            self._intake.close()
            self._intake = None

    # What runs in tasks.

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition."""
        assert isinstance(partition, LogPartition)
        messages = enumerate(read_range(partition.place, self.kind), partition.place.start)
        while some := list(islice(messages, ROWS_A_BATCH)):
            yield self.rows(some)

    def _started(self) -> LogIntake:
        if self._intake is None:
            log = self.open_log(str(self._options["log"]))
            try:
                intake = self.make_intake(log)
            except BaseException:
                log.close()
                raise
            try:
                intake.start()
            except BaseException:
                intake.close()
                raise
            self._intake = intake
        self._intake.require_sound()
        return self._intake

    def _offset(self, value: int) -> dict[str, Any]:
        return {"log": self._started().log.state.id, "offset": value}

    def _place(self, offset: Mapping[str, Any]) -> int:
        """The place in the log that an offset means."""
        log = self._started().log
        if offset.get("log") != log.state.id:
            raise DamagedError(
                f"the checkpoint belongs to another log than {self._options['log']}: bring that one back, or "
                "begin with a new checkpoint"
            )
        return int(offset["offset"])
