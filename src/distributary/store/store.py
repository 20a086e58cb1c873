"""A subscription store: the log of all changes to a set of subscriptions, shared by any number of processes.

Rules every store keeps:

- A commit is all or nothing and makes the next version: 1, 2, 3 and so on; 0 is empty. When `commit` has
  returned, its version survives a crash. Within a commit removals come before additions.
- No version ever changes or goes away: what was live at it can be read for good.
- An id names at most one live subscription. Each time a subscription is added it gets a new serial, which
  identifies this registration for good: `(version << 32) | row of the change in its commit`.
- Nothing malformed gets in: every subscription is parsed before it is committed.
- Concurrent writers are safe. A commit is checked against the newest version and then tries to become the
  next; whoever comes second is checked again against what the first has done.
- `bind` decides once which version a micro-batch uses. The decision is on disk before anybody acts on it.
- Snapshots and whatever else lies in the workspace are derived: without them answers are slower, not other.

Cost: a commit reads and writes what it changes, besides looking up its ids; `version` is a probe or two; the
live set at a version costs its newest snapshot (mapped, not copied, when nothing of it was removed) and the
changes since. A store object is cheap, may be pickled, and opens what it needs in each process by itself.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from distributary.errors import DamagedError, DistributaryError, InputError, UnknownSubscriptionError
from distributary.model import Subscription
from distributary.store.columns import (
    LONGEST_ID,
    ROW_BITS,
    SUBSCRIPTIONS,
    checked_row,
    commit_of,
    from_rows,
    live_after,
    serial_of,
    to_subscriptions,
)
from distributary.store.snapshots import Snapshots, snapshot_due

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Refused = Callable[[int, Subscription, InputError], None]
"""Told of an addition that is left out of a commit: its position, itself, and why."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a commit: a subscription is added, or (None) the one of that id is removed."""

    version: int
    row: int
    id: str
    subscription: Subscription | None
    ended: int | None = None
    """For a removal, the serial of the registration that it ends."""

    @property
    def serial(self) -> int:
        """The serial of the registration that an addition makes."""
        return serial_of(self.version, self.row)


@dataclass(frozen=True, slots=True)
class Life:
    """A registration and the versions at which it is live: `from_version` up to before `until_version`."""

    subscription: Subscription
    serial: int
    from_version: int
    until_version: int | None


