"""Forgetting a subscriber: their registrations are ended, and their name and filters leave all versions.

A store promises that no version ever changes. This is the one exception, for those who have the right to be
forgotten. Rules:

- What is registered for them is removed by a commit, as anybody would.
- In every version their additions stay as rows, so that serials and all other registrations are what they
  were, but with an id made of the serial, the subscriber `PURGED`, and a topic that nobody publishes.
- A directory's log is written anew beside the old one and then takes its place; snapshots and indexes, which
  can be made again, are removed.
- Nobody else may use the store meanwhile.

Cost: the log is read and written once.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from distributary.errors import DistributaryError
from distributary.store.columns import CHANGES, serial_of
from distributary.store.commits import CommitLog, numbers_in
from distributary.store.directory import DirectoryStore
from distributary.store.durable import make_directory, synchronise
from distributary.store.store import SubscriptionStore

PURGED = "purged subscriber"
"""Who the registrations of purged subscribers belong to."""
NOBODYS_TOPIC = "purged registration/#"
NEW_LOG, OLD_LOG = "log-purged", "log-before-purge"

Rewrite = Callable[[int, pa.Table], pa.Table]
"""What a version's changes become."""


def purge_subscriber(store: SubscriptionStore, subscriber: str) -> int:
    """Forget a subscriber; returns how many registrations of theirs there were in all versions.

    A call that was killed is completed by the next, whoever that is about.
    """
    if isinstance(store, DirectoryStore):
        finish_purge(store.path)
    lives = store.lives(subscriber)
    if not lives:
        return 0
    registered = [life.subscription.id for life in lives if life.until_version is None]
    if registered:
        store.commit(remove=registered)
    serials = {life.serial for life in lives}
    if isinstance(store, DirectoryStore):
        _rewrite_log(store, lambda version, table: purged_changes(version, table, serials))
    else:
        from distributary.store.sql import SqlStore

        if not isinstance(store, SqlStore):
            raise DistributaryError(f"{store!r} cannot forget a subscriber")
        store.rewrite(sorted(serials), PURGED, NOBODYS_TOPIC)
    shutil.rmtree(store.workspace, ignore_errors=True)
    return len(lives)


def purged_id(serial: int) -> str:
    """The id of a registration that was purged."""
    return f"purged {serial}"


def purged_changes(version: int, table: pa.Table, serials: set[int]) -> pa.Table:
    """The changes of a version without what the registrations of these serials say."""
    rows = table.to_pylist()
    if not any(row["ended"] in serials or serial_of(version, at) in serials for at, row in enumerate(rows)):
        return table
    for at, row in enumerate(rows):
        if row["ended"] in serials:
            row["id"] = purged_id(row["ended"])
        elif row["ended"] is None and serial_of(version, at) in serials:
            row.update(dict.fromkeys(CHANGES.names))
            row.update(id=purged_id(serial_of(version, at)), subscriber=PURGED, topic=NOBODYS_TOPIC)
    return pa.Table.from_pylist(rows, CHANGES)


def _rewrite_log(store: DirectoryStore, rewrite: Rewrite) -> None:
    """Write the log of a store in a directory anew, and put it in the place of the old one."""
    if any(numbers_in(store.path / part) for part in ("rescued", "damaged")):
        raise DistributaryError(
            f"{store!r} was repaired, so that not all its versions can be read: bring a backup back, or list "
            "its subscriptions and import them into a new store"
        )
    fresh = CommitLog(store.path / NEW_LOG, store.identity)
    shutil.rmtree(fresh.directory, ignore_errors=True)
    make_directory(fresh.directory)
    old = CommitLog(store.path / "log", store.identity)
    for version, table in store.log(0, store.version()):
        fresh.append(version, rewrite(version, table), old.committed(version), store.path / "temporary")
    (fresh.directory / "whole").touch()
    synchronise(fresh.directory)
    finish_purge(store.path)
    store.forget()


def finish_purge(store: Path) -> None:
    """Put a log that was written anew, and is whole, in the place of the old one."""
    fresh, old = store / NEW_LOG, store / OLD_LOG
    if (fresh / "whole").exists():
        if not old.exists():
            os.rename(store / "log", old)
            synchronise(store)
        (fresh / "whole").unlink()
        os.rename(fresh, store / "log")
        synchronise(store)
    shutil.rmtree(old, ignore_errors=True)
