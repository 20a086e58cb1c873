"""What a node keeps on its disk: values by name, in a directory of its own, in SQLite.

Rules:

- A value is safe when the transaction that writes it is on the disk (WAL mode, synchronous=FULL). Whatever
  gathers while one transaction is written is the next one, so that many values cost one flush. Transactions
  are written in a thread, in the order in which the values were given; the event loop never waits for a disk.
- Every value has a checksum of its name and its bytes (those of `codec`), and the sum of all checksums is
  written with every transaction. So a value that is changed, missing or too many is noticed on opening, and
  so is a write-ahead log with a hole (`write_ahead`): what is not whole is set aside, with the reason and
  what to do, and never used in part. What a crash has torn off was not safe, and is as if never written.
- One process has a directory at a time; another is told which one.
- A disk that is full or fails is told once (`on_failure`). Nothing is safe any more then: whoever keeps this
  journal stops, and starts again from what was safe. Full means that less than `LEAST_ROOM` is left, which is
  looked at before each transaction: the files have room of their own that SQLite uses again, and without that
  rule a journal would find out at any later time, or never, as its luck is.

Cost of a transaction: a flush, 0.4 ms on a solid-state disk. Opening reads and checks everything.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from io import FileIO
from pathlib import Path
from typing import NamedTuple

from distributary.errors import DamagedError, DistributaryError, quoted
from distributary.live.codec import CodecError, decode, encode
from distributary.live.node_name import claim_data
from distributary.live.write_ahead import safe_frames_lost
from distributary.overlay.node import Message, Store

FILE, WRITE_AHEAD, LOCK = "journal.sqlite", "journal.sqlite-wal", "lock"
FORMAT = 1
"""The version of the tables."""
CHECKSUM_BYTES = 16
MOST_WAITING = 16 << 20
"""Bytes that are not safe yet, beyond which a journal is congested."""
LONGEST_LOG = 16 << 20
"""Bytes that the file of the write-ahead log keeps once it was emptied."""
LEAST_ROOM = 4 << 20
"""Bytes that must be free on the disk: as many as SQLite copies from the write-ahead log at a time."""

_TABLES = (
    "CREATE TABLE stored (name TEXT PRIMARY KEY, checksum BLOB NOT NULL, value BLOB NOT NULL)",
    "CREATE TABLE total (checksum BLOB NOT NULL)",
    f"INSERT INTO total VALUES (zeroblob({CHECKSUM_BYTES}))",
    f"PRAGMA user_version = {FORMAT}",
)
_PUT = (
    "INSERT INTO stored VALUES (?, ?, ?)"
    " ON CONFLICT (name) DO UPDATE SET checksum = excluded.checksum, value = excluded.value"
)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class _Write(NamedTuple):
    """Values in bytes, to be written together, and what is to be done when they are safe."""

    rows: list[tuple[str, bytes | None]]
    size: int
    then: Callable[[], None]


class Journal:
    """The disk of one node.

    >>> import tempfile
    >>> from distributary.model import EventKey
    >>> directory = Path(tempfile.mkdtemp())
    >>> async def store() -> None:
    ...     journal, safe = Journal(directory, print), asyncio.Event()
    ...     print(journal.open())
    ...     journal.write([Store("last", EventKey("ann", "e1"))], safe.set)
    ...     await safe.wait()
    ...     await journal.close()
    >>> asyncio.run(store())
    {}
    >>> journal = Journal(directory, print)
    >>> journal.open()
    {'last': EventKey(source='ann', id='e1')}
    >>> asyncio.run(journal.close())
    """

    def __init__(self, directory: Path, on_failure: Callable[[DistributaryError], None]) -> None:
        self.directory = directory
        self._on_failure = on_failure
        self._lock: FileIO | None = None
        self._database: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(1, "journal")
        self._gathered: list[_Write] = []
        self._writing: asyncio.Future[None] | None = None
        self._over = False
        self._waiting = 0
        self._checksums: dict[str, int] = {}
        """The checksum of every value; only the thread changes them once the journal is open."""
        self._total = 0

    # Opening and closing.

    def open(self, owner: str | None = None) -> dict[str, Message]:
        """What is stored, by name, in the order in which the names were first stored; for a node of a name.

        DamagedError when it is not what was written: the files have been set aside, and opening again begins
        with nothing. DistributaryError when the directory is in use, cannot be used, or holds what this
        version cannot read, or is another node's; then nothing is changed.
        """
        try:
            if self.directory.exists() and not self.directory.is_dir():
                raise DistributaryError(f"{self.directory} is no directory: name one for the node's data")
            self.directory.mkdir(parents=True, exist_ok=True)
            self._take_lock()
            stored = self._read()
            self._require_one_more_write()
            if owner is not None:
                claim_data(self.directory, owner)
        except OSError as error:
            self._release()
            raise DistributaryError(f"{self.directory} cannot be used: {error.strerror}") from error
        except sqlite3.Error as error:
            reason = f"{self.directory / FILE} cannot be opened: {error}"
            self._release()
            raise DistributaryError(reason) from error
        except BaseException:
            self._release()
            raise
        return stored

    async def close(self) -> None:
        """Let the transaction under way end, and leave the directory; what waits is not written."""
        self._over = True
        if self._writing is not None:
            await asyncio.wait([self._writing])
        self._thread.shutdown()
        self._release()

    def _take_lock(self) -> None:
        lock = open(self.directory / LOCK, "ab+", buffering=0)  # noqa: SIM115
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            other = lock.read().decode(errors="replace").strip() or "another"
            lock.close()
            raise DistributaryError(
                f"{self.directory} is in use by process {other}: give each node a directory of its own"
            ) from None
        self._lock = lock
        lock.truncate(0)
        lock.write(b"%d\n" % os.getpid())

    def _release(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    # Reading.

    def _read(self) -> dict[str, Message]:
        self._require_whole_files()
        database = self._database = sqlite3.connect(
            self.directory / FILE, isolation_level=None, check_same_thread=False, timeout=0
        )
        database.text_factory = bytes  # a damaged text need not be one
        try:
            for setting in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL"):
                database.execute(f"PRAGMA {setting}").fetchall()
            database.execute(f"PRAGMA journal_size_limit = {LONGEST_LOG}").fetchall()
            self._make_tables(database)
            self._require_whole_pages(database)
            rows = database.execute("SELECT name, checksum, value FROM stored ORDER BY rowid").fetchall()
            total = database.execute("SELECT checksum FROM total").fetchall()
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED:
                raise self._damaged(str(error)) from error
            raise
        return self._checked(rows, total)

    def _require_whole_files(self) -> None:
        """What SQLite would take for an empty database, or for one of before, without a word."""
        write_ahead = self.directory / WRITE_AHEAD
        if not write_ahead.exists() or write_ahead.stat().st_size == 0:
            return
        file = self.directory / FILE
        if not file.exists() or file.stat().st_size == 0:
            raise self._damaged(f"there is a {WRITE_AHEAD} without it")
        if safe_frames_lost(write_ahead):
            raise self._damaged(f"{WRITE_AHEAD} has a hole")

    def _make_tables(self, database: sqlite3.Connection) -> None:
        [(version,)] = database.execute("PRAGMA user_version").fetchall()
        if version == FORMAT:
            return
        if version > FORMAT:
            raise DistributaryError(
                f"{self.directory / FILE} is of a later version ({version}) than this one reads ({FORMAT}):"
                " start the version of Distributary that wrote it"
            )
        if (self.directory / FILE).stat().st_size > self._page_size(database):
            raise self._damaged("its tables are missing")
        database.execute("BEGIN IMMEDIATE")
        for statement in _TABLES:
            database.execute(statement)
        database.execute("COMMIT")
        # From now on a file without tables is a damaged one, whatever becomes of the write-ahead log.
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    @staticmethod
    def _page_size(database: sqlite3.Connection) -> int:
        [(size,)] = database.execute("PRAGMA page_size").fetchall()
        return int(size)

    def _require_whole_pages(self, database: sqlite3.Connection) -> None:
        [(first,), *_] = database.execute("PRAGMA quick_check(1)").fetchall()
        if first != b"ok":
            raise self._damaged(first.decode(errors="replace").replace("\n", " "))

    def _checked(self, rows: list[tuple[object, ...]], total: list[tuple[object]]) -> dict[str, Message]:
        kept: dict[str, bytes] = {}
        for name, checksum, value in rows:
            if not (isinstance(name, bytes) and isinstance(value, bytes)):
                raise self._damaged("a value has no name or no bytes")
            text = name.decode(errors="replace")
            self._checksums[text] = checksum_of(text, value)
            if _bytes(self._checksums[text]) != checksum:
                raise self._damaged(f"the value of {quoted(text)} is not what was written")
            kept[text] = value
        self._total = sum(self._checksums.values()) % (1 << 8 * CHECKSUM_BYTES)
        if total != [(_bytes(self._total),)]:
            raise self._damaged("values are missing or too many")
        return {name: self._decoded(name, value) for name, value in kept.items()}

    def _decoded(self, name: str, value: bytes) -> Message:
        try:
            return decode(value)
        except CodecError as error:
            raise DistributaryError(
                f"{self.directory / FILE} holds {quoted(name)}, which this version cannot read ({error}):"
                " start the version of Distributary that wrote it"
            ) from error

    def _damaged(self, what: str) -> DamagedError:
        """Set the files aside, so that they are not used."""
        number = 1
        while (aside := self.directory / f"damaged-{number}").exists():
            number += 1
        aside.mkdir()
        for name in (FILE, WRITE_AHEAD):
            if (self.directory / name).exists():
                (self.directory / name).rename(aside / name)
        return DamagedError(
            f"{self.directory / FILE} is damaged: {what}; it was set aside in {aside}. Start the node again,"
            " and it begins as one that has lost its disk, with what the other nodes have"
        )

    def _require_one_more_write(self) -> None:
        """A disk that is full or must not be written is told now, and not by the first client's request."""
        database = self._database
        assert database is not None
        try:
            self._require_room()
        except DistributaryError as error:
            raise DistributaryError(
                f"{self.directory / FILE} cannot be written: {error}; make room, and start the node again"
            ) from None
        # SQLite writes nothing where a value becomes what it was, so the row is made anew.
        database.execute("BEGIN IMMEDIATE")
        database.execute("DELETE FROM total")
        database.execute("INSERT INTO total VALUES (?)", (_bytes(self._total),))
        database.execute("COMMIT")

    def _require_room(self) -> None:
        disk = os.statvfs(self.directory)
        left = disk.f_bavail * disk.f_frsize
        if disk.f_blocks and left < LEAST_ROOM:  # some file systems do not say how large they are
            raise DistributaryError(
                f"its disk is full ({left >> 10:,} KB are left, and a node needs {LEAST_ROOM >> 10:,})"
            )

    # Writing.

    @property
    def congested(self) -> bool:
        """Whether so much waits for the disk that nobody should give more."""
        return self._waiting > MOST_WAITING

    def write(self, stores: Sequence[Store], then: Callable[[], None]) -> None:
        """Have values written, and `then` called in the event loop when they are safe, in the order given.

        After a failure nothing is written any more, and nobody is told that it was.
        """
        if self._over:
            return
        try:
            rows = [(name, None if value is None else encode(value)) for name, value in stores]
        except CodecError as error:
            self._fail(error)
            return
        size = sum(len(name) + len(value or b"") for name, value in rows)
        self._waiting += size
        self._gathered.append(_Write(rows, size, then))
        if self._writing is None and len(self._gathered) == 1:
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        """Write what has gathered, as one transaction."""
        if self._over:
            return
        writes, self._gathered = self._gathered, []
        rows = [row for write in writes for row in write.rows]
        self._writing = asyncio.get_running_loop().run_in_executor(self._thread, self._commit, rows)
        self._writing.add_done_callback(lambda written: self._written(written, writes))

    def _written(self, written: asyncio.Future[None], writes: list[_Write]) -> None:
        self._writing = None
        error = written.exception()
        if error is not None:
            self._fail(error)
            return
        for write in writes:
            self._waiting -= write.size
            write.then()
        if self._gathered:
            self._begin()

    def _fail(self, error: BaseException) -> None:
        if self._over:
            return
        self._over = True
        self._on_failure(
            DistributaryError(
                f"{self.directory / FILE} cannot be written: {error}. Nothing is accepted here any more, and"
                " what was acknowledged is safe: make room or mend the disk, and start the node again"
            )
        )

    def _commit(self, rows: list[tuple[str, bytes | None]]) -> None:
        """Write a transaction; runs in the thread."""
        database = self._database
        assert database is not None
        self._require_room()
        database.execute("BEGIN IMMEDIATE")
        try:
            for name, value in rows:
                before = self._checksums.pop(name, 0) if value is None else self._checksums.get(name, 0)
                self._total -= before
                if value is None:
                    database.execute("DELETE FROM stored WHERE name = ?", (name,))
                else:
                    after = self._checksums[name] = checksum_of(name, value)
                    self._total += after
                    database.execute(_PUT, (name, _bytes(after), value))
            self._total %= 1 << 8 * CHECKSUM_BYTES
            database.execute("UPDATE total SET checksum = ?", (_bytes(self._total),))
            database.execute("COMMIT")
        except sqlite3.Error:
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise


def checksum_of(name: str, value: bytes) -> int:
    """The checksum of a value under its name."""
    text = name.encode(errors="surrogatepass")
    found = blake2b(b"%d:%b" % (len(text), text), digest_size=CHECKSUM_BYTES)
    found.update(value)
    return int.from_bytes(found.digest(), "big")


def _bytes(checksum: int) -> bytes:
    return checksum.to_bytes(CHECKSUM_BYTES, "big")
