"""What the brokers of a network ask each other beside what their nodes say: what one retains, for another.

Rules:

- A question is about something that has a name. A broker answers what it serves (`serve`); one that does not
  serve it says so, and names the nodes that it is linked to, so that whoever asks can go on there.
- Questions and answers may get lost, as all that goes over links: whoever asks asks again, and an answer that
  is no longer waited for is dropped. So is one to a broker's life before this: numbers begin by chance.
- Nothing here waits or knows a socket.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from distributary.overlay.node import Address, Message, SendMessage

MOST_NAMED = 64
"""Nodes that an answer names."""

Reply = Callable[[Message], None]
"""Called once with the answer to a question, at once or later."""


class PeerQuestion(NamedTuple):
    """A broker asks another one."""

    number: int
    about: str
    what: Message


class PeerAnswer(NamedTuple):
    """What it is told."""

    number: int
    what: Message
    """None where the broker does not serve what the question is about."""
    linked: tuple[Address, ...]
    """The nodes that it is linked to, where it does not."""


class PeerRoom:
    """The questions of one broker, and its answers to those of others.

    >>> sent = []
    >>> room = PeerRoom(lambda to, message: sent.append(message), lambda: [3, 5])
    >>> room.serve("sums", lambda what, reply: reply(what + 1))
    >>> room.hear(PeerQuestion(1, "sums", 41), 3); room.hear(PeerQuestion(2, "names", 7), 3)
    >>> [(answer.what, answer.linked) for answer in sent]
    [(42, ()), (None, (3, 5))]
    """

    def __init__(self, send: SendMessage, linked: Callable[[], Sequence[Address]]) -> None:
        self._send, self._linked = send, linked
        self._served: dict[str, Callable[[Message, Reply], None]] = {}
        self._number = secrets.randbits(48)
        self._waiting: tuple[Address, Callable[[PeerAnswer], None]] | None = None
        """Who is to answer the last question, and who is told."""

    @property
    def linked(self) -> list[Address]:
        """The nodes to which there is a link now."""
        return list(self._linked())

    def serve(self, about: str, answer: Callable[[Message, Reply], None]) -> None:
        """Answer questions about something from now on."""
        self._served[about] = answer

    def ask(self, peer: Address, about: str, what: Message, told: Callable[[PeerAnswer], None]) -> None:
        """Ask a broker; `told` is called if it answers, unless another question is asked meanwhile."""
        self._number += 1
        self._waiting = peer, told
        self._send(peer, PeerQuestion(self._number, about, what))

    def hear(self, message: PeerQuestion | PeerAnswer, sender: Address) -> None:
        """A question or an answer has come."""
        if isinstance(message, PeerQuestion):
            answer = self._served.get(message.about)
            if answer is None:
                self._send(sender, PeerAnswer(message.number, None, tuple(self.linked[:MOST_NAMED])))
            else:
                answer(message.what, partial(self._reply, message.number, sender))
        elif self._waiting is not None and message.number == self._number and sender == self._waiting[0]:
            _, told = self._waiting
            self._waiting = None
            told(message)

    def _reply(self, number: int, sender: Address, what: Message) -> None:
        self._send(sender, PeerAnswer(number, what, ()))
