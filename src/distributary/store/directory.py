"""A subscription store in a directory: the default, with no server and no lock.

    store.json                   what this is, and the store's identity
    log/<version>.arrow          the changes of one commit, with the time of it
    bound/<stream>/<batch>       the version that a micro-batch uses
    workspace/snapshots/         the live set at some versions
    workspace/...                base indexes and whatever else can be made again
    temporary/                   files being written

A version exists when its file does; files of the log appear whole, one for each number and without gaps, and
stay (see `durable`). So the newest version is found by probing, from the last one known in doubling steps.
Works for processes of one machine and on a shared POSIX file system that has hard links.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

import pyarrow as pa

from distributary.errors import DistributaryError
from distributary.store.columns import read_table, write_table
from distributary.store.durable import make_directory, publish, sweep, synchronise
from distributary.store.registrations import NEEDED, Registrations
from distributary.store.snapshots import snapshot_due
from distributary.store.store import BINDINGS_KEPT, EPOCH, SubscriptionStore

FORMAT = 1
PARTS = ("store.json", "log", "bound", "workspace", "temporary")
PRUNE_EVERY = 256
"""Micro-batches between two prunings of a stream's bindings."""

COMMITTED = b"committed"


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
            described = json.loads((self.path / "store.json").read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            raise DistributaryError(
                f"there is no subscription store in {self.path}; make one with "
                f"`distributary subscriptions --store {self.path} add ...` or open_store(..., create=True)"
            ) from None
        if described["format"] != FORMAT:
            raise DistributaryError(
                f"{self!r} is of format {described['format']}; this version of distributary knows {FORMAT}"
            )
        return str(described["identity"])

    @property
    def workspace(self) -> Path:
        return self._given_workspace or self.path / "workspace"

    def create(self) -> None:
        if (self.path / "store.json").exists():
            return
        if self.path.is_dir() and (
            foreign := {entry.name for entry in self.path.iterdir()}.difference(PARTS)
        ):
            raise DistributaryError(
                f"{self.path} is no subscription store but holds {min(foreign)}; "
                "name an empty directory or a new one"
            )
        try:
            for part in PARTS[1:]:
                make_directory(self.path / part)
            described = json.dumps({"format": FORMAT, "identity": uuid.uuid4().hex}).encode()
            self._publish(self.path / "store.json", described)
        except OSError as error:
            raise self._failed("made", error) from error

    def version(self) -> int:
        identity = self.identity
        with self._lock:
            if identity != self._known.identity:
                self._known = _KnownState(identity)
            known = self._known
            known.newest = _last(known.newest, lambda version: self._commit_path(version).exists())
            return known.newest

    def committed(self, version: int) -> datetime:
        if version < 1:
            raise DistributaryError(f"version {version} was never committed; the first is 1")
        try:
            with pa.memory_map(str(self._commit_path(version))) as source:
                metadata = pa.ipc.open_file(source).schema.metadata
        except FileNotFoundError:
            raise DistributaryError(f"{self!r} has no version {version}") from None
        return EPOCH + timedelta(microseconds=int(metadata[COMMITTED]))

    def log(self, after: int, upto: int, columns: list[str] | None = None) -> Iterator[tuple[int, pa.Table]]:
        for version in range(after + 1, upto + 1):
            try:
                table = read_table(self._commit_path(version), columns)
            except FileNotFoundError:
                raise DistributaryError(f"{self!r} has no version {version}") from None
            yield version, table.replace_schema_metadata()

    def bind(self, stream: str, batch: int) -> int:
        path = self._bindings(stream) / f"{batch:020d}"
        version = _read_binding(path)
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
        if not self._publish(path, str(version).encode()):
            version = int(path.read_bytes())
        if batch % PRUNE_EVERY == 0:
            for old in sorted(path.parent.iterdir())[:-BINDINGS_KEPT]:
                old.unlink(missing_ok=True)
        return version

    def bound(self, stream: str) -> dict[int, int]:
        _ = self.identity
        directory = self._bindings(stream)
        if not directory.is_dir():
            return {}
        read = {int(path.name): _read_binding(path) for path in sorted(directory.iterdir())}
        return {batch: version for batch, version in read.items() if version is not None}

    def compact(self) -> int:
        version = super().compact()
        sweep(self.path / "temporary")
        with self._lock:
            self._known.registrations = None
        return version

    def _refuse_pruned(self, stream: str, batch: int) -> None:
        directory = self._bindings(stream)
        kept = sorted(int(path.name) for path in directory.iterdir()) if directory.is_dir() else []
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
            registrations = Registrations(*self._snapshots().newest(version, ["id", "serial"]))
            self._known.registrations = registrations
        registrations.advance(self.log(registrations.version, version, NEEDED))
        return registrations

    def _append(self, version: int, changes: pa.Table, committed: int) -> bool:
        stamped = changes.replace_schema_metadata({COMMITTED: str(committed).encode()})
        path = self._commit_path(version)
        if path.exists():
            return False
        try:
            return publish(path, self.path / "temporary", lambda stream: write_table(stamped, stream))
        except OSError as error:
            raise self._failed("written", error) from error

    def _committed(self, version: int) -> None:
        with self._lock:
            known = self._registered(version)
            if snapshot_due(known.rows, known.version - known.base_version, known.base_rows):
                self.table(version)  # writes one, unless another process has
                sweep(self.path / "temporary")
                self._known.registrations = None

    def _publish(self, path: Path, content: bytes) -> bool:
        return publish(path, self.path / "temporary", lambda stream: _write(stream, content))

    def _commit_path(self, version: int) -> Path:
        return self.path / "log" / f"{version:020d}.arrow"

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
    if not stream:
        raise DistributaryError("a stream needs a name, such as the id of its query")
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


def _read_binding(path: Path) -> int | None:
    try:
        return int(path.read_bytes())
    except FileNotFoundError:
        return None


def _write(stream: IO[bytes], content: bytes) -> None:
    stream.write(content)
