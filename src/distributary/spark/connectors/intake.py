"""What every way into a log has in common: who asks how far it has come, how full it is, what went wrong.

Rules for those who derive from `LogIntake`:

- Nothing is acknowledged before `MessageLog.append` has returned.
- While the log is full (`has_room`), nothing is appended or acknowledged: brokers keep what comes. Full is
  said of what Spark has not processed. What it has processed and not committed does not count: Spark commits
  a micro-batch when it begins the next one, and would never begin one if it waited for new messages.
- Whatever goes wrong in a thread is told to whoever asks for offsets (`fail`, `require_sound`).
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from typing import Any

from distributary.errors import DistributaryError
from distributary.spark.connectors.message_log import MessageLog

_log = logging.getLogger("distributary")


class LogIntake(ABC):
    """The part of an intake that knows nothing of the broker."""

    def __init__(self, log: MessageLog[Any], most_bytes: int, fail_on_loss: bool) -> None:
        self.log = log
        self.changed = threading.Condition()
        """Guards the log and all that follows."""
        self.failure: DistributaryError | None = None
        self._most_bytes, self._fail_on_loss = most_bytes, fail_on_loss
        self._processed = log.state.committed
        self._last_arrival = time.monotonic()

    def require_sound(self) -> None:
        """Raise what has gone wrong since."""
        if self.failure is not None:
            raise self.failure

    def fail(self, reason: str) -> None:
        """Something has gone wrong: nothing more is taken in."""
        with self.changed:
            self.failure = self.failure or DistributaryError(reason)
            self.changed.notify_all()

    def lost(self, reason: str) -> None:
        """Messages may be missing: tell it, or fail if that was asked for."""
        if self._fail_on_loss:
            self.fail(f'{reason}; it goes on when the query is started again, or with "failOnLoss" false')
        else:
            _log.warning("%s", reason)

    def arrived(self) -> None:
        """Something has come."""
        self._last_arrival = time.monotonic()

    @abstractmethod
    def start(self) -> None:
        """Connect and subscribe; returns when the broker has accepted both."""

    @abstractmethod
    def close(self) -> None:
        """End the connection, and the log's; what is subscribed to stays so at the broker."""

    @property
    @abstractmethod
    def waits(self) -> bool:
        """Whether something has come that is not in the log yet."""

    def has_room(self) -> bool:
        """Whether the log may take more."""
        return self.log.bytes_from(self._processed) < self._most_bytes

    def processed(self, offset: int) -> None:
        """Spark has processed everything before an offset."""
        with self.changed:
            self._processed = max(self._processed, offset)
            self.changed.notify_all()

    def commit(self, end: int) -> None:
        """Spark will not ask for anything before an offset."""
        with self.changed:
            self.log.commit(end)
        self.processed(end)

    def wait_until_quiet(self, seconds: float) -> int:
        """Wait until nothing has come for so long and all that came is in the log, or it is full; its end."""
        with self.changed:
            while self.failure is None:
                left = self._last_arrival + seconds - time.monotonic()
                if not self.has_room() or (left <= 0 and not self.waits):
                    break
                self.changed.wait(max(left, 0.05))
        self.require_sound()
        return self.log.end
