"""A subscription store in a database: PostgreSQL, or SQLite for one machine.

    distributary_store           the store's identity: one row
    distributary_versions        each version and when it was committed
    distributary_changes         what each version changed, row by row
    distributary_registrations   the ids that are registered now, each with its serial
    distributary_bindings        the version that each micro-batch of a stream uses

A commit is one transaction. It inserts its version first, so that of several that want the same number one
goes on and the others, having waited for it, find the number taken. A binding is inserted likewise, or read.
Snapshots and indexes are no business of the database; they lie in the workspace, below the store's identity,
so that those of a database that was dropped and made anew are never taken for its own.

Connections are opened when first needed, once for all stores of a process at the same URL.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, IntegrityError, SQLAlchemyError

from distributary.errors import DistributaryError
from distributary.store.columns import (
    CHANGES,
    CHUNK,
    ROW_BITS,
    chunks,
    from_rows,
    serial_of,
    to_subscriptions,
)
from distributary.store.store import BINDINGS_KEPT, EPOCH, Life, SubscriptionStore, require_stream

FORMAT = 1
PRUNE_EVERY = 256
"""Micro-batches between two prunings of a stream's bindings."""

PARAMETERS = 10_000
"""Ids asked for in one query; databases limit the parameters of one."""

WAIT = 60
"""Seconds that SQLite waits for another writer."""