class SubscriptionStore(ABC):
    """See the module's docstring for what every store promises.

    >>> import tempfile
    >>> place = tempfile.TemporaryDirectory()
    >>> store = open_store(place.name, create=True)
    >>> store.commit([Subscription("s1", "ann", topic="quotes/NYSE/*")])
    1
    >>> store.commit([Subscription("s2", "bob", where="price > 8")], remove=["s1"])
    2
    >>> [subscription.id for _, subscription in store.subscriptions()]
    ['s2']
    >>> [subscription.id for _, subscription in store.subscriptions(1)]
    ['s1']
    >>> store.bind("a stream", 0), store.commit(remove=["s2"]), store.bind("a stream", 0)
    (2, 3, 2)
    >>> place.cleanup()
    """

    location: str
    """Where it is, in a form that `open_store` takes; it may hold a password, `repr` does not."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    @property
    @abstractmethod
    def identity(self) -> str:
        """What tells this store from any other that ever was at the same place."""

    @property
    @abstractmethod
    def workspace(self) -> Path:
        """A directory for derived, rebuildable things, on a path that every worker sees."""

    @abstractmethod
    def create(self) -> None:
        """Make the store unless it is there; the first commit does so by itself."""

    @abstractmethod
    def version(self) -> int:
        """The newest version; cheap enough to ask for each micro-batch."""

    @abstractmethod
    def committed(self, version: int) -> datetime:
        """When a version was committed (UTC); never earlier than the version before it."""

    @abstractmethod
    def log(self, after: int, upto: int, columns: list[str] | None = None) -> Iterator[tuple[int, pa.Table]]:
        """The commits of versions after + 1 to upto, each with its changes (see `columns.CHANGES`)."""

    @abstractmethod
    def bind(self, stream: str, batch: int) -> int:
        """The version that a micro-batch of a stream uses: the newest when first asked, and so ever after.

        Of each stream the newest `BINDINGS_KEPT` at least are kept; an older one is refused, for nobody
        could say any more what it was.
        """

    @abstractmethod
    def bound(self, stream: str) -> dict[int, int]:
        """The versions by micro-batch that have been bound for a stream and are kept."""

    @abstractmethod
    def _serials(self, ids: pa.Array, version: int) -> dict[str, int]:
        """The serials of those ids that are registered at `version`, or at a later one, the newest."""

    @abstractmethod
    def _append(self, version: int, changes: pa.Table, committed: int) -> bool:
        """Make a version durable, committed at that microsecond since 1970; False when there is one."""

    @abstractmethod
    def _committed(self, version: int) -> None:
        """Called when this process has made a version."""

    def commit(
        self,
        add: Iterable[Subscription] = (),
        remove: Iterable[str] = (),
        *,
        replace: bool = False,
        refused: Refused | None = None,
    ) -> int:
        """Remove and then add, all or nothing; returns the new version, or the newest when nothing changes.

        An id that is registered is refused unless `replace`, which ends that registration first. With
        `refused` an addition that is malformed or registered is handed to it and left out; what `refused`
        raises stops the commit. Without it, and for an id to remove that is unknown, nothing is committed.
        """
        additions, positions = _checked(add, refused)
        removed = list(dict.fromkeys(remove))
        self.create()
        while True:
            version = self.version()
            changes = self._resolve(version, additions, positions, removed, replace, refused)
            if not len(changes):
                return version
            if self._append(version + 1, changes, self._next_moment(version)):
                self._committed(version + 1)
                return version + 1

    def _resolve(
        self,
        version: int,
        additions: pa.Table,
        positions: list[int],
        removed: list[str],
        replace: bool,
        refused: Refused | None,
    ) -> pa.Table:
        """The changes that a commit upon `version` makes."""
        adding = additions["id"].to_pylist()
        wanted = pa.array(list(dict.fromkeys([*removed, *adding])), pa.string())
        serials = self._serials(wanted, version)
        for subscription_id in removed:
            if subscription_id not in serials:
                raise UnknownSubscriptionError(subscription_id)
        going = set(removed)
        taken = [row for row, one in enumerate(adding) if one in serials and one not in going]
        if replace:
            removed = removed + [adding[row] for row in taken]
        elif taken:
            additions = _without(additions, positions, taken, refused)
        return commit_of(((one, serials[one]) for one in removed), additions)

    def _next_moment(self, version: int) -> int:
        now = int((datetime.now(UTC) - EPOCH) / timedelta(microseconds=1))
        if not version:
            return now
        try:
            return max(now, int((self.committed(version) - EPOCH) / timedelta(microseconds=1)))
        except DamagedError:  # and yet what is registered is known, or nobody would have come here
            return now

    def changes(self, after: int, upto: int) -> Iterator[Change]:
        """All changes of the versions after + 1 to upto, in order."""
        for version, table in self.log(after, upto):
            ids, ended = table["id"].to_pylist(), table["ended"].to_pylist()
            for row, subscription in enumerate(to_subscriptions(table)):
                yield Change(version, row, ids[row], subscription, ended[row])

    def table(self, version: int | None = None) -> pa.Table:
        """The live set at a version (the newest) as columns, in the order of serials; see `columns.LIVE`."""
        version = self._existing(version)
        start, base = self.base(version)
        commits = list(self.log(start, version))
        live = live_after(base, commits)
        rows = sum(len(changes) for _, changes in commits)
        due = snapshot_due(rows, len(commits), len(base))
        if due and max(self._snapshots().versions(), default=0) < version:
            self._keep_snapshot(version, live)
        return live

    def subscriptions(self, version: int | None = None) -> Iterator[tuple[int, Subscription]]:
        """The live set at a version (the newest), each with its serial, in the order of serials."""
        table = self.table(version)
        for serial, subscription in zip(table["serial"].to_pylist(), to_subscriptions(table), strict=True):
            assert subscription is not None, "only a removal has no subscriber"
            yield serial, subscription

    def lives(self, subscriber: str) -> list[Life]:
        """Every registration a subscriber ever had, in the order of serials."""
        found: dict[int, Subscription] = {}
        until: dict[int, int] = {}
        for version, table in self.log(0, self.version()):
            for ended in table["ended"].drop_null().to_pylist():
                if ended in found:
                    until[ended] = version
            own = pc.fill_null(pc.equal(table["subscriber"], subscriber), False)
            for row in pc.indices_nonzero(own).to_pylist():
                subscription = next(to_subscriptions(table.slice(row, 1)))
                assert subscription is not None, "a row with a subscriber is an addition"
                found[serial_of(version, row)] = subscription
        return [Life(one, serial, serial >> ROW_BITS, until.get(serial)) for serial, one in found.items()]

    def compact(self) -> int:
        """Write a snapshot of the newest version, which is returned, and sweep up leftovers."""
        version = self.version()
        if version and version not in self._snapshots().versions():
            self._snapshots().write(version, self.table(version))
        return version

    def close(self) -> None:  # noqa: B027 (most stores hold nothing open)
        """Close the connections of this process; they are opened again when needed."""

    def _snapshots(self) -> Snapshots:
        return Snapshots(self.workspace / "snapshots", self.workspace / "temporary", self.identity)

    def base(self, version: int, columns: list[str] | None = None) -> tuple[int, pa.Table]:
        """The live set at the newest version, up to this one, at which it can be read without the log."""
        return self._snapshots().newest(version, columns)

    def _keep_snapshot(self, version: int, live: pa.Table) -> None:
        """Write a snapshot for those who come later; that this fails is no reason to fail what was asked."""
        try:
            self._snapshots().write(version, live)
        except OSError as error:
            _log.warning("no snapshot of version %d of %r could be written: %s", version, self, error)

    def _existing(self, version: int | None) -> int:
        newest = self.version()
        if version is None:
            return newest
        if not 0 <= version <= newest:
            raise DistributaryError(f"{self!r} has no version {version}; its versions are 0 to {newest}")
        return version


BINDINGS_KEPT = 1000


def require_stream(stream: str) -> None:
    """Raise an error unless a stream can have this name."""
    if not stream:
        raise DistributaryError("a stream needs a name, such as the id of its query")
    if len(stream.encode(errors="surrogatepass")) > LONGEST_ID:
        raise DistributaryError(
            f"the name of a stream is longer than {LONGEST_ID:,} bytes: {stream[:100]!r}..."
        )


def open_store(
    location: str | Path, *, create: bool = False, workspace: str | Path | None = None
) -> SubscriptionStore:
    """The store at a path or an SQLAlchemy URL (`postgresql+psycopg://...`, `sqlite:///...`).

    One that does not exist is made by the first commit, or at once with `create`; to read it before is an
    error. `workspace` is where derived things go (default: in the directory; for a database, in the user's
    cache directory, which suits one machine: on a cluster name a path that every worker sees).
    """
    store = _store_at(str(location), None if workspace is None else Path(workspace))
    if create:
        store.create()
    return store


def _store_at(location: str, workspace: Path | None) -> SubscriptionStore:
    if "://" in location and not location.startswith("file://"):
        try:
            from distributary.store.sql import SqlStore
        except ImportError as error:
            raise DistributaryError(
                f"a store in a database needs {error.name}: pip install 'distributary[sql]'"
            ) from None
        return SqlStore(location, workspace)
    from distributary.store.directory import DirectoryStore

    return DirectoryStore(location.removeprefix("file://"), workspace)


def _checked(add: Iterable[Subscription], refused: Refused | None) -> tuple[pa.Table, list[int]]:
    """What is well-formed among additions, and the position of each in what was given."""
    seen: set[str] = set()
    positions: list[int] = []

    def rows() -> Iterator[tuple[Any, ...]]:
        for position, subscription in enumerate(add):
            try:
                if subscription.id in seen:
                    raise InputError("added twice in one commit", field="id", text=subscription.id)
                row = checked_row(subscription)
            except InputError as error:
                if refused is None:
                    raise
                refused(position, subscription, error)
                continue
            seen.add(subscription.id)
            positions.append(position)
            yield row

    return from_rows(rows(), SUBSCRIPTIONS), positions


def _without(
    additions: pa.Table, positions: list[int], taken: list[int], refused: Refused | None
) -> pa.Table:
    """Additions less those whose id is registered, each of which is refused."""
    for row in taken:
        subscription = next(to_subscriptions(additions.slice(row, 1)))
        assert subscription is not None, "an addition has a subscriber"
        error = InputError(
            "is registered already; remove or replace it, or choose another", field="id", text=subscription.id
        )
        if refused is None:
            raise error
        refused(positions[row], subscription, error)
    kept = pa.array(sorted(set(range(len(additions))).difference(taken)), pa.int64())
    return additions.take(kept)
