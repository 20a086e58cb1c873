"""A subscription store in a directory: the default, with no server and no lock.

    store.json                   what this is, and the store's identity
    log/<version>.arrow          the changes of one commit, with the time of it
    newest/<version>             that this version was committed
    bound/<stream>/<batch>       the version that a micro-batch uses
    rescued/                     the live set after a repair
    damaged/                     what a repair has set aside
    workspace/snapshots/         the live set at some versions
    workspace/...                base indexes and whatever else can be made again
    temporary/                   files being written

A version exists when its file does; files of the log appear whole, one for each number and without gaps, and
stay (see `durable`). So the newest version is found by listing them once, and from then on by probing, from
the last one known in doubling steps.

Every file carries checksums (see `checked`, `commits`), which are compared whenever it is read: what is
damaged is never taken for content. `newest` is a second witness of the number of versions, so that the loss
of the last files of the log is noticed too; it may lag behind, never run ahead. What needs a version that is
lost fails with a `DamagedError` that says which; what can be read without it, from a snapshot, goes on. See
`repair`.
Works for processes of one machine and on a shared POSIX file system that has hard links.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, unquote
from zlib import crc32

import pyarrow as pa

from distributary.errors import DamagedError, DistributaryError
from distributary.store.commits import CommitLog, numbers_in
from distributary.store.durable import make_directory, publish, sweep, synchronise
from distributary.store.registrations import NEEDED, Registrations
from distributary.store.snapshots import Snapshots, snapshot_due
from distributary.store.store import BINDINGS_KEPT, EPOCH, SubscriptionStore, require_stream

FORMAT = 2
MADE = ("log", "newest", "bound", "workspace", "temporary")
PARTS = ("store.json", "rescued", "damaged", *MADE)
PRUNE_EVERY = 256
"""Micro-batches between two prunings of a stream's bindings."""


