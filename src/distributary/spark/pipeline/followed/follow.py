"""A store that follows a table: what is new, changed or gone there becomes one commit.

Rules:

- After a look the store holds the well-formed rows of one state of the table and nothing else. What others
  registered in the store is removed, so a pipeline that follows a table needs a store of its own; one that
  holds anything else is refused when the table is first followed with a checkpoint.
- A row that is malformed is set aside, with its place and the reason, in `_subscriptions.jsonl` of the
  quarantine, which has those of the present state, and told once. It registers nothing: what its id had
  registered before ends.
- Of several rows with one id the first that is well-formed counts; of a Delta table or a database, whose rows
  have no order, the one whose JSON text sorts first.
- A table that cannot be read, or has rows but none that is well-formed, changes nothing; that is told, and it
  is read again later. A table without rows means that nothing is registered.

Cost: a look at a table that has not changed is a listing of its files, or of its log; only of a database all
rows are read. Otherwise all rows are read and compared with the store, in memory.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from distributary.errors import DistributaryError, InputError, UnknownSubscriptionError
from distributary.model import Subscription
from distributary.quarantine import Rejection, rejection
from distributary.spark import storage
from distributary.spark.pipeline.followed.readers import TableReader, reader_of
from distributary.spark.pipeline.tolerance_memory import tolerances_unkept
from distributary.store import SubscriptionStore
from distributary.store.columns import checked_row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from distributary.spark.pipeline.config import Pipeline

REJECTED_ROWS = "_subscriptions.jsonl"
"""The file in the quarantine that has the malformed rows of the present state."""
MOST_TOLD = 5
"""Malformed rows that are told of one look; the file has all."""
TRIES = 5
"""Times that a change is made anew because somebody else has changed the store."""

_log = logging.getLogger("distributary")


@dataclass(frozen=True)
class TableContent:
    """What one state of a table says."""

    wanted: dict[str, Subscription]
    """The subscriptions by id."""
    rejected: list[Rejection]


def content_of(reader: TableReader) -> TableContent:
    """Read a table; `DistributaryError` when it cannot be read."""
    found: list[tuple[str, Subscription]] = []
    rejected: list[Rejection] = []
    for row in reader.rows():
        if isinstance(row, Rejection):
            rejected.append(row)
        else:
            found.append(row)
    if not reader.is_ordered:
        found.sort(key=lambda each: (each[1].id, _text(each[1])))
    wanted: dict[str, Subscription] = {}
    for place, subscription in found:
        if subscription.id in wanted:
            error = InputError("is there twice; one of them counts", field="id", text=subscription.id)
            rejected.append(rejection(place, error, _text(subscription)))
        else:
            wanted[subscription.id] = subscription
    return TableContent(wanted, rejected)


@dataclass(frozen=True)
class StoreChange:
    """What a look has changed."""

    version: int
    added: int = 0
    replaced: int = 0
    removed: int = 0

    def __bool__(self) -> bool:
        return bool(self.added or self.replaced or self.removed)


def mirror(store: SubscriptionStore, content: TableContent) -> StoreChange:
    """Have a store hold what a table says, by one commit; what the store does not take is rejected, too."""
    for _ in range(TRIES):
        version = store.version()
        there = {one.id: one for _, one in store.subscriptions(version)}
        _reject_untakable(content, there)
        wanted = content.wanted
        changed = [one for id, one in wanted.items() if _comparable(there.get(id)) != _comparable(one)]
        gone = [id for id in there if id not in wanted]
        replaced = sum(one.id in there for one in changed)
        if not changed and not gone:
            return StoreChange(version)
        try:
            version = store.commit(changed, gone, replace=True)
        except UnknownSubscriptionError:  # somebody else has removed it
            continue
        return StoreChange(version, len(changed) - replaced, replaced, len(gone))
    raise DistributaryError("somebody else changes the store all the time")


def _reject_untakable(content: TableContent, there: dict[str, Subscription]) -> None:
    """Take out what a store refuses, such as ids that are too long; what it has it has taken."""
    for id, subscription in list(content.wanted.items()):
        if id in there and _comparable(there[id]) == _comparable(subscription):
            continue
        try:
            checked_row(subscription)
        except InputError as error:
            del content.wanted[id]
            content.rejected.append(rejection(f"subscription {id[:100]!r}", error, _text(subscription)))


class TableFollower:
    """Looks at a table again and again, and has the store of a pipeline follow it."""

    def __init__(self, pipeline: Pipeline, spark: SparkSession | None, tell: Callable[[str], None]) -> None:
        assert pipeline.follow is not None, "a pipeline that follows a table"
        self._store, self._tell = pipeline.store, tell
        self._reader = reader_of(pipeline.follow, spark)
        self._rejected = f"{pipeline.quarantine}/{REJECTED_ROWS}"
        self._marker = f"{pipeline.checkpoint}/follows"
        self._state: str | None = None
        self._told: set[str] = set()
        self._ordered = pipeline.events.order is not None
        self._tolerant: int | None = None
        """How many subscriptions had a tolerance when the table was last read."""

    def look(self) -> StoreChange | None:
        """Bring the store up to the table; None when the table is as it was at the last look.

        `DistributaryError` when the table cannot be read or may not be followed; nothing is changed then.
        """
        self._store.create()
        state = self._reader.state()
        if state is not None and state == self._state:
            return None
        content = content_of(self._reader)
        if content.rejected and not content.wanted:
            first = content.rejected[0]
            raise DistributaryError(
                f"no row of {self._reader.name} is well-formed, so nothing is changed; the first: {first}"
            )
        self._require_own_store(content)
        change = mirror(self._store, content)
        self._keep_rejected(content.rejected)
        self._state = state
        if change:
            self._tell(
                f"subscriptions: {change.added:,} added, {change.replaced:,} replaced, {change.removed:,} "
                f"removed, as {self._reader.name} says; version {change.version}"
            )
        self._tell_tolerances(sum(one.change is not None for one in content.wanted.values()))
        return change

    def _tell_tolerances(self, count: int) -> None:
        """Say that tolerances cannot be kept, when there are more of them than at the last look."""
        if not self._ordered and self._tolerant is not None and count > self._tolerant:
            self._tell(tolerances_unkept(count))
        self._tolerant = count

    def look_or_tell(self) -> None:
        """The same, but what goes wrong is told, once for each reason, and left for the next time."""
        try:
            self.look()
        except Exception as error:  # a follower goes on whatever happens
            line = f"subscriptions stay as they are: {error}"
            if line not in self._told:
                self._told.add(line)
                self._tell(line)
            _log.warning("%s", line)

    def _require_own_store(self, content: TableContent) -> None:
        """Raise an error if the store holds what did not come from this table, when it is first followed."""
        if storage.exists(self._marker):
            return
        others = [one.id for _, one in self._store.subscriptions() if one.id not in content.wanted]
        if others:
            raise DistributaryError(
                f"[follow]: the store {self._store!r} holds {len(others):,} subscriptions that "
                f"{self._reader.name} has not, such as {others[0]!r}, and they would be removed: "
                "name another store, or remove them"
            )
        storage.write_atomically(self._marker, self._reader.name)

    def _keep_rejected(self, rejected: list[Rejection]) -> None:
        """Keep what is malformed now, and tell what was not told before."""
        if rejected or storage.exists(self._rejected):
            lines = "".join(json.dumps(one.to_record(), ensure_ascii=False) + "\n" for one in rejected)
            storage.write_atomically(self._rejected, lines)
        new = {f"{one.field} {one.reason} {one.record}": one for one in rejected}
        untold = [one for key, one in new.items() if key not in self._told]
        self._told |= set(new)
        for one in untold[:MOST_TOLD]:
            self._tell(f"set aside: {one}")
        if len(untold) > MOST_TOLD:
            self._tell(f"and {len(untold) - MOST_TOLD:,} more rows, which are in {self._rejected}")


def follow_once(spark: SparkSession, pipeline: Pipeline, tell: Callable[[str], None]) -> None:
    """Bring the store up to the table that a pipeline follows, if any, before its first batch.

    With a store that has followed before, a table that cannot be read is told, and what the store holds
    counts; else it is an error.
    """
    if pipeline.follow is None:
        return
    follower = TableFollower(pipeline, spark, tell)
    if storage.exists(f"{pipeline.checkpoint}/follows") and pipeline.store.version():
        follower.look_or_tell()
    else:
        follower.look()


@contextmanager
def following(spark: SparkSession, pipeline: Pipeline, tell: Callable[[str], None]) -> Iterator[None]:
    """Follow the table of a pipeline, if there is one, as long as the context lasts."""
    if pipeline.follow is None:
        yield
        return
    follower, every, done = TableFollower(pipeline, spark, tell), pipeline.follow.seconds, threading.Event()

    def keep() -> None:
        while not done.wait(every):
            follower.look_or_tell()

    threading.Thread(target=keep, name="follower", daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _text(subscription: Subscription) -> str:
    return json.dumps(subscription.to_record(), default=str, ensure_ascii=False)


def _comparable(subscription: Subscription | None) -> tuple[Any, ...] | None:
    """What two equal subscriptions have in common, however their numbers were written."""
    if subscription is None:
        return None
    change = subscription.change
    numbers = None if change is None else {name: float(value) for name, value in change.items()}
    more = json.dumps(dict(subscription.more), sort_keys=True, default=str)
    return (subscription.subscriber, subscription.topic, subscription.where, subscription.path, numbers, more)