_schema = sa.MetaData()
_stores = sa.Table(
    "distributary_store",
    _schema,
    sa.Column("format", sa.Integer, primary_key=True),
    sa.Column("identity", sa.Text, nullable=False),
)
_versions = sa.Table(
    "distributary_versions",
    _schema,
    sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("committed", sa.BigInteger, nullable=False),
)
_changes = sa.Table(
    "distributary_changes",
    _schema,
    sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("row", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("ended", sa.BigInteger),
    *(sa.Column(name, sa.Text) for name in CHANGES.names[1:]),
    sa.Index("distributary_changes_id", "id"),
    sa.Index("distributary_changes_subscriber", "subscriber"),
    sa.Index("distributary_changes_ended", "ended"),
)
_registrations = sa.Table(
    "distributary_registrations",
    _schema,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("serial", sa.BigInteger, nullable=False),
)
_bindings = sa.Table(
    "distributary_bindings",
    _schema,
    sa.Column("stream", sa.Text, primary_key=True),
    sa.Column("batch", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("version", sa.BigInteger, nullable=False),
)

_engines: dict[tuple[int, URL], sa.Engine] = {}
"""By process, because a forked one must not use its parent's connections, and URL."""


class SqlStore(SubscriptionStore):
    """A store in a database, whose tables the first commit makes."""

    def __init__(self, location: str, workspace: Path | None = None) -> None:
        super().__init__()
        self._url = _supported(location)
        self.location = self._url.render_as_string(hide_password=False)
        self._given_workspace = None if workspace is None else workspace.absolute()
        self._identity: str | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return SqlStore, (self.location, self._given_workspace)

    def __repr__(self) -> str:
        return f"the subscription store at {self._url.render_as_string()}"

    @property
    def identity(self) -> str:
        if self._identity is None:
            self.version()
        assert self._identity is not None, "asking for the version finds out the identity"
        return self._identity

    @property
    def workspace(self) -> Path:
        return (self._given_workspace or _cache_directory(self._url)) / self.identity

    def close(self) -> None:
        if engine := _engines.pop((os.getpid(), self._url), None):
            engine.dispose()

    def create(self) -> None:
        if self._identity is not None:
            return
        if not self._exists():
            self._make_tables()
        try:
            with self._transaction(writing=True) as connection:
                if connection.scalar(sa.select(_stores.c.identity)) is None:
                    made = {"format": FORMAT, "identity": uuid.uuid4().hex}
                    connection.execute(sa.insert(_stores).values(made))
        except IntegrityError:
            return  # another process has made it meanwhile

    def _make_tables(self) -> None:
        """Make the tables. If another process does so at once, an error counts only if none is there then."""
        if self._url.get_backend_name() == "sqlite":
            Path(self._url.database or "").parent.mkdir(parents=True, exist_ok=True)
        try:
            with self._transaction(writing=True) as connection:
                _schema.create_all(connection)
        except (IntegrityError, DistributaryError):
            if not self._exists():
                raise

    def version(self) -> int:
        newest = sa.select(sa.func.max(_versions.c.version)).scalar_subquery()
        try:
            with self._transaction() as connection:
                found = connection.execute(sa.select(_stores.c.format, _stores.c.identity, newest)).first()
        except DistributaryError:
            if self._exists():
                raise
            found = None
        if found is None:
            raise DistributaryError(
                f"there is no subscription store at {self._url.render_as_string()}; make one with "
                "`distributary subscriptions --store URL add ...` or open_store(..., create=True)"
            )
        if found[0] != FORMAT:
            raise DistributaryError(
                f"{self!r} is of format {found[0]}; this version of distributary knows {FORMAT}"
            )
        self._identity = found[1]
        return found[2] or 0

    def committed(self, version: int) -> datetime:
        with self._transaction() as connection:
            found = connection.scalar(sa.select(_versions.c.committed).where(_versions.c.version == version))
        if found is None:
            raise DistributaryError(f"{self!r} has no version {version}; the first is 1")
        return EPOCH + timedelta(microseconds=found)

    def log(self, after: int, upto: int, columns: list[str] | None = None) -> Iterator[tuple[int, pa.Table]]:
        names = columns or CHANGES.names
        query = (
            sa.select(_changes.c.version, *(_changes.c[name] for name in names))
            .where(_changes.c.version > after, _changes.c.version <= upto)
            .order_by(_changes.c.version, _changes.c.row)
        )
        # All are read before the first is handed out, so that nobody's pace holds a transaction open.
        commits = list(self._read_commits(query, names))
        if len(commits) != max(0, upto - after):
            raise DistributaryError(f"{self!r} has no version {upto}")
        yield from commits

    def _read_commits(self, query: sa.Select[Any], names: Sequence[str]) -> Iterator[tuple[int, pa.Table]]:
        schema = pa.schema([CHANGES.field(name) for name in names])
        change = names.index("change") if "change" in names else None
        with self._transaction() as connection:
            rows = connection.execution_options(yield_per=CHUNK).execute(query)
            for version, commit in groupby(rows, key=itemgetter(0)):
                yield version, from_rows((_with_tolerances(row[1:], change) for row in commit), schema)

    def bind(self, stream: str, batch: int) -> int:
        require_stream(stream)
        found = sa.select(_bindings.c.version).where(_bindings.c.stream == stream, _bindings.c.batch == batch)
        with self._transaction() as connection:
            version: int | None = connection.scalar(found)
        while version is None:
            newest = self.version()
            row = {"stream": stream, "batch": batch, "version": newest}
            try:
                with self._transaction(writing=True) as connection:
                    self._refuse_pruned(connection, stream, batch)
                    connection.execute(sa.insert(_bindings).values(row))
                version = newest
            except IntegrityError:
                with self._transaction() as connection:
                    version = connection.scalar(found)
        return version

    def bound(self, stream: str) -> dict[int, int]:
        kept = sa.select(_bindings.c.batch, _bindings.c.version).where(_bindings.c.stream == stream)
        with self._transaction() as connection:
            rows = connection.execute(kept.order_by(_bindings.c.batch))
            return {row.batch: row.version for row in rows}

    def _refuse_pruned(self, connection: sa.Connection, stream: str, batch: int) -> None:
        """Refuse a batch older than those kept; now and then, forget those."""
        mine = _bindings.c.stream == stream
        oldest = connection.scalar(
            sa.select(_bindings.c.batch)
            .where(mine)
            .order_by(_bindings.c.batch.desc())
            .offset(BINDINGS_KEPT - 1)
            .limit(1)
        )
        if oldest is None:
            return
        if batch < oldest:
            raise DistributaryError(
                f"batch {batch} of stream {stream!r} is too old to be bound: only the last {BINDINGS_KEPT} "
                f"are kept, from {oldest} on"
            )
        if batch % PRUNE_EVERY == 0:
            connection.execute(sa.delete(_bindings).where(mine, _bindings.c.batch < oldest))

    def lives(self, subscriber: str) -> list[Life]:
        ending = _changes.alias()
        serial = _changes.c.version * (1 << ROW_BITS) + _changes.c.row
        query = (
            sa.select(
                ending.c.version,
                _changes.c.version,
                _changes.c.row,
                *(_changes.c[name] for name in CHANGES.names),
            )
            .outerjoin_from(_changes, ending, ending.c.ended == serial)
            .where(_changes.c.subscriber == subscriber)
            .order_by(_changes.c.version, _changes.c.row)
        )
        with self._transaction() as connection:
            rows = [tuple(row) for row in connection.execute(query)]
        change = CHANGES.names.index("change")
        table = from_rows((_with_tolerances(row[3:], change) for row in rows), CHANGES)
        lives = []
        for (until, version, row, *_), subscription in zip(rows, to_subscriptions(table), strict=True):
            assert subscription is not None, "a row with a subscriber is an addition"
            lives.append(Life(subscription, serial_of(version, row), version, until))
        return lives

    def _serials(self, ids: pa.Array, version: int) -> dict[str, int]:
        found: dict[str, int] = {}
        with self._transaction() as connection:
            for some in chunks(ids.to_pylist(), PARAMETERS):
                asked = sa.select(_registrations).where(_registered_among(connection, some))
                found.update(
                    (subscription_id, serial) for subscription_id, serial in connection.execute(asked)
                )
        return found

    def _append(self, version: int, changes: pa.Table, committed: int) -> bool:
        removals = len(changes) - changes["ended"].null_count
        removed = changes["id"].slice(0, removals).to_pylist()
        added = changes["id"].slice(removals).to_pylist()
        try:
            with self._transaction(writing=True) as connection:
                row = {"version": version, "committed": committed}
                connection.execute(sa.insert(_versions).values(row))
                _insert(connection, _changes, _rows(version, changes))
                for some in chunks(removed, PARAMETERS):
                    connection.execute(sa.delete(_registrations).where(_registered_among(connection, some)))
                serials = range(serial_of(version, removals), serial_of(version, len(changes)))
                _insert(connection, _registrations, zip(added, serials, strict=True))
        except IntegrityError:
            return False
        return True

    def _committed(self, version: int) -> None:
        """Do nothing: a process that only writes may not see the workspace, so readers write snapshots."""

    def rewrite(self, serials: Sequence[int], subscriber: str, topic: str) -> None:
        """Have these registrations say nothing in any version but this subscriber and topic (see `purge`)."""
        nothing = dict.fromkeys(("where", "path", "change", "more"))
        with self._transaction(writing=True) as connection:
            for serial in serials:
                version, row = serial >> ROW_BITS, serial & ((1 << ROW_BITS) - 1)
                own = sa.and_(_changes.c.version == version, _changes.c.row == row)
                named = {"id": f"purged {serial}", "subscriber": subscriber, "topic": topic}
                connection.execute(sa.update(_changes).where(own).values(**named, **nothing))
                ending = _changes.c.ended == serial
                connection.execute(sa.update(_changes).where(ending).values(id=named["id"]))

    def _exists(self) -> bool:
        database = self._url.database
        if self._url.get_backend_name() == "sqlite" and not Path(database or "").exists():
            return False  # connecting would make it
        with self._errors():
            return bool(sa.inspect(self._engine()).has_table(_stores.name))

    @contextmanager
    def _transaction(self, *, writing: bool = False) -> Iterator[sa.Connection]:
        with self._errors(), self._engine().execution_options(writing=writing).begin() as connection:
            yield connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise the database's errors as ours, naming the store; that a number is taken passes as it is."""
        try:
            yield
        except IntegrityError:
            raise
        except SQLAlchemyError as error:
            raise DistributaryError(f"{self!r}: {getattr(error, 'orig', None) or error}") from error

    def _engine(self) -> sa.Engine:
        key = os.getpid(), self._url
        with self._lock:
            if key not in _engines:
                _engines[key] = _made_engine(self._url)
            return _engines[key]


def _supported(location: str) -> URL:
    try:
        url = make_url(location)
    except ArgumentError as error:
        raise DistributaryError(f"not the URL of a database: {error}") from None
    if url.drivername in ("postgres", "postgresql"):
        url = url.set(drivername="postgresql+psycopg")
    backend = url.get_backend_name()
    if backend not in ("postgresql", "sqlite"):
        raise DistributaryError(f"a store in {backend} is not supported; use PostgreSQL or SQLite")
    if backend == "sqlite":
        if not url.database or url.database == ":memory:":
            raise DistributaryError("a store in SQLite needs a file, as in sqlite:///subscriptions.db")
        url = url.set(database=str(Path(url.database).absolute()))
    return url


def _made_engine(url: URL) -> sa.Engine:
    try:
        if url.get_backend_name() != "sqlite":
            return sa.create_engine(url, pool_pre_ping=True)
        engine = sa.create_engine(url, connect_args={"timeout": WAIT})
    except ImportError as error:
        raise DistributaryError(
            f"the store needs {error.name}; pip install 'distributary[sql]' brings what PostgreSQL needs"
        ) from None

    @sa.event.listens_for(engine, "connect")
    def leave_transactions_alone(connection: Any, record: Any) -> None:
        connection.isolation_level = None

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        # A writer takes its place in the queue at once: to become one half-way may fail without waiting.
        writing = connection.get_execution_options().get("writing")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine


def _cache_directory(url: URL) -> Path:
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = url.set(password=None).render_as_string()
    return caches / "distributary" / hashlib.sha256(name.encode()).hexdigest()[:16]


def _rows(version: int, changes: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Rows for the table of changes: tolerances become JSON text."""
    row = 0
    for batch in changes.to_batches(max_chunksize=CHUNK):
        columns = {name: batch.column(name).to_pylist() for name in CHANGES.names}
        columns["change"] = [None if one is None else json.dumps(dict(one)) for one in columns["change"]]
        for values in zip(*columns.values(), strict=True):
            yield version, row, *values
            row += 1


def _registered_among(connection: sa.Connection, ids: list[str]) -> sa.ColumnElement[bool]:
    """That a registration's id is among some; for PostgreSQL, one array, read several times as fast."""
    if connection.dialect.name == "postgresql":
        return _registrations.c.id == sa.any_(sa.literal(ids, sa.ARRAY(sa.Text)))
    return _registrations.c.id.in_(ids)


def _insert(connection: sa.Connection, table: sa.Table, rows: Iterable[tuple[Any, ...]]) -> None:
    if connection.dialect.driver == "psycopg":
        _copy(connection, table, rows)
        return
    names = table.columns.keys()
    for some in chunks(rows, PARAMETERS):
        connection.execute(sa.insert(table), [dict(zip(names, row, strict=True)) for row in some])


def _copy(connection: sa.Connection, table: sa.Table, rows: Iterable[tuple[Any, ...]]) -> None:
    """Insert by PostgreSQL's COPY, several times as fast for a large import."""
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    cursor: Any = connection.connection.cursor()
    with cursor, cursor.copy(f"COPY {table.name} ({names}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


def _with_tolerances(row: Sequence[Any], change: int | None) -> tuple[Any, ...]:
    """A row whose tolerances (in column `change`) are read from their text."""
    if change is None or row[change] is None:
        return tuple(row)
    return (*row[:change], list(json.loads(row[change]).items()), *row[change + 1 :])