class DirectoryStore(SubscriptionStore):
    """A store in a directory, which the first commit makes."""

    def __init__(self, path: str | Path, workspace: Path | None = None) -> None:
        super().__init__()
        self.path = Path(path).expanduser().absolute()
        self.location = str(self.path)
        self._given_workspace = None if workspace is None else workspace.absolute()
        self._known = _KnownState("")

    def __reduce__(self) -> tuple[Any, ...]:
        return DirectoryStore, (self.path, self._given_workspace)

    def __repr__(self) -> str:
        return f"the subscription store in {self.path}"

    @property
    def identity(self) -> str:
        try:
            content = (self.path / "store.json").read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            if numbers_in(self.path / "log"):
                raise self._damaged("store.json is missing, though there is a log") from None
            raise DistributaryError(
                f"there is no subscription store in {self.path}; make one with "
                f"`distributary subscriptions --store {self.path} add ...` or open_store(..., create=True)"
            ) from None
        except OSError as error:
            raise self._damaged(f"store.json cannot be read: {error.strerror or error}") from None
        return self._described(content)

    def _described(self, content: bytes) -> str:
        """The identity that store.json tells."""
        try:
            given = json.loads(content)
            format, identity = given["format"], str(given["identity"])
        except (ValueError, TypeError, LookupError):
            raise self._damaged("store.json is not what was written") from None
        if content == description(identity):
            return identity
        if given.get("checksum") == checksum_of(format, identity) or content == _unchecked(identity):
            hint = "export what it holds with the release that made it, and import that into a new one"
            raise DistributaryError(
                f"{self!r} is of format {format}; this version of distributary knows {FORMAT}: {hint}"
            )
        raise self._damaged("store.json is not what was written")

    @property
    def workspace(self) -> Path:
        return self._given_workspace or self.path / "workspace"

    def create(self) -> None:
        if (self.path / "store.json").exists():
            return
        if numbers_in(self.path / "log"):
            _ = self.identity  # says that it is damaged
        if self.path.is_dir() and (
            foreign := {entry.name for entry in self.path.iterdir()}.difference(PARTS)
        ):
            raise DistributaryError(
                f"{self.path} is no subscription store but holds {min(foreign)}; "
                "name an empty directory or a new one"
            )
        try:
            for part in MADE:
                make_directory(self.path / part)
            self._publish(self.path / "store.json", description(uuid.uuid4().hex))
        except OSError as error:
            raise self._failed("made", error) from error

    def version(self) -> int:
        identity = self.identity
        with self._lock:
            commits = CommitLog(self.path / "log", identity)
            if identity != self._known.identity:
                listed = (*numbers_in(commits.directory), *numbers_in(self.path / "rescued"))
                self._known = _KnownState(identity, max(listed, default=0))
            known = self._known
            witnessed = max(numbers_in(self.path / "newest"), default=0)
            known.newest = _last(max(known.newest, witnessed), commits.exists)
            return known.newest

    def committed(self, version: int) -> datetime:
        if version < 1:
            raise DistributaryError(f"version {version} was never committed; the first is 1")
        try:
            return EPOCH + timedelta(microseconds=self._commits().committed(version))
        except (OSError, DamagedError) as error:
            raise self._lost(version, error) from None

    def log(self, after: int, upto: int, columns: list[str] | None = None) -> Iterator[tuple[int, pa.Table]]:
        if after >= upto:
            return
        commits = self._commits()
        before = commits.checksum(after)
        for version in range(after + 1, upto + 1):
            try:
                table, before = commits.read(version, before, columns)
            except (OSError, DamagedError) as error:
                raise self._lost(version, error) from None
            yield version, table

    def bind(self, stream: str, batch: int) -> int:
        require_stream(stream)
        path = _binding_path(self._bindings(stream), batch)
        version = self.read_binding(path, self.identity)
        try:
            if version is None:
                return self._bind_first(stream, batch, path)
            if (stream, batch) != self._known.last_bound:
                synchronise(path.parent)  # whoever bound it may not have come so far yet
                self._known.last_bound = stream, batch
        except OSError as error:
            raise self._failed("written", error) from error
        return version

    def _bind_first(self, stream: str, batch: int, path: Path) -> int:
        version = self.version()
        self._refuse_pruned(stream, batch)
        synchronise(self.path / "log")  # whoever committed that version may not have come so far yet
        make_directory(path.parent)
        if not self._publish(path, _binding(path, self.identity, version)):
            bound = self.read_binding(path, self.identity)
            return self._bind_first(stream, batch, path) if bound is None else bound
        if batch % PRUNE_EVERY == 0:
            for old in sorted(path.parent.iterdir())[:-BINDINGS_KEPT]:
                old.unlink(missing_ok=True)
        return version

    def bound(self, stream: str) -> dict[int, int]:
        directory, identity = self._bindings(stream), self.identity
        read = {
            batch: self.read_binding(_binding_path(directory, batch), identity)
            for batch in numbers_in(directory)
        }
        return {batch: version for batch, version in read.items() if version is not None}

    def compact(self) -> int:
        version = super().compact()
        sweep(self.path / "temporary")
        with self._lock:
            self._known.registrations = None
        return version

    def _refuse_pruned(self, stream: str, batch: int) -> None:
        kept = numbers_in(self._bindings(stream))
        if len(kept) >= BINDINGS_KEPT and batch < kept[-BINDINGS_KEPT]:
            raise DistributaryError(
                f"batch {batch} of stream {stream!r} is too old to be bound: {kept[-1]} is the newest, and "
                f"only the last {BINDINGS_KEPT} are kept"
            )

    def _serials(self, ids: pa.Array, version: int) -> dict[str, int]:
        with self._lock:
            return self._registered(version).serials(ids)

    def _registered(self, version: int) -> Registrations:
        """What is registered at a version, brought up to date from the log."""
        registrations = self._known.registrations
        if registrations is None:
            registrations = Registrations(*self.base(version, ["id", "serial"]))
            self._known.registrations = registrations
        registrations.advance(self.log(registrations.version, version, NEEDED))
        return registrations

    def _append(self, version: int, changes: pa.Table, committed: int) -> bool:
        commits = self._commits()
        if commits.exists(version):
            return False
        try:
            appended = commits.append(version, changes, committed, self.path / "temporary")
            self._witness(version)
        except OSError as error:
            raise self._failed("written", error) from error
        return appended

    def _witness(self, version: int) -> None:
        """Note that a version was committed, and forget the notes of those before."""
        directory = self.path / "newest"
        directory.mkdir(exist_ok=True)
        (directory / f"{version:020d}").touch()
        for older in numbers_in(directory)[:-1]:
            (directory / f"{older:020d}").unlink(missing_ok=True)

    def base(self, version: int, columns: list[str] | None = None) -> tuple[int, pa.Table]:
        rescued = self.rescued().newest(version, columns)
        return max(super().base(version, columns), rescued, key=itemgetter(0))

    def rescued(self) -> Snapshots:
        """The live sets that repairs have written, which no log leads to."""
        return Snapshots(self.path / "rescued", self.path / "temporary", self.identity, derived=False)

    def forget(self) -> None:
        """Forget what this process knows of the store, after a repair."""
        with self._lock:
            self._known = _KnownState("")

    def _committed(self, version: int) -> None:
        with self._lock:
            known = self._registered(version)
            if snapshot_due(known.rows, known.version - known.base_version, known.base_rows):
                self.table(version)  # writes one, unless another process has
                sweep(self.path / "temporary")
                self._known.registrations = None

    def _publish(self, path: Path, content: bytes) -> bool:
        return publish(path, self.path / "temporary", lambda stream: _write(stream, content))

    def _commits(self) -> CommitLog:
        return CommitLog(self.path / "log", self.identity)

    def _lost(self, version: int, error: OSError | DamagedError) -> DistributaryError:
        """Why what a version changed cannot be read, and what else cannot be told because of that."""
        newest = self.version()
        if version > newest:
            return DistributaryError(f"{self!r} has no version {version}; its versions are 0 to {newest}")
        path = self._commits().path(version)
        reason = f"{path} is missing" if isinstance(error, FileNotFoundError) else f"{error}"
        until = next(self._whole_from(version), newest + 1) - 1
        lost = f"what version {version} changed is lost"
        if until >= version:
            lost += f", and with it what was registered at versions {version} to {until}"
        return self._damaged(f"{reason}; {lost}")

    def _whole_from(self, version: int) -> Iterator[int]:
        """The versions from this one on, ascending, whose live set can be read without the log."""
        for known in sorted({*self._snapshots().versions(), *self.rescued().versions()}):
            if known >= version and self.base(known, [])[0] == known:
                yield known

    def _damaged(self, what: str) -> DamagedError:
        command = f"distributary subscriptions --store {self.path}"
        return DamagedError(
            f"{self!r} is damaged: {what}. Put back what is missing from a backup if there is one; "
            f"`{command} check` lists all damage, `{command} repair` goes on with what is whole"
        )

    def read_binding(self, path: Path, identity: str) -> int | None:
        """The version of a binding, in the store of that identity; None when there is none."""
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._damaged(f"{path} cannot be read: {error.strerror or error}") from None
        version = content.partition(b" ")[0]
        if version.isdigit() and content == _binding(path, identity, int(version[:20])):
            return int(version)
        batch, stream = int(path.name), unquote(path.parent.name)
        lost = f"which version batch {batch} of stream {stream!r} uses is lost"
        raise self._damaged(f"{path} is not what was written; {lost}")

    def _bindings(self, stream: str) -> Path:
        return self.path / "bound" / file_name(stream)

    def _failed(self, what: str, error: OSError) -> DistributaryError:
        return DistributaryError(f"{self!r} cannot be {what}: {error.strerror or error}")


