"""One run a checkpoint: a second one is refused, and told on which host and in which process the first is.

Two runs on one checkpoint would do every micro-batch twice and write over each other. So a run owns its
checkpoint by the file `<checkpoint>/owner.json`, which says who it is:

- On a file system of this machine the file is locked as long as the process lives, however it ends.
- Elsewhere (`hdfs://`, `s3://`), where nothing can be locked, the owner writes the file again every few
  seconds; one that has not been written for a minute belongs to nobody. Two runs that start within the same
  instant are not told apart there.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from distributary.errors import DistributaryError
from distributary.spark import storage
from distributary.spark.pipeline.writable import local_path

try:
    import fcntl
except ImportError:  # no such locks on Windows
    fcntl = None  # type: ignore[assignment]

RENEWED_EVERY = 10.0
"""Seconds after which an owner that cannot lock its file writes it again."""
FORGOTTEN = timedelta(seconds=60)
"""After this time without a sign an owner that could not lock its file is taken to be gone."""

_log = logging.getLogger("distributary")


@dataclass(frozen=True, slots=True)
class CheckpointOwner:
    """The process that runs a pipeline on a checkpoint."""

    host: str
    pid: int
    since: str
    """When it began, in ISO 8601."""
    seen: str
    """When it last gave a sign."""

    @classmethod
    def here(cls) -> CheckpointOwner:
        """This process, now."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(socket.gethostname(), os.getpid(), now, now)

    def to_json(self) -> str:
        """What stands in the file."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> CheckpointOwner | None:
        """The owner that the text of a file names; None if it names none."""
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError):
            return None


@contextmanager
def owning(checkpoint: str) -> Iterator[None]:
    """Own a checkpoint as long as the context lasts; `DistributaryError` if another process owns it."""
    place = f"{checkpoint}/owner.json"
    local = local_path(place)
    owned = _renewed(place, checkpoint) if local is None or fcntl is None else _locked(local, checkpoint)
    with owned:
        yield


@contextmanager
def _locked(path: Path, checkpoint: str) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            raise _refused(checkpoint, CheckpointOwner.from_json(file.read())) from None
        file.seek(0)
        file.truncate()
        file.write(CheckpointOwner.here().to_json())
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


@contextmanager
def _renewed(place: str, checkpoint: str) -> Iterator[None]:
    mine = CheckpointOwner.here()
    with suppress(FileNotFoundError):
        other = CheckpointOwner.from_json(storage.read_text(place))
        if other is not None and datetime.now(UTC) - datetime.fromisoformat(other.seen) < FORGOTTEN:
            raise _refused(checkpoint, other)
    storage.write_atomically(place, mine.to_json())
    done = threading.Event()

    def renew() -> None:
        while not done.wait(RENEWED_EVERY):
            now = datetime.now(UTC).isoformat(timespec="seconds")
            sign = CheckpointOwner(mine.host, mine.pid, mine.since, now)
            try:
                storage.write_atomically(place, sign.to_json())
            except Exception as error:
                _log.warning("%s could not be renewed, which will be tried again: %s", place, error)

    renewing = threading.Thread(target=renew, name="owner", daemon=True)
    renewing.start()
    try:
        yield
    finally:
        done.set()
        renewing.join()
        storage.write_atomically(place, "")


def _refused(checkpoint: str, owner: CheckpointOwner | None) -> DistributaryError:
    who = "another process"
    if owner is not None:
        who = f"process {owner.pid} on {owner.host}, since {owner.since}"
    return DistributaryError(
        f"the checkpoint {checkpoint} is in use by {who}: two runs would do every batch twice. Stop that one "
        "first, or give this pipeline a checkpoint and outputs of its own"
    )
