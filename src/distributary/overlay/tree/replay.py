"""Reads the root's log from a place on: how a client that was away is given what it has missed.

Rules:

- The root answers, as it alone has everything. It sends what matches, in parts, each with the number up to
  which nothing else matches; the reader asks for the next part until there is no more.
- A place of an earlier epoch stands for the last number up to which both logs are the same.
- What is not answered is asked again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from distributary.model import Offset
from distributary.overlay.node import Address
from distributary.overlay.tree.events import first_part
from distributary.overlay.tree.interest import Interest
from distributary.overlay.tree.messages import LogReply, LogRequest
from distributary.overlay.tree.state import TreeState


@dataclass
class _Reading:
    """A part of the log that has been asked for."""

    interest: Interest
    place: Offset
    take: Callable[[LogReply], None]
    asked: float


class LogReader:
    """Asks the root for parts of its log, and answers as the root."""

    def __init__(self, state: TreeState) -> None:
        self._node, self._root, self._log = state.node, state.root, state.log
        self._asked = 0
        self._readings: dict[int, _Reading] = {}

    def read(self, interest: Interest, place: Offset, take: Callable[[LogReply], None]) -> None:
        """Have `take` called with every part of the log after a place, in order; the last has no more."""
        self._asked += 1
        self._readings[self._asked] = reading = _Reading(interest, place, take, self._node.now)
        self._ask(self._asked, reading)

    def ask_again(self, after: float) -> None:
        """Ask again for what has not been answered for so many seconds."""
        for number, reading in list(self._readings.items()):
            if self._node.now - reading.asked > after:
                self._ask(number, reading)

    def _ask(self, number: int, reading: _Reading) -> None:
        reading.asked = self._node.now
        self._root.send(LogRequest(self._node.address, number, *reading.place, reading.interest))

    def serve(self, message: LogRequest, sender: Address) -> None:
        """Answer with the first part of what is asked for, as the root; forward it as any other node."""
        log, term = self._log, self._root.term
        if not self._root.is_root or term is None:
            self._root.forward(message)
            return
        after = min(term.place_of(message.epoch, message.after), log.position)
        found = log.between(message.interest, after, log.position)
        part = first_part(found)
        more = len(part) < len(found)
        through = part[-1][0] if more else log.position
        stamps = (message.number, log.epoch, after, through)
        reply = LogReply(*stamps, part, log.floor, more)
        if message.node == self._node.address:
            self._node.dispatch(reply, message.node)
        else:
            self._node.send(message.node, reply)

    def take(self, message: LogReply, sender: Address) -> None:
        """Take a part of the log, and ask for the next."""
        reading = self._readings.pop(message.number, None)
        if reading is None:
            return
        reading.take(message)
        if message.more:
            self.read(reading.interest, Offset(message.epoch, message.through), reading.take)