@dataclass(slots=True)
class _KnownState:
    """What a process knows of the store of that identity."""

    identity: str
    newest: int = 0
    registrations: Registrations | None = None
    last_bound: tuple[str, int] | None = None


def file_name(stream: str) -> str:
    """A file name for any stream's name, different for different ones.

    >>> file_name("8f14e45f-ceea"), file_name("a/b"), file_name("..")
    ('8f14e45f-ceea', 'a%2Fb', '%2E%2E')
    """
    quoted = quote(stream, safe="", errors="surrogatepass").replace(".", "%2E")
    if len(quoted) <= 200:
        return quoted
    return f"{quoted[:100]}.{hashlib.sha256(quoted.encode()).hexdigest()}"


def _last(known: int, exists: Callable[[int], bool]) -> int:
    """The last of the numbers 1, 2, 3, ... that exist without a gap, given that `known` does.

    >>> _last(0, lambda number: number <= 37)
    37
    """
    step = 1
    while exists(known + step):
        known += step
        step *= 2
    while step > 1:
        step //= 2
        if exists(known + step):
            known += step
    return known


def _binding_path(directory: Path, batch: int) -> Path:
    return directory / f"{batch:020d}"


def _binding(path: Path, identity: str, version: int) -> bytes:
    """What the file of a binding holds: the version, and a checksum of all that makes the binding."""
    bound = f"{identity} {path.parent.name} {path.name} {version}"
    return f"{version} {crc32(bound.encode())}".encode()


def description(identity: str) -> bytes:
    """What store.json holds."""
    given = {"format": FORMAT, "identity": identity, "checksum": checksum_of(FORMAT, identity)}
    return json.dumps(given).encode()


def checksum_of(format: object, identity: str) -> int:
    """The checksum in store.json."""
    return crc32(f"{format} {identity}".encode(errors="surrogatepass"))


def _unchecked(identity: str) -> bytes:
    """What store.json held when nothing had checksums."""
    return json.dumps({"format": 1, "identity": identity}).encode()


def _write(stream: IO[bytes], content: bytes) -> None:
    stream.write(content)
